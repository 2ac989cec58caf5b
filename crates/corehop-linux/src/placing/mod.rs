// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads are looked at and moved: processes, a cgroup, a command.
//!
//! A window costs a look at each thread in `/proc`, and a read of the kernel's counts of wake-ups. Nothing is done at the
//! threads themselves.

mod host;
mod progress;
mod threads;
mod wake_costs;

use std::io;

pub use host::PlacingHost;
pub use progress::{ProgressError, ProgressSource};
pub use wake_costs::{WakeTimes, wake_times};

use crate::bpf::BpfError;
use crate::supervisor::SupervisorError;

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
        "process {pid} is a thread of the kernel, which places it itself: name a program's process"
    )]
    Kernel {
        /// Its number.
        pid: u32,
    },
    /// Without the wake graph there is nothing to go by.
    #[error("wake-ups between threads cannot be counted: {0}")]
    NoEvidence(#[from] BpfError),
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
