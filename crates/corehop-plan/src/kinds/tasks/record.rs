// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a job of a task set, and the conversion to rows.

use crate::kinds::origin::{JobProvenance, RunContext};
use crate::kinds::{Cause, JobRecord, Sample, TaskCells, TaskJob, Tasks};
use crate::kinds::{JobOutcome, RowTime};
use crate::platform::Platform;
use crate::units::{Bytes, Cpu};
use crate::workload::{Absence, Event, Mover};

/// The record of one job of a task set. Times are in nanoseconds since the start of the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskJobRecord {
    /// The index of the run in the plan, counted from 0.
    pub run: usize,
    /// The task of the job, counted from 0 in its set.
    pub task: usize,
    /// The number of the job in its task, counted from 0.
    pub job: u64,
    /// The time at which the job was released.
    pub release_ns: u64,
    /// The time at which the job first had a CPU.
    pub began_ns: u64,
    /// The time at which the job ended.
    pub ended_ns: u64,
    /// The time for which the job had a CPU.
    pub executed_ns: u64,
    /// The course of the job, compared with Fig. 1 of Bastoni et al.
    pub course: JobOutcome,
    /// The number of times that the job lost its CPU and resumed on the same CPU.
    pub preemptions: u32,
    /// The number of times that the job lost its CPU and resumed on another CPU.
    pub migrations: u32,
    /// The first absence of the job, or `None` if the job was never absent.
    pub away: Option<JobAbsence>,
    /// The cold, warm and resumed touch with the absence between them, or `None` if the job made no resumed
    /// touch.
    pub touched: Option<JobRecord>,
}

/// An absence of a job from its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobAbsence {
    /// The CPU that the job lost.
    pub from: Cpu,
    /// The CPU on which the job resumed.
    pub to: Cpu,
    /// The length of the absence, in nanoseconds.
    pub length_ns: f64,
    /// The task of the job's set that first had the CPU during the absence, or `None` if another thread had the CPU.
    pub by: Option<usize>,
}

/// Converts records of task sets on a platform to rows.
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

    /// Returns the number of a run in the result.
    fn number(&self, run: usize) -> u64 {
        self.tasks.runs[run].number.unwrap_or(run as u64)
    }

    /// Returns the event that an absence of a job stands for.
    fn event(&self, away: JobAbsence) -> Event {
        Event::resuming(self.platform, away.from, away.to)
    }

    /// Returns the sample of a job, or `None` if the job made no resumed touch. `number` is the number of
    /// the job in the run.
    ///
    /// The sample is valid if the job's course was as in Fig. 1 and nothing disturbed its touches. A core
    /// that becomes slower or faster in one of the touches is no disturbance of a task's job, because the
    /// work of other tasks on SMT siblings is part of the measured schedule. The columns of spins show that
    /// a core became slower or faster.
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

    /// Returns the origin of a job's sample.
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

    /// Returns the row of a job.
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

/// The label of preemption lengths that result from a schedule.
pub const AS_SCHEDULED: &str = "as_scheduled";

impl TaskJob {
    /// Returns the times from the job's release, for comparisons. Every run is a replicate, because a run
    /// starts its threads and maps its memory anew.
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
