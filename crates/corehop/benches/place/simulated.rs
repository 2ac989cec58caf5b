// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of threads on simulated machines with several caches: what a placer comes to from any start.

use std::time::Instant;

use corehop_core::decision::placer::rehearsal::{Pairs, Rehearsed, rehearse, wake_costs};
use corehop_core::experiment::Draw;
use corehop_core::platform::Platform;
use corehop_core::units::{Cpu, CpuList};
use corehop_core::workload::gang::{Channel, Program, Sharing};
use serde_json::{Value, json};

use crate::Fallible;

/// Machines with two packages, and with four.
const PLATFORMS: [&str; 3] = ["xeon_e5520", "epyc_7313", "xeon_l7455"];

/// A start: a name, and the CPUs of the threads.
type Start = (&'static str, Vec<Cpu>);

/// The figures: the least share of the best placement, and the most that was lost against leaving alone.
pub(crate) fn figures(short: bool) -> Fallible<Vec<Value>> {
    let mut cases = Vec::new();
    for id in &PLATFORMS[..if short { 1 } else { PLATFORMS.len() }] {
        let platform = Platform::named(id).ok_or("no such platform")??;
        let costs = wake_costs(&platform)?;
        let cpus = platform.usable().len();
        for threads in [2, cpus / 2, cpus].map(|it| it.max(2)) {
            for (start, cpus) in starts(&platform, threads) {
                for program in programs(threads) {
                    let begun = Instant::now();
                    let word = program.word();
                    let sharing = Sharing::Write;
                    let pairs = Pairs { program, sharing, cpus: cpus.clone() };
                    let it = rehearse(&platform, &pairs, costs, false, 1)?;
                    let seconds = begun.elapsed().as_secs_f64();
                    let case = case((id, threads, start, word), &it, seconds);
                    eprintln!("{case}");
                    cases.push(case);
                }
            }
        }
    }
    let least = |what: &str| {
        let values = cases.iter().filter_map(|it| it[what].as_f64());
        values.fold(f64::INFINITY, f64::min)
    };
    let lost = 100.0 * (1.0 - least("of_alone"));
    Ok(vec![
        json!({"name": "place/simulated-of-best-percent", "value": 100.0 * least("of_best"), "unit": "%", "cases": cases}),
        json!({"name": "place/simulated-worse-than-alone-percent", "value": lost.max(0.0), "unit": "%", "of": cases.len()}),
    ])
}

/// Pairs that send each other messages, and pairs that swap items of common memory, of which no wake-up tells; of many
/// threads only with few items, or this would take too long.
fn programs(threads: usize) -> Vec<Program> {
    let through = Channel::Socket;
    let swap = |items| Program::Swap { items, fixed_low_bits: false };
    let mut programs = vec![Program::Exchange { items: 1, instructions: 0, through }, swap(100)];
    if threads == 2 {
        programs.push(swap(100_000));
    }
    programs
}

fn case(
    (id, threads, start, program): (&str, usize, &str, &str),
    it: &Rehearsed,
    seconds: f64,
) -> Value {
    json!({
        "program": program,
        "machine": id,
        "threads": threads,
        "start": start,
        "of_best": it.placed / it.best(),
        "of_alone": it.placed / it.alone,
        "alone_of_best": it.alone / it.best(),
        "same_of_best": it.same / it.best(),
        "together_of_best": it.together / it.best(),
        "said": it.said.len(),
        "seconds": seconds,
    })
}

/// Threads one after the other on all CPUs, on the CPUs of all packages in turn, and in disorder.
fn starts(platform: &Platform, threads: usize) -> Vec<Start> {
    let all: Vec<Cpu> = platform.usable().iter().collect();
    let packages = &platform.packages.value;
    let most = packages.iter().map(CpuList::len).max().unwrap_or(0);
    let row = |at: usize| packages.iter().filter_map(move |it| it.iter().nth(at));
    let spread: Vec<Cpu> = (0..most).flat_map(row).collect();
    let mut shuffled = all.clone();
    let mut draw = Draw::new(7, threads as u64);
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, draw.below(at as u64 + 1) as usize);
    }
    let some = |cpus: Vec<Cpu>| cpus.into_iter().cycle().take(threads / 2 * 2).collect();
    vec![("packed", some(all)), ("spread", some(spread)), ("shuffled", some(shuffled))]
}
