// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats published experiments on the simulated machine, and reports its error.

use std::path::PathBuf;

use corehop_decide::validation::sheet::{QuantityErrors, Sheet, ValidationRow};
use corehop_decide::validation::{self as studies, Lab, PublishedStudy};
use corehop_plan::units::Bytes;
use corehop_report::validation::{self, Dots};
use corehop_report::validation_svg::drawing;
use corehop_report::validation_text as text;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::failure::{Exit, Failure};
use crate::file::{self, OutputFile};
use crate::input;

/// A request to validate the simulated machine.
#[derive(Debug, Clone)]
pub struct ValidationRequest {
    /// The names of platforms or studies; empty selects all.
    pub what: Vec<String>,
    /// The number of samples per cell; `None` selects the study's number.
    pub samples: Option<u32>,
    /// The working set sizes; empty selects all.
    pub wss: Vec<Bytes>,
    /// A platform file that replaces the built-in platform.
    pub on: Option<String>,
    /// Whether to simulate every set of every cache.
    pub exact: bool,
    /// The number of additional passes before the warm touches in cost tables.
    pub passes: Option<u32>,
    /// The seed of all random draws.
    pub seed: u64,
    /// The output file for a page with a figure for each table.
    pub output: Option<PathBuf>,
    /// The output folder for the figures.
    pub svg: Option<PathBuf>,
    /// Whether existing files may be replaced.
    pub force: bool,
}

/// Runs the studies, writes the requested figures, and returns the answer.
///
/// # Errors
/// Fails with exit code 2 for an unknown study, with exit code 4 for a damaged study, and with exit code 3 for what the
/// machine cannot do.
pub fn validate(args: &ValidationRequest) -> Result<Answer, Failure> {
    let mut lab = Lab::new(args.seed, args.samples, args.exact).passing(args.passes);
    let (mut answers, mut studies, mut tables) = (Vec::new(), Vec::new(), String::new());
    let mut drawings = Vec::new();
    let mut missed = false;
    for study in chosen(args)? {
        let platform = input::platform(args.on.as_deref().unwrap_or(study.head().platform))?;
        let sheet = study.judge(&platform, &mut lab)?;
        drawings.extend(Dots::of(&sheet));
        missed |= sheet.is_missed();
        studies.push((sheet.title.clone(), sheet.is_missed()));
        answers.push(json(&sheet));
        tables.push_str(&text::of(&sheet));
    }
    draw(args, &drawings)?;
    Ok(Answer {
        sentence: text::sentence(&studies),
        json: json!({ "seed": args.seed, "studies": answers }),
        text: tables,
        exit: if missed { Exit::No } else { Exit::Done },
    })
}

/// Rejects --on for a study that would not use it, before any study is simulated.
fn refuse_unused_platform(chosen: &[Box<dyn PublishedStudy>]) -> Result<(), Failure> {
    let Some(study) = chosen.iter().find(|it| !it.is_of_one_machine()) else { return Ok(()) };
    let what = format!(
        "{} does not describe a single machine, so --on cannot replace it: omit --on, or name the studies of one platform",
        study.head().id
    );
    Err(Failure::says(Exit::Usage, what))
}

/// Writes the requested figures.
fn draw(args: &ValidationRequest, all: &[Dots]) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        OutputFile::new(path, &[], args.force)?.write(validation::page(args.seed, all))?;
    }
    let Some(folder) = &args.svg else { return Ok(()) };
    file::folder(folder)?;
    for dots in all {
        let path = folder.join(format!("{}.svg", dots.id));
        OutputFile::new(&path, &[], args.force)?.write(drawing(dots))?;
    }
    Ok(())
}

/// The requested studies, with the requested sizes.
fn chosen(args: &ValidationRequest) -> Result<Vec<Box<dyn PublishedStudy>>, Failure> {
    let mut all = studies::all().map_err(|error| Failure::new(Exit::Damaged, error))?;
    let is = |study: &dyn PublishedStudy, what: &str| {
        study.head().id == what || study.head().platform == what
    };
    if let Some(what) = args.what.iter().find(|what| !all.iter().any(|it| is(&**it, what))) {
        let known: Vec<&str> = all.iter().map(|it| it.head().id).collect();
        let what = format!(
            "`{what}` is neither a study nor a platform of a study; studies are {}; `corehop sim validate-host` \
             compares a platform file with its host",
            known.join(", ")
        );
        return Err(Failure::says(Exit::Usage, what));
    }
    all.retain(|it| args.what.is_empty() || args.what.iter().any(|what| is(&**it, what)));
    if !args.wss.is_empty() {
        let sizes: Vec<u64> = args.wss.iter().map(|wss| wss.get() / 1024).collect();
        all.retain_mut(|study| study.narrow(&sizes));
    }
    if args.on.is_some() {
        refuse_unused_platform(&all)?;
    }
    Ok(all)
}

/// The result of a study as JSON, with the fields of its kind.
fn json(sheet: &Sheet) -> Value {
    let mut value = json!({ "study": sheet.id, "title": sheet.title, "platform": sheet.platform });
    if sheet.samples.is_none() || !sheet.claims.is_empty() {
        value["claims"] = json!(sheet.claims);
        value["missed"] = json!(sheet.claims.iter().filter(|it| it.is_missed()).count());
    }
    let Some(samples) = sheet.samples else { return value };
    value["samples"] = json!(samples);
    value["quantities"] = sheet.quantities.iter().map(QuantityErrors::json).collect();
    if let [it, ..] = &*sheet.quantities {
        // Those of the first quantity, which of costs are the averages.
        value["judged"] = json!(it.judged);
        value["aim"] = json!(it.aim);
    }
    value["rows"] = sheet.rows.iter().map(ValidationRow::json).collect();
    value
}
