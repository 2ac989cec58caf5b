// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads are looked at and moved: processes, a cgroup, a command.
//!
//! A window costs a look at each thread in `/proc`, and what the sources of evidence take. Nothing is done at the
//! threads themselves.

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

/// Why a program cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacingError {
    /// There is no such process, cgroup or program.
    #[error("{what}: {source}")]
    NoTarget {
        /// The target.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// A thread of the kernel's own.
    #[error(
        "process {pid} is a thread of the kernel, and the kernel places its own threads: name a process of a program"
    )]
    Kernel {
        /// Its number.
        pid: u32,
    },
    /// Without evidence there is nothing to go by.
    #[error("no source of evidence shows which threads share data: {}", reasons.join("; "))]
    NoEvidence {
        /// Why, for each source.
        reasons: Vec<String>,
    },
    /// Progress cannot be read.
    #[error(transparent)]
    Progress(#[from] ProgressError),
    /// Threads cannot be moved with a way back.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The host failed.
    #[error("{what}: {source}")]
    Failed {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}
