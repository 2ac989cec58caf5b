// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibrates the description of this host, so that the simulated machine behaves like the host.

use std::path::{Path, PathBuf};

use corehop_decide::calibration::{self, Calibrated, CalibrationError, States, calibrate as fit};
use corehop_decide::validation::host;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::shown;
use corehop_plan::stop::Stop;
use corehop_plan::workload::Page;
use corehop_report::host_sheet;
use corehop_sim::SimMachine;
use corehop_system::discover::{last_level_inclusion, tlbs};
use serde_json::json;

use crate::answer::Answer;
use crate::failure::{Exit, Failure};
use crate::file::OutputFile;
use crate::here::ThisHost;
use crate::input;
use crate::run::{Opens, RunOptions, stream_of};
use crate::voice::note;

/// The seed of all random draws.
const SEED: u64 = 1;
/// The share of huge pages below which a working set counts as having none.
const HUGE: f64 = 0.5;

/// A request for a calibration.
#[derive(Debug)]
pub struct CalibrationRequest<'a> {
    /// The platform file to write; the live samples are written beside it.
    pub path: &'a Path,
    /// Whether existing files may be replaced.
    pub force: bool,
    /// Whether to continue an interrupted calibration.
    pub resume: bool,
    /// Creates the view of the run.
    pub view: Opens,
}

/// Measures, fits the numbers, writes both files, and compares the simulation with the measurement. `doing` receives
/// what is currently simulated.
///
/// # Errors
/// Fails with exit code 2 for files that may not be written, with exit code 130 if interrupted (the calibration can be
/// resumed), and with the errors of a run.
pub fn calibrate(
    asked: &CalibrationRequest<'_>,
    host: &dyn ThisHost,
    doing: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let path = asked.path;
    if path.extension().is_none_or(|it| it != "toml") {
        let what =
            format!("{}: the name of a platform file has to end in .toml", shown::path(path));
        return Err(Failure::says(Exit::Usage, what));
    }
    let file = OutputFile::ordinary(path, &[], asked.force)?;
    let beside = path.with_extension("parquet");
    // What is resumed is continued, not overwritten.
    let goes_on = asked.force || asked.resume;
    let rows = OutputFile::ordinary(&beside, &[path], goes_on)?.into_path();
    let apart = OutputFile::ordinary(&apart_of(path), &[path, &beside], asked.force)?;
    let platform = if asked.resume { began_on(&rows)? } else { looked_at(host)? };
    if platform.usable().len() == 1 {
        note(
            "only one CPU is usable: the transfer time of a line from another core cannot be measured",
        );
    }
    let run = RunOptions::of_host(rows.clone(), asked.resume, asked.force, asked.view);
    let mut machine = host.machine(platform.clone());
    let ended = run.carry_out(machine.as_mut(), &calibration::experiment(&platform), SEED)?;
    if ended.exit != Exit::Done {
        return Err(interrupted(path));
    }
    let samples: Vec<Sample> = input::samples(&rows)?;
    for it in notes(&samples) {
        note(&it);
    }
    let Some(descriptions) = Descriptions::of(&platform, &samples, &host.stop(), doing)? else {
        return Err(interrupted(path));
    };
    file.write(descriptions.declared.platform.to_toml())?;
    match &descriptions.apart {
        Some(it) => apart.write(it.platform.to_toml())?,
        // That of an earlier calibration describes another time.
        None if apart_of(path).exists() => remove(&apart_of(path))?,
        None => {}
    }
    descriptions.answer(path, &samples, &host.stop())
}

fn remove(path: &Path) -> Result<(), Failure> {
    let named = |error| Failure::new(Exit::Failed, error).context(shown::path(path));
    std::fs::remove_file(path).map_err(named)
}

/// The failure after an interrupt, which says how to continue.
fn interrupted(path: &Path) -> Failure {
    let path = shown::path(path);
    let what = format!(
        "interrupted: continue the calibration with `corehop sim calibrate --resume -o {path}`"
    );
    Failure::says(Exit::Interrupted, what)
}

/// Measures this host, and completes everything that a simulation needs.
fn looked_at(host: &dyn ThisHost) -> Result<Platform, Failure> {
    let mut platform = host.measured()?;
    platform.tlbs = tlbs();
    let inclusion = platform.vendor.as_ref().and_then(|vendor| last_level_inclusion(&vendor.value));
    let third = platform.caches.iter_mut().filter(|cache| cache.level == 3 && cache.holds_data());
    third.for_each(|cache| cache.mechanism.inclusion.clone_from(&inclusion));
    for (cache, ns) in calibration::complete(&mut platform) {
        note(&format!("corehop found no plateau of {cache}, and assumes {ns} ns for a hit"));
    }
    platform.validate()?;
    // Before minutes are spent on measuring.
    SimMachine::new(platform.clone())?;
    Ok(platform)
}

