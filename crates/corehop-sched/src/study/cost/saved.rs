// SPDX-License-Identifier: MIT OR Apache-2.0
//! The savings of limited preemption for a set on several CPUs.

use crate::System;
use serde::Serialize;

use super::PreemptionCostTable;
use crate::limited::remedy::{Limit, Remedy, remedy};
use crate::partition::{Admission, Fit, Packing};
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{Task, TaskSet};
use corehop_stats::costs::{Cost, EventCosts};

/// Sums over sets before and after preemptions are limited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saved {
    /// The way to limit preemptions.
    pub limit: Limit,
    /// The number of sets that are schedulable with full preemption, where jobs pay for all preemptions that they may
    /// suffer.
    pub before: u64,
    /// The number of sets that are schedulable with limited preemption, where jobs pay for the remaining preemptions.
    pub after: u64,
    /// The largest number of preemptions per second with full preemption on all CPUs, summed over the sets counted in
    /// `after`.
    pub preemptions_before: f64,
    /// The largest number of preemptions per second that remain, summed over the sets counted in `after`.
    pub preemptions_after: f64,
    /// The largest cost of the preemptions in `preemptions_before`, in CPUs, summed over the sets.
    pub cpus_before: f64,
    /// The largest cost of the preemptions in `preemptions_after`, in CPUs, summed over the sets.
    pub cpus_after: f64,
}

impl Saved {
    pub(super) fn none(limit: Limit) -> Self {
        Self {
            limit,
            before: 0,
            after: 0,
            preemptions_before: 0.0,
            preemptions_after: 0.0,
            cpus_before: 0.0,
            cpus_after: 0.0,
        }
    }

    /// Adds a set, packed by utilisation (worst fit decreasing), with each CPU analysed separately.
    pub(super) fn take(&mut self, set: &TaskSet, known: &PreemptionCostTable) {
        let admission = Admission::Utilisation;
        let packing = Packing { fit: Fit::Worst, decreasing: true, admission, cluster: 1 };
        let Ok(cpus) = packing.pack(System::of(set)) else { return };
        let treat = |cpu: &Vec<usize>| treated(set, cpu, known, self.limit);
        let all: Vec<_> = cpus.iter().filter(|cpu| !cpu.is_empty()).map(treat).collect();
        self.before += u64::from(all.iter().all(|(preemptive, _)| *preemptive));
        let Some(limited) = all.into_iter().map(|it| it.1).collect::<Option<Vec<_>>>() else {
            return;
        };
        self.after += 1;
        for [preemptions, cpus] in limited {
            self.preemptions_before += preemptions[0];
            self.preemptions_after += preemptions[1];
            self.cpus_before += cpus[0];
            self.cpus_after += cpus[1];
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.before += other.before;
        self.after += other.after;
        self.preemptions_before += other.preemptions_before;
        self.preemptions_after += other.preemptions_after;
        self.cpus_before += other.cpus_before;
        self.cpus_after += other.cpus_after;
    }
}

/// Preemptions per second, and their cost in CPUs, each before and after limiting.
type PreemptionSums = [[f64; 2]; 2];

/// Whether a CPU is schedulable with full preemption, and the sums if the CPU is schedulable with limited preemption.
fn treated(
    set: &TaskSet,
    cpu: &[usize],
    known: &PreemptionCostTable,
    limit: Limit,
) -> (bool, Option<PreemptionSums>) {
    let mut cpu = cpu.to_vec();
    cpu.sort_unstable();
    let tasks: Vec<Task> = cpu.iter().map(|&at| set.tasks()[at]).collect();
    let size = |&at: &usize| set.wss_kib()[at].unwrap_or_default() as f64;
    let delay = |at: &usize| (&known).cost(Event::Preemption, size(at)).ok();
    let Some(delays) = cpu.iter().map(delay).collect::<Option<Vec<Cost>>>() else {
        return (false, None);
    };
    match remedy(&tasks, limit, &delays) {
        Ok(remedy) => (remedy.preemptive == Some(true), Some(sums(&tasks, &remedy))),
        // What is schedulable with all preemptions paid for is so with fewer: there a remedy is found.
        Err(_) => (false, None),
    }
}

fn sums(tasks: &[Task], remedy: &Remedy) -> PreemptionSums {
    let mut sums = PreemptionSums::default();
    for (task, it) in tasks.iter().zip(&remedy.tasks) {
        let each = it.delay.high_us.unwrap_or(it.delay.us);
        for (place, count) in [it.preemptions, it.remaining].into_iter().enumerate() {
            let rate = count as f64 / task.period().as_f64();
            sums[0][place] += rate * 1e6;
            sums[1][place] += rate * each;
        }
    }
    sums
}
