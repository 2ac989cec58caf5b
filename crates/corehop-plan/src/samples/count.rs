// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of samples taken of each unit of an experiment.

use super::origin::Observation;
use super::row::{RecordedRun, SharedData, SwitchBatch, TaskJob};
use super::table::Rows;
use crate::experiment::Plan;

/// Counts what a plan's rows come to, in units of its experiment.
#[derive(Debug, Clone)]
pub struct Counter(By);

#[derive(Debug, Clone)]
pub(super) enum By {
    /// One for each job, of its cell.
    Job,
    /// One for each run of a gang.
    GangRun,
    /// One for each batch of core switches.
    SwitchBatch,
    /// One for each window, of its CPU; the CPUs.
    SupplyWindow(Vec<u64>),
    /// One for each run of a program, of its arm; the names of these.
    ProgramRun(Vec<String>),
    /// One for each run of a task set that has ended. So many are planned; one may be under way.
    TaskRun { planned: u64, under_way: Option<u64> },
    /// One for the whole plan, when it has ended.
    Plan,
}

impl Counter {
    /// For the rows of plans of an experiment that counts so many units, of which `plan` is one.
    pub fn new(plan: &Plan, units: usize) -> Self {
        Self(plan.counted(units as u64))
    }

    /// The observations that some rows come to.
    pub fn take(&mut self, rows: &Rows) -> Vec<Observation> {
        match &mut self.0 {
            By::Job => rows.observations(),
            By::GangRun => {
                let first_threads = rows.shared_data.iter().filter(|row| row.member == 0);
                first_threads.map(SharedData::observation).collect()
            }
            By::SwitchBatch => rows.switches.iter().map(SwitchBatch::observation).collect(),
            By::SupplyWindow(cpus) => {
                rows.supply.iter().filter_map(|row| row.observation(cpus)).collect()
            }
            By::TaskRun { planned, under_way } => {
                let ended = |job: &TaskJob| {
                    let before = under_way.replace(job.run)?;
                    (before != job.run).then(|| of_run(before, *planned))
                };
                rows.task_jobs.iter().filter_map(ended).collect()
            }
            By::ProgramRun(arms) => {
                rows.runs.iter().filter_map(|row| row.observation(arms)).collect()
            }
            By::Plan => Vec::new(),
        }
    }

    /// The run that was under way has ended as planned.
    pub fn complete(&mut self) -> Option<Observation> {
        match &mut self.0 {
            By::TaskRun { planned, under_way } => Some(of_run(under_way.take()?, *planned)),
            By::Plan => Some(of_run(0, 1)),
            By::Job | By::GangRun | By::SwitchBatch | By::SupplyWindow(_) | By::ProgramRun(_) => {
                None
            }
        }
    }

    /// The run that was under way was cut off: it does not count.
    pub const fn cut_off(&mut self) {
        if let By::TaskRun { under_way, .. } = &mut self.0 {
            *under_way = None;
        }
    }
}

/// A run counts for its place in the plan, whatever its number: see [`crate::experiment::TaskRun::number`].
fn of_run(number: u64, planned: u64) -> Observation {
    let cell = number % planned.max(1);
    Observation { cell, valid: true, measured: true, value_ns: 0.0, scale_ns: 0.0, replicate: None }
}

impl RecordedRun {
    /// A run that failed does not count.
    fn observation(&self, arms: &[String]) -> Option<Observation> {
        let cell = arms.iter().position(|arm| **arm == *self.arm)? as u64;
        let value_ns = self.wall_ns as f64;
        let valid = self.status == Some(0);
        let replicate = Some(self.block);
        Some(Observation { cell, valid, measured: valid, value_ns, scale_ns: value_ns, replicate })
    }
}

impl SharedData {
    fn observation(&self) -> Observation {
        Observation {
            cell: self.gang,
            valid: true,
            measured: true,
            value_ns: self.time_ns,
            scale_ns: self.time_ns,
            // Every run of a simulated machine starts anew.
            replicate: self.replicate.or(Some(self.run)),
        }
    }
}