/// The host as described by an interrupted calibration.
fn began_on(rows: &Path) -> Result<Platform, Failure> {
    let stream = stream_of(rows);
    let earlier = if stream.exists() { &stream } else { rows };
    let reader = input::open(earlier)?;
    Ok(Platform::from_toml(&reader.kind().provenance.platform)?)
}

/// Returns the path of the file for the description of the host with its cores far apart.
pub fn apart_of(path: &Path) -> PathBuf {
    path.with_extension("apart.toml")
}

/// Notes about the host while the samples were taken.
fn notes(samples: &[Sample]) -> Vec<String> {
    let huge = samples.iter().filter(|it| it.page == Page::Transparent).map(|it| it.huge_share);
    let huge: Vec<f64> = huge.collect();
    let share = huge.iter().sum::<f64>() / huge.len().max(1) as f64;
    let none = (!huge.is_empty() && share < HUGE).then(|| {
        format!(
            "huge pages: only {:.0} % of the memory that requested huge pages has huge pages, so cells on `thp` use base pages",
            100.0 * share
        )
    });
    none.into_iter().chain(calibration::change_of_speed(samples)).collect()
}

/// The descriptions of both states of a host.
struct Descriptions {
    declared: Calibrated,
    apart: Option<Calibrated>,
    share_apart: f64,
    /// Whether the host was as declared for a sufficient part of the time.
    is_met: bool,
}

impl Descriptions {
    /// Fits both descriptions; `None` if interrupted.
    fn of(
        platform: &Platform,
        samples: &[Sample],
        stop: &Stop,
        doing: &mut dyn FnMut(&str),
    ) -> Result<Option<Self>, Failure> {
        let states = States::of(platform, samples);
        let mut progress = |what: &str| {
            doing(what);
            !stop.is_asked()
        };
        let mut found = || -> Result<Self, CalibrationError> {
            let declared = fit(platform, platform.clone(), &states.declared, &mut progress)?;
            let apart = states
                .is_met_apart()
                .then(|| fit(platform, platform.apart(), &states.apart, &mut progress))
                .transpose()?;
            let (share_apart, is_met) = (states.share_apart(), states.is_met_declared());
            Ok(Self { declared, apart, share_apart, is_met })
        };
        let found = found();
        match found {
            Ok(found) => Ok(Some(found)),
            Err(CalibrationError::Stopped) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn answer(&self, path: &Path, samples: &[Sample], stop: &Stop) -> Result<Answer, Failure> {
        let described = host::HostDescription {
            declared: &self.declared.platform,
            apart: self.apart.as_ref().map(|it| &it.platform),
        };
        let sheet = host::beside(described, samples, false)?;
        let numbers = |it: &Calibrated| json!({"numbers": it.numbers, "notes": it.notes});
        let file = shown::path(path);
        Ok(Answer {
            sentence: format!(
                "{file} describes this host for a simulation: `--on {file}` simulates on it, `corehop sim validate-host {file}` \
                 compares again (a second time: with --force)."
            ),
            json: json!({
                "file": shown::value(path),
                "declared": numbers(&self.declared),
                "apart": self.apart.as_ref().map(numbers),
                "share_apart": self.share_apart,
                "beside": sheet,
            }),
            text: format!("{}\n{}", self.numbers(path), host_sheet::sheet(&sheet)),
            exit: if stop.is_asked() { Exit::Interrupted } else { Exit::Done },
        })
    }

    fn numbers(&self, path: &Path) -> String {
        let of = |it: &Calibrated, file: &Path, what: &str| {
            let notes: String =
                it.notes.iter().flat_map(|note| ["not found: ", note, "\n"]).collect();
            format!("{}: {what}\n{}{notes}", shown::path(file), host_sheet::numbers(&it.numbers))
        };
        let seldom = if self.is_met {
            ""
        } else {
            ", in which the host rarely was, so that few samples describe it"
        };
        let mut text = of(&self.declared, path, &format!("the host in its declared state{seldom}"));
        if let Some(it) = &self.apart {
            let what = format!(
                "the host while its cores are far apart, as in {:.0} % of the samples",
                100.0 * self.share_apart
            );
            text.push_str(&of(it, &apart_of(path), &what));
        }
        text
    }
}
