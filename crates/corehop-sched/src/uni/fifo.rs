// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that share a priority on one CPU, as under `SCHED_FIFO`: a task of equal priority is not preempted, and jobs
//! of one priority run in the order of their releases.
//!
//! A job released at `t` in a busy period waits for the jobs of its priority released until `t`, and for jobs of
//! higher priority released until its own end. The busy period begins with a job of each other task, and the worst
//! `t` is a release of some task of that priority. Source: Martin, Minet and George, "FP/FIFO scheduling:
//! deterministic versus probabilistic QoS guarantees", 2005. The bound is exact if the deadlines of tasks of equal
//! priority are within their periods. A job that is released before the previous job of its task ends does not queue
//! again, because its thread never slept. So such a job may overtake other jobs. If a deadline is beyond a period,
//! each task of equal priority counts as higher, which gives a bound that need not be attained.

use super::fixed::{self, ResponseOutcome};
use super::{busy_period_on, nonpreemptive};
use crate::exact::{compare_sum, gcd};
use crate::supply::{FULL, Supply};
use corehop_plan::workload::task::{LONGEST, Task, Time};

/// The worst response of task `i`, a member of `level`, below the tasks `above`.
pub(crate) fn response(
    tasks: &[Task],
    above: &[usize],
    level: &[usize],
    i: usize,
    supply: &Supply,
    steps: &mut u64,
) -> ResponseOutcome {
    let level = PriorityLevel::preemptive(tasks, above, level, i, supply);
    if level.is_fifo() {
        return level.worst(steps);
    }
    let bound = fixed::response(tasks, &level.higher_and_equal(), i, supply, steps);
    level.confirmed(bound, steps)
}

/// The worst response without preemption, where a job of lower priority that has begun may have `rest` left to do.
pub(crate) fn response_without_preemption(
    tasks: &[Task],
    above: &[usize],
    level: &[usize],
    i: usize,
    below: &[usize],
    steps: &mut u64,
) -> ResponseOutcome {
    let rest = below.iter().map(|&j| tasks[j].wcet - Time::TICK).max().unwrap_or(Time::ZERO);
    let level =
        PriorityLevel { tasks, above, equals: level, i, rest, preemptive: false, supply: &FULL };
    if level.is_fifo() {
        return level.worst(steps);
    }
    let bound = nonpreemptive::response(tasks, &level.higher_and_equal(), i, below, steps);
    level.confirmed(bound, steps)
}

/// The longest response of task `i`, whatever its deadline. If some deadline at this priority is beyond its period,
/// the response is that of the first job with one job of each equal task before it.
pub(crate) fn longest(
    tasks: &[Task],
    above: &[usize],
    level: &[usize],
    i: usize,
    supply: &Supply,
    steps: &mut u64,
) -> ResponseOutcome {
    let exact = PriorityLevel::preemptive(tasks, above, level, i, supply).is_fifo();
    let mut patient = tasks.to_vec();
    patient[i].deadline = LONGEST;
    let level = PriorityLevel::preemptive(&patient, above, level, i, supply);
    if exact {
        return level.worst(steps);
    }
    level
        .done(Time::ZERO, Time::ZERO, steps)
        .map_or_else(|found| found, |done| ResponseOutcome::Bound(done + tasks[i].jitter))
}

/// The tasks of one priority, and the tasks that delay them.
struct PriorityLevel<'a> {
    tasks: &'a [Task],
    above: &'a [usize],
    /// All tasks of the priority, `i` among them.
    equals: &'a [usize],
    i: usize,
    /// The remaining work of a job of lower priority that began before the busy period.
    rest: Time,
    preemptive: bool,
    /// The supply of the CPU; without preemption, a CPU that is always available.
    supply: &'a Supply,
}

impl<'a> PriorityLevel<'a> {
    /// The priority level of task `i` with preemption, where no job of lower priority has work left.
    fn preemptive(
        tasks: &'a [Task],
        above: &'a [usize],
        equals: &'a [usize],
        i: usize,
        supply: &'a Supply,
    ) -> Self {
        Self { tasks, above, equals, i, rest: Time::ZERO, preemptive: true, supply }
    }

    /// Whether each job queues at its release.
    fn is_fifo(&self) -> bool {
        self.equals.iter().all(|&j| self.tasks[j].deadline <= self.tasks[j].period)
    }

