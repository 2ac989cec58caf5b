// SPDX-License-Identifier: MIT OR Apache-2.0
//! An accepted set misses nothing in any schedule that was tried; a set that an exact test refuses does.

use crate::draw::ticks;
use corehop_sched::System;
use corehop_sched::{TaskSet, Test, Verdict, all};
use proptest::prelude::*;

use crate::draw::{Due, accepts, sets, verdict};
use crate::simulator::{Policy, Run, Seen, simulate};

/// The tests for this scheduler.
fn about(scheduler: &'static str) -> impl Iterator<Item = &'static Test> {
    all().filter(move |test| test.scheduler == scheduler)
}

/// Deadline-monotonic, ties by index.
fn deadline_monotonic(set: &TaskSet) -> Vec<usize> {
    let mut order: Vec<usize> = (0..set.tasks().len()).collect();
    order.sort_by_key(|&at| set.tasks()[at].deadline());
    order
}

/// Release patterns: all at once, then as drawn.
fn patterns(set: &TaskSet, drawn: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
    let n = set.tasks().len();
    let offset = |shift: usize| {
        (0..n)
            .map(|at| drawn[(at + shift) % drawn.len()] % set.tasks()[at].period().ticks())
            .collect()
    };
    let mut found =
        vec![(vec![0; n], vec![0]), (vec![0; n], drawn.iter().map(|d| d % 3).collect())];
    for shift in 0..4 {
        found.push((offset(shift), vec![0]));
        found.push((offset(shift), drawn.iter().map(|d| (d + shift as u64) % 2).collect()));
    }
    found
}

/// Each accepted set is simulated under every pattern; bounds on responses hold.
fn holds(
    set: &TaskSet,
    scheduler: &'static str,
    policy: Policy,
    preemptive: bool,
    drawn: &[u64],
) -> Result<(), TestCaseError> {
    for test in about(scheduler) {
        let answer = test.run(System::of(set));
        if answer.verdict != Verdict::Schedulable {
            continue;
        }
        let order = answer.priorities.clone().unwrap_or_else(|| deadline_monotonic(set));
        for (offsets, delays) in patterns(set, drawn) {
            let (order, offsets, delays) = (&order[..], &offsets[..], &delays[..]);
            let seen =
                simulate(&Run { set, policy, preemptive, order, offsets, delays, horizon: 160 });
            let Seen { responses, missed } = seen;
            prop_assert!(!missed, "{} accepts {set:?} with {offsets:?} {delays:?}", test.name);
            if let Some(bounds) = &answer.bounds {
                let within =
                    responses.iter().zip(bounds).all(|(seen, bound)| *seen <= bound.ticks());
                prop_assert!(within, "{}: {responses:?} > {bounds:?} of {set:?}", test.name);
            }
        }
    }
    Ok(())
}

/// Responses stay within the bounds that a soft test gives, in every pattern.
fn stays_within(
    set: &TaskSet,
    name: &str,
    policy: Policy,
    drawn: &[u64],
) -> Result<(), TestCaseError> {
    let answer = corehop_sched::test(name).unwrap().run(System::of(set));
    let Some(bounds) = answer.bounds else { return Ok(()) };
    for (offsets, delays) in patterns(set, drawn) {
        let (order, offsets, delays) = (&[][..], &offsets[..], &delays[..]);
        let run = Run { set, policy, preemptive: true, order, offsets, delays, horizon: 400 };
        let seen = simulate(&run).responses;
        let within = seen.iter().zip(&bounds).all(|(seen, bound)| *seen <= bound.ticks());
        prop_assert!(within, "{name}: {seen:?} > {bounds:?} of {set:?}");
    }
    Ok(())
}

/// Each CPU of a partition misses nothing.
fn each_cpu_holds(set: &TaskSet, name: &str, drawn: &[u64]) -> Result<(), TestCaseError> {
    let answer = corehop_sched::test(name).unwrap().run(System::of(set));
    let Some(bins) = answer.partition else { return Ok(()) };
    let mut placed: Vec<usize> = bins.concat();
    placed.sort_unstable();
    prop_assert_eq!(placed, (0..set.tasks().len()).collect::<Vec<_>>(), "{}", name);
    for bin in bins.iter().filter(|bin| !bin.is_empty()) {
        let all = crate::draw::parameters(set);
        let own: Vec<_> = bin.iter().map(|&at| all[at].clone()).collect();
        let own = TaskSet::new(1, &own).unwrap();
        for (offsets, delays) in patterns(&own, drawn) {
            let (set, offsets, delays) = (&own, &offsets[..], &delays[..]);
            let (policy, order) = (Policy::Edf, &[][..]);
            let run = Run { set, policy, preemptive: true, order, offsets, delays, horizon: 160 };
            prop_assert!(!simulate(&run).missed, "{name} puts {own:?} on one CPU");
        }
    }
    Ok(())
}

fn drawn() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..40_u64, 11)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn global_edf_misses_nothing_that_was_accepted(set in sets(4, 16, Due::Constrained), drawn in drawn()) {
        holds(&set, "global EDF", Policy::Edf, true, &drawn)?;
    }

    #[test]
    fn global_edf_with_any_deadlines_misses_nothing_that_was_accepted(set in sets(3, 12, Due::Arbitrary), drawn in drawn()) {
        holds(&set, "global EDF", Policy::Edf, true, &drawn)?;
    }

    #[test]
    fn global_fixed_priorities_miss_nothing_that_was_accepted(set in sets(4, 16, Due::Constrained), drawn in drawn()) {
        holds(&set, "global fixed priorities", Policy::Fixed, true, &drawn)?;
    }

    #[test]
    fn without_preemption_nothing_is_missed_that_was_accepted(set in sets(3, 16, Due::Constrained), drawn in drawn()) {
        holds(&set, "global non-preemptive EDF", Policy::Edf, false, &drawn)?;
        holds(&set, "global non-preemptive fixed priorities", Policy::Fixed, false, &drawn)?;
    }

    #[test]
    fn one_cpu_misses_nothing_that_was_accepted(set in sets(1, 12, Due::Arbitrary), drawn in drawn()) {
        holds(&set, "EDF on one CPU", Policy::Edf, true, &drawn)?;
        holds(&set, "fixed priorities on one CPU", Policy::Fixed, true, &drawn)?;
        holds(&set, "non-preemptive EDF on one CPU", Policy::Edf, false, &drawn)?;
        holds(&set, "non-preemptive fixed priorities on one CPU", Policy::Fixed, false, &drawn)?;
    }

    #[test]
    fn no_job_is_later_than_a_soft_test_says(set in sets(4, 14, Due::Implicit), drawn in drawn()) {
        stays_within(&set, "devi-anderson", Policy::Edf, &drawn)?;
        stays_within(&set, "cva", Policy::Edf, &drawn)?;
        stays_within(&set, "g-fl", Policy::FairLateness, &drawn)?;
    }

    #[test]
    fn nor_with_any_deadlines(set in sets(4, 14, Due::Arbitrary), drawn in drawn()) {
        stays_within(&set, "cva", Policy::Edf, &drawn)?;
        stays_within(&set, "g-fl", Policy::FairLateness, &drawn)?;
    }

    #[test]
    fn what_a_packing_puts_on_a_cpu_fits_there(
        set in prop_oneof![sets(4, 14, Due::Implicit), sets(4, 14, Due::Constrained)], drawn in drawn()
    ) {
        for name in ["p-edf-ff", "p-edf-ffd", "p-edf-bf", "p-edf-wfd", "p-edf-awf", "p-edf-nfd", "p-edf-ff-qpa", "p-edf-awfd-qpa", "p-edf-exact"] {
            each_cpu_holds(&set, name, &drawn)?;
        }
    }

    #[test]
    fn released_at_once_one_cpu_shows_what_exact_tests_refuse(set in sets(1, 8, Due::Arbitrary)) {
        if verdict("utilisation", &set) == Verdict::Unschedulable {
            // What is left over grows slowly: a miss may come after any horizon.
            for name in ["qpa", "edf-rta", "p-fp-rta"] {
                prop_assert_eq!(verdict(name, &set), Verdict::Unschedulable, "{} {:?}", name, set);
            }
            return Ok(());
        }
        let n = set.tasks().len();
        let (order, offsets) = (deadline_monotonic(&set), vec![0; n]);
        // Two hyperperiods and all deadlines: nothing new comes later.
        let horizon = 2 * 840 + 32;
        let run = Run { set: &set, policy: Policy::Edf, preemptive: true, order: &order, offsets: &offsets, delays: &[0], horizon };
        let missed = simulate(&run).missed;
        prop_assert_eq!(accepts("qpa", &set), !missed, "{:?}", set);
        prop_assert_eq!(accepts("edf-rta", &set), !missed, "{:?}", set);
        prop_assert!(verdict("qpa", &set) != Verdict::Unknown);
        let missed = simulate(&Run { policy: Policy::Fixed, ..run }).missed;
        prop_assert_eq!(accepts("p-fp-rta", &set), !missed, "{:?}", set);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every offset of every task: what is exact is attained.
    #[test]
    fn exact_responses_are_attained(
        tasks in prop::collection::vec((1..4_u64, 2..7_u64, 0..8_u64), 1..=3)
    ) {
        let tasks: Vec<_> = tasks.iter().map(|&(c, t, d)| (c.min(t), t, c.min(t) + d)).collect();
        let set = crate::draw::set(1, &tasks);
        if verdict("utilisation", &set) == Verdict::Unschedulable {
            return Ok(());
        }
        for (name, policy, preemptive) in [
            ("edf-rta", Policy::Edf, true),
            ("np-edf-rta", Policy::Edf, false),
            ("p-fp-rta", Policy::Fixed, true),
            ("np-fp-rta", Policy::Fixed, false),
        ] {
            let answer = corehop_sched::test(name).unwrap().run(System::of(&set));
            let Some(bounds) = answer.bounds else { continue };
            let seen = worst_over_offsets(&set, policy, preemptive);
            // Ties between jobs go by index in the simulator, either way in the analysis: every
            // rotation of the set is tried.
            prop_assert_eq!(ticks(bounds), seen, "{} of {:?}", name, set);
        }
    }
}

