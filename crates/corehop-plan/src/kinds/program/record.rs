// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording of an unmodified program: the absences of its threads, and the causes of the absences.

use serde::{Deserialize, Serialize};

use crate::kinds::{
    Absences, Arm, Bar, Bars, RecordedAbsence, RecordedRun, RecordedThread, RecordingFacts,
    RowObservation,
};
use crate::platform::Platform;
use crate::units::{Cpu, CpuList};
use crate::workload::Event;

/// An absence of a thread: the thread was preempted, or it ran on another CPU afterwards. All times are in
/// nanoseconds of one clock (CLOCK_MONOTONIC).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// The id of the thread that was absent.
    pub tid: u32,
    /// The time at which the thread left its CPU.
    pub out_ns: u64,
    /// The time at which the thread was back on a CPU; if the recorder did not see the return, the time of the thread's
    /// next departure.
    pub in_ns: u64,
    /// Whether the recorder saw the return of the thread.
    pub seen: bool,
    /// The CPU that the thread left.
    pub from: Cpu,
    /// The CPU to which the thread returned.
    pub to: Cpu,
    /// Whether the kernel preempted the thread; otherwise the thread had blocked.
    pub preempted: bool,
    /// Whether the thread's affinity forced the move.
    pub pinned: bool,
    /// The thread's run time before it left its CPU; 0 if unknown.
    pub ran_ns: u64,
    /// The CPU time that the thread used from the start of the recording to the absence, or `None` if unknown.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// The number and the name of the preempting thread, or `None` if unknown.
    pub by: Option<(u32, String)>,
}

impl Absence {
    /// Returns the preemption length, or an upper bound if the return of the thread was not seen.
    pub const fn length_ns(&self) -> u64 {
        self.in_ns.saturating_sub(self.out_ns)
    }
}

/// The kernel's counts for one thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ObservedThread {
    /// The id of the thread that corehop observed.
    pub tid: u32,
    /// The id of the thread's process.
    pub pid: u32,
    /// The name of the thread at the end of the recording.
    pub name: String,
    /// The number of times that the kernel preempted the thread.
    pub preemptions: u64,
    /// The number of times that the thread left its CPU because it blocked.
    pub voluntary: u64,
    /// The number of times that the scheduler changed the thread's CPU.
    pub migrations: u64,
    /// The number of changes of CPU that the thread's affinity forced.
    pub affinity_moves: u64,
    /// The number of times that the thread returned to another CPU than the CPU that it had left.
    pub cpu_changes: u64,
    /// The number of returns that the recorder did not see.
    pub unseen: u64,
    /// The total time between preemptions of the thread and its returns.
    pub preempted_ns: u64,
    /// The thread's CPU time, in nanoseconds, or `None` if unknown, as for the optional times below.
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    /// The time for which the thread was runnable and waited for a CPU, in nanoseconds, as the kernel accounts for
    /// it.
    #[serde(default)]
    pub waited_ns: Option<u64>,
    /// The time for which the thread had a CPU while other threads of the program waited for the CPU, in nanoseconds,
    /// summed over the waiting threads.
    #[serde(default)]
    pub held_ns: Option<u64>,
    /// The number of the thread's brief preemptions on one CPU, which have no [`Absence`], or `None` if every
    /// preemption has an [`Absence`].
    #[serde(default)]
    pub brief: Option<u64>,
    /// The total length of the brief preemptions, in nanoseconds.
    #[serde(default)]
    pub brief_ns: Option<u64>,
    /// The time for which the kernel did not let the thread run, by cause, or `None` if unknown.
    #[serde(default)]
    pub barred: Option<Bars>,
}

/// A record of a program's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramRecord {
    /// A run of the plan begins, counted from 0; the records that follow belong to this run.
    Begin(usize),
    /// The record of a thread's absence from its CPU.
    Absence(Absence),
    /// The counts of a thread, at the end of the recording.
    Thread(ObservedThread),
    /// The run has ended, and its totals are known.
    End(EndedRun),
}

