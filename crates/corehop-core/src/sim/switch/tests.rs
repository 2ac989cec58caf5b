// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches on small machines: what can be computed by hand, and what must hold on each.

use super::*;
use crate::experiment::{CoreSwitch, Experiment};
use crate::machine::rows_of;
use crate::platform::Fact;
use crate::samples::SwitchBatch;
use crate::sim::SimMachine;

/// One timed call of each mechanism in each layout.
fn rows(platform: &Platform, seed: u64, layouts: u32) -> Vec<SwitchBatch> {
    let experiment = CoreSwitch::one_call(SwitchMechanism::ALL[..6].to_vec(), layouts);
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
    rows.iter().find(|row| row.mechanism == mechanism).unwrap().mean_ns
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
    use SwitchMechanism::{None, V1, V2, V3, V4};
    for id in ["m5_cc", "m5_cs", "m5_ss", "m5_cs_slow"] {
        let rows = rows(&named(id), 3, 4);
        for replicate in 0..4 {
            let of = |mechanism| {
                let is = |row: &&SwitchBatch| {
                    row.replicate == Some(replicate) && row.mechanism == mechanism
                };
                rows.iter().find(is).unwrap().mean_ns
            };
            let ladder = [None, V4, V3, V2, V1].map(of);
            assert!(ladder.is_sorted_by(|less, more| less < more), "{id}: {ladder:?}");
        }
    }
}

#[test]
fn cores_that_share_less_pay_more_for_what_the_other_core_wrote() {
    let v4 = |id| call(&named(id), SwitchMechanism::V4);
    assert!(v4("m5_cc") < v4("m5_cs") && v4("m5_cs") < v4("m5_ss"));
}

#[test]
fn a_wake_up_is_paid_twice_by_those_who_wait_for_it_and_not_by_one_who_polls() {
    let longer = |mechanism, cycles| {
        call(&awake_after("m5_cs", cycles), mechanism) - call(&named("m5_cs"), mechanism)
    };
    // 900 cycles at 3 GHz, on the way there and on the way back.
    for mechanism in [SwitchMechanism::V1, SwitchMechanism::V2, SwitchMechanism::V3] {
        assert!((longer(mechanism, 900) - 600.0).abs() < 0.5, "{mechanism}");
    }
    assert!(longer(SwitchMechanism::V4, 900).abs() < 1e-9);
    // The wake-up of V5 overlaps the hand-over: hidden whole, or in part.
    assert!(longer(SwitchMechanism::V5, 10).abs() < 1e-9);
    let rest = longer(SwitchMechanism::V5, 100_000);
    assert!(rest > 0.0 && rest < longer(SwitchMechanism::V3, 100_000), "{rest}");
}

#[test]
fn a_seed_fixes_every_time_and_another_seed_lays_the_code_elsewhere() {
    let platform = named("m5_ss");
    assert_eq!(rows(&platform, 7, 3), rows(&platform, 7, 3));
    let times = |seed| rows(&platform, seed, 3).iter().map(|row| row.mean_ns).collect::<Vec<_>>();
    assert_ne!(times(7), times(8));
}
