// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop platform --calibrate`

use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_core::calibration::{self, Calibrated, CalibrationError, States, calibrate};
use corehop_core::campaign::sampling::Goal;
use corehop_core::platform::Platform;
use corehop_core::report::host_sheet;
use corehop_core::samples::Sample;
use corehop_core::validation::host;
use corehop_core::workload::Page;
use corehop_linux::discover::{SysRoot, tlbs};
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
    let apart = OutputFile::ordinary(&apart_of(path), &[path, &beside], args.force)?;
    let mut platform = found(&SysRoot::live())?;
    measure(&mut platform, Duration::ZERO)?;
    platform.tlbs = tlbs();
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
    let descriptions = Descriptions::of(&platform, &samples)?;
    file.write(descriptions.declared.platform.to_toml())?;
    if let Some(it) = &descriptions.apart {
        apart.write(it.platform.to_toml())?;
    }
    descriptions.answer(args, path, &samples)
}

/// The file of the description with the cores apart.
pub(crate) fn apart_of(path: &Path) -> PathBuf {
    path.with_extension("apart.toml")
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

/// The descriptions of both machines that a host may be.
struct Descriptions {
    declared: Calibrated,
    apart: Option<Calibrated>,
    share_apart: f64,
}

impl Descriptions {
    fn of(platform: &Platform, samples: &[Sample]) -> Result<Self, Failure> {
        let states = States::of(platform, samples);
        let bar = ProgressBar::new_spinner();
        let mut progress = |doing: &str| {
            bar.set_message(format!("simulating: {doing}"));
            bar.tick();
        };
        let declared = calibrate(platform, platform.clone(), &states.declared, &mut progress)?;
        let apart = states
            .is_met_apart()
            .then(|| calibrate(platform, platform.apart(), &states.apart, &mut progress))
            .transpose()?;
        bar.finish_and_clear();
        Ok(Self { declared, apart, share_apart: states.share_apart() })
    }

    fn answer(&self, args: &Args, path: &Path, samples: &[Sample]) -> Result<Exit, Failure> {
        let described = host::Described {
            declared: &self.declared.platform,
            apart: self.apart.as_ref().map(|it| &it.platform),
        };
        let sheet = host::beside(described, samples, false)?;
        if args.json {
            let numbers = |it: &Calibrated| json!({"numbers": it.numbers, "notes": it.notes});
            let answer = json!({
                "file": path,
                "declared": numbers(&self.declared),
                "apart": self.apart.as_ref().map(numbers),
                "share_apart": self.share_apart,
                "beside": sheet,
            });
            print(&format!("{answer:#}\n"))?;
            return Ok(Exit::Done);
        }
        print(&self.numbers(path))?;
        print(&format!(
            "\n{}{1}: simulate on it with `--on {1}`, compare again with `corehop validate {1}`\n",
            host_sheet::sheet(&sheet),
            path.display()
        ))?;
        Ok(Exit::Done)
    }

    fn numbers(&self, path: &Path) -> String {
        let of = |it: &Calibrated, file: &Path, what: &str| {
            let notes: String =
                it.notes.iter().map(|note| format!("not found: {note}\n")).collect();
            format!("{}: {what}\n{}{notes}", file.display(), host_sheet::numbers(&it.numbers))
        };
        let mut text = of(&self.declared, path, "as the host is declared");
        if let Some(it) = &self.apart {
            let what =
                format!("with its cores apart, {:.0} % of the samples", 100.0 * self.share_apart);
            text.push_str(&of(it, &apart_of(path), &what));
        }
        text
    }
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Self {
        match error {
            CalibrationError::Machine(error) => error.into(),
            CalibrationError::Experiment(error) => error.into(),
        }
    }
}
