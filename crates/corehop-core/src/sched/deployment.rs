// SPDX-License-Identifier: MIT OR Apache-2.0
//! A task set as a test accepted the set: what has to run, where, in which order, and for how long.

use super::catalogue::Test;
use super::charge::ChargedAnswer;
use super::uni::fixed::by_priority;
use crate::workload::placement::TaskPlacement;
use crate::workload::task::{TaskError, TaskSet, Time};

/// The set with the CPUs of each task, with the CPU time that the test allows each job after charges, and with priorities
/// that differ where the test is about fixed priorities. `None` if the test assigns no CPUs.
///
/// # Errors
/// [`TaskError`] for a placement that makes no sense.
pub fn deployment(
    set: &TaskSet,
    test: &Test,
    asked: &ChargedAnswer,
) -> Result<Option<TaskSet>, TaskError> {
    let Some(places) = &asked.answer.placement else { return Ok(None) };
    let budget = |at: usize, wcet: Time| -> Option<Time> {
        let charged = asked.charged.as_ref()?.get(at)?[0];
        let whole = matches!(places[at], TaskPlacement::Cpus(_));
        // Never less than the work itself, whatever was rounded.
        whole.then(|| (charged.ceil() as Time).max(wcet))
    };
    let tasks = set.tasks();
    let budgets = tasks.iter().enumerate().map(|(at, task)| budget(at, task.wcet())).collect();
    let mut ranks = vec![None; tasks.len()];
    if test.scheduler.contains("fixed priorities") {
        let order = asked.answer.priorities.clone().unwrap_or_else(|| by_priority(tasks));
        for (rank, at) in order.into_iter().enumerate() {
            ranks[at] = Some(rank as u32);
        }
    }
    set.clone().placed(places.clone())?.admitted(budgets, &ranks).map(Some)
}
