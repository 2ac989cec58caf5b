// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest non-preemptive regions under EDF.

use super::{NoRegions, plain};
use crate::uni::{STEPS, edf::qpa};
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Returns how long each task may continue after a job with an earlier deadline arrives, at most its whole WCET.
///
/// A region of length `q` delays jobs that are due within `t` only if the region's own task is due later. So the set
/// stays schedulable if `DBF(t) + q <= t` at every deadline `t` before `D` of that task. Sources: Baruah, "The
/// limited-preemption uniprocessor scheduling of sporadic task systems", ECRTS 2005; Bertogna and Baruah, IEEE TII
/// 6(4), 2010. Each task's bound holds whatever the regions of other tasks are.
///
/// # Errors
/// Returns [`NoRegions`] if the set is not schedulable even with full preemption, or has release jitter or blocking.
pub fn regions(tasks: &[Task]) -> Result<Vec<Time>, NoRegions> {
    plain(tasks)?;
    match qpa(tasks) {
        Verdict::Schedulable => {}
        Verdict::Unschedulable => return Err(NoRegions::Misses { policy: "edf" }),
        Verdict::Unknown => return Err(NoRegions::OutOfSteps),
    }
    let slacks = slacks(tasks)?;
    let of = |task: &Task| {
        let before = slacks.partition_point(|&(t, _)| t < task.deadline);
        before.checked_sub(1).map_or(task.wcet, |last| task.wcet.min(slacks[last].1))
    };
    Ok(tasks.iter().map(of).collect())
}

/// The deadlines before the longest relative deadline, each with the least slack `t - DBF(t)` up to that deadline.
fn slacks(tasks: &[Task]) -> Result<Vec<(Time, Time)>, NoRegions> {
    let longest = tasks.iter().map(|task| task.deadline).max().unwrap_or(Time::ZERO);
    let jobs = |task: &Task| (longest - task.deadline).div_ceil(task.period);
    let all: u64 = tasks.iter().map(jobs).sum();
    if all.saturating_mul(tasks.len() as u64) > STEPS {
        return Err(NoRegions::OutOfSteps);
    }
    let deadlines = |task: &Task| {
        let (first, period) = (task.deadline, task.period);
        (0..jobs(task)).map(move |job| first + job * period)
    };
    let mut instants: Vec<Time> = tasks.iter().flat_map(deadlines).collect();
    instants.sort_unstable();
    instants.dedup();
    let mut least = Time::MAX;
    let with_slack = |t: Time| {
        let demand: Time = tasks.iter().map(|task| task.demand(t)).sum();
        least = least.min(t.saturating_sub(demand));
        (t, least)
    };
    Ok(instants.into_iter().map(with_slack).collect())
}
