// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop compare`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corehop_core::decision::comparison::{Delays, FailOn, Gate, Margin, compare};
use corehop_core::decision::program_runs::{self, RunFigures};
use corehop_core::model::estimator::Estimator;
use corehop_core::report::{self, decided};
use corehop_core::samples::Sample;
use corehop_core::shown;
use corehop_core::units::Nanos;

use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Page, print};

/// Compare two results cell by cell: two kernels, two hosts, before and after. Or compare recorded programs.
///
/// Two recordings of `corehop measure program` are compared run by run: wall time, CPU time, waiting,
/// preemptions, migrations. One recording with arms (`--arm`) is compared by pairs of its runs, and needs no
/// second file.
///
/// Exit code 0: no cell has an outcome of --fail-on, and every cell could have had one. Exit code 1: a cell has one; or the
/// results have no cell in common; or they have so few replicates that a slowdown could not have shown. The answer says which
/// slowdown would have been seen with 80 % power, and how many replicates would tell the cells that remain open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The baseline.
    #[arg(value_name = "A.parquet")]
    a: PathBuf,
    /// The result to compare with the baseline.
    #[arg(value_name = "B.parquet")]
    b: Option<PathBuf>,
    /// Differences below this share of A's median do not count.
    #[arg(long, value_name = "PERCENT%", default_value = "5%", value_parser = super::quantities::percent)]
    margin: f64,
    /// Differences below this time do not count, however small A's median is.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    least: Nanos,
    /// Outcomes of a cell, or of the wall time of recordings, that end with exit code 1, separated by commas: slower; different (slower or faster);
    /// unknown (undecided).
    #[arg(
        long,
        value_name = "slower|different|unknown",
        value_delimiter = ',',
        default_value = "slower"
    )]
    fail_on: Vec<FailOn>,
    /// The probability that two equal results show no cell slower or faster; the confidence of each interval.
    #[arg(long, value_name = "PERCENT%", default_value = "95%", value_parser = super::quantities::confidence)]
    confidence: f64,
    /// The estimator of the delay of a sample (see `corehop explain estimator`).
    #[arg(long, default_value = "difference")]
    estimator: Estimator,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if input::is_recording(&args.a)? {
        return recordings(args);
    }
    let Some(b) = &args.b else {
        let what = format!(
            "missing second result: only a recording with arms is compared alone, and {} is none",
            shown::path(&args.a)
        );
        return Err(Failure::says(Exit::Usage, what));
    };
    let [a, b] = [delays(&args.a, args.estimator)?, delays(b, args.estimator)?];
    let margin = Margin { share: args.margin, least_us: args.least.get() as f64 / 1e3 };
    let comparison = compare(&a, &b, margin, 1.0 - args.confidence)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    print(&if args.json {
        format!("{:#}\n", doubts::with(serde_json::json!(comparison)))
    } else {
        decided::comparison(&comparison, &args.fail_on, Page::of_stdout().width)
    })?;
    Ok(if comparison.gate(&args.fail_on) == Gate::Passes { Exit::Done } else { Exit::No })
}

/// Compares two recordings, or the arms of one.
fn recordings(args: &Args) -> Result<Exit, Failure> {
    let alpha = 1.0 - args.confidence;
    let usage = |error| Failure::new(Exit::Usage, error);
    let a = runs(&args.a)?;
    let comparison = match &args.b {
        None => program_runs::arms(&a, alpha).map_err(usage)?,
        Some(b) => {
            let names = [&args.a, b].map(|path| shown::path(path));
            let names = [names[0].as_str(), names[1].as_str()];
            program_runs::recordings([&a, &runs(b)?], names, alpha).map_err(usage)?
        }
    };
    if comparison.arms.iter().all(|arm| arm.effects.is_empty()) {
        let what = "nothing to compare: name two recordings, or one with arms \
                    (`corehop measure program --arm`) whose runs succeeded";
        return Err(Failure::says(Exit::No, what));
    }
    print(&if args.json {
        format!("{:#}\n", doubts::with(serde_json::json!(comparison)))
    } else {
        report::program_runs::text(&comparison)
    })?;
    Ok(if comparison.passes(&args.fail_on, args.margin) { Exit::Done } else { Exit::No })
}

/// The runs of a recording, found from any of its files.
fn runs(path: &Path) -> Result<Vec<RunFigures>, Failure> {
    let files = [path.to_owned()];
    let recorded = input::gather(&files, Estimator::Difference)?.recorded;
    let Some(it) = recorded.first() else {
        let what = format!("{} is not the recording of a program, as the other", shown::path(path));
        return Err(Failure::says(Exit::Usage, what));
    };
    Ok(RunFigures::of_recording(&it.recording, &BTreeMap::new()))
}

/// The delays in a file of samples.
fn delays(path: &Path, estimator: Estimator) -> Result<Delays, Failure> {
    let named = || shown::path(path);
    let mut reader = input::of_samples(path)?;
    let mut delays = Delays::new(estimator);
    while let Some(samples) =
        reader.next_rows::<Sample>().map_err(|error| Failure::from(error).context(named()))?
    {
        delays.take(&samples);
    }
    Ok(delays)
}
