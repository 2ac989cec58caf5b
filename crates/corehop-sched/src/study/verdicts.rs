// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts of a scheduler on the sets of a family: by the fast path if there is one, otherwise by the test itself.

use super::bins::Bins;
use super::family::{Family, FamilyMember};
use super::fast_path::{FamilyNeeds, PackingRule};
use super::{Clusters, SchedulerTest, StudyReading};
use crate::catalogue::{Test, test};
use crate::partition::{Admission, Fit, Packing};
use crate::system::System;
use crate::verdict::Verdict;
use corehop_plan::workload::generate::Deadline;
use corehop_plan::workload::task::{Task, Time};

/// The way in which the verdicts of a scheduler are computed.
#[derive(Debug, Clone, Copy)]
pub(super) enum PolicyQuery {
    /// Verdicts follow from utilisations alone.
    Packed(PackingRule),
    /// The scheduler's test runs on each set.
    Asked { cpus: u32, test: &'static Test, clusters: Option<Clusters> },
}

impl PolicyQuery {
    /// The fastest method for the scheduler.
    pub(super) fn of(policy: SchedulerTest, reading: &StudyReading) -> Option<Self> {
        let cpus = reading.cpus;
        let packed = |clusters| Some(Self::Packed(PackingRule { cpus, clusters }));
        let implicit = reading.generator.deadline() == Deadline::Implicit;
        let whole = Clusters { cpus, fit: Fit::First, decreasing: false };
        match (policy.test, policy.clusters) {
            // Within a cluster that is not over-full tardiness is bounded.
            ("soft-g-edf", clusters) => packed(clusters.unwrap_or(whole)),
            (name, None) if implicit => {
                let fit = name.strip_prefix("p-edf-").and_then(Fit::by_letters);
                let single = |(fit, decreasing)| Clusters { cpus: 1, fit, decreasing };
                fit.map(single).map_or_else(|| Self::asked(policy, cpus), packed)
            }
            _ => Self::asked(policy, cpus),
        }
    }

    /// The direct method: each set is built, and its test runs.
    pub(super) fn asked(policy: SchedulerTest, cpus: u32) -> Option<Self> {
        let test = test(policy.test).ok()?;
        Some(Self::Asked { cpus, test, clusters: policy.clusters })
    }

    /// The packing rule of a scheduler with one queue for all CPUs, under which a longer delay never helps.
    pub(super) fn one_bin(self) -> Option<PackingRule> {
        match self {
            Self::Packed(rule) if rule.bins() == 1 => Some(rule),
            _ => None,
        }
    }

    /// The verdict on each set of the family, in their order; the verdict on a set that is left out is no.
    pub(super) fn verdicts(
        self,
        family: &Family,
        charged: &FamilyNeeds,
        delay: Time,
        bins: &mut Bins,
        verdicts: &mut Vec<bool>,
    ) {
        match self {
            Self::Packed(rule) => rule.verdicts(family, charged, bins, verdicts),
            Self::Asked { .. } => verdicts.extend(
                family.members.iter().map(|member| self.verdict(&family.charged(member, delay))),
            ),
        }
    }

    /// The verdict on one set, with its execution times scaled to `thousandths`.
    pub(super) fn verdict_scaled(
        self,
        family: &Family,
        member: &FamilyMember,
        delay: Time,
        by: u64,
    ) -> bool {
        let scale = |task: Task| {
            let wcet =
                Time::new((u128::from(task.wcet - delay) * u128::from(by)).div_ceil(1_000) as u64);
            Task { wcet: wcet + delay, ..task }
        };
        let tasks: Vec<Task> = family.charged(member, delay).into_iter().map(scale).collect();
        self.verdict(&tasks)
    }

    fn verdict(self, tasks: &[Task]) -> bool {
        let (cpus, test, clusters) = match self {
            Self::Asked { cpus, test, clusters } => (cpus, Some(test), clusters),
            Self::Packed(rule) => (rule.cpus, None, Some(rule.clusters)),
        };
        // A set without tasks misses no deadline.
        if tasks.is_empty() {
            return true;
        }
        let asked = |cpus, tasks: &[Task]| {
            let system = System::plain(cpus, tasks);
            test.is_none_or(|test| test.run(system).verdict == Verdict::Schedulable)
        };
        let Some(Clusters { cpus: cluster, fit, decreasing }) = clusters else {
            return asked(cpus, tasks);
        };
        let packing = Packing { fit, decreasing, admission: Admission::Utilisation, cluster };
        packing.pack(System::plain(cpus, tasks)).is_ok_and(|bins| {
            let of = |bin: &Vec<usize>| bin.iter().map(|&at| tasks[at]).collect::<Vec<_>>();
            bins.iter().filter(|bin| !bin.is_empty()).all(|bin| asked(cluster, &of(bin)))
        })
    }
}
