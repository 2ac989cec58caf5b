// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operating system takes, charged to tasks (Brandenburg, PhD thesis, UNC 2011, chapter 3).
//!
//! Preemption-centric for job-level fixed priorities (EDF): each job pays for the preemption that it
//! causes. With jitter for fixed priorities: ticks and releases become tasks above all others.

use std::cmp::Ordering;

use super::{Inflated, impossible};
use crate::decision::sched::exact::{self, settle};
use crate::decision::sched::task::{LONGEST, Task, TaskSet, Time};
use crate::decision::sched::uni::fixed::by_priority;

/// What an operating system takes, each as a bound, in the unit of the tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overheads {
    /// A timer tick, and the time between two (none where there are no ticks).
    pub tick: Time,
    /// Time between two ticks.
    pub quantum: Option<Time>,
    /// Handling the interrupt that releases a job.
    pub release: Time,
    /// From the event to the start of its interrupt handler.
    pub event_latency: Time,
    /// Choosing the next job.
    pub scheduling: Time,
    /// Switching to it.
    pub context_switch: Time,
    /// Telling another CPU (charged from two CPUs on).
    pub interprocessor: Time,
    /// Whether a CPU of its own handles all releases.
    pub dedicated: bool,
}

/// `e' = (e + 2 (sch + cxs) + cpmd) / (1 - Ut - Ur) + 2 cpre + ipi`, `T' = T - ev`, `D' = D - ev`; execution times are
/// rounded up. `cpmd` gives the delay that a task suffers when it is preempted; a job is charged
/// the largest of the others', since it pays for the job that it preempts.
pub fn job_level(
    set: &TaskSet,
    costs: &Overheads,
    mut cpmd: impl FnMut(usize) -> Time,
) -> Inflated {
    let delays: Vec<Time> = (0..set.tasks().len()).map(&mut cpmd).collect();
    let inflated = |(at, task): (usize, &Task)| {
        let others = delays.iter().enumerate().filter(|&(other, _)| other != at);
        let delay = others.map(|(_, &delay)| delay).max().unwrap_or(0);
        one_job(set, costs, task, delay).unwrap_or_else(|| impossible(task))
    };
    let tasks = set.tasks().iter().enumerate().map(inflated).collect();
    Inflated { cpus: set.cpus(), tasks, delays, cache: set.cache().cloned() }
}

fn one_job(set: &TaskSet, costs: &Overheads, task: &Task, delay: Time) -> Option<Task> {
    let period = task.period.checked_sub(costs.event_latency).filter(|&rest| rest > 0)?;
    let deadline = task.deadline.checked_sub(costs.event_latency).filter(|&rest| rest > 0)?;
    let (tick, quantum) = (i128::from(costs.tick), costs.quantum);
    let latency = i128::from(costs.event_latency);
    // With a CPU of their own, releases interrupt nobody.
    let release = if costs.dedicated { 0 } else { i128::from(costs.release) };
    let count = set.tasks().len() as i128;
    let ipi = if set.cpus() > 1 { costs.interprocessor } else { 0 };
    let after = ipi + if costs.dedicated { costs.release } else { 0 };
    let own = i128::from(task.wcet + 2 * (costs.scheduling + costs.context_switch) + delay);
    // Divided by 1 - Ut - Ur: what the job needs, and twice what is interrupted at once when it
    // preempts: cpre = (tick + ev Ut + n rel + ev Ur) / (1 - Ut - Ur).
    let ticks = if quantum.is_some() { tick } else { 0 };
    let fixed = own + 2 * (ticks + count * release);
    // g (1 - Ut - Ur) >= fixed + 2 ev (Ut + Ur), asked for whole g without a division.
    let enough = |g: Time| {
        let interrupted = i128::from(g) + 2 * latency;
        let by_ticks = quantum.map(|quantum| (-interrupted * tick, quantum));
        let by_releases = set.tasks().iter().map(|task| (-interrupted * release, task.period));
        let terms = by_ticks.into_iter().chain(by_releases).chain([(i128::from(g) - fixed, 1)]);
        exact::sign(terms) != Ordering::Less
    };
    let rate = quantum.map_or(0.0, |quantum| costs.tick as f64 / quantum as f64)
        + set.tasks().iter().map(|task| release as f64 / task.period as f64).sum::<f64>();
    let guess = (fixed as f64 + 2.0 * latency as f64 * rate) / (1.0 - rate);
    if rate >= 1.0 || guess > LONGEST as f64 {
        return None;
    }
    let wcet = settle(guess.ceil() as u128, |g| enough(g as Time)) as Time + after;
    Some(Task { wcet, period, deadline, ..*task })
}

