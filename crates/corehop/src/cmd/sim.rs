// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim`

mod calibrate;
pub(crate) mod platform;
mod validate;
mod validate_host;

use corehop_app::failure::{Exit, Failure};

/// Describe and calibrate simulated machines, and report the error of the simulation against published results.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, clap::Subcommand)]
enum Mode {
    /// Describe a machine: its CPUs, its caches and their sharing, and the events that cannot be measured on the
    /// machine.
    Platform(platform::Args),
    /// Measure this host, and fit the numbers of a simulated machine to it.
    Calibrate(calibrate::Args),
    /// Rerun published experiments on the simulated machine, and report the error of the simulation.
    Validate(validate::Args),
    /// Run the quick experiment on this host and on its simulation, and compare the results cell by cell.
    ValidateHost(validate_host::Args),
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.mode {
        Mode::Platform(args) => platform::run(args),
        Mode::Calibrate(args) => calibrate::run(args),
        Mode::Validate(args) => validate::run(args),
        Mode::ValidateHost(args) => validate_host::run(args),
    }
}
