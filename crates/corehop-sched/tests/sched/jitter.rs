// SPDX-License-Identifier: MIT OR Apache-2.0
//! Release jitter by brute force: what exact tests bound is attained by some phases and some jitter, and by none exceeded.

use crate::draw::ticks;
use corehop_sched::System;
use corehop_sched::Time;
use corehop_sched::{TaskParameters, TaskSet, Verdict, test};
use proptest::prelude::*;

/// C, T and J; the first is served first.
type Jittery = (u64, u64, u64);

/// When a job arrives, and when it is released.
type Job = (u64, u64);

/// The exact tests that charge jitter, and whether jobs may be preempted.
const TESTS: [(&str, bool); 2] = [("p-fp-rta", true), ("np-fp-rta", false)];

/// Beyond all busy windows of these sets, and the arrivals before them.
const HORIZON: u64 = 160;

/// So far that no bound is cut off.
const DEADLINE: u64 = 400;

fn bounds(tasks: &[Jittery], name: &str) -> Option<Vec<u64>> {
    let task = |(at, &(wcet, period, jitter)): (usize, &Jittery)| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        jitter: Time::new(jitter),
        deadline: Some(Time::new(DEADLINE)),
        priority: Some(at as u32),
        ..TaskParameters::default()
    };
    let given: Vec<TaskParameters> = tasks.iter().enumerate().map(task).collect();
    let set = TaskSet::new(1, &given).unwrap();
    let answer = test(name).unwrap().run(System::of(&set));
    assert_ne!(answer.verdict, Verdict::Unknown, "{name} of {tasks:?}");
    answer.bounds.map(ticks)
}

/// The longest response of each task, from arrival to end, unit by unit.
fn responses(tasks: &[Jittery], jobs: &[Vec<Job>], preemptive: bool) -> Vec<u64> {
    let mut next = vec![0; tasks.len()];
    let mut left: Vec<u64> = tasks.iter().map(|task| task.0).collect();
    let mut worst = vec![0; tasks.len()];
    let mut running = None;
    for now in 0..HORIZON {
        let ready = |&at: &usize| jobs[at].get(next[at]).is_some_and(|job| job.1 <= now);
        let held = running.filter(|_| !preemptive);
        let Some(at) = held.or_else(|| (0..tasks.len()).find(ready)) else { continue };
        left[at] -= 1;
        running = (left[at] > 0).then_some(at);
        if left[at] == 0 {
            worst[at] = worst[at].max(now + 1 - jobs[at][next[at]].0);
            next[at] += 1;
            left[at] = tasks[at].0;
        }
    }
    worst
}

/// Jobs of a task that arrive from `phase` on, each held back until `until` as far as its jitter goes.
fn held_back(&(_, period, jitter): &Jittery, phase: u64, until: u64) -> Vec<Job> {
    let arrivals = (phase..HORIZON).step_by(period as usize);
    arrivals.map(|arrival| (arrival, arrival.max(until.min(arrival + jitter)))).collect()
}

/// The worst over all phases, where what arrived is held back until an instant, or one before it, or not at all.
fn worst(tasks: &[Jittery], preemptive: bool) -> Vec<u64> {
    let instant = tasks.iter().map(|task| task.2).max().unwrap_or(0) + 1;
    let of = |task: &Jittery| -> Vec<Vec<Job>> {
        let until = [instant, instant - 1, 0].into_iter();
        until
            .flat_map(|until| (0..task.1).map(move |phase| held_back(task, phase, until)))
            .collect()
    };
    let mut all: Vec<Vec<Vec<Job>>> = vec![Vec::new()];
    for task in tasks {
        let choices = of(task);
        let with = |jobs: &Vec<Vec<Job>>| -> Vec<Vec<Vec<Job>>> {
            let one = |choice: &Vec<Job>| [&jobs[..], std::slice::from_ref(choice)].concat();
            choices.iter().map(one).collect()
        };
        all = all.iter().flat_map(with).collect();
    }
    let mut worst = vec![0; tasks.len()];
    for jobs in &all {
        for (worst, seen) in worst.iter_mut().zip(responses(tasks, jobs, preemptive)) {
            *worst = seen.max(*worst);
        }
    }
    worst
}

fn below_one(tasks: &[Jittery]) -> bool {
    tasks.iter().map(|task| task.0 as f64 / task.1 as f64).sum::<f64>() < 0.95
}

