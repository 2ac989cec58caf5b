// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for one CPU without preemption: a job that began runs to its end.

use std::cmp::Ordering;

use super::fixed::ResponseOutcome;
use super::{STEPS, busy_period, fifo};
use crate::exact::compare_sum;
use crate::ranking::Ranking;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Tests non-preemptive EDF (Jeffay, Stanat and Martel 1991; George, Rivierre and Spuri 1996), exactly for sporadic
/// tasks in integer time and without inserted idle time.
///
/// The condition is that `DBF(t) + max of (C_j - 1) over D_j > t` is at most `t` at every deadline.
pub fn edf(tasks: &[Task]) -> Verdict {
    if tasks.iter().any(|task| task.wcet > task.deadline) {
        return Verdict::Unschedulable;
    }
    match super::edf::qpa(tasks) {
        Verdict::Schedulable => {}
        told => return told,
    }
    // From the longest deadline on nothing blocks; before it each deadline is looked at.
    let longest = tasks.iter().map(|task| task.deadline).max().unwrap_or(Time::ZERO);
    let mut steps = STEPS;
    for task in tasks {
        let mut t = task.deadline;
        while t < longest {
            let Some(left) = steps.checked_sub(tasks.len() as u64) else { return Verdict::Unknown };
            steps = left;
            if blocking(tasks, t) + tasks.iter().map(|task| task.demand(t)).sum::<Time>() > t {
                return Verdict::Unschedulable;
            }
            t += task.period;
        }
    }
    Verdict::Schedulable
}

fn blocking(tasks: &[Task], t: Time) -> Time {
    let later = tasks.iter().filter(|task| task.deadline > t);
    later.map(|task| task.wcet - Time::TICK).max().unwrap_or(Time::ZERO)
}

/// Tests non-preemptive fixed priorities (George, Rivierre and Spuri 1996, as corrected by Davis, Burns, Bril and
/// Lukkien, "Controller Area Network (CAN) schedulability analysis", 2007). Tasks of equal priority run in the order
/// of their releases ([`fifo`]). The test is exact without jitter and blocking, if tasks of equal priority have
/// deadlines within periods.
pub fn fixed(tasks: &[Task], mut responses: Option<&mut [Time]>) -> Verdict {
    if compare_sum(tasks.iter().map(Task::u), 1) == Ordering::Greater {
        return Verdict::Unschedulable;
    }
    let ranking = Ranking::of(tasks);
    let mut steps = STEPS;
    let mut verdict = Verdict::Schedulable;
    for (at, &i) in ranking.order().iter().enumerate() {
        let (above, below) = (ranking.above(at), ranking.below(at));
        let found = match ranking.level(at) {
            [_] => response(tasks, above, i, below, &mut steps),
            level => fifo::response_without_preemption(tasks, above, level, i, below, &mut steps),
        };
        match found {
            ResponseOutcome::Bound(response) => {
                if let Some(responses) = responses.as_deref_mut() {
                    responses[i] = response;
                }
            }
            ResponseOutcome::Miss if tasks.iter().any(|task| task.blocking > Time::ZERO) => {
                return Verdict::Unknown;
            }
            ResponseOutcome::Miss => return Verdict::Unschedulable,
            ResponseOutcome::Doubt => verdict = Verdict::Unknown,
            ResponseOutcome::OutOfSteps => return Verdict::Unknown,
        }
    }
    verdict
}

