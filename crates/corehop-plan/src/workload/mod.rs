// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: the working set of the measured job, the polluters and preemptors, and the background load.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::trace::{Trace, TraceError};
use crate::platform::Platform;
use crate::units::{Bytes, Cpu, CpuList, Nanos};
use crate::words::words;

pub mod draw;
pub mod fork_join;
pub mod gang;
pub mod scheduler;
pub mod trace;
pub mod switching;
pub mod time;
pub mod locks;
pub mod task;
pub mod chains;
pub mod blocks;
pub mod placement;
pub mod set_file;
pub mod linux;
pub mod rt_app;
pub mod foreign;
pub mod generate;

words! {
    /// The order in which a touch visits its working set.
    Pattern, "a pattern" {
        /// The touch follows a random cyclic permutation, one element per line (Wächtler 3.2): every access depends
        /// on the previous access, and no prefetcher finds a stride.
        Shuffled = "shuffled",
        /// The touch reads all 8-byte words in ascending order (Bastoni et al. 3.2), an order that prefetchers speed
        /// up.
        Scan = "scan",
        /// The touch executes a chain of jumps in random order, one jump per line, so that the working set lies in
        /// the instruction caches.
        Code = "code",
    }
}

words! {
    /// The pages that hold a working set.
    Page, "a page kind" {
        /// The working set lies on base pages (4 KiB on x86-64), without huge pages.
        Base = "4k",
        /// The working set lies on transparent huge pages, which corehop requests with `madvise`.
        Transparent = "thp",
        /// The working set lies on huge pages from the pool of hugetlbfs.
        Hugetlb = "hugetlb",
    }
}

words! {
    /// The state of the working set's lines before a touch (Wächtler 3.4.1).
    LineState, "a cache state" {
        /// The caches hold as much of the working set as fits.
        Valid = "valid",
        /// No cache holds a line of the working set.
        Invalid = "invalid",
        /// No cache holds a line of the working set; the caches are full of modified lines of other data, which have
        /// to be written back first.
        Modified = "modified",
    }
}

words! {
    /// The event between a job's warm and resumed touch.
    Event, "an event" {
        /// The event `none` is the first control: the job touches its working set again at once.
        None = "none",
        /// The event `idle_leave` is the second control: the job leaves its CPU while nothing else runs there, and
        /// resumes.
        IdleLeave = "idle_leave",
        /// All lines of the working set are flushed from all caches, which gives an upper limit for comparison.
        Flush = "flush",
        /// The job loses its CPU, and later resumes on the same CPU.
        Preemption = "preemption",
        /// The job resumes on another CPU of the same core.
        SmtMigration = "smt_migration",
        /// The job resumes on another core that shares an L2 cache with the first core.
        L2Migration = "l2_migration",
        /// The job resumes on another core that shares only an L3 cache with the first core.
        L3Migration = "l3_migration",
        /// The job resumes on a core that shares no cache with the first core.
        MemoryMigration = "memory_migration",
    }
}

impl Event {
    /// The events of resuming on a CPU; the nearest CPU comes first.
    pub const RESUMING: [Self; 5] = [
        Self::Preemption,
        Self::SmtMigration,
        Self::L2Migration,
        Self::L3Migration,
        Self::MemoryMigration,
    ];

    /// Returns the events of [`Event::RESUMING`] that the usable CPUs of a machine allow.
    pub fn on(platform: &Platform) -> Vec<Self> {
        let missing = platform.missing_classes();
        let there =
            |event: &Self| missing.iter().all(|class| class.affinity.event() != event.word());
        Self::RESUMING.into_iter().filter(there).collect()
    }

    /// Returns the events of [`Event::RESUMING`] that the first `cpus` CPUs of a machine allow; all events of the
    /// machine if it has fewer CPUs.
    pub fn among_first(platform: &Platform, cpus: usize) -> Vec<Self> {
        let mut all = Self::on(platform);
        let first: Vec<Cpu> = platform.cpus.value.iter().take(cpus).collect();
        if first.len() == cpus && cpus < platform.cpus.value.len() {
            let between = |event: &Self| {
                let to = |&from: &Cpu| {
                    first.iter().any(|&to| Self::resuming(platform, from, to) == *event)
                };
                first.iter().any(to)
            };
            all.retain(between);
        }
        all
    }

