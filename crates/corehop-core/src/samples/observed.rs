// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording of an unmodified program: the absences of its threads, and their causes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::row::{RecordedAbsence, RecordedThread};
use crate::platform::Platform;
use crate::units::Cpu;
use crate::workload::Event;

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
    /// Its CPU time, in nanoseconds; None where that is unknown, as for those below.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// The time it was ready to run and waited for a CPU, in nanoseconds, by the kernel's account.
    #[serde(default)]
    pub waited_ns: Option<u64>,
    /// The time it had a CPU that other threads of the program waited for, in nanoseconds for each of them.
    #[serde(default)]
    pub held_ns: Option<u64>,
    /// Of its preemptions, brief ones on one CPU, which have no [`Absence`]; None where all have one.
    #[serde(default)]
    pub brief: Option<u64>,
    /// Their lengths summed up, in nanoseconds.
    #[serde(default)]
    pub brief_ns: Option<u64>,
}

/// A record of a program's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramRecord {
    /// A thread was off its CPU.
    Absence(Absence),
    /// The counts of a thread, at the end of the recording.
    Thread(ObservedThread),
}

/// The facts of a recording, apart from its rows. They are part of the provenance, under
/// [`RecordingFacts::KEY`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordingFacts {
    /// The command, process or cgroup.
    pub what: String,
    /// The exit code of the command, or 128 plus a signal; None if it did not end.
    pub status: Option<i32>,
    /// The method of observation.
    #[serde(rename = "rung")]
    pub method: String,
    /// The reason why the method is not BPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_bpf: Option<String>,
    /// The begin of the recording, on the clock of [`Absence`].
    pub began_ns: u64,
    /// The duration of the recording.
    pub span_ns: u64,
    /// The largest resident set of the processes, if known.
    pub rss_bytes: Option<u64>,
    /// Samples of the bytes that processes touched within a window: estimates of their working sets.
    #[serde(default)]
    pub touched_bytes: Vec<u64>,
    /// Absences lost for lack of room in the kernel's buffer.
    pub lost: u64,
    /// Threads not followed for lack of room in the kernel's table.
    pub unfollowed: u64,
    /// The time that others had CPUs that threads of the program waited for, by name; None if unknown.
    #[serde(default)]
    pub others: Option<Vec<Held>>,
    /// The time that threads of the program waited for idle CPUs to wake up, in nanoseconds; None if unknown.
    #[serde(default)]
    pub idle_ns: Option<u64>,
    /// The cost of recording.
    pub took: Took,
}

/// The time that threads of one name had CPUs that threads of the recorded program waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The name.
    pub name: String,
    /// The time, in nanoseconds for each waiting thread.
    pub held_ns: u64,
}

impl RecordingFacts {
    /// The key of these facts in the provenance.
    pub const KEY: &'static str = "recording";

    /// The facts in the provenance of a file or a run.
    pub fn of(machine: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(machine.get(Self::KEY)?.clone()).ok()
    }
}

/// A program's run: the facts and the records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The facts.
    pub facts: RecordingFacts,
    /// The threads, in the order in which they were noticed.
    pub threads: Vec<ObservedThread>,
    /// Their absences.
    pub absences: Vec<Absence>,
    /// Absences beyond [`Recording::MOST_KEPT`], which only the counts of the threads contain.
    pub not_kept: u64,
}

impl Recording {
    /// The maximum number of absences in memory.
    pub const MOST_KEPT: usize = 2_000_000;

    /// Takes a record.
    pub fn take(&mut self, record: ProgramRecord) {
        match record {
            ProgramRecord::Absence(_) if self.absences.len() >= Self::MOST_KEPT => {
                self.not_kept += 1;
            }
            ProgramRecord::Absence(absence) => self.absences.push(absence),
            ProgramRecord::Thread(thread) => self.threads.push(thread),
        }
    }

    /// Takes rows of either kind.
    pub fn take_rows<'a, R>(&mut self, rows: &'a [R])
    where
        ProgramRecord: From<&'a R>,
    {
        for row in rows {
            self.take(row.into());
        }
    }
}

