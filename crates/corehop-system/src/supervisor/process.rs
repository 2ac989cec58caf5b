// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reliable references to processes in `/proc`, and the calls that prepare a helper process.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::proc::{self, ProcEntry, Stat};
use crate::rights;
use crate::thread::set_affinity_everywhere;

/// A process or thread that cannot be confused with another: an ID alone is reused after its holder dies, but an ID
/// with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessId {
    /// The process or thread number.
    pub pid: i32,
    /// The start time, in clock ticks since the host started (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

/// The records of all existing processes.
pub(super) fn all() -> impl Iterator<Item = Stat> {
    proc::processes().filter_map(|pid| ProcEntry::process(pid).stat().ok())
}

impl From<&Stat> for ProcessId {
    fn from(stat: &Stat) -> Self {
        Self { pid: stat.pid.cast_signed(), start_time: stat.start_time }
    }
}

impl ProcessId {
    /// Returns the process or thread that has this ID now.
    ///
    /// # Errors
    /// Returns `NotFound` if there is no process or thread with this ID, or `/proc` is not mounted.
    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self::from(&ProcEntry::process(pid).stat()?))
    }

    /// Returns the calling process.
    ///
    /// # Errors
    /// Returns `NotFound` if `/proc` is not mounted.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id() as i32)
    }

    /// Returns whether the process still runs. A process that is dead but not yet reaped does not run.
    pub fn is_alive(self) -> bool {
        self.stat().is_some_and(|stat| !stat.is_dead())
    }

    /// The record of the process in `/proc`, if the record exists; a dead process that is not yet reaped has a record.
    pub(super) fn stat(self) -> Option<Stat> {
        ProcEntry::process(self.pid).stat().ok().filter(|stat| Self::from(stat) == self)
    }

    /// Waits for at most `limit` until the process no longer runs; returns whether it is gone.
    pub(super) fn wait_gone(self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.is_alive() {
            if Instant::now() > end {
                return false;
            }
            sleep(Duration::from_millis(1));
        }
        true
    }

    /// Sends `signal` to this process, and never to another process that has received its ID (pidfd_send_signal(2)).
    ///
    /// # Errors
    /// Returns `ESRCH` if the process is gone, or another error of kill(2).
    pub(super) fn signal(self, signal: libc::c_int) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let Some(fd) = pidfd(self.pid) else {
            return if self.is_alive() { kill(self.pid, signal) } else { Err(gone()) };
        };
        // The descriptor stays with one process: if that is ours now, it is when the signal is sent.
        if !self.is_alive() {
            return Err(gone());
        }
        pidfd_send_signal(&fd, signal)
    }

    /// A descriptor that becomes readable when the process dies (pidfd_open(2)); `None` before Linux 5.3, or if the
    /// process is already dead.
    pub(super) fn death_notice(self) -> Option<OwnedFd> {
        let notice = pidfd(self.pid)?;
        self.is_alive().then_some(notice)
    }
}

/// Returns a descriptor of a process; `None` before Linux 5.3, or if there is no such process.
pub fn pidfd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of this process.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd;
    // SAFETY: a descriptor that the kernel has just made, with this one owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn pidfd_send_signal(fd: &OwnedFd, signal: libc::c_int) -> io::Result<()> {
    let (none, flags) = (std::ptr::null::<libc::siginfo_t>(), 0);
    // SAFETY: takes integers and a null pointer, for which the kernel fills in what kill(2) would.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, none, flags) };
    checked(sent as libc::c_int).map(|_| ())
}

/// Signals a process by its ID, because Linux before 5.3 offers nothing else.
fn kill(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: kill takes two integers. The number is positive: no group, not every process.
    checked(unsafe { libc::kill(pid, signal) }).map(|_| ())
}

/// Converts `-1` to the error that the call has set.
pub(super) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The signals that end a program from outside.
pub(super) const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A set of signals.
pub(super) fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: all-zero bits are a valid value of this plain C structure.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: both calls write to `set` alone.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    set
}

