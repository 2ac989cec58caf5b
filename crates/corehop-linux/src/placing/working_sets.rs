// SPDX-License-Identifier: MIT OR Apache-2.0
//! The working sets of processes, in equal shares per thread, so that a cache is not assigned more data than fits.
//!
//! A sample makes the kernel walk the process's page tables and costs the process a part of its TLB. So samples are
//! taken only if there are several caches to choose from, rarely, and of a few busy processes.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use corehop_plan::host::ActiveThread;

use crate::observe::working_set::{self, WINDOW};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(10);
/// The largest number of processes sampled at a time, those with the most CPU time.
const MOST: usize = 8;

/// The last samples of processes' working sets.
#[derive(Debug, Default)]
pub(super) struct ProcessWorkingSets {
    bytes: HashMap<u32, u64>,
    next: Option<Instant>,
}

impl ProcessWorkingSets {
    /// Sets each thread's share of its process's working set; takes new samples over [`WINDOW`] when they are due.
    pub(super) fn take(&mut self, threads: &mut [ActiveThread]) {
        if self.next.is_none_or(|next| Instant::now() >= next) {
            self.look(threads);
            self.next = Some(Instant::now() + EVERY);
        }
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for it in threads.iter() {
            *counts.entry(it.pid).or_default() += 1;
        }
        for it in threads {
            let bytes = self.bytes.get(&it.pid);
            it.working_set = bytes.map(|bytes| bytes / counts[&it.pid]);
        }
    }

    fn look(&mut self, threads: &[ActiveThread]) {
        let mut busy: BTreeMap<u32, u64> = BTreeMap::new();
        for it in threads {
            *busy.entry(it.pid).or_default() += it.busy_ns;
        }
        let mut pids: Vec<u32> = busy.keys().copied().collect();
        pids.sort_by_key(|pid| std::cmp::Reverse(busy[pid]));
        pids.truncate(MOST);
        let asked: Vec<u32> = pids.into_iter().filter(|&it| working_set::forget(it)).collect();
        if asked.is_empty() {
            return;
        }
        std::thread::sleep(WINDOW);
        self.bytes.retain(|pid, _| busy.contains_key(pid));
        self.bytes.extend(asked.into_iter().filter_map(|it| Some((it, working_set::touched(it)?))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_equal_shares_of_what_their_process_touches_and_others_are_not_known() {
        let thread = |tid, pid| ActiveThread { tid, pid, busy_ns: 1, ..ActiveThread::default() };
        let own = std::process::id();
        let mut threads = [thread(1, own), thread(2, own), thread(3, u32::MAX)];
        let mut sets = ProcessWorkingSets::default();
        sets.take(&mut threads);
        let [one, two, other] = threads.map(|it| it.working_set);
        assert_eq!((one, other), (two, None));
        // Where the kernel does not tell, it is not known, and not zero.
        assert!(one.is_none_or(|bytes| bytes > 0), "{one:?}");
    }
}
