// SPDX-License-Identifier: MIT OR Apache-2.0
//! The partner: a thread on the other core that carries calls out, and how it waits for them.

use std::ffi::c_void;

use crate::budget::SpinBudget;
use crate::lane::{ASLEEP, Lane, LaneConsumer, PostedCall};
use crate::leash::Leash;
use crate::mechanism::Mechanism;
use crate::sys::{self, ForkSentinel};
use crate::uring::Exchanger;

/// The calls that may be outstanding at once.
pub(crate) const SLOTS: usize = 64;

/// A function that can run on another core: it gets a pointer and returns a word.
pub type Function = unsafe extern "C" fn(*mut c_void) -> u64;

/// A partner looks at least so often whether it is to end, in nanoseconds. Wake-ups do not depend on it.
const LONGEST_SLEEP: u64 = 1_000_000_000;

/// Looks at the mailbox without asking the clock, about a microsecond or two: longer than an empty call.
pub(crate) const GLANCES: u32 = 64;

/// The state of a partner's thread.
pub(crate) struct Partner<'a> {
    pub(crate) lane: &'a Lane<SLOTS>,
    pub(crate) calls: LaneConsumer<'a, SLOTS>,
    pub(crate) mechanism: Mechanism,
    pub(crate) budget: SpinBudget,
    /// The limit of the budget, in nanoseconds.
    pub(crate) limit: u64,
    pub(crate) exchanger: Option<Exchanger>,
    pub(crate) leash: Option<&'static Leash>,
    pub(crate) witness: &'a ForkSentinel,
}

impl Partner<'_> {
    /// Carries calls out until the lane is closed, or the leash pulled, and nothing is posted.
    pub(crate) fn serve(&mut self) {
        loop {
            if let Some((slot, call)) = self.calls.take() {
                // SAFETY: the caller posted a function and its argument, and they live until the reply.
                let value = unsafe { run(call) };
                if self.witness.forked() {
                    sys::end_child();
                }
                slot.reply(value);
                self.wake_caller();
            } else if self.ends() && !self.calls.posted() {
                return;
            } else {
                self.idle(false);
            }
        }
    }

    /// Whether the leash is pulled: that does not close the lane.
    #[inline]
    fn is_pulled(&self) -> bool {
        self.leash.is_some_and(Leash::is_pulled)
    }

    /// Whether to end once nothing is posted.
    #[inline]
    fn ends(&self) -> bool {
        self.lane.closing() || self.is_pulled()
    }

    /// Whether a call has been posted, or this thread is to end.
    #[inline]
    fn news(&self) -> bool {
        self.calls.news() || self.is_pulled()
    }

    /// Wakes a caller that sleeps. With an exchanger, that waits for this thread's own sleep if that is now.
    #[inline]
    fn wake_caller(&mut self) {
        // A polling caller never sleeps on its doorbell.
        if self.mechanism == Mechanism::Polling || !self.lane.caller.0.ring() {
            return;
        }
        if self.exchanger.is_some() && !self.calls.posted() {
            self.idle(true);
        } else {
            sys::futex_wake(self.lane.caller.0.word());
        }
    }

    /// Waits for a call, or for the end.
    #[inline]
    fn idle(&mut self, wake: bool) {
        if self.mechanism == Mechanism::Polling {
            return self.poll();
        }
        if self.limit > 0 && self.calls.glance(GLANCES) {
            return;
        }
        let begun = sys::now();
        let spun = self.spin(self.budget.now(), begun);
        if !spun {
            self.sleep(wake);
        } else if wake {
            sys::futex_wake(self.lane.caller.0.word());
        }
        self.budget.learn(sys::now() - begun);
    }

    /// Polls for at most so many nanoseconds. True if there is news.
    fn spin(&self, nanoseconds: u64, begun: u64) -> bool {
        if nanoseconds == 0 {
            return self.news();
        }
        loop {
            if self.calls.glance(GLANCES) || self.ends() {
                return true;
            }
            if sys::now() - begun >= nanoseconds {
                return false;
            }
        }
    }

    /// Sleeps until there is news. A thread that is woken without any was woken ahead of need: it spins again.
    fn sleep(&mut self, mut wake: bool) {
        let (lane, caller) = (self.lane, self.lane.caller.0.word());
        let bell = &lane.partner.0;
        while bell.lie_down(|| self.news()) {
            match &mut self.exchanger {
                Some(ring) => {
                    let wake = std::mem::take(&mut wake).then_some(caller);
                    ring.exchange(wake, (bell.word(), ASLEEP), LONGEST_SLEEP);
                }
                None => sys::futex_wait(bell.word(), ASLEEP, LONGEST_SLEEP),
            }
            let woken = !bell.sleeps();
            bell.get_up();
            if self.news() || (woken && self.spin(self.limit, sys::now())) {
                break;
            }
        }
        if wake {
            sys::futex_wake(caller);
        }
    }

    /// Polls until there is news, and offers the core to others between budgets.
    #[inline]
    fn poll(&self) {
        if self.calls.glance(GLANCES) {
            return;
        }
        while !self.spin(self.limit, sys::now()) {
            sys::yield_now();
        }
    }
}

/// Runs a call.
///
/// # Safety
///
/// Its function may be run with its argument, now and on this thread.
#[inline]
pub(crate) unsafe fn run(call: PostedCall) -> u64 {
    // SAFETY: only `post` makes calls, of functions of this type.
    let function: Function = unsafe { std::mem::transmute(call.function) };
    // SAFETY: by the caller.
    unsafe { function(call.argument.cast()) }
}

#[cfg(all(test, not(loom)))]
#[path = "partner_tests.rs"]
mod tests;
