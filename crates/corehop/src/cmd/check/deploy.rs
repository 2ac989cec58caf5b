// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check deploy`

use std::path::PathBuf;

use corehop_app::check::{DeploymentRequest, deploy};
use corehop_app::failure::{Exit, Failure};
use corehop_plan::units::Nanos;

use super::ChargeOptions;
use crate::output::{Force, is_quiet, stdout_layout, told};

/// Check and run a task set on this host, with all files in one folder. corehop measures the supply, the overheads
/// and the costs that no option gives, and tests the set. Then corehop assigns the tasks to CPUs, runs the tasks
/// under each load, and compares the jobs with their bounds.
///
/// Exit code 1 means that the answer is not yes, or that a job took longer than its bound. After an interruption, the
/// same command continues with the files in the folder; with --force, corehop measures everything again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the task set from this file, in the format of `corehop check`.
    #[arg(value_name = "SET.json")]
    file: PathBuf,
    /// Read and write the files of all steps in this folder
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    charges: ChargeOptions,
    /// Run the tasks for this long in each of two runs: one on the idle machine, and one beside programs that pollute
    /// the caches
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    duration: Nanos,
    /// Allow the run to switch off the machine's load balancing for seconds, if EDF on single CPUs needs this change
    #[arg(long)]
    allow_system: bool,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::new(Exit::Failed, error))?;
    let request = DeploymentRequest {
        file: args.file.clone(),
        folder: args.folder.clone(),
        charges: args.charges.request(),
        duration: args.duration,
        allow_system: args.allow_system,
        force: args.force.force,
        program,
        quiet: is_quiet(),
        layout: stdout_layout(),
    };
    told(&deploy(&request)?, args.json)
}
