// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim validate`

use std::path::PathBuf;

use corehop_app::failure::{Exit, Failure};
use corehop_app::validate::{ValidationRequest, validate};
use corehop_plan::units::Bytes;

use crate::output::{Force, told};

/// Rerun published experiments on the simulated machine, and report its error.
///
/// The output joins every printed row with the simulated one. It marks rows that platform parameters were
/// fitted on, and rows that tell of something that is not modelled, and judges neither. The simulation samples some sets of all caches (one in 2 to 64) for
/// working sets of a mebibyte and more. A study reaches its aim if the median error, the 90th percentile and
/// the order of events or kernels all meet it. With fewer samples than the study's number the aim is not judged.
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
    /// Extra passes before the warm touches of tables of costs; default: the study's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=64))]
    passes: Option<u32>,
    /// The seed of all random draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with one figure per table: printed against simulated values.
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
    let request = ValidationRequest {
        what: args.what.clone(),
        samples: args.samples,
        wss: args.wss.clone(),
        on: args.on.clone(),
        exact: args.exact,
        passes: args.passes,
        seed: args.seed,
        output: args.output.clone(),
        svg: args.svg.clone(),
        force: args.force.force,
    };
    told(&validate(&request)?, args.json)
}
