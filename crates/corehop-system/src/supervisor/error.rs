// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reasons why a change is refused or cannot be reverted.

use std::io;
use std::path::PathBuf;

use corehop_plan::shown;
use corehop_plan::units::CpuList;

/// The reason why a change was refused or could not be reverted.
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
        /// The path of the directory.
        path: PathBuf,
        /// The error of using the directory.
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
        /// The intended change, described by the step that would revert it.
        change: String,
        /// The error of writing the journal.
        source: io::Error,
    },
    /// The supervisor cannot be started.
    #[error(
        "the supervisor, which undoes changes if this process dies, cannot be started: \
         {source}; nothing was changed. It needs one more process (ulimit -u) and /proc"
    )]
    Start {
        /// The error of starting the supervisor.
        source: io::Error,
    },
    /// The supervisor does not respond.
    #[error(
        "the supervisor, process {pid}, {state}, so no process would undo changes if this one died; the change \
         ({change}) was not made. Start the command again, and let nothing stop the processes named corehop-guard"
    )]
    Silent {
        /// The process ID of the supervisor.
        pid: u32,
        /// The state of the supervisor, in words.
        state: String,
        /// The intended change, described by the step that would revert it.
        change: String,
    },
    /// The supervisor has reverted all changes because this process was silent for too long.
    #[error(
        "this program was stopped, or waited, for more than five seconds, and the supervisor took its changes back: \
         start it again"
    )]
    Lapsed,
    /// The program's `main` does not support supervisors.
    #[error("this program does not call corehop_linux::main_if_asked first in main")]
    NotPrepared,
    /// Process IDs cannot be verified.
    #[error("/proc cannot be read: {source}; mount /proc with `mount -t proc proc /proc`")]
    Proc {
        /// The error of reading `/proc`.
        source: io::Error,
    },
    /// A setting cannot be read or written.
    #[error("the setting {path} cannot be {verb}: {source}", path = shown::path(path))]
    Setting {
        /// The file of the setting.
        path: PathBuf,
        /// The failed action: `read`, or `changed to …`.
        verb: String,
        /// The error of reading or writing the file.
        source: io::Error,
    },
    /// Some changes could not be reverted.
    #[error(
        "not undone: {left}; still listed in {journal}: remove the cause, then run \
         `corehop doctor restore`", journal = shown::path(journal)
    )]
    Left {
        /// The remaining changes, with the reason.
        left: String,
        /// The journal that lists the remaining changes.
        journal: PathBuf,
    },
    /// Another run is changing the whole host.
    #[error(
        "another run, {owner}, changes settings of the whole host now ({seconds} s waited); start this \
         one when that has ended"
    )]
    WholeHostInUse {
        /// The other run: `process 123`, or words that say that the process is unknown.
        owner: String,
        /// The time for which this run waited, in seconds.
        seconds: u64,
    },
    /// This run was asked to stop while it waited for another run.
    #[error(
        "interrupted while another run, {owner}, changes settings of the whole host; nothing was changed"
    )]
    Interrupted {
        /// The other run: `process 123`, or words that say that the process is unknown.
        owner: String,
    },
    /// The file system has no locks.
    #[error(
        "the lock on the whole host, a file in {path}, is refused (flock(2): {source}), and without a lock two runs \
         could change one setting at once; nothing was changed. Run corehop where the file system and the sandbox \
         allow flock(2)", path = shown::path(path)
    )]
    NoLocks {
        /// The folder that cannot be locked.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A crashed run has left changes behind.
    #[error("{0}")]
    LeftBehind(String),
    /// A background load cannot be started.
    #[error("the load `{command}` cannot be started: {source}")]
    LoadStart {
        /// The shell command of the load.
        command: String,
        /// The error of starting the load.
        source: io::Error,
    },
    /// A background load was requested on CPUs that are not allowed.
    #[error(
        "the load `{command}` cannot run on CPUs {asked}: the kernel gives it CPUs {got} (offline, \
         or outside the cpuset of this process?); name others"
    )]
    LoadCpus {
        /// The shell command of the load.
        command: String,
        /// The CPUs requested for the load.
        asked: CpuList,
        /// The CPUs that the kernel assigned.
        got: CpuList,
    },
    /// A background load repeatedly ended and was given up.
    #[error(
        "the load `{command}` ended at once {times} times in a row (last: {status}), so it loads \
         nothing; run it by hand to see why, or name a command that keeps running"
    )]
    LoadGivenUp {
        /// The shell command of the load.
        command: String,
        /// The number of times the load ended.
        times: u32,
        /// The last exit status.
        status: std::process::ExitStatus,
    },
    /// Another process has ended a background load.
    #[error("the load `{command}` is gone: its keeper, process {pid}, was killed from outside")]
    LoadKilled {
        /// The shell command of the load.
        command: String,
        /// The process ID of the load's keeper.
        pid: i32,
    },
}
