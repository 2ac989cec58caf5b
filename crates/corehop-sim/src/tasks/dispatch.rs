// SPDX-License-Identifier: MIT OR Apache-2.0
//! The assignment of jobs to the CPUs of a cluster: the most urgent jobs each have a CPU, and stay on that CPU.
//!
//! A job that gets a CPU prefers its task's last CPU, if that CPU is free or has a less urgent job to preempt. The
//! second choice is the nearest free CPU (by the innermost common cache, then by number), as Linux chooses a CPU
//! for a deadline or real-time task. The last choice is the CPU of the least urgent job that has to yield.
//! Decisions of one instant are taken together, so that no job gets a CPU and loses it at once.

use std::collections::BTreeSet;

/// The order of jobs: the smaller value is served first; between equal jobs, the job that queued first (as under
/// SCHED_FIFO), then the task with the smaller number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Urgency {
    /// The absolute deadline, or the priority rank.
    pub(super) by: u64,
    /// The time at which the task queued, for ranks; unused for deadlines.
    pub(super) since: u64,
    /// The task of the job; at most one job of a task is ready at a time.
    pub(super) task: usize,
}

/// A change of the job on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobSwitch {
    pub(super) cpu: usize,
    /// The task whose job loses the CPU; None if the CPU was free.
    pub(super) loses: Option<usize>,
    /// The task whose job gets the CPU.
    pub(super) gains: usize,
}

/// The information that decides which CPU a task prefers.
pub(super) trait Places {
    /// The last CPU of a task.
    fn last(&self, task: usize) -> usize;
    /// The distance between two CPUs; smaller values are nearer.
    fn distance(&self, from: usize, to: usize) -> u8;
}

/// A set of CPUs among which tasks migrate, with the ready jobs.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// The cluster's CPUs, in order, with the job on each.
    cpus: Vec<(usize, Option<Urgency>)>,
    waiting: BTreeSet<Urgency>,
}

impl Cluster {
    pub(super) fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let cpus = cpus.into_iter().map(|cpu| (cpu, None)).collect();
        Self { cpus, waiting: BTreeSet::new() }
    }

    /// Adds a ready job.
    pub(super) fn ready(&mut self, job: Urgency) {
        self.waiting.insert(job);
    }

    /// Removes the job that ended on `cpu`.
    pub(super) fn ended(&mut self, cpu: usize) {
        if let Some(seat) = self.cpus.iter_mut().find(|seat| seat.0 == cpu) {
            seat.1 = None;
        }
    }

    /// Assigns the CPUs to the most urgent jobs, and returns the changes.
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

    /// The waiting jobs that get a CPU, most urgent first, and the jobs that lose their CPU.
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
