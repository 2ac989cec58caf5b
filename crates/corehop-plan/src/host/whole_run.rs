// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that runs as a whole, again and again, each time on stated CPUs.

use std::time::Duration;

use crate::units::CpuList;

/// Runs one command. Live or made up: who compares the runs does not know.
pub trait CommandRunner {
    /// Runs the command once from its start to its end on `cpus`, or, of None, on those that a command has here. A run that takes longer
    /// than `most` is ended, and so is a run during which the user interrupts: [`WholeRun::ended_early`].
    ///
    /// # Errors
    /// [`WholeRunError`].
    fn run(&mut self, cpus: Option<&CpuList>, most: Duration) -> Result<WholeRun, WholeRunError>;
}

/// One run of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRun {
    /// The time from start to end, in nanoseconds.
    pub wall_ns: u64,
    /// The CPU time of the command and of the children that it waited for, in nanoseconds.
    pub cpu_ns: u64,
    /// The exit code, or 128 plus a signal.
    pub status: i32,
    /// The most threads that were seen to want a CPU at the same time; at least 1.
    pub threads: usize,
    /// Whether the run was ended before it was over.
    pub ended_early: bool,
}

/// Why a command was not run as a whole.
#[derive(Debug, thiserror::Error)]
pub enum WholeRunError {
    /// There is no such program, or it cannot be started.
    #[error("`{what}`: {source}; name an existing program, with its path or in PATH")]
    NotStarted {
        /// The command.
        what: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Processes of the command go on after it.
    #[error(
        "`{what}` exited and left process {pid} running, so its run time says nothing about the program; start the program yourself, and try its process (--pid PID --progress SOURCE)"
    )]
    Strays {
        /// The command.
        what: String,
        /// One of them.
        pid: u32,
    },
    /// The host failed.
    #[error("{what}: {source}")]
    Failed {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}
