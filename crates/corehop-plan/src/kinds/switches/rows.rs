// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of core switches: one for each batch.

use crate::kinds::Text;
use crate::kinds::column::row;
use crate::workload::Event;
use crate::workload::switching::{SwitchCall, SwitchMechanism};

row! {
    /// One batch of `core-switch`: calls by one mechanism from one CPU to another.
    SwitchBatch, "switches" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the batch in the run.
        batch: u64,
        /// The cell of the experiment that it is a sample of, counted from 0.
        cell: u64,
        /// The mechanism.
        mechanism: SwitchMechanism,
        /// The CPU of the caller: the application core.
        from_cpu: u64,
        /// The CPU that calls were switched to: the OS core.
        to_cpu: u64,
        /// The call.
        call: SwitchCall,
        /// The bytes that it read or wrote; 0 for a call without a size.
        bytes: u64,
        /// The number of calls outstanding at a time.
        outstanding: u64,
        /// When the batch started, in nanoseconds since the run did.
        start_ns: u64,
        /// The number of calls in the batch.
        calls: u64,
        /// The calls among them that the caller's core carried out, since the other did not take them in time.
        stayed: u64,
        /// The mean time of a call, in nanoseconds; of a batch that was not measured none of the times.
        mean_ns: Option<f64>,
        /// The shortest time of a call, in nanoseconds. Of several outstanding calls: from the begin of a call to
        /// its result.
        least_ns: Option<f64>,
        /// The 10th percentile of the times, in nanoseconds.
        p10_ns: Option<f64>,
        /// The median of the times, in nanoseconds.
        p50_ns: Option<f64>,
        /// The 90th percentile of the times, in nanoseconds.
        p90_ns: Option<f64>,
        /// The 99th percentile of the times, in nanoseconds.
        p99_ns: Option<f64>,
        /// The longest time of a call, in nanoseconds.
        most_ns: Option<f64>,
        /// The number of times that another thread took the caller's CPU meanwhile, where counted.
        preempted: Option<u64>,
        /// Whether every call was carried out where it was meant to be, and the two CPUs kept their distance.
        valid: bool,
        /// The replicate, counted from 0: batches of one share their partner threads.
        replicate: Option<u64>,
        /// A line exchange of the two CPUs before the batch, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The same after the batch, in nanoseconds.
        exchange_after_ns: Option<f64>,
        /// The measured class of a migration between the two CPUs at that time.
        pair_class: Option<Event>,
        /// The reason for which the batch was not measured; none if it was.
        not_measured: Option<Text>,
    }
}
