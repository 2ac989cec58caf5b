// SPDX-License-Identifier: MIT OR Apache-2.0
//! Response-time analysis for global EDF with slacks (Bertogna and Cirinei, RTSS 2007).
//!
//! `R = C_k + floor(sum of min(W_i(R), I_i(D_k), R - C_k + 1) / m)`, in rounds: the slack `D - R` that a round
//! finds for a task lessens what it carries into the windows of the others.

use super::edf::due_within;
use super::workload::{Fill, Work, least_unfilled};
use super::{constrained, each_fits};
use crate::decision::sched::task::{System, Task, Time};
use crate::decision::sched::verdict::Verdict;

/// The most rounds.
const ROUNDS: usize = 25;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// When every task is known to make it.
    Accepted,
    /// When no round finds anything better.
    Settled,
}

/// The verdict alone.
pub fn edf(system: System<'_>) -> Verdict {
    Verdict::sufficient(iterate(system, Stop::Accepted).is_some())
}

/// A bound on each task's response time, where the test accepts.
pub fn edf_bounds(system: System<'_>) -> Option<Vec<Time>> {
    iterate(system, Stop::Settled)
}

fn iterate(system: System<'_>, stop: Stop) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !each_fits(tasks) || !constrained(tasks) {
        return None;
    }
    let mut slack: Vec<Time> = vec![0; tasks.len()];
    let mut limits = Vec::with_capacity(tasks.len());
    let mut accepted = false;
    for _ in 0..ROUNDS {
        let (mut all_fit, mut changed) = (true, false);
        for (k, own) in tasks.iter().enumerate() {
            let Some(response) = response(system, k, &slack, &mut limits) else {
                all_fit = false;
                continue;
            };
            // Slacks only grow: a later round finds no shorter window filled.
            changed |= own.deadline - response > slack[k];
            slack[k] = slack[k].max(own.deadline - response);
        }
        accepted |= all_fit;
        if !changed || (accepted && stop == Stop::Accepted) {
            break;
        }
    }
    accepted.then(|| tasks.iter().zip(&slack).map(|(task, slack)| task.deadline - slack).collect())
}

/// What another task brings into the windows of task `k`.
#[derive(Debug, Clone, Copy)]
struct Other {
    wcet: Time,
    period: Time,
    /// Added to the window: `D - C - S + C_k - 1`.
    lead: Time,
    /// `I_i(D_k)`.
    most: Time,
}

/// The least fixpoint for task `k`; none where it is beyond the deadline.
fn response(system: System<'_>, k: usize, slack: &[Time], others: &mut Vec<Other>) -> Option<Time> {
    let own = &system.tasks[k];
    others.clear();
    let rest = system.tasks.iter().zip(slack).enumerate().filter(|&(i, _)| i != k);
    others.extend(rest.map(|(_, (task, &slack))| Other::new(task, slack, own)));
    let y = least_unfilled(system.m(), own.deadline - own.wcet + 1, |y| {
        let mut fill = Fill::new(y);
        for other in others.iter() {
            fill.add(other.work(y));
        }
        fill
    })?;
    Some(own.wcet + y - 1)
}

impl Other {
    fn new(task: &Task, slack: Time, own: &Task) -> Self {
        Self {
            wcet: task.wcet,
            period: task.period,
            lead: task.deadline - task.wcet - slack + own.wcet - 1,
            most: due_within(task, own.deadline, slack),
        }
    }

    #[inline]
    fn work(&self, y: Time) -> Work {
        Work::periodic(self.wcet, self.period, y + self.lead).at_most(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::task::testing::{implicit, set};

    #[test]
    fn as_many_tasks_as_cpus_respond_in_their_own_time() {
        let set = set(3, &[(2, 7, 4), (3, 23, 5), (9, 9, 9)]);
        assert_eq!(edf_bounds(set.system()), Some(vec![2, 3, 9]));
    }

    #[test]
    fn a_bound_that_can_be_worked_out_by_hand() {
        // m = 2, three tasks (2, 10): two others of 2 each within any window: y with 2 + 2 < 2 y is 3 at
        // first (R = 4), then the slack of 6 leaves nothing carried in, and nothing changes.
        let set = implicit(2, &[(2, 10), (2, 10), (2, 10)]);
        assert_eq!(edf_bounds(set.system()), Some(vec![4, 4, 4]));
    }
}
