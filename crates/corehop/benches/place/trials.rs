// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with one connection: left alone, in both static placements, watched, and placed from the worse of them.

use std::ffi::OsStr;
use std::thread::sleep;
use std::time::Duration;

use corehop_core::units::Cpu;
use serde_json::{Value, json};

use super::programs::{Pair, Program, cpu_s, interrupt, only, placer, rate};
use crate::Fallible;
use crate::median::Median;
use crate::packages::Packages;

/// The length of a stretch.
const STRETCH: Duration = Duration::from_millis(700);
/// From a change to the stretch after it.
const SETTLE: Duration = Duration::from_millis(100);
/// A placer first measures what a wake-up costs.
const BEGIN: Duration = Duration::from_millis(1500);
/// The time after which a placer is to have found the better side.
const FOUND: Duration = Duration::from_secs(5);
/// A proxy of progress that each of the servers and clients has.
const PROGRESS: &str = "syscalls:write,writev,sendto,sendmsg";

/// The rates of a block, in packets per second.
#[derive(Debug, Clone, Copy)]
struct Block {
    alone: [f64; 2],
    same: f64,
    separate: f64,
    watched: f64,
    placed: f64,
    /// The CPU time that watching took, in CPUs.
    watching: f64,
}

impl Block {
    fn alone(&self) -> f64 {
        f64::midpoint(self.alone[0], self.alone[1])
    }
}

/// All figures of a server; `blocks` times everything.
pub(crate) fn figures(
    program: Program,
    packages: &Packages,
    cpus: [Cpu; 2],
    blocks: usize,
) -> Fallible<Vec<Value>> {
    let pair = program.begin(packages, 1)?;
    let worst = worst(&pair, cpus)?;
    let mut all = Vec::new();
    for _ in 0..blocks {
        all.push(block(&pair, cpus, &worst)?);
    }
    let name = program.name();
    let ratio = |what: &str, of: &dyn Fn(&Block) -> f64| {
        figure(&format!("place/{name}-{what}"), "ratio", &all, of)
    };
    let mut figures = vec![
        ratio("floor", &|it| it.alone[1] / it.alone[0]),
        ratio("same-over-alone", &|it| it.same / it.alone()),
        ratio("separate-over-alone", &|it| it.separate / it.alone()),
        ratio("placed-over-alone", &|it| it.placed / it.alone()),
        figure(&format!("place/{name}-live-of-best-percent"), "%", &all, &|it| {
            100.0 * it.placed / it.same.max(it.separate)
        }),
        figure(&format!("place/{name}-loss-percent"), "%", &all, &|it| {
            100.0 * (1.0 - it.watched / it.alone())
        }),
        figure(&format!("place/{name}-cpu-percent"), "%", &all, &|it| 100.0 * it.watching),
    ];
    for it in &mut figures {
        it["worst_start"] = json!(worst);
        it["blocks"] = json!(blocks);
    }
    Ok(figures)
}

fn block(pair: &Pair, cpus: [Cpu; 2], worst: &str) -> Fallible<Block> {
    let settled = || {
        sleep(SETTLE);
        rate(STRETCH)
    };
    pair.release()?;
    let before = settled()?;
    pair.put(&only(cpus[0]), &only(cpus[0]))?;
    let same = settled()?;
    pair.put(&only(cpus[0]), &only(cpus[1]))?;
    let separate = settled()?;
    pair.release()?;
    let (watched, watching) = watched(pair)?;
    let after = settled()?;
    let placed = placed(pair, worst)?;
    Ok(Block { alone: [before, after], same, separate, watched, placed, watching })
}

/// The rate beside a placer that only watches, and the CPU time that it takes.
fn watched(pair: &Pair) -> Fallible<(f64, f64)> {
    let placer = placer(&pair.pids(), &[OsStr::new("--dry-run")])?;
    sleep(BEGIN);
    let before = cpu_s(&placer)?;
    let packets = rate(2 * STRETCH)?;
    let watching = (cpu_s(&placer)? - before) / (2 * STRETCH).as_secs_f64();
    interrupt(placer)?;
    Ok((packets, watching))
}

/// The rate that a placer comes to from the worse side.
fn placed(pair: &Pair, worst: &str) -> Fallible<f64> {
    let placer = placer(&pair.pids(), &["--start", worst, "--progress", PROGRESS].map(OsStr::new))?;
    sleep(BEGIN + FOUND);
    let packets = rate(STRETCH)?;
    interrupt(placer)?;
    Ok(packets)
}

/// The start that is worse for this server.
fn worst(pair: &Pair, cpus: [Cpu; 2]) -> Fallible<String> {
    pair.put(&only(cpus[0]), &only(cpus[0]))?;
    let same = rate(STRETCH)?;
    pair.put(&only(cpus[0]), &only(cpus[1]))?;
    let separate = rate(STRETCH)?;
    pair.release()?;
    let [a, b] = cpus.map(|cpu| cpu.0);
    Ok(if same < separate { a.to_string() } else { format!("{a},{b}") })
}

/// A figure: the median over the blocks, with its 95 % interval.
fn figure(name: &str, unit: &str, all: &[Block], of: &dyn Fn(&Block) -> f64) -> Value {
    let values: Vec<f64> = all.iter().map(of).collect();
    match Median::of(&values) {
        Some(it) => it.figure(name, unit),
        None => json!({"name": name, "value": null, "unit": unit, "why": "no blocks"}),
    }
}
