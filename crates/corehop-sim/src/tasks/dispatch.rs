// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs on the CPUs of a cluster: the most urgent jobs have one CPU each, and stay there.
//!
//! A job that gets a CPU prefers the one that its task had last, if that is free or to be taken from
//! a less urgent job; otherwise the nearest free one (by the innermost common cache, then by number),
//! as Linux looks for a CPU for a deadline or real-time task; otherwise the one of the least urgent
//! job that has to go. Decisions of one instant are taken together, so that no job gets a CPU and
//! loses it at once.

use std::collections::BTreeSet;

/// The order of jobs: the smaller is served first; of equal ones the one that queued up first (as under SCHED_FIFO), then
/// the task of the smaller number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Urgency {
    /// The absolute deadline, or the rank.
    pub(super) by: u64,
    /// When the task queued up, for ranks; deadlines tell apart what they are to.
    pub(super) since: u64,
    /// The task, of which one job at a time is ready.
    pub(super) task: usize,
}

/// A CPU that gets another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobSwitch {
    pub(super) cpu: usize,
    /// The task whose job loses it.
    pub(super) loses: Option<usize>,
    /// The task whose job gets it.
    pub(super) gains: usize,
}

/// The preferred CPUs of tasks.
pub(super) trait Places {
    /// The CPU that the task had last.
    fn last(&self, task: usize) -> usize;
    /// The distance of one CPU from another; the smaller, the nearer.
    fn distance(&self, from: usize, to: usize) -> u8;
}

/// CPUs among which tasks migrate, and the jobs that are ready there.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// Its CPUs, in order, and who has them.
    cpus: Vec<(usize, Option<Urgency>)>,
    waiting: BTreeSet<Urgency>,
}

impl Cluster {
    pub(super) fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let cpus = cpus.into_iter().map(|cpu| (cpu, None)).collect();
        Self { cpus, waiting: BTreeSet::new() }
    }

    /// A job is ready.
    pub(super) fn ready(&mut self, job: Urgency) {
        self.waiting.insert(job);
    }

    /// The job that has `cpu` has ended.
    pub(super) fn ended(&mut self, cpu: usize) {
        if let Some(seat) = self.cpus.iter_mut().find(|seat| seat.0 == cpu) {
            seat.1 = None;
        }
    }

    /// Gives the CPUs to the most urgent jobs.
    pub(super) fn decide(&mut self, places: &impl Places) -> Vec<JobSwitch> {
        let (winners, losers) = self.winners();
        let mut open: Vec<usize> = (0..self.cpus.len())
            .filter(|&seat| self.cpus[seat].1.is_none_or(|job| losers.contains(&job)))
            .collect();
        let mut changes = Vec::new();
        let mut elsewhere = Vec::new();
        for winner in winners {
            let last = places.last(winner.task);
            match open.iter().position(|&seat| self.cpus[seat].0 == last) {
                Some(at) => changes.push(self.give(open.remove(at), winner)),
                None => elsewhere.push(winner),
            }
        }
        for winner in elsewhere {
            let last = places.last(winner.task);
            // Free ones first, by distance; of the others the least urgent one's first.
            let how_good = |&at: &usize| match self.cpus[open[at]] {
                (cpu, None) => (0, u64::from(places.distance(last, cpu)), cpu),
                (_, Some(job)) => (1, u64::MAX - job.by, usize::MAX - job.task),
            };
            if let Some(at) = (0..open.len()).min_by_key(how_good) {
                changes.push(self.give(open.remove(at), winner));
            }
        }
        self.waiting.extend(losers);
        changes
    }

    /// The waiting jobs that are to have a CPU, most urgent first, and those that lose theirs.
    fn winners(&self) -> (Vec<Urgency>, Vec<Urgency>) {
        let free = self.cpus.iter().filter(|seat| seat.1.is_none()).count();
        let mut running: Vec<Urgency> = self.cpus.iter().filter_map(|seat| seat.1).collect();
        running.sort_unstable();
        let (mut winners, mut losers) = (Vec::new(), Vec::new());
        for &job in &self.waiting {
            if winners.len() >= free {
                match running.pop_if(|worst| *worst > job) {
                    Some(worst) => losers.push(worst),
                    None => break,
                }
            }
            winners.push(job);
        }
        (winners, losers)
    }

    fn give(&mut self, seat: usize, job: Urgency) -> JobSwitch {
        self.waiting.remove(&job);
        let (cpu, had) = self.cpus[seat];
        self.cpus[seat].1 = Some(job);
        JobSwitch { cpu, loses: had.map(|had| had.task), gains: job.task }
    }
}
