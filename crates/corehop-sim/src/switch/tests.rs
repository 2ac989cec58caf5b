// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches on small machines: what can be computed by hand, and what must hold on each.

use super::*;
use crate::SimMachine;
use corehop_plan::experiment::{CoreSwitch, Experiment};
use corehop_plan::machine::rows_of;
use corehop_plan::platform::Fact;
use corehop_plan::platform::observed::Exchange;
use corehop_plan::samples::SwitchBatch;

/// Returns one timed call of each mechanism in each layout.
fn rows(platform: &Platform, seed: u64, layouts: u32) -> Vec<SwitchBatch> {
    let experiment = CoreSwitch::one_call(
        SwitchMechanism::ALL.iter().copied().filter(|it| !it.is_live_only()).collect(),
        layouts,
    );
    let plan = experiment.replicated(platform, seed, layouts).unwrap();
    rows_of(&mut SimMachine::new(platform.clone()).unwrap(), &plan).unwrap().switches
}

fn named(id: &str) -> Platform {
    Platform::named(id).unwrap().unwrap()
}

fn awake_after(id: &str, cycles: u64) -> Platform {
    let mut platform = named(id);
    platform.core.wake_up = Some(Fact::assumed(Latency::cycles(cycles), "a test"));
    platform
}

/// The time of a call by a mechanism in the first layout.
fn call(platform: &Platform, mechanism: SwitchMechanism) -> f64 {
    let rows = rows(platform, 1, 1);
    rows.iter().find(|row| row.mechanism == mechanism).unwrap().mean_ns.unwrap()
}

#[test]
fn a_call_that_stays_takes_its_instructions_where_all_it_uses_is_in_the_first_level() {
    // 3 GHz and one instruction a cycle; code of 20 lines, one stack.
    let alone = f64::from(PATHS[CALL].instructions) / 3.0;
    let measured = call(&named("m5_cs"), SwitchMechanism::None);
    assert!((measured - alone).abs() < 0.01 * alone, "{measured} and {alone}");
}

#[test]
fn each_mechanism_does_more_than_the_next_in_every_layout_of_the_code() {
    use SwitchMechanism::{None, StrongV1, StrongV2, StrongV3, StrongV4};
    for id in ["m5_cc", "m5_cs", "m5_ss", "m5_cs_slow"] {
        let rows = rows(&named(id), 3, 4);
        for replicate in 0..4 {
            let of = |mechanism| {
                let is = |row: &&SwitchBatch| {
                    row.replicate == Some(replicate) && row.mechanism == mechanism
                };
                rows.iter().find(is).unwrap().mean_ns.unwrap()
            };
            let ladder = [None, StrongV4, StrongV3, StrongV2, StrongV1].map(of);
            assert!(ladder.is_sorted_by(|less, more| less < more), "{id}: {ladder:?}");
        }
    }
}

#[test]
fn cores_that_share_less_pay_more_for_what_the_other_core_wrote() {
    let v4 = |id| call(&named(id), SwitchMechanism::StrongV4);
    assert!(v4("m5_cc") < v4("m5_cs") && v4("m5_cs") < v4("m5_ss"));
}

#[test]
fn a_wake_up_is_paid_twice_by_those_who_wait_for_it_and_not_by_one_who_polls() {
    let longer = |mechanism, cycles| {
        call(&awake_after("m5_cs", cycles), mechanism) - call(&named("m5_cs"), mechanism)
    };
    // 900 cycles at 3 GHz, on the way there and on the way back.
    for mechanism in
        [SwitchMechanism::StrongV1, SwitchMechanism::StrongV2, SwitchMechanism::StrongV3]
    {
        assert!((longer(mechanism, 900) - 600.0).abs() < 0.5, "{mechanism}");
    }
    assert!(longer(SwitchMechanism::StrongV4, 900).abs() < 1e-9);
    // The wake-up of V5 overlaps the hand-over: hidden whole, or in part.
    assert!(longer(SwitchMechanism::StrongV5, 10).abs() < 1e-9);
    let rest = longer(SwitchMechanism::StrongV5, 100_000);
    assert!(rest > 0.0 && rest < longer(SwitchMechanism::StrongV3, 100_000), "{rest}");
}

#[test]
fn a_seed_fixes_every_time_and_another_seed_lays_the_code_elsewhere() {
    let platform = named("m5_ss");
    assert_eq!(rows(&platform, 7, 3), rows(&platform, 7, 3));
    let times = |seed| rows(&platform, seed, 3).iter().map(|row| row.mean_ns).collect::<Vec<_>>();
    assert_ne!(times(7), times(8));
}

/// The machine with a line exchange of 50 ns between CPUs 0 and 1, a system call of 80 ns, and a wake-up by futex of 9 us.
fn measured() -> Platform {
    let mut platform = named("epyc_7313");
    let exchange = |from, to| Exchange {
        from: Cpu(from),
        to: Cpu(to),
        min: Latency::Picos(49_000),
        median: Latency::Picos(50_000),
        batches: 1,
    };
    platform.exchange = Some(Fact::assumed(vec![exchange(0, 1), exchange(1, 0)], "a test"));
    platform.core.system_call = Some(Fact::assumed(Latency::Picos(80_000), "a test"));
    platform.core.futex_wake = Some(Fact::assumed(Latency::Picos(9_000_000), "a test"));
    platform
}

#[test]
fn the_library_s_mechanisms_take_line_exchanges_and_wake_ups_and_nothing_of_the_kernel_of_2009() {
    use SwitchMechanism::{None, StrongV4, V1, V2, V3, V4, V5};
    let platform = measured();
    let of = |mechanism| call(&platform, mechanism);
    assert!((of(None) - 80.0).abs() < 1e-9);
    // There and back: an exchange of 50 ns and some instructions each.
    assert!((180.0..240.0).contains(&of(V4)), "{}", of(V4));
    assert!((of(V4)..260.0).contains(&of(V5)), "{}", of(V5));
    for mechanism in [V1, V2, V3] {
        assert!((18_080.0..22_000.0).contains(&of(mechanism)), "{mechanism}: {}", of(mechanism));
    }
    assert!(of(StrongV4) > 4.0 * of(V4), "{}", of(StrongV4));
    // Without a measured one, the exchange is that of the simulated caches.
    let simulated = call(&Platform { exchange: Option::None, ..platform.clone() }, V4);
    assert!((of(V4) / 3.0..3.0 * of(V4)).contains(&simulated), "{simulated}");
}

#[test]
fn without_a_stated_wake_up_what_wakes_is_unknown_and_what_polls_is_not() {
    let mut platform = measured();
    platform.core.futex_wake = None;
    platform.core.wake_up = None;
    for row in rows(&platform, 1, 1) {
        use SwitchMechanism::{V1, V2, V3};
        let wakes = matches!(row.mechanism, V1 | V2 | V3);
        assert_eq!(row.mean_ns.is_none(), wakes, "{row:?}");
        assert_eq!(row.valid, !wakes, "{row:?}");
        let why = row.not_measured.unwrap_or_default();
        assert_eq!(why.contains("measure platform"), wakes, "{why}");
    }
    platform.core.wake_up = Some(Fact::assumed(Latency::Picos(5_000_000), "a test"));
    assert!(call(&platform, SwitchMechanism::V3) > 10_000.0);
}
