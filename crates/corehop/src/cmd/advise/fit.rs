// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise fit`

mod gains;

use std::path::{Path, PathBuf};

use corehop_plan::shown;
use corehop_report::costs;
use corehop_stats::estimator::Estimator;

use crate::output::{AnswerBody, Force, OutputFile, answer};
use corehop_app::failure::{Exit, Failure};
use corehop_app::host_costs::Keeping;
use corehop_app::input;

/// Fit a cost model of preemptions and migrations to samples.
///
/// The fitted model is a curve through the measured points. The curve is monotone in the preemption length, and
/// monotone in the working-set size within each cache. corehop computes two other models from the caches alone.
/// corehop tests each model on points that were left out of the fit, and uses the model with the smallest error.
///
/// To files of `measure shared-data`, corehop fits the gain of threads from running together. corehop fits several
/// forms, and tests each form on programs and sizes that were left out of the fit.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fit the model to these files of `corehop measure`; platform files (`*.toml`) of the measured machines add the
    /// cache latencies.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the model to this file, for `corehop advise predict`.
    #[arg(short, long, value_name = "MODEL.json")]
    output: Option<PathBuf>,
    /// Store the model as the costs of this host, in `~/.local/share/corehop/costs.json`. Other verbs use this file
    /// as the default of --costs. The samples must come from this host.
    #[arg(long = "default")]
    is_default: bool,
    #[command(flatten)]
    force: Force,
    /// Compute the delay of a sample with this estimator (see `corehop help estimator`).
    #[arg(long, default_value = "difference")]
    estimator: Estimator,
    /// Print the model as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let output = OutputFile::if_asked(args.output.as_ref(), &inputs, args.force)?;
    let data = input::gather(&args.files, args.estimator)?;
    if !data.gangs.is_empty() {
        return gains::run(args, &data, output);
    }
    let keeping = args.is_default.then(|| Keeping::of(&data, &inputs, args.force)).transpose()?;
    let model = input::fitted_to(data)?;
    if let Some(file) = output {
        file.write(model.to_json())?;
    }
    let kept = keeping.map(|keeping| keeping.keep(model.clone())).transpose()?;
    let kept = kept.map(|path| {
        format!(" The model is stored as the costs of this host, in {}.", shown::path(&path))
    });
    let series = model.curves.len();
    let sentence = format!(
        "The model has the costs of {}.{}{}",
        if series == 1 { "1 series".to_owned() } else { format!("{series} series") },
        next(args.output.as_deref()),
        kept.unwrap_or_default()
    );
    let json = args.json.then(|| model.to_json());
    let text = json.as_ref().map_or_else(|| costs::fitted(&model), |_| String::new());
    answer(&sentence, json.as_deref().map_or(AnswerBody::Text(&text), AnswerBody::Data))?;
    Ok(Exit::Done)
}

/// The sentence that tells the user how to use the fitted model.
fn next(file: Option<&Path>) -> String {
    match file.map(shown::path) {
        Some(file) => {
            format!(" `corehop advise predict {file} --wss SIZE` predicts with this model.")
        }
        None => " -o MODEL.json stores the model.".to_owned(),
    }
}