    /// Returns the event of a job that leaves `from` and resumes on `to`.
    pub fn resuming(platform: &Platform, from: Cpu, to: Cpu) -> Self {
        let word = platform.affinity(from, to).event();
        // Every class has an event of its name.
        Self::RESUMING.into_iter().find(|event| event.word() == word).unwrap_or(Self::Preemption)
    }

    /// Returns whether the job resumes on another CPU.
    pub const fn is_migration(self) -> bool {
        matches!(
            self,
            Self::SmtMigration | Self::L2Migration | Self::L3Migration | Self::MemoryMigration
        )
    }
}

words! {
    /// The way in which a job moves to the CPU on which it resumes.
    Mover, "a way to move" {
        /// The thread changes its own CPU affinity, and the kernel moves the thread.
        Affinity = "affinity",
        /// The thread passes the job's state to a thread that already waits on the target CPU (Wächtler 4.1).
        Handover = "handover",
    }
}

words! {
    /// The occupant of the CPU while the job is off the CPU.
    Absence, "a kind of absence" {
        /// No thread of the experiment runs on the job's CPU during the absence.
        Nothing = "nothing",
        /// A preemptor with its own working set runs on the job's CPU for exactly the preemption length. If a task
        /// set ran, another task of the set is the preemptor.
        Preemptor = "preemptor",
        /// The threads of the background load run on the job's CPU during the absence.
        Load = "load",
    }
}

/// The data (or code) that a job touches, with the way in which the job touches it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// The size of the working set.
    pub wss: Bytes,
    /// The order in which a job accesses the lines of the working set.
    pub pattern: Pattern,
    /// The kind of pages that hold the working set.
    pub page: Page,
    /// The share of word accesses that write, 0 to 1; at most 1/2 for a shuffled list, because the walk must read
    /// every element to find the next.
    pub write_ratio: f64,
    /// The number of independent chains of accesses that are under way at once: 1, 4 or 8.
    #[serde(default = "one")]
    pub chains: u8,
    /// The NUMA node of the memory; `None` for the node of the CPU that touches the memory first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Whether every job gets fresh page frames, so that page colours vary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh_frames: bool,
    /// The user's own job, as `LIB.so:FUNCTION`, in place of `pattern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The recorded accesses of a program, in place of `pattern` and `write_ratio`; `wss` is the size of the
    /// recorded lines.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "trace::shared")]
    pub trace: Option<Arc<Trace>>,
}

const fn one() -> u8 {
    1
}

/// Returns a share from 0 to 1 as a fraction of 2^64: a sum to which the fraction is added repeatedly overflows in
/// that share of the additions.
pub fn fraction(share: f64) -> u64 {
    if share >= 1.0 { u64::MAX } else { (share * 2_f64.powi(64)) as u64 }
}

/// The size in bytes of the line that every cache of interest transfers.
pub const LINE: u64 = 64;

/// The number of lines between two time stamps of a walk; the size of a working set is a multiple of this many
/// lines.
pub const CHUNK_LINES: u64 = 16;

/// The reason why a job cannot touch a working set as described.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// The size of the working set is zero or not a whole number of chunks.
    #[error(
        "a working set of {wss} is not a positive multiple of 1 KiB ({CHUNK_LINES} lines): round it"
    )]
    Size {
        /// The size of the working set that was requested.
        wss: Bytes,
    },
    /// The write ratio is out of the bounds of the pattern.
    #[error("a write ratio of {ratio} is outside 0 to {most} for the pattern `{pattern}`{hint}")]
    WriteRatio {
        /// The write ratio that was requested.
        ratio: f64,
        /// The largest write ratio that the pattern allows.
        most: f64,
        /// The order of the accesses that was requested.
        pattern: Pattern,
        /// The change that makes the request valid.
        hint: &'static str,
    },
    /// The text of a trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The size of the working set is not the size of the trace's lines.
    #[error("the lines of the trace take {wss}: state {wss} as the working set's size")]
    TraceSize {
        /// The size of the trace's lines.
        wss: Bytes,
    },
    /// The number of chains is not 1, 4 or 8, or the pattern allows only one chain.
    #[error("{chains} chains: a shuffled list has 1, 4 or 8, a scan or code has 1")]
    Chains {
        /// The number of chains that was requested.
        chains: u8,
    },
}

