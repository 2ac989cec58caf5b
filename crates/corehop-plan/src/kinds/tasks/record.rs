// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a job of a task set, and its rows.

use crate::kinds::origin::{JobProvenance, RunContext};
use crate::kinds::{Cause, JobRecord, Sample, TaskCells, TaskJob, Tasks};
use crate::kinds::{JobOutcome, RowTime};
use crate::platform::Platform;
use crate::units::{Bytes, Cpu};
use crate::workload::{Absence, Event, Mover};

/// One job of a task set, as it went. Times are in nanoseconds since the run started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskJobRecord {
    /// The run of the plan, counted from 0.
    pub run: usize,
    /// The task of the set, counted from 0.
    pub task: usize,
    /// Its number in the task, counted from 0.
    pub job: u64,
    /// When it was released.
    pub release_ns: u64,
    /// When it first had a CPU.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// The time it had a CPU.
    pub executed_ns: u64,
    /// Its course.
    pub course: JobOutcome,
    /// The number of times it lost its CPU and had the same one afterwards.
    pub preemptions: u32,
    /// The number of times it lost its CPU and had another one afterwards.
    pub migrations: u32,
    /// Its first absence, where it had one.
    pub away: Option<JobAbsence>,
    /// Cold, warm and resumed touch, and the absence between them: where it came to a resumed touch.
    pub touched: Option<JobRecord>,
}

/// An absence of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobAbsence {
    /// The CPU it lost.
    pub from: Cpu,
    /// The CPU it had afterwards.
    pub to: Cpu,
    /// For how long, in nanoseconds.
    pub length_ns: f64,
    /// The task of its set that had its CPU first; none where that was something else.
    pub by: Option<usize>,
}

/// Makes rows of the records of task sets on a platform.
#[derive(Debug, Clone)]
pub(super) struct TaskRows<'a> {
    tasks: &'a Tasks,
    platform: &'a Platform,
    cells: TaskCells,
    context: RunContext,
}

impl<'a> TaskRows<'a> {
    pub(super) fn new(tasks: &'a Tasks, platform: &'a Platform, context: RunContext) -> Self {
        Self { tasks, platform, cells: tasks.cells(), context }
    }

    /// The number of a run in the result.
    fn number(&self, run: usize) -> u64 {
        self.tasks.runs[run].number.unwrap_or(run as u64)
    }

    /// The event that an absence was.
    fn event(&self, away: JobAbsence) -> Event {
        Event::resuming(self.platform, away.from, away.to)
    }

    /// The sample that a job gave, where it came to a resumed touch; `number` is the job's in the run.
    ///
    /// It is valid where the job went as in Fig. 1 and nothing disturbed its touches. That a core was slower
    /// or faster in one of them is no disturbance here: what other tasks do on its siblings is part of the
    /// schedule that is measured. The columns of spins show it.
    pub(super) fn sample(&self, record: &TaskJobRecord, number: u64) -> Option<Sample> {
        let (touched, away) = (record.touched.as_ref()?, record.away?);
        let run = &self.tasks.runs[record.run];
        let mut sample = Sample::of(&self.context, &self.origin(record, away, number), touched)?;
        sample.disturbed_by.retain(|&cause| cause != Cause::Frequency);
        if record.course != JobOutcome::Sample && !sample.disturbed_by.contains(&Cause::Preempted) {
            sample.disturbed_by.insert(0, Cause::Preempted);
        }
        sample.valid = sample.disturbed_by.is_empty();
        Some(Sample {
            task: Some(record.task as u64),
            task_count: Some(run.tasks.len() as u64),
            preempted_by: if away.by.is_some() { Absence::Preemptor } else { Absence::Nothing },
            ..sample
        })
    }

    /// The origin of a job's sample.
    fn origin(&self, record: &TaskJobRecord, away: JobAbsence, job: u64) -> JobProvenance<'_> {
        let event = self.event(away);
        let way = Event::RESUMING.iter().position(|&way| way == event).unwrap_or(0);
        let number = self.cells.first[record.run][record.task] + way;
        let cell = &self.cells.cells[number];
        JobProvenance {
            job,
            cell,
            number,
            set: &self.cells.sets[cell.set],
            length: AS_SCHEDULED.into(),
            mover: Mover::Affinity,
            polluter: cell.load.runs(),
            // Every run starts its threads and maps its memory anew.
            replicate: Some(self.number(record.run)),
            renewed: None,
        }
    }

    /// The row of a job.
    pub(super) fn job(&self, record: &TaskJobRecord) -> TaskJob {
        let run = &self.tasks.runs[record.run];
        let task = &run.tasks[record.task];
        let due_ns = record.release_ns + task.deadline.get();
        TaskJob {
            machine: self.platform.id.as_str().into(),
            scheduler: self.tasks.scheduler,
            seed: self.context.seed,
            run: self.number(record.run),
            set: u64::from(run.index),
            load: run.load.word().into(),
            task: record.task as u64,
            task_count: run.tasks.len() as u64,
            wss_bytes: task.set.wss.get(),
            write_ratio: task.set.write_ratio,
            job: record.job,
            period_ns: task.period.get(),
            deadline_ns: task.deadline.get(),
            wcet_ns: task.wcet.get(),
            release_ns: record.release_ns,
            latency_ns: record.began_ns as f64 - record.release_ns as f64,
            response_ns: record.ended_ns as f64 - record.release_ns as f64,
            lateness_ns: record.ended_ns as f64 - due_ns as f64,
            executed_ns: record.executed_ns,
            course: record.course,
            preemptions: u64::from(record.preemptions),
            migrations: u64::from(record.migrations),
            event: record.away.map_or(Event::None, |away| self.event(away)),
            length_ns: record.away.map(|away| away.length_ns),
            by: record.away.and_then(|away| away.by).map(|task| task as u64),
            scale: run.scale,
        }
    }
}

/// The label of preemption lengths that a scheduler brought about.
pub const AS_SCHEDULED: &str = "as_scheduled";

impl TaskJob {
    /// The times from its release, for comparisons. Every run starts its threads and maps its memory anew.
    pub(super) fn times(&self) -> [RowTime; 2] {
        let group = format!(
            "jobs of {} tasks under {}, load {}",
            self.task_count, self.scheduler, self.load
        );
        let size = Bytes::new(self.wss_bytes);
        let of = |(place, what, ns): (u64, &str, f64)| RowTime {
            experiment: "schedule-sensitive",
            group: group.clone(),
            place,
            name: format!("{what}, {size}"),
            replicate: self.run,
            ns: Ok(ns.max(0.0)),
        };
        [(0, "release to begin", self.latency_ns), (1, "release to end", self.response_ns)].map(of)
    }
}
