// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise gain` of threads that share data: the ratio of run times, near over far.

use std::path::PathBuf;

use corehop_plan::workload::gang::{GangProgram, Sharing};
use corehop_report::gains;
use corehop_stats::machine_gain::{GainSubject, MachineGain, NoGain};
use serde_json::json;

use crate::output::either;
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;
use corehop_app::quantities::items;

/// Predict the run time of threads that share data when placed close together, divided by their run time when placed
/// far apart. The prediction needs a model of `measure shared-data`, and either a program with the size of its data,
/// or counted misses.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("asked").args(["program", "smr"]).required(true))]
pub(crate) struct Args {
    /// Predict by this model of `corehop advise fit` (`*.json`), or by a model that corehop fits to this file of
    /// `measure shared-data`.
    #[arg(value_name = "MODEL.json|FILE.parquet")]
    file: PathBuf,
    /// Predict for this program of `measure shared-data`
    #[arg(long, value_name = "PROGRAM", requires = "items", value_parser = clap::builder::PossibleValuesParser::new(GangProgram::WORDS))]
    program: Option<String>,
    /// Predict for data of this size, in items of the program
    #[arg(long, value_name = "N", requires = "program", value_parser = items)]
    items: Option<u64>,
    /// Let the threads share the data in this way [default: write]
    #[arg(long, requires = "program")]
    sharing: Option<Sharing>,
    /// Predict from this SMR: the share of misses that another cache answers, counted while the threads are far apart
    #[arg(long, value_name = "SHARE", requires = "mpmi", value_parser = share)]
    smr: Option<f64>,
    /// Predict from this MPmI: misses per million instructions, counted while the threads are far apart
    #[arg(long, value_name = "N", requires = "smr", value_parser = misses)]
    mpmi: Option<f64>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Predicts the gain, and prints the prediction.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let asked = match (&args.program, args.items, args.smr, args.mpmi) {
        (Some(program), Some(items), ..) => {
            let sharing = args.sharing.unwrap_or(Sharing::Write);
            GainSubject::Program { program: program.clone(), items, sharing }
        }
        (_, _, Some(smr), Some(mpmi)) => GainSubject::Counts { smr, mpmi },
        _ => {
            let what = "name a program with --program and --items, or counted misses with --smr and --mpmi";
            return Err(Failure::says(Exit::Usage, what));
        }
    };
    answer(args, &input::gain(&args.file)?, &asked)
}

fn answer(args: &Args, gain: &MachineGain, asked: &GainSubject) -> Result<Exit, Failure> {
    let known = gain.predict(asked);
    if args.json {
        let source = gain.source();
        let answer = match &known {
            Ok(it) => {
                json!({ "near": gain.near, "far": gain.far, "source": source, "predicted": it })
            }
            Err(why) => {
                json!({ "near": gain.near, "far": gain.far, "source": source, "predicted": null, "why": why.to_string() })
            }
        };
        let sentence = match &known {
            Ok(it) => gains::predicted_in_words(gain, asked, it),
            Err(why) => format!("unknown: {why}."),
        };
        either(&sentence, Some(&doubts::with(answer)), String::new)?;
        return Ok(if known.is_ok() { Exit::Done } else { Exit::No });
    }
    let it = known.map_err(|why| {
        let exit = if matches!(why, NoGain::Several { .. }) { Exit::Usage } else { Exit::No };
        Failure::new(exit, why)
    })?;
    let sentence = gains::predicted_in_words(gain, asked, &it);
    either(&sentence, None, || gains::predicted(gain, asked, &it))?;
    Ok(Exit::Done)
}

/// Parses a share between 0 and 1.
fn share(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    value.ok_or_else(|| format!("`{text}` is not a share: write a number from 0 to 1"))
}

/// Parses a number of misses.
fn misses(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0);
    value.ok_or_else(|| format!("`{text}` is not a number of misses: write for example `12000`"))
}
