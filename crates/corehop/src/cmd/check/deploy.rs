// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check deploy`

use std::path::PathBuf;

use corehop_app::check::{DeploymentRequest, deploy};
use corehop_app::failure::{Exit, Failure};
use corehop_plan::units::Nanos;

use super::ChargeOptions;
use crate::output::{Force, is_quiet, stdout_layout, told};

/// Go the whole way on this host, with the files in a folder: measure its supply, overheads and costs (those that no option
/// gives), ask, place the tasks, run them under each load, and set the jobs beside their bounds.
///
/// Exit code 1: the answer is not yes, or a job took longer than its bound. A run that was interrupted goes on with the files
/// that it has; --force measures anew.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task set in the format of `corehop check`.
    #[arg(value_name = "SET.json")]
    file: PathBuf,
    /// The folder for the files of all steps
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    charges: ChargeOptions,
    /// Duration of each of two runs of the tasks: idle, and beside programs that pollute the caches
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    duration: Nanos,
    /// Allow the run to switch off the machine's load balancing for seconds, if EDF on single CPUs needs that
    #[arg(long)]
    allow_system: bool,
    #[command(flatten)]
    force: Force,
    /// Print JSON.
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
