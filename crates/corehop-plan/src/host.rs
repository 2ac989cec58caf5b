// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second seam: a host whose threads are observed, moved, and put back.
//!
//! Recording a program observes it. Placing its threads moves them too, and puts them back where the move did not pay.

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
    /// A source that tells which threads share data.
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

/// A host, seen through the threads that are followed on it.
pub trait Host {
    /// Lets `window` pass, or less if the threads end before, and tells what happened since the last time.
    ///
    /// # Errors
    /// [`HostError`]; what was observed before it remains good.
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError>;

    /// Restricts threads to CPUs: all of them, or none if one of the moves is not possible.
    ///
    /// # Errors
    /// [`HostError::Move`] names the thread.
    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError>;

    /// Whether windows from now on are looked at closely: the distances of CPUs are measured at the end of each.
    fn look_closely(&mut self, _closely: bool) {}

    /// Puts threads back where they were allowed to run before. Threads that have ended need nothing.
    ///
    /// # Errors
    /// [`HostError::Move`] names the thread; the others are put back all the same.
    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError>;

    /// News of the host for the user, each once.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The events of a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// The absences that ended in it.
    pub absences: Vec<Absence>,
    /// The work and the contacts of the threads, where the host looks at them.
    pub activity: Option<Activity>,
    /// The end of the threads, if they have ended.
    pub ended: Option<ProgramExit>,
}

/// The work and the contacts of threads in a window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// The length of the window, in nanoseconds.
    pub span_ns: u64,
    /// The threads that are alive.
    pub threads: Vec<ActiveThread>,
    /// The wake-ups between them.
    pub contacts: Vec<Contact>,
    /// The part of the window in which wake-ups were counted, in nanoseconds; None for all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<u64>,
    /// The data that they share, from other sources than wake-ups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<DataSharing>,
    /// The time of a line from one CPU to another, where it was measured at the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineTimes>,
    /// The progress of the program since it was first looked at, in units of its own; None where it says nothing.
    pub progress: Option<f64>,
}

impl Activity {
    /// The part of the window in which wake-ups were counted, in nanoseconds.
    pub fn counted_ns(&self) -> u64 {
        self.counted_ns.unwrap_or(self.span_ns)
    }
}

/// The transfer time of a modified line between two CPUs, in nanoseconds; None where there is no such pair, or it was not
/// measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LineTimes {
    /// With a cache in common.
    pub shared_cache_ns: Option<f64>,
    /// Without.
    pub separate_ns: Option<f64>,
}

/// A thread in a window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ActiveThread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The CPU time that it used in the window, in nanoseconds.
    pub busy_ns: u64,
    /// The time in it that the thread waited for a CPU, in nanoseconds; 0 where the host does not tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// The CPUs that it may run on.
    pub allowed: CpuList,
    /// The CPU that it ran on last, where the host tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// The bytes that it touches in a while: its share of its process's working set, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// Its instructions and misses, where the hardware counts them.
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
    /// Instructions.
    pub instructions: u64,
    /// Misses of its last-level cache.
    pub misses: u64,
    /// Those of them that another core's cache answered.
    pub from_caches: u64,
}

/// One thread made another ready to run, so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Contact {
    /// The thread that woke the other.
    pub waker: u32,
    /// The thread that slept.
    pub woken: u32,
    /// The number of times.
    pub count: u64,
}

/// Two threads were seen at the same data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataSharing {
    /// The thread with the lower number.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// The source that tells so.
    pub by: Evidence,
    /// The number of times that one was seen there after the other.
    pub seen: u64,
    /// The rate of these hand-overs. A source that takes samples estimates it, and it is a lower bound then.
    pub per_second: f64,
}

/// The end of all followed threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramExit {
    /// The exit code of a command, or 128 plus a signal.
    pub status: Option<i32>,
    /// The CPU time of a command and of the children that it waited for, in nanoseconds.
    pub cpu_ns: Option<u64>,
}

/// The CPUs that a thread is to run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The thread.
    pub tid: u32,
    /// The CPUs.
    pub cpus: CpuList,
}

/// Proof of moves that were made, with which they are taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "without it the moves stay until the host is dropped"]
pub struct Receipt {
    /// The number that the host gave it.
    pub number: u64,
    /// The CPUs that each thread was allowed to run on before.
    pub before: Vec<Move>,
}

/// Why a host could not be observed or changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Observing failed.
    #[error("{what}: {source}")]
    Observe {
        /// The step that failed.
        what: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A thread cannot be moved.
    #[error("moving thread {tid} to CPUs {cpus}: {why}")]
    Move {
        /// The thread.
        tid: u32,
        /// The CPUs asked for.
        cpus: CpuList,
        /// The reason, with the remedy.
        why: String,
    },
}
