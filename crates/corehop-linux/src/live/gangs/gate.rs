// SPDX-License-Identifier: MIT OR Apache-2.0
//! A gate that threads pass together, and the way in which they wait for one another.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use corehop_system::clock::{Ticks, now};

/// The number of times a thread with its own CPU polls before it yields, far more than a hand-over takes.
const LOOKS: u32 = 10_000;

/// A barrier that the threads of a gang pass together.
#[derive(Debug)]
pub(super) struct GangBarrier {
    threads: usize,
    /// The number of polls before a thread yields its CPU.
    looks: u32,
    arrived: AtomicUsize,
    /// The number of times that all threads have passed.
    passed: AtomicUsize,
    /// The time at which the last thread arrived.
    opened: AtomicU64,
    failed: AtomicBool,
}

impl GangBarrier {
    /// Creates a gate for `threads` threads on `cpus` CPUs.
    pub(super) fn new(threads: usize, cpus: usize) -> Self {
        Self {
            threads,
            looks: if cpus < threads { 1 } else { LOOKS },
            arrived: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Waits until all threads of the gang have arrived. Returns the time at which the last thread arrived; `None` if a
    /// thread has given up.
    pub(super) fn pass(&self) -> Option<Ticks> {
        let passed = self.passed.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.opened.store(now(), Ordering::Relaxed);
            self.passed.store(passed + 1, Ordering::Release);
        } else {
            self.until(|| self.passed.load(Ordering::Acquire) != passed)?;
        }
        Some(self.opened.load(Ordering::Relaxed))
    }

    /// Polls until `holds` is true; `None` if a thread has given up.
    #[inline]
    pub(super) fn until(&self, mut holds: impl FnMut() -> bool) -> Option<()> {
        let mut looks = 0;
        while !holds() {
            looks += 1;
            if looks < self.looks {
                std::hint::spin_loop();
                continue;
            }
            looks = 0;
            if self.has_failed() {
                return None;
            }
            std::thread::yield_now();
        }
        Some(())
    }

    /// Releases all waiting threads because one thread has given up.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Whether a thread has given up.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}
