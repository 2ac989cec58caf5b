// SPDX-License-Identifier: MIT OR Apache-2.0
//! An experiment is a pure function from a platform and a seed to a plan.
//!
//! No experiment sleeps, sets an affinity or reads a clock, and no experiment knows whether a real or a
//! simulated machine will run its plan.

mod access_time;
mod conditions;
mod core_switch;
mod overheads;
mod overrides;
mod polluter_sweep;
mod preemption_length;
mod preset;
mod program;
mod program_arms;
mod program_costs;
mod moving_window;
mod shared_data;
mod supply;
mod synthetic;
mod task_sets;

pub use crate::kinds::gangs::{Gang, GangMove, Gangs, GangsError, MOST_THREADS};
pub use crate::kinds::jobs::{
    Absent, Cell, Condition, Job, JobRows, Jobs, JobsError, Length, Phase, Renewed, Step, names,
};
pub use crate::kinds::overheads::{Overheads, OverheadsError};
pub use crate::kinds::program::{Argument, Arm, Program, ProgramError, ProgramRun, Target};
pub use crate::kinds::program_costs::{
    InterventionBlock, InterventionClass, InterventionError, Interventions,
};
pub use crate::kinds::supply::{PlannedWindow, Watch, WatchError};
pub use crate::kinds::switches::{SwitchCell, SwitchRound, Switches, SwitchesError};
pub use crate::kinds::tasks::{MOST_TASKS, PlannedTask, TaskCells, TaskRun, Tasks, TasksError};
pub use crate::kinds::{Body, BodyError, Kind, PLAN_SCHEMA, Plan, PlanError, SamplingUnit};
pub use crate::words::digest;
pub use crate::workload::draw::DrawStream;
pub use access_time::AccessTime;
pub use conditions::Conditions;
pub use core_switch::CoreSwitch;
pub use moving_window::MovingWindow;
pub use overheads::KernelOverheads;
pub use overrides::Overrides;
pub use polluter_sweep::PolluterSweep;
pub use preemption_length::PreemptionLength;
pub use preset::migrations;
pub use preset::{Preset, UnknownPreset};
pub use program_arms::ProgramArms;
pub use program_costs::ProgramCosts;
pub use shared_data::SharedData;
pub use supply::MeasuredSupply;
pub use synthetic::{SamplingGroup, Synthetic};
pub use task_sets::{GivenTask, RandomSets, TaskOrigin, TaskSets};

use serde::Serialize;

use crate::kinds::for_each_kind;
use crate::platform::{Platform, UnknownCpu};
use crate::units::Nanos;
use crate::workload::{Event, WorkloadError};

/// The reason why an experiment has no plan on a platform.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// The experiment cannot touch a working set as described.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// No pair of usable CPUs belongs to the class of the event.
    #[error("{event} cannot be measured on {platform}: {why}")]
    NotMeasurable {
        /// The event that the experiment requested.
        event: Event,
        /// The name of the platform that has no pair of usable CPUs of this class.
        platform: String,
        /// The reason why no pair of CPUs belongs to the class, as a clause.
        why: String,
    },
    /// The platform lacks a CPU that the experiment names, or the experiment may not use that CPU.
    #[error(transparent)]
    UnknownCpu(#[from] UnknownCpu),
    /// An experiment that examines a single cell is given several cells, or none.
    #[error(
        "conditions examines one cell, but the options name {count}: name one working set, one write ratio and one event"
    )]
    NotOneCell {
        /// The number of cells that the parameters describe.
        count: usize,
    },
    /// The platform cannot run the work of the plan.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The plan would need more samples than a plan can hold.
    #[error(
        "the plan would have {jobs} jobs, but a plan has at most {}: measure fewer cells or samples",
        Jobs::MOST_JOBS
    )]
    TooLarge {
        /// The number of jobs that the experiment requested.
        jobs: u64,
    },
}

/// The parameters of an experiment: together with the seed, the parameters determine every plan.
pub trait ExperimentParameters {
    /// Returns the parameters of the experiment as JSON.
    fn parameters(&self) -> serde_json::Value;
}

