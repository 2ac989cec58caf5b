// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim validate`

mod text;

use std::path::PathBuf;

use corehop_decide::validation::sheet::{PrintedQuantity, QuantityErrors, Sheet, ValidationRow};
use corehop_decide::validation::{self as studies, Lab, PublishedStudy};
use corehop_plan::units::Bytes;
use corehop_report::validation::{self, Dots};
use corehop_report::validation_svg::drawing;
use serde_json::{Value, json};

use crate::output::{self, Force, OutputFile, either};
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Rerun published experiments on the simulated machine, and report its error.
///
/// The output joins every printed row with the simulated one. It marks rows that platform parameters were
/// fitted on, and rows that tell of something that is not modelled, and judges neither. The simulation samples some sets of all caches (one in 2 to 64) for
/// working sets of a mebibyte and more. A study reaches its aim if the median error, the 90th percentile and
/// the order of the events all meet it. With fewer samples than the study's number the aim is not judged.
///
/// Exit code 1: an aim is not reached or not judged, or a claim does not come out as printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Platforms or studies, such as `xeon_x5650` or `waechtler-a4`; default: all.
    #[arg(value_name = "NAME")]
    what: Vec<String>,
    /// Samples per cell; default: the study's number.
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Only these working-set sizes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// Use this platform file instead of the built-in one.
    #[arg(long, value_name = "FILE.toml")]
    on: Option<String>,
    /// Simulate every set of every cache for working sets of any size (many times slower)
    #[arg(long)]
    exact: bool,
    /// Further passes before the warm touches of tables of costs; default: the study's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=64))]
    passes: Option<u32>,
    /// The seed of all random draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with a figure of each table: printed against simulated values.
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write the figures to this folder, one file per table.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON: every row, and the errors of each table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
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
        if args.json {
            answers.push(json(&sheet));
        } else {
            tables.push_str(&text::of(&sheet));
        }
    }
    draw(args, &drawings)?;
    let json = args.json.then(|| json!({ "seed": args.seed, "studies": answers }));
    either(&text::sentence(&studies), json.as_ref(), || tables)?;
    Ok(if missed { Exit::No } else { Exit::Done })
}

/// Writes the requested figures.
fn draw(args: &Args, all: &[Dots]) -> Result<(), Failure> {
    if let Some(path) = &args.output {
        OutputFile::new(path, &[], args.force)?.write(validation::page(args.seed, all))?;
    }
    let Some(folder) = &args.svg else { return Ok(()) };
    output::file::folder(folder)?;
    for dots in all {
        let path = folder.join(format!("{}.svg", dots.id));
        OutputFile::new(&path, &[], args.force)?.write(drawing(dots))?;
    }
    Ok(())
}

/// The requested studies, with the requested sizes.
fn chosen(args: &Args) -> Result<Vec<Box<dyn PublishedStudy>>, Failure> {
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
    Ok(all)
}

/// The result of a study, with the fields of its kind.
fn json(sheet: &Sheet) -> Value {
    let mut value = json!({ "study": sheet.id, "title": sheet.title, "platform": sheet.platform });
    if sheet.samples.is_none() || !sheet.claims.is_empty() {
        value["claims"] = json!(sheet.claims);
        value["missed"] = json!(sheet.claims.iter().filter(|it| it.is_missed()).count());
    }
    let Some(samples) = sheet.samples else { return value };
    value["samples"] = json!(samples);
    let kind = sheet.rows.first().map(|row| &row.what);
    if matches!(kind, Some(PrintedQuantity::Gang { .. })) {
        let quantity = |it: &QuantityErrors| json!({ "quantity": it.word, "limit": it.limit, "judged": it.judged, "aim": it.aim });
        value["quantities"] = sheet.quantities.iter().map(quantity).collect();
    } else if let [it] = &*sheet.quantities {
        value["limit"] = json!(it.limit);
        value["aim"] = json!(it.aim);
        value["judged"] = json!(it.judged);
        value["fitted"] = json!(it.fitted);
        if let Some(errors) = it.not_modelled {
            value["not_modelled"] = json!(errors);
        }
        if let Some(order) = it.order {
            value["order"] = json!(order);
        }
    }
    let rows = sheet.rows.iter().map(ValidationRow::json).collect();
    if let (Some(PrintedQuantity::Point { .. }), [it]) = (kind, &*sheet.quantities) {
        value["quantity"] = json!(it.word);
        value["points"] = rows;
    } else {
        value["rows"] = rows;
    }
    value
}
