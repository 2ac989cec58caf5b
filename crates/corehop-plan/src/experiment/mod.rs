// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments: pure functions from a platform and a seed to a plan.
//!
//! No experiment sleeps, sets an affinity or reads a clock, and none knows whether the machine that
//! will run its plan is real.

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

/// Why an experiment has no plan on a platform.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// A working set that cannot be touched as described.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A class of event that no pair of usable CPUs belongs to.
    #[error("{event} cannot be measured on {platform}: {why}")]
    NotMeasurable {
        /// The event asked for.
        event: Event,
        /// The platform's name.
        platform: String,
        /// The missing feature of the platform.
        why: String,
    },
    /// A CPU that the platform lacks, or that may not be used.
    #[error(transparent)]
    UnknownCpu(#[from] UnknownCpu),
    /// An experiment on one cell is given several, or none.
    #[error(
        "conditions examines one cell, but the options name {count}: name one working set, one write ratio and one event"
    )]
    NotOneCell {
        /// The number of cells described.
        count: usize,
    },
    /// Work that the platform cannot run.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// More samples than a plan may hold.
    #[error("{jobs} jobs in one plan; the maximum is {}", Jobs::MOST_JOBS)]
    TooLarge {
        /// The number of jobs asked for.
        jobs: u64,
    },
}

/// The parameters of an experiment, from which with the seed every plan follows.
pub trait ExperimentParameters {
    /// The parameters as JSON.
    fn parameters(&self) -> serde_json::Value;
}

impl<T: Serialize> ExperimentParameters for T {
    fn parameters(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

/// An experiment makes plans: so many samples of such cells, on a given platform.
pub trait Experiment: ExperimentParameters {
    /// The name that the command line and the column `experiment` use.
    fn name(&self) -> &'static str;

    /// The units it counts on `platform` with this seed: cells, runs of task sets, gangs; each with the
    /// requested number of samples.
    ///
    /// # Errors
    /// [`ExperimentError`] where a working set, an event or a CPU is impossible there.
    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<SamplingUnit>, ExperimentError>;

    /// The plan that takes `quota[i]` samples of unit `i` of [`Experiment::units`], at this turn of the
    /// run; jobs come in random order.
    ///
    /// # Errors
    /// [`ExperimentError`], as for [`Experiment::units`].
    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError>;

    /// The number of replicates by design; None where that is a choice.
    fn replicates(&self) -> Option<u32> {
        None
    }

    /// About how long the whole takes.
    ///
    /// # Errors
    /// [`ExperimentError`], as for [`Experiment::units`].
    fn projected(&self, platform: &Platform, seed: u64) -> Result<Nanos, ExperimentError> {
        Ok(SamplingUnit::projected(&self.units(platform, seed)?))
    }

    /// The whole plan: every unit with as many samples as asked for, in no replicates of its own.
    ///
    /// # Errors
    /// [`ExperimentError`], as for [`Experiment::units`].
    fn plan(&self, platform: &Platform, seed: u64) -> Result<Plan, ExperimentError> {
        let quota: Vec<u32> = self.units(platform, seed)?.iter().map(|unit| unit.asked).collect();
        self.block(platform, seed, RunPosition::default(), &quota)
    }

    /// The whole plan in so many replicates, each with its share of every unit's samples.
    ///
    /// # Errors
    /// [`ExperimentError`], as for [`Experiment::units`].
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

/// The place of a plan in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunPosition {
    /// The number of the plan in the run, so that each draws other jobs.
    pub block: u64,
    /// The replicate that it belongs to; None where the machine is to decide.
    pub replicate: Option<u32>,
}

/// The number of a cell's samples that the first `done` of so many replicates take together.
pub fn share(samples: u32, done: u32, replicates: u32) -> u32 {
    // Rounded up, so that the first replicate already has one of each cell.
    (u64::from(samples) * u64::from(done)).div_ceil(u64::from(replicates.max(1))) as u32
}

/// The replicates of a run whose smallest cell has so many samples: ten at least, up to twenty where
/// each still has three samples of it; never more than there are samples.
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
