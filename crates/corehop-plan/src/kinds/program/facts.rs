// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts of a recording that are not in its rows: its end, its losses, and the cost of recording.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::units::{Cpu, CpuList};

/// The facts of a recording that are not in its rows. The provenance of a result has the facts about a recording under
/// [`RecordingFacts::KEY`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordingFacts {
    /// The recorded command, process or cgroup.
    pub what: String,
    /// The exit code of the command, or 128 plus a signal number, or `None` if the command did not end.
    pub status: Option<i32>,
    /// The method by which corehop observed the program.
    #[serde(rename = "rung")]
    pub method: String,
    /// The reason why corehop did not observe the program with BPF, or `None` if the method is BPF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_bpf: Option<String>,
    /// The start of the recording, on the clock of [`super::Absence`].
    pub began_ns: u64,
    /// The duration of the recording, in nanoseconds.
    pub span_ns: u64,
    /// The CPU time of the command and of the children for which it waited, or `None` if unknown.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// The largest resident set of the processes, if known.
    pub rss_bytes: Option<u64>,
    /// Samples of the number of bytes that processes touched within a window: estimates of their working sets.
    #[serde(default)]
    pub touched_bytes: Vec<u64>,
    /// The number of absences lost because the kernel's buffer was full.
    pub lost: u64,
    /// The number of threads not followed because the kernel's table was full.
    pub unfollowed: u64,
    /// The time for which other threads had CPUs that threads of the program waited for, by thread name, or `None` if
    /// unknown.
    #[serde(default)]
    pub others: Option<Vec<CpuHoldTime>>,
    /// The time for which threads of the program waited for idle CPUs to wake up, in nanoseconds, or `None` if unknown.
    #[serde(default)]
    pub idle_ns: Option<u64>,
    /// The time for which threads of the program had each CPU, in nanoseconds; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<(Cpu, u64)>,
    /// The union of the CPUs on which the program's threads were allowed to run, or `None` if corehop did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<CpuList>,
    /// The control groups of the program, and their parent groups, that limit its CPU time, or `None` if corehop did
    /// not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<GroupLimit>>,
    /// Sentences about facts that the trace does not state, and about events that the recording does not use, if the
    /// recording was read from a trace of another program. The field is `None` if corehop itself recorded the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<String>>,
    /// The CPU time that recording cost.
    pub took: Took,
}

/// A control group with a limit on the CPU time of its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLimit {
    /// The file that states the limit, as a path below the root of the file system.
    pub file: String,
    /// The CPU time of a period, in microseconds, summed over all CPUs; for a limit on real-time threads, the CPU time
    /// of each CPU.
    pub runtime_us: u64,
    /// The length of the period, in microseconds.
    pub period_us: u64,
    /// Whether the limit applies to real-time threads.
    pub realtime: bool,
    /// The number of observed periods in which the kernel throttled the group, or `None` if the kernel does not count
    /// the periods.
    pub throttled: Option<u64>,
    /// The time for which the kernel throttled the group, summed over CPUs, in nanoseconds, or `None` if the kernel
    /// does not count the time.
    pub throttled_ns: Option<u64>,
}

impl GroupLimit {
    /// Adds the counts of a later observation of the same group.
    fn add(&mut self, later: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(a, b)| a + b);
        self.throttled = sum(self.throttled, later.throttled);
        self.throttled_ns = sum(self.throttled_ns, later.throttled_ns);
    }
}

/// Returns the limits of two runs, merged by file.
fn all_limits(mut one: Vec<GroupLimit>, other: &[GroupLimit]) -> Vec<GroupLimit> {
    for limit in other {
        match one.iter_mut().find(|it| it.file == limit.file) {
            Some(it) => it.add(limit),
            None => one.push(limit.clone()),
        }
    }
    one
}

/// Returns the times of two runs, added by CPU.
fn on_cpus(mut one: Vec<(Cpu, u64)>, other: &[(Cpu, u64)]) -> Vec<(Cpu, u64)> {
    for &(cpu, ns) in other {
        match one.iter_mut().find(|(it, _)| *it == cpu) {
            Some((_, all)) => *all += ns,
            None => one.push((cpu, ns)),
        }
    }
    one
}

/// The time for which threads of one name had CPUs that threads of the recorded program waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuHoldTime {
    /// The name of the threads that held the CPU.
    pub name: String,
    /// The time for which the threads held a CPU, in nanoseconds, counted once for each waiting thread.
    pub held_ns: u64,
}

/// Returns the times of two runs, added by name.
fn merged(mut one: Vec<CpuHoldTime>, other: Vec<CpuHoldTime>) -> Vec<CpuHoldTime> {
    for held in other {
        match one.iter_mut().find(|it| it.name == held.name) {
            Some(it) => it.held_ns += held.held_ns,
            None => one.push(held),
        }
    }
    one
}

impl RecordingFacts {
    /// The key of the facts about a recording in the provenance.
    pub const KEY: &'static str = "recording";

    /// Returns the facts before the first of several runs of a program, which begins at `began_ns`.
    pub fn before_runs(what: String, began_ns: u64) -> Self {
        let took = Took { switches: Some(SwitchesTook::NONE), ..Took::default() };
        let (cpu_ns, others, idle_ns) = (Some(0), Some(Vec::new()), Some(0));
        let limits = Some(Vec::new());
        Self { what, began_ns, cpu_ns, others, idle_ns, limits, took, ..Self::default() }
    }

