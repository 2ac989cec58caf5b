// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of a recording: a command, a process, or a cgroup.

use std::ffi::{CString, OsStr};
use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use std::{env, fs};

use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::{HostError, ProgramExit};
use corehop_plan::shown;

use super::ObserveError;
use super::follower::AbsenceFollower;
use corehop_system::proc::{self, ProcEntry};
use corehop_system::supervisor::{ProcessId, pidfd};
use corehop_system::thread::apart;

/// A target whose threads are followed.
#[derive(Debug)]
pub(super) enum ObservedTarget {
    Command { child: Child, rss_bytes: Option<u64>, end: Option<OwnedFd> },
    Process { process: ProcessId, rss_bytes: Option<u64> },
    Cgroup { path: PathBuf, rss_bytes: Option<u64> },
}

impl ObservedTarget {
    pub(super) fn begin(
        target: &Target,
        to_stderr: bool,
        follower: &mut AbsenceFollower,
    ) -> Result<Self, ObserveError> {
        let no_target = |source| ObserveError::NoTarget { what: target.to_string(), source };
        let not_followed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => no_target(source),
            _ => ObserveError::NotFollowed { what: target.to_string(), source },
        };
        match target {
            Target::Command(words) => {
                let child = spawn(words, to_stderr, follower)?.map_err(no_target)?;
                let end = pidfd(child.id().cast_signed());
                Ok(Self::Command { child, rss_bytes: None, end })
            }
            Target::Process(pid) => {
                // By its start time, as the number may be another process's before the recording ends.
                let process = ProcessId::of(pid.cast_signed()).map_err(no_target)?;
                follow_tasks(*pid, follower).map_err(not_followed)?;
                Ok(Self::Process { process, rss_bytes: None })
            }
            Target::Cgroup(path) => {
                let path = cgroup(path).map_err(no_target)?;
                follow_cgroup(&path, follower).map_err(not_followed)?;
                Ok(Self::Cgroup { path, rss_bytes: None })
            }
        }
    }

    /// The exit of the target, if it has ended.
    pub(super) fn ended(
        &mut self,
        follower: &mut AbsenceFollower,
    ) -> Result<Option<ProgramExit>, HostError> {
        let failed = |what| move |source| HostError::Observe { what, source };
        match self {
            Self::Command { child, rss_bytes, .. } => {
                larger(rss_bytes, peak_rss(child.id()));
                let ended = reap(child.id()).map_err(failed("waiting for the program"))?;
                Ok(ended.map(|(status, usage)| {
                    larger(rss_bytes, u64::try_from(usage.ru_maxrss).ok().map(|kib| kib << 10));
                    ProgramExit { status: Some(exit_code(status)), cpu_ns: Some(cpu_ns(&usage)) }
                }))
            }
            Self::Process { process, rss_bytes } => {
                if !process.is_alive() {
                    return Ok(Some(ProgramExit::default()));
                }
                larger(rss_bytes, peak_rss(process.pid.cast_unsigned()));
                Ok(None)
            }
            Self::Cgroup { path, rss_bytes } => {
                // Processes that are moved into it are not children of those in it.
                let members = follow_cgroup(path, follower).unwrap_or_default();
                for pid in members {
                    larger(rss_bytes, peak_rss(pid));
                }
                Ok((!path.exists()).then_some(ProgramExit::default()))
            }
        }
    }

    /// Waits for at most `most`, or until a command has ended, so that the measured wall time does not depend on the
    /// wait.
    pub(super) fn wait(&self, most: Duration) {
        let Self::Command { end: Some(end), .. } = self else { return std::thread::sleep(most) };
        let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live descriptor record, and its number.
        unsafe { libc::poll(&raw mut poll, 1, most.as_millis() as i32) };
    }

    /// Passes a signal on to the command. Returns whether the command will end because of the signal.
    pub(super) fn pass_on(&self, signal: i32) -> bool {
        let Self::Command { child, .. } = self else { return false };
        pass_on(child, signal)
    }

    pub(super) const fn rss_bytes(&self) -> Option<u64> {
        match self {
            Self::Command { rss_bytes, .. }
            | Self::Process { rss_bytes, .. }
            | Self::Cgroup { rss_bytes, .. } => *rss_bytes,
        }
    }
}

