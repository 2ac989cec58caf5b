// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random small sets, on which everything can be tried out.

use corehop_sched::System;
use corehop_sched::Time;
use corehop_sched::{TaskParameters, TaskSet, Verdict, test};
use proptest::prelude::*;

/// The kind of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// D = T.
    Implicit,
    /// C <= D <= T.
    Constrained,
    /// C <= D <= 2 T.
    Arbitrary,
}

/// Sets on up to `cpus` CPUs, with periods up to `longest`.
pub(crate) fn sets(cpus: u32, longest: u64, due: Due) -> impl Strategy<Value = TaskSet> {
    let task = (2..=longest, 0.0..1.0_f64, 0.0..1.0_f64);
    let tasks = prop::collection::vec(task, 1..=7);
    (1..=cpus, 0.3..1.2_f64, tasks).prop_map(move |(cpus, fill, tasks)| {
        // The utilisations are scaled such that sets lie around what `cpus` can do.
        let sum: f64 = tasks.iter().map(|&(_, u, _)| u + 0.05).sum();
        let scale = fill * f64::from(cpus) / sum;
        let of = |&(period, u, at): &(u64, f64, f64)| {
            let wcet =
                ((u + 0.05) * scale * period as f64).round().clamp(1.0, period as f64) as u64;
            let room = |most: u64| wcet + (at * (most - wcet + 1) as f64) as u64;
            let deadline = match due {
                Due::Implicit => period,
                Due::Constrained => room(period),
                Due::Arbitrary => room(2 * period),
            };
            TaskParameters {
                wcet: Time::new(wcet),
                period: Time::new(period),
                deadline: Some(Time::new(deadline)),
                ..TaskParameters::default()
            }
        };
        TaskSet::new(cpus, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap()
    })
}

/// The verdict of the test of this name.
pub(crate) fn verdict(name: &str, set: &TaskSet) -> Verdict {
    test(name).unwrap().run(System::of(set)).verdict
}

/// Whether it accepts.
pub(crate) fn accepts(name: &str, set: &TaskSet) -> bool {
    verdict(name, set) == Verdict::Schedulable
}

/// The parameters of a set, to change one and make a set again.
pub(crate) fn parameters(set: &TaskSet) -> Vec<TaskParameters> {
    let of = |task: &corehop_sched::Task| TaskParameters {
        wcet: task.wcet(),
        period: task.period(),
        deadline: Some(task.deadline()),
        ..TaskParameters::default()
    };
    set.tasks().iter().map(of).collect()
}

/// A set of (C, T, D).
/// The ticks of each time.
pub(crate) fn ticks(times: Vec<Time>) -> Vec<u64> {
    times.into_iter().map(Time::ticks).collect()
}

pub(crate) fn set(cpus: u32, tasks: &[(u64, u64, u64)]) -> TaskSet {
    let of = |&(wcet, period, deadline): &(u64, u64, u64)| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        deadline: Some(Time::new(deadline)),
        ..TaskParameters::default()
    };
    TaskSet::new(cpus, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap()
}

/// A set of (C, T) with D = T.
pub(crate) fn implicit(cpus: u32, tasks: &[(u64, u64)]) -> TaskSet {
    set(cpus, &tasks.iter().map(|&(c, t)| (c, t, t)).collect::<Vec<_>>())
}
