// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed priorities on one CPU with jobs that suspend themselves, at any instants, up to `S` in total.
//!
//! Several published analyses of suspension are wrong. Source: Chen, Nelissen, Huang, Yang, Brandenburg, Bletsas,
//! Liu, Richard, Ridouard, Audsley, Rajkumar, de Niz and von der Brüggen, "Many suspensions, many problems",
//! Real-Time Systems 55(1), 2019. Three published bounds are correct for deadlines within periods, and the response
//! of task k is at most the least of them:
//!
//! - *Oblivious*: suspension counts as execution, `C + S` for every task (section 4.1 of Chen et al. 2019).
//! - *As jitter*: the task's own suspension counts as execution. A suspending task of higher priority has up to `R -
//!   C` of jitter, because it can postpone its execution until its response ends (Huang, Chen, Zhou and Liu, DAC
//!   2015; section 4.2.2 of Chen et al. 2019). `R` counts from the arrival, so it includes release jitter.
//! - *As blocking*: the task's own suspension counts as execution, and each task of higher priority delays k once
//!   more by `min(C, S)` (Liu 2000; proof by Chen, Huang and Nelissen 2016, for tasks without release jitter).

use super::STEPS;
use super::fixed::{self, ResponseOutcome, response};
use crate::ranking::Ranking;
use crate::supply::FULL;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// The verdict, and a bound on the response of each task that has one. Priorities must be distinct, and deadlines
/// within periods.
pub(crate) fn response_times(tasks: &[Task]) -> (Verdict, Vec<Time>) {
    let mut responses = vec![Time::ZERO; tasks.len()];
    let mut steps = STEPS;
    let ranking = Ranking::of(tasks);
    for (place, &k) in ranking.order().iter().enumerate() {
        let above = ranking.above(place);
        match bound(tasks, above, k, |j| responses[j], &mut steps) {
            Some(found) => responses[k] = found,
            None => return (refused(tasks), responses),
        }
    }
    (Verdict::Schedulable, responses)
}

/// Whether task `k` meets its deadline below the tasks `above`, each of which meets its own.
pub(crate) fn meets_below(tasks: &[Task], above: &[usize], k: usize, steps: &mut u64) -> bool {
    bound(tasks, above, k, |j| tasks[j].deadline, steps).is_some()
}

/// The verdict for a set that no bound accepts: if the set without suspension is rejected, the set is rejected too,
/// because jobs need not suspend themselves.
fn refused(tasks: &[Task]) -> Verdict {
    let never: Vec<Task> =
        tasks.iter().map(|task| Task { suspension: Time::ZERO, ..*task }).collect();
    match fixed::response_time_analysis(&never, None) {
        Verdict::Unschedulable => Verdict::Unschedulable,
        _ => Verdict::Unknown,
    }
}

/// The least bound on the response of task `k` below the tasks `above`, whose responses are at most `of`.
fn bound(
    tasks: &[Task],
    above: &[usize],
    k: usize,
    of: impl Fn(usize) -> Time,
    steps: &mut u64,
) -> Option<Time> {
    let late = |task: &Task, j: usize| match task.suspension {
        Time::ZERO => task.jitter,
        _ => of(j).saturating_sub(task.wcet),
    };
    let oblivious = with(tasks, above, k, |task, _| task.longer(task.suspension));
    let jittery = with(tasks, above, k, |task, j| Task { jitter: late(task, j), ..*task });
    let mut all = vec![oblivious, jittery];
    if above.iter().all(|&j| tasks[j].jitter == Time::ZERO) {
        let once: Time = above.iter().map(|&j| tasks[j].wcet.min(tasks[j].suspension)).sum();
        let mut blocked = with(tasks, above, k, |task, _| *task);
        blocked[k].blocking += once;
        all.push(blocked);
    }
    let bounds = all.iter().filter_map(|tasks| match response(tasks, above, k, &FULL, steps) {
        ResponseOutcome::Bound(found) => Some(found),
        _ => None,
    });
    bounds.min()
}

/// The tasks with the suspension of `k` counted as execution, and each task above changed by `how`.
fn with(
    tasks: &[Task],
    above: &[usize],
    k: usize,
    how: impl Fn(&Task, usize) -> Task,
) -> Vec<Task> {
    let mut changed = tasks.to_vec();
    for &j in above {
        changed[j] = how(&tasks[j], j);
    }
    changed[k] = tasks[k].longer(tasks[k].suspension);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::task::{TaskParameters, TaskSet};

    fn set(tasks: &[(u64, u64, u64)]) -> TaskSet {
        let of = |&(wcet, period, suspension): &(u64, u64, u64)| TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            suspension: Time::new(suspension),
            ..TaskParameters::default()
        };
        TaskSet::new(1, &tasks.iter().map(of).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn each_bound_is_the_least_of_some_set_by_hand() {
        // Alone 2 + 3. Of the second: as execution 4 + 5 = 9; as jitter R - C = 3, 4 + 2 ceil((6 + 3) / 10) = 6; as blocking 4 + 2 + 2.
        let (verdict, found) = response_times(set(&[(2, 10, 3), (4, 20, 0)]).tasks());
        assert_eq!((verdict, found), (Verdict::Schedulable, [5, 6].map(Time::new).to_vec()));
        // As execution 9 + 3 (1 + 1) = 15; as jitter 9 + ceil((12 + 1) / 5) = 12; as blocking 9 + 1 + 3 = 13.
        let (_, found) = response_times(set(&[(1, 5, 1), (9, 20, 0)]).tasks());
        assert_eq!(found, [2, 12].map(Time::new));
    }

    #[test]
    fn a_job_that_waits_brings_two_jobs_together() {
        // 5 of 10 with 5 of suspension needs its whole period. Beside it 5 of 20 do not fit as execution; the first can run at the end of
        // one period and at the beginning of the next.
        let tight = set(&[(5, 10, 5), (5, 20, 0)]);
        let (verdict, found) = response_times(tight.tasks());
        assert_eq!((verdict, found[1]), (Verdict::Schedulable, Time::new(15)));
        assert_eq!(response_times(set(&[(5, 10, 5), (6, 20, 0)]).tasks()).0, Verdict::Unknown);
        assert_eq!(
            response_times(set(&[(5, 10, 5), (11, 20, 0)]).tasks()).0,
            Verdict::Unschedulable
        );
    }
}