/// Passes a signal on to a child that this process has not yet waited for. Ctrl-C on a terminal has already reached
/// the child. Returns whether the child will end because of the signal.
pub(crate) fn pass_on(child: &Child, signal: i32) -> bool {
    if signal == libc::SIGINT && io::stdin().is_terminal() {
        return true;
    }
    // SAFETY: signals a child that has not been waited for, so that its number is its own.
    unsafe { libc::kill(child.id().cast_signed(), signal) == 0 }
}

/// The command with these words; `None` if there are no words.
pub(crate) fn command_of(words: &[Argument], to_stderr: bool) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let of = |word: &Argument| OsStr::from_bytes(word.bytes()).to_owned();
    let mut command = Command::new(of(program));
    command.args(arguments.iter().map(of));
    if to_stderr {
        command.stdout(io::stderr());
    }
    Some(command)
}

/// Starts the command from a thread that is followed itself, so that the command is followed from its first
/// instruction.
fn spawn(
    words: &[Argument],
    to_stderr: bool,
    follower: &mut AbsenceFollower,
) -> Result<io::Result<Child>, ObserveError> {
    let Some(mut command) = command_of(words, to_stderr) else {
        return Ok(Err(io::Error::from_raw_os_error(libc::ENOENT)));
    };
    apart(|| follower.starting(|| command.spawn())).unwrap_or_else(|error| Ok(Err(error)))
}

/// The exit code, or 128 plus the signal number as in shells.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Registers every thread of a process, until no new thread appears.
fn follow_tasks(pid: u32, follower: &mut AbsenceFollower) -> io::Result<()> {
    loop {
        let mut found = false;
        let tids = ProcEntry::process(pid).threads()?;
        for tid in tids.filter(|&tid| !follower.watches(tid)).collect::<Vec<_>>() {
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

/// The numbers with which statfs(2) identifies cgroup file systems, of version 1 and of version 2.
const KINDS: [i64; 2] = [0x0027_e0eb, 0x6367_7270];
/// The usual mount points of control groups; the second is version 2 beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The directory of a cgroup: the given path, or that path below a usual mount point.
///
/// A plain folder is rejected whatever files it contains, because a placer would wait for processes that the kernel
/// never enters there.
pub(crate) fn cgroup(path: &Path) -> io::Result<PathBuf> {
    let within = path.strip_prefix("/").unwrap_or(path);
    let all = || [path.to_owned()].into_iter().chain(MOUNTS.map(|it| Path::new(it).join(within)));
    if let Some(found) = all().find(|it| is_cgroup(it) && it.join("cgroup.procs").exists()) {
        return Ok(found);
    }
    let Some(plain) = all().find(|it| it.exists()) else {
        let why = "there is no such folder with a cgroup.procs, nor below /sys/fs/cgroup: name a cgroup's directory";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    };
    let kind = if plain.is_dir() { "a plain folder" } else { "not a folder" };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "{} is {kind} and not a cgroup with processes: name a folder below {}, which `cat /proc/PID/cgroup` shows",
            shown::path(&plain),
            MOUNTS[0]
        ),
    ))
}

/// Whether the folder is in a cgroup file system (statfs(2)).
fn is_cgroup(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: `name` ends with a zero byte, and `about` is filled by the call or stays as it is.
    let about = unsafe {
        let mut about: libc::statfs = std::mem::zeroed();
        (libc::statfs(name.as_ptr(), &raw mut about) == 0).then_some(about)
    };
    #[allow(clippy::unnecessary_cast, reason = "its width differs between libraries")]
    let kind = about.map(|it| it.f_type as i64);
    kind.is_some_and(|it| KINDS.contains(&it))
}

