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

/// Two results side by side, cell by cell: two kernels, two hosts, before and after.
///
/// Exit code 0: the gate of --fail-on lets it pass; 1: it does not, or they have no cell in common. A cell that
/// cannot be told takes more replicates, and the last line says about how many.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The result to compare with.
    #[arg(value_name = "A.parquet")]
    a: PathBuf,
    /// The result that is compared.
    #[arg(value_name = "B.parquet")]
    b: PathBuf,
    /// What makes no difference, as a share of A's median.
    #[arg(long, value_name = "PERCENT%", default_value = "5%", value_parser = super::quantities::percent)]
    margin: f64,
    /// What makes no difference, however small A's median is.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    least: Nanos,
    /// What ends with exit code 1, separated by commas: a cell that is slower; one that is different (slower or
    /// faster); one that cannot be told.
    #[arg(
        long,
        value_name = "slower|different|unknown",
        value_delimiter = ',',
        default_value = "slower,unknown"
    )]
    fail_on: Vec<FailOn>,
    /// The confidence with which all intervals hold together.
    #[arg(long, value_name = "PERCENT%", default_value = "95%", value_parser = super::quantities::confidence)]
    confidence: f64,
    /// How a delay is computed from the intervals of a sample (see `corehop explain estimator`).
    #[arg(long, default_value = "difference")]
    estimator: Estimator,
    /// Print it as JSON.
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
        let what = format!("{} holds {rows}, not samples of delays", named());
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
