// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schedulers under which task sets run.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The scheduler of the tasks.
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

/// By what a scheduler prefers one job to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPreference {
    /// The job that is due first.
    Deadline,
    /// The task of the smallest rank.
    Rank,
    /// By rules of the kernel's own.
    Fair,
}

/// The reach of migrations under a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MigrationReach {
    /// To every CPU.
    Global,
    /// To the CPUs of a cluster.
    Clustered,
    /// Nowhere.
    Partitioned,
}

impl Scheduler {
    /// By what it prefers one job to another.
    pub const fn order(self) -> JobPreference {
        match self {
            Self::GEdf | Self::CEdf | Self::PEdf => JobPreference::Deadline,
            Self::GFp | Self::PFp => JobPreference::Rank,
            Self::Eevdf | Self::SchedExt => JobPreference::Fair,
        }
    }

    /// The reach of migrations.
    pub const fn reach(self) -> MigrationReach {
        match self {
            Self::GEdf | Self::GFp | Self::Eevdf | Self::SchedExt => MigrationReach::Global,
            Self::CEdf => MigrationReach::Clustered,
            Self::PEdf | Self::PFp => MigrationReach::Partitioned,
        }
    }

    /// Whether its rules are known well enough to be simulated.
    pub const fn is_simulated(self) -> bool {
        !matches!(self.order(), JobPreference::Fair)
    }
}
