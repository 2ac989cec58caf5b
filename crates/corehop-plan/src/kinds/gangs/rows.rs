// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of gangs: one for each thread of a run.

use crate::kinds::Text;
use crate::kinds::column::row;
use crate::workload::gang::{Placing, Sharing};

row! {
    /// One thread of a gang of `shared-data`, from the end of its warm-up to its own end.
    SharedData, "shared_data" {
        /// The platform of the measurement, by id.
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
        /// The size of the program's data: items, points, handed-over lines, or the index of the Fibonacci number.
        items: u64,
        /// The other parameters of the program.
        parameters: Text,
        /// Kind of sharing between the threads.
        sharing: Sharing,
        /// The placement of the threads.
        placing: Placing,
        /// The number of rounds of each thread.
        rounds: u64,
        /// The initial CPU of this thread.
        cpu: u64,
        /// The package of that CPU, counted from 0.
        package: u64,
        /// The duration of the run, in nanoseconds.
        time_ns: f64,
        /// The instructions of the thread, including those of waiting, if counted.
        instructions: Option<u64>,
        /// The thread's loads.
        loads: Option<u64>,
        /// The thread's stores, including locked instructions.
        stores: Option<u64>,
        /// The thread's misses in the last-level cache.
        llc_misses: Option<u64>,
        /// The misses for which another package had the line.
        snoop_hits: Option<u64>,
        /// The part of `snoop_hits` whose lines were modified in the other package.
        snoop_hits_modified: Option<u64>,
        /// Copies of lines in other caches that the thread's stores invalidated.
        invalidations: Option<u64>,
        /// Lines written to memory because of the thread's accesses.
        write_backs: Option<u64>,
        /// The number of times that another thread took this thread's CPU, if counted.
        preempted: Option<u64>,
        /// The replicate, counted from 0, on a live machine.
        replicate: Option<u64>,
        /// The line-exchange time of two CPUs of the gang before the run, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The line-exchange time of the two CPUs after the run, in nanoseconds for one way.
        exchange_after_ns: Option<f64>,
        /// The CPU on which the thread ended, if the plan moves the thread.
        moved_to: Option<u64>,
    }
}
