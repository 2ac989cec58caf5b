// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C and its kin: the first asks a run to end, the second ends it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use super::process::{ENDING, checked, signal_set};
use super::watch::UNDO_NOW;

static REQUESTED: AtomicBool = AtomicBool::new(false);
/// The first of them; 0 before.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The socket of the supervisor that watches over this process; -1 for none.
static LIFELINE: AtomicI32 = AtomicI32::new(-1);

/// When the first one came, in milliseconds of the monotonic clock.
static FIRST_MS: AtomicI64 = AtomicI64::new(0);
/// Interrupts so near to the first one are the same: timeout(1) sends one to the process and one to its
/// group.
const ONE_KEY_MS: i64 = 300;

/// The exit code of an interrupted run.
pub const INTERRUPTED: i32 = 130;
/// The time that the second interrupt waits for the supervisor, in milliseconds.
const PATIENCE_MS: libc::c_int = 5_000;

/// Lets SIGINT, SIGTERM and SIGHUP ask the run to end: see [`requested`]. A SIGINT after one of
/// them ends the process with exit code 130, as soon as the supervisor has taken its changes back.
///
/// System calls that wait return `EINTR` then. SIGHUP stays ignored where it is (nohup(1)).
///
/// # Errors
/// None that a correct kernel gives.
pub fn install() -> io::Result<()> {
    for signal in ENDING {
        // SAFETY: an all-zero sigaction is valid: no flags, an empty mask, SIG_DFL.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        // SAFETY: `old` is a live local; no new action is given.
        checked(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut old) })?;
        if signal == libc::SIGHUP && old.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        // SAFETY: `on_signal` makes only calls that signal-safety(7) allows.
        checked(unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) })?;
    }
    Ok(())
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
    if !REQUESTED.swap(true, Ordering::SeqCst) {
        SIGNAL.store(signal, Ordering::SeqCst);
        FIRST_MS.store(now_ms(), Ordering::SeqCst);
    } else if signal == libc::SIGINT && now_ms() - FIRST_MS.load(Ordering::SeqCst) > ONE_KEY_MS {
        undo_by_supervisor(LIFELINE.load(Ordering::SeqCst));
        // SAFETY: _exit ends the process without running anything of it.
        unsafe { libc::_exit(INTERRUPTED) };
    }
}

/// The monotonic clock, which a handler may read (signal-safety(7)).
fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

fn undo_by_supervisor(fd: libc::c_int) {
    let word = UNDO_NOW;
    let mut answer = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: send reads one byte of a live local, poll writes to one; both are allowed in a
    // handler, and a closed or absent descriptor makes them return at once.
    unsafe {
        if libc::send(fd, (&raw const word).cast(), 1, libc::MSG_NOSIGNAL) == 1 {
            libc::poll(&raw mut answer, 1, PATIENCE_MS);
        }
    }
}
