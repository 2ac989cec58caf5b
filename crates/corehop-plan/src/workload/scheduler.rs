// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schedulers under which task sets run.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The scheduler of the tasks of a set.
    Scheduler, "a scheduler" {
        /// Global earliest deadline first: the ready jobs with the earliest deadlines run, on any CPU.
        GEdf = "g-edf",
        /// Clustered earliest deadline first: as g-edf among CPUs that share a cache; jobs never migrate between
        /// clusters.
        CEdf = "c-edf",
        /// Partitioned earliest deadline first: each task has one CPU, which runs the job with the earliest deadline.
        PEdf = "p-edf",
        /// Global fixed priorities: the ready tasks with the highest priorities run, on any CPU.
        GFp = "g-fp",
        /// Partitioned fixed priorities: each task has one CPU, which runs the ready task with the highest priority.
        PFp = "p-fp",
        /// The kernel's fair scheduler runs the tasks, as best effort (live only).
        Eevdf = "eevdf",
        /// A scheduler that was loaded into the kernel with sched_ext runs the tasks (live only).
        SchedExt = "sched_ext",
    }
}

/// The property by which a scheduler prefers one job to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPreference {
    /// The scheduler prefers the job with the earliest deadline.
    Deadline,
    /// The scheduler prefers the task with the smallest rank.
    Rank,
    /// The scheduler follows the kernel's own rules.
    Fair,
}

/// The set of CPUs to which tasks can migrate under a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MigrationReach {
    /// The scheduler migrates tasks to every CPU.
    Global,
    /// Tasks migrate only within a cluster of CPUs.
    Clustered,
    /// The scheduler does not migrate tasks.
    Partitioned,
}

impl Scheduler {
    /// Returns the property by which the scheduler prefers one job to another.
    pub const fn order(self) -> JobPreference {
        match self {
            Self::GEdf | Self::CEdf | Self::PEdf => JobPreference::Deadline,
            Self::GFp | Self::PFp => JobPreference::Rank,
            Self::Eevdf | Self::SchedExt => JobPreference::Fair,
        }
    }

    /// Returns the set of CPUs to which tasks can migrate under the scheduler.
    pub const fn reach(self) -> MigrationReach {
        match self {
            Self::GEdf | Self::GFp | Self::Eevdf | Self::SchedExt => MigrationReach::Global,
            Self::CEdf => MigrationReach::Clustered,
            Self::PEdf | Self::PFp => MigrationReach::Partitioned,
        }
    }

    /// Returns whether a simulation can follow the scheduler's rules.
    pub const fn is_simulated(self) -> bool {
        !matches!(self.order(), JobPreference::Fair)
    }
}
