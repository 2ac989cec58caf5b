// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends partners from outside their switch: from any thread, and inside a signal handler.
//!
//! A partner has the privileges that its caller had when the partner started. So a caller that drops privileges must
//! first end its partners, even at points where no lock or allocation is allowed. A leash is a place in static memory
//! that contains only numbers. The thread that ends a partner reads no memory of the switch, which its owner may be
//! freeing.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::sys;

/// One partner, as visible to all threads of its process.
#[derive(Debug, Default)]
pub struct Leash {
    /// The process of the partner. 0 means that the leash is free.
    process: AtomicI32,
    /// The thread that owns the switch.
    owner: AtomicI32,
    /// The partner's thread ID: 0 before it runs, and [`GONE`] once the kernel no longer has it, because the ID may
    /// then belong to another thread.
    partner: AtomicI32,
    /// The address of the word on which the partner sleeps, used to wake it and never read.
    bell: AtomicUsize,
    /// Whether the partner must end.
    pulled: AtomicBool,
}

/// The process value while a leash is being taken.
const TAKING: i32 = -1;
/// The partner value after the partner has ended.
const GONE: i32 = -1;
/// The time between two checks of a partner that is ending, in nanoseconds.
const LOOK: u64 = 20_000;

impl Leash {
    /// Creates a leash without a partner.
    pub const fn new() -> Self {
        Self {
            process: AtomicI32::new(0),
            owner: AtomicI32::new(0),
            partner: AtomicI32::new(0),
            bell: AtomicUsize::new(0),
            pulled: AtomicBool::new(false),
        }
    }

    /// Ends the partners of the calling thread, or of all threads in this process, and waits for at most
    /// `nanoseconds` until the kernel has none of them. Returns true if all these partners are gone.
    ///
    /// A call that a partner has taken is completed first. A signal handler may use this function, even one that
    /// interrupted the switch. The caller's `errno` may change.
    pub fn end(leashes: &[Self], all: bool, nanoseconds: u64) -> bool {
        let (process, caller) = (sys::process(), sys::thread());
        let concerned = |leash: &Self| {
            leash.process.load(Ordering::SeqCst) == process
                && (all || leash.owner.load(Ordering::Relaxed) == caller)
        };
        leashes.iter().filter(|&leash| concerned(leash)).for_each(Self::pull);
        let deadline = sys::now().saturating_add(nanoseconds);
        leashes.iter().filter(|&leash| concerned(leash)).all(|leash| {
            while concerned(leash) && !leash.is_over() {
                if sys::now() >= deadline {
                    return false;
                }
                leash.pull();
                sys::pause(LOOK);
            }
            true
        })
    }

    /// Frees all leashes in the child of a fork, because the partners belong to the parent.
    pub fn forget(leashes: &[Self]) {
        leashes.iter().for_each(Self::release);
    }

    /// Takes a free leash for a partner of the calling thread; the partner sleeps on the word at the address `bell`.
    pub(crate) fn take(leashes: &'static [Self], bell: usize) -> Option<&'static Self> {
        let leash = leashes.iter().find(|leash| {
            let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
            leash.process.compare_exchange(0, TAKING, yes, no).is_ok()
        })?;
        leash.owner.store(sys::thread(), Ordering::Relaxed);
        leash.partner.store(0, Ordering::Relaxed);
        leash.bell.store(bell, Ordering::Relaxed);
        leash.pulled.store(false, Ordering::Relaxed);
        leash.process.store(sys::process(), Ordering::SeqCst);
        Some(leash)
    }

    /// Frees the leash for another partner, because this partner is gone.
    pub(crate) fn release(&self) {
        self.process.store(0, Ordering::Release);
    }

    /// Records that the partner runs; for the partner.
    pub(crate) fn begin(&self) {
        self.partner.store(sys::thread(), Ordering::Release);
    }

    /// Whether the partner must end; for the partner.
    #[inline]
    pub(crate) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        // A partner that is about to sleep misses this one: the wait for its end wakes the partner again.
        sys::futex_wake_at(self.bell.load(Ordering::Relaxed));
    }

