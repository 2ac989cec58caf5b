// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP each end corehop within a second.
//!
//! There are two ways to end. From its start on, the program ends immediately ([`end_at_once`]). A run or a placement
//! is only asked to stop ([`install`]), so that its rows become a file and settings are restored in order. An alarm
//! ends a process that has not ended by itself soon after. Both ways use one function: unfinished files are removed,
//! the supervisor reverts the changes, and the exit code is [`INTERRUPTED`]. The rows are then on disk, in
//! `FILE.part`.
//!
//! A second SIGINT, from a user who does not want to wait, ends the process without the rest of its work. The process
//! still waits until the supervisor has restored the settings, for at most five seconds. When the prompt returns, the
//! host is as it was.
//!
//! No other code must handle signals: a loop that never checks [`requested`] ends with the process. One wait is
//! exempt: waiting for a program that the user has started, to which the signal is passed on ([`spare`]). A signal
//! that was ignored when corehop started (nohup(1)) stays ignored.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, Ordering};

use super::process::{ENDING, checked, signal_set};
use super::watch::UNDO_NOW;

/// Whether the first signal only asks the process to stop; otherwise it ends the process.
static ASKS: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The first signal; 0 before a signal has arrived.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The socket of the supervisor of this process; -1 for none.
static LIFELINE: AtomicI32 = AtomicI32::new(-1);
/// The number of current waits for programs of the user.
static SPARED: AtomicU32 = AtomicU32::new(0);
/// The last element in the list of files to remove.
static UNFINISHED: AtomicPtr<PartialFile> = AtomicPtr::new(null_mut());

/// Whether a stream of rows already has its name.
static KEEPS_ROWS: AtomicBool = AtomicBool::new(false);
/// The time of the first signal, in milliseconds of the monotonic clock; 0 before a signal has arrived.
static FIRST_MS: AtomicI64 = AtomicI64::new(0);
/// Interrupts within this time after the first interrupt count as one interrupt, because timeout(1) sends a signal to
/// the process and to its group.
const ONE_KEY_MS: i64 = 300;

/// The exit code of an interrupted run.
pub const INTERRUPTED: i32 = 130;
/// The time from the first signal to the alarm, in milliseconds.
const GRACE_MS: i64 = 700;
/// The time for which an end by a signal waits for the supervisor, in milliseconds. A slower supervisor continues on
/// its own.
const PATIENCE_MS: libc::c_int = 900;
/// The time for which the end after a second interrupt waits for the supervisor, in milliseconds, so that all
/// settings are restored when the prompt returns.
const INSISTED_PATIENCE_MS: libc::c_int = 5_000;
/// The time for which an end by the alarm waits for the supervisor, in milliseconds.
const LATE_PATIENCE_MS: libc::c_int = 250;
/// The alarm's message if rows are kept; the alarm cannot know the name of the file.
const ROWS_KEPT: &[u8] =
    b"corehop: interrupted; the rows recorded so far are kept in FILE.part, and --resume continues them\n";
/// The alarm's message if no rows are kept.
const FORCED: &[u8] = b"corehop: interrupted\n";

/// A file that is useless until it has its name.
struct PartialFile {
    path: CString,
    earlier: *mut Self,
}

/// Makes SIGINT, SIGTERM and SIGHUP end the process immediately with exit code 130. Call this function first in
/// `main`.
///
/// # Errors
/// No error occurs with a correct kernel.
pub fn end_at_once() -> io::Result<()> {
    for signal in ENDING {
        handle(signal, on_signal)?;
    }
    Ok(())
}

/// Makes SIGINT, SIGTERM and SIGHUP ask the run to stop: see [`requested`]. If the run has not ended after 700 ms, an
/// alarm ends it. A second SIGINT ends the process immediately. The exit code is 130 in both cases.
///
/// After the first signal, waiting system calls return `EINTR`.
///
/// # Errors
/// No error occurs with a correct kernel.
pub fn install() -> io::Result<()> {
    // Before the others: a signal between the two finds an alarm.
    let alarm = signal_set(&[libc::SIGALRM]);
    // SAFETY: the kernel reads `alarm`; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, null_mut()) };
    set_handler(libc::SIGALRM, on_alarm)?;
    ASKS.store(true, Ordering::SeqCst);
    end_at_once()
}

/// Installs a signal handler, unless the signal was ignored when the process started.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid: no flags, an empty mask, SIG_DFL.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `old` is a live local; no new action is given.
    checked(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut old) })?;
    if old.sa_sigaction == libc::SIG_IGN { Ok(()) } else { set_handler(signal, handler) }
}

fn set_handler(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: as above.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler as *const () as libc::sighandler_t;
    // An alarm in the middle of an end would cut the wait for the supervisor short.
    new.sa_mask = signal_set(&[&ENDING[..], &[libc::SIGALRM]].concat());
    // SAFETY: the handlers of this file make only calls that signal-safety(7) allows.
    checked(unsafe { libc::sigaction(signal, &raw const new, null_mut()) })?;
    Ok(())
}

/// A wait for a program that the user has started and that received the signal too. The alarm does not end the
/// process during this wait, but after it.
#[derive(Debug)]
pub struct Spared(());

/// Exempts the process from the alarm for as long as the value lives.
pub fn spare() -> Spared {
    SPARED.fetch_add(1, Ordering::SeqCst);
    Spared(())
}

impl Drop for Spared {
    fn drop(&mut self) {
        if SPARED.fetch_sub(1, Ordering::SeqCst) == 1 && requested() {
            set_alarm();
        }
    }
}

