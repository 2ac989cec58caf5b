// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the process: the board, the thresholds, and the guard.

use std::cell::UnsafeCell;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corehop_switch::policy::CoreSet;

use super::cpus::{self, Cpus};
use super::{kernel, real, thread};
use crate::board::{Board, OffloadSettings, PlaceRule, ProcessEvent, VARIABLE};
use crate::call::{CALLS, Call};
use crate::guard::{GuardVerdict, OffloadGuard, OffloadRule, ProgramProgress, TrialSchedule};

/// The parts of the state that exist from the start of the process.
pub(super) struct ShimProcess {
    pub(super) board: Board,
    pub(super) wishes: OffloadSettings,
    pub(super) cores: Vec<usize>,
    guard: Guarding,
}

static PROCESS: OnceLock<ShimProcess> = OnceLock::new();

/// For each call, the smallest size that is considered for off-load; `u64::MAX` before the library
/// is ready.
static THRESHOLDS: [AtomicU64; CALLS] = [const { AtomicU64::new(u64::MAX) }; CALLS];

/// Whether a call of this size is considered for off-load.
#[inline]
pub(super) fn qualifies(call: Call, size: u64) -> bool {
    size >= THRESHOLDS[call as usize].load(Ordering::Relaxed)
}

/// The state of the process, once it is ready.
#[inline]
pub(super) fn get() -> Option<&'static ShimProcess> {
    PROCESS.get()
}

/// Runs before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    real::look_up_all();
    let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    // Without a board the library does nothing: the command has ended, say, or the program changed its root directory.
    let Ok(wishes) = OffloadSettings::read(&folder) else { return };
    let Ok(board) = Board::open(&folder) else { return };
    let cores = CoreSet::from_words(wishes.os_cores).iter().collect();
    let guard = Guarding::new(&wishes);
    board.count(ProcessEvent::Processes);
    if PROCESS.set(ShimProcess { board, wishes, cores, guard }).is_err() {
        return;
    }
    // SAFETY: handlers of the right type, which live as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    for (threshold, wished) in THRESHOLDS.iter().zip(wishes.thresholds) {
        threshold.store(wished, Ordering::Relaxed);
    }
}

/// Runs in the child of a fork, in which the thread is new and the guard starts again.
unsafe extern "C" fn forked() {
    thread::forget();
    if let Some(process) = get() {
        process.guard.restart(process);
        process.board.count(ProcessEvent::Processes);
    }
}

impl ShimProcess {
    /// The current rule for calls, and whether the guard compares, so that progress must be
    /// counted.
    pub(super) fn rule(&self) -> (OffloadRule, bool) {
        match self.wishes.decision {
            PlaceRule::Always => (OffloadRule::All, false),
            PlaceRule::Never => (OffloadRule::Here, false),
            _ => self.guard.rule(),
        }
    }

    /// Records that a call which could be off-loaded is about to be made.
    pub(super) fn called(&self) {
        if self.wishes.decision.is_guarded() {
            self.guard.called(self);
        }
    }

