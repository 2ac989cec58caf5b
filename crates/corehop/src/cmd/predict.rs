// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop predict`

mod gains;

use std::path::PathBuf;

use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_plan::workload::gang::{Program, Sharing};
use corehop_report::costs;
use corehop_stats::cpmd::{Method, NoAnswer, Prediction, Question, Statistic};
use serde_json::Value;

use super::measure::shared_data::items;
use super::quantities::pair;
use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::either;

/// The heading of the options for threads that share data.
const TOGETHER: &str = "Threads that share data";

/// Predict the cost of a preemption or migration, with interval, at measured sizes and lengths and between them.
///
/// Sizes beyond the largest measured one have no answer (exit code 1).
///
/// With --program and --items, or --smr and --mpmi, predict the ratio of run times of threads that share data, near over far, by
/// a model of `measure shared-data`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A model of `corehop fit` (`*.json`), or samples to fit one to.
    #[arg(value_name = "MODEL.json|FILE.parquet")]
    file: PathBuf,
    /// Working-set sizes, separated by commas.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', required_unless_present_any = ["program", "smr"])]
    wss: Vec<Bytes>,
    /// The event.
    #[arg(long, default_value = "preemption")]
    event: Event,
    /// The preemption length; default: the longest measured.
    #[arg(long, value_name = "TIME")]
    length: Option<Nanos>,
    /// The background load.
    #[arg(long, default_value = "idle", value_name = "LOAD")]
    load: String,
    /// The statistic: mean, median, p90, p99 or max.
    #[arg(long, default_value = "mean")]
    statistic: Statistic,
    /// The method: fitted, survivors or `worst_case`; default: the one with the smallest error.
    #[arg(long)]
    method: Option<Method>,
    /// Choose one of several series: `page=thp`, `write_ratio=0.5`. May be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// A program of `measure shared-data`
    #[arg(long, value_name = "PROGRAM", requires = "items", conflicts_with_all = ["wss", "smr"], help_heading = TOGETHER, value_parser = clap::builder::PossibleValuesParser::new(Program::WORDS))]
    program: Option<String>,
    /// The size of its data
    #[arg(long, value_name = "N", requires = "program", conflicts_with_all = ["wss", "smr"], value_parser = items, help_heading = TOGETHER)]
    items: Option<u64>,
    /// The way its threads share their data [default: write]
    #[arg(long, requires = "program", conflicts_with_all = ["wss", "smr"], help_heading = TOGETHER)]
    sharing: Option<Sharing>,
    /// The share of misses that another cache answers, counted while the threads are far apart
    #[arg(long, value_name = "SHARE", requires = "mpmi", conflicts_with = "wss", value_parser = share, help_heading = TOGETHER)]
    smr: Option<f64>,
    /// Misses per million instructions, counted likewise
    #[arg(long, value_name = "N", requires = "smr", conflicts_with_all = ["wss", "program"], value_parser = misses, help_heading = TOGETHER)]
    mpmi: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(answered) = gains::run(args) {
        return answered;
    }
    let model = input::model(&args.file)?;
    let asked = |&wss: &Bytes| Question {
        event: args.event,
        load: args.load.clone(),
        wss,
        length: args.length,
        statistic: args.statistic,
        method: args.method,
        only: args.only.clone(),
    };
    let answers: Result<Vec<Prediction>, NoAnswer> =
        args.wss.iter().map(|wss| model.predict(&asked(wss))).collect();
    let answers = answers.map_err(|error| match error {
        NoAnswer::Beyond { .. } | NoAnswer::TooFew { .. } | NoAnswer::NotComputed { .. } => {
            Failure::new(Exit::No, error)
        }
        other => {
            let option = option_of(&other);
            let failure = Failure::new(Exit::Usage, other);
            if let Some(option) = option { failure.context(option) } else { failure }
        }
    })?;
    let all = || answers.iter().map(|answer| doubts::with(serde_json::json!(answer)));
    let json = args.json.then(|| all().collect::<Value>());
    let sentence = costs::predicted_in_words(&answers);
    either(&sentence, json.as_ref(), || costs::predicted(&answers))?;
    Ok(Exit::Done)
}

/// The option whose value has no answer, where the error is about one.
fn option_of(error: &NoAnswer) -> Option<&'static str> {
    match error {
        NoAnswer::Unknown { field, .. } if field == "load" => Some("--load"),
        NoAnswer::Unknown { field, .. } if field == "event" => Some("--event"),
        NoAnswer::Unknown { .. } | NoAnswer::NoField { .. } => Some("--only"),
        _ => None,
    }
}

/// A number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    value.ok_or_else(|| format!("`{text}` is not a share: write a number from 0 to 1"))
}

/// A number of misses.
fn misses(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
    value.ok_or_else(|| format!("`{text}` is not a number of misses: write for example `12000`"))
}