    /// Adds the facts of a later run of the same program; times and losses add up.
    pub fn add(&mut self, later: Self) {
        self.status = later.status;
        self.why_not_bpf = later.why_not_bpf;
        self.method = later.method;
        self.span_ns += later.span_ns;
        self.cpu_ns = self.cpu_ns.zip(later.cpu_ns).map(|(one, other)| one + other);
        self.rss_bytes = self.rss_bytes.max(later.rss_bytes);
        self.touched_bytes.extend(later.touched_bytes);
        self.lost += later.lost;
        self.unfollowed += later.unfollowed;
        self.others = self.others.take().zip(later.others).map(|(one, other)| merged(one, other));
        self.idle_ns = self.idle_ns.zip(later.idle_ns).map(|(one, other)| one + other);
        self.ran = on_cpus(std::mem::take(&mut self.ran), &later.ran);
        let limits = self.limits.take().zip(later.limits);
        self.limits = limits.map(|(one, other)| all_limits(one, &other));
        self.took.add(later.took);
    }

    /// Returns the facts about a recording in the provenance of a file or a run.
    pub fn of(machine: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(machine.get(Self::KEY)?.clone()).ok()
    }
}

/// The CPU time that recording took from the recorded machine.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Took {
    /// The CPU time of the recorder itself, in nanoseconds.
    pub own_ns: u64,
    /// The run time of the recorder's BPF programs in the kernel; only older files have this time, newer files have
    /// `switches`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_ns: Option<u64>,
    /// The number of runs of the BPF programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// The cost that recording adds to switches between threads, or `None` if unknown.
    #[serde(default)]
    pub switches: Option<SwitchesTook>,
}

/// The cost that recording adds to switches between threads. corehop measures the added time of a switch on the same
/// host after the recording: threads hand a byte to each other, with and without recording.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SwitchesTook {
    /// The number of times that a thread of the program left a CPU.
    pub count: u64,
    /// The time that recording adds to one switch between threads, in nanoseconds.
    pub each_ns: f64,
    /// The number of switches between other threads of the machine, if known.
    pub others: Option<u64>,
    /// The added time of one switch between other threads, in nanoseconds.
    pub other_ns: f64,
}

impl SwitchesTook {
    const NONE: Self = Self { count: 0, each_ns: 0.0, others: Some(0), other_ns: 0.0 };

    /// Returns the costs of two recordings together; each added time is weighted by its number of switches.
    fn and(self, other: Self) -> Self {
        let mean = |one: (u64, f64), other: (u64, f64)| {
            let sum = one.0 as f64 * one.1 + other.0 as f64 * other.1;
            sum / (one.0 + other.0).max(1) as f64
        };
        let of_others = |it: Self| (it.others.unwrap_or(0), it.other_ns);
        Self {
            count: self.count + other.count,
            each_ns: mean((self.count, self.each_ns), (other.count, other.each_ns)),
            others: self.others.zip(other.others).map(|(one, other)| one + other),
            other_ns: mean(of_others(self), of_others(other)),
        }
    }

    /// Returns the added time of all switches, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.count as f64 * self.each_ns + self.others.unwrap_or(0) as f64 * self.other_ns
    }
}

impl Took {
    fn add(&mut self, later: Self) {
        self.own_ns += later.own_ns;
        self.switches = self.switches.zip(later.switches).map(|(one, other)| one.and(other));
    }

    /// Returns the cost of recording as a share of the time of one CPU.
    pub fn share(&self, span_ns: u64) -> f64 {
        let kernel_ns = self.switches.map_or(self.programs_ns.unwrap_or(0) as f64, |it| it.ns());
        (self.own_ns as f64 + kernel_ns) / span_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_several_runs_add_up_and_what_is_not_known_of_one_is_not_known_of_all() {
        let one = RecordingFacts {
            status: Some(0),
            span_ns: 10,
            cpu_ns: Some(4),
            rss_bytes: Some(7),
            touched_bytes: vec![1],
            lost: 1,
            idle_ns: Some(5),
            others: Some(vec![CpuHoldTime { name: "sh".to_owned(), held_ns: 9 }]),
            took: Took {
                own_ns: 1,
                switches: Some(SwitchesTook {
                    count: 2,
                    each_ns: 4.0,
                    others: Some(1),
                    other_ns: 3.0,
                }),
                ..Took::default()
            },
            ..RecordingFacts::default()
        };
        let mut all = RecordingFacts::before_runs("sh".to_owned(), 0);
        all.add(one.clone());
        all.add(one.clone());
        assert_eq!((all.span_ns, all.cpu_ns, all.rss_bytes, all.lost), (20, Some(8), Some(7), 2));
        assert_eq!((all.touched_bytes.len(), all.took.own_ns, all.idle_ns), (2, 2, Some(10)));
        assert_eq!(
            all.others.as_deref(),
            Some(&[CpuHoldTime { name: "sh".to_owned(), held_ns: 18 }][..])
        );
        assert!((all.took.switches.unwrap().ns() - 22.0).abs() < 1e-9, "{:?}", all.took);
        all.add(RecordingFacts { cpu_ns: None, others: None, took: Took::default(), ..one });
        assert!(all.cpu_ns.is_none() && all.others.is_none() && all.took.switches.is_none());
    }
}
