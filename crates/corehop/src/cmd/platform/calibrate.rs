// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop platform --calibrate`

use std::path::Path;
use std::time::Duration;

use corehop_core::calibration::{self, Calibrated, CalibrationError};
use corehop_core::campaign::sampling::Goal;
use corehop_core::platform::Platform;
use corehop_core::report::host_sheet;
use corehop_core::samples::Sample;
use corehop_core::validation::host;
use corehop_core::workload::Page;
use corehop_linux::discover::SysRoot;
use corehop_linux::live::{LiveMachine, Options};
use indicatif::ProgressBar;
use serde_json::json;

use super::{Args, found, measure};
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{OutputFile, note, print};
use crate::run::{Destination, Run};

/// Replicates of the live run: each draws page frames, access order and threads anew.
const REPLICATES: u32 = 20;
/// The seed of all random draws.
const SEED: u64 = 1;
/// Below this share of huge pages a working set had none.
const HUGE: f64 = 0.5;

/// Measures, finds the numbers, writes both files, and compares.
pub(super) fn run(args: &Args, path: &Path) -> Result<Exit, Failure> {
    let file = OutputFile::ordinary(path, &[], args.force)?;
    let beside = path.with_extension("parquet");
    let rows = OutputFile::ordinary(&beside, &[path], args.force)?.into_path();
    let mut platform = found(&SysRoot::live())?;
    measure(&mut platform, Duration::ZERO)?;
    if platform.usable().len() == 1 {
        note("one usable CPU: the time of a line from another core cannot be measured");
    }
    let run = Run {
        destination: Some(Destination::File {
            path: rows.clone(),
            resume: args.resume,
            force: args.force,
        }),
        goal: Goal::Count,
        replicates: REPLICATES,
        budget: None,
        quiet: false,
        json: args.json,
    };
    let mut machine = LiveMachine::new(platform.clone(), Options::default());
    let ended = run.carry_out(&mut machine, &calibration::experiment(&platform), SEED)?;
    if ended.exit != Exit::Done {
        note(&format!(
            "interrupted: `corehop platform --calibrate --resume -o {}` goes on",
            path.display()
        ));
        return Ok(ended.exit);
    }
    let samples: Vec<Sample> = input::samples(&rows)?;
    notes(&samples).iter().for_each(|it| note(it));
    let calibrated = calibrate(platform, &samples)?;
    calibrated.notes.iter().for_each(|it| note(it));
    file.write(calibrated.platform.to_toml())?;
    answer(args, path, &calibrated, &samples)
}

/// What the samples say of the host while they were taken.
fn notes(samples: &[Sample]) -> Vec<String> {
    let huge = samples.iter().filter(|it| it.page == Page::Transparent).map(|it| it.huge_share);
    let huge: Vec<f64> = huge.collect();
    let share = huge.iter().sum::<f64>() / huge.len().max(1) as f64;
    let none = (!huge.is_empty() && share < HUGE).then(|| {
        format!(
            "no huge pages: {:.0} % of the memory that asked for them has them; cells on `thp` are of base pages",
            100.0 * share
        )
    });
    none.into_iter().chain(calibration::change_of_speed(samples)).collect()
}

fn calibrate(platform: Platform, samples: &[Sample]) -> Result<Calibrated, Failure> {
    let bar = ProgressBar::new_spinner();
    let calibrated = calibration::calibrate(platform, samples, &mut |doing| {
        bar.set_message(format!("simulating: {doing}"));
        bar.tick();
    });
    bar.finish_and_clear();
    Ok(calibrated?)
}

fn answer(args: &Args, path: &Path, it: &Calibrated, samples: &[Sample]) -> Result<Exit, Failure> {
    let sheet = host::beside(&it.platform, samples, false)?;
    if args.json {
        let answer = json!({
            "file": path, "numbers": it.numbers, "notes": it.notes, "beside": sheet,
        });
        print(&format!("{answer:#}\n"))?;
        return Ok(Exit::Done);
    }
    print(&format!("{}\n{}", host_sheet::numbers(&it.numbers), host_sheet::sheet(&sheet)))?;
    print(&format!(
        "{}: simulate on it with `--on {0}`, compare again with `corehop validate {0}`\n",
        path.display()
    ))?;
    Ok(Exit::Done)
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        match error {
            CalibrationError::Machine(error) => error.into(),
            CalibrationError::Experiment(error) => error.into(),
        }
    }
}
