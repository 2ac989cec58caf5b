// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of gangs: one row for each thread of a run.

use crate::kinds::Text;
use crate::kinds::column::row;
use crate::workload::gang::{Placing, Sharing};

row! {
    /// The row of one thread of a gang of `shared-data`, from the end of the thread's warm-up to its own end.
    SharedData, "shared_data" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the gang in the plan, counted from 0.
        gang: u64,
        /// The index of the gang's run, counted from 0.
        run: u64,
        /// The index of the thread in the gang, counted from 0.
        member: u64,
        /// The program that the gang runs.
        program: Text,
        /// The size of the program's data: items, points, handed-over lines, or the index of the Fibonacci number.
        items: u64,
        /// The parameters of the gang's program, except the size of its data.
        parameters: Text,
        /// The way in which the gang's threads share data.
        sharing: Sharing,
        /// The placement of the gang's threads on cores.
        placing: Placing,
        /// The number of rounds that each thread of the gang executes.
        rounds: u64,
        /// The initial CPU of this thread.
        cpu: u64,
        /// The package of the thread's initial CPU, counted from 0.
        package: u64,
        /// The duration of the gang's run, in nanoseconds.
        time_ns: f64,
        /// The number of instructions that the thread executed, also while it waited, if counted.
        instructions: Option<u64>,
        /// The number of the thread's loads, if counted.
        loads: Option<u64>,
        /// The number of the thread's stores, including locked instructions, if counted.
        stores: Option<u64>,
        /// The number of the thread's misses in the last-level cache, if counted.
        llc_misses: Option<u64>,
        /// The number of the thread's misses for which another package had the line, if counted.
        snoop_hits: Option<u64>,
        /// The number of misses in `snoop_hits` whose line was modified in the other package.
        snoop_hits_modified: Option<u64>,
        /// The number of copies of lines in other caches that the thread's stores invalidated, if counted.
        invalidations: Option<u64>,
        /// The number of lines that were written to memory because of the thread's accesses, if counted.
        write_backs: Option<u64>,
        /// The number of times that another thread took this thread's CPU, if counted.
        preempted: Option<u64>,
        /// The replicate of the run, counted from 0, if the machine is live.
        replicate: Option<u64>,
        /// The line-exchange time of two CPUs of the gang before the run, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The line-exchange time of the two CPUs of `exchange_ns` after the run, in nanoseconds for one way.
        exchange_after_ns: Option<f64>,
        /// The CPU on which the thread ended, if the plan moves the thread.
        moved_to: Option<u64>,
    }
}
