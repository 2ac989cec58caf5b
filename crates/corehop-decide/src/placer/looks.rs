// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records, window by window, the CPUs on which threads ran. Predictions start from these CPUs instead of the CPUs
//! that threads may use.

use std::collections::HashMap;

use corehop_plan::host::Activity;
use corehop_plan::units::Cpu;

/// The number of remembered looks: two seconds of windows of 100 ms.
const KEPT: usize = 20;

/// The state of a thread at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ThreadLook {
    cpu: Cpu,
    /// The number of wake-ups in the window, of and by the thread.
    wakes: u64,
}

/// The last looks at each thread; a look is the state at the end of a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Looks {
    /// The number of looks so far.
    number: usize,
    /// The state of each thread in each look; `None` if the thread did not run before the look, or the host does not
    /// report CPUs.
    of: HashMap<u32, [Option<ThreadLook>; KEPT]>,
}

impl Looks {
    /// Adds the look at the end of a window. Threads that have ended are removed.
    pub(super) fn take(&mut self, activity: &Activity) {
        let at = self.number % KEPT;
        self.number += 1;
        let mut wakes: HashMap<u32, u64> = HashMap::new();
        for it in &activity.contacts {
            *wakes.entry(it.waker).or_default() += it.count;
            *wakes.entry(it.woken).or_default() += it.count;
        }
        let mut of = HashMap::with_capacity(activity.threads.len());
        // Where wake-ups were not counted, they are taken to be as many as before.
        let last = self.number.wrapping_sub(2) % KEPT;
        let counted = activity.counted_ns() > 0;
        for it in &activity.threads {
            let mut looks = self.of.get(&it.tid).copied().unwrap_or_default();
            let before = looks[last].map_or(0, |it| it.wakes);
            let wakes = if counted { wakes.get(&it.tid).copied().unwrap_or(0) } else { before };
            looks[at] = it.cpu.filter(|_| it.busy_ns > 0).map(|cpu| ThreadLook { cpu, wakes });
            of.insert(it.tid, looks);
        }
        self.of = of;
    }

    /// Removes all looks, because threads may now run elsewhere.
    pub(super) fn forget(&mut self) {
        self.of.clear();
    }

    /// The CPUs of these threads in each look before which all of them ran.
    pub(super) fn together(&self, threads: &[u32]) -> Vec<Vec<Cpu>> {
        let looks: Option<Vec<_>> = threads.iter().map(|tid| self.of.get(tid)).collect();
        let Some(looks) = looks else { return Vec::new() };
        let at = |at: usize| looks.iter().map(|it| Some(it[at]?.cpu)).collect();
        (0..KEPT).filter_map(at).collect()
    }

    /// The CPUs of two threads in the looks before which both ran, with the weight of each look: the largest number
    /// of wake-ups that both can have had in common in that window. Threads on two CPUs wake each other more rarely
    /// than on one CPU. With equal weights, the wake-ups at the cheap distance would be charged at the expensive
    /// distance.
    pub(super) fn of(&self, a: u32, b: u32) -> impl Iterator<Item = ([Cpu; 2], f64)> {
        let both = self.of.get(&a).zip(self.of.get(&b));
        let weighed =
            |(a, b): (ThreadLook, ThreadLook)| ([a.cpu, b.cpu], a.wakes.min(b.wakes).max(1) as f64);
        both.into_iter().flat_map(move |(a, b)| {
            a.iter().zip(b).filter_map(move |(a, b)| a.zip(*b).map(weighed))
        })
    }
}
