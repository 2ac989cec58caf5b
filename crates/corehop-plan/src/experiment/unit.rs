// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units of an experiment: cells of jobs, runs of task sets, gangs.

use super::cell::{Cell, names};
use super::gangs::{Gang, Gangs};
use super::jobs::Jobs;
use super::plan::{Body, Plan};
use super::tasks::{TaskRun, Tasks};
use crate::units::Nanos;
use crate::workload::WorkingSet;

/// The unit of an experiment that takes a number of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// A short name, which tells it from the others.
    pub name: String,
    /// The number of samples asked for.
    pub asked: u32,
    /// About how long a sample takes; 0 where that is unknown.
    pub each: Nanos,
}

impl Unit {
    /// Those of jobs: the cells, each with the number of samples asked for.
    pub fn of_cells(cells: &[(Cell, u32)], sets: &[WorkingSet]) -> Vec<Self> {
        let only: Vec<Cell> = cells.iter().map(|(cell, _)| cell.clone()).collect();
        let unit = |((cell, asked), name): (&(Cell, u32), String)| {
            let each = sets.get(cell.set).map(|set| cell.projected(set)).unwrap_or_default();
            Self { name, asked: *asked, each }
        };
        cells.iter().zip(names(&only, sets)).map(unit).collect()
    }

    /// Those of task sets: the runs.
    pub fn of_tasks(tasks: &Tasks) -> Vec<Self> {
        let unit = |run: &TaskRun| Self { name: run.name(), asked: 1, each: run.duration };
        tasks.runs.iter().map(unit).collect()
    }

    /// Those of threads with common data: the gangs.
    pub fn of_gangs(gangs: &Gangs) -> Vec<Self> {
        let each = Nanos::default();
        let unit = |gang: &Gang| Self { name: gang.name(), asked: gang.samples, each };
        gangs.gangs.iter().map(unit).collect()
    }

    /// About how long the samples asked for take together.
    pub fn projected(units: &[Self]) -> Nanos {
        let of = |unit: &Self| u64::from(unit.asked).saturating_mul(unit.each.get());
        Nanos::new(units.iter().map(of).fold(0, u64::saturating_add))
    }
}

impl Plan {
    /// The units it counts, each with its number of samples.
    pub fn units(&self) -> Vec<Unit> {
        match &self.body {
            Body::Jobs(jobs) => of_jobs(jobs),
            Body::Tasks(tasks) => Unit::of_tasks(tasks),
            Body::Gangs(gangs) => Unit::of_gangs(gangs),
            Body::Program(program) => program.units(),
            Body::Overheads(overheads) => vec![overheads.unit()],
            Body::Switches(switches) => switches.units(),
            Body::Supply(watch) => watch.units(),
        }
    }
}

fn of_jobs(jobs: &Jobs) -> Vec<Unit> {
    let mut counts = vec![0; jobs.cells.len()];
    for job in jobs.phases.iter().flat_map(|phase| &phase.jobs) {
        // A plan by hand may name a cell that is not there.
        counts.get_mut(job.cell).into_iter().for_each(|count| *count += 1);
    }
    let cells: Vec<(Cell, u32)> = jobs.cells.iter().cloned().zip(counts).collect();
    Unit::of_cells(&cells, &jobs.sets)
}
