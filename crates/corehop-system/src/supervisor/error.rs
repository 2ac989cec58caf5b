// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons for which a change is refused or stays.

use std::io;
use std::path::PathBuf;

use corehop_plan::shown;
use corehop_plan::units::CpuList;

/// Why a change was refused, or could not be taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The directory of the journals cannot be used.
    #[error(
        "{path} cannot hold the journal of changes: {source}; nothing was changed. Make it \
         a directory of your own that only you can write to, remove it, or name another place by \
         XDG_RUNTIME_DIR", path = shown::path(path)
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error in it.
        source: io::Error,
    },
    /// The journal cannot be written.
    #[error(
        "the journal of changes in {path} cannot be written: {source}; the change ({change}) \
         was not made. Free some space there",
        path = shown::path(path)
    )]
    Journal {
        /// The directory or the journal.
        path: PathBuf,
        /// The intended change, as the step that would take it back.
        change: String,
        /// The error.
        source: io::Error,
    },
    /// The supervisor cannot be started.
    #[error(
        "the supervisor, which undoes changes if this process dies, cannot be started: \
         {source}; nothing was changed. It needs one more process (ulimit -u) and /proc"
    )]
    Start {
        /// The error.
        source: io::Error,
    },
    /// The supervisor does not do its work.
    #[error(
        "the supervisor, process {pid}, {state}, so no process would undo changes if this one died; the change \
         ({change}) was not made. Start the command again, and let nothing stop the processes named corehop-guard"
    )]
    Silent {
        /// The supervisor.
        pid: u32,
        /// Its state, in words.
        state: String,
        /// The intended change, as the step that would take it back.
        change: String,
    },
    /// The supervisor has taken everything back, as this process was silent.
    #[error(
        "this program was stopped, or waited, for more than five seconds, and the supervisor took its changes back: \
         start it again"
    )]
    Lapsed,
    /// The program is not prepared to be a supervisor.
    #[error("this program does not call corehop_linux::main_if_asked first in main")]
    NotPrepared,
    /// Processes cannot be told apart.
    #[error("/proc cannot be read: {source}; mount it: mount -t proc proc /proc")]
    Proc {
        /// The error.
        source: io::Error,
    },
    /// A setting cannot be read or written.
    #[error("the setting {path} cannot be {verb}: {source}", path = shown::path(path))]
    Setting {
        /// Its file.
        path: PathBuf,
        /// `read`, or `changed to …`.
        verb: String,
        /// The error.
        source: io::Error,
    },
    /// Some changes could not be taken back.
    #[error(
        "not undone: {left}; still listed in {journal}: remove the cause, then run \
         `corehop doctor restore`", journal = shown::path(journal)
    )]
    Left {
        /// The changes left, with the reason.
        left: String,
        /// The journal that lists them.
        journal: PathBuf,
    },
    /// Another run changes the whole host.
    #[error(
        "another run, {owner}, changes settings of the whole host now ({seconds} s waited); start this \
         one when that has ended"
    )]
    WholeHostInUse {
        /// `process 123`, or that it is unknown.
        owner: String,
        /// The time waited.
        seconds: u64,
    },
    /// The run was asked to end while it waited for another one.
    #[error(
        "interrupted while another run, {owner}, changes settings of the whole host; nothing was changed"
    )]
    Interrupted {
        /// `process 123`, or that it is unknown.
        owner: String,
    },
    /// There are no locks.
    #[error(
        "the lock on the whole host, a file in {path}, is refused (flock(2): {source}), and without a lock two runs \
         could change one setting at once; nothing was changed. Run corehop where the file system and the sandbox \
         allow flock(2)", path = shown::path(path)
    )]
    NoLocks {
        /// The folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A dead run has left changes behind.
    #[error("{0}")]
    LeftBehind(String),
    /// A load cannot be started.
    #[error("the load `{command}` cannot be started: {source}")]
    LoadStart {
        /// The shell command.
        command: String,
        /// The error.
        source: io::Error,
    },
    /// A load is to run where nothing may.
    #[error(
        "the load `{command}` cannot run on CPUs {asked}: the kernel gives it CPUs {got} (offline, \
         or outside the cpuset of this process?); name others"
    )]
    LoadCpus {
        /// The shell command.
        command: String,
        /// The CPUs asked for.
        asked: CpuList,
        /// The CPUs that the kernel made of them.
        got: CpuList,
    },
    /// A load that does not run on.
    #[error(
        "the load `{command}` ended at once {times} times in a row (last: {status}), so it loads \
         nothing; run it by hand to see why, or name a command that keeps running"
    )]
    LoadGivenUp {
        /// The shell command.
        command: String,
        /// The number of times.
        times: u32,
        /// The last exit status.
        status: std::process::ExitStatus,
    },
    /// A load that something else has ended.
    #[error("the load `{command}` is gone: its keeper, process {pid}, was killed from outside")]
    LoadKilled {
        /// The shell command.
        command: String,
        /// The keeper.
        pid: i32,
    },
}