impl<T: Serialize> ExperimentParameters for T {
    fn parameters(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

/// An experiment makes plans: each plan takes a number of samples of some cells on a given platform.
pub trait Experiment: ExperimentParameters {
    /// Returns the name that the command line and the column `experiment` use.
    fn name(&self) -> &'static str;

    /// Returns the units that the experiment counts on `platform` with this seed (cells, runs of task
    /// sets, or gangs), each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU of
    /// the experiment.
    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<SamplingUnit>, ExperimentError>;

    /// Returns the plan that takes `quota[i]` samples of unit `i` of [`Experiment::units`] at this
    /// position of the run; the jobs come in random order.
    ///
    /// # Errors
    /// Returns [`ExperimentError`], as [`Experiment::units`] does.
    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError>;

    /// Returns the number of replicates that the design of the experiment fixes, or `None` if the user
    /// chooses the number.
    fn replicates(&self) -> Option<u32> {
        None
    }

    /// Returns a rough estimate of the time that the whole experiment takes.
    ///
    /// # Errors
    /// Returns [`ExperimentError`], as [`Experiment::units`] does.
    fn projected(&self, platform: &Platform, seed: u64) -> Result<Nanos, ExperimentError> {
        Ok(SamplingUnit::projected(&self.units(platform, seed)?))
    }

    /// Returns the whole plan without replicates: every unit with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`], as [`Experiment::units`] does.
    fn plan(&self, platform: &Platform, seed: u64) -> Result<Plan, ExperimentError> {
        let quota: Vec<u32> = self.units(platform, seed)?.iter().map(|unit| unit.asked).collect();
        self.block(platform, seed, RunPosition::default(), &quota)
    }

    /// Returns the whole plan in `replicates` replicates, each with its share of every unit's samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`], as [`Experiment::units`] does.
    fn replicated(
        &self,
        platform: &Platform,
        seed: u64,
        replicates: u32,
    ) -> Result<Plan, ExperimentError> {
        let asked: Vec<u32> = self.units(platform, seed)?.iter().map(|unit| unit.asked).collect();
        let jobs = asked.iter().map(|&samples| u64::from(samples)).sum();
        if jobs > Jobs::MOST_JOBS {
            return Err(ExperimentError::TooLarge { jobs });
        }
        let mut whole =
            self.block(platform, seed, RunPosition::default(), &vec![0; asked.len()])?;
        for replicate in 0..replicates {
            let quota: Vec<u32> = asked
                .iter()
                .map(|&samples| {
                    share(samples, replicate + 1, replicates)
                        - share(samples, replicate, replicates)
                })
                .collect();
            let turn = RunPosition { block: u64::from(replicate), replicate: Some(replicate) };
            whole.extend(self.block(platform, seed, turn, &quota)?);
        }
        Ok(whole)
    }
}

/// The position of a plan in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunPosition {
    /// The number of the plan in the run; plans with different numbers draw different jobs.
    pub block: u64,
    /// The replicate to which the plan belongs, or `None` if the machine decides when a replicate begins.
    pub replicate: Option<u32>,
}

/// Returns the number of a cell's samples that the first `done` of `replicates` replicates take
/// together.
pub fn share(samples: u32, done: u32, replicates: u32) -> u32 {
    // Rounded up, so that the first replicate already has one of each cell.
    (u64::from(samples) * u64::from(done)).div_ceil(u64::from(replicates.max(1))) as u32
}

/// Returns the usual number of replicates of a run whose smallest cell has `fewest_samples` samples. The usual
/// number of replicates is ten, or up to twenty if each replicate still has three samples of the smallest cell, but
/// never more than `fewest_samples`.
pub fn usual_replicates(fewest_samples: u32) -> u32 {
    (fewest_samples / 3).clamp(10, 20).min(fewest_samples.max(1))
}

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        $(impl From<<$body as Kind>::Error> for ExperimentError {
            fn from(error: <$body as Kind>::Error) -> Self {
                Self::Body(BodyError::$kind(error))
            }
        })+
    };
}

for_each_kind!(errors);
