// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of watched CPUs: one for each gap.

use crate::kinds::Text;
use crate::kinds::column::row;

row! {
    /// One gap of `supply`: a time in which a CPU did not run the thread that watched it. A window without a gap has one row.
    SupplyGap, "supply" {
        /// The platform of the measurement, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the window in the run.
        window: u64,
        /// The CPU that was watched.
        cpu: u64,
        /// The replicate, counted from 0.
        replicate: Option<u64>,
        /// The start of the window, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The planned length of the window, in nanoseconds.
        asked_ns: u64,
        /// The length of uninterrupted observation, in nanoseconds: at least the planned length, and more if a gap
        /// crossed an end of the window.
        watched_ns: u64,
        /// The time lost in the window in gaps below the threshold, in nanoseconds.
        short_ns: u64,
        /// The number of the gap in the window, counted from 0.
        gap: u64,
        /// The start of the gap, in nanoseconds since the start of the window; none in a window without a gap.
        gap_at_ns: Option<u64>,
        /// The length of the gap in nanoseconds; none in a window without a gap.
        gap_ns: Option<u64>,
        /// Whether the gap began before the window, so that its length is only a lower bound.
        cut: bool,
        /// The shortest gap that has a row, in nanoseconds.
        threshold_ns: u64,
        /// The scheduling policy and priority of the watching thread.
        policy: Text,
    }
}
