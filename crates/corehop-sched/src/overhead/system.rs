// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overheads of the operating system, charged to tasks (Brandenburg, PhD thesis, UNC 2011, chapter 3).
//!
//! For job-level fixed priorities (EDF) the charge is preemption-centric: each job pays for the preemption that it
//! causes. For fixed priorities, ticks and releases become tasks of the highest priority, with jitter.
//! [`bill`](super::super::bill) decides which delays a job pays.

use std::cmp::Ordering;

use crate::exact::{self, settle};
use crate::ranking::Ranking;
use corehop_plan::workload::task::{LONGEST, Task, TaskSet, Time};

/// The overheads of an operating system, each as an upper bound, in the unit of the tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemOverheads {
    /// The time that a timer tick takes.
    pub tick: Time,
    /// The time between two ticks; `None` if there are no ticks.
    pub quantum: Option<Time>,
    /// The time to handle the interrupt that releases a job.
    pub release: Time,
    /// The time from the event to the start of its interrupt handler.
    pub event_latency: Time,
    /// The time to choose the next job.
    pub scheduling: Time,
    /// The time to switch to the chosen job.
    pub context_switch: Time,
    /// The time to notify another CPU, which is charged if there are at least two CPUs.
    pub interprocessor: Time,
    /// The longest time until a dedicated CPU handles a release, including earlier releases that the CPU may handle
    /// first ([`dedicated_to`](SystemOverheads::dedicated_to)). The value is `None` if each CPU handles its own
    /// releases.
    pub dedicated: Option<Time>,
}

/// The largest number of iterations in the search for the longest time until a release is handled. If the search needs
/// more iterations, corehop assumes that no such longest time exists.
const MOST_STEPS: usize = 100_000;

impl SystemOverheads {
    /// Converts the overheads to a unit of `nanos` nanoseconds. Each overhead is rounded up; the time between ticks
    /// is rounded down.
    #[must_use]
    pub fn in_units_of(self, nanos: u64) -> Self {
        let up = |span: Time| span.div_up(nanos);
        Self {
            tick: up(self.tick),
            quantum: self.quantum.map(|span| (span / nanos).max(Time::TICK)),
            release: up(self.release),
            event_latency: up(self.event_latency),
            scheduling: up(self.scheduling),
            context_switch: up(self.context_switch),
            interprocessor: up(self.interprocessor),
            dedicated: self.dedicated.map(up),
        }
    }

    /// Returns the overheads with a dedicated CPU that only handles the releases of all tasks of `set`, whose times are
    /// in microseconds. A release waits for simultaneous releases. The longest wait is the least R > 0 with `R = sum of
    /// ceil((R + J_i + ev) / T_i) rel`, over the tasks of all CPUs. If releases come faster than the CPU handles them,
    /// there is no such R, and no task meets its deadline.
    #[must_use]
    pub fn dedicated_to(self, set: &TaskSet) -> Self {
        let tasks = set.tasks();
        let ns = |time: Time| u128::from(set.tick().nanos(time).get());
        let release = u128::from(self.release);
        let late = |task: &Task| ns(task.jitter) + u128::from(self.event_latency);
        let releases = |by: u128, task: &Task| (by + late(task)).div_ceil(ns(task.period)).max(1);
        let handled = |by: u128| tasks.iter().map(|it| releases(by, it)).sum::<u128>() * release;
        let mut by = tasks.len() as u128 * release;
        let never = u128::from(LONGEST) * 1_000;
        for _ in 0..MOST_STEPS {
            let next = handled(by);
            if next == by || next > never {
                return Self { dedicated: Some(Time::new(next.min(2 * never) as u64)), ..self };
            }
            by = next;
        }
        Self { dedicated: Some(Time::new((2 * never) as u64)), ..self }
    }

    /// The time to notify another CPU, which is charged on several CPUs, and if a dedicated CPU handles releases.
    fn interrupt(&self, cpus: u32) -> Time {
        if cpus > 1 || self.dedicated.is_some() { self.interprocessor } else { Time::ZERO }
    }

    /// The longest time by which a release may be late before it interrupts a CPU of the tasks.
    pub fn latency(&self) -> Time {
        self.event_latency + self.dedicated.unwrap_or(Time::ZERO)
    }
}

