// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps that revert changes. Each step may run twice, and on an object that no longer exists.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_plan::shown;
use corehop_plan::units::CpuList;
use serde::{Deserialize, Serialize};

use super::process::{self, ProcessId};
use crate::discover::cpuset_of;
use crate::proc::{self, ProcEntry, Stat};
use crate::thread::{affinity_of, set_affinity_everywhere, set_affinity_of};

/// A step that reverts one change to the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Undo {
    /// Restores a setting by writing `content` to the existing file `path`.
    WriteFile {
        /// The absolute path of the file.
        path: PathBuf,
        /// The content before the change.
        content: String,
    },
    /// Removes the file `path`.
    RemoveFile {
        /// The absolute path of the file.
        path: PathBuf,
    },
    /// Moves every process in the cgroup `path` and the cgroups below it to `back_to`, and removes the cgroup.
    RemoveCgroup {
        /// The absolute path of the cgroup's folder; version 1 or 2.
        path: PathBuf,
        /// The folder of another cgroup in the hierarchy of `path`.
        back_to: PathBuf,
    },
    /// Ends a process group by SIGTERM, and by SIGKILL a quarter of a second later.
    KillProcessGroup {
        /// The leader of the process group. If another process now has this ID, its group is left alone.
        leader: ProcessId,
    },
    /// Allows a thread to run on `cpus` again.
    SetAffinity {
        /// The thread to put back. If another thread now has this ID, it is left alone.
        thread: ProcessId,
        /// The CPUs that the thread was allowed to use before.
        cpus: CpuList,
        /// The CPUs that corehop gave to the thread. If the thread has chosen other CPUs since then, the thread keeps
        /// the chosen CPUs. `None` puts the thread back whatever CPUs it chose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given: Option<CpuList>,
        /// Whether only the cpuset restricted the thread, so that it may also use CPUs that come back later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anywhere: bool,
    },
}

/// The result of an [`Undo`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The change is reverted.
    Undone,
    /// Nothing was left to revert: the file, process or cgroup is gone.
    AlreadyGone,
    /// The change was made in an earlier boot of the host and ended with it.
    OtherBoot,
    /// The change could not be reverted, with the reason.
    Failed(String),
    /// The journal contains a line that this version does not know.
    Unknown(String),
}

impl UndoOutcome {
    /// Returns whether nothing of the change is left.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Failed(_) | Self::Unknown(_))
    }
}

impl fmt::Display for UndoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undone => f.write_str("taken back"),
            Self::AlreadyGone => f.write_str("gone already"),
            Self::OtherBoot => f.write_str("gone with an earlier boot of this host"),
            Self::Failed(reason) => write!(f, "FAILED, {reason}"),
            Self::Unknown(line) => write!(f, "NOT UNDERSTOOD, written by a later corehop? {line}"),
        }
    }
}

impl Undo {
    /// Reverts the change. If a [`Guard`](super::Guard) has recorded the change too, the guard later reverts the change
    /// again, which has no effect.
    pub fn apply(&self) -> UndoOutcome {
        let result = match self {
            Self::WriteFile { path, content } => write_existing(path, content),
            Self::RemoveFile { path } => fs::remove_file(path),
            Self::RemoveCgroup { path, back_to } => remove_cgroup(path, back_to),
            Self::KillProcessGroup { leader } => end_group(*leader),
            Self::SetAffinity { thread, .. } if !thread.is_alive() => {
                Err(ErrorKind::NotFound.into())
            }
            Self::SetAffinity { thread, cpus, given, anywhere } => {
                put_back(thread.pid, cpus, given.as_ref(), *anywhere)
            }
        };
        match result {
            Ok(()) => UndoOutcome::Undone,
            Err(error) if is_gone(&error) => UndoOutcome::AlreadyGone,
            Err(error) => UndoOutcome::Failed(error.to_string()),
        }
    }

