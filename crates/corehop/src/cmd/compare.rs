// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop compare`

use std::path::PathBuf;

use corehop_app::compare::{ComparisonRequest, compare};
use corehop_app::failure::{Exit, Failure};
use corehop_decide::gate::FailOn;
use corehop_plan::units::Nanos;
use corehop_stats::estimator::Estimator;

use crate::output::{stdout_layout, told};

/// Compare two results, or two folders of results: two kernels, two hosts, before and after.
///
/// A result is a file of any experiment of `corehop measure`, a log of `place -o`, an answer of `offload -o`, or an export of
/// hyperfine (`--export-json`). Two folders are compared file by file, by name; files that differ only in a number at the end
/// (`get-1.json`, `get-2.json`) are replicates of one result. One recording with arms (`--arm`) is compared by pairs of its
/// runs, and needs no second file. Nor does an export of hyperfine with two commands: the first is the baseline.
///
/// Exit code 0: nothing has an outcome of --fail-on, and everything could have had one. Exit code 1: something has such an
/// outcome; or B lacks what A has; or there are so few replicates that no slowdown could have shown. The answer says which
/// slowdown would have been seen with 80 % power, and how many replicates would decide what remains open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The baseline.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The result to compare with the baseline.
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Ignore differences below this share of A's median; with 0% every difference counts.
    #[arg(long, value_name = "PERCENT%", default_value = "5%", value_parser = corehop_app::quantities::margin)]
    margin: f64,
    /// Ignore differences below this time, regardless of A's median [default: 1us for delays, none for other times]
    #[arg(long, value_name = "TIME")]
    least: Option<Nanos>,
    /// Outcomes that end with exit code 1, separated by commas: slower; different (slower or faster); unknown
    /// (undecided). For recordings, the wall time of each arm counts.
    #[arg(
        long,
        value_name = "slower|different|unknown",
        value_delimiter = ',',
        default_value = "slower"
    )]
    fail_on: Vec<FailOn>,
    /// Probability that two equal results show no slower or faster cell, and confidence of each interval
    #[arg(long, value_name = "PERCENT%", default_value = "95%", value_parser = corehop_app::quantities::confidence)]
    confidence: f64,
    /// The estimator of a sample's delay (see `corehop help estimator`) [default: difference]
    #[arg(long)]
    estimator: Option<Estimator>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let request = ComparisonRequest {
        a: args.a.clone(),
        b: args.b.clone(),
        margin: args.margin,
        least: args.least,
        fail_on: args.fail_on.clone(),
        confidence: args.confidence,
        estimator: args.estimator,
        width: stdout_layout().width,
    };
    told(&compare(&request)?, args.json)
}