    fn own(&self) -> &Task {
        &self.tasks[self.i]
    }

    fn higher_and_equal(&self) -> Vec<usize> {
        let equal = self.equals.iter().copied().filter(|&j| j != self.i);
        self.above.iter().copied().chain(equal).collect()
    }

    /// Reports a missed deadline only if the job with one job of each equal task before it is late; otherwise the
    /// missed bound is a doubt.
    fn confirmed(&self, bound: ResponseOutcome, steps: &mut u64) -> ResponseOutcome {
        if bound != ResponseOutcome::Miss {
            return bound;
        }
        match self.done(Time::ZERO, Time::ZERO, steps) {
            Err(ResponseOutcome::Miss) => ResponseOutcome::Miss,
            _ => ResponseOutcome::Doubt,
        }
    }

    /// The worst response over every release at this priority within the longest busy period.
    fn worst(&self, steps: &mut u64) -> ResponseOutcome {
        // Where the period has no end in sight, a miss may still be found among its first jobs.
        let end = self.end();
        if end.is_none() && !self.supply.is_full() {
            return ResponseOutcome::Doubt;
        }
        let (mut t, mut done, mut worst) = (Time::ZERO, Time::ZERO, Time::ZERO);
        while end.is_none_or(|end| t < end) {
            done = match self.done(t, done, steps) {
                Ok(done) => done,
                Err(found) => return found,
            };
            worst = worst.max(done + self.own().jitter - t);
            t = self.next_release(t);
        }
        ResponseOutcome::Bound(worst)
    }

    /// The end of the job that task `i` releases at `t`, searched from `from` on.
    fn done(&self, t: Time, from: Time, steps: &mut u64) -> Result<Time, ResponseOutcome> {
        let own = self.own();
        let before =
            self.blocking() + self.equals.iter().map(|&j| self.released(j, t)).sum::<Time>();
        let mut done = from.max(before);
        loop {
            let charge = self.above.len() as u64 + 1;
            *steps = steps.checked_sub(charge).ok_or(ResponseOutcome::OutOfSteps)?;
            let preempting = self.above.iter().map(|&j| self.preempting(j, done));
            let next = self.supply.time_for(before + preempting.sum::<Time>());
            if next + own.jitter > own.deadline + t {
                return Err(ResponseOutcome::Miss);
            }
            if next <= done {
                return Ok(done);
            }
            done = next;
        }
    }

    /// The work of lower priority that may delay the jobs of this priority.
    fn blocking(&self) -> Time {
        self.equals.iter().map(|&j| self.tasks[j].blocking).fold(self.rest, Time::max)
    }

    /// The possible lateness of the first release of task `j`; for task `i` the analysed job determines it.
    fn jitter(&self, j: usize) -> Time {
        if j == self.i { Time::ZERO } else { self.tasks[j].jitter }
    }

    /// The work of task `j` of this priority that is released until `t`.
    fn released(&self, j: usize, t: Time) -> Time {
        let task = &self.tasks[j];
        (1 + (t + self.jitter(j)) / task.period) * task.wcet
    }

    /// The work of task `j` of higher priority that comes before the end of a job at `done`, or before its start.
    fn preempting(&self, j: usize, done: Time) -> Time {
        let task = &self.tasks[j];
        let jobs = if self.preemptive {
            (done + task.jitter).div_ceil(task.period)
        } else {
            (done - self.own().wcet + task.jitter) / task.period + 1
        };
        jobs * task.wcet
    }

    /// The next release of a task of this priority after `t`.
    fn next_release(&self, t: Time) -> Time {
        let next = |&j: &usize| {
            let (period, jitter) = (self.tasks[j].period, self.jitter(j));
            ((t + jitter) / period + 1) * period - jitter
        };
        self.equals.iter().map(next).min().unwrap_or(Time::MAX)
    }