    /// Whether the change survives a reboot of the host. Kernel settings and processes do not survive a reboot, and an
    /// old setting must not replace the value of the new boot.
    pub(super) fn survives_reboot(&self) -> bool {
        match self {
            Self::WriteFile { path, .. } | Self::RemoveFile { path } => {
                !["/proc", "/sys", "/dev", "/run"].iter().any(|root| path.starts_with(root))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFile { path, content } => {
                write!(f, "write `{}` to {}", content.trim_end(), shown::path(path))
            }
            Self::RemoveFile { path } => write!(f, "remove the file {}", shown::path(path)),
            Self::RemoveCgroup { path, .. } => write!(f, "remove the cgroup {}", shown::path(path)),
            Self::KillProcessGroup { leader } => write!(f, "end process group {}", leader.pid),
            Self::SetAffinity { thread, cpus, .. } => {
                write!(f, "let thread {} run on CPUs {cpus}", thread.pid)
            }
        }
    }
}

/// Restores the CPUs that a thread might use before the thread was `given` CPUs.
fn put_back(tid: i32, cpus: &CpuList, given: Option<&CpuList>, anywhere: bool) -> io::Result<()> {
    if given.map_or(Ok(false), |given| has_chosen(tid, given))? {
        return Ok(());
    }
    if anywhere {
        return set_affinity_everywhere(tid);
    }
    match set_affinity_of(tid, cpus.iter()) {
        // The kernel lets it run elsewhere while all of these are offline or out of its cpuset.
        Err(error) if error.kind() == ErrorKind::InvalidInput && !has_any(tid, cpus) => Ok(()),
        result => result,
    }
}

/// Whether a thread has other CPUs than corehop gave the thread, for another reason than that the kernel took some of
/// these CPUs away.
///
/// # Errors
/// Returns `ESRCH` if the thread is gone.
pub fn has_chosen(tid: i32, given: &CpuList) -> io::Result<bool> {
    let took = || cpuset_of(tid).is_some_and(|there| there.intersection(given) != *given);
    Ok(affinity_of(tid)? != *given && !took())
}

/// Whether any of these CPUs is online and in the thread's cpuset.
fn has_any(tid: i32, cpus: &CpuList) -> bool {
    cpuset_of(tid).is_none_or(|there| !there.intersection(cpus).is_empty())
}

/// Whether the error means that the object is gone; a cgroup file returns ENODEV if its folder was removed while it
/// was open.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// Writes a file in one call, as kernel settings require, and never creates a missing file. A file with this content
/// is not written, so that a step that runs twice changes nothing the second time.
pub(super) fn write_existing(path: &Path, content: &str) -> io::Result<()> {
    // A setting that cannot be read is written.
    if fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(());
    }
    fs::OpenOptions::new().write(true).truncate(true).open(path)?.write_all(content.as_bytes())
}

