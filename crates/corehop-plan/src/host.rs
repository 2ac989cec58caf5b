// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait of a host whose threads corehop observes, moves and puts back.
//!
//! Recording a program only observes the host. Placing also moves threads, and puts them back if a move did not pay.

pub mod locks;
pub mod residence;
pub mod wakes;
pub mod whole_run;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::samples::Absence;
use crate::units::{Cpu, CpuList};
use crate::words::words;

words! {
    /// A source that shows which threads share data.
    Evidence, "a source of evidence" {
        /// One thread wakes another thread.
        Wakes = "wakes",
        /// Two threads use the same futex word: a thread holds a lock while the other thread waits for it.
        Locks = "locks",
        /// Samples of memory accesses show that two threads write to the same page.
        Pages = "pages",
        /// Hardware counters show cache misses that another core's cache answers.
        Counters = "counters",
    }
}

/// A host, limited to the threads that corehop follows.
pub trait Host {
    /// Waits for `window`, or until the threads end, and returns the events since the previous call.
    ///
    /// # Errors
    /// Returns [`HostError`] if the host could not be observed; earlier observations stay valid.
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError>;

    /// Restricts threads to CPUs: makes all moves, or no move if a move is impossible.
    ///
    /// # Errors
    /// Returns [`HostError::Move`] with the thread that cannot move.
    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError>;

    /// Sets whether the host measures the distances of CPUs at the end of each following window.
    fn look_closely(&mut self, _closely: bool) {}

    /// Restores the CPUs on which threads were allowed to run before the moves. Threads that have ended need no
    /// restoring.
    ///
    /// # Errors
    /// Returns [`HostError::Move`] with a thread that cannot be restored; the host restores the remaining threads all
    /// the same.
    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError>;

    /// Returns the new messages of the host for the user; each message appears once.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The events that corehop observed in one window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// The absences that ended in the window.
    pub absences: Vec<Absence>,
    /// The work and the contacts of the threads, if the host observes them.
    pub activity: Option<Activity>,
    /// The exit of the program; None while threads remain.
    pub ended: Option<ProgramExit>,
}

/// The work and the contacts of threads in one window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// The length of the window, in nanoseconds.
    pub span_ns: u64,
    /// The threads that are alive at the end of the window.
    pub threads: Vec<ActiveThread>,
    /// The wake-ups that one thread of the window sent to another.
    pub contacts: Vec<Contact>,
    /// The part of the window in which the host counted wake-ups, in nanoseconds, or `None` for the whole window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<u64>,
    /// The data sharing between threads, from sources other than wake-ups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<DataSharing>,
    /// The transfer times of a line between two CPUs, if the host measured them at the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineTimes>,
    /// The progress of the program since the first observation, in the program's own unit, or `None` if the program
    /// reports no progress.
    pub progress: Option<f64>,
}

impl Activity {
    /// Returns the part of the window in which the host counted wake-ups, in nanoseconds.
    pub fn counted_ns(&self) -> u64 {
        self.counted_ns.unwrap_or(self.span_ns)
    }
}

/// The transfer times of a modified line between two CPUs, in nanoseconds. A time is `None` if the host has no two CPUs
/// of this kind, or did not measure the time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LineTimes {
    /// The transfer time between two CPUs with a common cache.
    pub shared_cache_ns: Option<f64>,
    /// The transfer time between two CPUs without a common cache.
    pub separate_ns: Option<f64>,
}

/// The work of a thread in one window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ActiveThread {
    /// The id of the thread that was active.
    pub tid: u32,
    /// The id of the thread's process.
    pub pid: u32,
    /// The name of the thread, as the kernel knows it.
    pub name: String,
    /// The CPU time that the thread used in the window, in nanoseconds.
    pub busy_ns: u64,
    /// The time in the window for which the thread waited for a CPU, in nanoseconds; 0 if the host does not report
    /// waiting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// The CPUs on which the thread is allowed to run.
    pub allowed: CpuList,
    /// The CPU on which the thread ran last, if the host reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// The number of bytes that the thread touches within a short time: its share of the working set of its process,
    /// or `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// The instructions and misses of the thread, or `None` if the hardware does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<InstructionCounts>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// The instructions and misses of a thread in a window, from hardware counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InstructionCounts {
    /// The number of instructions that the thread executed.
    pub instructions: u64,
    /// The number of misses in the last-level cache.
    pub misses: u64,
    /// The number of misses that another core's cache answered.
    pub from_caches: u64,
}

/// A count of wake-ups: one thread made another thread ready to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Contact {
    /// The thread that woke the other thread.
    pub waker: u32,
    /// The thread that the waker woke.
    pub woken: u32,
    /// The number of times that the waker woke the other thread.
    pub count: u64,
}

/// Evidence that two threads use the same data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataSharing {
    /// The thread with the lower number.
    pub a: u32,
    /// The thread with the higher number.
    pub b: u32,
    /// The source that saw the two threads at the same data.
    pub by: Evidence,
    /// The number of times that one thread was seen at the data after the other thread.
    pub seen: u64,
    /// The rate at which the two threads hand data to each other. If the source takes samples, the rate is an estimate
    /// and a lower bound.
    pub per_second: f64,
}

/// The exit of a program: all followed threads have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramExit {
    /// The exit code of the command, or 128 plus a signal number.
    pub status: Option<i32>,
    /// The CPU time of the command and of the children for which it waited, in nanoseconds.
    pub cpu_ns: Option<u64>,
}

/// A move: a thread and the CPUs on which it will run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The id of the thread that corehop moves.
    pub tid: u32,
    /// The CPUs on which the thread will run.
    pub cpus: CpuList,
}

/// A receipt for completed moves, with which the moves can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "without it the moves stay until the host is dropped"]
pub struct Receipt {
    /// The number that the host gave to the receipt.
    pub number: u64,
    /// The CPUs on which each thread was allowed to run before the moves.
    pub before: Vec<Move>,
}

/// The reason why corehop could not observe or change a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// corehop could not observe the host.
    #[error("{what}: {source}")]
    Observe {
        /// The step of the observation that failed.
        what: &'static str,
        /// The error that the kernel returned.
        source: std::io::Error,
    },
    /// A thread cannot move to the requested CPUs.
    #[error("corehop cannot move thread {tid} to CPUs {cpus}: {why}")]
    Move {
        /// The id of the thread that corehop cannot move.
        tid: u32,
        /// The CPUs to which corehop wanted to move the thread.
        cpus: CpuList,
        /// The reason why the thread cannot move, with the remedy.
        why: String,
    },
}