impl WorkingSet {
    /// Returns the working set of a shuffled list in base pages, with one chain.
    pub const fn list(wss: Bytes, write_ratio: f64) -> Self {
        Self {
            wss,
            pattern: Pattern::Shuffled,
            page: Page::Base,
            write_ratio,
            chains: 1,
            node: None,
            fresh_frames: false,
            workload: None,
            trace: None,
        }
    }

    /// Returns the working set of a trace, in base pages.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of a plan was damaged.
    pub fn of_trace(trace: Arc<Trace>) -> Result<Self, TraceError> {
        let written = trace.writes as f64 / trace.accesses.max(1) as f64;
        let write_ratio = (written * 1e3).round() / 1e3;
        let wss = trace.wss()?;
        Ok(Self { trace: Some(trace), ..Self::list(wss, write_ratio) })
    }

    /// Returns the name of the job that touches the working set in place of a pattern, as in the column
    /// `workload`.
    pub fn job(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| trace.label()).or_else(|| self.workload.clone())
    }

    /// Returns the number of cache lines in the working set.
    pub const fn lines(&self) -> u64 {
        self.wss.get() / LINE
    }

    /// Returns the number of visits to lines in one touch.
    pub fn visits(&self) -> u64 {
        self.trace.as_ref().map_or(self.lines(), |trace| trace.count)
    }

    /// Returns the share of a shuffled list's lines that a touch writes: each line is read once, so writes are the
    /// share `write_ratio` of all accesses if the share `w / (1 - w)` of the lines is written.
    pub fn written_lines(&self) -> f64 {
        self.write_ratio / (1.0 - self.write_ratio)
    }

    /// Checks whether a job can touch the working set as described.
    ///
    /// # Errors
    /// Returns [`WorkloadError`] for the first of size, write ratio and chains that is invalid.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if let Some(trace) = &self.trace {
            let wss = trace.wss()?;
            let same = wss == self.wss;
            return if same { Ok(()) } else { Err(WorkloadError::TraceSize { wss }) };
        }
        let (wss, ratio, pattern, chains) = (self.wss, self.write_ratio, self.pattern, self.chains);
        if wss.get() == 0 || wss.get() % (LINE * CHUNK_LINES) != 0 {
            return Err(WorkloadError::Size { wss });
        }
        let (most, hint) = match pattern {
            Pattern::Shuffled => {
                (0.5, ": a list reads every element; the scan can write all words")
            }
            Pattern::Scan => (1.0, ""),
            Pattern::Code => (0.0, ": code is not written while it runs"),
        };
        if !(0.0..=most).contains(&ratio) {
            return Err(WorkloadError::WriteRatio { ratio, most, pattern, hint });
        }
        let possible: &[u8] = if pattern == Pattern::Shuffled { &[1, 4, 8] } else { &[1] };
        if !possible.contains(&chains) {
            return Err(WorkloadError::Chains { chains });
        }
        Ok(())
    }
}

/// A task that only walks its own working set, to evict the working sets of other tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Polluter {
    /// The size of the polluter's working set.
    pub wss: Bytes,
    /// The order of the polluter's accesses.
    pub pattern: Pattern,
    /// The share of the polluter's word accesses that write.
    pub write_ratio: f64,
}

impl std::fmt::Display for Polluter {
    /// Returns the text for the column `polluter`, such as `shuffled 4 MiB write 0.5`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} write {}", self.pattern, self.wss, self.write_ratio)
    }
}

/// A program whose working set moves on through its memory, as a compiler's does (Wächtler 3.3.2): a share of the
/// lines that it touches is new, and the rest is spread over recently new lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovingProgram {
    /// The size of the memory that is in use at a time.
    pub window: Bytes,
    /// The share of the touched lines that are new, 0 to 1.
    pub fresh: f64,
    /// The share of the touched lines that the program writes, 0 to 1; the program reads the others.
    pub write_ratio: f64,
    /// The pause between the touches of two lines.
    pub pause: Nanos,
}

/// The reason why a program cannot change its working set as described.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChangingError {
    /// The window is not a positive number of lines.
    #[error("a window of {0} is not a positive multiple of {LINE} bytes: round it")]
    Window(Bytes),
    /// A share is not in the range 0 to 1.
    #[error("{what} of {share} is outside 0 to 1")]
    Share {
        /// The name of the share that is out of bounds.
        what: &'static str,
        /// The value that the description states.
        share: f64,
    },
}

