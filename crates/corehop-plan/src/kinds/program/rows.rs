// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a recorded program: absences, threads, and runs.

use crate::kinds::column::row;
use crate::kinds::{RowKind, Text};
use crate::workload::Event;

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

impl RowKind {
    /// The kinds of rows that a recording of a program has, each in a file of its own; the first is what
    /// `-o FILE` names.
    pub const OF_RECORDING: [Self; 3] = [Self::Absences, Self::Threads, Self::Runs];
}
