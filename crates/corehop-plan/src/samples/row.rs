// SPDX-License-Identifier: MIT OR Apache-2.0
//! The row types, one per kind of file.

use super::column::{Text, row};
use super::record::{Cause, Certificate};
use super::terms::{JobOutcome, Overhead, Vantage};
use crate::experiment::Renewed;
use crate::platform::MemoryArchitecture;
use crate::workload::gang::{Placing, Sharing};
use crate::workload::scheduler::Scheduler;
use crate::workload::switching::{SwitchCall, SwitchMechanism};
use crate::workload::{Absence, Event, LineState, Mover, Page, Pattern};

/// The version of the row types; a file says which one it was written with.
pub const SCHEMA_VERSION: u32 = 1;

row! {
    /// One sample of `synthetic`, `polluter-sweep`, `conditions` or `schedule-sensitive`.
    Sample, "samples" {
        /// The experiment that took it.
        experiment: Text,
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment that it is a sample of, counted from 0.
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
        /// When the job started, in nanoseconds since the run did.
        start_ns: u64,
        /// The preemption length asked for, in nanoseconds.
        requested_length_ns: u64,
        /// The preemption length t4 - t3, in nanoseconds.
        length_ns: f64,
        /// The cold touch t1 - t0, in nanoseconds.
        cold_ns: f64,
        /// The warm touch t2 - t1, in nanoseconds, disturbed segments cut out.
        warm_ns: f64,
        /// The resumed touch t5 - t4, in nanoseconds, disturbed segments cut out.
        resumed_ns: f64,
        /// The scheduling policy and priority it ran under.
        policy: Text,
        /// The state of the lines before the cold touch.
        cache_state: LineState,
        /// The number of independent chains of accesses.
        chains: u64,
        /// The memory that the preemptor or the polluters walked, or the command of the load; and the CPUs,
        /// unless it ran everywhere.
        polluter: Option<Text>,
        /// The occupant of the CPU during the absence.
        preempted_by: Absence,
        /// The task it belongs to, where a task set ran.
        task: Option<u64>,
        /// The number of tasks, where a task set ran.
        task_count: Option<u64>,
        /// The lines of the working set.
        lines: u64,
        /// The lines certified in both the warm and the resumed touch (the smaller count).
        lines_certified: u64,
        /// Whether nothing disturbed it: exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes that disturbed it.
        disturbed_by: Vec<Cause>,
        /// The causes that segmentation cut out of an otherwise valid warm or resumed touch.
        repaired: Vec<Cause>,
        /// The time cut out, in nanoseconds.
        repaired_ns: f64,
        /// The evidence that nothing disturbed it.
        certificate: Certificate,
        /// Whether the cold touch was certified too.
        cold_valid: bool,
        /// The distribution of preemption lengths, as in the summary tables.
        preemption_length: Text,
        /// The error bound of `length_ns`, in nanoseconds: the bound of the clocks' offset.
        length_bound_ns: f64,
        /// The way the job got to the other CPU.
        mover: Mover,
        /// The direct cost of getting there, in nanoseconds.
        switch_ns: Option<f64>,
        /// The lines that the preemptor walked meanwhile: the proof that it ran.
        preemptor_lines: Option<u64>,
        /// The bytes per second that the background load moved meanwhile: the proof that it ran.
        load_bytes_per_s: Option<f64>,
        /// The share of the working set on huge pages.
        huge_share: f64,
        /// A fixed spin beside the warm touch, before it or after it, whichever was faster, in
        /// nanoseconds: it shows the clock rate.
        spin_warm_ns: f64,
        /// The same spin beside the resumed touch, in nanoseconds.
        spin_resumed_ns: f64,
        /// Time stolen by the hypervisor during both touches, by the kernel's account, in nanoseconds.
        steal_ns: u64,
        /// Interrupts served during both touches, where they can be counted.
        interrupts: Option<u64>,
        /// Last-level cache misses of the warm touch, where they can be counted.
        misses_warm: Option<u64>,
        /// Last-level cache misses of the resumed touch, where they can be counted.
        misses_resumed: Option<u64>,
        /// Whether an SMT sibling had a thread to run during either touch, where there is one and it
        /// can be told.
        sibling_busy: Option<bool>,
        /// The user's own job in place of the pattern, as `LIB.so:FUNCTION`.
        workload: Option<Text>,
        /// The NUMA node of the memory, where one was asked for.
        node: Option<u64>,
        /// Whether the job had fresh page frames, so that page colours vary.
        fresh_frames: Option<bool>,
        /// The number of times the CPU resumed on went from one thread to another during the absence, where
        /// counted: twice for an absence in which nothing else ran there.
        absence_switches: Option<u64>,
        /// The replicate, counted from 0: samples of one share what a process draws when it starts
        /// (frames, threads, order). None in files that know of none.
        replicate: Option<u64>,
        /// The CPU with which lines were exchanged around its batch.
        exchange_cpu: Option<u64>,
        /// A line exchange with that CPU before its batch, in nanoseconds for one way.
        exchange_ns: Option<f64>,
        /// The same after its batch, in nanoseconds.
        exchange_after_ns: Option<f64>,
        /// The event by the machine's description; `event` is the measured one.
        declared_event: Option<Event>,
        /// The measured class of a migration to `exchange_cpu` at that time.
        pair_class: Option<Event>,
        /// The renewal of its replicate, in `conditions`.
        renewed: Option<Renewed>,
        /// The share of a buffer of the size of the last-level cache (at most 32 MiB) that was still
        /// cached when a probe read it again before the replicate, 0 to 1.
        llc_share: Option<f64>,
    }
}

