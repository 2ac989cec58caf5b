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
mod schedule_sensitive;
pub(super) mod shared_data;
mod supply;
pub(super) mod to;
mod trace;

pub(crate) use schedule_sensitive::LIVE_SHARE;

use super::sim;
use corehop_app::failure::{Exit, Failure};

/// Measures.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true, subcommand_value_name = "EXPERIMENT")]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

/// The experiments.
#[derive(Debug, clap::Subcommand)]
enum Experiment {
    /// Run the synthetic method: cold touch, warm touch, an event, resumed touch
    Synthetic(Box<jobs::Synthetic>),
    /// Measure access times by working-set size
    AccessTime(Box<jobs::AccessTime>),
    /// Compare requested with actual preemption lengths
    PreemptionLength(Box<jobs::PreemptionLength>),
    /// Measure delay against preemption length
    PolluterSweep(Box<jobs::PolluterSweep>),
    /// Find the causes of the spread between replicates: page frames, order, threads, others, time
    Conditions(Box<jobs::Conditions>),
    /// Run threads with common data, with and without a common cache (simulated)
    SharedData(Box<shared_data::Args>),
    /// Run task sets under a scheduler, and sample the cost of their preemptions and migrations
    ScheduleSensitive(Box<schedule_sensitive::Args>),
    /// Measure the cost of switching cores for one call, by mechanism and pair of CPUs
    CoreSwitch(Box<core_switch::Args>),
    /// Measure the kernel's scheduling overheads, as a table for `check --overheads`
    Overheads(Box<overheads::Args>),
    /// Record when, and for how long, CPUs run something else than the thread that should run, for `check --supply`
    Supply(Box<supply::Args>),
    /// Measure the caches and the CPUs of this host, and describe it
    Platform(sim::platform::Measured),
    /// Run a plan from a file
    Plan(Box<plan::Args>),
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.experiment {
        Experiment::Synthetic(it) => it.run(),
        Experiment::AccessTime(it) => it.run(),
        Experiment::PreemptionLength(it) => it.run(),
        Experiment::PolluterSweep(it) => it.run(),
        Experiment::Conditions(it) => it.run(),
        Experiment::SharedData(it) => it.run(),
        Experiment::ScheduleSensitive(it) => it.run(),
        Experiment::CoreSwitch(it) => it.run(),
        Experiment::Overheads(it) => it.run(),
        Experiment::Supply(it) => it.run(),
        Experiment::Platform(it) => it.run(),
        Experiment::Plan(it) => it.run(),
    }
}
