// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact worst-case response times under preemptive EDF on one CPU.
//!
//! The source is Spuri, "Analysis of deadline scheduled real-time systems", INRIA RR-2772, 1996. The worst response
//! of task `i` occurs in a busy period at whose start all other tasks are released, with a job of `i` arriving at
//! `a`. Only arrivals `a` matter at which the job's deadline coincides with another deadline, or an earlier job of
//! `i` starts the period.

use super::edf::{Hold, blocking_within, released};
use super::{STEPS, busy_period_on};
use crate::exact::compare_sum;
use crate::supply::{FULL, Supply};
use corehop_plan::workload::task::{Task, Time};

/// Whether jobs may be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Jobs may be preempted at any time.
    Free,
    /// Jobs are never preempted: a job that began runs to its end.
    None,
}

/// Returns each task's worst-case response time; `None` if the utilisation is above 1, or the search takes more than
/// `STEPS` steps.
pub fn response_times(tasks: &[Task], preemption: Preemption) -> Option<Vec<Time>> {
    response_times_held_up(tasks, preemption, &[], &FULL)
}

/// Returns each task's worst-case response time with preemption on a CPU with this supply: a response is the shortest
/// time that supplies all work executed before the job's end.
pub fn response_times_on(tasks: &[Task], supply: &Supply) -> Option<Vec<Time>> {
    response_times_held_up(tasks, Preemption::Free, &[], supply)
}

/// Bounds on response times if jobs that are due later delay others by sections
/// ([`qpa_held_up`](super::edf::qpa_held_up)), and jobs are released late by up to their jitter (Spuri 1996, sections
/// 5 and 6). A response counts from the job's arrival. Jitter and sections apply only with preemption.
pub(crate) fn response_times_held_up(
    tasks: &[Task],
    preemption: Preemption,
    holds: &[Hold],
    supply: &Supply,
) -> Option<Vec<Time>> {
    if tasks.iter().any(|task| task.jitter >= task.deadline) {
        return None;
    }
    if compare_sum(tasks.iter().map(Task::u), 1).is_gt() {
        return None;
    }
    let first = match preemption {
        Preemption::Free => {
            let stated = tasks.iter().map(|task| task.blocking).max().unwrap_or(Time::ZERO);
            stated + holds.iter().map(|it| it.longest).max().unwrap_or(Time::ZERO)
        }
        Preemption::None => {
            tasks.iter().map(|task| task.wcet - Time::TICK).max().unwrap_or(Time::ZERO)
        }
    };
    let busy = busy_period_on(tasks, first, supply)?;
    let mut steps = STEPS;
    let jitter: Vec<Time> = tasks.iter().map(|task| task.jitter).collect();
    let tasks: Vec<Task> = tasks.iter().map(released).collect();
    let (tasks, jitter) = (&tasks[..], &jitter[..]);
    let steps = &mut steps;
    let mut search = ResponseSearch { tasks, jitter, holds, busy, preemption, supply, steps };
    (0..tasks.len()).map(|i| Some(search.worst_response(i)?.0)).collect()
}

/// A busy period that attains the worst response of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Busiest {
    /// The arrival of the analysed job, relative to the start of the period.
    pub(crate) arrival: Time,
    /// The number of jobs that each task completes by the end of the analysed job; tasks without jobs are left out.
    pub(crate) jobs: Vec<(usize, u64)>,
}

/// The busiest period of task `i` on a CPU with this supply, with preemption and without jitter; `None` as for
/// [`response_times`].
pub(crate) fn busiest(tasks: &[Task], i: usize, supply: &Supply) -> Option<Busiest> {
    let plain = tasks.iter().all(|task| task.jitter == Time::ZERO);
    if !plain || compare_sum(tasks.iter().map(Task::u), 1).is_gt() {
        return None;
    }
    let jitter = &vec![Time::ZERO; tasks.len()][..];
    let (busy, mut steps) = (busy_period_on(tasks, Time::ZERO, supply)?, STEPS);
    let (holds, preemption, steps) = (&[][..], Preemption::Free, &mut steps);
    let mut search = ResponseSearch { tasks, jitter, holds, busy, preemption, supply, steps };
    let (response, arrival) = search.worst_response(i)?;
    let Some(arrival) = arrival else {
        return Some(Busiest { arrival: Time::ZERO, jobs: vec![(i, 1)] });
    };
    let jobs = search.jobs(i, arrival, arrival + response).filter(|it| it.1 > 0).collect();
    Some(Busiest { arrival, jobs })
}

struct ResponseSearch<'a> {
    /// The tasks, whose deadlines count from the latest possible release.
    tasks: &'a [Task],
    /// The release jitter of each task.
    jitter: &'a [Time],
    holds: &'a [Hold],
    busy: Time,
    preemption: Preemption,
    supply: &'a Supply,
    steps: &'a mut u64,
}

