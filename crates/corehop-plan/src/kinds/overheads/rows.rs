// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of scheduling overheads: one for each time.

use crate::kinds::column::row;
use crate::kinds::{Overhead, Text, Vantage};

row! {
    /// One time of `overheads`.
    OverheadTime, "overheads" {
        /// The platform of the measurement, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The overhead.
        overhead: Overhead,
        /// The vantage point of the measurement.
        vantage: Vantage,
        /// The number of running tasks.
        task_count: u64,
        /// The CPU that sent the interrupt.
        from_cpu: Option<u64>,
        /// The CPU that received the interrupt.
        to_cpu: Option<u64>,
        /// The time in nanoseconds.
        ns: f64,
        /// The replicate, counted from 0. Times of one replicate share their threads.
        replicate: Option<u64>,
    }
}
