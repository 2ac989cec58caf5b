// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes, other than another thread, that keep a runnable thread off its CPU.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The kernel's reason for not running a runnable thread.
    Bar, "a reason for which a thread may not run" {
        /// The thread's control group, or a group above it, has used up its CPU time for the period.
        Quota = "quota",
        /// The thread has used up its SCHED_DEADLINE budget, or has given up the rest of the budget for this period.
        Budget = "deadline_budget",
        /// Real-time threads, or the real-time threads of the control group, have used up their share of the CPU.
        Realtime = "realtime_limit",
        /// The thread's control group is frozen.
        Frozen = "frozen",
        /// A signal or a debugger has stopped the thread.
        Stopped = "stopped",
    }
}

impl Bar {
    /// Returns whether the kernel counts the time of this bar as waiting for a CPU.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Quota | Self::Budget | Self::Realtime)
    }
}

/// The time for which each [`Bar`] kept one or several threads off their CPUs, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Bar, u64>", into = "BTreeMap<Bar, u64>")]
pub struct Bars([u64; Bar::ALL.len()]);

impl Bars {
    /// Makes bars with the given times, in the order of [`Bar::ALL`].
    pub const fn new(ns: [u64; Bar::ALL.len()]) -> Self {
        Self(ns)
    }

    /// Returns the time for which this bar kept threads off their CPUs.
    pub const fn of(&self, bar: Bar) -> u64 {
        self.0[bar as usize]
    }

    /// Returns the bars with a time above 0, sorted from long to short.
    pub fn longest_first(&self) -> Vec<(Bar, u64)> {
        let all = Bar::ALL.iter().map(|&bar| (bar, self.of(bar)));
        let mut all: Vec<(Bar, u64)> = all.filter(|&(_, ns)| ns > 0).collect();
        all.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        all
    }

    /// Returns the sum of the times that the kernel counts as waiting.
    pub fn waiting_ns(&self) -> u64 {
        Bar::ALL.iter().filter(|bar| bar.is_waiting()).map(|&bar| self.of(bar)).sum()
    }

    /// Returns the sums of the times of two threads or runs, bar by bar.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] + other.0[at]))
    }
}

impl From<BTreeMap<Bar, u64>> for Bars {
    fn from(by_name: BTreeMap<Bar, u64>) -> Self {
        let mut bars = Self::default();
        for (bar, ns) in by_name {
            bars.0[bar as usize] = ns;
        }
        bars
    }
}

impl From<Bars> for BTreeMap<Bar, u64> {
    fn from(bars: Bars) -> Self {
        Bar::ALL.iter().map(|&bar| (bar, bars.of(bar))).collect()
    }
}
