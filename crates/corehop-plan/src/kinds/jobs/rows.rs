// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of scripted jobs: samples, access times, and preemption lengths.

use crate::kinds::column::row;
use crate::kinds::{Cause, Certificate, Renewed, Text};
use crate::platform::MemoryArchitecture;
use crate::workload::{Absence, Event, LineState, Mover, Page, Pattern};

row! {
    /// The row of one sample of `synthetic`, `polluter-sweep`, `conditions` or `schedule-sensitive`.
    Sample, "samples" {
        /// The experiment that took the sample.
        experiment: Text,
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the job in the run, counted from 0.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The order in which the job accesses the working set.
        pattern: Pattern,
        /// The kind of memory pages that hold the working set.
        page: Page,
        /// The share of the job's word accesses that write, 0 to 1.
        write_ratio: f64,
        /// The background load that ran beside the measurement.
        load: Text,
        /// The event between the warm and the resumed touch.
        event: Event,
        /// Whether the machine's memory is uniform, has nodes, or belongs to a single socket.
        memory_architecture: MemoryArchitecture,
        /// The CPU of the cold and the warm touch.
        from_cpu: u64,
        /// The CPU of the resumed touch.
        to_cpu: u64,
        /// The start of the job, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The requested preemption length, in nanoseconds.
        requested_length_ns: u64,
        /// The preemption length t4 - t3, in nanoseconds.
        length_ns: f64,
        /// The duration of the cold touch, t1 - t0, in nanoseconds.
        cold_ns: f64,
        /// The duration of the warm touch, t2 - t1, in nanoseconds, estimated from the undisturbed segments.
        warm_ns: f64,
        /// The duration of the resumed touch, t5 - t4, in nanoseconds, estimated from the undisturbed segments.
        resumed_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The cache state of the working set's lines before the cold touch.
        cache_state: LineState,
        /// The number of independent chains in which the job accesses the working set.
        chains: u64,
        /// The memory that the preemptor or the polluters walked, or the command of the load, with the load's CPUs
        /// unless the load ran on all CPUs. If a preemptor took the CPU under a load, the text has the preemptor's
        /// memory, the word `beside`, and the load's memory.
        polluter: Option<Text>,
        /// The thread or load that had the CPU during the absence.
        preempted_by: Absence,
        /// The index of the job's task in the task set, if a task set ran.
        task: Option<u64>,
        /// The number of tasks in the task set, if a task set ran.
        task_count: Option<u64>,
        /// The number of cache lines of the working set.
        lines: u64,
        /// The smaller of two numbers: the lines certified in the warm touch, and the lines certified in the resumed
        /// touch.
        lines_certified: u64,
        /// Whether nothing disturbed the row: true exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes that disturbed the measurement; empty for a valid row.
        disturbed_by: Vec<Cause>,
        /// The causes of the disturbed segments that corehop cut out of an otherwise valid warm or resumed touch.
        repaired: Vec<Cause>,
        /// The duration of the disturbed segments that corehop cut out of both touches, in nanoseconds.
        repaired_ns: f64,
        /// The evidence that nothing disturbed the row.
        certificate: Certificate,
        /// Whether corehop also certified the cold touch.
        cold_valid: bool,
        /// The distribution from which the experiment draws preemption lengths, as in the summary tables.
        preemption_length: Text,
        /// The error bound of `length_ns`, in nanoseconds: the largest possible offset between the clocks of the two
        /// CPUs; 0 on one CPU.
        length_bound_ns: f64,
        /// The method by which the job moved to the other CPU.
        mover: Mover,
        /// The direct cost of moving the job to the other CPU, in nanoseconds.
        switch_ns: Option<f64>,
        /// The number of lines that the preemptor walked during the absence, as proof that the preemptor ran.
        preemptor_lines: Option<u64>,
        /// The bytes per second that the background load moved during the absence, as proof that the load ran.
        load_bytes_per_s: Option<f64>,
        /// The share of the working set that huge pages hold, 0 to 1.
        huge_share: f64,
        /// The shorter time of two fixed spins before and after the warm touch, in nanoseconds: a measure of the core's
        /// clock rate.
        spin_warm_ns: f64,
        /// The shorter time of two fixed spins before and after the resumed touch, in nanoseconds: a measure of the
        /// core's clock rate.
        spin_resumed_ns: f64,
        /// The time that the hypervisor stole during both touches, by the kernel's account, in nanoseconds.
        steal_ns: u64,
        /// The number of interrupts that the CPU served during both touches, if counted.
        interrupts: Option<u64>,
        /// The number of last-level cache misses of the warm touch, if counted.
        misses_warm: Option<u64>,
        /// The number of last-level cache misses of the resumed touch, if counted.
        misses_resumed: Option<u64>,
        /// Whether an SMT sibling had a thread to run during either touch, if a sibling exists and its state is
        /// known.
        sibling_busy: Option<bool>,
        /// The user's own job that ran instead of a built-in pattern, as `LIB.so:FUNCTION`.
        workload: Option<Text>,
        /// The NUMA node of the working set's memory, if a node was requested.
        node: Option<u64>,
        /// Whether the job had fresh page frames, so that page colours vary.
        fresh_frames: Option<bool>,
        /// The number of context switches on `to_cpu` during the absence, if counted; two switches mean that no other
        /// thread ran on `to_cpu`.
        absence_switches: Option<u64>,
        /// The replicate of the sample, counted from 0. Samples of one replicate share page frames, threads and access
        /// order. The value is absent in files without replicates.
        replicate: Option<u64>,
        /// The other CPU of the line exchanges around the sample's batch.
        exchange_cpu: Option<u64>,
        /// The line-exchange time with `exchange_cpu` before the batch, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The line-exchange time with `exchange_cpu` after the batch, in nanoseconds for one way.
        exchange_after_ns: Option<f64>,
        /// The event according to the machine's description; the column `event` has the measured event.
        declared_event: Option<Event>,
        /// The measured class of a migration to `exchange_cpu` at the time of the sample.
        pair_class: Option<Event>,
        /// The condition that corehop renewed for the sample's replicate, in the experiment `conditions`.
        renewed: Option<Renewed>,
        /// The share of a buffer of the size of the last-level cache (at most 32 MiB) that was still
        /// cached when a probe read it again before the replicate, 0 to 1.
        llc_share: Option<f64>,
    }
}