/// Tasks whose jitter may be longer than the period.
fn drawn() -> impl Strategy<Value = Vec<Jittery>> {
    let task = (1..4_u64, 2..7_u64, 0..8_u64).prop_map(|(c, t, j)| (c.min(t), t, j));
    prop::collection::vec(task, 1..=3).prop_filter("U < 1", |tasks| below_one(tasks))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_exact_tests_bound_with_jitter_is_attained(tasks in drawn()) {
        for (name, preemptive) in TESTS {
            let bounds = bounds(&tasks, name);
            prop_assert_eq!(bounds, Some(worst(&tasks, preemptive)), "{} of {:?}", name, tasks);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any jitter of any job, not only what holds jobs back until one instant.
    #[test]
    fn no_jitter_exceeds_what_exact_tests_bound(
        tasks in drawn(), phases in prop::collection::vec(0..7_u64, 3), jitters in prop::collection::vec(0..8_u64, 23)
    ) {
        let mut jitters = jitters.into_iter().cycle();
        let mut jobs = Vec::new();
        for (&(_, period, jitter), phase) in tasks.iter().zip(phases) {
            let mut last = 0;
            let arrivals = (phase..HORIZON).step_by(period as usize);
            let release = |arrival: u64| {
                // Jobs of a task are released in their order.
                last = last.max(arrival + jitters.next().unwrap_or(0).min(jitter));
                (arrival, last)
            };
            jobs.push(arrivals.map(release).collect::<Vec<Job>>());
        }
        for (name, preemptive) in TESTS {
            let Some(bounds) = bounds(&tasks, name) else { continue };
            let seen = responses(&tasks, &jobs, preemptive);
            let within = seen.iter().zip(&bounds).all(|(seen, bound)| seen <= bound);
            prop_assert!(within, "{}: {:?} > {:?} of {:?}", name, seen, bounds, tasks);
        }
    }
}

#[test]
fn jitter_brings_two_jobs_together_by_hand() {
    // Arrivals of the first 4 apart, held back by up to 3: two of its jobs are released within 1, so the other one, of 2,
    // ends 1 + 2 + 1 after its release.
    assert_eq!(bounds(&[(1, 4, 3), (2, 9, 0)], "p-fp-rta"), Some(vec![4, 4]));
    assert_eq!(worst(&[(1, 4, 3), (2, 9, 0)], true), [4, 4]);
}

/// C, T, J and D beyond C + J, under EDF.
type Due = (u64, u64, u64, u64);

fn deadline(&(wcet, _, jitter, more): &Due) -> u64 {
    wcet + jitter + more
}

fn due_set(tasks: &[Due]) -> TaskSet {
    let of = |task: &Due| TaskParameters {
        wcet: Time::new(task.0),
        period: Time::new(task.1),
        jitter: Time::new(task.2),
        deadline: Some(Time::new(deadline(task))),
        ..TaskParameters::default()
    };
    TaskSet::new(1, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap()
}

/// The longest response of task `own` under EDF, from arrival to end, unit by unit. Of jobs due at once its own goes last.
fn response_by_deadline(tasks: &[Due], jobs: &[&Vec<Job>], own: usize) -> u64 {
    let (mut next, mut worst) = (vec![0; tasks.len()], 0);
    let mut left: Vec<u64> = tasks.iter().map(|task| task.0).collect();
    for now in 0..80 {
        let ready = |&at: &usize| jobs[at].get(next[at]).is_some_and(|job| job.1 <= now);
        let due = |&at: &usize| (jobs[at][next[at]].0 + deadline(&tasks[at]), at == own);
        let Some(at) = (0..tasks.len()).filter(ready).min_by_key(due) else { continue };
        left[at] -= 1;
        if left[at] == 0 {
            if at == own {
                worst = worst.max(now + 1 - jobs[at][next[at]].0);
            }
            next[at] += 1;
            left[at] = tasks[at].0;
        }
    }
    worst
}

/// The worst over all phases, where what arrived is held back until an instant, or not at all.
fn worst_by_deadline(tasks: &[Due]) -> Vec<u64> {
    let instant = tasks.iter().map(|task| task.2).max().unwrap_or(0) + 1;
    let of = |&(wcet, period, jitter, _): &Due| -> Vec<Vec<Job>> {
        let phases = (0..period).flat_map(|phase| [instant, 0].map(|until| (phase, until)));
        let all = phases.map(|(phase, until)| held_back(&(wcet, period, jitter), phase, until));
        all.collect()
    };
    let choices: Vec<Vec<Vec<Job>>> = tasks.iter().map(of).collect();
    let count: usize = choices.iter().map(Vec::len).product();
    let mut worst = vec![0; tasks.len()];
    for number in 0..count {
        let mut rest = number;
        let pick = |of: &Vec<Vec<Job>>| {
            let at = rest % of.len();
            rest /= of.len();
            at
        };
        let picked: Vec<usize> = choices.iter().map(pick).collect();
        let jobs: Vec<&Vec<Job>> = choices.iter().zip(picked).map(|(of, at)| &of[at]).collect();
        for (own, worst) in worst.iter_mut().enumerate() {
            *worst = response_by_deadline(tasks, &jobs, own).max(*worst);
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn responses_under_edf_with_jitter_are_attained(
        tasks in prop::collection::vec((1..4_u64, 2..6_u64, 0..6_u64, 0..8_u64), 1..=3)
    ) {
        let tasks: Vec<Due> = tasks.into_iter().map(|(c, t, j, d)| (c.min(t), t, j, d)).collect();
        let plain: Vec<Jittery> = tasks.iter().map(|it| (it.0, it.1, it.2)).collect();
        prop_assume!(below_one(&plain));
        let set = due_set(&tasks);
        let answer = test("edf-rta").unwrap().run(System::of(&set));
        let seen = worst_by_deadline(&tasks);
        prop_assert_eq!(answer.bounds.map(ticks), Some(seen.clone()), "{:?}", tasks);
        let met = seen.iter().zip(&tasks).all(|(seen, task)| *seen <= deadline(task));
        let expected = if met { Verdict::Schedulable } else { Verdict::Unschedulable };
        for name in ["edf-rta", "qpa"] {
            prop_assert_eq!(test(name).unwrap().run(System::of(&set)).verdict, expected, "{} of {:?}", name, tasks);
        }
    }
}
