// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of one call: whether it goes to an OS core, how it goes there, and what is learned from it.

use std::sync::atomic::Ordering;

use corehop_switch::policy::{Choice, CoreSet, Flags, View, select_os_core};

use super::attempt::{Request, attempt};
use super::kernel::{self, Signals};
use super::process::{self, Process};
use super::thread::{self, State};
use crate::board::{Count, Decision};
use crate::call::Call;
use crate::guard::Rule;
use crate::predict::Place;

/// A call that qualifies.
pub(super) struct Course {
    call: Call,
    size: u64,
    process: &'static Process,
    place: Place,
    /// When it began, if it is timed.
    begun: Option<u64>,
    /// It stays by the guard, which compares.
    guarded: bool,
}

/// Whether a call is to be looked at; counts those that are not.
#[inline]
pub(super) fn begin(call: Call, size: u64) -> Option<Course> {
    if !process::qualifies(call, size) {
        thread::count(call, Count::Small, 1);
        return None;
    }
    consider(call, size)
}

#[cold]
#[inline(never)]
fn consider(call: Call, size: u64) -> Option<Course> {
    let _same = Errno::kept();
    let process = process::get()?;
    if process.wishes.decision == Decision::Never {
        thread::count(call, Count::Guarded, 1);
        return None;
    }
    let Some(state) = thread::state(process) else {
        thread::count(call, Count::Kept, 1);
        return None;
    };
    process.called();
    let (rule, compares) = process.rule();
    if rule == Rule::Here && !compares {
        thread::count(call, Count::Guarded, 1);
        return None;
    }
    let (place, timed) = match rule {
        Rule::Here => (Place::Here, false),
        Rule::Predicted => state.predictor.place(call, size),
        Rule::All => (Place::There, true),
    };
    let begun = timed.then(kernel::ticks);
    Some(Course { call, size, process, place, begun, guarded: rule == Rule::Here })
}

impl Course {
    /// Makes the call there. None: it is to be made here.
    pub(super) fn there(&mut self, request: &mut Request) -> Option<isize> {
        if self.place == Place::Here {
            let why = if self.guarded { Count::Guarded } else { Count::Predicted };
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
            Some(Outcome::Done(_)) => Count::There,
            Some(Outcome::Repeat) => Count::Repeated,
            Some(Outcome::Busy) => Count::Busy,
            Some(Outcome::Stranger) | None => Count::Kept,
        };
        thread::count(self.call, count, 1);
        if let Some(Outcome::Done(answer)) = outcome {
            self.process.went();
            self.progressed(answer);
            self.learn(Place::There);
            return Some(answer);
        }
        // An attempt that has to be repeated here is time that the call takes there. The others cost next to nothing,
        // and say nothing of a call here.
        if !matches!(outcome, Some(Outcome::Repeat)) {
            self.begun = None;
        }
        None
    }

    fn go(&self, state: &mut State, request: &mut Request) -> Outcome {
        // The child of a vfork shares this memory, but not the parent's files.
        if state.tid != kernel::tid() {
            return Outcome::Stranger;
        }
        let Some((place, core)) = self.choose(state) else { return Outcome::Busy };
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
            Some(answer) => Outcome::Done(answer),
            None => Outcome::Repeat,
        }
    }

    /// The OS core by the policy, and its place among them.
    fn choose(&self, state: &mut State) -> Option<(usize, usize)> {
        let Process { cores, board, wishes, .. } = self.process;
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
        let view = View { os, app: CoreSet::EMPTY, busy, source, source_idles: true };
        let Choice::Switch(core) = select_os_core(flags, &view, &mut state.memory) else {
            return None;
        };
        cores.iter().position(|&other| other == core).map(|place| (place, core))
    }

    /// The call was made here, with this answer.
    pub(super) fn here(&mut self, answer: isize) {
        self.progressed(answer);
        self.learn(self.place);
    }

    fn progressed(&self, answer: isize) {
        if self.call.has_size() && answer > 0 {
            self.process.progressed(answer as u64);
        }
    }

    fn learn(&mut self, place: Place) {
        let Some(begun) = self.begun.take() else { return };
        let ticks = kernel::ticks().saturating_sub(begun);
        let (timed, sum) = match place {
            Place::Here => (Count::TimedHere, Count::TicksHere),
            Place::There => (Count::TimedThere, Count::TicksThere),
        };
        thread::count(self.call, timed, 1);
        thread::count(self.call, sum, ticks);
        if self.process.wishes.decision == Decision::Predicted
            && let Some(state) = thread::state(self.process)
        {
            state.predictor.learn(self.call, self.size, place, ticks);
        }
    }
}

/// The thread's `errno`, as it was: waiting for a partner and starting one change it.
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

enum Outcome {
    Done(isize),
    Repeat,
    Busy,
    Stranger,
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}
