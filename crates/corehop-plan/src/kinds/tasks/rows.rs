// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of task sets: one for each job, beside the samples.

use crate::kinds::column::row;
use crate::kinds::{JobOutcome, Text};
use crate::workload::Event;
use crate::workload::scheduler::Scheduler;

row! {
    /// One job of a task set of `schedule-sensitive`.
    TaskJob, "task_jobs" {
        /// The platform it ran on, by id.
        machine: Text,
        /// The scheduler.
        scheduler: Scheduler,
        /// The seed of the plan.
        seed: u64,
        /// The run of the plan, counted from 0: a task set under a load.
        run: u64,
        /// The number of the task set among those drawn alike.
        set: u64,
        /// The background load.
        load: Text,
        /// The task, counted from 0.
        task: u64,
        /// The number of tasks of the set.
        task_count: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The share of word accesses that write.
        write_ratio: f64,
        /// Its number in the task, counted from 0.
        job: u64,
        /// The task's period in nanoseconds.
        period_ns: u64,
        /// The task's relative deadline in nanoseconds.
        deadline_ns: u64,
        /// The intended execution time of the job, in nanoseconds, scaled.
        wcet_ns: u64,
        /// When it was released, in nanoseconds since the run started.
        release_ns: u64,
        /// The time from its release to its first instruction, in nanoseconds.
        latency_ns: f64,
        /// The time from its release to its end, in nanoseconds.
        response_ns: f64,
        /// Its end against its deadline, in nanoseconds: above 0 it missed it, and that is its tardiness.
        lateness_ns: f64,
        /// The time it had a CPU, in nanoseconds.
        executed_ns: u64,
        /// Its course, seen from Fig. 1 of Bastoni et al.
        course: JobOutcome,
        /// The number of times it lost its CPU and had the same one afterwards.
        preemptions: u64,
        /// The number of times it lost its CPU and had another one afterwards.
        migrations: u64,
        /// The event of its first absence; `none` without one.
        event: Event,
        /// The length of its first absence, in nanoseconds.
        length_ns: Option<f64>,
        /// The task that had its CPU first in that absence, where it was one of its set.
        by: Option<u64>,
        /// The factor by which execution times were scaled so that the set fits.
        scale: f64,
    }
}
