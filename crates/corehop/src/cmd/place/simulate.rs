// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placer on a simulated machine.

use std::fmt::Write as _;

use corehop_decide::placer::rehearsal::{PairRehearsal, Rehearsed, rehearse, wake_costs};
use corehop_decide::placer::terrain::Terrain;
use corehop_decide::placer::{Action, InitialPlacement};
use corehop_plan::units::Cpu;
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};
use serde_json::json;

use crate::cmd::measure::on;
use crate::output::either;
use corehop_app::failure::{Exit, Failure};
use corehop_app::place::check_start;

/// Place pairs of threads on a simulated machine, and compare with leaving them alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The machine: the id of a platform, or a platform file
    #[arg(long, value_name = "PLATFORM")]
    on: String,
    /// The number of pairs [default: one for every two CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    pairs: Option<u32>,
    /// The first CPUs of the threads: `spread`, `packed`, or CPUs such as `0,2-3`, a thread on each in turns [default: spread]
    #[arg(long, value_name = "spread|packed|CPUS")]
    start: Option<InitialPlacement>,
    /// Try placements that no evidence speaks for, too
    #[arg(long)]
    search: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Places pairs of threads on the machine that is named, and says what came of it.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let machine = args.on.as_str();
    if machine == on::LIVE {
        let why =
            "--on live: name the processes instead, or a simulated machine such as xeon_e5520";
        return Err(Failure::says(Exit::Usage, why));
    }
    let platform = on::platform(machine)?;
    let failed =
        |error: &dyn std::fmt::Display| Failure::says(Exit::NotPossible, error.to_string());
    let costs = wake_costs(&platform).map_err(|error| failed(&error))?;
    let terrain = Terrain::of(&platform, costs);
    check_start(args.start.as_ref(), &terrain)?;
    let cpus = platform.usable().len();
    let pairs = args.pairs.map_or(cpus / 2, |pairs| pairs as usize).max(1);
    let start = args.start.clone().unwrap_or(InitialPlacement::Spread);
    let cpus: Vec<Cpu> = start.cpus(&terrain).into_iter().cycle().take(2 * pairs).collect();
    let program = GangProgram::Exchange { items: 1, instructions: 0, through: Channel::Socket };
    let pairs_of = PairRehearsal { program, sharing: Sharing::Write, cpus };
    let done =
        rehearse(&platform, &pairs_of, costs, args.search, 1).map_err(|error| failed(&error))?;
    let json = args.json.then(|| {
        json!({
            "machine": platform.id, "pairs": pairs, "start": start, "wake_costs": costs,
            "rounds_per_s": done, "simulated": true,
        })
    });
    either(&sentence(&done), json.as_ref(), || text(&platform.name, pairs, &start, &done))?;
    Ok(Exit::Done)
}

fn sentence(done: &Rehearsed) -> String {
    let of_best = |rate: f64| 100.0 * rate / done.best();
    format!(
        "Placed, the pairs reach {:.1} % of the best placement; left alone they reach {:.1} %.",
        of_best(done.placed),
        of_best(done.alone)
    )
}

fn text(machine: &str, pairs: usize, start: &InitialPlacement, done: &Rehearsed) -> String {
    let pair = if pairs == 1 { "pair" } else { "pairs" };
    let mut text = format!(
        "{machine}, simulated: {pairs} {pair} of threads that send each other messages, started {start}\n"
    );
    let rates = [
        ("left alone", done.alone),
        ("each pair on one CPU", done.same),
        ("each pair below one cache", done.together),
        ("placed", done.placed),
    ];
    for (what, rate) in rates {
        let of_best = 100.0 * rate / done.best();
        _ = writeln!(text, "  {what:<26} {rate:>12.0} rounds/s {of_best:>6.1} %");
    }
    let tried = done.said.iter().filter(|it| matches!(it, Action::Try(_))).count();
    let kept = |it: &&Action| matches!(it, Action::Judge { kept: true, .. });
    let kept = done.said.iter().filter(kept).count();
    _ = writeln!(
        text,
        "{tried} placements tried, {kept} kept. 100 % is the best of the first three."
    );
    text
}
