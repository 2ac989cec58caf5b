// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for several CPUs with one queue and no preemption: a job that began runs to its end.
//!
//! The tests analyse the problem window from a job's release to its start. All CPUs are busy there, with jobs of
//! higher priority and with at most `m` other jobs that began before. Sources: Guan, Yi, Deng, Gu and Yu, Journal of
//! Systems Architecture 57(5), 2011, for fixed priorities; Baruah, Real-Time Systems 32(1), 2006, for EDF. If the
//! work in a window of `y` units is less than `m y`, the job begins within `y - 1` and responds within `y - 1 + C`.

use super::edf::JobQuotient;
use super::workload::{WindowInterference, WorkloadBound, least_unfilled};
use super::{constrained, each_fits};
use crate::divisor::Divisor;
use crate::ranking::Ranking;
use crate::system::System;
use corehop_plan::workload::task::{Task, Time};

/// The largest number of rounds that improve slacks.
const ROUNDS: usize = 25;

/// Bounds response times under global non-preemptive fixed priorities; `None` if a task may miss its deadline. Tasks of
/// equal priority count as tasks of higher priority and carry in what their deadlines allow: if a job were the first
/// late job, all jobs before it would be in time.
pub fn fixed(system: System<'_>) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !each_fits(tasks) || !constrained(tasks) {
        return None;
    }
    let ranking = Ranking::of(tasks);
    let mut bounds = vec![Time::ZERO; tasks.len()];
    for (at, &k) in ranking.order().iter().enumerate() {
        let own = &tasks[k];
        let rests = longest_rests(system, ranking.below(at).iter().map(|&i| &tasks[i]));
        let y = least_unfilled(system.m(), own.deadline - own.wcet + Time::TICK, |y| {
            let mut fill = WindowInterference::new(y);
            for &rest in &rests {
                fill.add(WorkloadBound { value: rest, run: Time::ZERO });
            }
            for &i in ranking.above(at) {
                fill.add(WorkloadBound::densest(&tasks[i], tasks[i].deadline - bounds[i], y));
            }
            for &i in ranking.level(at).iter().filter(|&&i| i != k) {
                fill.add(WorkloadBound::densest(&tasks[i], Time::ZERO, y));
            }
            fill
        })?;
        bounds[k] = own.wcet + y - Time::TICK;
    }
    Some(bounds)
}

/// The remaining execution times of the `m` longest jobs that may have begun one unit earlier.
fn longest_rests<'a>(system: System<'_>, tasks: impl Iterator<Item = &'a Task>) -> Vec<Time> {
    let mut rests: Vec<Time> =
        tasks.map(|task| task.wcet - Time::TICK).filter(|&rest| rest > Time::ZERO).collect();
    rests.sort_unstable_by(|a, b| b.cmp(a));
    rests.truncate(system.cpus as usize);
    rests
}

/// Bounds response times under global non-preemptive EDF; `None` if a task may miss its deadline.
pub fn edf(system: System<'_>) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !each_fits(tasks) || !constrained(tasks) {
        return None;
    }
    let mut slack = vec![Time::ZERO; tasks.len()];
    let mut accepted = false;
    for _ in 0..ROUNDS {
        let (mut all_fit, mut changed) = (true, false);
        for (k, own) in tasks.iter().enumerate() {
            let Some(response) = edf_response(system, k, &slack) else {
                all_fit = false;
                continue;
            };
            changed |= own.deadline - response > slack[k];
            slack[k] = slack[k].max(own.deadline - response);
        }
        accepted |= all_fit;
        if !changed {
            break;
        }
    }
    accepted.then(|| tasks.iter().zip(&slack).map(|(task, &slack)| task.deadline - slack).collect())
}

fn edf_response(system: System<'_>, k: usize, slack: &[Time]) -> Option<Time> {
    let own = &system.tasks[k];
    let others = || system.tasks.iter().enumerate().filter(|&(i, _)| i != k);
    // A job that is due later can only be one that began before: its deadline is beyond D_k.
    let later = others().map(|(_, task)| task).filter(|task| task.deadline > own.deadline);
    let rests = longest_rests(system, later);
    let y = least_unfilled(system.m(), own.deadline - own.wcet + Time::TICK, |y| {
        let mut fill = WindowInterference::new(y);
        for &rest in &rests {
            fill.add(WorkloadBound { value: rest, run: Time::ZERO });
        }
        for (i, task) in others() {
            let most =
                JobQuotient::of(task, Divisor::new(task.period), own.deadline).less(task, slack[i]);
            fill.add(WorkloadBound::densest(task, slack[i], y).at_most(most));
        }
        fill
    })?;
    Some(own.wcet + y - Time::TICK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;

    #[test]
    fn a_short_job_waits_for_the_longest_rests() {
        // m = 2: two jobs of 9 began a unit ago: 8 left on both; the job of 1 begins after 8.
        let set = implicit(2, &[(1, 10), (9, 40), (9, 41)]);
        assert_eq!(fixed(System::of(&set)).unwrap()[0], Time::new(9));
        assert_eq!(edf(System::of(&set)).unwrap()[0], Time::new(9));
        assert_eq!(fixed(System::of(&implicit(2, &[(3, 10), (9, 40), (9, 41)]))), None);
    }

    #[test]
    fn with_a_cpu_each_no_job_waits() {
        let set = implicit(3, &[(1, 10), (9, 40), (9, 41)]);
        assert_eq!(fixed(System::of(&set)), Some([1, 9, 9].map(Time::new).to_vec()));
    }
}
