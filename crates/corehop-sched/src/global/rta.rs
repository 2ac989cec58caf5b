// SPDX-License-Identifier: MIT OR Apache-2.0
//! Response-time analysis for global EDF with slacks (Bertogna and Cirinei, RTSS 2007).
//!
//! `R = C_k + floor(sum of min(W_i(R), I_i(D_k), R - C_k + 1) / m)` is iterated in rounds: a larger slack `D - R` of
//! one task reduces its carried-in work in the windows of the other tasks.

use super::edf::DueWithin;
use super::window::{Sweep, WindowRange};
use super::workload::Neighbour;
use super::{constrained, each_fits};
use crate::system::System;
use crate::verdict::Verdict;
use corehop_plan::workload::task::Time;

/// The largest number of rounds.
const ROUNDS: usize = 25;

/// The condition that stops the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopRule {
    /// The analysis stops when every task is known to meet its deadline.
    Accepted,
    /// The analysis stops when a round improves no slack.
    Settled,
}

/// Returns the verdict without response-time bounds.
pub fn edf(system: System<'_>) -> Verdict {
    Verdict::sufficient(iterate(system, StopRule::Accepted).is_some())
}

/// Returns a bound on each task's response time if the test accepts, otherwise `None`.
pub fn edf_bounds(system: System<'_>) -> Option<Vec<Time>> {
    iterate(system, StopRule::Settled)
}

fn iterate(system: System<'_>, stop: StopRule) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !each_fits(tasks) || !constrained(tasks) {
        return None;
    }
    let mut analysis = SlackAnalysis {
        system,
        due: DueWithin::new(tasks),
        slack: tasks.iter().map(|task| task.deadline - task.wcet).collect(),
        least: vec![Time::TICK; tasks.len()],
        others: Vec::with_capacity(tasks.len()),
        sweep: Sweep::default(),
        changes: 1,
        seen: vec![(0, false); tasks.len()],
    };
    analysis.tighten_from_above()?;
    analysis.slack.fill(Time::ZERO);
    let mut accepted = false;
    for _ in 0..ROUNDS {
        let (all_fit, changed) = analysis.round();
        accepted |= all_fit;
        if !changed || (accepted && stop == StopRule::Accepted) {
            break;
        }
    }
    let responses = tasks.iter().zip(&analysis.slack).map(|(task, &slack)| task.deadline - slack);
    accepted.then(|| responses.collect())
}

struct SlackAnalysis<'a> {
    system: System<'a>,
    due: DueWithin<'a>,
    slack: Vec<Time>,
    /// For each task, a lower bound on the task's least unfilled window, whatever slacks are found.
    least: Vec<Time>,
    others: Vec<Neighbour>,
    sweep: Sweep,
    /// The number of times a slack has grown, starting at 1.
    changes: u64,
    /// For each task, the value of `changes` when its window was last computed, and whether the task meets its
    /// deadline.
    seen: Vec<(u64, bool)>,
}

impl SlackAnalysis<'_> {
    /// Iterates downwards from slacks that are too large. The resulting windows are no longer than any window that the
    /// analysis can find, so the analysis starts from them. Returns `None` if a task fails even with these slacks.
    fn tighten_from_above(&mut self) -> Option<()> {
        for _ in 0..2 {
            for k in 0..self.least.len() {
                let y = self.window(k)?;
                let own = &self.system.tasks[k];
                self.least[k] = y;
                self.slack[k] = own.deadline - own.wcet - (y - Time::TICK);
            }
        }
        Some(())
    }

    /// Runs one round. Returns whether all tasks meet their deadlines, and whether some slack grew.
    fn round(&mut self) -> (bool, bool) {
        let (mut all_fit, mut changed) = (true, false);
        for (k, own) in self.system.tasks.iter().enumerate() {
            let (when, fits) = self.seen[k];
            if when == self.changes {
                // Nothing that its window depends on is other than it was.
                all_fit &= fits;
                continue;
            }
            let window = self.window(k);
            all_fit &= window.is_some();
            // Slacks only grow: a later round finds no shorter window filled.
            let now = window.map_or(Time::ZERO, |y| own.deadline - own.wcet - (y - Time::TICK));
            if now > self.slack[k] {
                self.slack[k] = now;
                self.changes += 1;
                changed = true;
            }
            // Its own slack is no matter to it.
            self.seen[k] = (self.changes, window.is_some());
        }
        (all_fit, changed)
    }

    /// The least window of task `k` that the other tasks do not fill; `None` if the window ends after the deadline.
    fn window(&mut self, k: usize) -> Option<Time> {
        let (tasks, own) = (self.system.tasks, &self.system.tasks[k]);
        let (row, periods) = self.due.row(k);
        self.others.clear();
        for (i, ((task, &part), &period)) in tasks.iter().zip(row).zip(periods).enumerate() {
            if i != k {
                let slack = self.slack[i];
                let other = Neighbour::densest(task, period, slack);
                self.others.push(other.at_most(part.less(task, slack)));
            }
        }
        let among = WindowRange::of(own, self.least[k]);
        self.sweep.least_unfilled(self.system.m(), &mut self.others, among)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn as_many_tasks_as_cpus_respond_in_their_own_time() {
        let set = set(3, &[(2, 7, 4), (3, 23, 5), (9, 9, 9)]);
        assert_eq!(edf_bounds(System::of(&set)), Some([2, 3, 9].map(Time::new).to_vec()));
    }

    #[test]
    fn a_bound_that_can_be_worked_out_by_hand() {
        // m = 2, three tasks (2, 10): two others of 2 each within any window: y with 2 + 2 < 2 y is 3 at
        // first (R = 4), then the slack of 6 leaves nothing carried in, and nothing changes.
        let set = implicit(2, &[(2, 10), (2, 10), (2, 10)]);
        assert_eq!(edf_bounds(System::of(&set)), Some([4, 4, 4].map(Time::new).to_vec()));
    }
}
