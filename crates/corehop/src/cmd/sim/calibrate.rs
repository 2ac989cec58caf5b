// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim calibrate`

use std::path::PathBuf;
use std::time::Duration;

use corehop_app::calibrate::{CalibrationRequest, calibrate};
use corehop_app::failure::{Exit, Failure};
use corehop_app::here::{ThisHost, found};
use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::machine::Machine;
use corehop_plan::platform::Platform;
use corehop_plan::stop::Stop;
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::interrupt;

use super::platform::measure;
use crate::output::{Force, spinner, told};
use crate::progress::view;

/// Measure this host, and fit the numbers of a simulated machine to it (some three minutes).
///
/// corehop writes FILE.toml and, beside it, the live samples (`FILE.parquet`). The answer lists the live and the
/// simulated delay of every cell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the platform file to this path
    #[arg(short, long, value_name = "FILE.toml")]
    output: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Resume an interrupted calibration from its FILE.parquet
    #[arg(long)]
    resume: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let Args { output: path, force, resume, .. } = args;
    let asked = CalibrationRequest { path, force: (*force).into(), resume: *resume, view };
    let bar = spinner();
    let answer = calibrate(&asked, &Live, &mut |what| {
        bar.set_message(format!("simulating: {what}"));
        bar.tick();
    });
    bar.finish_and_clear();
    told(&answer?, args.json)
}

/// The live machine for calibration: this host.
#[derive(Debug)]
pub(super) struct Live;

impl ThisHost for Live {
    fn measured(&self) -> Result<Platform, Failure> {
        let mut platform = found(&SysRoot::live())?;
        measure(&mut platform, Duration::ZERO)?;
        Ok(platform)
    }

    fn machine(&self, platform: Platform) -> Box<dyn Machine> {
        Box::new(LiveMachine::new(platform, LiveMachineOptions::default()))
    }

    fn stop(&self) -> Stop {
        Stop::when(interrupt::requested)
    }
}
