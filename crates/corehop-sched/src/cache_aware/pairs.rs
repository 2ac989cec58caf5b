// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measured preemption delays by pair of tasks: the cost depends on the preempted task and on the preempting task.
//!
//! Cache blocks say exactly which lines two tasks share, but the blocks are rarely known. The delay as a function of
//! both working set sizes can be measured: `d(k, s)` is the time that a job of `k` loses to preempting tasks whose
//! working sets total `s`. `d(k, s)` grows with `s`, and the loss to several tasks together is at most the sum of the
//! losses to each task alone. So the two arguments for cache blocks also hold for measured delays:
//!
//! - like `ECB-union`: a preemption of `k` by `j`, and by all tasks that preempt `j` meanwhile, costs `d(k, sum of
//!   the sizes of hep(j))`, or the sum of the losses to each of `hep(j)`. Each preemption is charged to `j`, as often
//!   as `j` can preempt `k`, and no more often than `j` has jobs;
//! - like `UCB-union`: a job of `j` costs each task that `j` keeps waiting at most `d(k, s_j)`, as often as `j` can
//!   preempt `k`.
//!
//! Source: Altmeyer, Davis and Maiza, RTS 48(5), 2012, section 4, and Lunniss et al., RTAS 2013, with sizes in place
//! of block sets.

use super::dearest;
use super::edf::EdfTasks;
use super::fixed::PriorityLevels;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Delays by the working set sizes of the preempted and of the preempting task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairwiseDelays {
    /// For each task, the largest loss by the size of the preempting working set in KiB, ascending.
    pub losses: Vec<Vec<(u64, Time)>>,
    /// The size of each task's own working set in KiB.
    pub sizes: Vec<u64>,
}

/// The value of an unbounded time.
const UNBOUNDED: Time = Time::MAX;

impl PairwiseDelays {
    /// The delays of the tasks `group`, in the order of `group`.
    pub(crate) fn of(&self, group: &[usize]) -> Self {
        Self {
            losses: group.iter().map(|&at| self.losses[at].clone()).collect(),
            sizes: group.iter().map(|&at| self.sizes[at]).collect(),
        }
    }

    /// The loss of task `k` to preempting tasks whose working sets total `kib` KiB: the measured loss at the next
    /// larger size.
    fn loss(&self, k: usize, kib: u64) -> Time {
        let bound = self.losses[k].iter().find(|&&(size, _)| size >= kib);
        bound.map_or(UNBOUNDED, |&(_, loss)| loss)
    }

    /// The loss of task `k` to task `j` alone.
    fn alone(&self, k: usize, j: usize) -> Time {
        self.loss(k, self.sizes[j])
    }

    /// The loss of task `k` to all tasks in `all` together.
    fn together(&self, k: usize, all: impl Iterator<Item = usize> + Clone) -> Time {
        let size = all.clone().map(|h| self.sizes[h]).fold(0, u64::saturating_add);
        let each = all.map(|h| self.alone(k, h)).fold(Time::ZERO, Time::saturating_add);
        self.loss(k, size).min(each)
    }
}

/// The bound on the cost of preemptions: `Together` follows the argument of ECB-union, and `Apart` the argument of
/// UCB-union.
#[derive(Debug, Clone, Copy)]
enum PairBound {
    Together,
    Apart,
}

const FORMS: [PairBound; 2] = [PairBound::Together, PairBound::Apart];

/// The total cost of preemptions by `jobs` jobs, summed over the preempted tasks, each given as `(cost, times)`.
fn sum(form: PairBound, preempted: Vec<(Time, u64)>, jobs: u64) -> Time {
    match form {
        PairBound::Together => {
            let ticks = preempted.into_iter().map(|(cost, times)| (cost.ticks(), times));
            Time::new(dearest(ticks.collect(), jobs))
        }
        PairBound::Apart => preempted
            .into_iter()
            .map(|(cost, times)| cost.saturating_mul(times.min(jobs)))
            .fold(Time::ZERO, Time::saturating_add),
    }
}

/// Returns the worst-case response times under fixed priorities on one CPU, or `None` if a deadline may be missed.
/// The analysis needs deadlines within periods and no jitter.
pub fn responses(tasks: &[Task], pairs: &PairwiseDelays) -> Option<Vec<Time>> {
    let mut levels = PriorityLevels::new(tasks)?;
    for level in 0..tasks.len() {
        let of = |form| {
            levels.response(level, |j, response| paid(&levels, pairs, level, j, response, form))
        };
        let found = FORMS.into_iter().filter_map(of).min();
        levels.responses.push(found?);
    }
    Some(levels.in_order_of_the_tasks())
}

/// The cost of preemptions by level `j` to the tasks down to `level` within `response`.
fn paid(
    levels: &PriorityLevels<'_>,
    pairs: &PairwiseDelays,
    level: usize,
    j: usize,
    response: Time,
    form: PairBound,
) -> Time {
    let at = |level: usize| levels.order[level];
    let cost = |k: usize| match form {
        PairBound::Together => pairs.together(at(k), levels.order[..=j].iter().copied()),
        PairBound::Apart => pairs.alone(at(k), at(j)),
    };
    let preempted =
        (j + 1..=level).map(|k| (cost(k), levels.preemptions(level, k, j, response))).collect();
    sum(form, preempted, levels.jobs(j, response))
}

/// Tests whether all deadlines are met under EDF on one CPU. The test is sufficient.
pub fn schedulable(tasks: &[Task], pairs: &PairwiseDelays) -> Verdict {
    let tasks = EdfTasks(tasks);
    let verdict = |form| {
        let most = |j: usize| {
            let lost = tasks.affected(j, Time::MAX).map(|k| cost(&tasks, pairs, k, j, form));
            match form {
                PairBound::Together => lost.max().unwrap_or(Time::ZERO),
                PairBound::Apart => lost.fold(Time::ZERO, Time::saturating_add),
            }
        };
        tasks.fit(most, |t| demand(&tasks, pairs, t, form))
    };
    let [together, apart] = FORMS.map(verdict);
    if together == Verdict::Unknown { apart } else { together }
}

fn cost(tasks: &EdfTasks<'_>, pairs: &PairwiseDelays, k: usize, j: usize, form: PairBound) -> Time {
    match form {
        PairBound::Together => {
            let due = tasks.0[j].deadline;
            pairs.together(k, (0..tasks.0.len()).filter(move |&h| tasks.0[h].deadline <= due))
        }
        PairBound::Apart => pairs.alone(k, j),
    }
}

fn demand(tasks: &EdfTasks<'_>, pairs: &PairwiseDelays, t: Time, form: PairBound) -> Time {
    let of = |j: usize| {
        let preempted = tasks.affected(j, t);
        let preempted = preempted
            .map(|k| (cost(tasks, pairs, k, j, form), tasks.preemptions(k, j, t)))
            .collect();
        tasks.0[j].demand(t).saturating_add(sum(form, preempted, tasks.jobs(j, t)))
    };
    (0..tasks.0.len()).map(of).fold(Time::ZERO, Time::saturating_add)
}
