// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a recorded program: absences, threads, and runs.

use crate::kinds::column::row;
use crate::kinds::{RowKind, Text};
use crate::workload::Event;

row! {
    /// The row of one absence of a thread of a recorded program: the kernel preempted the thread, or the thread
    /// resumed on another CPU.
    RecordedAbsence, "absences" {
        /// The id of the platform on which corehop recorded the program.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The id (tid) of the thread, as the kernel reports it.
        tid: u64,
        /// The time at which the thread left its CPU, in nanoseconds (CLOCK_MONOTONIC).
        out_ns: u64,
        /// The time at which the thread returned to a CPU, in nanoseconds; if the return was not recorded, the time of
        /// the thread's next departure.
        in_ns: u64,
        /// The time between `out_ns` and `in_ns`, in nanoseconds.
        length_ns: u64,
        /// Whether the return was recorded; otherwise the length is an upper bound.
        seen: bool,
        /// The CPU that the thread left.
        from_cpu: u64,
        /// The CPU on which the thread resumed.
        to_cpu: u64,
        /// The event at the end of the absence: a preemption, or a class of migration.
        event: Event,
        /// Whether another thread preempted the thread; if false, the thread had blocked.
        preempted: bool,
        /// Whether the thread's affinity made the migration necessary.
        by_affinity: bool,
        /// The time for which the thread ran before the absence, in nanoseconds; 0 if unknown.
        ran_ns: u64,
        /// The id (tid) of the preempting thread.
        by_tid: Option<u64>,
        /// The name of the preempting thread.
        by: Option<Text>,
        /// The index of the program's run, counted from 0; absent in files without runs.
        run: Option<u64>,
        /// The CPU time of the thread from the start of its recording to its departure, in nanoseconds; absent in files
        /// of earlier versions.
        cpu_ns: Option<u64>,
    }
}

row! {
    /// The row with the counts of one thread of a recorded program.
    RecordedThread, "threads" {
        /// The id of the platform on which corehop recorded the program.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The id (tid) of the thread, as the kernel reports it.
        tid: u64,
        /// The id (pid) of the process to which the thread belongs.
        pid: u64,
        /// The name of the thread at the end of the recording.
        name: Text,
        /// The number of preemptions of the thread.
        preemptions: u64,
        /// The number of times that the thread left its CPU because the thread blocked.
        voluntary: u64,
        /// The number of times that the scheduler changed the thread's CPU.
        migrations: u64,
        /// The number of `migrations` that the thread's affinity made necessary.
        affinity_moves: u64,
        /// The number of times that the thread resumed on another CPU than the CPU that it had left.
        cpu_changes: u64,
        /// The number of times that the thread returned to a CPU without a record of the return.
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
        /// The number of brief preemptions of the thread on one CPU, which have no row in the file of absences.
        brief: Option<u64>,
        /// The sum of the lengths of the thread's brief preemptions, in nanoseconds.
        brief_ns: Option<u64>,
        /// The index of the program's run, counted from 0; absent in files without runs.
        run: Option<u64>,
        /// The part of the waiting time in which the CPU quota of a control group stopped the thread, in nanoseconds.
        quota_ns: Option<u64>,
        /// The part of the waiting time in which the thread's SCHED_DEADLINE budget was used up, in nanoseconds.
        budget_ns: Option<u64>,
        /// The part of the waiting time in which the limit on real-time threads stopped the thread, in nanoseconds.
        realtime_ns: Option<u64>,
        /// The time for which a control group had frozen the thread, in nanoseconds, which is not part of the waiting
        /// time.
        frozen_ns: Option<u64>,
        /// The time for which a signal or a debugger had stopped the thread, in nanoseconds, which is not part of the
        /// waiting time.
        stopped_ns: Option<u64>,
    }
}

row! {
    /// The row of one run of a recorded program.
    RecordedRun, "runs" {
        /// The id of the platform on which corehop recorded the program.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the program's run, counted from 0.
        run: u64,
        /// The arm that ran; the arms `plain` and `again` run the unchanged command.
        arm: Text,
        /// The block of the run, counted from 0. corehop compares runs of one block with each other.
        block: u64,
        /// The start of the recording, in nanoseconds (CLOCK_MONOTONIC).
        began_ns: u64,
        /// The wall time of the run, in nanoseconds.
        wall_ns: u64,
        /// The user and system CPU time of the command and of the children for which the command waited, in
        /// nanoseconds; absent for a process or cgroup that existed before the recording.
        cpu_ns: Option<u64>,
        /// The time for which the program's threads were runnable and waited for a CPU, in nanoseconds, if known.
        waited_ns: Option<u64>,
        /// The number of preemptions of the program's threads.
        preemptions: u64,
        /// The number of times that the scheduler changed the CPU of a thread of the program.
        migrations: u64,
        /// The exit code of the program, or 128 plus the number of the signal that ended it; absent if the end was not
        /// recorded.
        status: Option<u64>,
        /// The CPUs on which the program's threads ran for at least 5 % of their CPU time; absent if unknown.
        ran_on: Option<Text>,
        /// The union of the affinity masks of the program's threads during the run; absent if unknown.
        allowed: Option<Text>,
        /// The CPUs to which the command of the arm binds the program (`taskset`, `numactl`); absent if the command
        /// names no CPUs.
        bound_to: Option<Text>,
    }
}

impl RowKind {
    /// The kinds of rows of a program's recording, each in a file of its own; `-o FILE` names the file of the first
    /// kind.
    pub const OF_RECORDING: [Self; 3] = [Self::Absences, Self::Threads, Self::Runs];
}
