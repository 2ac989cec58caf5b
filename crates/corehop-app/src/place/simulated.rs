// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a placer on a simulated machine.

use std::fmt::Write as _;

use corehop_decide::placer::rehearsal::{PairRehearsal, Rehearsed, rehearse, wake_costs};
use corehop_decide::placer::terrain::Terrain;
use corehop_decide::placer::{Action, InitialPlacement};
use corehop_plan::platform::Platform;
use corehop_plan::units::Cpu;
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};
use serde_json::json;

use super::check_start;
use crate::answer::Answer;
use crate::failure::{Exit, Failure};

/// Places pairs of threads on a machine (by default one pair for every two CPUs), and compares with no placement.
///
/// # Errors
/// Fails with exit code 2 for CPUs that the machine lacks, and with exit code 3 if the machine cannot be simulated.
pub fn simulate(
    platform: &Platform,
    pairs: Option<u32>,
    start: Option<&InitialPlacement>,
    search: bool,
) -> Result<Answer, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::says(Exit::NotPossible, error.to_string());
    let costs = wake_costs(platform).map_err(|error| failed(&error))?;
    let terrain = Terrain::of(platform, costs);
    check_start(start, &terrain)?;
    let cpus = platform.usable().len();
    let pairs = pairs.map_or(cpus / 2, |pairs| pairs as usize).max(1);
    let start = start.cloned().unwrap_or(InitialPlacement::Spread);
    let cpus: Vec<Cpu> = start.cpus(&terrain).into_iter().cycle().take(2 * pairs).collect();
    let program = GangProgram::Exchange { items: 1, instructions: 0, through: Channel::Socket };
    let pairs_of = PairRehearsal { program, sharing: Sharing::Write, cpus };
    let done = rehearse(platform, &pairs_of, costs, search, 1).map_err(|error| failed(&error))?;
    let rate = |&(placement, rate): &(&str, f64)| json!({"placement": placement, "rounds_per_s": rate, "of_best_percent": of_best(&done, rate)});
    let json = json!({
        "machine": platform.id, "pairs": pairs, "start": start, "wake_costs": costs,
        "rates": rates(&done).iter().map(rate).collect::<Vec<_>>(), "rounds_per_s": done, "simulated": true,
    });
    let text = text(&platform.name, pairs, &start, &done);
    Ok(Answer { sentence: sentence(&done), json, text, exit: Exit::Done })
}

fn sentence(done: &Rehearsed) -> String {
    format!(
        "With the placer the pairs reach {:.1} % of the rate of the best placement; without the placer they reach {:.1} %.",
        of_best(done, done.placed),
        of_best(done, done.alone)
    )
}

/// Returns a rate in percent of the best rate without the placer.
fn of_best(done: &Rehearsed, rate: f64) -> f64 {
    100.0 * rate / done.best()
}

/// Returns the rate of each placement, with the placement in words.
fn rates(done: &Rehearsed) -> [(&'static str, f64); 4] {
    [
        ("left alone", done.alone),
        ("each pair on one CPU", done.same),
        ("each pair below one cache", done.together),
        ("placed", done.placed),
    ]
}

fn text(machine: &str, pairs: usize, start: &InitialPlacement, done: &Rehearsed) -> String {
    let pair = if pairs == 1 { "pair" } else { "pairs" };
    let mut text = format!(
        "{machine}, simulated: {pairs} {pair} of threads that send each other messages, started {start}\n"
    );
    for (what, rate) in rates(done) {
        let of_best = of_best(done, rate);
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