    /// Records that a call moved `bytes` bytes.
    pub(super) fn progressed(&self, bytes: u64) {
        self.guard.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that a call was executed on an OS core.
    pub(super) fn went(&self) {
        self.guard.gone.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the OS cores from the program's threads, or gives them back.
    fn confine(&self, confined: bool) {
        let (free, rest) = self.cpus();
        if confined && (self.guard.left_alone.load(Ordering::Relaxed) || cpus::any_has(&rest)) {
            self.guard.left_alone.store(true, Ordering::Relaxed);
        } else if !self.guard.left_alone.load(Ordering::Relaxed) {
            let (from, to) = if confined { (&free, &rest) } else { (&rest, &free) };
            cpus::change(from, to);
        }
    }

    /// All CPUs of the program, and its CPUs that are not OS cores.
    fn cpus(&self) -> (Cpus, Cpus) {
        let free = self.wishes.free_cpus;
        (free, std::array::from_fn(|at| free[at] & !self.wishes.os_cores[at]))
    }
}

/// The guard, used by one thread at a time; another thread that finds it in use does not wait.
struct Guarding {
    busy: AtomicBool,
    /// The current rule, and whether the guard compares.
    rule: AtomicU64,
    /// Whether the OS cores have been taken from the program's threads.
    confined: AtomicBool,
    /// Whether the process's CPUs are never changed, because a thread chose exactly these CPUs
    /// itself.
    left_alone: AtomicBool,
    begun: AtomicU64,
    calls: AtomicU64,
    gone: AtomicU64,
    bytes: AtomicU64,
    guard: UnsafeCell<OffloadGuard>,
}

// SAFETY: `guard` is used by the thread that set `busy`.
unsafe impl Sync for Guarding {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarding {}

/// The number of calls from one clock reading to the next, between trials.
const CALLS_PER_LOOK: u64 = 16;
/// The bit in the rule word that is set while the guard compares.
const COMPARES: u64 = 4;

impl Guarding {
    fn new(wishes: &OffloadSettings) -> Self {
        let guard = fresh(wishes);
        Self {
            busy: AtomicBool::new(false),
            rule: AtomicU64::new(word(&guard)),
            confined: AtomicBool::new(false),
            left_alone: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            guard: UnsafeCell::new(guard),
        }
    }

    /// Restarts the guard; may only be called where no other thread runs.
    fn restart(&self, process: &ShimProcess) {
        let guard = fresh(&process.wishes);
        self.rule.store(word(&guard), Ordering::Relaxed);
        // A program that the child turns into would keep the parent's CPUs for ever.
        let confined = self.confined.swap(false, Ordering::Relaxed);
        if confined && !self.left_alone.load(Ordering::Relaxed) {
            let (free, rest) = process.cpus();
            cpus::change_own(&rest, &free);
        }
        // SAFETY: the child of a fork has one thread.
        unsafe { *self.guard.get() = guard };
        self.begun.store(0, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }

    fn rule(&self) -> (OffloadRule, bool) {
        let word = self.rule.load(Ordering::Relaxed);
        let rule = match word & !COMPARES {
            0 => OffloadRule::Here,
            1 => OffloadRule::Predicted,
            _ => OffloadRule::All,
        };
        (rule, word & COMPARES != 0)
    }

    fn called(&self, process: &ShimProcess) {
        let before = self.calls.fetch_add(1, Ordering::Relaxed);
        // Between trials it looks at the clock now and then.
        let looks = self.rule().1 || before.is_multiple_of(CALLS_PER_LOOK);
        if !looks || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        let now = kernel::ticks();
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.begun.store(now, Ordering::Relaxed);
        }
        // SAFETY: `busy` was not set, so that no other thread uses it.
        let guard = unsafe { &mut *self.guard.get() };
        if let Some(verdict) = guard.called(now, self.progress()) {
            self.tell(verdict, now, &process.board);
        }
        self.rule.store(word(guard), Ordering::Relaxed);
        let confined = guard.confines();
        if confined != self.confined.swap(confined, Ordering::Relaxed) {
            process.confine(confined);
        }
        self.busy.store(false, Ordering::Release);
    }

    fn progress(&self) -> ProgramProgress {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProgramProgress { calls: of(&self.calls), gone: of(&self.gone), bytes: of(&self.bytes) }
    }

    fn tell(&self, verdict: GuardVerdict, now: u64, board: &Board) {
        let thousandths = |part: f64| (part.max(0.0) * 1000.0).round() as u64;
        match verdict {
            GuardVerdict::Loses(ratio) if board.count(ProcessEvent::TurnedOff) == 0 => {
                let took = now - self.begun.load(Ordering::Relaxed);
                board.event(ProcessEvent::UntilTurnedOff).store(took, Ordering::Relaxed);
                board.event(ProcessEvent::Loss).store(thousandths(1.0 - ratio), Ordering::Relaxed);
            }
            GuardVerdict::Unused => {
                board.count(ProcessEvent::Unused);
            }
            GuardVerdict::Gains(ratio) => {
                board.count(ProcessEvent::SentAll);
                board.event(ProcessEvent::Gain).store(thousandths(ratio - 1.0), Ordering::Relaxed);
            }
            GuardVerdict::Loses(_) | GuardVerdict::Stays => {}
        }
    }
}

fn word(guard: &OffloadGuard) -> u64 {
    guard.rule() as u64 | if guard.compares() { COMPARES } else { 0 }
}

fn fresh(wishes: &OffloadSettings) -> OffloadGuard {
    let first = match wishes.decision {
        PlaceRule::Predicted => OffloadRule::Predicted,
        _ => OffloadRule::All,
    };
    OffloadGuard::new(TrialSchedule::usual(wishes.ticks_per_microsecond), first)
}