/// Blocks the signals `blocked`, and no others, in this thread.
pub(super) fn block_only(blocked: &[libc::c_int]) {
    let set = signal_set(blocked);
    // SAFETY: the kernel reads `set`; no old mask is asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Sets the disposition of `signals` to `SIG_IGN` or `SIG_DFL`; safe between fork and exec.
pub(super) fn dispose(signals: &[libc::c_int], disposition: libc::sighandler_t) {
    for &signal in signals {
        // SAFETY: neither disposition runs a handler.
        unsafe { libc::signal(signal, disposition) };
    }
}

/// Returns an output for helpers without output: a pipe that nobody reads. An initramfs may have no `/dev/null`.
///
/// # Errors
/// Returns the errors of the system.
pub fn nowhere() -> io::Result<Stdio> {
    io::pipe().map(|(_reader, writer)| Stdio::from(writer))
}

/// Starts this program as a helper with `role`. The helper's standard input is a socket, whose other end is returned.
///
/// No work is done between fork and exec, so that the standard library starts the helper without copying this
/// process's memory. A copy would write-protect all memory, and the first write to each page would cause a fault.
/// [`enter_helper`] makes the helper independent; this function returns when the helper reports that it is ready.
///
/// # Errors
/// Returns an error if the helper cannot be started, or is not ready within ten seconds (`NotConnected` if the program
/// does not know the role, because it has not called [`super::main_if_asked`]).
pub fn start_helper(
    role: &str,
    arguments: &[&OsStr],
    stdout: Stdio,
    stderr: Stdio,
) -> io::Result<(Child, UnixStream)> {
    let (lifeline, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("corehop").arg(role).args(arguments);
    command.stdin(OwnedFd::from(theirs)).stdout(stdout).stderr(stderr);
    let mut child = command.spawn()?;
    drop(command);
    if let Err(error) = await_ready(&lifeline) {
        // A helper that never got ready has changed nothing; it is our child, so its number is its own.
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    Ok((child, lifeline))
}

fn await_ready(mut lifeline: &UnixStream) -> io::Result<()> {
    lifeline.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answer = [0];
    // A signal that asks the run to end does not end a wait of its own.
    match io::Read::read_exact(&mut lifeline, &mut answer) {
        Ok(()) if answer == *READY => lifeline.set_read_timeout(None),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// The first message of a helper.
pub const READY: &[u8; 1] = b"R";

/// Begins a helper's `main`: detaches from the caller and sets the process name. Closes every inherited descriptor
/// beyond the first three, because otherwise a pipe of the caller would stay open. Returns the lifeline, and requests
/// a notice of the parent's death.
///
/// # Errors
/// Returns the errors of the system.
pub fn enter_helper(name: &std::ffi::CStr) -> io::Result<UnixStream> {
    leave_the_parent()?;
    // Anyone can start a helper, with a journal or a command of their own.
    rights::give_up_lent()?;
    // SAFETY: PR_SET_NAME reads a C string, which `name` is.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    block_only(&[]);
    for fd in proc::own_descriptors()?.into_iter().filter(|&fd| fd > 2) {
        // SAFETY: nothing in this process, which has only just begun, owns a descriptor above 2.
        unsafe { libc::close(fd) };
    }
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Detaches the process from the terminal and its signals, and from a real-time policy and pinning of the thread that
/// started it.
fn leave_the_parent() -> io::Result<()> {
    dispose(&ENDING, libc::SIG_IGN);
    // SAFETY: these calls take integers, or a pointer to a live local.
    unsafe {
        checked(libc::setsid())?;
        if libc::sched_getscheduler(0) != libc::SCHED_OTHER {
            let ordinary: libc::sched_param = std::mem::zeroed();
            checked(libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const ordinary))?;
        }
    }
    set_affinity_everywhere(0)
}

/// Waits until one of `fds` is readable or has lost its other end; `None` is never ready.
///
/// # Errors
/// Returns the errors of poll(2) except `EINTR`, after which the wait continues.
pub fn wait_readable<const N: usize>(
    fds: [Option<&dyn AsRawFd>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd: fd.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = limit.map_or(-1, |limit| limit.as_millis() as libc::c_int);
    loop {
        // SAFETY: `polled` has `N` elements and outlives the call.
        match checked(unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, timeout) }) {
            Ok(_) => return Ok(polled.map(|fd| fd.revents != 0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_with_its_number_but_another_start_does_not() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive() && own.death_notice().is_some());
        let other = ProcessId { start_time: own.start_time + 1, ..own };
        // Signal 0 asks only.
        own.signal(0).unwrap();
        assert_eq!(other.signal(0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert!(!other.is_alive() && other.death_notice().is_none());
    }
}
