// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of task sets: one row for each job, in addition to the samples.

use crate::kinds::column::row;
use crate::kinds::{JobOutcome, Text};
use crate::workload::Event;
use crate::workload::scheduler::Scheduler;

row! {
    /// The row of one job of a task set of `schedule-sensitive`.
    TaskJob, "task_jobs" {
        /// The id of the platform on which the task set ran.
        machine: Text,
        /// The scheduler under which the task set ran.
        scheduler: Scheduler,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the run in the plan, counted from 0. Each run executes one task set under one load.
        run: u64,
        /// The index of the task set among the sets with equal parameters.
        set: u64,
        /// The background load that ran beside the measurement.
        load: Text,
        /// The index of the job's task in the task set, counted from 0.
        task: u64,
        /// The number of tasks in the task set.
        task_count: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The share of the job's word accesses that write, 0 to 1.
        write_ratio: f64,
        /// The index of the job among all jobs of its task, counted from 0.
        job: u64,
        /// The task's period in nanoseconds.
        period_ns: u64,
        /// The task's relative deadline in nanoseconds.
        deadline_ns: u64,
        /// The intended execution time of the job after scaling, in nanoseconds.
        wcet_ns: u64,
        /// The release of the job, in nanoseconds since the start of the run.
        release_ns: u64,
        /// The time from the release of the job to its first instruction, in nanoseconds.
        latency_ns: f64,
        /// The time from the release of the job to its end, in nanoseconds.
        response_ns: f64,
        /// The end of the job minus the job's deadline, in nanoseconds. A positive lateness is the job's tardiness.
        lateness_ns: f64,
        /// The time for which the job had a CPU, in nanoseconds.
        executed_ns: u64,
        /// The outcome of the job: how far the job got in Fig. 1 of Bastoni et al.
        course: JobOutcome,
        /// The number of absences after which the job resumed on the same CPU.
        preemptions: u64,
        /// The number of absences after which the job resumed on another CPU.
        migrations: u64,
        /// The event (a preemption or a class of migration) of the job's first absence; `none` if the job was never
        /// absent.
        event: Event,
        /// The length of the job's first absence, in nanoseconds.
        length_ns: Option<f64>,
        /// The task that took the job's CPU first in the job's first absence, if a task of the set took the CPU.
        by: Option<u64>,
        /// The factor by which corehop scaled all execution times so that the task set fits.
        scale: f64,
    }
}
