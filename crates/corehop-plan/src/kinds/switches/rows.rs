// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of core switches: one row for each batch.

use crate::kinds::Text;
use crate::kinds::column::row;
use crate::workload::Event;
use crate::workload::switching::{SwitchCall, SwitchMechanism};

row! {
    /// The row of one batch of `core-switch`: calls from one CPU to another with one mechanism.
    SwitchBatch, "switches" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The number of the batch in the run.
        batch: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The mechanism of the core switches in the batch.
        mechanism: SwitchMechanism,
        /// The CPU of the caller: the application core.
        from_cpu: u64,
        /// The CPU that executed the calls: the OS core.
        to_cpu: u64,
        /// The call that the batch executes on the other core.
        call: SwitchCall,
        /// The bytes that the call read or wrote; 0 for a call without a size.
        bytes: u64,
        /// The number of calls that the caller keeps outstanding.
        outstanding: u64,
        /// The start of the batch, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The number of calls in the batch.
        calls: u64,
        /// The calls in the batch that the caller's core executed, because the other core did not take them in time.
        stayed: u64,
        /// The mean time of a call, in nanoseconds; a batch that was not measured has no times.
        mean_ns: Option<f64>,
        /// The shortest time of a call, in nanoseconds. With several outstanding calls, the time of a call lasts from
        /// its start to its result.
        least_ns: Option<f64>,
        /// The 10th percentile of the call times, in nanoseconds.
        p10_ns: Option<f64>,
        /// The median of the call times, in nanoseconds.
        p50_ns: Option<f64>,
        /// The 90th percentile of the call times, in nanoseconds.
        p90_ns: Option<f64>,
        /// The 99th percentile of the call times, in nanoseconds.
        p99_ns: Option<f64>,
        /// The longest time of a call, in nanoseconds.
        most_ns: Option<f64>,
        /// The number of times that another thread took the caller's CPU during the batch, if counted.
        preempted: Option<u64>,
        /// Whether the intended core executed every call, and the two CPUs kept their distance.
        valid: bool,
        /// The replicate of the batch, counted from 0. Batches of one replicate share their partner threads.
        replicate: Option<u64>,
        /// The line-exchange time between `from_cpu` and `to_cpu` before the batch, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The line-exchange time between `from_cpu` and `to_cpu` after the batch, in nanoseconds for one way.
        exchange_after_ns: Option<f64>,
        /// The measured class of a migration between the two CPUs at the time of the batch.
        pair_class: Option<Event>,
        /// The reason why the batch was not measured; absent if the batch was measured.
        not_measured: Option<Text>,
    }
}
