// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim validate`

use std::path::PathBuf;

use corehop_app::failure::{Exit, Failure};
use corehop_app::validate::{ValidationRequest, validate};
use corehop_plan::units::Bytes;

use crate::output::{Force, told};

/// Rerun published experiments on the simulated machine, and report the error of the simulation.
///
/// For every row of a published table, the output shows the printed and the simulated value. corehop marks rows to
/// which platform parameters were fitted, and does not judge the simulation by these fitted rows. corehop also marks
/// rows that depend on an effect which the simulation lacks, but counts the errors of these rows. The simulation
/// samples some sets of all caches (one in 2 to 64) for working sets of a mebibyte and more. A study reaches its aim
/// if the median error, the 90th percentile of the errors and the order of events or kernels all meet the aim. If the
/// run has fewer samples than the study states, corehop does not judge the aim.
///
/// Exit code 1 means that a study does not reach its aim, that corehop could not judge an aim, or that a printed
/// claim does not hold in the simulation.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The platforms or studies to validate, such as `xeon_x5650` or `waechtler-a4`; default: all.
    #[arg(value_name = "NAME")]
    what: Vec<String>,
    /// Take this many samples per cell; default: the study's number.
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Simulate only these working-set sizes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    wss: Vec<Bytes>,
    /// Use this platform file instead of the built-in one.
    #[arg(long, value_name = "FILE.toml")]
    on: Option<String>,
    /// Simulate every cache set for working sets of any size (many times slower)
    #[arg(long)]
    exact: bool,
    /// In tables of costs, walk over the working set this many extra times before the warm touch; default: the
    /// study's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=64))]
    passes: Option<u32>,
    /// Draw all random numbers from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a page with one figure per table that compares printed with simulated values.
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write the figures to this folder, one file per table.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print every row and the errors of each table as JSON.
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
