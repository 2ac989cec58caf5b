// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of off-loading on the simulated machine.

use super::*;

fn named(name: &str) -> Platform {
    Platform::named(name).unwrap().unwrap()
}

fn load(os_cores: &str, mechanism: SwitchMechanism, threads: u32) -> OffLoadWorkload {
    let (compute, call) = (Nanos::from_micros(10), Nanos::from_micros(5));
    let os_cores = os_cores.parse().unwrap();
    OffLoadWorkload {
        os_cores,
        mechanism,
        threads,
        compute,
        call,
        misses: false,
        steady: false,
        after: CallAftermath::default(),
        time: Nanos::from_millis(30),
        seed: 7,
    }
}

fn arm(platform: &Platform, load: &OffLoadWorkload, arm: OffLoadArm) -> OffLoaded {
    let switches = SwitchLatencies::simulate(platform, load).unwrap();
    off_load(platform, load, &switches, arm).unwrap()
}

fn run(platform: &Platform, load: &OffLoadWorkload, flags: Flags) -> OffLoaded {
    arm(platform, load, OffLoadArm::Policy(flags))
}

#[test]
fn one_thread_that_stays_takes_the_time_of_its_parts() {
    let outcome =
        arm(&named("m5_ccss"), &load("2-3", SwitchMechanism::StrongV4, 1), OffLoadArm::Bound);
    // Means of 2,000 exponential draws: within a tenth.
    assert!((4.5..5.5).contains(&outcome.mean_us), "{outcome:?}");
    assert!((60_000.0..73_500.0).contains(&outcome.calls_per_second), "{outcome:?}");
    assert!(outcome.there <= 0.0, "{outcome:?}");
    // The other application core does nothing at all, and this one has no pause.
    assert!((outcome.quiet - 0.5).abs() < 1e-9, "{outcome:?}");
}

#[test]
fn one_thread_that_switches_pays_both_switches_and_frees_its_core_meanwhile() {
    let platform = named("m5_cccc");
    let mut load = load("2-3", SwitchMechanism::StrongV3, 1);
    let switches = SwitchLatencies::simulate(&platform, &load).unwrap();
    let of = |arm| off_load(&platform, &load, &switches, arm).unwrap();
    let (stays, goes) = (of(OffLoadArm::Bound), of(OffLoadArm::Policy(Flags::AFFINITY)));
    // All cores are alike: a call takes its own time and both switches; the last of 2,000 draws are beyond the time.
    let both = (switches.times[0][2] + switches.times[2][0]) as f64 / 1e6;
    assert!((goes.mean_us - stays.mean_us - both).abs() < 0.1, "{goes:?} {stays:?} {both}");
    let [there, back] = switches.mean_us(&load.os_cores);
    assert!((there + back - both).abs() < 0.05, "{there} {back} {both}");
    assert!(goes.there >= 1.0, "{goes:?}");
    assert!(goes.quiet > 0.6, "{goes:?}");
    load.mechanism = SwitchMechanism::StrongV4;
    assert!(run(&platform, &load, Flags::AFFINITY).quiet <= 0.0, "it polls");
}

#[test]
fn a_work_conserving_policy_does_not_queue_and_the_others_do() {
    let platform = named("m5_ccss");
    let mut load = load("3", SwitchMechanism::StrongV4, 2);
    load.os_cores = "2-3".parse().unwrap();
    load.threads = 2;
    load.compute = Nanos::new(100);
    // Both threads of two application cores are bound to OS cores of their own: nothing ever queues.
    let bound = run(&platform, &load, Flags::STATIC_BINDING);
    assert!(bound.there >= 1.0, "{bound:?}");
    // With four threads the OS cores are always busy: calls stay where an application core would idle.
    load.threads = 4;
    let conserving = run(&platform, &load, Flags::WORK_CONSERVING);
    assert!(conserving.there < 0.99, "{conserving:?}");
    let queues = run(&platform, &load, Flags::AFFINITY);
    assert!(queues.there >= 1.0, "{queues:?}");
    assert!(conserving.mean_us < queues.mean_us, "{conserving:?} {queues:?}");
}

#[test]
fn time_is_neither_lost_nor_made() {
    for (name, threads) in [("m5_ccss_slow", 5), ("m5_cccc", 2)] {
        let platform = named(name);
        let load = load("2-3", SwitchMechanism::StrongV5, threads);
        let switches = SwitchLatencies::simulate(&platform, &load).unwrap();
        let mut arms = vec![OffLoadArm::Unmodified, OffLoadArm::Bound];
        for bits in 0..16 {
            arms.push(OffLoadArm::Policy(Flags::from_bits(bits).unwrap()));
        }
        for arm in arms {
            let mut machine = OffLoadMachine::new(&platform, &load, &switches, arm).unwrap();
            machine.run();
            for core in &machine.cores {
                assert_eq!(core.spent.iter().sum::<Picos>(), machine.end(), "{name} {arm:?}");
            }
            let under_way = machine.calls - machine.times.len() as u64;
            assert!(under_way <= u64::from(threads), "{name} {arm:?}: {under_way}");
        }
    }
}