impl RecordedAbsence {
    pub(super) fn of(platform: &Platform, seed: u64, it: &Absence) -> Self {
        let by = it.by.as_ref();
        Self {
            machine: platform.id.as_str().into(),
            seed,
            tid: u64::from(it.tid),
            out_ns: it.out_ns,
            in_ns: it.in_ns,
            length_ns: it.length_ns(),
            seen: it.seen,
            from_cpu: u64::from(it.from.0),
            to_cpu: u64::from(it.to.0),
            event: Event::resuming(platform, it.from, it.to),
            preempted: it.preempted,
            by_affinity: it.pinned,
            ran_ns: it.ran_ns,
            by_tid: by.map(|(tid, _)| u64::from(*tid)),
            by: by.map(|(_, name)| name.as_str().into()),
        }
    }
}

impl From<&RecordedAbsence> for ProgramRecord {
    fn from(row: &RecordedAbsence) -> Self {
        let by = row.by_tid.zip(row.by.as_deref());
        Self::Absence(Absence {
            tid: row.tid as u32,
            out_ns: row.out_ns,
            in_ns: row.in_ns,
            seen: row.seen,
            from: Cpu(row.from_cpu as u32),
            to: Cpu(row.to_cpu as u32),
            preempted: row.preempted,
            pinned: row.by_affinity,
            ran_ns: row.ran_ns,
            by: by.map(|(tid, name)| (tid as u32, name.to_owned())),
        })
    }
}

impl RecordedThread {
    pub(super) fn of(platform: &Platform, seed: u64, it: &ObservedThread) -> Self {
        Self {
            machine: platform.id.as_str().into(),
            seed,
            tid: u64::from(it.tid),
            pid: u64::from(it.pid),
            name: it.name.as_str().into(),
            preemptions: it.preemptions,
            voluntary: it.voluntary,
            migrations: it.migrations,
            affinity_moves: it.affinity_moves,
            cpu_changes: it.cpu_changes,
            unseen: it.unseen,
            preempted_ns: it.preempted_ns,
            cpu_ns: it.cpu_ns,
            waited_ns: it.waited_ns,
            held_ns: it.held_ns,
            brief: it.brief,
            brief_ns: it.brief_ns,
        }
    }
}

impl From<&RecordedThread> for ProgramRecord {
    fn from(row: &RecordedThread) -> Self {
        Self::Thread(ObservedThread {
            tid: row.tid as u32,
            pid: row.pid as u32,
            name: row.name.to_string(),
            preemptions: row.preemptions,
            voluntary: row.voluntary,
            migrations: row.migrations,
            affinity_moves: row.affinity_moves,
            cpu_changes: row.cpu_changes,
            unseen: row.unseen,
            preempted_ns: row.preempted_ns,
            cpu_ns: row.cpu_ns,
            waited_ns: row.waited_ns,
            held_ns: row.held_ns,
            brief: row.brief,
            brief_ns: row.brief_ns,
        })
    }
}

/// The cost of recording to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Took {
    /// CPU time of the recorder itself, in nanoseconds.
    pub own_ns: u64,
    /// Run time of its programs in the kernel, in files that have it: later ones have `switches`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_ns: Option<u64>,
    /// The number of runs of those programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// The cost to switches between threads; None if unknown.
    #[serde(default)]
    pub switches: Option<SwitchesTook>,
}

/// The cost of recording to switches between threads. How much longer one takes is measured on the same host
/// after the recording: threads hand a byte to each other, with it and without.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SwitchesTook {
    /// Times a thread of the program left a CPU.
    pub count: u64,
    /// The time that one takes longer, in nanoseconds.
    pub each_ns: f64,
    /// Switches between other threads of the machine, if known.
    pub others: Option<u64>,
    /// The time that one of these takes longer, in nanoseconds.
    pub other_ns: f64,
}

impl SwitchesTook {
    /// All of it, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.count as f64 * self.each_ns + self.others.unwrap_or(0) as f64 * self.other_ns
    }
}

impl Took {
    /// As a share of the time of one CPU.
    pub fn share(&self, span_ns: u64) -> f64 {
        let kernel_ns = self.switches.map_or(self.programs_ns.unwrap_or(0) as f64, |it| it.ns());
        (self.own_ns as f64 + kernel_ns) / span_ns.max(1) as f64
    }
}