fn remove_cgroup(path: &Path, back_to: &Path) -> io::Result<()> {
    // First, and with all of its threads: those below may be threaded, out of which nothing moves far.
    move_processes(path, back_to)?;
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path(), back_to)?;
        }
    }
    // A process that is ending keeps its cgroup busy for a moment.
    for _ in 0..100 {
        move_processes(path, back_to)?;
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Moves all processes of a cgroup. A threaded cgroup of version 2 does not list its processes, so its threads are
/// moved instead.
fn move_processes(from: &Path, to: &Path) -> io::Result<()> {
    let (members, file) = match proc::text(from.join("cgroup.procs")) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            (proc::text(from.join("cgroup.threads"))?, "cgroup.threads")
        }
        processes => (processes?, "cgroup.procs"),
    };
    for member in members.lines() {
        match write_existing(&to.join(file), member) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The time that a process has to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_millis(250);

/// The environment variable that identifies the processes of a load if the group's leader is dead, or if they have
/// left the group.
pub(super) const MARK: &str = "COREHOP_LOAD";

/// The value of [`MARK`] for the processes of the group that `leader` began.
pub(super) fn mark(leader: ProcessId) -> String {
    format!("{}-{}", leader.pid, leader.start_time)
}

/// Ends the group of `leader` and all processes with its mark, except the calling process.
///
/// # Errors
/// Returns `NotFound` if there were no such processes, `TimedOut` if some did not die.
pub(super) fn end_group(leader: ProcessId) -> io::Result<()> {
    let first = group(leader);
    if first.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    signal_all(&first, libc::SIGTERM)?;
    let begun = Instant::now();
    while begun.elapsed() < 10 * GRACE {
        let left = group(leader);
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > GRACE {
            signal_all(&left, libc::SIGKILL)?;
        }
        sleep(Duration::from_millis(2));
    }
    Err(ErrorKind::TimedOut.into())
}

/// The living processes that belong to the group that `leader` began.
///
/// As long as the leader exists, even dead and not yet reaped, its ID is that of the group. Later the ID may belong
/// to an unrelated process that began a group and died too, so only the mark decides.
fn group(leader: ProcessId) -> Vec<ProcessId> {
    let led = ProcessId::of(leader.pid).is_ok_and(|holder| holder == leader);
    let mark = format!("{MARK}={}", mark(leader));
    let own = std::process::id();
    process::all()
        .filter(|stat| !stat.is_dead() && stat.pid != own)
        .filter(|stat| (led && stat.pgrp == leader.pid) || carries(stat, &mark))
        .map(|stat| ProcessId::from(&stat))
        .collect()
}

/// Whether a process has the mark in its environment. If an ID was reused meanwhile, the process gets no signal
/// because its start time differs.
fn carries(process: &Stat, mark: &str) -> bool {
    let environ = ProcEntry::process(process.pid).strings("environ");
    environ.is_ok_and(|all| all.iter().any(|variable| variable == mark.as_bytes()))
}

fn signal_all(processes: &[ProcessId], signal: libc::c_int) -> io::Result<()> {
    for process in processes {
        if let Err(error) = process.signal(signal)
            && !is_gone(&error)
        {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_affinity(thread: ProcessId, given: Option<&str>, anywhere: bool) -> Undo {
        let given = given.map(|it| it.parse().unwrap());
        Undo::SetAffinity { thread, cpus: "0-3,8".parse().unwrap(), given, anywhere }
    }

    #[test]
    fn every_kind_survives_the_journal_and_a_newer_field_or_kind_is_not_taken_for_a_known_one() {
        let process = ProcessId { pid: 5, start_time: 9 };
        for undo in [
            Undo::WriteFile { path: "/proc/x".into(), content: "1\n".into() },
            Undo::RemoveFile { path: "/tmp/x".into() },
            Undo::RemoveCgroup { path: "/a/b".into(), back_to: "/a".into() },
            Undo::KillProcessGroup { leader: process },
            set_affinity(process, None, false),
            set_affinity(process, Some("0"), true),
        ] {
            let text = serde_json::to_string(&undo).unwrap();
            assert_eq!(serde_json::from_str::<Undo>(&text).unwrap(), undo);
        }
        for newer in [
            r#"{"kind":"unmount","path":"/mnt"}"#,
            r#"{"kind":"remove_file","path":"/tmp/x","only_if_empty":true}"#,
        ] {
            assert!(serde_json::from_str::<Undo>(newer).is_err(), "{newer}");
        }
    }

    #[test]
    fn what_is_gone_already_is_no_failure() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("none");
        let mut stranger = ProcessId::own().unwrap();
        stranger.start_time += 1;
        for undo in [
            Undo::WriteFile { path: path.clone(), content: "1".into() },
            Undo::RemoveFile { path: path.clone() },
            Undo::RemoveCgroup { path: path.clone(), back_to: here.path().into() },
            Undo::KillProcessGroup { leader: stranger },
            set_affinity(stranger, Some("0"), false),
        ] {
            assert_eq!(undo.apply(), UndoOutcome::AlreadyGone, "{undo}");
        }
        assert!(!path.exists(), "a setting that is gone must not be made as a file");
    }

    #[test]
    fn only_ordinary_files_outlive_a_boot() {
        let write = |path: &str| Undo::WriteFile { path: path.into(), content: String::new() };
        assert!(write("/home/me/x").survives_reboot());
        assert!(!write("/proc/sys/kernel/x").survives_reboot());
        let leader = ProcessId { pid: 5, start_time: 9 };
        assert!(!Undo::KillProcessGroup { leader }.survives_reboot());
    }
}
