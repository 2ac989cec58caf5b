// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP: each of them ends corehop within a second.
//!
//! There are two ways to end. From its start on the program ends at once ([`end_at_once`]). A run or a placement is only
//! asked to end ([`install`]), so that rows become a file and settings are put back in order; an alarm ends what has not
//! ended by itself soon after. Both ways lead through one function: unfinished files are removed, the
//! supervisor undoes the changes, and the exit code is [`INTERRUPTED`]. Rows are on the disk by then, in `FILE.part`.
//!
//! A second SIGINT, which comes from a user who does not want to wait, ends the process without the rest of its work. It still
//! waits until the supervisor has put the settings back, five seconds at most: the prompt means that the host is as it was.
//!
//! Nothing else has to know of signals: a loop that never looks at [`requested`] ends with the process. One wait is spared:
//! that for a program which the user has started, and to which the signal is passed on ([`spare`]). A signal that was
//! ignored when corehop started (nohup(1)) stays ignored.

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

/// Whether the first signal asks; otherwise it ends the process.
static ASKS: AtomicBool = AtomicBool::new(false);
static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The first of them; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The socket of the supervisor that watches over this process; -1 for none.
static LIFELINE: AtomicI32 = AtomicI32::new(-1);
/// The waits for programs of the user's that are under way.
static SPARED: AtomicU32 = AtomicU32::new(0);
/// The last of the files to remove.
static UNFINISHED: AtomicPtr<PartialFile> = AtomicPtr::new(null_mut());

/// Whether a stream of rows has its name.
static KEEPS_ROWS: AtomicBool = AtomicBool::new(false);
/// When the first one came, in milliseconds of the monotonic clock; 0 before.
static FIRST_MS: AtomicI64 = AtomicI64::new(0);
/// Interrupts so near to the first one are the same: timeout(1) sends one to the process and one to its
/// group.
const ONE_KEY_MS: i64 = 300;

/// The exit code of an interrupted run.
pub const INTERRUPTED: i32 = 130;
/// The time from the first signal to the alarm, in milliseconds.
const GRACE_MS: i64 = 700;
/// The time for which an end by a signal waits for the supervisor, in milliseconds. A supervisor that takes longer goes on by
/// itself.
const PATIENCE_MS: libc::c_int = 900;
/// The same for a second interrupt: the user gets the prompt back with all settings as they were.
const INSISTED_PATIENCE_MS: libc::c_int = 5_000;
/// The same for an end by the alarm.
const LATE_PATIENCE_MS: libc::c_int = 250;
/// Said by the alarm where rows are kept; the alarm cannot know the file's name.
const ROWS_KEPT: &[u8] =
    b"corehop: interrupted; the rows recorded so far are kept in FILE.part, and --resume continues them\n";
/// The same where there are none.
const FORCED: &[u8] = b"corehop: interrupted\n";

/// A file that is of no use until it has its name.
struct PartialFile {
    path: CString,
    earlier: *mut Self,
}

/// Lets SIGINT, SIGTERM and SIGHUP end the process at once with exit code 130. To be called first in `main`.
///
/// # Errors
/// None that a correct kernel gives.
pub fn end_at_once() -> io::Result<()> {
    for signal in ENDING {
        handle(signal, on_signal)?;
    }
    Ok(())
}

/// Lets SIGINT, SIGTERM and SIGHUP ask the run to end: see [`requested`]. What has not ended 700 ms later is ended by an
/// alarm, a second SIGINT ends the process at once. The exit code is 130 in both cases.
///
/// System calls that wait return `EINTR` then.
///
/// # Errors
/// None that a correct kernel gives.
pub fn install() -> io::Result<()> {
    // Before the others: a signal between the two finds an alarm.
    let alarm = signal_set(&[libc::SIGALRM]);
    // SAFETY: the kernel reads `alarm`; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const alarm, null_mut()) };
    set_handler(libc::SIGALRM, on_alarm)?;
    ASKS.store(true, Ordering::SeqCst);
    end_at_once()
}

/// Handles a signal, unless the process was started with the signal ignored.
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

/// The wait for a program that the user has started and that has got the signal too. The alarm leaves the process alone
/// meanwhile, and comes after it.
#[derive(Debug)]
pub struct Spared(());

/// Spares the process for as long as the value lives.
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

/// Removes the file when a signal ends the process. A file that has got another name by then is left alone.
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

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail, instead of ending the process.
///
/// A handler, not `SIG_IGN`: programs that this one starts have the default again.
///
/// # Errors
/// None that a correct kernel gives.
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

/// Notes that the rows of this run are in a stream with a name, which outlives the process.
pub fn rows_are_kept() {
    KEEPS_ROWS.store(true, Ordering::SeqCst);
}

/// Whether the run has been asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// The signal that asked for it.
pub fn signal() -> Option<i32> {
    let signal = SIGNAL.load(Ordering::SeqCst);
    (signal != 0).then_some(signal)
}

/// Keeps the signals away from the calling thread, for one that measures: another thread takes
/// them.
pub fn keep_off_this_thread() {
    let set = signal_set(&ENDING);
    // SAFETY: the kernel reads `set`; no old mask is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Names the supervisor's socket, for the second interrupt. Of several guards the last counts; the
/// changes of the others are taken back when the process is gone.
pub(super) fn set_lifeline(fd: i32) {
    LIFELINE.store(fd, Ordering::SeqCst);
}

/// Forgets the socket `fd`, before it is closed.
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

/// Runs the work of a handler, and leaves `errno` as the interrupted code has it.
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

/// Says something on standard error, unless that would have to wait.
fn say(words: &[u8]) {
    let mut room = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll writes to a live local, write reads `words`; both are allowed in a handler.
    unsafe {
        if libc::poll(&raw mut room, 1, 0) == 1 && room.revents == libc::POLLOUT {
            libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        }
    }
}

/// Ends the process: the only end by a signal.
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

/// The monotonic clock, which a handler may read (signal-safety(7)).
fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Lets the supervisor undo all changes, and waits for the answer.
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
/// Ends a program that this process starts when this process ends, however it ends: the program hears SIGTERM.
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