row! {
    /// The row of one walk of `access-time`.
    AccessTime, "access_time" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the job in the run, counted from 0.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The order in which the job accesses the working set.
        pattern: Pattern,
        /// The kind of memory pages that hold the working set.
        page: Page,
        /// The share of the job's word accesses that write, 0 to 1.
        write_ratio: f64,
        /// The number of independent chains in which the job accesses the working set.
        chains: u64,
        /// The cache state of the working set's lines before the walk.
        cache_state: LineState,
        /// The NUMA node of the working set's memory, if a node was requested.
        node: Option<u64>,
        /// The CPU on which the job ran.
        cpu: u64,
        /// The start of the job, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The duration of the walk, in nanoseconds, estimated from the undisturbed segments.
        walk_ns: f64,
        /// The average time per access of the walk, in nanoseconds.
        access_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The number of cache lines of the working set.
        lines: u64,
        /// The number of lines of the working set that corehop certified.
        lines_certified: u64,
        /// Whether nothing disturbed the row: true exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes that disturbed the measurement; empty for a valid row.
        disturbed_by: Vec<Cause>,
        /// The causes of the disturbed segments that corehop cut out of the walk.
        repaired: Vec<Cause>,
        /// The evidence that nothing disturbed the row.
        certificate: Certificate,
        /// The share of the working set that huge pages hold, 0 to 1.
        huge_share: f64,
        /// The replicate of the walk, counted from 0. Walks of one replicate share page frames and access order.
        replicate: Option<u64>,
    }
}

row! {
    /// The row of one absence of `preemption-length`.
    PreemptionLength, "preemption_length" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the job in the run, counted from 0.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The background load that ran beside the measurement.
        load: Text,
        /// The CPU on which the job ran.
        cpu: u64,
        /// The start of the job, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The requested preemption length, in nanoseconds.
        requested_length_ns: u64,
        /// The measured preemption length, in nanoseconds.
        length_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The replicate of the absence, counted from 0. Absences of one replicate share their threads.
        replicate: Option<u64>,
    }
}
