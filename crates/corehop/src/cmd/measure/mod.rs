// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure`: run an experiment on a machine, and write a file. Each experiment owns its options;
//! shared options are one struct.

mod arms;
mod core_switch;
mod jobs;
mod loads;
pub(crate) mod on;
mod outline;
mod overheads;
mod partitioning;
mod plan;
mod program;
mod schedule_sensitive;
pub(super) mod shared_data;
mod supply;
mod to;
mod trace;

pub(crate) use schedule_sensitive::LIVE_SHARE;

use crate::exit::{Exit, Failure};

/// Measures.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Option<Experiment>,
    #[command(flatten)]
    plan: plan::FromFile,
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
    /// Run task sets under a scheduler, and sample the cost of their preemptions and migrations.
    /// With a program after `--`, the same as `measure program`
    ScheduleSensitive(Box<schedule_sensitive::Args>),
    /// Record a program's preemptions and migrations, the preempting threads, and the cost
    Program(Box<program::Args>),
    /// Measure the cost of switching cores for one call, by mechanism and pair of CPUs
    CoreSwitch(Box<core_switch::Args>),
    /// Measure the kernel's scheduling overheads, as a table for `check --overheads`
    Overheads(Box<overheads::Args>),
    /// Record when, and for how long, CPUs run something else than the thread that should run, for `check --supply`
    Supply(Box<supply::Args>),
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.experiment {
        None => args.plan.run(),
        Some(Experiment::Synthetic(it)) => it.run(),
        Some(Experiment::AccessTime(it)) => it.run(),
        Some(Experiment::PreemptionLength(it)) => it.run(),
        Some(Experiment::PolluterSweep(it)) => it.run(),
        Some(Experiment::Conditions(it)) => it.run(),
        Some(Experiment::SharedData(it)) => it.run(),
        Some(Experiment::ScheduleSensitive(it)) => it.run(),
        Some(Experiment::Program(it)) => it.run(),
        Some(Experiment::CoreSwitch(it)) => it.run(),
        Some(Experiment::Overheads(it)) => it.run(),
        Some(Experiment::Supply(it)) => it.run(),
    }
}