row! {
    /// One walk of `access-time`.
    AccessTime, "access_time" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment that it is a sample of, counted from 0.
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
        /// The NUMA node of the memory, where one was asked for.
        node: Option<u64>,
        /// The CPU it ran on.
        cpu: u64,
        /// When the job started, in nanoseconds since the run did.
        start_ns: u64,
        /// The time of the walk in nanoseconds, disturbed segments cut out.
        walk_ns: f64,
        /// The time per access in nanoseconds.
        access_ns: f64,
        /// The scheduling policy and priority it ran under.
        policy: Text,
        /// The lines of the working set.
        lines: u64,
        /// The lines certified.
        lines_certified: u64,
        /// Whether nothing disturbed it: exactly when `disturbed_by` is empty.
        valid: bool,
        /// The causes that disturbed it.
        disturbed_by: Vec<Cause>,
        /// The causes that segmentation cut out.
        repaired: Vec<Cause>,
        /// The evidence that nothing disturbed it.
        certificate: Certificate,
        /// The share of the working set on huge pages.
        huge_share: f64,
        /// The replicate, counted from 0: walks of one share frames and order.
        replicate: Option<u64>,
    }
}

row! {
    /// One absence of `preemption-length`.
    PreemptionLength, "preemption_length" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the job in the run.
        job: u64,
        /// The cell of the experiment that it is a sample of, counted from 0.
        cell: u64,
        /// The background load.
        load: Text,
        /// The CPU it ran on.
        cpu: u64,
        /// When the job started, in nanoseconds since the run did.
        start_ns: u64,
        /// The preemption length asked for, in nanoseconds.
        requested_length_ns: u64,
        /// The preemption length got, in nanoseconds.
        length_ns: f64,
        /// The scheduling policy and priority it ran under.
        policy: Text,
        /// The replicate, counted from 0: absences of one share their threads.
        replicate: Option<u64>,
    }
}

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
        /// The size of its data: items, points, lines that are handed over, or which Fibonacci number.
        items: u64,
        /// Its other parameters.
        parameters: Text,
        /// The way its threads share their data.
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

row! {
    /// One absence of a thread of a recorded program: it was preempted, or it resumed on another CPU.
    RecordedAbsence, "absences" {
        /// The platform it was recorded on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The thread.
        tid: u64,
        /// When the thread left its CPU, in nanoseconds (CLOCK_MONOTONIC).
        out_ns: u64,
        /// When the thread was back; if that was not seen, when it left the next time.
        in_ns: u64,
        /// The time between the two, in nanoseconds.
        length_ns: u64,
        /// Whether the return was seen; otherwise the length is an upper bound.
        seen: bool,
        /// The CPU that the thread left.
        from_cpu: u64,
        /// The CPU that the thread resumed on.
        to_cpu: u64,
        /// The class of the event: a preemption, or a migration.
        event: Event,
        /// Whether the thread was preempted; otherwise it had blocked.
        preempted: bool,
        /// Whether the thread's affinity made the migration necessary.
        by_affinity: bool,
        /// Running time of the thread before, in nanoseconds; 0 if unknown.
        ran_ns: u64,
        /// The preempting thread.
        by_tid: Option<u64>,
        /// The name of the preempting thread.
        by: Option<Text>,
        /// The run of the program, counted from 0; None in files that know of none.
        run: Option<u64>,
        /// The CPU time of the thread until it left, since it was followed, in nanoseconds; None in earlier files.
        cpu_ns: Option<u64>,
    }
}

