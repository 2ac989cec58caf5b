// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure`: an experiment, on a machine, into a file. Each experiment owns its options; those
//! that several have are one struct.

mod jobs;
mod loads;
mod on;
mod outline;
mod overheads;
mod partitioning;
mod plan;
mod program;
mod schedule_sensitive;
mod shared_data;
mod to;

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
    /// The synthetic method: cold, warm, an event, resumed
    Synthetic(Box<jobs::Synthetic>),
    /// Access times by working-set size
    AccessTime(Box<jobs::AccessTime>),
    /// Preemption lengths asked against got
    PreemptionLength(Box<jobs::PreemptionLength>),
    /// Delay against preemption length
    PolluterSweep(Box<jobs::PolluterSweep>),
    /// What makes the spread between replicates of one cell: page frames, order, threads, others, time
    Conditions(Box<jobs::Conditions>),
    /// Threads with common data, below a common cache and without one (simulated)
    SharedData(Box<shared_data::Args>),
    /// Task sets under a scheduler: preemptions and migrations as they happen, and what they cost.
    /// With a program after `--`, the same as `measure program`
    ScheduleSensitive(Box<schedule_sensitive::Args>),
    /// A program as it runs: its preemptions and migrations, by whom, and what they cost
    Program(Box<program::Args>),
    /// What the kernel takes for scheduling, as a table that `check --overheads` reads
    Overheads(Box<overheads::Args>),
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
        Some(Experiment::Overheads(it)) => it.run(),
    }
}