#[test]
fn without_off_load_a_thread_more_never_makes_fewer_calls_and_all_cores_are_used() {
    let platform = named("m5_cccc");
    let rate = |arm_of, threads| {
        arm(&platform, &load("3", SwitchMechanism::StrongV4, threads), arm_of).calls_per_second
    };
    for (of, cores) in [(OffLoadArm::Bound, 3), (OffLoadArm::Unmodified, 4)] {
        let one = rate(of, 1);
        for threads in 2..=8 {
            let expected = f64::from(threads.min(cores)) * one;
            let made = rate(of, threads);
            assert!(
                (made / expected - 1.0).abs() < 0.05,
                "{of:?} {threads}: {made} for {expected}"
            );
        }
    }
}

#[test]
fn a_thread_that_stays_takes_the_fastest_idle_core_and_a_simple_core_takes_longer() {
    let platform = named("m5_ccss_slow");
    let rate = |threads, of| {
        arm(&platform, &load("2-3", SwitchMechanism::StrongV4, threads), of).calls_per_second
    };
    let two = rate(2, OffLoadArm::Unmodified);
    assert!((two / rate(2, OffLoadArm::Bound) - 1.0).abs() < 1e-9);
    let four = rate(4, OffLoadArm::Unmodified) / two;
    // Two more cores of a quarter of the clock and 1.084 cycles an instruction.
    assert!((four - 1.0 - 0.25 / 1.084).abs() < 0.05, "{four}");
}

#[test]
fn kernel_code_takes_a_complex_core_its_cycles_and_a_simple_one_its_misses_too() {
    let pace = |name: &str| {
        let load = OffLoadWorkload { misses: true, ..load("1", SwitchMechanism::StrongV4, 1) };
        SwitchLatencies::simulate(&named(name), &load).unwrap().instructions
    };
    // A cycle of 3 GHz, and of 750 MHz: all code is in the first level.
    assert_eq!(pace("m5_cc"), [333, 333]);
    let [fast, slow] = pace("m5_cc_slow")[..] else { panic!("two cores") };
    assert!(fast == 333 && (1_333..1_340).contains(&slow), "{fast} {slow}");
    // 8 KiB of 36: nearly every line of some 14 instructions comes from level 2, which takes 4 ns; so do data.
    let [_, simple] = pace("m5_cs")[..] else { panic!("two cores") };
    assert!((361 + 4_000 / 14..361 + 3 * 4_000 / 14).contains(&simple), "{simple}");
    // Level 2 keeps its clock.
    let [_, slow] = pace("m5_cs_slow")[..] else { panic!("two cores") };
    assert!(slow > 2 * simple - 361 && slow < 4 * simple - 361, "{slow} {simple}");
}

/// The time in which one thread completes one loop of computing and a call, in microseconds.
fn loop_us(name: &str, after: CallAftermath, of: OffLoadArm) -> f64 {
    let load = OffLoadWorkload { after, ..load("1", SwitchMechanism::StrongV4, 1) };
    1e6 / arm(&named(name), &load, of).calls_per_second
}

fn after(interrupts: u64, awaited: bool, wait: u64) -> CallAftermath {
    let [interrupts, wait] = [interrupts, wait].map(Nanos::from_micros);
    CallAftermath { interrupts, awaited, wait }
}

#[test]
fn interrupts_lengthen_the_call_or_are_served_beside_it_by_the_os_core() {
    let is = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.06, "{found} for {expected}");
    };
    // 10 us of computing, 5 of a call, 4 of interrupts, 6 of waiting.
    for awaited in [true, false] {
        is(loop_us("m5_cc", after(4, awaited, 6), OffLoadArm::Unmodified), 25.0);
    }
    let bound = loop_us("m5_cc", after(4, true, 6), OffLoadArm::Bound);
    is(bound, 25.0);
    assert!(bound > loop_us("m5_cc", after(4, true, 6), OffLoadArm::Unmodified), "{bound}");
    is(loop_us("m5_cc", after(4, false, 6), OffLoadArm::Bound), 21.0);
    // Both switches, and all interrupts on the core of the call.
    let switched = loop_us("m5_cc", after(4, false, 6), OffLoadArm::Policy(Flags::NONE));
    is(switched, 25.0 + 1.9);
}

#[test]
fn the_next_call_waits_for_interrupts_that_are_slower_than_the_loop() {
    // The greater of 21 us in three parts and of 60: at least either, and less than both.
    let held = loop_us("m5_cc", after(60, false, 6), OffLoadArm::Bound);
    assert!((60.0..81.0).contains(&held), "{held}");
    // The interrupts of a slow OS core hold the caller up, and those of a fast one do not.
    let slow = loop_us("m5_cc_slow", after(15, false, 6), OffLoadArm::Bound);
    assert!((60.0..81.0).contains(&slow), "{slow}");
}