impl MovingProgram {
    /// A compiler in a virtual machine, as seen by the level-3 cache of a Xeon X5650: the level-2 cache misses
    /// 12.1 million lines a second, 10.7 % of them new (Wächtler, Table 5.1, one core). The window is fitted on
    /// preemptions of three sizes in Table A.6 (the study `waechtler-a6`).
    pub const COMPILER: Self =
        Self { window: Bytes::from_mib(4), fresh: 0.107, write_ratio: 0.5, pause: Nanos::new(55) };

    /// Checks whether a program can change its working set as described.
    ///
    /// # Errors
    /// Returns [`ChangingError`] for the invalid window or share.
    pub fn check(&self) -> Result<(), ChangingError> {
        if self.window.get() == 0 || !self.window.get().is_multiple_of(LINE) {
            return Err(ChangingError::Window(self.window));
        }
        for (what, share) in
            [("a share of new lines", self.fresh), ("a write ratio", self.write_ratio)]
        {
            if !(0.0..=1.0).contains(&share) {
                return Err(ChangingError::Share { what, share });
            }
        }
        Ok(())
    }

    /// Returns the size of the memory through which the program moves before it returns to its start: large enough
    /// that no cache still holds the start.
    pub fn memory(&self) -> Bytes {
        const LEAST: Bytes = Bytes::from_mib(64);
        Bytes::new(self.window.get().saturating_mul(4)).max(LEAST)
    }
}

impl std::fmt::Display for MovingProgram {
    /// Returns the text for the column `polluter`, such as `changing 2 MiB fresh 0.1 write 0.5 pause 60 ns`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { window, fresh, write_ratio, pause } = self;
        write!(f, "changing {window} fresh {fresh} write {write_ratio} pause {pause}")
    }
}

/// The background load while a machine takes samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Load {
    /// The machine has no background load.
    #[default]
    Idle,
    /// The load is one polluter on each of these CPUs.
    Constructed {
        /// The memory that each polluter walks.
        polluter: Polluter,
        /// The CPUs of the polluters; empty for all usable CPUs.
        #[serde(default)]
        cpus: CpuList,
    },
    /// The load is one program with a changing working set on each of these CPUs.
    Changing {
        /// The program that runs on each CPU.
        program: MovingProgram,
        /// The CPUs of the programs; empty for all usable CPUs.
        #[serde(default)]
        cpus: CpuList,
    },
    /// The load is a user's command: corehop pins one copy to each CPU, and starts a copy again when it ends.
    Realistic {
        /// The command, as a shell reads it.
        command: String,
        /// The CPUs of the copies; empty for all usable CPUs.
        #[serde(default)]
        cpus: CpuList,
    },
    /// The load is input and output that moves data without the CPUs (Bastoni et al., section 6).
    Dma {
        /// The kind of input or output.
        transfer: Transfer,
        /// The CPUs of the load's threads; empty for all usable CPUs.
        #[serde(default)]
        cpus: CpuList,
    },
    /// The load is threads that run locked instructions (Bastoni et al., section 6).
    Buslock {
        /// Whether the locked accesses straddle two lines, which stops the memory accesses of every other CPU.
        split: bool,
        /// The CPUs of the threads; empty for all usable CPUs.
        #[serde(default)]
        cpus: CpuList,
    },
}

words! {
    /// The input or output of the load `dma`.
    Transfer, "a transfer" {
        /// Direct I/O reads and writes a temporary file.
        Direct = "direct",
        /// The load sends datagrams to itself through the loopback device.
        Loopback = "loopback",
    }
}