/// The totals of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndedRun {
    /// The start of the recording, on the clock of [`Absence`].
    pub began_ns: u64,
    /// The wall time of the run, in nanoseconds.
    pub wall_ns: u64,
    /// The CPU time of the run, in nanoseconds, if known.
    pub cpu_ns: Option<u64>,
    /// The time for which the run's threads waited for a CPU, in nanoseconds, if known.
    pub waited_ns: Option<u64>,
    /// The number of preemptions of the run's threads.
    pub preemptions: u64,
    /// The number of times that the scheduler changed the CPU of a thread.
    pub migrations: u64,
    /// The exit code of the run, or 128 plus a signal number, or `None` if its end was not recorded.
    pub status: Option<i32>,
    /// The CPUs on which the run's threads had at least the share `RAN_ON` of their CPU time, or `None` if unknown.
    pub ran_on: Option<CpuList>,
    /// The union of the CPUs in the threads' affinity masks during the run, or `None` if unknown.
    pub allowed: Option<CpuList>,
    /// The CPUs to which the words of the run's arm bind the command, or `None` if the words name no CPUs.
    pub bound_to: Option<CpuList>,
}

/// The share of a run's CPU time above which a CPU counts as used; a smaller share occurs because a command that
/// binds itself starts on another CPU.
const RAN_ON: f64 = 0.05;

/// Returns the CPUs with at least the share [`RAN_ON`] of the CPU time, or `None` if the total CPU time is 0.
fn ran_on(ran: &[(Cpu, u64)]) -> Option<CpuList> {
    let all: u64 = ran.iter().map(|&(_, ns)| ns).sum();
    let counts = |&&(_, ns): &&(Cpu, u64)| ns as f64 >= RAN_ON * all as f64;
    (all > 0).then(|| CpuList::new(ran.iter().filter(counts).map(|&(cpu, _)| cpu)))
}

impl EndedRun {
    /// Returns the totals of the run with the given facts and threads.
    pub fn of(facts: &RecordingFacts, threads: &[ObservedThread]) -> Self {
        let sum = |of: fn(&ObservedThread) -> u64| threads.iter().map(of).sum();
        Self {
            began_ns: facts.began_ns,
            wall_ns: facts.span_ns,
            cpu_ns: facts.cpu_ns,
            waited_ns: waited_ns(threads),
            preemptions: sum(|thread| thread.preemptions),
            migrations: sum(|thread| thread.migrations),
            status: facts.status,
            ran_on: ran_on(&facts.ran),
            allowed: facts.allowed.clone(),
            bound_to: None,
        }
    }
}

/// Returns the time for which threads waited for a CPU, or `None` if the time of any thread is unknown, or if there
/// are no threads.
fn waited_ns(threads: &[ObservedThread]) -> Option<u64> {
    let sum = threads.iter().map(|thread| thread.waited_ns).sum::<Option<u64>>();
    sum.filter(|_| !threads.is_empty())
}

/// A recording of a program: the facts and the records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// The facts of the recording that are not in its rows.
    pub facts: RecordingFacts,
    /// The threads, in the order in which the recorder noticed them; empty if the rows of threads are missing.
    pub threads: Vec<ObservedThread>,
    /// The counted absences of the threads.
    pub absences: Absences,
    /// The runs that have ended; empty in files that do not number runs.
    pub runs: Vec<RecordedRun>,
    /// The index of the first thread of each run, if runs are numbered.
    pub first_threads: Vec<(u64, usize)>,
}

impl Recording {
    /// Returns the threads of the recording, or `None` if the rows of threads are missing. A recorded program has at
    /// least one thread.
    pub fn known_threads(&self) -> Option<&[ObservedThread]> {
        (!self.threads.is_empty()).then_some(&self.threads)
    }

    /// Adds rows of absences to the recording.
    pub fn take_absences(&mut self, rows: &[RecordedAbsence]) {
        for row in rows {
            self.absences.take(row.run, row.event, &row.into());
        }
    }

