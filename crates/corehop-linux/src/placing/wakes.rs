// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups, the evidence that is available wherever BPF is.
//!
//! While wake-ups are counted, each wake-up on the host costs some tens of nanoseconds. The pairs of threads that
//! wake each other change rarely. So after the first two seconds only one window in twenty is counted, and a few
//! consecutive windows when a new thread runs. In the other windows the BPF programs are not attached and cost
//! nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corehop_plan::host::{Activity, Contact, Evidence};

use super::sources::{EvidenceSource, Off};
use crate::bpf::BpfError;
use crate::bpf::sharing::{WakeGraph, WakeUpAttachment};

/// The number of first windows, all of which are counted.
const FIRST: u64 = 20;
/// After the first windows, one window in this many is counted.
const EVERY: u64 = 20;
/// The number of windows that are counted when a new thread runs, at most once in [`EVERY`] windows.
const FRESH: u64 = 5;

/// The kernel's counts of wake-ups, and their values at the last look.
#[derive(Debug)]
pub(super) struct Wakes {
    graph: Arc<WakeGraph>,
    counts: HashMap<(u32, u32), u64>,
    /// The attachment; `None` in a window that is not counted.
    counted: Option<WakeUpAttachment>,
    turns: WakeWindows,
}

/// The schedule of counted windows.
#[derive(Debug, Default)]
struct WakeWindows {
    window: u64,
    /// The windows before this number are counted.
    fresh: u64,
    known: HashSet<u32>,
}

impl WakeWindows {
    /// Whether the next window is counted, after a window with these threads.
    fn next(&mut self, window: &Activity) -> bool {
        self.window += 1;
        let busy = window.threads.iter().filter(|it| it.busy_ns > 0).map(|it| it.tid);
        let busy: HashSet<u32> = busy.collect();
        if !busy.is_subset(&self.known) && self.window >= self.fresh + EVERY {
            self.fresh = self.window + FRESH;
        }
        let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
        self.known.retain(|tid| alive.contains(tid));
        self.known.extend(busy);
        self.window < FIRST || self.window < self.fresh || self.window.is_multiple_of(EVERY)
    }
}

impl Wakes {
    /// Starts counting wake-ups.
    pub(super) fn begin(graph: Arc<WakeGraph>) -> Result<Self, BpfError> {
        let counted = Some(graph.count_wakes()?);
        Ok(Self { graph, counts: HashMap::new(), counted, turns: WakeWindows::default() })
    }

    /// The wake-ups since the counts were last read.
    fn read(&mut self, window: &mut Activity) -> Result<(), Off> {
        let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
        let mut ended = HashSet::new();
        for it in self.graph.wakes()? {
            let pair = (it.waker, it.woken);
            ended.extend([it.waker, it.woken].into_iter().filter(|tid| !alive.contains(tid)));
            let before = self.counts.insert(pair, it.count).unwrap_or(0);
            // A pair that was forgotten meanwhile begins anew.
            let count = it.count.checked_sub(before).unwrap_or(it.count);
            if count > 0 {
                window.contacts.push(Contact { count, ..it });
            }
        }
        if !ended.is_empty() {
            self.graph.forget(&ended);
            self.counts.retain(|(a, b), _| !ended.contains(a) && !ended.contains(b));
        }
        Ok(())
    }
}

impl EvidenceSource for Wakes {
    fn evidence(&self) -> Evidence {
        Evidence::Wakes
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        if self.counted.is_some() {
            return self.read(window);
        }
        window.counted_ns = Some(0);
        Ok(())
    }

    fn prepare(&mut self, window: &Activity) -> Result<(), Off> {
        match (self.turns.next(window), self.counted.is_some()) {
            (true, false) => {
                let begun = self.graph.count_wakes();
                self.counted = Some(begun.map_err(|error| Off::Kernel(Arc::new(error)))?);
            }
            (false, true) => self.counted = None,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use corehop_plan::host::ActiveThread;

    use super::*;

    /// The counted windows among `windows`, if a new thread runs from window `begun` on.
    fn counted(windows: u64, begun: u64) -> Vec<u64> {
        let mut turns = WakeWindows::default();
        let of = |at: u64| {
            let tids = if at < begun { 1..=2 } else { 1..=3 };
            let thread = |tid| ActiveThread { tid, busy_ns: 1, ..ActiveThread::default() };
            Activity { threads: tids.map(thread).collect(), ..Activity::default() }
        };
        (0..windows).filter(|&at| turns.next(&of(at))).map(|at| at + 1).collect()
    }

    #[test]
    fn after_two_seconds_one_window_in_twenty_is_counted() {
        let first: Vec<u64> = (1..20).collect();
        assert_eq!(counted(100, 1000), [first, vec![20, 40, 60, 80, 100]].concat());
    }

    #[test]
    fn a_new_thread_that_is_at_work_is_counted_for_some_windows_and_not_for_ever() {
        let windows = counted(100, 50);
        assert!((51..56).all(|at| windows.contains(&at)), "{windows:?}");
        let mut turns = WakeWindows::default();
        let always_new = |at: u32| Activity {
            threads: vec![ActiveThread { tid: at, busy_ns: 1, ..ActiveThread::default() }],
            ..Activity::default()
        };
        let counted = (0..1000).filter(|&at| turns.next(&always_new(at))).count();
        assert!((150..300).contains(&counted), "{counted}");
    }
}