/// The processes of a cgroup and of the groups below it, by its directory.
pub(crate) fn members(path: &Path) -> io::Result<Vec<u32>> {
    let text = proc::text(path.join("cgroup.procs"))?;
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    for entry in std::fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            // One that is removed just now has none.
            all.extend(members(&entry.path()).unwrap_or_default());
        }
    }
    Ok(all)
}

/// Registers the processes of the cgroup that are not followed yet; returns all its processes.
fn follow_cgroup(path: &Path, follower: &mut AbsenceFollower) -> io::Result<Vec<u32>> {
    let pids = members(path)?;
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
    ProcEntry::process(pid).status().ok()?.bytes("VmHWM")
}

/// The exit status of a child of this process and its resource use, if it has ended (wait4(2)).
fn reap(pid: u32) -> io::Result<Option<(ExitStatus, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage; the kernel fills both.
    let (found, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = pid.cast_signed();
        (libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    match found {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some((ExitStatus::from_raw(status), usage))),
    }
}

/// The exit code of a child of this process and its CPU time in nanoseconds, including the children for which it
/// waited; `None` while the child runs.
///
/// # Errors
/// Fails with the kernel's error.
pub(crate) fn reap_child(pid: u32) -> io::Result<Option<(i32, u64)>> {
    Ok(reap(pid)?.map(|(status, usage)| (exit_code(status), cpu_ns(&usage))))
}

/// The CPU time in nanoseconds: the sum of user and system time.
fn cpu_ns(usage: &libc::rusage) -> u64 {
    let ns = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        seconds * 1_000_000_000 + u64::try_from(time.tv_usec).unwrap_or_default() * 1_000
    };
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// Checks that a command's program exists, so that the last of several commands is known to start before the first
/// one runs.
///
/// # Errors
/// Fails with [`ObserveError::NoTarget`] if the program does not exist.
pub fn check_command(target: &Target) -> Result<(), ObserveError> {
    let Target::Command(words) = target else { return Ok(()) };
    let name = words.first().map_or(&b""[..], Argument::bytes);
    let name = Path::new(OsStr::from_bytes(name));
    let is_program = |path: &Path| fs::metadata(path).is_ok_and(|about| about.is_file());
    let path = env::var_os("PATH").unwrap_or_default();
    let there = if name.components().count() > 1 || name.is_absolute() {
        is_program(name)
    } else {
        env::split_paths(&path).any(|folder| is_program(&folder.join(name)))
    };
    if there {
        return Ok(());
    }
    let source = io::Error::from_raw_os_error(libc::ENOENT);
    Err(ObserveError::NoTarget { what: target.to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_folder_is_no_cgroup_even_with_a_file_of_that_name_and_the_refusal_names_folder_and_remedy()
     {
        let folder = tempfile::tempdir().unwrap();
        for with_file in [false, true] {
            if with_file {
                fs::write(folder.path().join("cgroup.procs"), "1\n").unwrap();
            }
            let error = cgroup(folder.path()).unwrap_err().to_string();
            let name = folder.path().to_str().unwrap();
            let words = [name, "a plain folder", "/sys/fs/cgroup", "/proc/PID/cgroup"];
            assert!(words.iter().all(|it| error.contains(it)), "{error}");
        }
        let file = folder.path().join("cgroup.procs");
        assert!(cgroup(&file).unwrap_err().to_string().contains("not a folder"));
        let none = cgroup(Path::new("/no/such/cgroup")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound, "{none}");
    }

    #[test]
    fn a_cgroup_is_found_by_its_path_and_by_its_name_below_the_mount() {
        let is_there =
            |it: &&str| is_cgroup(Path::new(it)) && Path::new(it).join("cgroup.procs").exists();
        let Some(mount) = MOUNTS.into_iter().find(is_there) else {
            #[expect(clippy::print_stderr, reason = "a skip must be seen")]
            {
                eprintln!("skipped: no cgroup of version 2 is mounted here");
            }
            return;
        };
        assert_eq!(cgroup(Path::new(mount)).unwrap(), Path::new(mount));
        assert!(
            is_cgroup(&cgroup(Path::new("/")).unwrap()),
            "the root, as /proc/PID/cgroup names it"
        );
    }
}