impl Load {
    /// Returns the word for the load in the column `load`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Constructed { .. } => "constructed",
            Self::Changing { .. } => "changing",
            Self::Realistic { .. } => "realistic",
            Self::Dma { .. } => "dma",
            Self::Buslock { .. } => "buslock",
        }
    }

    /// Returns the CPUs on which the load runs, as an empty list if the load runs on all CPUs, or `None` if the load
    /// runs nothing.
    pub const fn cpus(&self) -> Option<&CpuList> {
        match self {
            Self::Idle => None,
            Self::Constructed { cpus, .. }
            | Self::Changing { cpus, .. }
            | Self::Realistic { cpus, .. }
            | Self::Dma { cpus, .. }
            | Self::Buslock { cpus, .. } => Some(cpus),
        }
    }

    /// Returns the default occupant of a CPU that a job leaves under this load. If the load's threads walk memory or
    /// run a user's command, these threads are the occupant. If nothing runs, or if the threads wait for a device or a
    /// lock and evict hardly anything, a preemptor is the occupant.
    pub const fn absence(&self) -> Absence {
        match self {
            Self::Idle | Self::Dma { .. } | Self::Buslock { .. } => Absence::Preemptor,
            Self::Constructed { .. } | Self::Changing { .. } | Self::Realistic { .. } => {
                Absence::Load
            }
        }
    }

    /// Returns the only CPU of the load's threads, if the load has just one CPU and stops while another thread has
    /// that CPU. A load of the kind [`Transfer::Direct`] has no CPU of its own, because the device needs none.
    pub fn only_cpu(&self, platform: &Platform) -> Option<Cpu> {
        if matches!(self, Self::Dma { transfer: Transfer::Direct, .. }) {
            return None;
        }
        let named = self.cpus()?;
        let cpus = if named.is_empty() { platform.usable() } else { named.clone() };
        cpus.first().filter(|_| cpus.len() == 1)
    }

    /// Returns the command that the load runs, and its CPUs unless it runs everywhere, as in the column
    /// `polluter`; the text distinguishes loads that share a word.
    pub fn runs(&self) -> Option<String> {
        let (what, cpus) = match self {
            Self::Idle => return None,
            Self::Constructed { polluter, cpus } => (polluter.to_string(), cpus),
            Self::Changing { program, cpus } => (program.to_string(), cpus),
            Self::Realistic { command, cpus } => (command.clone(), cpus),
            Self::Dma { transfer, cpus } => (transfer.to_string(), cpus),
            Self::Buslock { split: true, cpus } => ("split locks".to_owned(), cpus),
            Self::Buslock { split: false, cpus } => ("locked instructions".to_owned(), cpus),
        };
        Some(if cpus.is_empty() { what } else { format!("{what} on CPUs {cpus}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_writes_every_line_has_a_write_ratio_of_one_half() {
        let set = WorkingSet::list(Bytes::from_kib(4), 0.5);
        assert!((set.written_lines() - 1.0).abs() < 1e-12 && set.check().is_ok());
    }

    #[test]
    fn impossible_working_sets_are_refused_by_name() {
        let set = |wss, ratio| WorkingSet::list(Bytes::new(wss), ratio);
        assert!(matches!(set(0, 0.0).check(), Err(WorkloadError::Size { .. })));
        assert!(matches!(set(1000, 0.0).check(), Err(WorkloadError::Size { .. })));
        let error = set(4096, 0.75).check().unwrap_err().to_string();
        assert!(error.contains("0.75") && error.contains("scan"), "{error}");
        assert!(set(4096, f64::NAN).check().is_err());
        let two = WorkingSet { chains: 2, ..set(4096, 0.0) };
        assert!(matches!(two.check(), Err(WorkloadError::Chains { chains: 2 })));
    }

    #[test]
    fn loads_of_one_word_are_told_apart_by_what_they_run_and_where() {
        let polluter =
            Polluter { wss: Bytes::from_mib(4), pattern: Pattern::Shuffled, write_ratio: 0.5 };
        let one: CpuList = "1".parse().unwrap();
        let command = || "make -j1".to_owned();
        let everywhere = CpuList::default;
        for (load, runs) in [
            (Load::Constructed { polluter, cpus: everywhere() }, "shuffled 4 MiB write 0.5"),
            (Load::Realistic { command: command(), cpus: everywhere() }, "make -j1"),
            (Load::Realistic { command: command(), cpus: one }, "make -j1 on CPUs 1"),
            (Load::Dma { transfer: Transfer::Loopback, cpus: everywhere() }, "loopback"),
            (Load::Buslock { split: true, cpus: everywhere() }, "split locks"),
        ] {
            assert_eq!(load.runs().as_deref(), Some(runs));
        }
        assert_eq!(Load::Idle.runs(), None);
    }

    #[test]
    fn the_words_of_an_enum_are_those_of_its_serde_form() {
        for event in Event::ALL {
            let json = serde_json::to_string(event).unwrap();
            assert_eq!(json, format!("\"{event}\""));
            assert_eq!(event.word().parse(), Ok(*event));
        }
        assert!("l4_migration".parse::<Event>().unwrap_err().to_string().contains("l3_migration"));
    }
}