    /// Whether the partner began, and the kernel no longer has its thread.
    fn is_over(&self) -> bool {
        let partner = self.partner.load(Ordering::Acquire);
        if partner > 0 && sys::is_gone(partner) {
            // Another partner may have taken the leash meanwhile.
            let _taken =
                self.partner.compare_exchange(partner, GONE, Ordering::AcqRel, Ordering::Relaxed);
            return true;
        }
        partner == GONE
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use super::Leash;
    use crate::{Mechanism, Options, Switch, policy::CoreSet};

    fn switch(leashes: &'static [Leash], mechanism: Mechanism) -> Option<Switch> {
        let cores = crate::sys::affinity().unwrap();
        let last = cores.iter().last().filter(|_| cores.len() > 1)?;
        let (os_cores, mechanism) = (CoreSet::of(&[last]), Some(mechanism));
        Some(Switch::open(&Options { os_cores, mechanism, leashes, ..Options::default() }))
    }

    unsafe extern "C" fn number(_: *mut std::ffi::c_void) -> u64 {
        crate::sys::thread() as u64
    }

    unsafe extern "C" fn waits(word: *mut std::ffi::c_void) -> u64 {
        // SAFETY: the test passes a word that outlives the call.
        let word = unsafe { &*word.cast::<AtomicU32>() };
        while word.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        7
    }

    #[test]
    fn partners_end_within_the_call_and_later_functions_run_on_the_caller() {
        static LEASHES: [Leash; 2] = [const { Leash::new() }; 2];
        for mechanism in
            [Mechanism::HandOff, Mechanism::Linked, Mechanism::Polling, Mechanism::Adaptive]
        {
            let Some(mut switch) = switch(&LEASHES, mechanism) else { return };
            // SAFETY: the function reads nothing.
            let there = unsafe { switch.call(number, std::ptr::null_mut()) } as i32;
            assert_ne!(there, crate::sys::thread(), "{mechanism}");
            // All of the first 31, but for SIGKILL, SIGSTOP and SIGSYS.
            let status = std::fs::read_to_string(format!("/proc/self/task/{there}/status"));
            assert!(status.unwrap().contains("SigBlk:\tfffffffe3ffbfeff"), "{mechanism}");
            assert!(Leash::end(&LEASHES, false, 10_000_000_000), "{mechanism}");
            assert!(crate::sys::is_gone(there), "{mechanism}");
            // SAFETY: as above.
            let here = unsafe { switch.call(number, std::ptr::null_mut()) } as i32;
            assert_eq!(here, crate::sys::thread(), "{mechanism}");
        }
    }

    #[test]
    fn a_partner_that_is_busy_is_waited_for_as_long_as_was_said_and_ends_after_its_call() {
        static LEASHES: [Leash; 1] = [const { Leash::new() }; 1];
        let Some(mut switch) = switch(&LEASHES, Mechanism::Adaptive) else { return };
        let word = AtomicU32::new(0);
        let begun = Instant::now();
        // SAFETY: the word outlives the call, whose result is taken below.
        let ticket = unsafe { switch.submit(waits, (&raw const word).cast_mut().cast()) }.unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!Leash::end(&LEASHES, true, 30_000_000));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        word.store(1, Ordering::Release);
        assert!(Leash::end(&LEASHES, true, 10_000_000_000));
        assert_eq!(switch.wait(ticket), Ok(7));
    }

    #[test]
    fn a_thread_ends_its_own_partners_and_leaves_those_of_others() {
        static LEASHES: [Leash; 1] = [const { Leash::new() }; 1];
        let Some(mut mine) = switch(&LEASHES, Mechanism::Adaptive) else { return };
        // SAFETY: the function reads nothing.
        let mut number = move || unsafe { mine.call(number, std::ptr::null_mut()) } as i32;
        let partner = number();
        std::thread::spawn(|| assert!(Leash::end(&LEASHES, false, 0))).join().unwrap();
        assert_eq!(number(), partner);
        // No second leash: no second partner.
        assert_eq!(switch(&LEASHES, Mechanism::Adaptive).unwrap().mechanism(), Mechanism::Local);
        std::thread::spawn(|| assert!(Leash::end(&LEASHES, true, 10_000_000_000))).join().unwrap();
        assert!(crate::sys::is_gone(partner));
    }
}
