// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of gangs: one for each thread of a run.

use crate::kinds::Text;
use crate::kinds::column::row;
use crate::workload::gang::{Placing, Sharing};

row! {
    /// One thread of a gang of `shared-data`, from the end of its warm-up to its own end.
    SharedData, "shared_data" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The gang of the plan, counted from 0.
        gang: u64,
        /// The run of that gang, counted from 0.
        run: u64,
        /// The thread of the gang, counted from 0.
        member: u64,
        /// The program that the gang runs.
        program: Text,
        /// The size of the program's data: items, points, lines that are handed over, or which Fibonacci number.
        items: u64,
        /// Its other parameters.
        parameters: Text,
        /// Kind of sharing between the threads.
        sharing: Sharing,
        /// The placement of its threads.
        placing: Placing,
        /// The number of rounds of each thread.
        rounds: u64,
        /// The CPU of this thread, at first.
        cpu: u64,
        /// The package of that CPU, counted from 0.
        package: u64,
        /// Its duration, in nanoseconds.
        time_ns: f64,
        /// The instructions it executed, those of waiting among them, where counted.
        instructions: Option<u64>,
        /// Its loads.
        loads: Option<u64>,
        /// Its stores, locked instructions among them.
        stores: Option<u64>,
        /// Its misses in the last level of cache.
        llc_misses: Option<u64>,
        /// Those to which another package answered that it has the line.
        snoop_hits: Option<u64>,
        /// Of these, lines that were modified there.
        snoop_hits_modified: Option<u64>,
        /// Copies of lines elsewhere that its stores invalidated.
        invalidations: Option<u64>,
        /// Lines written to memory because of its accesses.
        write_backs: Option<u64>,
        /// The number of times that another thread took its CPU, where counted.
        preempted: Option<u64>,
        /// The replicate, counted from 0, on a machine that others disturb.
        replicate: Option<u64>,
        /// A line exchange of two CPUs of the gang before the run, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The same after the run, in nanoseconds.
        exchange_after_ns: Option<f64>,
        /// The CPU on which it ended, where the plan moves it.
        moved_to: Option<u64>,
    }
}
