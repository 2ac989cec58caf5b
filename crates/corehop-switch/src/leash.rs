// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of partners from outside their switch: by any thread, and within a signal handler.
//!
//! A partner has the rights that its caller had when the partner began. A caller that gives up rights therefore has to end
//! its partners first, and at places where nothing may be locked or allocated. A leash is a place in static memory with
//! numbers alone: the thread that pulls it reads no memory of the switch, which its owner may be freeing.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::sys;

/// One partner, as all threads of its process see it.
#[derive(Debug, Default)]
pub struct Leash {
    /// The process of the partner. 0: the leash is free.
    process: AtomicI32,
    /// The thread that has the switch.
    owner: AtomicI32,
    /// The partner's thread; 0 before it runs, and [`GONE`] once the kernel has it no more: the number may then be another
    /// thread's.
    partner: AtomicI32,
    /// The address of the word on which the partner sleeps: to wake it, not to read it.
    bell: AtomicUsize,
    /// The partner is to end.
    pulled: AtomicBool,
}

/// In the place of a process while a leash is being taken.
const TAKING: i32 = -1;
/// In the place of the number of a partner that has ended.
const GONE: i32 = -1;
/// The time between two looks at a partner that is ending, in nanoseconds.
const LOOK: u64 = 20_000;

impl Leash {
    /// A leash that no partner has.
    pub const fn new() -> Self {
        Self {
            process: AtomicI32::new(0),
            owner: AtomicI32::new(0),
            partner: AtomicI32::new(0),
            bell: AtomicUsize::new(0),
            pulled: AtomicBool::new(false),
        }
    }

    /// Ends the partners of the calling thread, or of all threads of this process, and waits until the kernel has none of
    /// them: at most so many nanoseconds. True if they are gone.
    ///
    /// A call that a partner has taken is carried out first. A signal handler may use this function, also one that
    /// interrupted the switch. The caller's `errno` changes.
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

    /// In the child of a fork: the partners are the parent's.
    pub fn forget(leashes: &[Self]) {
        leashes.iter().for_each(Self::release);
    }

    /// A free leash for a partner of the calling thread, which sleeps on the word at this address.
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

    /// Gives the leash to another partner; this one is gone.
    pub(crate) fn release(&self) {
        self.process.store(0, Ordering::Release);
    }

    /// Partner: runs.
    pub(crate) fn begin(&self) {
        self.partner.store(sys::thread(), Ordering::Release);
    }

    /// Partner: whether to end.
    #[inline]
    pub(crate) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        // A partner that is about to sleep misses this one: the wait for its end wakes the partner again.
        sys::futex_wake_at(self.bell.load(Ordering::Relaxed));
    }

    /// Whether the partner began, and the kernel has it no more.
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
