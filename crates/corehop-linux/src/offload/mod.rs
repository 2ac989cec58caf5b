// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program whose system calls execute on other cores (off-load).
//!
//! The program is started with a library preloaded before libc (crate `corehop-shim`), which is embedded in this
//! crate. The `library` is written to a permanent file that only its owner can change, and the `board` has a folder
//! that is removed at the end. `trusted` decides which paths both may use.

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

/// A path for a file, and the reason why the file cannot be at this path.
#[derive(Debug)]
pub struct RefusedPath {
    place: PathBuf,
    why: String,
}

/// The refused paths as a list for the end of a sentence.
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

/// The reason why a program cannot be run with off-load.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// This build of corehop does not contain the library.
    #[error(
        "this corehop was built without the library that programs preload: in a checkout, `cargo shim` builds the \
         library, and `cargo build --release -p corehop` a program that carries it"
    )]
    NotCarried,
    /// The program does not exist.
    #[error("`{program}` cannot be started: {source}")]
    NoProgram {
        /// The program, as the user typed it.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The loader would not preload a library into the program.
    #[error("the calls of `{program}` cannot be off-loaded: {why}")]
    NotPreloaded {
        /// The file of the program.
        program: String,
        /// The reason, and the remedy.
        why: &'static str,
    },
    /// The executable of corehop is set-user-ID or set-group-ID.
    #[error(
        "corehop is set-user-ID or set-group-ID, and the loader preloads nothing into the programs that such a \
         process starts: start corehop as that user, or remove the bit (chmod ug-s)"
    )]
    SetId,
    /// No path is acceptable for the library.
    #[error(
        "the library of off-load has no place that all users of the program can read and only its owner can change: {}. \
         Change one of these places (owner, chmod go-w, a mount without noexec), or install the library for all users in \
         /var/lib/corehop by one run of `corehop offload` as root",
        RefusalList(.0)
    )]
    NoLibrary(Vec<RefusedPath>),
    /// No path is acceptable for the board.
    #[error(
        "the counts of off-load have no place that only this user can change: {}. Change one of these places (owner, \
         chmod go-w), or name a folder of your own in XDG_RUNTIME_DIR",
        RefusalList(.0)
    )]
    NoBoard(Vec<RefusedPath>),
    /// A core is offline, or not allowed for this process.
    #[error(
        "CPU {cpu} cannot be an OS core ({reason}): name a CPU that is online and in this process's cpuset"
    )]
    NoCore {
        /// The number of the core.
        cpu: u32,
        /// The error that the system reported.
        reason: io::Error,
    },
    /// All cores would be OS cores, so none is left for the program.
    #[error(
        "no CPU is left for the program, because all usable CPUs ({usable}) are OS cores. Name fewer OS cores (--os-cores), or allow \
         the program more CPUs (taskset, cpuset)"
    )]
    NoneLeft {
        /// The CPUs that this process may use.
        usable: CpuList,
    },
    /// The kernel cannot count system calls.
    #[error("the kernel cannot count the program's calls for --coverage: {0}")]
    NoCount(BpfError),
    /// The host refused a request.
    #[error("{what} failed: {source}")]
    Failed {
        /// The refused request.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// A program, and how its system calls are off-loaded.
#[derive(Debug, Clone)]
pub struct Offload {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The cores that execute the calls.
    pub os_cores: CpuList,
    /// The other settings; their core list is overwritten by `os_cores`.
    pub wishes: OffloadSettings,
    /// Whether the program's output goes to stderr.
    pub output_to_stderr: bool,
    /// Whether the kernel also counts the calls.
    pub coverage: bool,
}

impl Offload {
    /// Runs the program until it ends.
    ///
    /// # Errors
    /// Fails with [`OffloadError`] if the program cannot be run, or cannot be run with off-load.
    pub fn run(&self) -> Result<OffLoadOutcome, OffloadError> {
        started::run(self)
    }
}