impl ResponseSearch<'_> {
    /// The worst response over every relevant offset `a`, with the first `a` that attains the response; no `a` if no
    /// other job delays the task.
    fn worst_response(&mut self, i: usize) -> Option<(Time, Option<Time>)> {
        let own = self.tasks[i];
        let mut worst = (self.supply.time_for(own.wcet) + self.jitter[i], None);
        let longer = |worst: (Time, Option<Time>), response, a| {
            if response > worst.0 { (response, Some(a)) } else { worst }
        };
        for j in 0..self.tasks.len() {
            let other = self.tasks[j];
            // a = k T + D_j - D_i, from the first that is not negative; for j = i this is k T.
            let mut a = other.deadline;
            if a < own.deadline {
                a += (own.deadline - a).div_ceil(other.period) * other.period;
            }
            a -= own.deadline;
            while a < self.busy + self.jitter[i] {
                worst = longer(worst, self.response_at(i, a)?, a);
                a += other.period;
            }
        }
        // Blocking by a job with a later deadline is worst for a release just after its start.
        if self.preemption == Preemption::None {
            worst = longer(worst, self.response_at(i, Time::ZERO)?, Time::ZERO);
        }
        Some(worst)
    }

    /// The response time of the job of `i` that arrives `a - J` after the start of the busy period and is released at
    /// its arrival, or at the start of the period if the arrival is earlier.
    fn response_at(&mut self, i: usize, a: Time) -> Option<Time> {
        let own = self.tasks[i];
        let blocking = self.blocking(a + own.deadline);
        let mut length = match self.preemption {
            Preemption::Free | Preemption::None => blocking,
        };
        loop {
            *self.steps = self.steps.checked_sub(self.tasks.len() as u64)?;
            let next = match self.preemption {
                Preemption::Free => self.supply.time_for(blocking + self.completion(i, a, length)),
                Preemption::None => blocking + self.started(i, a, length),
            };
            if next == length {
                break;
            }
            length = next;
        }
        let end = match self.preemption {
            Preemption::Free => length,
            Preemption::None => length + own.wcet,
        };
        Some((end + self.jitter[i]).saturating_sub(a).max(own.wcet))
    }

    /// The work of jobs that are released before `length` and due no later than the analysed job.
    fn completion(&self, i: usize, a: Time, length: Time) -> Time {
        self.jobs(i, a, length).map(|(j, jobs)| jobs * self.tasks[j].wcet).sum()
    }

    /// The number of jobs of each task that are released before `length` and due no later than the analysed job.
    fn jobs(&self, i: usize, a: Time, length: Time) -> impl Iterator<Item = (usize, u64)> {
        let own = self.tasks[i];
        let due = a + own.deadline;
        // The first of the own jobs is released at `a mod T`; all others at the start of the period,
        // whose own work begins it: at length 0 they count once.
        let begun = length.max(Time::TICK);
        let others =
            self.tasks.iter().enumerate().filter(move |&(j, task)| j != i && task.deadline <= due);
        let others = others.map(move |(j, task)| {
            let released = (begun + self.jitter[j]).div_ceil(task.period);
            (j, released.min((due - task.deadline) / task.period + 1))
        });
        let offset = a % own.period;
        let released = (begun + self.jitter[i]).saturating_sub(offset).div_ceil(own.period);
        others.chain([(i, released.min(a / own.period + 1))])
    }

    /// Work that begins before the analysed job, if that job begins at `length` (without preemption).
    fn started(&self, i: usize, a: Time, length: Time) -> Time {
        let own = self.tasks[i];
        let due = a + own.deadline;
        let others =
            self.tasks.iter().enumerate().filter(|&(j, task)| j != i && task.deadline <= due);
        let others = others.map(|(_, task)| {
            (length / task.period + 1).min((due - task.deadline) / task.period + 1) * task.wcet
        });
        others.sum::<Time>() + a / own.period * own.wcet
    }

    /// The longest remaining execution of a job (or of its section) that began just before the period and is due
    /// after `due`.
    fn blocking(&self, due: Time) -> Time {
        if self.preemption == Preemption::Free {
            return blocking_within(self.tasks, self.holds, due);
        }
        let later = self.tasks.iter().filter(|task| task.deadline > due);
        later.map(|task| task.wcet - Time::TICK).max().unwrap_or(Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn equal_deadlines_may_go_either_way() {
        // By hand: of two jobs due at the same time either may go first, so (1,12) waits for (3,12)
        // and for a job of (1,4): 1 + 3 + 1 and the next (1,4) that is due with it.
        let tasks = implicit(1, &[(1, 4), (3, 12), (1, 12)]);
        assert_eq!(
            response_times(tasks.tasks(), Preemption::Free),
            Some([1, 6, 6].map(Time::new).to_vec())
        );
        let tasks = implicit(1, &[(1, 5), (1, 8), (1, 2)]);
        assert_eq!(
            response_times(tasks.tasks(), Preemption::Free),
            Some([2, 4, 1].map(Time::new).to_vec())
        );
    }

    #[test]
    fn a_task_that_needs_a_whole_cpu_gets_it() {
        let alone = implicit(1, &[(7, 7)]);
        assert_eq!(
            response_times(alone.tasks(), Preemption::Free),
            Some([7].map(Time::new).to_vec())
        );
        let above = implicit(1, &[(7, 7), (1, 1000)]);
        assert_eq!(response_times(above.tasks(), Preemption::Free), None);
    }

    #[test]
    fn without_preemption_a_short_job_waits_for_a_long_one() {
        // The long one began a unit before the short one came: 9 units are left.
        let tasks = set(1, &[(1, 20, 12), (10, 40, 40)]);
        let responses = response_times(tasks.tasks(), Preemption::None).unwrap();
        assert_eq!(responses[0], Time::new(10));
    }
}