row! {
    /// The counts of one thread of a recorded program.
    RecordedThread, "threads" {
        /// The platform it was recorded on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The thread.
        tid: u64,
        /// Its process.
        pid: u64,
        /// Its name at the end.
        name: Text,
        /// The number of its preemptions.
        preemptions: u64,
        /// The number of times it left its CPU because it blocked.
        voluntary: u64,
        /// The number of times the scheduler changed its CPU.
        migrations: u64,
        /// Of these, migrations that its affinity made necessary.
        affinity_moves: u64,
        /// The number of times it resumed on another CPU than the one it had left.
        cpu_changes: u64,
        /// The number of times it resumed unseen.
        unseen: u64,
        /// The sum of its preemption lengths, in nanoseconds.
        preempted_ns: u64,
        /// Its CPU time, in nanoseconds.
        cpu_ns: Option<u64>,
        /// The time it was ready to run and waited for a CPU, in nanoseconds.
        waited_ns: Option<u64>,
        /// The time it had a CPU that other threads of the program waited for, in nanoseconds for each of them.
        held_ns: Option<u64>,
        /// Of its preemptions, brief ones on one CPU, which are not among the absences.
        brief: Option<u64>,
        /// The sum of their lengths, in nanoseconds.
        brief_ns: Option<u64>,
        /// The run of the program, counted from 0; None in files that know of none.
        run: Option<u64>,
        /// Of its waiting, the time in which the CPU quota of a control group kept it off its CPU, in nanoseconds.
        quota_ns: Option<u64>,
        /// Of its waiting, the time in which its budget of SCHED_DEADLINE was used up, in nanoseconds.
        budget_ns: Option<u64>,
        /// Of its waiting, the time in which the limit on real-time threads kept it off its CPU, in nanoseconds.
        realtime_ns: Option<u64>,
        /// The time that it was frozen by its control group, in nanoseconds: no waiting.
        frozen_ns: Option<u64>,
        /// The time that it was stopped by a signal or a debugger, in nanoseconds: no waiting.
        stopped_ns: Option<u64>,
    }
}

row! {
    /// One run of a recorded program.
    RecordedRun, "runs" {
        /// The platform it was recorded on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The run, counted from 0.
        run: u64,
        /// The way it was run: `plain` and `again` are the command as it is.
        arm: Text,
        /// The block it belongs to, counted from 0: runs of one block are compared with each other.
        block: u64,
        /// When the recording began, in nanoseconds (CLOCK_MONOTONIC).
        began_ns: u64,
        /// The wall time of the run, in nanoseconds.
        wall_ns: u64,
        /// The CPU time of the command and of its children that it waited for, user and system, in
        /// nanoseconds; None for a process or cgroup that was there before.
        cpu_ns: Option<u64>,
        /// The time that its threads were ready and waited for a CPU, in nanoseconds, if known.
        waited_ns: Option<u64>,
        /// The number of preemptions of its threads.
        preemptions: u64,
        /// The number of times the scheduler changed the CPU of a thread.
        migrations: u64,
        /// The exit code, or 128 plus a signal; None if the end was not seen.
        status: Option<u64>,
        /// The CPUs that its threads ran on for at least 5 % of their CPU time; None if unknown.
        ran_on: Option<Text>,
        /// The CPUs that its threads were allowed to run on, together, when looked at; None if unknown.
        allowed: Option<Text>,
        /// The CPUs that the words of its arm bind it to (`taskset`, `numactl`); None if they name none.
        bound_to: Option<Text>,
    }
}

row! {
    /// One time of `overheads`.
    OverheadTime, "overheads" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The overhead.
        overhead: Overhead,
        /// The vantage point of the measurement.
        vantage: Vantage,
        /// The number of tasks meanwhile.
        task_count: u64,
        /// The CPU that sent the interrupt.
        from_cpu: Option<u64>,
        /// The CPU that received the interrupt.
        to_cpu: Option<u64>,
        /// The time in nanoseconds.
        ns: f64,
        /// The replicate, counted from 0: times of one share their threads.
        replicate: Option<u64>,
    }
}

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

row! {
    /// One gap of `supply`: a time in which a CPU did not run the thread that watched it. A window without a gap has one row.
    SupplyGap, "supply" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the window in the run.
        window: u64,
        /// The CPU that was watched.
        cpu: u64,
        /// The replicate, counted from 0.
        replicate: Option<u64>,
        /// When the window began, in nanoseconds since the run did.
        start_ns: u64,
        /// The planned length of the window, in nanoseconds.
        asked_ns: u64,
        /// The length that was watched without a break, in nanoseconds: at least the planned one, and more where a gap crossed an
        /// end of the window.
        watched_ns: u64,
        /// The time in the window that was lost in gaps below the threshold, in nanoseconds.
        short_ns: u64,
        /// The number of the gap in the window, counted from 0.
        gap: u64,
        /// When the gap began, in nanoseconds since the window did; none in a window without a gap.
        gap_at_ns: Option<u64>,
        /// The length of the gap in nanoseconds; none in a window without a gap.
        gap_ns: Option<u64>,
        /// Whether the gap had begun before the window did, so that its length is not known, only that it is no shorter.
        cut: bool,
        /// The shortest gap that has a row, in nanoseconds.
        threshold_ns: u64,
        /// The scheduling policy and priority of the thread that watched.
        policy: Text,
    }
}
