// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a recorded program: absences, threads, and runs.

use crate::kinds::column::row;
use crate::kinds::{RowKind, Text};
use crate::workload::Event;

row! {
    /// One absence of a thread of a recorded program: it was preempted, or it resumed on another CPU.
    RecordedAbsence, "absences" {
        /// The platform of the recording, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The thread.
        tid: u64,
        /// The time at which the thread left its CPU, in nanoseconds (CLOCK_MONOTONIC).
        out_ns: u64,
        /// The time at which the thread returned, in nanoseconds; if the return was not recorded, the time of its
        /// next departure.
        in_ns: u64,
        /// The time between `out_ns` and `in_ns`, in nanoseconds.
        length_ns: u64,
        /// Whether the return was recorded; otherwise the length is an upper bound.
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
        /// The run time of the thread before the absence, in nanoseconds; 0 if unknown.
        ran_ns: u64,
        /// The preempting thread.
        by_tid: Option<u64>,
        /// The name of the preempting thread.
        by: Option<Text>,
        /// The run of the program, counted from 0; None in files without runs.
        run: Option<u64>,
        /// The CPU time of the thread from the start of its recording to its departure, in nanoseconds; None in
        /// earlier files.
        cpu_ns: Option<u64>,
    }
}

row! {
    /// The counts of one thread of a recorded program.
    RecordedThread, "threads" {
        /// The platform of the recording, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The thread.
        tid: u64,
        /// The process of the thread.
        pid: u64,
        /// The name of the thread at the end.
        name: Text,
        /// The number of preemptions of the thread.
        preemptions: u64,
        /// The number of times the thread left its CPU because it blocked.
        voluntary: u64,
        /// The number of times the scheduler changed its CPU.
        migrations: u64,
        /// The part of `migrations` that the thread's affinity made necessary.
        affinity_moves: u64,
        /// The number of times the thread resumed on a CPU other than the one it had left.
        cpu_changes: u64,
        /// The number of returns of the thread that were not recorded.
        unseen: u64,
        /// The sum of the thread's preemption lengths, in nanoseconds.
        preempted_ns: u64,
        /// The CPU time of the thread, in nanoseconds.
        cpu_ns: Option<u64>,
        /// The time for which the thread was runnable and waited for a CPU, in nanoseconds.
        waited_ns: Option<u64>,
        /// The time for which the thread had a CPU while other threads of the program waited for the CPU, in
        /// nanoseconds, summed over the waiting threads.
        held_ns: Option<u64>,
        /// The part of the preemptions that were brief and on one CPU; these have no row among the absences.
        brief: Option<u64>,
        /// The sum of the lengths of brief preemptions, in nanoseconds.
        brief_ns: Option<u64>,
        /// The run of the program, counted from 0; None in files without runs.
        run: Option<u64>,
        /// The part of the waiting time in which the CPU quota of a control group stopped the thread, in nanoseconds.
        quota_ns: Option<u64>,
        /// The part of the waiting time in which the thread's SCHED_DEADLINE budget was used up, in nanoseconds.
        budget_ns: Option<u64>,
        /// The part of the waiting time in which the limit on real-time threads stopped the thread, in nanoseconds.
        realtime_ns: Option<u64>,
        /// The time for which the control group had frozen the thread, in nanoseconds; not part of the waiting time.
        frozen_ns: Option<u64>,
        /// The time for which a signal or a debugger had stopped the thread, in nanoseconds; not part of the waiting
        /// time.
        stopped_ns: Option<u64>,
    }
}

row! {
    /// One run of a recorded program.
    RecordedRun, "runs" {
        /// The platform of the recording, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The run, counted from 0.
        run: u64,
        /// The arm of the run: `plain` and `again` are the unchanged command.
        arm: Text,
        /// The block of the run, counted from 0. Runs of one block are compared with each other.
        block: u64,
        /// The start of the recording, in nanoseconds (CLOCK_MONOTONIC).
        began_ns: u64,
        /// The wall time of the run, in nanoseconds.
        wall_ns: u64,
        /// The user and system CPU time of the command and of the children for which it waited, in nanoseconds; None
        /// for a process or cgroup that existed before the recording.
        cpu_ns: Option<u64>,
        /// The time for which the threads were runnable and waited for a CPU, in nanoseconds, if known.
        waited_ns: Option<u64>,
        /// The number of preemptions of the threads.
        preemptions: u64,
        /// The number of times the scheduler changed the CPU of a thread.
        migrations: u64,
        /// The exit code, or 128 plus a signal; None if the end was not recorded.
        status: Option<u64>,
        /// The CPUs on which the threads ran for at least 5 % of their CPU time; None if unknown.
        ran_on: Option<Text>,
        /// The union of the CPUs in the threads' affinity masks during the run; None if unknown.
        allowed: Option<Text>,
        /// The CPUs to which the command of the arm binds the program (`taskset`, `numactl`); None if the command
        /// names none.
        bound_to: Option<Text>,
    }
}

impl RowKind {
    /// The kinds of rows that a recording of a program has, each in a file of its own; the first is what
    /// `-o FILE` names.
    pub const OF_RECORDING: [Self; 3] = [Self::Absences, Self::Threads, Self::Runs];
}
