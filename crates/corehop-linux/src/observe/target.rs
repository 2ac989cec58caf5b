// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of a recording: a command, a process, or a cgroup.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use corehop_core::experiment::{Argument, Target};

use super::ObserveError;
use super::follower::Follower;

/// The end of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Its exit code, where that is ours to know.
    pub(super) status: Option<i32>,
}

/// A target whose threads are followed.
#[derive(Debug)]
pub(super) enum Followed {
    Command { child: Child, rss_bytes: Option<u64> },
    Process { pid: u32, rss_bytes: Option<u64> },
    Cgroup { path: PathBuf, rss_bytes: Option<u64> },
}

impl Followed {
    pub(super) fn begin(
        target: &Target,
        to_stderr: bool,
        follower: &mut Follower,
    ) -> Result<Self, ObserveError> {
        let no_target = |source| ObserveError::NoTarget { what: target.to_string(), source };
        let not_followed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => no_target(source),
            _ => ObserveError::NotFollowed { what: target.to_string(), source },
        };
        match target {
            Target::Command(words) => {
                let child = spawn(words, to_stderr, follower)?.map_err(no_target)?;
                Ok(Self::Command { child, rss_bytes: None })
            }
            Target::Process(pid) => {
                follow_tasks(*pid, follower).map_err(not_followed)?;
                Ok(Self::Process { pid: *pid, rss_bytes: None })
            }
            Target::Cgroup(path) => {
                let path = cgroup(path).map_err(no_target)?;
                follow_cgroup(&path, follower).map_err(not_followed)?;
                Ok(Self::Cgroup { path, rss_bytes: None })
            }
        }
    }

    /// Its end, if it has ended.
    pub(super) fn ended(&mut self, follower: &mut Follower) -> Result<Option<End>, ObserveError> {
        let failed = |what| move |source| ObserveError::Failed { what, source };
        match self {
            Self::Command { child, rss_bytes } => {
                larger(rss_bytes, peak_rss(child.id()));
                let status = child.try_wait().map_err(failed("waiting for the program"))?;
                if status.is_some() {
                    larger(rss_bytes, largest_child());
                }
                Ok(status.map(|status| End { status: Some(code(status)) }))
            }
            Self::Process { pid, rss_bytes } => {
                larger(rss_bytes, peak_rss(*pid));
                let gone = !Path::new(&format!("/proc/{pid}")).exists() || is_zombie(*pid);
                Ok(gone.then_some(End { status: None }))
            }
            Self::Cgroup { path, rss_bytes } => {
                // Processes that are moved into it are not children of those in it.
                let members = follow_cgroup(path, follower).unwrap_or_default();
                for pid in members {
                    larger(rss_bytes, peak_rss(pid));
                }
                Ok((!path.exists()).then_some(End { status: None }))
            }
        }
    }

    /// Passes a signal on to a command that this process started. Ctrl-C on a terminal has reached it
    /// already. Whether it is going to end by it.
    pub(super) fn pass_on(&self, signal: i32) -> bool {
        let Self::Command { child, .. } = self else { return false };
        if signal == libc::SIGINT && io::stdin().is_terminal() {
            return true;
        }
        // SAFETY: signals a child that has not been waited for, so that its number is its own.
        unsafe { libc::kill(child.id().cast_signed(), signal) == 0 }
    }

    pub(super) const fn rss_bytes(&self) -> Option<u64> {
        match self {
            Self::Command { rss_bytes, .. }
            | Self::Process { rss_bytes, .. }
            | Self::Cgroup { rss_bytes, .. } => *rss_bytes,
        }
    }
}

/// Starts the command from a thread that is followed itself, so that it is from its first instruction on.
fn spawn(
    words: &[Argument],
    to_stderr: bool,
    follower: &mut Follower,
) -> Result<io::Result<Child>, ObserveError> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(Err(io::Error::from_raw_os_error(libc::ENOENT)));
    };
    let of = |word: &Argument| OsStr::from_bytes(word.bytes()).to_owned();
    let mut command = Command::new(of(program));
    command.args(arguments.iter().map(of));
    if to_stderr {
        command.stdout(io::stderr());
    }
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| follower.starting(|| command.spawn()));
        starting
            .join()
            .unwrap_or_else(|_| Ok(Err(io::Error::other("the thread that starts it died"))))
    })
}

/// The exit code, or 128 plus the signal, as shells say it.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Registers every thread that a process has, until there is no new one.
fn follow_tasks(pid: u32, follower: &mut Follower) -> io::Result<()> {
    loop {
        let mut found = false;
        for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = entry?.file_name();
            let tid: Option<u32> = name.to_str().and_then(|name| name.parse().ok());
            let Some(tid) = tid.filter(|&tid| !follower.watches(tid)) else { continue };
            match follower.watch(tid, pid) {
                // It has ended since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                watched => {
                    watched?;
                    found = true;
                }
            }
        }
        if !found {
            return Ok(());
        }
    }
}

/// The cgroup's directory: as it is named, or below the usual place.
fn cgroup(path: &Path) -> io::Result<PathBuf> {
    let below = Path::new("/sys/fs/cgroup").join(path.strip_prefix("/").unwrap_or(path));
    let there = |path: &Path| path.join("cgroup.procs").exists();
    let found = [path, &below].into_iter().find(|path| there(path));
    found.map(Path::to_path_buf).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "there is no cgroup.procs in it, nor below /sys/fs/cgroup: name a cgroup's directory",
        )
    })
}

/// Registers what the cgroup holds and is not followed yet; its processes.
fn follow_cgroup(path: &Path, follower: &mut Follower) -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string(path.join("cgroup.procs"))?;
    let pids: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    for &pid in &pids {
        // One that has ended meanwhile is no loss.
        let _gone = follow_tasks(pid, follower);
    }
    Ok(pids)
}

fn larger(known: &mut Option<u64>, other: Option<u64>) {
    *known = (*known).max(other);
}

/// The largest resident set that a process has had.
fn peak_rss(pid: u32) -> Option<u64> {
    bytes_of(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// The bytes that stand behind `name` in a file of the kernel's, in kB there.
pub(super) fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

fn is_zombie(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

/// The largest resident set among children that have ended, and theirs.
fn largest_child() -> Option<u64> {
    // SAFETY: all-zero is a valid rusage; the kernel fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).ok().filter(|&kib| kib > 0).map(|kib| kib << 10)
}
