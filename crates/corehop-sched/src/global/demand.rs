// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work that every scheduler must do within an interval that begins with a release of all tasks.
//!
//! A job that is due after the interval also contributes: the part of its work that does not fit between the
//! interval's end and its deadline (Baker and Cirinei, RTSS 2006). If this work exceeds the capacity of the CPUs, no
//! scheduler meets all deadlines.

use super::edf::confined_groups;
use crate::system::System;
use corehop_plan::workload::task::{Task, Time};

/// The largest number of task evaluations in one search.
const MOST_LOOKS: usize = 200_000;

/// An interval after a common release in which tasks demand more work than their CPUs can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// The CPUs to which the tasks are confined.
    pub(crate) cpus: Vec<usize>,
    /// The tasks whose demand is too large.
    pub(crate) tasks: Vec<usize>,
    /// The length of the interval.
    pub(crate) within: Time,
    /// The work that the tasks demand in the interval.
    pub(crate) work: u128,
}

/// Returns the first overloaded interval that the search finds. The answer `None` proves nothing.
pub(crate) fn beyond(system: System<'_>) -> Option<Beyond> {
    let groups = confined_groups(system).into_iter();
    groups.filter(|(_, tasks)| !tasks.is_empty()).find_map(|(cpus, tasks)| {
        let own: Vec<&Task> = tasks.iter().map(|&at| &system.tasks[at]).collect();
        let within = first_beyond(&own, cpus.len() as u128)?;
        let work = own.iter().map(|it| work_of(it, within)).sum();
        let asks = |at: &usize| work_of(&system.tasks[*at], within) > 0;
        Some(Beyond { tasks: tasks.into_iter().filter(asks).collect(), cpus, within, work })
    })
}

/// The least interval in which the tasks demand too much. Only due times matter: between two due times the CPUs keep up
/// with the work that is added, so the excess is largest at a due time.
fn first_beyond(tasks: &[&Task], cpus: u128) -> Option<Time> {
    let last = last_time(tasks, cpus as f64);
    let mut due: Vec<Time> = tasks.iter().map(|it| it.deadline).collect();
    for _ in 0..MOST_LOOKS / tasks.len().max(1) {
        let within = *due.iter().min()?;
        if within.as_f64() > last {
            return None;
        }
        let work: u128 = tasks.iter().map(|it| work_of(it, within)).sum();
        if work > cpus * u128::from(within) {
            return Some(within);
        }
        for (next, task) in due.iter_mut().zip(tasks) {
            if *next == within {
                *next = next.checked_add(task.period)?;
            }
        }
    }
    None
}

/// A slightly late estimate of the time after which there is no excess: the work within t is at most `U t + sum of
/// C`.
fn last_time(tasks: &[&Task], cpus: f64) -> f64 {
    let rate: f64 = tasks.iter().map(|it| it.wcet.as_f64() / it.period.as_f64()).sum();
    let all: f64 = tasks.iter().map(|it| it.wcet.as_f64()).sum();
    if rate < cpus { 1.001 * all / (cpus - rate) + 1.0 } else { f64::INFINITY }
}

/// The work that a task demands within a time of its first release, if further releases come as early as possible.
fn work_of(task: &Task, within: Time) -> u128 {
    let [c, t, d, within] = [task.wcet, task.period, task.deadline, within].map(i128::from);
    let done = if within < d { 0 } else { (within - d) / t + 1 };
    let released = within / t + i128::from(within % t > 0);
    // Of each job that is due later: what the time from then until it is due has no room for.
    let later = (done..released).map(|job| (c - (job * t + d - within)).max(0)).take(64);
    (done * c + later.sum::<i128>()).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::set;

    #[test]
    fn work_that_no_scheduler_can_do_in_time_is_found_by_hand() {
        // Three jobs of 6 that are due within 8 on two CPUs: 18 of 16.
        let three = set(2, &[(6, 100, 8), (6, 100, 8), (6, 100, 8)]);
        let found = beyond(System::of(&three)).unwrap();
        assert_eq!((found.within, found.work, found.tasks), (Time::new(8), 18, vec![0, 1, 2]));
        // One that is due at 10 has to do 4 by 8: 6 + 6 + 4 is what there is, and with one more, due at 9 with 2 of 3, it is not.
        let later = |more: &[(u64, u64, u64)]| {
            let tasks = [&[(6, 100, 8), (6, 100, 8), (6, 100, 10)], more].concat();
            beyond(System::of(&set(2, &tasks)))
        };
        assert_eq!(later(&[]), None);
        assert_eq!(later(&[(3, 100, 9)]).map(|it| (it.within, it.work)), Some((Time::new(8), 18)));
    }

    #[test]
    fn what_meets_its_deadlines_asks_for_no_more_than_there_is() {
        // One each on three CPUs, and a pair of halves.
        for (cpus, tasks) in [(3, vec![(9, 10, 10); 3]), (1, vec![(5, 10, 10), (5, 10, 10)])] {
            assert_eq!(beyond(System::of(&set(cpus, &tasks))), None);
        }
    }
}
