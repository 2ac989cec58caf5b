// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop validate FILE.toml`: a description of a host against the host.

use std::path::{Path, PathBuf};

use corehop_decide::validation::host;
use corehop_linux::discover::SysRoot;
use corehop_linux::live::{LiveMachine, Options};
use corehop_plan::experiment::Preset;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::shown;
use corehop_report::host_sheet;
use serde_json::json;

use super::super::platform::{apart_of, found};
use super::Args;
use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{OutputFile, either, note};
use crate::run::Run;

/// The platform file among the names, if there is one.
pub(super) fn file(args: &Args) -> Result<Option<&str>, Failure> {
    let is_file = |it: &&String| Path::new(it).extension().is_some_and(|it| it == "toml");
    match args.what.iter().find(is_file) {
        Some(file) if args.what.len() > 1 => {
            let what = format!(
                "{file} is a platform file, and is compared alone: leave the other names out"
            );
            Err(Failure::says(Exit::Usage, what))
        }
        None if args.live.is_some() => {
            let what = "--live belongs to a platform file: `corehop validate FILE.toml --live FILE.parquet`";
            Err(Failure::says(Exit::Usage, what))
        }
        found => Ok(found.map(String::as_str)),
    }
}

/// Compares, with the live samples of a file or of a run now.
pub(super) fn run(args: &Args, file: &str) -> Result<Exit, Failure> {
    let studies = [
        ("--samples", args.samples.is_some()),
        ("--wss", !args.wss.is_empty()),
        ("--passes", args.passes.is_some()),
        ("--on", args.on.is_some()),
        ("--output", args.output.is_some()),
        ("--svg", args.svg.is_some()),
    ];
    crate::exit::refuse("a platform file is compared with its host, not with a study", &studies)?;
    let platform = input::platform(file)?;
    let samples = match &args.live {
        Some(path) => of_host(&platform, input::samples(path)?, path)?,
        None => measured(args, &platform, Path::new(file))?,
    };
    let Some(samples) = samples else { return Ok(Exit::Interrupted) };
    let apart = apart_of(Path::new(file));
    let apart = apart.exists().then(|| input::platform_in(&apart)).transpose()?;
    let described = host::Described { declared: &platform, apart: apart.as_ref() };
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

/// The samples of a file, which must be of this host.
fn of_host(
    platform: &Platform,
    samples: Vec<Sample>,
    path: &Path,
) -> Result<Option<Vec<Sample>>, Failure> {
    let other = samples.iter().find(|it| *it.machine != *platform.id);
    match other {
        Some(other) => {
            let what = format!(
                "{} has samples of {}, the description is of {}: name a file of that host",
                shown::path(path),
                other.machine,
                platform.id
            );
            Err(Failure::says(Exit::Usage, what))
        }
        None => Ok(Some(samples)),
    }
}

/// The quick experiment now; None where it was interrupted.
fn measured(args: &Args, platform: &Platform, file: &Path) -> Result<Option<Vec<Sample>>, Failure> {
    let here = found(&SysRoot::live())?;
    if let Some(why) = here.difference(platform, "the description has") {
        let what = format!("{} describes another machine than this one: {why}", shown::path(file));
        let remedy = "measure there with `corehop measure synthetic -o FILE.parquet`, and compare with --live FILE.parquet";
        return Err(Failure::says(Exit::NotPossible, format!("{what}; {remedy}")));
    }
    let rows: PathBuf =
        OutputFile::ordinary(&file.with_extension("live.parquet"), &[], args.force)?.into_path();
    let run = Run::of_host(rows.clone(), false, args.force, args.json);
    let mut machine = LiveMachine::new(platform.clone(), Options::default());
    let experiment = Preset::Quick.synthetic(platform, None, None);
    let ended = run.carry_out(&mut machine, &experiment, args.seed)?;
    if ended.exit != Exit::Done {
        let (file, rows) = (shown::path(file), shown::path(&rows));
        note(&format!(
            "interrupted: `corehop validate {file} --live {rows}` compares what there is"
        ));
        return Ok(None);
    }
    input::samples(&rows).map(Some)
}
