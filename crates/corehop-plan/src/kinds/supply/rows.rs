// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of watched CPUs: one row for each gap.

use crate::kinds::Text;
use crate::kinds::column::row;

row! {
    /// The row of one gap of `supply`: a time in which a CPU did not run the thread that watched it. A window without a
    /// gap has one row.
    SupplyGap, "supply" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the observation window in the run.
        window: u64,
        /// The CPU that corehop watched.
        cpu: u64,
        /// The replicate of the window, counted from 0.
        replicate: Option<u64>,
        /// The start of the window, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The planned length of the observation window, in nanoseconds.
        asked_ns: u64,
        /// The actual length of the observation window, in nanoseconds: the planned length, or more if a gap crossed an
        /// end of the window.
        watched_ns: u64,
        /// The time that the window lost in gaps below the threshold, in nanoseconds.
        short_ns: u64,
        /// The index of the gap in the window, counted from 0.
        gap: u64,
        /// The start of the gap, in nanoseconds since the start of the window; absent in a window without a gap.
        gap_at_ns: Option<u64>,
        /// The length of the gap, in nanoseconds; absent in a window without a gap.
        gap_ns: Option<u64>,
        /// Whether the gap began before the window, so that its length is only a lower bound.
        cut: bool,
        /// The shortest length of a gap that gets its own row, in nanoseconds.
        threshold_ns: u64,
        /// The scheduling policy and priority of the watching thread.
        policy: Text,
    }
}
