// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest non-preemptive regions under fixed priorities.

use super::{NoRegions, distinct, plain};
use crate::uni::STEPS;
use corehop_plan::workload::task::{Task, Time};

/// Returns how long each task may continue after a job of higher priority arrives, at most its whole WCET.
///
/// The *blocking tolerance* of a task is the longest time for which it may be delayed: the greatest `t - W(t)` at the
/// releases `t` up to its deadline, where `W` is the demand of the task and of all tasks above. A region is at most
/// the least tolerance of the tasks above (Yao, Buttazzo and Bertogna, "Bounding the maximum length of non-preemptive
/// regions under fixed priority scheduling", RTCSA 2009).
///
/// # Errors
/// Returns [`NoRegions`] if the set is not schedulable even with full preemption, a deadline is beyond its period, or
/// there is release jitter or blocking.
pub fn regions(tasks: &[Task]) -> Result<Vec<Time>, NoRegions> {
    plain(tasks)?;
    if let Some(task) = tasks.iter().position(|task| task.deadline > task.period) {
        let value = tasks[task].deadline;
        let expected = "at most period_us";
        return Err(NoRegions::Beyond { task, field: "deadline_us", value, expected });
    }
    let order = distinct(tasks)?;
    let mut regions = vec![Time::ZERO; tasks.len()];
    let (mut least, mut steps) = (Time::MAX, STEPS);
    for (at, &i) in order.iter().enumerate() {
        regions[i] = tasks[i].wcet.min(least);
        least = least.min(tolerance(tasks, &order[..at], i, &mut steps)?);
    }
    Ok(regions)
}

/// The greatest `t - W(t)` up to the deadline of `i`.
fn tolerance(
    tasks: &[Task],
    above: &[usize],
    i: usize,
    steps: &mut u64,
) -> Result<Time, NoRegions> {
    let own = &tasks[i];
    let releases = |&j: &usize| own.deadline / tasks[j].period;
    let all: u64 = above.iter().map(releases).sum::<u64>() + 1;
    *steps = steps
        .checked_sub(all.saturating_mul(above.len() as u64 + 1))
        .ok_or(NoRegions::OutOfSteps)?;
    let work = |t: Time| -> Time {
        let of = |&j: &usize| t.div_ceil(tasks[j].period) * tasks[j].wcet;
        own.wcet + above.iter().map(of).sum::<Time>()
    };
    let of_one = |&j: &usize| (1..=releases(&j)).map(move |k| k * tasks[j].period);
    let instants = above.iter().flat_map(of_one).chain([own.deadline]);
    let slacks = instants.filter_map(|t| t.checked_sub(work(t)));
    slacks.max().ok_or(NoRegions::Misses { policy: "fixed priorities" })
}
