// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop compare`

use std::path::{Path, PathBuf};

use corehop_core::decision::comparison::{Delays, FailOn, Margin, compare};
use corehop_core::model::estimator::Estimator;
use corehop_core::report::decided;
use corehop_core::samples::{Row, Sample};
use corehop_core::units::Nanos;

use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::print;

/// Compare two results cell by cell: two kernels, two hosts, before and after.
///
/// Exit code 0: the comparison passes the gate of --fail-on; 1: it does not, or the results have no cell in
/// common. An undecided cell needs more replicates, and the last line estimates how many.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The baseline.
    #[arg(value_name = "A.parquet")]
    a: PathBuf,
    /// The result to compare with the baseline.
    #[arg(value_name = "B.parquet")]
    b: PathBuf,
    /// Differences below this share of A's median do not count.
    #[arg(long, value_name = "PERCENT%", default_value = "5%", value_parser = super::quantities::percent)]
    margin: f64,
    /// Differences below this time do not count, however small A's median is.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    least: Nanos,
    /// Outcomes of a cell that end with exit code 1, separated by commas: slower; different (slower or faster);
    /// unknown (undecided).
    #[arg(
        long,
        value_name = "slower|different|unknown",
        value_delimiter = ',',
        default_value = "slower,unknown"
    )]
    fail_on: Vec<FailOn>,
    /// The joint confidence of all intervals.
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
    let [a, b] = [delays(&args.a, args.estimator)?, delays(&args.b, args.estimator)?];
    let margin = Margin { share: args.margin, least_us: args.least.get() as f64 / 1e3 };
    let comparison = compare(&a, &b, margin, 1.0 - args.confidence)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    print(&if args.json {
        format!("{:#}\n", serde_json::json!(comparison))
    } else {
        decided::comparison(&comparison)
    })?;
    Ok(if comparison.passes(&args.fail_on) { Exit::Done } else { Exit::No })
}

/// The delays in a file of samples.
fn delays(path: &Path, estimator: Estimator) -> Result<Delays, Failure> {
    let named = || path.display().to_string();
    let mut reader = input::open(path)?;
    let rows = reader.kind().rows.clone();
    if rows != Sample::KIND {
        let what = format!("{} contains {rows}, not samples of delays", named());
        return Err(Failure::says(Exit::Usage, what));
    }
    let mut delays = Delays::new(estimator);
    while let Some(samples) =
        reader.next_rows::<Sample>().map_err(|error| Failure::from(error).context(named()))?
    {
        delays.take(&samples);
    }
    Ok(delays)
}
