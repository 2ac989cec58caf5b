// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles one call: whether it goes to an OS core, how it goes there, and what is learned from it.

use std::sync::atomic::Ordering;

use corehop_switch::policy::{CoreChoice, CoreOccupancy, CoreSet, Flags, select_os_core};

use super::attempt::{CallAttempt, attempt};
use super::kernel::{self, Signals};
use super::process::{self, ShimProcess};
use super::thread::{self, OffloadContext};
use crate::board::{CallFate, PlaceRule};
use crate::call::Call;
use crate::guard::OffloadRule;
use crate::predict::CallPlace;

/// A call that qualifies.
pub(super) struct QualifyingCall {
    call: Call,
    size: u64,
    process: &'static ShimProcess,
    place: CallPlace,
    /// The time at which the call began, if it is timed.
    begun: Option<u64>,
    /// Whether the call stays on the caller's core because the guard compares.
    guarded: bool,
}

/// Returns the call if it is a candidate for off-load; counts the other calls.
#[inline]
pub(super) fn begin(call: Call, size: u64) -> Option<QualifyingCall> {
    if !process::qualifies(call, size) {
        thread::count(call, CallFate::Small, 1);
        return None;
    }
    consider(call, size)
}

#[cold]
#[inline(never)]
fn consider(call: Call, size: u64) -> Option<QualifyingCall> {
    let _same = Errno::kept();
    let process = process::get()?;
    if process.wishes.decision == PlaceRule::Never {
        thread::count(call, CallFate::Guarded, 1);
        return None;
    }
    let Some(state) = thread::state(process) else {
        thread::count(call, CallFate::Kept, 1);
        return None;
    };
    process.called();
    let (rule, compares) = process.rule();
    if rule == OffloadRule::Here && !compares {
        thread::count(call, CallFate::Guarded, 1);
        return None;
    }
    let (place, timed) = match rule {
        OffloadRule::Here => (CallPlace::Here, false),
        OffloadRule::Predicted => state.predictor.place(call, size),
        OffloadRule::All => (CallPlace::There, true),
    };
    let begun = timed.then(kernel::ticks);
    Some(QualifyingCall { call, size, process, place, begun, guarded: rule == OffloadRule::Here })
}

impl QualifyingCall {
    /// Executes the call on an OS core. `None` means that the call must be executed on the caller's core.
    pub(super) fn there(&mut self, request: &mut CallAttempt) -> Option<isize> {
        if self.place == CallPlace::Here {
            let why = if self.guarded { CallFate::Guarded } else { CallFate::Predicted };
            thread::count(self.call, why, 1);
            return None;
        }
        // A thread that is about to be cancelled is cancelled at this call.
        // SAFETY: no arguments; only this library's own frames, which drop nothing, are left by it.
        unsafe { pthread_testcancel() };
        let errno = Errno::kept();
        let before = Signals::hold();
        let outcome = thread::state(self.process).map(|state| self.go(state, request));
        before.restore();
        drop(errno);
        let count = match outcome {
            Some(CallOutcome::Done(_)) => CallFate::There,
            Some(CallOutcome::Repeat) => CallFate::Repeated,
            Some(CallOutcome::Busy) => CallFate::Busy,
            Some(CallOutcome::Stranger) | None => CallFate::Kept,
        };
        thread::count(self.call, count, 1);
        if let Some(CallOutcome::Done(answer)) = outcome {
            self.process.went();
            self.progressed(answer);
            self.learn(CallPlace::There);
            return Some(answer);
        }
        // An attempt that has to be repeated here is time that the call takes there. The others cost next to nothing,
        // and say nothing of a call here.
        if !matches!(outcome, Some(CallOutcome::Repeat)) {
            self.begun = None;
        }
        None
    }

    fn go(&self, state: &mut OffloadContext, request: &mut CallAttempt) -> CallOutcome {
        // The child of a vfork shares this memory, but not the parent's files.
        if state.tid != kernel::tid() {
            return CallOutcome::Stranger;
        }
        let Some((place, core)) = self.choose(state) else { return CallOutcome::Busy };
        request.tid = state.tid;
        let busy = self.process.board.busy(place);
        busy.fetch_add(1, Ordering::Relaxed);
        thread::set_under_way(true);
        let one = CoreSet::of(&[core]);
        let argument = std::ptr::from_mut(request).cast();
        // SAFETY: the request outlives the call, and `attempt` takes one; it does not unwind.
        unsafe { state.switch.call_on(&one, Flags::NONE, attempt, argument) };
        thread::set_under_way(false);
        busy.fetch_sub(1, Ordering::Relaxed);
        match request.answer {
            Some(answer) => CallOutcome::Done(answer),
            None => CallOutcome::Repeat,
        }
    }

    /// The OS core chosen by the policy, and its index among the OS cores.
    fn choose(&self, state: &mut OffloadContext) -> Option<(usize, usize)> {
        let ShimProcess { cores, board, wishes, .. } = self.process;
        let flags = Flags::from_bits(wishes.flags)?;
        if let [core] = cores[..]
            && !flags.has(Flags::WORK_CONSERVING)
        {
            return Some((0, core));
        }
        let mut busy = CoreSet::EMPTY;
        for (place, &core) in cores.iter().enumerate() {
            if board.busy(place).load(Ordering::Relaxed) > 0 {
                busy.insert(core);
            }
        }
        // SAFETY: no arguments.
        let here = unsafe { libc::sched_getcpu() };
        let os = CoreSet::of(cores);
        let source = usize::try_from(here).unwrap_or(usize::MAX);
        let view = CoreOccupancy { os, app: CoreSet::EMPTY, busy, source, source_idles: true };
        let CoreChoice::Switch(core) = select_os_core(flags, &view, &mut state.memory) else {
            return None;
        };
        cores.iter().position(|&other| other == core).map(|place| (place, core))
    }

    /// Records that the call was executed on the caller's core, with this result.
    pub(super) fn here(&mut self, answer: isize) {
        self.progressed(answer);
        self.learn(self.place);
    }

    fn progressed(&self, answer: isize) {
        if self.call.has_size() && answer > 0 {
            self.process.progressed(answer as u64);
        }
    }

    fn learn(&mut self, place: CallPlace) {
        let Some(begun) = self.begun.take() else { return };
        let ticks = kernel::ticks().saturating_sub(begun);
        let (timed, sum) = match place {
            CallPlace::Here => (CallFate::TimedHere, CallFate::TicksHere),
            CallPlace::There => (CallFate::TimedThere, CallFate::TicksThere),
        };
        thread::count(self.call, timed, 1);
        thread::count(self.call, sum, ticks);
        if self.process.wishes.decision == PlaceRule::Predicted
            && let Some(state) = thread::state(self.process)
        {
            state.predictor.learn(self.call, self.size, place, ticks);
        }
    }
}

/// The saved `errno` of the thread, because waiting for a partner and starting one change it.
pub(super) struct Errno(i32);

impl Errno {
    pub(super) fn kept() -> Self {
        // SAFETY: this thread's own.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

enum CallOutcome {
    Done(isize),
    Repeat,
    Busy,
    Stranger,
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}
