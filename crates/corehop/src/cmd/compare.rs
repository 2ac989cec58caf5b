// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop compare`

use std::path::PathBuf;

use corehop_app::compare::{ComparisonRequest, compare};
use corehop_app::failure::{Exit, Failure};
use corehop_decide::gate::FailOn;
use corehop_plan::units::Nanos;
use corehop_stats::estimator::Estimator;

use crate::output::{Force, repeated, stdout_layout, told};

/// Compare two results, or two folders of results, for example of two kernels, of two hosts, or from before and after
/// a change.
///
/// A result is a file of any experiment of `corehop measure`, a log of `place -o`, an answer of `offload -o`, or an
/// export of hyperfine (`--export-json`). corehop compares two folders file by file, by name. Files whose names differ
/// only in a number at the end (`get-1.json`, `get-2.json`) are replicates of one result. A recording with arms
/// (`--arm`) needs no second file, because corehop compares pairs of its runs. An export of hyperfine with two commands
/// needs no second file either; the first command is the baseline.
///
/// Exit code 0 means that no cell has an outcome of --fail-on, although the replicates were enough to show such an
/// outcome. Exit code 1 means that a cell has an outcome of --fail-on, that B lacks a cell of A, or that the replicates
/// are too few to show a slowdown. The answer states the slowdown that the comparison detects with 80 % power, and the
/// number of replicates that would decide the open cells.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take this result as the baseline.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Compare this result with the baseline.
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Ignore differences below this share of the median of A; with 0% every difference counts.
    #[arg(long, value_name = "PERCENT%", default_value = "5%", value_parser = corehop_app::quantities::margin)]
    margin: f64,
    /// Ignore differences below this time, whatever the median of A is [default: 1us for delays, none for other
    /// times]
    #[arg(long, value_name = "TIME")]
    least: Option<Nanos>,
    /// Exit with code 1 if a cell has one of these outcomes, separated by commas: slower; different (slower or
    /// faster); unknown (undecided). For a recording with arms, the wall time of each arm decides the outcome.
    #[arg(
        long,
        value_name = "slower|different|unknown",
        value_delimiter = ',',
        default_value = "slower"
    )]
    fail_on: Vec<FailOn>,
    /// Require this probability that two equal results show no slower or faster cell; each interval has the same
    /// confidence
    #[arg(long, value_name = "PERCENT%", default_value = "95%", value_parser = corehop_app::quantities::confidence)]
    confidence: f64,
    /// Compute the delay of a sample with this estimator (see `corehop help estimator`) [default: difference]
    #[arg(long)]
    estimator: Option<Estimator>,
    /// Write a page: one self-contained HTML file.
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
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
        output: args.output.clone(),
        force: args.force.force,
        command: repeated(),
    };
    told(&compare(&request)?, args.json)
}
