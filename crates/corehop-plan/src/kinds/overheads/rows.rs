// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of scheduling overheads: one row for each time.

use crate::kinds::column::row;
use crate::kinds::{Overhead, Text, Vantage};

row! {
    /// The row of one measured time of the experiment `overheads`.
    OverheadTime, "overheads" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The kind of scheduling overhead that was measured.
        overhead: Overhead,
        /// The vantage point of the measurement: the kernel's tracepoints, or threads.
        vantage: Vantage,
        /// The number of tasks that ran during the measurement.
        task_count: u64,
        /// The CPU that sent the inter-processor interrupt, for overheads between two CPUs.
        from_cpu: Option<u64>,
        /// The CPU that received the inter-processor interrupt, for overheads between two CPUs.
        to_cpu: Option<u64>,
        /// The measured time of the overhead, in nanoseconds.
        ns: f64,
        /// The replicate of the measurement, counted from 0. Measurements of one replicate share their threads.
        replicate: Option<u64>,
    }
}
