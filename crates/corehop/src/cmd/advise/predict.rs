// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise predict`

use std::path::PathBuf;

use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_report::costs;
use corehop_stats::cpmd::{DelayQuery, Method, NoAnswer, Prediction, Statistic};
use serde_json::Value;

use crate::output::either;
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;
use corehop_app::quantities::pair;

/// Predict the cost of a preemption or migration, with an interval, at and between the measured sizes and lengths.
///
/// corehop predicts no cost for sizes beyond the largest measured size (exit code 1).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Predict by this model of `corehop advise fit` (`*.json`), or by a model that corehop fits to these samples.
    #[arg(value_name = "MODEL.json|FILE.parquet")]
    file: PathBuf,
    /// Predict for these working-set sizes, separated by commas.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', required = true)]
    wss: Vec<Bytes>,
    /// Predict the cost of this event.
    #[arg(long, default_value = "preemption")]
    event: Event,
    /// Predict the cost after a preemption of this length; default: the longest measured length.
    #[arg(long, value_name = "TIME")]
    length: Option<Nanos>,
    /// Predict the cost under this background load.
    #[arg(long, default_value = "idle", value_name = "LOAD")]
    load: String,
    /// Predict this statistic of the cost: mean, median, p90, p99 or max.
    #[arg(long, default_value = "mean")]
    statistic: Statistic,
    /// Predict by this method: fitted, survivors or `worst_case`; default: the method with the smallest error.
    #[arg(long)]
    method: Option<Method>,
    /// Select one of several series by the value of a column, for example `page=thp`, `write_ratio=0.5`. Repeat
    /// --only to select by several columns.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let model = input::model(&args.file)?;
    let asked = |&wss: &Bytes| DelayQuery {
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

/// The option whose value has no prediction, if the error concerns an option.
fn option_of(error: &NoAnswer) -> Option<&'static str> {
    match error {
        NoAnswer::Unknown { field, .. } if field == "load" => Some("--load"),
        NoAnswer::Unknown { field, .. } if field == "event" => Some("--event"),
        NoAnswer::Unknown { .. } | NoAnswer::NoField { .. } => Some("--only"),
        _ => None,
    }
}
