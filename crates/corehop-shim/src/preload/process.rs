// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the process: the board, the thresholds, the guard.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corehop_switch::policy::CoreSet;

use super::{kernel, real, thread};
use crate::board::{Board, Decision, Event, VARIABLE, Wishes};
use crate::call::{CALLS, Call};
use crate::guard::{Guard, Pace, Verdict};
use crate::predict::Place;

/// The parts that a process has from its start on.
pub(super) struct Process {
    pub(super) board: Board,
    pub(super) wishes: Wishes,
    pub(super) cores: Vec<usize>,
    guard: Guarding,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// The least size of each call that is looked at further; `u64::MAX` before the library is ready.
static THRESHOLDS: [AtomicU64; CALLS] = [const { AtomicU64::new(u64::MAX) }; CALLS];

/// Whether a call of this size is looked at further.
#[inline]
pub(super) fn qualifies(call: Call, size: u64) -> bool {
    size >= THRESHOLDS[call as usize].load(Ordering::Relaxed)
}

/// The process, once it is ready.
#[inline]
pub(super) fn get() -> Option<&'static Process> {
    PROCESS.get()
}

/// Runs before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    real::look_up_all();
    let Some(path) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    // Without a board the library does nothing: a program that changed its root directory, say.
    let Ok(board) = Board::open(&path) else { return };
    let wishes = board.wishes();
    let cores = CoreSet::from_words(wishes.os_cores).iter().collect();
    let guard = Guarding::new(&board);
    board.count(Event::Processes);
    if PROCESS.set(Process { board, wishes, cores, guard }).is_err() {
        return;
    }
    // SAFETY: handlers of the right type, which live as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    for (threshold, wished) in THRESHOLDS.iter().zip(wishes.thresholds) {
        threshold.store(wished, Ordering::Relaxed);
    }
}

/// In the child of a fork: its thread is another one, and its guard begins anew.
unsafe extern "C" fn forked() {
    thread::forget();
    if let Some(process) = get() {
        process.guard.restart(&process.board);
        process.board.count(Event::Processes);
    }
}

impl Process {
    /// The place for calls by the guard.
    pub(super) fn place(&self) -> Place {
        match self.wishes.decision {
            Decision::Always => Place::There,
            Decision::Never => Place::Here,
            _ if self.guard.there.load(Ordering::Relaxed) => Place::There,
            _ => Place::Here,
        }
    }

    /// A call that could have been off-loaded was made.
    pub(super) fn called(&self) {
        if self.wishes.decision.is_guarded() {
            self.guard.called(&self.board);
        }
    }
}

/// The guard, for one thread at a time: a call that finds it busy is not counted.
struct Guarding {
    busy: AtomicBool,
    there: AtomicBool,
    begun: AtomicU64,
    guard: UnsafeCell<Guard>,
}

// SAFETY: `guard` is used by the thread that set `busy`.
unsafe impl Sync for Guarding {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarding {}

impl Guarding {
    fn new(board: &Board) -> Self {
        Self {
            busy: AtomicBool::new(false),
            there: AtomicBool::new(true),
            begun: AtomicU64::new(0),
            guard: UnsafeCell::new(fresh(board)),
        }
    }

    /// Called where no other thread is.
    fn restart(&self, board: &Board) {
        // SAFETY: the child of a fork has one thread.
        unsafe { *self.guard.get() = fresh(board) };
        self.there.store(true, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }

    fn called(&self, board: &Board) {
        if self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let now = kernel::ticks();
        let begun = match self.begun.load(Ordering::Relaxed) {
            0 => {
                self.begun.store(now, Ordering::Relaxed);
                now
            }
            begun => begun,
        };
        // SAFETY: `busy` was not set, so that no other thread uses it.
        let guard = unsafe { &mut *self.guard.get() };
        let verdict = guard.called(now);
        self.there.store(guard.place() == Place::There, Ordering::Relaxed);
        if let Some(Verdict::Loses(ratio)) = verdict
            && board.count(Event::TurnedOff) == 0
        {
            board.event(Event::UntilTurnedOff).store(now - begun, Ordering::Relaxed);
            let loss = (1.0 - ratio).max(0.0) * 1000.0;
            board.event(Event::Loss).store(loss.round() as u64, Ordering::Relaxed);
        }
        self.busy.store(false, Ordering::Release);
    }
}

fn fresh(board: &Board) -> Guard {
    Guard::new(Pace::usual(board.ticks_per_microsecond()))
}
