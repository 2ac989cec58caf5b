// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim validate-host`: compares a description of a host with measurements on that host.

use std::path::{Path, PathBuf};

use corehop_decide::validation::host;
use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::Preset;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::shown;
use corehop_report::host_sheet;
use corehop_system::discover::SysRoot;
use serde_json::json;

use crate::output::{Force, OutputFile, either, note};
use crate::progress::view;
use corehop_app::calibrate::apart_of;
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::here::found;
use corehop_app::input;
use corehop_app::run::RunOptions;

/// Run the quick experiment on this host and on its simulation, and compare the results cell by cell.
///
/// corehop writes the live samples to a file beside the platform file (`.live.parquet`). Exit code 1 means that the
/// simulation missed an aim.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare this platform file, written by `corehop sim calibrate`, with its host.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Use these live samples of the described host instead of a new measurement.
    #[arg(long, value_name = "FILE.parquet")]
    live: Option<PathBuf>,
    /// Simulate every cache set for working sets of any size (many times slower)
    #[arg(long)]
    exact: bool,
    /// Draw all random numbers of the measurement from this seed [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "live")]
    seed: Option<u64>,
    #[command(flatten)]
    force: Force,
    /// Print every cell and the aims as JSON.
    #[arg(long)]
    json: bool,
}

/// Compares the description with live samples, from a file or from a new run.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let path = args.file.as_path();
    let (platform, file) = (input::platform_in(path)?, shown::path(path));
    let samples = match &args.live {
        Some(live) => of_host(&platform, input::samples(live)?, live)?,
        None => measured(args, &platform, path)?,
    };
    let Some(samples) = samples else { return Ok(Exit::Interrupted) };
    let apart = apart_of(path);
    let apart = apart.exists().then(|| input::platform_in(&apart)).transpose()?;
    let described = host::HostDescription { declared: &platform, apart: apart.as_ref() };
    let sheet = host::beside(described, &samples, args.exact)?;
    let json = args.json.then(|| doubts::with(json!(sheet)));
    let sentence = match sheet.missed().len() {
        0 => format!("{file} describes this host well enough: every aim is met."),
        missed => {
            format!("{file} does not describe this host well enough: {missed} aims are missed.")
        }
    };
    either(&sentence, json.as_ref(), || host_sheet::sheet(&sheet))?;
    Ok(if sheet.missed().is_empty() { Exit::Done } else { Exit::No })
}

/// Reads the samples of a file, which must come from this host.
fn of_host(
    platform: &Platform,
    samples: Vec<Sample>,
    path: &Path,
) -> Result<Option<Vec<Sample>>, Failure> {
    let other = samples.iter().find(|it| *it.machine != *platform.id);
    match other {
        Some(other) => {
            let what = format!(
                "{} has samples of {}, but the description is of {}: name a file of that host",
                shown::path(path),
                other.machine,
                platform.id
            );
            Err(Failure::says(Exit::Usage, what))
        }
        None => Ok(Some(samples)),
    }
}

/// Runs the quick experiment; None if the run was interrupted.
fn measured(args: &Args, platform: &Platform, file: &Path) -> Result<Option<Vec<Sample>>, Failure> {
    let here = found(&SysRoot::live())?;
    if let Some(why) = here.difference(platform, "the description has") {
        let what = format!("{} does not describe this machine: {why}", shown::path(file));
        let remedy = "measure there with `corehop measure synthetic -o FILE.parquet`, and compare with --live FILE.parquet";
        return Err(Failure::says(Exit::NotPossible, format!("{what}; {remedy}")));
    }
    let rows: PathBuf =
        OutputFile::ordinary(&file.with_extension("live.parquet"), &[], args.force)?.into_path();
    let run = RunOptions::of_host(rows.clone(), false, args.force, view);
    let mut machine = LiveMachine::new(platform.clone(), LiveMachineOptions::default());
    let experiment = Preset::Quick.synthetic(platform, None, None);
    let ended = run.carry_out(&mut machine, &experiment, args.seed.unwrap_or(1))?;
    if ended.exit != Exit::Done {
        let (file, rows) = (shown::path(file), shown::path(&rows));
        note(&format!(
            "interrupted: `corehop sim validate-host {file} --live {rows}` compares the recorded samples"
        ));
        return Ok(None);
    }
    input::samples(&rows).map(Some)
}