/// The worst response of `i`, over every job in its longest busy period.
pub(super) fn response(
    tasks: &[Task],
    above: &[usize],
    i: usize,
    below: &[usize],
    steps: &mut u64,
) -> ResponseOutcome {
    let own = &tasks[i];
    let rest = below.iter().map(|&j| tasks[j].wcet - Time::TICK).max().unwrap_or(Time::ZERO);
    let blocking = rest.max(own.blocking);
    // Where the period has no end in sight, a miss may still be found among its first jobs.
    let jobs = busy_jobs(tasks, above, i, blocking);
    let (mut worst, mut job) = (Time::ZERO, 0);
    let mut start = blocking;
    while jobs.is_none_or(|jobs| job < jobs) {
        let before = blocking + job * own.wcet;
        loop {
            let Some(left) = steps.checked_sub(above.len() as u64 + 1) else {
                return ResponseOutcome::OutOfSteps;
            };
            *steps = left;
            // What came up to the very start goes first.
            let interference =
                |&j: &usize| ((start + tasks[j].jitter) / tasks[j].period + 1) * tasks[j].wcet;
            let next = before + above.iter().map(interference).sum::<Time>();
            if next + own.wcet + own.jitter > own.deadline + job * own.period {
                return ResponseOutcome::Miss;
            }
            if next == start {
                break;
            }
            start = next;
        }
        worst = worst.max(start + own.wcet + own.jitter - job * own.period);
        job += 1;
        start += own.wcet;
    }
    ResponseOutcome::Bound(worst)
}

/// The number of jobs of `i` in the longest busy period of `i` and all tasks above it.
fn busy_jobs(tasks: &[Task], above: &[usize], i: usize, blocking: Time) -> Option<u64> {
    let level: Vec<Task> = above.iter().chain([&i]).map(|&j| tasks[j]).collect();
    let busy = busy_period(&level, blocking)?;
    Some((busy + tasks[i].jitter).div_ceil(tasks[i].period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Schedulable, Unschedulable};
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn the_job_after_the_first_may_be_the_worst() {
        // Davis et al. 2007, table 3: C 1 each with periods 2.5, 3.5, 3.5 ms, deadlines 2.5, 3.25, 3.25
        // (here in quarters): the first job of the third responds in 3 ms, its second one in 3.5 ms.
        let set = set(1, &[(4, 10, 10), (4, 14, 13), (4, 14, 13)]);
        assert_eq!(fixed(set.tasks(), None), Unschedulable);
        let mut found = vec![Time::ZERO; 3];
        let longer = implicit(1, &[(4, 10), (4, 14), (4, 14)]);
        assert_eq!(fixed(longer.tasks(), Some(&mut found)), Schedulable);
        assert_eq!(found[2], Time::new(14));
    }

    #[test]
    fn a_long_job_makes_a_tight_deadline_fail_without_preemption() {
        let tight = set(1, &[(1, 10, 2), (3, 10, 10)]);
        assert_eq!(super::super::edf::qpa(tight.tasks()), Schedulable);
        assert_eq!(edf(tight.tasks()), Unschedulable);
        assert_eq!(edf(set(1, &[(1, 10, 3), (3, 10, 10)]).tasks()), Schedulable);
    }

    #[test]
    fn too_much_work_is_no_doubt_even_where_blocking_is_a_bound_and_a_full_cpu_is_enough() {
        let task = |wcet, blocking| Task {
            blocking: Time::new(blocking),
            ..*implicit(1, &[(wcet, 10)]).tasks().first().unwrap()
        };
        assert_eq!(fixed(&[task(6, 1), task(5, 0)], None), Unschedulable);
        assert_eq!(fixed(&[task(6, 5), task(4, 0)], None), Verdict::Unknown);
        assert_eq!(fixed(implicit(1, &[(1, 2), (1, 2)]).tasks(), None), Schedulable);
    }

    #[test]
    fn a_job_waits_for_the_longest_below_less_a_tick_or_for_its_own_blocking() {
        // The first waits for 4 - 1, the second for nothing below: it starts when the first has gone.
        let mut found = vec![Time::ZERO; 2];
        let plain = implicit(1, &[(2, 10), (4, 20)]);
        assert_eq!(fixed(plain.tasks(), Some(&mut found)), Schedulable);
        assert_eq!(found, [5, 6].map(Time::new));
        let mut tasks = plain.tasks().to_vec();
        tasks[0].blocking = Time::new(7);
        assert_eq!(fixed(&tasks, Some(&mut found)), Schedulable);
        assert_eq!(found, [9, 6].map(Time::new));
        tasks[0].blocking = Time::new(9);
        assert_eq!(fixed(&tasks, Some(&mut found)), Verdict::Unknown);
    }
}
