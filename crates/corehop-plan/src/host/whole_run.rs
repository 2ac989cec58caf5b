// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated runs of a command from start to end, each on stated CPUs.

use std::time::Duration;

use crate::units::CpuList;

/// Runs one command from start to end. A live runner and a made-up runner look alike to the code that compares the
/// runs.
pub trait CommandRunner {
    /// Runs the command once from start to end on `cpus`; if `cpus` is `None`, on the CPUs that a command has by
    /// default. The runner stops a run that takes longer than `most` or that the user interrupts, and sets
    /// [`WholeRun::ended_early`].
    ///
    /// # Errors
    /// Returns [`WholeRunError`] if the command could not run to its end.
    fn run(&mut self, cpus: Option<&CpuList>, most: Duration) -> Result<WholeRun, WholeRunError>;
}

/// The result of one run of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRun {
    /// The time from start to end, in nanoseconds.
    pub wall_ns: u64,
    /// The CPU time of the command and of the children for which it waited, in nanoseconds.
    pub cpu_ns: u64,
    /// The exit code of the command, or 128 plus a signal number.
    pub status: i32,
    /// The largest number of threads that wanted a CPU at the same time, as far as seen; at least 1.
    pub threads: usize,
    /// Whether the runner stopped the command before its end.
    pub ended_early: bool,
}

/// The reason why a command could not run from start to end.
#[derive(Debug, thiserror::Error)]
pub enum WholeRunError {
    /// The program does not exist or cannot start.
    #[error("`{what}`: {source}; name an existing program, with its path or in PATH")]
    NotStarted {
        /// The command that could not start.
        what: String,
        /// The error that the kernel returned.
        source: std::io::Error,
    },
    /// Processes of the command still run after the command has exited.
    #[error(
        "`{what}` exited and left process {pid} running, so its run time says nothing about the program; start the program yourself, and try its process (--pid PID --progress SOURCE)"
    )]
    Strays {
        /// The command that has exited but left processes behind.
        what: String,
        /// The id of a process that still runs.
        pid: u32,
    },
    /// A system call of the host failed.
    #[error("{what}: {source}")]
    Failed {
        /// The step of the run that failed.
        what: &'static str,
        /// The error that the kernel returned.
        source: std::io::Error,
    },
}