/// Makes a signal that ends the process remove this file. A file that is renamed before the signal is kept.
pub fn remove_at_end(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    let new = Box::into_raw(Box::new(PartialFile { path, earlier: null_mut() }));
    let mut last = UNFINISHED.load(Ordering::Acquire);
    loop {
        // SAFETY: `new` came from a box and has no other user yet.
        unsafe { (*new).earlier = last };
        match UNFINISHED.compare_exchange(last, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => last = now,
        }
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail instead of ending the process.
///
/// A handler is used instead of `SIG_IGN`, so that programs started by this process get the default again.
///
/// # Errors
/// No error occurs with a correct kernel.
pub fn outlive_file_limit() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing, which signal-safety(7) allows.
    checked(unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// Records that the rows of this run are in a named stream, which outlives the process.
pub fn rows_are_kept() {
    KEEPS_ROWS.store(true, Ordering::SeqCst);
}

/// Returns whether the run was asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Returns the signal that asked the run to stop.
pub fn signal() -> Option<i32> {
    let signal = SIGNAL.load(Ordering::SeqCst);
    (signal != 0).then_some(signal)
}

/// Blocks the signals in the calling thread, which measures; another thread receives them.
pub fn keep_off_this_thread() {
    let set = signal_set(&ENDING);
    // SAFETY: the kernel reads `set`; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Sets the supervisor's socket, which the second interrupt uses. If there are several guards, the socket of the last
/// guard counts; the changes of the other guards are reverted when the process has ended.
pub(super) fn set_lifeline(fd: i32) {
    LIFELINE.store(fd, Ordering::SeqCst);
}

/// Removes the socket `fd` before it is closed.
pub(super) fn clear_lifeline(fd: i32) {
    // It may be that of another guard by now, which stays.
    let _other = LIFELINE.compare_exchange(fd, -1, Ordering::SeqCst, Ordering::SeqCst);
}

extern "C" fn on_signal(signal: libc::c_int) {
    keeping_errno(|| take(signal));
}

fn take(signal: libc::c_int) {
    if !ASKS.load(Ordering::SeqCst) {
        end(PATIENCE_MS);
    }
    // Two threads may be here at once. The request comes last: who sees the request also sees its signal.
    match FIRST_MS.compare_exchange(0, now_ms(), Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {
            SIGNAL.store(signal, Ordering::SeqCst);
            REQUESTED.store(true, Ordering::SeqCst);
            set_alarm();
        }
        Err(first_ms) if signal == libc::SIGINT && now_ms() - first_ms > ONE_KEY_MS => {
            end(INSISTED_PATIENCE_MS);
        }
        Err(_) => {}
    }
}

extern "C" fn on_alarm(_: libc::c_int) {
    keeping_errno(ring);
}

/// Runs the work of a signal handler, and preserves `errno` for the interrupted code.
fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the place of this thread's errno, which lives as long as the thread.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    work();
    *errno = before;
}

fn ring() {
    if SPARED.load(Ordering::SeqCst) > 0 {
        // Usually done by now, and harmless a second time: settings do not wait for the program.
        undo_by_supervisor(LATE_PATIENCE_MS);
        return;
    }
    say(if KEEPS_ROWS.load(Ordering::SeqCst) { ROWS_KEPT } else { FORCED });
    end(LATE_PATIENCE_MS);
}

fn set_alarm() {
    let value = libc::timeval { tv_sec: 0, tv_usec: GRACE_MS * 1_000 };
    let once =
        libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: reads a live local. A system call by itself, which a handler may make.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const once, 0) };
}

/// Writes a message to standard error, unless that would block.
fn say(words: &[u8]) {
    let mut room = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll writes to a live local, write reads `words`; both are allowed in a handler.
    unsafe {
        if libc::poll(&raw mut room, 1, 0) == 1 && room.revents == libc::POLLOUT {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        }
    }
}

/// Ends the process; every end by a signal uses this function.
fn end(patience_ms: libc::c_int) -> ! {
    let mut next = UNFINISHED.load(Ordering::Acquire);
    // SAFETY: the nodes of the list are never freed or changed after they have entered the list.
    while let Some(file) = unsafe { next.as_ref() } {
        // SAFETY: unlink reads a string that ends with a zero; allowed in a handler.
        unsafe { libc::unlink(file.path.as_ptr()) };
        next = file.earlier;
    }
    undo_by_supervisor(patience_ms);
    // SAFETY: _exit ends the process without running anything of it.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// The time of the monotonic clock, which a handler may read (signal-safety(7)).
fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Lets the supervisor revert all changes, and waits for its answer.
fn undo_by_supervisor(patience_ms: libc::c_int) {
    let (fd, word) = (LIFELINE.load(Ordering::SeqCst), UNDO_NOW);
    let mut answer = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: send reads one byte of a live local, poll writes to one; both are allowed in a
    // handler, and a closed or absent descriptor makes them return at once.
    unsafe {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        if libc::send(fd, (&raw const word).cast(), 1, flags) == 1 {
            libc::poll(&raw mut answer, 1, patience_ms);
        }
    }
}
/// Makes a program started by this process receive SIGTERM when this process ends in any way.
pub fn pass_on_the_end(program: &mut Command) -> &mut Command {
    let keeper = std::process::id() as libc::pid_t;
    let tied = move || {
        // SAFETY: the calls take integers.
        unsafe {
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))?;
            if libc::getppid() != keeper {
                // This process ended before the line above took effect.
                libc::_exit(INTERRUPTED);
            }
        }
        Ok(())
    };
    // SAFETY: `tied` makes system calls only; it neither allocates nor locks.
    unsafe { program.pre_exec(tied) }
}
