// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording of an unmodified program: the absences of its threads, and their causes.

use serde::{Deserialize, Serialize};

use crate::units::Cpu;

/// A time in which a thread was preempted, or after which it ran on another CPU. Times are those of one
/// clock (CLOCK_MONOTONIC) in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// The thread.
    pub tid: u32,
    /// When it left its CPU.
    pub out_ns: u64,
    /// When it was back; where that was not seen, when it left the next time.
    pub in_ns: u64,
    /// Whether it was seen to come back.
    pub seen: bool,
    /// The CPU it left.
    pub from: Cpu,
    /// The CPU it came back to.
    pub to: Cpu,
    /// Whether it was taken off its CPU; otherwise it had blocked.
    pub preempted: bool,
    /// Whether its affinity made it move.
    pub pinned: bool,
    /// Running time before it left; 0 where that is not known.
    pub ran_ns: u64,
    /// The preempting thread: number and name; empty if unknown.
    pub by: Option<(u32, String)>,
}

impl Absence {
    /// The preemption length, or a bound of it where it was not seen to come back.
    pub const fn length_ns(&self) -> u64 {
        self.in_ns.saturating_sub(self.out_ns)
    }
}

/// The kernel's counts for one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ObservedThread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name at the end.
    pub name: String,
    /// Times it was taken off its CPU.
    pub preemptions: u64,
    /// Times it left because it blocked.
    pub voluntary: u64,
    /// Times the scheduler changed its CPU.
    pub migrations: u64,
    /// Of these, those that its affinity made necessary.
    pub affinity_moves: u64,
    /// Times it came back to another CPU than the one it had left.
    pub cpu_changes: u64,
    /// Times it came back and was not seen to.
    pub unseen: u64,
    /// The time between being preempted and being back, summed up.
    pub preempted_ns: u64,
}

/// A program's run, as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The work: a command, a process, a cgroup.
    pub what: String,
    /// Its end, if it ended: the exit code, or 128 plus a signal.
    pub status: Option<i32>,
    /// The method that noticed absences.
    #[serde(rename = "rung")]
    pub method: String,
    /// Why that was not BPF, where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_bpf: Option<String>,
    /// When the recording began.
    pub began_ns: u64,
    /// Its duration.
    pub span_ns: u64,
    /// The largest resident set of its processes, where that is known.
    pub rss_bytes: Option<u64>,
    /// Samples of what its processes touched within a while, in bytes: estimates of their working sets.
    #[serde(default)]
    pub touched_bytes: Vec<u64>,
    /// Its threads, in the order in which they were noticed.
    pub threads: Vec<ObservedThread>,
    /// When they were away.
    pub absences: Vec<Absence>,
    /// Absences for which there was no room.
    pub lost: u64,
    /// Threads for which there was no room.
    pub unfollowed: u64,
    /// Absences beyond those kept in `absences`, which were counted in the threads alone.
    pub not_kept: u64,
    /// The cost of recording to the machine.
    pub took: Took,
}

/// The cost of recording to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Took {
    /// CPU time of the recorder itself, in nanoseconds.
    pub own_ns: u64,
    /// Run time of its programs in the kernel, for all threads of the machine, where that is known (two
    /// clock readings a run are in it).
    pub programs_ns: Option<u64>,
    /// The number of runs of those programs: a switch of any thread is one.
    pub runs: Option<u64>,
}

impl Took {
    /// As a share of the time of one CPU.
    pub fn share(&self, span_ns: u64) -> f64 {
        (self.own_ns + self.programs_ns.unwrap_or(0)) as f64 / span_ns.max(1) as f64
    }
}
