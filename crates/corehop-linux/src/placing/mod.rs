// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes and moves the threads of programs: processes, a cgroup, or a command.
//!
//! A window costs one look at each thread in `/proc`, plus the cost of the evidence sources. Nothing is changed in
//! the threads themselves.

mod calls;
mod counted;
mod distances;
mod followed;
mod host;
mod locks;
mod pages;
mod progress;
mod residence;
mod sources;
mod threads;
mod wake_costs;
mod wakes;
mod working_sets;

use std::io;

pub use crate::pages::FAULTS_PER_SECOND as PAGE_FAULTS;
pub(crate) use followed::ProcessTracker;
pub(crate) use host::missing;
pub use host::{PlacerSettings, PlacingHost};
pub use locks::ONE_IN as LOCK_WINDOWS;
pub(crate) use progress::ProgressFeed;
pub use progress::{ProgressError, ProgressSource};
pub use residence::{kernel_and_load, residences};
pub(crate) use sources::Kernel;
pub(crate) use threads::ThreadTable;
pub use wake_costs::WakeTimes;

use corehop_system::supervisor::SupervisorError;

/// The reason why a program cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacingError {
    /// The process, cgroup or program does not exist.
    #[error("{what}: {source}")]
    NoTarget {
        /// The name of the target.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The process is a kernel thread.
    #[error(
        "process {pid} is a thread of the kernel, and the kernel places its own threads: name a process of a program"
    )]
    Kernel {
        /// The ID of the process.
        pid: u32,
    },
    /// No evidence source is available.
    #[error("no source of evidence shows which threads share data: {}", reasons.join("; "))]
    NoEvidence {
        /// The reason for each source.
        reasons: Vec<String>,
    },
    /// Progress cannot be read.
    #[error(transparent)]
    Progress(#[from] ProgressError),
    /// Threads cannot be moved reversibly.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// A step failed on this host.
    #[error("{what}: {source}")]
    Failed {
        /// The step that failed.
        what: &'static str,
        /// The error that the kernel reported.
        source: io::Error,
    },
}
