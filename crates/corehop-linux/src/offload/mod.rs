// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-loading: runs a program whose system calls go to other cores.
//!
//! The program is started with a library before libc (crate `corehop-shim`), which this one carries with it. The `library`
//! has a file that only its owner can write and that stays; the `board` has a folder that is removed at the end.
//! `trusted` says which paths both may have.

mod boards;
mod coverage;
mod library;
mod program;
mod started;
mod trusted;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use corehop_plan::shown;
use corehop_plan::units::CpuList;
pub use corehop_shim::board::{CallFate, OffloadSettings, PlaceRule, ProcessEvent};
pub use corehop_shim::call::{CALLS, Call};
pub use corehop_shim::tally::{CallTally, Unknown};

use crate::bpf::BpfError;
pub use coverage::CallCoverage;
pub use started::OffLoadOutcome;

/// A place for a file, and why the file cannot be there.
#[derive(Debug)]
pub struct RefusedPath {
    place: PathBuf,
    why: String,
}

/// The places in a row, for the end of a sentence.
struct RefusalList<'a>(&'a [RefusedPath]);

impl fmt::Display for RefusalList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, RefusedPath { place, why }) in self.0.iter().enumerate() {
            let between = if at > 0 { "; " } else { "" };
            write!(f, "{between}{}: {why}", shown::path(place))?;
        }
        if self.0.is_empty() { f.write_str("this user has no home folder") } else { Ok(()) }
    }
}

/// Why a program cannot be run this way.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// The program was built without the library.
    #[error(
        "this corehop was built without the library that programs preload: in a checkout, `cargo shim` builds the \
         library, and `cargo build --release -p corehop` a program that carries it"
    )]
    NotCarried,
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
    /// The file of corehop is set-user-ID or set-group-ID.
    #[error(
        "corehop is set-user-ID or set-group-ID, and the loader preloads nothing into the programs that such a \
         process starts: start corehop as that user, or remove the bit (chmod ug-s)"
    )]
    SetId,
    /// No path that is right for the library.
    #[error(
        "the library of off-load has no place that all users of the program can read and only its owner can change: {}. \
         Change one of these places (owner, chmod go-w, a mount without noexec), or install the library for all users in \
         /var/lib/corehop by one run of `corehop offload` as root",
        RefusalList(.0)
    )]
    NoLibrary(Vec<RefusedPath>),
    /// No path that is right for the board.
    #[error(
        "the counts of off-load have no place that only this user can change: {}. Change one of these places (owner, \
         chmod go-w), or name a folder of your own in XDG_RUNTIME_DIR",
        RefusalList(.0)
    )]
    NoBoard(Vec<RefusedPath>),
    /// A core that is offline, or not allowed to this process.
    #[error(
        "CPU {cpu} cannot be an OS core ({reason}): name a CPU that is online and in this process's cpuset"
    )]
    NoCore {
        /// The core.
        cpu: u32,
        /// The system's answer.
        reason: io::Error,
    },
    /// All cores would be OS cores.
    #[error(
        "no CPU is left for the program, because all usable CPUs ({usable}) are OS cores. Name fewer OS cores (--os-cores), or allow \
         the program more CPUs (taskset, cpuset)"
    )]
    NoneLeft {
        /// The CPUs that this process may use.
        usable: CpuList,
    },
    /// The kernel cannot count.
    #[error("the kernel cannot count the program's calls for --coverage: {0}")]
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
    pub wishes: OffloadSettings,
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
    pub fn run(&self) -> Result<OffLoadOutcome, OffloadError> {
        started::run(self)
    }
}
