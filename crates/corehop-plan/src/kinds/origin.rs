// SPDX-License-Identifier: MIT OR Apache-2.0
//! The origin of rows: the plan, the job and the cell to which a record belongs.

use crate::kinds::{Cell, Job, JobRecord, Jobs, Plan, Renewed, Step, Text};
use crate::platform::{MemoryArchitecture, Platform};
use crate::workload::{Absence, Mover, WorkingSet};

/// Facts that all rows of a plan share.
#[derive(Debug, Clone)]
pub(super) struct RunContext {
    pub(super) experiment: Text,
    pub(super) machine: Text,
    pub(super) memory_architecture: MemoryArchitecture,
    pub(super) seed: u64,
}

impl RunContext {
    pub(super) fn new(plan: &Plan, platform: &Platform) -> Self {
        Self {
            experiment: plan.experiment.as_str().into(),
            machine: platform.id.as_str().into(),
            memory_architecture: platform.memory_architecture(),
            seed: plan.seed,
        }
    }
}

/// The job of a record, as its plan describes it.
pub(super) struct JobProvenance<'a> {
    /// The number of the job in the run.
    pub(super) job: u64,
    pub(super) cell: &'a Cell,
    /// The number of the cell to which the job belongs.
    pub(super) number: usize,
    pub(super) set: &'a WorkingSet,
    /// The label of the preemption lengths for tables.
    pub(super) length: Text,
    pub(super) mover: Mover,
    /// The text for the column `polluter`: the preemptor's walk and the load's command.
    pub(super) polluter: Option<String>,
    pub(super) replicate: Option<u64>,
    pub(super) renewed: Option<Renewed>,
}

impl<'a> JobProvenance<'a> {
    /// Returns the provenance of a record of `jobs`; `before` has the number of jobs before each phase.
    pub(super) fn of(jobs: &'a Jobs, record: &JobRecord, before: &[u64]) -> Option<Self> {
        let phase = jobs.phases.get(record.phase)?;
        let job = phase.jobs.get(record.job)?;
        let cell = jobs.cells.get(job.cell)?;
        Some(Self {
            job: before.get(record.phase)? + record.job as u64,
            cell,
            number: job.cell,
            set: jobs.sets.get(cell.set)?,
            length: length_text(cell, job),
            mover: jobs.mover,
            polluter: polluter_text(jobs, job, cell),
            // Where the phase does not say it, the draw that the machine names.
            replicate: phase.replicate.map(u64::from).or(record.draw),
            renewed: phase.condition.map(|condition| condition.renewed),
        })
    }
}

/// Returns the label of the cell's preemption lengths; `none` if the job stays on its CPU.
fn length_text(cell: &Cell, job: &Job) -> Text {
    let leaves = job.steps.iter().any(|step| matches!(step, Step::Leave(_)));
    if leaves { cell.length.to_string().into() } else { "none".into() }
}

/// Returns the text for the column `polluter`: the preemptor's walk, the command of the load, or the
/// walk beside the command.
fn polluter_text(jobs: &Jobs, job: &Job, cell: &Cell) -> Option<String> {
    let preemptor = jobs.preemptor_of(job).filter(|_| cell.absence == Absence::Preemptor);
    match (preemptor, cell.load.runs()) {
        (Some(preemptor), Some(runs)) => Some(format!("{preemptor} beside {runs}")),
        (preemptor, runs) => runs.or_else(|| preemptor.map(ToString::to_string)),
    }
}

/// The part of a row that decides how many more samples to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowObservation {
    /// The cell to which the row belongs.
    pub cell: u64,
    /// Whether the row is a valid observation.
    pub valid: bool,
    /// Whether the row has a value at all, valid or disturbed. corehop stops early if a cell cannot be
    /// measured.
    pub measured: bool,
    /// The quantity that a precision is requested for, in nanoseconds: a delay, or a time.
    pub value_ns: f64,
    /// The reference value of the requested precision, in nanoseconds.
    pub scale_ns: f64,
    /// The replicate to which the row belongs, if known.
    pub replicate: Option<u64>,
}
