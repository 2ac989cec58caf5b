// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that the threads of a recorded program waited for a CPU, and the threads that ran on the CPU meanwhile.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{CostBounds, ThreadCost};
use corehop_plan::samples::{Bars, ObservedThread, Recording};

/// The time that a run's threads waited for CPUs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Waits {
    /// The total time that threads waited, in nanoseconds; `None` if unknown for all threads.
    pub waited_ns: Option<u64>,
    /// The total CPU time of the threads, in nanoseconds; `None` if unknown for all threads.
    pub cpu_ns: Option<u64>,
    /// The number of threads whose times are unknown and missing in the sums; `None` if the rows of the threads are
    /// missing.
    pub unknown_threads: Option<u64>,
    /// The threads that ran on the CPU while threads of the program waited for the CPU, by name, the longest time
    /// first.
    pub occupants: Vec<Occupant>,
    /// The part of the waiting time in which the CPU was idle and had to wake up, in nanoseconds; `None` if unknown.
    pub idle_ns: Option<u64>,
    /// The time in which threads were not allowed to run, by cause. Some causes do not count as waiting. The value is
    /// `None` if the times are unknown.
    pub barred: Option<Bars>,
    /// The part of the waiting time in which the running thread is unknown, in nanoseconds; `None` if that part is
    /// not known.
    pub unknown_ns: Option<u64>,
}

/// Threads of one name that ran on a CPU for which threads of the program waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// The name of the threads.
    pub name: String,
    /// The time that these threads had the CPU, in nanoseconds, counted once per waiting thread; `None` if unknown.
    pub held_ns: Option<u64>,
    /// The number of recorded preemptions after which these threads ran first.
    pub preemptions: u64,
}

/// The cost to the threads of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessCost {
    /// The ID of the process.
    pub pid: u32,
    /// The name of the process's first thread.
    pub name: String,
    /// The number of threads of the process.
    pub threads: u64,
    /// The total CPU time of the threads, in nanoseconds; `None` if unknown for all threads.
    pub cpu_ns: Option<u64>,
    /// The total time that the threads waited for a CPU, in nanoseconds; `None` if unknown for all threads.
    pub waited_ns: Option<u64>,
    /// The number of times the threads were preempted.
    pub preemptions: u64,
    /// The number of times the threads resumed on another CPU.
    pub cpu_changes: u64,
    /// The known cost to the threads.
    pub cost: Option<CostBounds>,
}

impl Waits {
    pub(super) fn of(recording: &Recording) -> Self {
        let (threads, facts) = (&recording.threads, &recording.facts);
        let waited_ns = known(threads.iter().map(|it| it.waited_ns));
        let occupants = occupants(recording);
        let booked: u64 = occupants.iter().filter_map(|it| it.held_ns).sum();
        let barred: Option<Bars> = threads
            .iter()
            .map(|it| it.barred)
            .try_fold(Bars::default(), |sum, it| Some(sum.and(it?)))
            .filter(|_| !threads.is_empty());
        let throttled = barred.map_or(0, |it| it.waiting_ns());
        let booked = booked + facts.idle_ns.unwrap_or(0) + throttled;
        let booked = facts.others.is_some().then_some(booked);
        let unknown = |threads: &[ObservedThread]| {
            threads.iter().filter(|it| it.waited_ns.is_none()).count() as u64
        };
        Self {
            waited_ns,
            cpu_ns: known(threads.iter().map(|it| it.cpu_ns)),
            unknown_threads: recording.known_threads().map(unknown),
            occupants,
            idle_ns: facts.idle_ns,
            barred,
            unknown_ns: waited_ns.zip(booked).map(|(all, booked)| all.saturating_sub(booked)),
        }
    }

    /// Returns the part of the waiting time in which the kernel did not allow the threads to run; 0 if unknown.
    pub fn throttled_ns(&self) -> u64 {
        self.barred.map_or(0, |it| it.waiting_ns())
    }

    /// Returns the waiting time as a share of the time in which threads could have run; `None` if unknown or if that
    /// time is zero.
    pub fn share(&self) -> Option<f64> {
        let (waited, cpu) = self.waited_ns.zip(self.cpu_ns)?;
        (waited + cpu > 0).then(|| waited as f64 / (waited + cpu) as f64)
    }
}

/// The sum of the known values; `None` if no value is known.
fn known(all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.flatten().reduce(|sum, one| sum + one)
}

/// The name for preempting threads when there are too many different names.
const OTHERS: &str = "(others)";

/// The threads that ran on a CPU while threads of the program waited for the CPU, inside and outside the program, by
/// name.
fn occupants(recording: &Recording) -> Vec<Occupant> {
    let mut by_name: BTreeMap<&str, (Option<u64>, u64)> = BTreeMap::new();
    let others = recording.facts.others.iter().flatten();
    let others = others.map(|it| (it.name.as_str(), it.held_ns));
    let own = recording.threads.iter();
    let own = own.filter_map(|it| Some((it.name.as_str(), it.held_ns.filter(|&ns| ns > 0)?)));
    for (name, held_ns) in own.chain(others) {
        let entry = by_name.entry(name).or_default();
        entry.0 = Some(entry.0.unwrap_or(0) + held_ns);
    }
    for (name, times) in recording.absences.by() {
        by_name.entry(name).or_default().1 += times;
    }
    if recording.absences.other_names() > 0 {
        by_name.entry(OTHERS).or_default().1 += recording.absences.other_names();
    }
    let row = |(name, (held_ns, preemptions)): (&str, _)| {
        let name = name.to_owned();
        Occupant { name, held_ns, preemptions }
    };
    let mut rows: Vec<Occupant> = by_name.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.held_ns, row.preemptions)));
    rows
}

/// The costs of threads, grouped by process, longest waiting first.
pub(super) fn processes(recording: &Recording, threads: &[ThreadCost]) -> Vec<ProcessCost> {
    let of: HashMap<u32, &ThreadCost> = threads.iter().map(|it| (it.tid, it)).collect();
    let mut by_process: BTreeMap<u32, Vec<(&str, &ThreadCost)>> = BTreeMap::new();
    for it in &recording.threads {
        if let Some(&cost) = of.get(&it.tid) {
            by_process.entry(it.pid).or_default().push((&it.name, cost));
        }
    }
    let row = |(pid, all): (u32, Vec<(&str, &ThreadCost)>)| {
        let costs = all.iter().filter_map(|(_, it)| it.cost);
        let sum = |one: CostBounds, other: CostBounds| {
            let mut sum = one;
            sum.add(other);
            sum
        };
        ProcessCost {
            pid,
            name: all.first().map_or_else(String::new, |(name, _)| (*name).to_owned()),
            threads: all.len() as u64,
            cpu_ns: known(all.iter().map(|(_, it)| it.cpu_ns)),
            waited_ns: known(all.iter().map(|(_, it)| it.waited_ns)),
            preemptions: all.iter().map(|(_, it)| it.preemptions).sum(),
            cpu_changes: all.iter().map(|(_, it)| it.cpu_changes).sum(),
            cost: costs.reduce(sum),
        }
    };
    let mut rows: Vec<ProcessCost> = by_process.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.waited_ns, row.preemptions)));
    rows
}