/// For fixed priorities: ticks and releases are tasks of the highest priority with jitter `ev`; each task has
/// jitter `ev + rel (+ ipi)` more, and `C' = C + 2 (sch + cxs) + cpmd`. The added tasks come after
/// those of the set; per CPU, so this is for one CPU (or one CPU of a partition).
pub fn fixed_priority(
    set: &TaskSet,
    costs: &Overheads,
    mut cpmd: impl FnMut(usize) -> Time,
) -> Inflated {
    let ipi = if set.cpus() > 1 { costs.interprocessor } else { 0 };
    let added = costs.event_latency + costs.release + ipi;
    let mut tasks: Vec<Task> = set.tasks().to_vec();
    // Ranks are made explicit: the interrupts take the first one.
    let delays: Vec<Time> = (0..tasks.len()).map(&mut cpmd).collect();
    for (rank, &at) in by_priority(set.tasks()).iter().enumerate() {
        let task = &mut tasks[at];
        task.priority = Some(rank as u32 + 1);
        task.jitter += added;
        task.wcet += 2 * (costs.scheduling + costs.context_switch) + delays[at];
    }
    let interrupt = |wcet: Time, period: Time| Task {
        wcet,
        period,
        // An interrupt handler is not itself in time or late.
        deadline: LONGEST,
        jitter: costs.event_latency,
        blocking: 0,
        priority: Some(0),
    };
    if let Some(quantum) = costs.quantum.filter(|_| costs.tick > 0) {
        tasks.push(interrupt(costs.tick, quantum));
    }
    if costs.release > 0 && !costs.dedicated {
        tasks.extend(set.tasks().iter().map(|task| interrupt(costs.release, task.period)));
    }
    // What interrupts do to the cache is not known.
    Inflated { cpus: set.cpus(), tasks, delays, cache: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::task::testing::{implicit, set};
    use crate::decision::sched::uni::fixed::response_time_analysis;

    fn wcets(inflated: &Inflated) -> Vec<Time> {
        inflated.tasks().iter().map(Task::wcet).collect()
    }

    #[test]
    fn without_overheads_nothing_changes() {
        let set = implicit(2, &[(10, 100), (20, 200)]);
        let same = job_level(&set, &Overheads::default(), |_| 0);
        assert_eq!(same.tasks(), set.tasks());
        let same = fixed_priority(&set, &Overheads::default(), |_| 0);
        assert_eq!(wcets(&same), [10, 20]);
    }

    #[test]
    fn a_job_pays_for_the_job_that_it_preempts() {
        let set = implicit(1, &[(10, 100), (20, 200), (30, 300)]);
        let costs = Overheads { scheduling: 1, context_switch: 2, ..Overheads::default() };
        // 2 (1 + 2), and the largest delay of the others: 7, 7, 5.
        let inflated = job_level(&set, &costs, |at| [3, 5, 7][at]);
        assert_eq!(wcets(&inflated), [10 + 6 + 7, 20 + 6 + 7, 30 + 6 + 5]);
        let alone = job_level(&implicit(1, &[(10, 100)]), &costs, |_| 9);
        assert_eq!(wcets(&alone), [16]);
    }

    #[test]
    fn ticks_and_releases_stretch_what_runs() {
        // Ut = 1/10, Ur = 0: e' = e / 0.9 + 2 (1 / 0.9): (10 + 2) / 0.9 = 13.33, up to 14.
        let set = implicit(1, &[(10, 100)]);
        let costs = Overheads { tick: 1, quantum: Some(10), ..Overheads::default() };
        assert_eq!(wcets(&job_level(&set, &costs, |_| 0)), [14]);
        // Exactly 16 / 0.9 + 2 / 0.9 = 20: not rounded beyond.
        assert_eq!(wcets(&job_level(&implicit(1, &[(16, 100)]), &costs, |_| 0)), [20]);
        // Ur = 2/100, n rel = 2: (10 + 4) / 0.98 = 14.28, with the ev of 3: + 2 * 3 * 0.02 / 0.98.
        let costs = Overheads { release: 2, event_latency: 3, ..Overheads::default() };
        let inflated = job_level(&set, &costs, |_| 0);
        assert_eq!(wcets(&inflated), [15]);
        assert_eq!((inflated.tasks()[0].period(), inflated.tasks()[0].deadline()), (97, 97));
    }

    #[test]
    fn a_deadline_that_the_latency_eats_makes_the_set_infeasible() {
        // A peer divides by zero there.
        let set = set(1, &[(1, 10, 3)]);
        let costs = Overheads { event_latency: 3, ..Overheads::default() };
        let inflated = job_level(&set, &costs, |_| 0);
        assert!(inflated.tasks()[0].wcet() > inflated.tasks()[0].period());
        let busy = Overheads { tick: 10, quantum: Some(10), ..Overheads::default() };
        assert!(job_level(&set, &busy, |_| 0).tasks()[0].wcet() > LONGEST);
    }

    #[test]
    fn for_fixed_priorities_interrupts_are_tasks() {
        let set = implicit(1, &[(10, 50), (20, 200)]);
        let costs = Overheads {
            tick: 1,
            quantum: Some(20),
            release: 2,
            event_latency: 3,
            ..Overheads::default()
        };
        let inflated = fixed_priority(&set, &costs, |_| 4);
        assert_eq!(wcets(&inflated), [14, 24, 1, 2, 2]);
        let mut responses = vec![0; 5];
        response_time_analysis(inflated.tasks(), Some(&mut responses));
        // By hand: w = 14 + ceil((w + 3) / 20) + 2 ceil((w + 3) / 50) + 2 = 14 + 2 + 2 + 2 = 20; J = 5.
        assert_eq!(responses[0], 20 + 5);
    }
}