/// Charges overheads to each job: `e' = (e + 2 (sch + cxs) + cpmd) / (1 - Ut - Ur) + 2 cpre + ipi`, `T' = T - ev`, `D'
/// = D - ev`. With a dedicated CPU for releases, Ur is 0, and a release is late by `ev + R`. Execution times are
/// rounded up. `tasks` are the tasks of one CPU, cluster or machine with `cpus` CPUs. A job pays for the releases of
/// these tasks, and `cpmd` is each job's payment for the job that it preempts.
pub fn job_level(tasks: &[Task], cpus: u32, costs: &SystemOverheads, cpmd: &[Time]) -> Vec<Task> {
    let inflated = |(task, &delay): (&Task, &Time)| {
        one_job(tasks, cpus, costs, task, delay).unwrap_or_else(|| task.impossible())
    };
    tasks.iter().zip(cpmd).map(inflated).collect()
}

fn one_job(
    tasks: &[Task],
    cpus: u32,
    costs: &SystemOverheads,
    task: &Task,
    delay: Time,
) -> Option<Task> {
    if delay > LONGEST {
        return None;
    }
    let left = |span: Time| span.checked_sub(costs.latency()).filter(|&rest| rest > Time::ZERO);
    let (period, deadline) = (left(task.period)?, left(task.deadline)?);
    let (tick, quantum) = (i128::from(costs.tick), costs.quantum);
    let latency = i128::from(costs.event_latency);
    // With a CPU of their own, releases interrupt no job.
    let release = if costs.dedicated.is_some() { 0 } else { i128::from(costs.release) };
    let count = tasks.len() as i128;
    let after = costs.interrupt(cpus);
    let own = i128::from(task.wcet + 2 * (costs.scheduling + costs.context_switch) + delay);
    // Divided by 1 - Ut - Ur: what the job needs, and twice what is interrupted at once when it
    // preempts: cpre = (tick + ev Ut + n rel + ev Ur) / (1 - Ut - Ur).
    let ticks = if quantum.is_some() { tick } else { 0 };
    let fixed = own + 2 * (ticks + count * release);
    // g (1 - Ut - Ur) >= fixed + 2 ev (Ut + Ur), asked for whole g without a division.
    let enough = |g: Time| {
        let interrupted = i128::from(g) + 2 * latency;
        let by_ticks = quantum.map(|quantum| (-interrupted * tick, quantum.ticks()));
        let by_releases = tasks.iter().map(|task| (-interrupted * release, task.period.ticks()));
        let terms = by_ticks.into_iter().chain(by_releases).chain([(i128::from(g) - fixed, 1)]);
        exact::sign(terms) != Ordering::Less
    };
    let rate = quantum.map_or(0.0, |quantum| costs.tick.as_f64() / quantum.as_f64())
        + tasks.iter().map(|task| release as f64 / task.period.as_f64()).sum::<f64>();
    let guess = (fixed as f64 + 2.0 * latency as f64 * rate) / (1.0 - rate);
    if rate >= 1.0 || guess > LONGEST.as_f64() {
        return None;
    }
    let wcet =
        Time::new(settle(guess.ceil() as u128, |g| enough(Time::new(g as u64))) as u64) + after;
    Some(Task { wcet, period, deadline, ..*task })
}

