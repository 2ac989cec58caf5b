// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise simulate`: advice from a simulated platform.

use corehop_app::advise::SimulatedAdvice;

use super::AdviceOptions;
use crate::cmd::measure::on::LIVE;
use crate::output;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Simulate the synthetic method on a platform (a minute or more), and advise from its samples.
///
/// The simulation also shows the savings of cache partitioning.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulate this machine: the id of a platform, or a platform file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    on: String,
    /// Omit polluters on the other CPUs, because their simulation takes most of the time.
    #[arg(long)]
    idle: bool,
    /// Take this many samples per cell.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(2..)
    )]
    samples: u32,
    /// Draw all random numbers from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    wishes: AdviceOptions,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.on == LIVE {
        let what = "--on is for simulated machines; for this host, pass the file of `corehop measure synthetic -o FILE`";
        return Err(Failure::says(Exit::Usage, what));
    }
    let output = args.wishes.page(&[])?;
    let platform = input::platform(&args.on)?;
    let simulation = SimulatedAdvice {
        wanted: args.wishes.wanted(),
        loaded: !args.idle,
        samples: args.samples,
        seed: args.seed,
    };
    let bar = output::spinner();
    bar.set_message(format!("simulating {}", platform.id));
    // A steady tick is a thread, and indicatif panics if the system starts none.
    bar.tick();
    let advice = simulation.on(&platform)?;
    bar.finish_and_clear();
    args.wishes.answer(&advice, output, &args.on)
}
