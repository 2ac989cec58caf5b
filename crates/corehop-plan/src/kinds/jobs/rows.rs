// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of scripted jobs: samples, access times, and preemption lengths.

use crate::kinds::column::row;
use crate::kinds::{Cause, Certificate, Renewed, Text};
use crate::platform::MemoryArchitecture;
use crate::workload::{Absence, Event, LineState, Mover, Page, Pattern};

row! {
    /// One sample of `synthetic`, `polluter-sweep`, `conditions` or `schedule-sensitive`.
    Sample, "samples" {
        /// The experiment that took the sample.
        experiment: Text,
        /// The platform of the measurement, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The order of the accesses.
        pattern: Pattern,
        /// The pages that hold the working set.
        page: Page,
        /// The share of word accesses that write.
        write_ratio: f64,
        /// The background load.
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
        /// The cold touch t1 - t0, in nanoseconds.
        cold_ns: f64,
        /// The warm touch t2 - t1, in nanoseconds, disturbed segments cut out.
        warm_ns: f64,
        /// The resumed touch t5 - t4, in nanoseconds, disturbed segments cut out.
        resumed_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The state of the lines before the cold touch.
        cache_state: LineState,
        /// The number of independent chains of accesses.
        chains: u64,
        /// The memory that the preemptor or the polluters walked, or the command of the load; and its CPUs, unless
        /// the load ran on all CPUs. If a preemptor took the CPU under a load: the preemptor's memory, the word
        /// `beside`, and the load's memory.
        polluter: Option<Text>,
        /// The thread or load that had the CPU during the absence.
        preempted_by: Absence,
        /// The task of the job, if a task set ran.
        task: Option<u64>,
        /// The number of tasks, if a task set ran.
        task_count: Option<u64>,
        /// The number of cache lines of the working set.
        lines: u64,
        /// The number of lines certified in the warm and in the resumed touch (the smaller of both).
        lines_certified: u64,
        /// Whether nothing disturbed the row: true exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes of the disturbance.
        disturbed_by: Vec<Cause>,
        /// The causes that segmentation cut out of an otherwise valid warm or resumed touch.
        repaired: Vec<Cause>,
        /// The time cut out, in nanoseconds.
        repaired_ns: f64,
        /// The evidence that nothing disturbed the row.
        certificate: Certificate,
        /// Whether the cold touch was also certified.
        cold_valid: bool,
        /// The distribution of preemption lengths, as in the summary tables.
        preemption_length: Text,
        /// The error bound of `length_ns`, in nanoseconds: the bound of the clocks' offset.
        length_bound_ns: f64,
        /// The method by which the job moved to the other CPU.
        mover: Mover,
        /// The direct cost of the move to the other CPU, in nanoseconds.
        switch_ns: Option<f64>,
        /// The number of lines that the preemptor walked during the absence, as proof that the preemptor ran.
        preemptor_lines: Option<u64>,
        /// The bytes per second that the background load moved during the absence, as proof that the load ran.
        load_bytes_per_s: Option<f64>,
        /// The share of the working set on huge pages.
        huge_share: f64,
        /// The faster of two fixed spins before and after the warm touch, in nanoseconds: a measure of the clock
        /// rate.
        spin_warm_ns: f64,
        /// The faster of two fixed spins before and after the resumed touch, in nanoseconds.
        spin_resumed_ns: f64,
        /// Time stolen by the hypervisor during both touches, by the kernel's account, in nanoseconds.
        steal_ns: u64,
        /// Interrupts served during both touches, if counted.
        interrupts: Option<u64>,
        /// Last-level cache misses of the warm touch, if counted.
        misses_warm: Option<u64>,
        /// Last-level cache misses of the resumed touch, if counted.
        misses_resumed: Option<u64>,
        /// Whether an SMT sibling had a thread to run during either touch, if a sibling exists and its state is
        /// known.
        sibling_busy: Option<bool>,
        /// The user's own job instead of the pattern, as `LIB.so:FUNCTION`.
        workload: Option<Text>,
        /// The NUMA node of the memory, if one was requested.
        node: Option<u64>,
        /// Whether the job had fresh page frames, so that page colours vary.
        fresh_frames: Option<bool>,
        /// The number of context switches on the resumed CPU during the absence, if counted: two for an absence in
        /// which nothing else ran there.
        absence_switches: Option<u64>,
        /// The replicate, counted from 0. Samples of one replicate share the draws of a process at its start (frames,
        /// threads, order). None in files without replicates.
        replicate: Option<u64>,
        /// The other CPU of the line exchanges around the sample's batch.
        exchange_cpu: Option<u64>,
        /// The line-exchange time with that CPU before the batch, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The line-exchange time with that CPU after the batch, in nanoseconds for one way.
        exchange_after_ns: Option<f64>,
        /// The event by the machine's description; `event` is the measured event.
        declared_event: Option<Event>,
        /// The measured class of a migration to `exchange_cpu` at that time.
        pair_class: Option<Event>,
        /// The renewal of the sample's replicate, in `conditions`.
        renewed: Option<Renewed>,
        /// The share of a buffer of the size of the last-level cache (at most 32 MiB) that was still
        /// cached when a probe read it again before the replicate, 0 to 1.
        llc_share: Option<f64>,
    }
}

row! {
    /// One walk of `access-time`.
    AccessTime, "access_time" {
        /// The platform of the measurement, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The working-set size in bytes.
        wss_bytes: u64,
        /// The order of the accesses.
        pattern: Pattern,
        /// The pages that hold the working set.
        page: Page,
        /// The share of word accesses that write.
        write_ratio: f64,
        /// The number of independent chains of accesses.
        chains: u64,
        /// The state of the lines before the walk.
        cache_state: LineState,
        /// The NUMA node of the memory, if one was requested.
        node: Option<u64>,
        /// The CPU of the job.
        cpu: u64,
        /// The start of the job, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The time of the walk in nanoseconds, disturbed segments cut out.
        walk_ns: f64,
        /// The time per access in nanoseconds.
        access_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The number of cache lines of the working set.
        lines: u64,
        /// The number of certified lines.
        lines_certified: u64,
        /// Whether nothing disturbed the row: true exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes of the disturbance.
        disturbed_by: Vec<Cause>,
        /// The causes that segmentation cut out.
        repaired: Vec<Cause>,
        /// The evidence that nothing disturbed the row.
        certificate: Certificate,
        /// The share of the working set on huge pages.
        huge_share: f64,
        /// The replicate, counted from 0. Walks of one replicate share frames and order.
        replicate: Option<u64>,
    }
}

row! {
    /// One absence of `preemption-length`.
    PreemptionLength, "preemption_length" {
        /// The platform of the measurement, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment to which the row belongs, counted from 0.
        cell: u64,
        /// The background load.
        load: Text,
        /// The CPU of the job.
        cpu: u64,
        /// The start of the job, in nanoseconds since the start of the run.
        start_ns: u64,
        /// The requested preemption length, in nanoseconds.
        requested_length_ns: u64,
        /// The actual preemption length, in nanoseconds.
        length_ns: f64,
        /// The scheduling policy and priority of the job.
        policy: Text,
        /// The replicate, counted from 0. Absences of one replicate share their threads.
        replicate: Option<u64>,
    }
}