/// The worst responses over every offset, and over every way to number the tasks.
fn worst_over_offsets(set: &TaskSet, policy: Policy, preemptive: bool) -> Vec<u64> {
    let n = set.tasks().len();
    let parameters = crate::draw::parameters(set);
    let order = deadline_monotonic(set);
    let mut worst = vec![0; n];
    for numbering in permutations(n) {
        let given: Vec<_> = numbering.iter().map(|&at| parameters[at].clone()).collect();
        let renumbered = TaskSet::new(1, &given).unwrap();
        let order: Vec<usize> =
            order.iter().map(|task| numbering.iter().position(|at| at == task).unwrap()).collect();
        for offsets in all_offsets(&renumbered) {
            let (order, offsets) = (&order[..], &offsets[..]);
            let set = &renumbered;
            let run = Run { set, policy, preemptive, order, offsets, delays: &[0], horizon: 140 };
            for (at, response) in simulate(&run).responses.into_iter().enumerate() {
                worst[numbering[at]] = worst[numbering[at]].max(response);
            }
        }
    }
    worst
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for shorter in permutations(n - 1) {
        for at in 0..n {
            let mut longer = shorter.clone();
            longer.insert(at, n - 1);
            all.push(longer);
        }
    }
    all
}

fn all_offsets(set: &TaskSet) -> Vec<Vec<u64>> {
    set.tasks().iter().fold(vec![vec![]], |all, task| {
        let with = |offsets: Vec<u64>| {
            (0..task.period().ticks()).map(move |offset| [&offsets[..], &[offset]].concat())
        };
        all.into_iter().flat_map(with).collect()
    })
}