    /// Adds rows of runs to the recording.
    pub fn take_runs(&mut self, rows: &[RecordedRun]) {
        self.runs.extend_from_slice(rows);
    }

    /// Returns the runs of the program that have ended. A file that does not number runs has one run with the facts and
    /// threads of the file. If the absences belong to several runs whose rows are missing, the result is empty.
    pub fn ended_runs(&self) -> Vec<RecordedRun> {
        if !self.runs.is_empty() || self.runs_begun() > 1 {
            return self.runs.clone();
        }
        let ended = EndedRun::of(&self.facts, &self.threads);
        vec![RecordedRun::placed("", 0, (0, Arm::PLAIN, 0), &ended)]
    }

    /// Returns the threads of the program in one run.
    pub fn threads_of(&self, run: u64) -> &[ObservedThread] {
        range_of(&self.first_threads, run, self.threads.len())
            .map_or(&[], |range| &self.threads[range])
    }

    /// Returns the number of runs that have begun, including the last run of an interrupted recording.
    pub fn runs_begun(&self) -> u64 {
        let begun = self.absences.last_run().into_iter();
        let begun = begun.chain(self.first_threads.iter().map(|&(run, _)| run));
        begun.chain(self.runs.iter().map(|row| row.run)).max().map_or(0, |last| last + 1)
    }

    /// Returns whether runs have numbers, as in all but early files, or `None` if no row shows whether runs have
    /// numbers.
    pub fn knows_runs(&self) -> Option<bool> {
        let numbered = self.absences.last_run().is_some() || !self.first_threads.is_empty();
        let has_rows = self.absences.times() > 0 || !self.threads.is_empty();
        has_rows.then_some(numbered)
    }

    /// Adds rows of threads to the recording.
    pub fn take_threads(&mut self, rows: &[RecordedThread]) {
        for row in rows {
            note_first(&mut self.first_threads, row.run, self.threads.len());
            self.threads.push(row.into());
        }
    }
}

/// Notes the first row of a run; `at` is the index of the next row.
fn note_first(firsts: &mut Vec<(u64, usize)>, run: Option<u64>, at: usize) {
    let known = firsts.last().map(|&(run, _)| run);
    if let Some(run) = run.filter(|&run| known != Some(run)) {
        firsts.push((run, at));
    }
}

/// Returns the range of the rows of a run among `all` rows, or `None` if the run has no rows.
fn range_of(firsts: &[(u64, usize)], run: u64, all: usize) -> Option<std::ops::Range<usize>> {
    let at = firsts.iter().position(|&(known, _)| known == run)?;
    let end = firsts.get(at + 1).map_or(all, |&(_, next)| next);
    Some(firsts[at].1..end)
}

impl RecordedAbsence {
    pub(crate) fn of(platform: &Platform, seed: u64, run: u64, it: &Absence) -> Self {
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
            run: Some(run),
            cpu_ns: it.cpu_ns,
        }
    }
}

impl From<&RecordedAbsence> for Absence {
    fn from(row: &RecordedAbsence) -> Self {
        let by = row.by_tid.zip(row.by.as_deref());
        Self {
            tid: row.tid as u32,
            out_ns: row.out_ns,
            in_ns: row.in_ns,
            seen: row.seen,
            from: Cpu(row.from_cpu as u32),
            to: Cpu(row.to_cpu as u32),
            preempted: row.preempted,
            pinned: row.by_affinity,
            ran_ns: row.ran_ns,
            cpu_ns: row.cpu_ns,
            by: by.map(|(tid, name)| (tid as u32, name.to_owned())),
        }
    }
}

impl RecordedThread {
    pub(crate) fn of(platform: &Platform, seed: u64, run: u64, it: &ObservedThread) -> Self {
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
            run: Some(run),
            quota_ns: it.barred.map(|it| it.of(Bar::Quota)),
            budget_ns: it.barred.map(|it| it.of(Bar::Budget)),
            realtime_ns: it.barred.map(|it| it.of(Bar::Realtime)),
            frozen_ns: it.barred.map(|it| it.of(Bar::Frozen)),
            stopped_ns: it.barred.map(|it| it.of(Bar::Stopped)),
        }
    }
}

