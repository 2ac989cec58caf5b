// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the placer on a simulated machine.

use corehop_app::failure::{Exit, Failure};
use corehop_app::place::simulate;
use corehop_decide::placer::InitialPlacement;

use crate::cmd::measure::on;
use crate::output::told;

/// Place pairs of threads on a simulated machine, and compare their progress with the progress without a placement.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulate this machine: the id of a platform, or a platform file
    #[arg(long, value_name = "PLATFORM")]
    on: String,
    /// Simulate this many pairs of threads [default: one pair for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pairs: Option<u32>,
    /// Set an initial placement: `spread`, `packed`, or CPUs such as `0,2-3`, to which threads are assigned in turn
    /// [default: spread]
    #[arg(long, value_name = "spread|packed|CPUS")]
    start: Option<InitialPlacement>,
    /// Also try placements that no evidence supports
    #[arg(long)]
    search: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Places pairs of threads on the named machine, and prints the effect.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let machine = args.on.as_str();
    if machine == on::LIVE {
        let why =
            "--on live: name the processes instead, or a simulated machine such as xeon_e5520";
        return Err(Failure::says(Exit::Usage, why));
    }
    let platform = on::platform(machine)?;
    told(&simulate(&platform, args.pairs, args.start.as_ref(), args.search)?, args.json)
}
