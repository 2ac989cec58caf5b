// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading: runs a program whose system calls go to other cores.
//!
//! The program is started with a library before libc (crate `corehop-shim`), which this one carries with it. Library and
//! board are files in memory alone: whatever happens to either process, nothing is left behind.

mod coverage;
mod program;
mod started;

use std::ffi::OsString;
use std::io;

use corehop_core::units::CpuList;
pub use corehop_shim::board::{Board, Count, Decision, Event, Wishes};
pub use corehop_shim::call::{CALLS, Call};

use crate::bpf::BpfError;
pub use coverage::Covered;
pub use started::Ended;

/// The library.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/corehop_shim.so"));

/// Why a program cannot be run this way.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// There is no such program.
    #[error("`{program}` cannot be started: {source}")]
    NoProgram {
        /// The program, as it was typed.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The loader would not preload a library into it.
    #[error("the calls of `{program}` cannot be off-loaded: {why}")]
    NotPreloaded {
        /// The program's file.
        program: String,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// A core that is offline, or not allowed to this process.
    #[error(
        "CPU {cpu} cannot be an OS core ({reason}): name one that is online and in this process's cpuset"
    )]
    NoCore {
        /// The core.
        cpu: u32,
        /// The system's answer.
        reason: io::Error,
    },
    /// All cores would be OS cores.
    #[error(
        "no CPU is left for the program: of {usable} all are OS cores. Name fewer (--os-cores), or allow \
         the program more CPUs (taskset, cpuset)"
    )]
    NoneLeft {
        /// The CPUs that this process may use.
        usable: CpuList,
    },
    /// The kernel cannot count.
    #[error("the kernel does not count the program's calls, which --coverage asks for: {0}")]
    NoCount(BpfError),
    /// The host refused.
    #[error("{what} failed: {source}")]
    Failed {
        /// The request.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// A program and where its calls go.
#[derive(Debug, Clone)]
pub struct Offload {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The OS cores.
    pub os_cores: CpuList,
    /// The other wishes; its cores are set from `os_cores`.
    pub wishes: Wishes,
    /// Whether the program's output goes to stderr.
    pub output_to_stderr: bool,
    /// Whether the kernel counts the calls, too.
    pub coverage: bool,
}

impl Offload {
    /// Runs the program to its end.
    ///
    /// # Errors
    /// If it cannot be run, or not this way.
    pub fn run(&self) -> Result<Ended, OffloadError> {
        started::run(self)
    }
}