    /// The end of the releases to check: the longest busy period, or, at full utilisation, where a busy period may
    /// never end, the least common multiple of the periods (as in [`fixed`]). Returns `None` if the search takes too
    /// long.
    fn end(&self) -> Option<Time> {
        let all: Vec<Task> = self.above.iter().chain(self.equals).map(|&j| self.tasks[j]).collect();
        let utilisations: Vec<_> = all.iter().map(Task::u).collect();
        let load = compare_sum(utilisations.into_iter(), 1);
        let lcm = |a: Time, b: Time| {
            let cycle = b.checked_mul(a.ticks() / gcd(a.ticks(), b.ticks()));
            cycle.filter(|&cycle| cycle < LONGEST)
        };
        let cycle = || all.iter().map(|task| task.period).try_fold(Time::TICK, lcm);
        let period = || busy_period_on(&all, self.blocking(), self.supply);
        if load.is_gt() {
            None
        } else if load.is_eq() && self.supply.is_full() {
            cycle().or_else(period)
        } else {
            period()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uni::nonpreemptive;
    use crate::verdict::Verdict;
    use corehop_plan::workload::draw::DrawStream;
    use corehop_plan::workload::task::{TaskParameters, TaskSet};

    fn task(wcet: u64, period: u64, deadline: u64, rank: u32) -> TaskParameters {
        let [wcet, period, deadline] = [wcet, period, deadline].map(Time::new);
        let (deadline, priority) = (Some(deadline), Some(rank));
        TaskParameters { wcet, period, deadline, priority, ..TaskParameters::default() }
    }

    /// Simulates periodic releases from `offsets` on, unit by unit: the longest response of `watched`, which comes
    /// last among simultaneous releases. A job takes the queue position of its task's earlier job.
    fn longest_response(
        tasks: &[Task],
        offsets: &[Time],
        watched: usize,
        preemptive: bool,
        until: Time,
    ) -> Time {
        let mut queue: Vec<Vec<(Time, Time)>> = vec![Vec::new(); tasks.len()];
        let mut queued = vec![Time::ZERO; tasks.len()];
        let (mut longest, mut running) = (Time::ZERO, None);
        for now in (0..until.ticks()).map(Time::new) {
            for (j, task) in tasks.iter().enumerate() {
                if now >= offsets[j] && (now - offsets[j]).is_multiple_of(task.period) {
                    if queue[j].is_empty() {
                        queued[j] = now;
                    }
                    queue[j].push((now, task.wcet));
                }
            }
            let ready = (0..tasks.len()).filter(|&j| !queue[j].is_empty());
            let first = ready.min_by_key(|&j| (tasks[j].priority, queued[j], j == watched, j));
            let Some(first) = running.filter(|_| !preemptive).or(first) else { continue };
            running = Some(first);
            queue[first][0].1 -= Time::new(1);
            if queue[first][0].1 == Time::ZERO {
                let (release, _) = queue[first].remove(0);
                running = None;
                if first == watched {
                    longest = longest.max(now + Time::new(1) - release);
                }
            }
        }
        // What is left is not done before the end.
        queue[watched].iter().map(|&(release, _)| until - release).fold(longest, Time::max)
    }

    /// Whether the tasks need more than one CPU; if so, a backlog grows, possibly beyond the slow simulation.
    fn overloaded(tasks: &[Task]) -> bool {
        compare_sum(tasks.iter().map(Task::u).collect::<Vec<_>>().into_iter(), 1).is_gt()
    }

    /// The longest response of each task over all offsets.
    fn worst_of_all(tasks: &[Task], preemptive: bool) -> Vec<Time> {
        let cycle =
            tasks.iter().fold(1, |all, it| all / gcd(all, it.period.ticks()) * it.period.ticks());
        let combinations: u64 = tasks.iter().map(|it| it.period.ticks()).product();
        let mut worst = vec![Time::ZERO; tasks.len()];
        for combination in 0..combinations {
            let mut rest = combination;
            let offsets: Vec<Time> = tasks
                .iter()
                .map(|task| {
                    let offset = rest % task.period.ticks();
                    rest /= task.period.ticks();
                    Time::new(offset)
                })
                .collect();
            for (i, worst) in worst.iter_mut().enumerate() {
                let until = Time::new(2 * cycle + 6);
                let seen = longest_response(tasks, &offsets, i, preemptive, until);
                *worst = seen.max(*worst);
            }
        }
        worst
    }

    fn analysed(tasks: &[Task], preemptive: bool) -> (Verdict, Vec<Time>) {
        let mut found = vec![Time::ZERO; tasks.len()];
        let analysis =
            if preemptive { fixed::response_time_analysis } else { nonpreemptive::fixed };
        (analysis(tasks, Some(&mut found)), found)
    }

    #[test]
    fn an_equal_is_not_preempted_by_hand() {
        // 1 ms of 5 and 20 of 100 at one priority: the first waits for the second.
        let set = |deadline| {
            let given = [task(1_000, 5_000, deadline, 10), task(20_000, 100_000, 100_000, 10)];
            TaskSet::new(1, &given).unwrap()
        };
        assert_eq!(analysed(set(5_000).tasks(), true).0, Verdict::Unschedulable);
        assert_eq!(
            analysed(set(21_000).tasks(), true),
            (Verdict::Schedulable, [21_000, 25_000].map(Time::new).to_vec())
        );
        // One job of each before it is late: that is certain.
        assert_eq!(analysed(set(20_999).tasks(), true).0, Verdict::Unschedulable);
    }

    #[test]
    fn what_is_analysed_is_what_the_slow_schedule_shows() {
        for preemptive in [true, false] {
            let (mut yes, mut no) = (0, 0);
            for index in 0..100 {
                let mut draw = DrawStream::of_set(17 + u64::from(preemptive), index);
                let given: Vec<_> = (0..3)
                    .map(|_| {
                        let period = 3 + draw.below(4);
                        let wcet = 1 + draw.below(4) / 3;
                        let deadline = period - draw.below(2).min(period - wcet);
                        task(wcet, period, deadline, 1 + draw.below(2) as u32)
                    })
                    .collect();
                let set = TaskSet::new(1, &given).unwrap();
                let tasks = set.tasks();
                let (verdict, found) = analysed(tasks, preemptive);
                let seen = worst_of_all(tasks, preemptive);
                let misses = seen.iter().zip(tasks).any(|(seen, task)| *seen > task.deadline);
                match verdict {
                    Verdict::Schedulable => {
                        assert_eq!(found, seen, "{given:?}");
                        yes += 1;
                    }
                    Verdict::Unschedulable => {
                        assert!(misses || overloaded(tasks), "{given:?} {seen:?}");
                        no += u32::from(misses);
                    }
                    Verdict::Unknown => panic!("{given:?}"),
                }
            }
            assert!(yes > 15 && no > 15, "{yes} {no}");
        }
    }

    #[test]
    fn beyond_periods_a_yes_holds_and_a_no_has_a_witness() {
        for preemptive in [true, false] {
            let (mut yes, mut no) = (0, 0);
            for index in 0..80 {
                let mut draw = DrawStream::of_set(29 + u64::from(preemptive), index);
                let given: Vec<_> = (0..3)
                    .map(|_| {
                        let period = 2 + draw.below(5);
                        let wcet = 1 + draw.below(period.div_ceil(3));
                        task(wcet, period, wcet + draw.below(2 * period), 1)
                    })
                    .collect();
                let set = TaskSet::new(1, &given).unwrap();
                let tasks = set.tasks();
                let (verdict, found) = analysed(tasks, preemptive);
                let seen = worst_of_all(tasks, preemptive);
                let late = seen.iter().zip(tasks).any(|(seen, task)| *seen > task.deadline);
                match verdict {
                    Verdict::Schedulable => {
                        let bounded = seen.iter().zip(&found).all(|(seen, found)| seen <= found);
                        assert!(!late && bounded, "{given:?} {seen:?} {found:?}");
                        yes += 1;
                    }
                    Verdict::Unschedulable => {
                        assert!(late || overloaded(tasks), "{given:?} {seen:?}");
                        no += u32::from(late);
                    }
                    Verdict::Unknown => {}
                }
            }
            assert!(yes > 10 && no > 10, "{yes} {no}");
        }
    }

    #[test]
    fn releases_that_come_late_let_equals_come_together() {
        // 1 of 4 comes up to 3 late: two jobs of it are before the other's, 2 + 2, and a third one is after it.
        let given =
            [TaskParameters { jitter: Time::new(3), ..task(1, 4, 4, 1) }, task(2, 12, 12, 1)];
        let set = TaskSet::new(1, &given).unwrap();
        let level = PriorityLevel {
            tasks: set.tasks(),
            above: &[],
            equals: &[0, 1],
            i: 1,
            rest: Time::ZERO,
            preemptive: true,
            supply: &FULL,
        };
        assert_eq!(level.done(Time::ZERO, Time::ZERO, &mut 100), Ok(Time::new(3)));
        assert_eq!(level.done(Time::new(1), Time::ZERO, &mut 100), Ok(Time::new(4)));
        assert_eq!(level.next_release(Time::ZERO), Time::new(1));
    }
}