/// Charges overheads under fixed priorities: ticks and releases are tasks of the highest priority with jitter `ev`.
/// Each task has `ev + rel (+ ipi)` more jitter (with a dedicated CPU for releases `ev + R + ipi`), and `C' = C + 2
/// (sch + cxs) + cpmd`. `tasks` are the tasks of one CPU; the added tasks are appended.
pub fn fixed_priority(
    tasks: &[Task],
    cpus: u32,
    costs: &SystemOverheads,
    cpmd: &[Time],
) -> Vec<Task> {
    let own = if costs.dedicated.is_some() { Time::ZERO } else { costs.release };
    let added = (costs.latency() + own + costs.interrupt(cpus)).min(2 * LONGEST);
    let mut charged = tasks.to_vec();
    let ticks = costs.quantum.filter(|_| costs.tick > Time::ZERO);
    let releases: &[Task] =
        if costs.release > Time::ZERO && costs.dedicated.is_none() { tasks } else { &[] };
    // Ranks are made explicit: the interrupts take the first ones. Tasks that share a priority still do.
    let first = releases.len() as u32 + 1;
    let ranking = Ranking::of(tasks);
    for (place, &at) in ranking.order().iter().enumerate() {
        let task = &mut charged[at];
        task.priority = Some(first + ranking.above(place).len() as u32);
        task.jitter += added;
        let longer = cpmd[at].min(2 * LONGEST) + 2 * (costs.scheduling + costs.context_switch);
        task.wcet = (task.wcet + longer).min(2 * LONGEST);
    }
    let interrupt = |rank: usize, wcet: Time, period: Time| Task {
        wcet,
        period,
        // An interrupt handler is not itself in time or late.
        deadline: LONGEST,
        jitter: costs.event_latency,
        blocking: Time::ZERO,
        suspension: Time::ZERO,
        priority: Some(rank as u32),
    };
    charged.extend(ticks.map(|quantum| interrupt(0, costs.tick, quantum)));
    let own = releases.iter().enumerate();
    charged.extend(own.map(|(at, task)| interrupt(at + 1, costs.release, task.period)));
    charged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uni::fixed::response_time_analysis;
    use corehop_fixtures::task_sets::{implicit, set};

    fn wcets(inflated: &[Task]) -> Vec<Time> {
        inflated.iter().map(Task::wcet).collect()
    }

    #[test]
    fn without_overheads_nothing_changes() {
        let set = implicit(2, &[(10, 100), (20, 200)]);
        let same =
            job_level(set.tasks(), 2, &SystemOverheads::default(), &[Time::ZERO, Time::ZERO]);
        assert_eq!(same, set.tasks());
        let same =
            fixed_priority(set.tasks(), 1, &SystemOverheads::default(), &[Time::ZERO, Time::ZERO]);
        assert_eq!(wcets(&same), [10, 20].map(Time::new));
    }

    #[test]
    fn scheduling_is_charged_twice_and_the_delay_once() {
        let set = implicit(1, &[(10, 100), (20, 200), (30, 300)]);
        let costs = SystemOverheads {
            scheduling: Time::new(1),
            context_switch: Time::new(2),
            ..SystemOverheads::default()
        };
        let inflated =
            job_level(set.tasks(), 1, &costs, &[Time::new(7), Time::new(7), Time::new(5)]);
        assert_eq!(wcets(&inflated), [10 + 6 + 7, 20 + 6 + 7, 30 + 6 + 5].map(Time::new));
    }

    #[test]
    fn six_configurations_are_what_schedcat_charges() {
        // Its jlfp.charge_scheduling_overheads by hand, of two tasks (1000, 10000) that pay 50 for each other.
        let set = implicit(2, &[(1_000, 10_000), (1_000, 10_000)]);
        let plain = SystemOverheads {
            scheduling: Time::new(2),
            context_switch: Time::new(3),
            ..SystemOverheads::default()
        };
        let charged = |cpus, costs: SystemOverheads| {
            let task = job_level(set.tasks(), cpus, &costs, &[Time::new(50), Time::new(50)])[0];
            (task.wcet, task.period)
        };
        // 1000 + 2 (2 + 3) + 50.
        assert_eq!(charged(1, plain), (Time::new(1_060), Time::new(10_000)));
        // (1060 + 2 (100)) / 0.9 = 1400.
        let ticks =
            SystemOverheads { tick: Time::new(100), quantum: Some(Time::new(1_000)), ..plain };
        assert_eq!(charged(1, ticks), (Time::new(1_400), Time::new(10_000)));
        // cpre = (100 + 20 (0.1)) / 0.9: (1060 + 2 (102)) / 0.9 = 1404.4.
        let late = SystemOverheads { event_latency: Time::new(20), ..ticks };
        assert_eq!(charged(1, late), (Time::new(1_405), Time::new(9_980)));
        // Ur = 2 (50) / 10000: (1060 + 2 (2) 50) / 0.99 = 1272.7; and 100 to tell another CPU.
        let releases =
            SystemOverheads { release: Time::new(50), interprocessor: Time::new(100), ..plain };
        assert_eq!(charged(1, releases), (Time::new(1_273), Time::new(10_000)));
        assert_eq!(charged(2, releases), (Time::new(1_373), Time::new(10_000)));
        // A CPU of its own handles releases: each job waits until both are handled, and for the interrupt, on one CPU as on
        // several. (SchedCAT charges one release, to the job.)
        let dedicated = SystemOverheads { dedicated: Some(Time::new(100)), ..releases };
        assert_eq!(
            (charged(1, dedicated), charged(2, dedicated)),
            ((Time::new(1_160), Time::new(9_900)), (Time::new(1_160), Time::new(9_900)))
        );
    }

    #[test]
    fn a_dedicated_cpu_handles_a_release_after_all_that_may_come_before_it() {
        let costs = SystemOverheads { release: Time::new(3_000), ..SystemOverheads::default() };
        let waits = |tasks: &[(u64, u64)], costs: SystemOverheads| {
            costs.dedicated_to(&implicit(1, tasks)).dedicated.unwrap()
        };
        // Three at once, and none comes again meanwhile.
        assert_eq!(waits(&[(1, 100), (1, 100), (1, 200)], costs), Time::new(9_000));
        // In 9 us the first comes twice, in 12 us three times: 3 (3 + 1 + 1) = 15, in which it comes no fourth time.
        assert_eq!(waits(&[(1, 5), (1, 100), (1, 200)], costs), Time::new(15_000));
        // Interrupts that come late come closer to each other: in 9 + 2 us the first comes twice.
        let late = SystemOverheads { event_latency: Time::new(2_000), ..costs };
        assert_eq!(waits(&[(1, 10), (1, 100), (1, 200)], late), Time::new(12_000));
        // Faster than they are handled.
        assert!(waits(&[(1, 5), (1, 6)], costs) > LONGEST);
        assert_eq!(waits(&[(1, 100)], SystemOverheads::default()), Time::ZERO);
    }

    #[test]
    fn ticks_and_releases_stretch_what_runs() {
        // Ut = 1/10, Ur = 0: e' = e / 0.9 + 2 (1 / 0.9): (10 + 2) / 0.9 = 13.33, up to 14.
        let set = implicit(1, &[(10, 100)]);
        let costs = SystemOverheads {
            tick: Time::new(1),
            quantum: Some(Time::new(10)),
            ..SystemOverheads::default()
        };
        assert_eq!(wcets(&job_level(set.tasks(), 1, &costs, &[Time::ZERO])), [14].map(Time::new));
        // Exactly 16 / 0.9 + 2 / 0.9 = 20: not rounded beyond.
        assert_eq!(
            wcets(&job_level(implicit(1, &[(16, 100)]).tasks(), 1, &costs, &[Time::ZERO])),
            [20].map(Time::new)
        );
        // Ur = 2/100, n rel = 2: (10 + 4) / 0.98 = 14.28, with the ev of 3: + 2 * 3 * 0.02 / 0.98.
        let costs = SystemOverheads {
            release: Time::new(2),
            event_latency: Time::new(3),
            ..SystemOverheads::default()
        };
        let inflated = job_level(set.tasks(), 1, &costs, &[Time::ZERO]);
        assert_eq!(wcets(&inflated), [15].map(Time::new));
        assert_eq!((inflated[0].period(), inflated[0].deadline()), (Time::new(97), Time::new(97)));
    }

    #[test]
    fn a_deadline_that_the_latency_eats_makes_the_set_infeasible() {
        // A peer divides by zero there.
        let set = set(1, &[(1, 10, 3)]);
        let costs = SystemOverheads { event_latency: Time::new(3), ..SystemOverheads::default() };
        let inflated = job_level(set.tasks(), 1, &costs, &[Time::ZERO]);
        assert!(inflated[0].wcet() > inflated[0].period());
        let busy = SystemOverheads {
            tick: Time::new(10),
            quantum: Some(Time::new(10)),
            ..SystemOverheads::default()
        };
        assert!(job_level(set.tasks(), 1, &busy, &[Time::ZERO])[0].wcet() > LONGEST);
    }

    #[test]
    fn for_fixed_priorities_interrupts_are_tasks() {
        let set = implicit(1, &[(10, 50), (20, 200)]);
        let costs = SystemOverheads {
            tick: Time::new(1),
            quantum: Some(Time::new(20)),
            release: Time::new(2),
            event_latency: Time::new(3),
            ..SystemOverheads::default()
        };
        let inflated = fixed_priority(set.tasks(), 1, &costs, &[Time::new(4), Time::new(4)]);
        assert_eq!(wcets(&inflated), [14, 24, 1, 2, 2].map(Time::new));
        let mut responses = vec![Time::ZERO; 5];
        response_time_analysis(&inflated, Some(&mut responses));
        // By hand: w = 14 + ceil((w + 3) / 20) + 2 ceil((w + 3) / 50) + 2 = 14 + 2 + 2 + 2 = 20; J = 5.
        assert_eq!(responses[0], Time::new(20 + 5));
    }
}