impl RecordedRun {
    pub(crate) fn of(
        platform: &Platform,
        seed: u64,
        place: (u64, &str, u32),
        it: &EndedRun,
    ) -> Self {
        Self::placed(&platform.id, seed, place, it)
    }

    /// Returns the row of the run with this number, arm and block.
    fn placed(
        machine: &str,
        seed: u64,
        (run, arm, block): (u64, &str, u32),
        it: &EndedRun,
    ) -> Self {
        Self {
            machine: machine.into(),
            seed,
            run,
            arm: arm.into(),
            block: u64::from(block),
            began_ns: it.began_ns,
            wall_ns: it.wall_ns,
            cpu_ns: it.cpu_ns,
            waited_ns: it.waited_ns,
            preemptions: it.preemptions,
            migrations: it.migrations,
            status: it.status.and_then(|status| u64::try_from(status).ok()),
            ran_on: it.ran_on.as_ref().map(|cpus| cpus.to_string().into()),
            allowed: it.allowed.as_ref().map(|cpus| cpus.to_string().into()),
            bound_to: it.bound_to.as_ref().map(|cpus| cpus.to_string().into()),
        }
    }
}

/// Returns the times for which the kernel barred a thread from its CPU, if the thread's row has these times.
fn bars(row: &RecordedThread) -> Option<Bars> {
    let all = [row.quota_ns, row.budget_ns, row.realtime_ns, row.frozen_ns, row.stopped_ns];
    let all: Option<Vec<u64>> = all.into_iter().collect();
    Some(Bars::new(all?.try_into().ok()?))
}

impl From<&RecordedThread> for ObservedThread {
    fn from(row: &RecordedThread) -> Self {
        Self {
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
            barred: bars(row),
        }
    }
}

impl RecordedRun {
    /// A failed run is not a valid observation.
    pub(super) fn observation(&self, arms: &[String]) -> Option<RowObservation> {
        let cell = arms.iter().position(|arm| **arm == *self.arm)? as u64;
        let value_ns = self.wall_ns as f64;
        let valid = self.status == Some(0);
        let replicate = Some(self.block);
        Some(RowObservation {
            cell,
            valid,
            measured: valid,
            value_ns,
            scale_ns: value_ns,
            replicate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absence(run: Option<u64>, tid: u64) -> RecordedAbsence {
        let absence = Absence {
            tid: tid as u32,
            out_ns: 0,
            in_ns: 1,
            seen: true,
            from: Cpu(0),
            to: Cpu(0),
            preempted: true,
            pinned: false,
            ran_ns: 0,
            cpu_ns: None,
            by: None,
        };
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        RecordedAbsence { run, ..RecordedAbsence::of(&platform, 1, 0, &absence) }
    }

    fn times(recording: &Recording, run: u64) -> u64 {
        recording.absences.of_run(run).map(|(_, count)| count.times).sum()
    }

    #[test]
    fn absences_belong_to_their_runs_also_where_a_batch_has_two() {
        let mut recording = Recording::default();
        recording.take_absences(&[absence(Some(0), 1), absence(Some(0), 2), absence(Some(2), 3)]);
        recording.take_absences(&[absence(Some(2), 4)]);
        let tids: Vec<u32> = recording.absences.of_run(2).map(|(kind, _)| kind.tid).collect();
        assert_eq!(tids, [3, 4]);
        let counts = [0, 1, 2].map(|run| times(&recording, run));
        assert_eq!((counts, recording.runs_begun()), ([2, 0, 2], 3));
        assert!(recording.ended_runs().is_empty(), "several runs, whose rows are not there");
    }

    #[test]
    fn an_earlier_file_knows_of_no_runs() {
        let mut recording = Recording::default();
        recording.take_absences(&[absence(None, 1)]);
        assert_eq!((recording.runs_begun(), recording.absences.times()), (0, 1));
        assert_eq!((recording.ended_runs().len(), recording.knows_runs()), (1, Some(false)));
    }
}
