// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure`: run an experiment on a machine, and write a file. Each experiment owns its options;
//! shared options are one struct.

mod core_switch;
mod jobs;
mod loads;
pub(crate) mod on;
pub(super) mod outline;
mod overheads;
mod partitioning;
mod plan;
mod program_costs;
mod schedule_sensitive;
pub(super) mod shared_data;
mod supply;
pub(super) mod to;
mod trace;

use super::sim;
use corehop_app::failure::{Exit, Failure};

/// Measures.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true, subcommand_value_name = "EXPERIMENT")]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: ExperimentCommand,
}

/// The experiments.
#[derive(Debug, clap::Subcommand)]
enum ExperimentCommand {
    /// Run the synthetic method: a cold touch, a warm touch, an event, and a resumed touch of a working set
    Synthetic(Box<jobs::SyntheticOptions>),
    /// Measure the access time by working-set size
    AccessTime(Box<jobs::AccessTimeOptions>),
    /// Compare requested with actual preemption lengths
    PreemptionLength(Box<jobs::PreemptionLengthOptions>),
    /// Measure the delay after preemptions of different lengths
    PolluterSweep(Box<jobs::PolluterSweepOptions>),
    /// Find the causes of the spread between replicates: page frames, access order, threads, other work, time
    Conditions(Box<jobs::ConditionOptions>),
    /// Run threads that share data, with and without a common cache
    SharedData(Box<shared_data::Args>),
    /// Run task sets under a scheduler, and sample the cost of their preemptions and migrations
    ScheduleSensitive(Box<schedule_sensitive::Args>),
    /// Measure the cost of switching cores for one call, by mechanism and pair of CPUs
    CoreSwitch(Box<core_switch::Args>),
    /// Measure the kernel's scheduling overheads, as a table for `check --overheads`
    Overheads(Box<overheads::Args>),
    /// Measure the cost of a preemption and a migration for a program, by causing both in the program
    ProgramCosts(Box<program_costs::Args>),
    /// Record the gaps in which a CPU does not run the thread that should run, for `check --supply`
    Supply(Box<supply::Args>),
    /// Measure the caches and CPUs of this host, and write a platform file
    Platform(sim::platform::PlatformMeasurementOptions),
    /// Run a plan from a file
    Plan(Box<plan::Args>),
}

/// Runs the requested experiment.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.experiment {
        ExperimentCommand::Synthetic(it) => it.run(),
        ExperimentCommand::AccessTime(it) => it.run(),
        ExperimentCommand::PreemptionLength(it) => it.run(),
        ExperimentCommand::PolluterSweep(it) => it.run(),
        ExperimentCommand::Conditions(it) => it.run(),
        ExperimentCommand::SharedData(it) => it.run(),
        ExperimentCommand::ScheduleSensitive(it) => it.run(),
        ExperimentCommand::CoreSwitch(it) => it.run(),
        ExperimentCommand::Overheads(it) => it.run(),
        ExperimentCommand::ProgramCosts(it) => it.run(),
        ExperimentCommand::Supply(it) => it.run(),
        ExperimentCommand::Platform(it) => it.run(),
        ExperimentCommand::Plan(it) => it.run(),
    }
}
