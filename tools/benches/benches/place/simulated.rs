// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of threads on simulated machines with several caches: what a placer comes to from any start.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use corehop_decide::placer::rehearsal::{PairRehearsal, rehearse, wake_costs};
use corehop_decide::placer::terrain::WakeCosts;
use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};
use serde_json::{Value, json};

use crate::Fallible;

/// Machines with two packages, and with four.
const PLATFORMS: [&str; 3] = ["xeon_e5520", "epyc_7313", "xeon_l7455"];

/// A start: a name, and the CPUs of the threads.
type Start = (&'static str, Vec<Cpu>);

/// Pairs on a machine.
struct Case {
    machine: &'static str,
    start: &'static str,
    costs: WakeCosts,
    pairs: PairRehearsal,
}

/// The figures: the least share of the best placement, and the most that was lost against leaving alone.
pub(crate) fn figures(short: bool) -> Fallible<Vec<Value>> {
    let mut cases = Vec::new();
    for machine in &PLATFORMS[..if short { 1 } else { PLATFORMS.len() }] {
        let platform = Platform::named(machine).ok_or("no such platform")??;
        let costs = wake_costs(&platform)?;
        let cpus = platform.usable().len();
        for threads in [2, cpus / 2, cpus].map(|it| it.max(2)) {
            for (start, cpus) in starts(&platform, threads) {
                for program in programs(machine, start, threads) {
                    let pairs =
                        PairRehearsal { program, sharing: Sharing::Write, cpus: cpus.clone() };
                    cases.push(Case { machine, start, costs, pairs });
                }
            }
        }
    }
    let cases = rehearsed(&cases)?;
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

/// Each case, in their order, on as many CPUs at once as there are.
fn rehearsed(cases: &[Case]) -> Fallible<Vec<Value>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || -> Result<(), String> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return Ok(()) };
            let value = case.rehearsed().map_err(|it| it.to_string())?;
            found.lock().map_err(|it| it.to_string())?.insert(at, value);
        }
    };
    let workers = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| -> Fallible<()> {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for it in workers {
            it.join().map_err(|_| "a rehearsal panicked")??;
        }
        Ok(())
    })?;
    let found = found.into_inner().map_err(|it| it.to_string())?;
    Ok(found.into_values().collect())
}

/// Pairs that send each other messages, and pairs that swap items of common memory, of which no wake-up tells; of many
/// threads, and on larger machines, only with few items, and of many threads from one start, or this would take too long.
fn programs(machine: &str, start: &str, threads: usize) -> Vec<GangProgram> {
    let through = Channel::Socket;
    let swap = |items| GangProgram::Swap { items, fixed_low_bits: false };
    let mut programs = vec![GangProgram::Exchange { items: 1, instructions: 0, through }];
    if threads == 2 || start == "shuffled" {
        programs.push(swap(100));
    }
    if threads == 2 && machine == PLATFORMS[0] {
        programs.push(swap(100_000));
    }
    programs
}

impl Case {
    fn rehearsed(&self) -> Fallible<Value> {
        let begun = Instant::now();
        let platform = Platform::named(self.machine).ok_or("no such platform")??;
        let it = rehearse(&platform, &self.pairs, self.costs, false, 1)?;
        Ok(json!({
            "program": self.pairs.program.word(),
            "machine": self.machine,
            "threads": self.pairs.cpus.len(),
            "start": self.start,
            "of_best": it.placed / it.best(),
            "of_alone": it.placed / it.alone,
            "alone_of_best": it.alone / it.best(),
            "same_of_best": it.same / it.best(),
            "together_of_best": it.together / it.best(),
            "said": it.said.len(),
            "seconds": begun.elapsed().as_secs_f64(),
        }))
    }
}

/// Threads one after the other on all CPUs, on the CPUs of all packages in turn, and in disorder.
fn starts(platform: &Platform, threads: usize) -> Vec<Start> {
    let all: Vec<Cpu> = platform.usable().iter().collect();
    let packages = &platform.packages.value;
    let most = packages.iter().map(CpuList::len).max().unwrap_or(0);
    let row = |at: usize| packages.iter().filter_map(move |it| it.iter().nth(at));
    let spread: Vec<Cpu> = (0..most).flat_map(row).collect();
    let mut shuffled = all.clone();
    let mut draw = DrawStream::new(7, threads as u64);
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, draw.below(at as u64 + 1) as usize);
    }
    let some = |cpus: Vec<Cpu>| cpus.into_iter().cycle().take(threads / 2 * 2).collect();
    vec![("packed", some(all)), ("spread", some(spread)), ("shuffled", some(shuffled))]
}
