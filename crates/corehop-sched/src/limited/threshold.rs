// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemption thresholds under fixed priorities.

use super::{NoRegions, distinct, plain};
use crate::uni::STEPS;
use corehop_plan::workload::task::{Task, Time};

/// The largest thresholds with which every deadline is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// The tasks by priority, the highest first.
    pub order: Vec<usize>,
    /// The threshold for each index in `order`: only tasks at indexes below the threshold may preempt the task at the
    /// index.
    pub thresholds: Vec<usize>,
    /// For each index in `order`, the worst response time.
    pub responses: Vec<Time>,
}

/// Returns the largest thresholds for given priorities.
///
/// The least feasible thresholds come first, from the lowest priority up, because a task's response depends only on
/// the thresholds below it and on its own threshold. Source: Wang and Saksena, "Scheduling fixed-priority tasks with
/// preemption threshold", RTCSA 1999, section 5. Then each threshold is raised as far as possible, from the highest
/// priority down (Saksena and Wang, "Scalable real-time system design using preemption thresholds", RTSS 2000).
///
/// # Errors
/// Returns [`NoRegions`] if no thresholds meet all deadlines, or there is release jitter or blocking.
pub fn largest(tasks: &[Task]) -> Result<Thresholds, NoRegions> {
    plain(tasks)?;
    let order = distinct(tasks)?;
    let sorted: Vec<Task> = order.iter().map(|&i| tasks[i]).collect();
    let mut steps = STEPS;
    let mut thresholds: Vec<usize> = (0..sorted.len()).collect();
    for i in (0..sorted.len()).rev() {
        while !response(&sorted, &thresholds, i, &mut steps)?.meets(&sorted[i]) {
            thresholds[i] =
                thresholds[i].checked_sub(1).ok_or(NoRegions::Misses { policy: "thresholds" })?;
        }
    }
    for i in 0..sorted.len() {
        // The task that could no longer preempt is the one that is held up instead.
        while let Some(held_up) = thresholds[i].checked_sub(1) {
            thresholds[i] = held_up;
            if !response(&sorted, &thresholds, held_up, &mut steps)?.meets(&sorted[held_up]) {
                thresholds[i] = held_up + 1;
                break;
            }
        }
    }
    let mut responses = Vec::with_capacity(sorted.len());
    for i in 0..sorted.len() {
        responses.push(response(&sorted, &thresholds, i, &mut steps)?.0);
    }
    Ok(Thresholds { order, thresholds, responses })
}

/// A response time. If the value is beyond the deadline, the value is only a lower bound of the response.
struct Response(Time);

impl Response {
    fn meets(&self, task: &Task) -> bool {
        self.0 <= task.deadline
    }
}

/// The worst response of the task at an index. The analysis computes start and end of every job in the longest busy
/// period (Wang and Saksena 1999, section 4).
fn response(
    tasks: &[Task],
    thresholds: &[usize],
    i: usize,
    steps: &mut u64,
) -> Result<Response, NoRegions> {
    let own = &tasks[i];
    let below = (i + 1..tasks.len()).filter(|&j| thresholds[j] <= i);
    let blocking = below.map(|j| tasks[j].wcet).max().unwrap_or(Time::ZERO);
    let busy = |t: Time| -> Time {
        blocking + tasks[..=i].iter().map(|it| t.div_ceil(it.period) * it.wcet).sum::<Time>()
    };
    let (mut worst, mut job, mut done) = (Time::ZERO, 0, Time::ZERO);
    let mut busy_until = busy(Time::TICK);
    while worst <= own.deadline {
        let (before, due) = (blocking + job * own.wcet, own.deadline + job * own.period);
        let started = |s: Time| -> Time {
            let of = |task: &Task| (1 + s / task.period) * task.wcet;
            before + tasks[..i].iter().map(of).sum::<Time>()
        };
        let start = fixpoint(before.max(done), due, started, steps)?;
        let ended = |f: Time| -> Time {
            let of = |task: &Task| {
                f.div_ceil(task.period).saturating_sub(1 + start / task.period) * task.wcet
            };
            start + own.wcet + tasks[..thresholds[i]].iter().map(of).sum::<Time>()
        };
        done = fixpoint(start + own.wcet, due, ended, steps)?;
        worst = worst.max(done.saturating_sub(job * own.period));
        job += 1;
        // Once the busy period ends before the next job is released, that one is like the first.
        busy_until = fixpoint(busy_until, job * own.period, busy, steps)?;
        if busy_until <= job * own.period {
            break;
        }
    }
    Ok(Response(worst))
}

/// The least fixpoint of a non-decreasing function, iterated from below; or some value beyond `limit`.
fn fixpoint(
    from: Time,
    limit: Time,
    next: impl Fn(Time) -> Time,
    steps: &mut u64,
) -> Result<Time, NoRegions> {
    let mut at = from;
    while at <= limit {
        *steps = steps.checked_sub(1).ok_or(NoRegions::OutOfSteps)?;
        let after = next(at);
        if after <= at {
            break;
        }
        at = after;
    }
    Ok(at)
}
