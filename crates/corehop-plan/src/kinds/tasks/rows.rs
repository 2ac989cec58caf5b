// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of task sets: one for each job, beside the samples.

use crate::kinds::column::row;
use crate::kinds::{JobOutcome, Text};
use crate::workload::Event;
use crate::workload::scheduler::Scheduler;

row! {
    /// One job of a task set of `schedule-sensitive`.
    TaskJob, "task_jobs" {
        /// The platform of the run, by id.
        machine: Text,
        /// The scheduler.
        scheduler: Scheduler,
        /// The seed of the plan.
        seed: u64,
        /// The run of the plan, counted from 0: a task set under a load.
        run: u64,
        /// The number of the task set among the sets of the same parameters.
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
        /// The number of the job in the task, counted from 0.
        job: u64,
        /// The task's period in nanoseconds.
        period_ns: u64,
        /// The task's relative deadline in nanoseconds.
        deadline_ns: u64,
        /// The intended execution time of the job, in nanoseconds, scaled.
        wcet_ns: u64,
        /// The release of the job, in nanoseconds since the start of the run.
        release_ns: u64,
        /// The time from the release of the job to its first instruction, in nanoseconds.
        latency_ns: f64,
        /// The time from the release of the job to its end, in nanoseconds.
        response_ns: f64,
        /// The end of the job minus its deadline, in nanoseconds. A value above 0 is the job's tardiness.
        lateness_ns: f64,
        /// The time for which the job had a CPU, in nanoseconds.
        executed_ns: u64,
        /// The course of the job, in terms of Fig. 1 of Bastoni et al.
        course: JobOutcome,
        /// The number of absences after which the job resumed on the same CPU.
        preemptions: u64,
        /// The number of absences after which the job resumed on another CPU.
        migrations: u64,
        /// The event of the job's first absence; `none` without an absence.
        event: Event,
        /// The length of the job's first absence, in nanoseconds.
        length_ns: Option<f64>,
        /// The task that took the CPU first in that absence, if it is a task of the set.
        by: Option<u64>,
        /// The factor by which execution times were scaled so that the set fits.
        scale: f64,
    }
}
