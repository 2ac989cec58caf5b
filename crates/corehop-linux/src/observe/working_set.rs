// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the working set of an unknown program: the pages that it touches within some time.
//!
//! `clear_refs` makes the kernel forget which pages of a process were touched, and `smaps_rollup` later reports the
//! pages touched since then (proc(5)). Both files make the kernel walk the page tables, and the process must refill
//! its TLB, so sampling slows the process down a little. A touched page counts as a whole.

use std::time::{Duration, Instant};

use super::follower::AbsenceFollower;
use corehop_system::proc::{ProcEntry, Status};

/// The time for which touched pages are counted, a typical preemption length.
pub const WINDOW: Duration = Duration::from_millis(10);

/// The time between two samples.
const EVERY: Duration = Duration::from_millis(250);

/// The largest number of processes sampled at a time, the newest first.
const MOST: usize = 8;

/// Takes samples of the memory that the processes of the followed threads touch.
#[derive(Debug)]
pub(super) struct WorkingSetSampler {
    next: Instant,
    /// The samples in bytes. Processes that touched nothing are left out, because they did not run.
    pub(super) samples: Vec<u64>,
}

impl WorkingSetSampler {
    pub(super) fn begin() -> Self {
        Self { next: Instant::now() + EVERY / 4, samples: Vec::new() }
    }

    /// Takes a sample of each followed process when the next sample is due, which takes [`WINDOW`].
    pub(super) fn look(&mut self, follower: &AbsenceFollower) {
        if Instant::now() < self.next {
            return;
        }
        let own = std::process::id();
        let forgotten =
            follower.pids().into_iter().rev().filter(|&pid| pid != 0 && pid != own && forget(pid));
        let asked: Vec<u32> = forgotten.take(MOST).collect();
        std::thread::sleep(WINDOW);
        self.samples.extend(asked.into_iter().filter_map(touched).filter(|&bytes| bytes > 0));
        self.next = Instant::now() + EVERY;
    }
}

/// Makes the kernel forget what a process has touched; returns whether that worked.
pub(crate) fn forget(pid: u32) -> bool {
    ProcEntry::process(pid).write("clear_refs", "1").is_ok()
}

/// Returns the number of bytes in pages that a process has touched since [`forget`].
pub(crate) fn touched(pid: u32) -> Option<u64> {
    referenced(ProcEntry::process(pid).bytes("smaps_rollup").ok()?)
}

fn referenced(rollup: Vec<u8>) -> Option<u64> {
    Status::new(rollup).bytes("Referenced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_by_its_name() {
        let text = "00400000-7ffc1000 ---p 00000000 00:00 0  [rollup]\nRss: 1000 kB\nReferenced:     512 kB\n";
        assert_eq!(referenced(text.into()), Some(512 << 10));
        assert_eq!(referenced("Rss: 4 kB\n".into()), None);
    }

    #[test]
    fn what_a_process_touches_again_and_again_is_found_among_much_that_it_does_not() {
        let pid = std::process::id();
        let memory = vec![1_u8; 64 << 20];
        if !forget(pid) {
            // A kernel without CONFIG_PROC_PAGE_MONITOR.
            assert!(!std::path::Path::new("/proc/self/clear_refs").exists());
            return;
        }
        let part = &memory[..8 << 20];
        let sum: u64 = part.iter().step_by(4096).map(|&byte| u64::from(byte)).sum();
        let found = touched(pid).unwrap();
        assert_eq!(sum, 2_048);
        assert!((8 << 20..48 << 20).contains(&found), "{found}");
    }
}
