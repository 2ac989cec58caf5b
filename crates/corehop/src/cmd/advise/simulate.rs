// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise simulate`: advice from a simulated platform.

use corehop_decide::simulated::SimulationGrid;

use super::AdviceOptions;
use crate::cmd::measure::on::LIVE;
use crate::output;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Simulate the synthetic method on a platform (a minute or more), and advise from its samples.
///
/// A simulation also shows what cache partitioning would save.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id of a platform, or a platform file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    on: String,
    /// Leave out polluters on the other CPUs, which take most of the time.
    #[arg(long)]
    idle: bool,
    /// Samples per cell.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(2..)
    )]
    samples: u32,
    /// The seed of all random draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    wishes: AdviceOptions,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.on == LIVE {
        let what = "--on simulates, but this host is measured: give the file of `corehop measure synthetic -o FILE`";
        return Err(Failure::says(Exit::Usage, what));
    }
    let output = args.wishes.page(&[])?;
    let platform = input::platform(&args.on)?;
    let mut what = SimulationGrid {
        loaded: !args.idle,
        samples: args.samples,
        seed: args.seed,
        ..SimulationGrid::default()
    };
    if !args.wishes.wss.is_empty() {
        what.wss.clone_from(&args.wishes.wss);
    }
    what.lengths.extend(args.wishes.length);
    let bar = output::spinner();
    bar.set_message(format!("simulating {}", platform.id));
    // A steady tick is a thread, and indicatif panics if the system starts none.
    bar.tick();
    let mut advice = args.wishes.advise(&what.model(&platform)?)?;
    let (savings, silent) = what.partitioning(&platform)?;
    bar.finish_and_clear();
    advice.partitioning = savings;
    advice.silent.extend(silent);
    args.wishes.answer(&advice, output, &args.on)
}
