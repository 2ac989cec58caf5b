// SPDX-License-Identifier: MIT OR Apache-2.0
//! The partner: a thread on the other core that executes calls, and how it waits for them.

use std::ffi::c_void;

use crate::budget::SpinBudget;
use crate::lane::{ASLEEP, Lane, LaneConsumer, PostedCall};
use crate::leash::Leash;
use crate::mechanism::Mechanism;
use crate::sys::{self, ForkSentinel};
use crate::uring::Exchanger;

/// The largest number of outstanding calls.
pub(crate) const SLOTS: usize = 64;

/// A function that can run on another core; it takes a pointer and returns a word.
pub type Function = unsafe extern "C" fn(*mut c_void) -> u64;

/// The longest time between two checks whether a partner must end, in nanoseconds. Wake-ups do not depend on these
/// checks.
const LONGEST_SLEEP: u64 = 1_000_000_000;

/// The number of mailbox checks before the clock is read, about a microsecond or two and longer than an empty call.
pub(crate) const GLANCES: u32 = 64;

/// The state of a partner's thread.
pub(crate) struct Partner<'a> {
    pub(crate) lane: &'a Lane<SLOTS>,
    pub(crate) calls: LaneConsumer<'a, SLOTS>,
    pub(crate) mechanism: Mechanism,
    pub(crate) budget: SpinBudget,
    /// The spin limit, in nanoseconds.
    pub(crate) limit: u64,
    pub(crate) exchanger: Option<Exchanger>,
    pub(crate) leash: Option<&'static Leash>,
    pub(crate) witness: &'a ForkSentinel,
}

impl Partner<'_> {
    /// Executes calls until the lane is closed or the leash is pulled, and no call is posted.
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

    /// Whether the leash is pulled, which does not close the lane.
    #[inline]
    fn is_pulled(&self) -> bool {
        self.leash.is_some_and(Leash::is_pulled)
    }

    /// Whether the partner must end once no call is posted.
    #[inline]
    fn ends(&self) -> bool {
        self.lane.closing() || self.is_pulled()
    }

    /// Whether a call has been posted, or this thread must end.
    #[inline]
    fn news(&self) -> bool {
        self.calls.news() || self.is_pulled()
    }

    /// Wakes a sleeping caller. With an exchanger, the wake-up is combined with this thread's own sleep if that
    /// follows immediately.
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

    /// Waits for a call, or for a request to end.
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

    /// Polls for at most `nanoseconds`. Returns true if there is news.
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

    /// Sleeps until there is news. A thread that is woken without news was woken in advance, so it spins again.
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

    /// Polls until there is news, and yields the core between budgets.
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
/// The call's function must be safe to run with its argument, now and on this thread.
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