#[test]
fn steady_parts_take_their_means_to_the_picosecond() {
    let load = OffLoadWorkload {
        steady: true,
        after: after(25, false, 6),
        ..load("1", SwitchMechanism::StrongV4, 1)
    };
    let us = |of| 1e6 / arm(&named("m5_cc"), &load, of).calls_per_second;
    // 30 ms are 652 loops of 46 us, and the call of 1,200 loops of 25 us, the interrupts of the last under way.
    assert!((us(OffLoadArm::Unmodified) - 46.0).abs() < 0.1);
    assert!((us(OffLoadArm::Bound) - 25.0).abs() < 0.1);
}

#[test]
fn threads_can_be_left_on_the_os_cores() {
    let none = CallAftermath::default();
    let [slow, fast] =
        [OffLoadArm::OsCores, OffLoadArm::Unmodified].map(|arm| loop_us("m5_cc_slow", none, arm));
    assert!((slow / fast - 4.0).abs() < 0.3, "{slow} {fast}");
}

#[test]
fn energy_is_power_by_time_and_unknown_without_a_power() {
    let mut platform = named("m5_cccc");
    let load = load("2-3", SwitchMechanism::StrongV4, 1);
    let outcome = arm(&platform, &load, OffLoadArm::Bound);
    let [active, _, quiesced] = power(&platform, Cpu(0)).unwrap();
    let expected = (active + 3.0 * quiesced) * 1e6 / outcome.calls_per_second;
    assert!((outcome.microjoules.unwrap() / expected - 1.0).abs() < 1e-3, "{outcome:?}");
    platform.core.polling_power = None;
    assert_eq!(run(&platform, &load, Flags::NONE).microjoules, None);
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_what_is_not_possible_is_refused() {
    let platform = named("m5_ccss");
    let mut load = load("2-3", SwitchMechanism::StrongV2, 3);
    let flags = Flags::AFFINITY | Flags::WORK_CONSERVING;
    assert_eq!(run(&platform, &load, flags), run(&platform, &load, flags));
    let switches = SwitchLatencies::simulate(&platform, &load).unwrap();
    let mut refused = |os: &str, threads: u32| {
        load.os_cores = os.parse().unwrap();
        load.threads = threads;
        off_load(&platform, &load, &switches, OffLoadArm::Policy(flags)).unwrap_err().to_string()
    };
    assert!(refused("0-3", 1).contains("no core is left"));
    assert!(refused("7", 1).contains("its cores are 0-3"));
    assert!(refused("3", 0).contains("nothing to do"));
    load = OffLoadWorkload {
        time: Nanos::new(1),
        ..super::tests::load("2-3", SwitchMechanism::StrongV2, 3)
    };
    let short = off_load(&platform, &load, &switches, OffLoadArm::Bound).unwrap_err().to_string();
    assert!(short.contains("no call ends"), "{short}");
}

#[test]
fn the_library_s_v5_wakes_a_core_that_has_slept_and_is_not_known_without_a_wake_up() {
    let mut platform = named("m5_cccc");
    let mut load = load("2-3", SwitchMechanism::V5, 1);
    let why = unknown(&platform, load.mechanism).unwrap().unwrap();
    assert!(why.contains("core.futex_wake"), "{why}");
    assert!(SwitchLatencies::simulate(&platform, &load).unwrap_err().to_string().contains("futex"));
    platform.core.futex_wake = Some(corehop_plan::platform::Fact::assumed(
        corehop_plan::platform::Latency::Picos(8_000_000),
        "",
    ));
    assert_eq!(unknown(&platform, load.mechanism).unwrap(), None);
    let mut mean = |mechanism, compute| {
        load.mechanism = mechanism;
        load.compute = compute;
        run(&platform, &load, Flags::AFFINITY).mean_us
    };
    // Four CPUs poll for up to 50 us: calls every 15 us find the OS core polling, as they do live.
    let often = Nanos::from_micros(10);
    let [v3, v4, v5] = [SwitchMechanism::V3, SwitchMechanism::V4, SwitchMechanism::V5]
        .map(|mechanism| mean(mechanism, often));
    assert!(v4 < v5 && v5 < v4 + 1.0 && v5 + 10.0 < v3, "{v4} {v5} {v3}");
    // Calls every millisecond do not, while the caller polls for the result: one of two wake-ups of 8 us is left.
    let seldom = Nanos::from_millis(1);
    let [v3, v5] = [SwitchMechanism::V3, SwitchMechanism::V5].map(|it| mean(it, seldom));
    assert!((v3 - v5 - 8.0).abs() < 0.5, "{v5} {v3}");
}
