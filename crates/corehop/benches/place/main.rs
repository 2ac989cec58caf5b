// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing: the time of a decision, the cost of watching, and servers that are placed.
//!
//! `cargo bench -p corehop --bench place -- OUT.json`; `--short` has fewer blocks and leaves out what takes long,
//! `--program=NAME` is about one of them. All live: two CPUs stand for near (one CPU) and far (two).
#![expect(clippy::print_stderr, reason = "progress and results go to stderr")]

mod decision;
mod locks;
mod model;
mod pages;
mod pairs;
mod programs;
mod simulated;
mod swap;
mod trials;
mod wakes;
#[path = "../list/mod.rs"]
mod list;
#[path = "../median/mod.rs"]
mod median;
#[path = "../packages/mod.rs"]
mod packages;

use std::path::PathBuf;

use corehop_core::units::Cpu;
use corehop_linux::bpf::sharing::WakeGraph;
use programs::Program;
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Blocks of a server, and of a short run.
const BLOCKS: [usize; 2] = [12, 6];

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(swap) = arguments.iter().find_map(|word| word.strip_prefix(swap::PROGRAM)) {
        return swap::run(swap);
    }
    if let Some(pages) = arguments.iter().find_map(|word| word.strip_prefix(pages::PROGRAM)) {
        return pages::run(pages);
    }
    let out = arguments.iter().find(|word| !word.starts_with("--"));
    let out = out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    let short = arguments.iter().any(|word| word == "--short");
    let only = arguments.iter().find_map(|word| word.strip_prefix("--program="));
    let mut figures = Vec::new();
    if only.is_none() {
        figures.push(decision::figure()?);
        figures.push(model::figure()?);
    }
    if only.is_none_or(|it| it == "simulated") {
        figures.extend(simulated::figures(short)?);
    }
    figures.extend(live(short, only)?);
    list::put(figures, &out)
}

/// The figures that take two CPUs and the kernel's counts; it says what is missing.
fn live(short: bool, only: Option<&str>) -> Fallible<Vec<Value>> {
    if let Err(error) = WakeGraph::open() {
        eprintln!("skipped: {error}");
        return Ok(Vec::new());
    }
    let cpus: Vec<Cpu> = corehop_linux::thread::affinity()?.iter().collect();
    let &[a, b, ..] = &cpus[..] else {
        eprintln!("skipped: placing takes two CPUs, and one is usable");
        return Ok(Vec::new());
    };
    let mut figures = if only.is_none() { wakes::figures(a)? } else { Vec::new() };
    if only.is_none_or(|it| it == "locks") {
        figures.extend(locks::figures(a)?);
    }
    if only.is_none_or(|it| it == "swap") {
        figures.extend(swap::figures([a, b], if short { 1 } else { 3 })?);
    }
    if only.is_none_or(|it| it == "pages") {
        figures.extend(pages::figures(short)?);
    }
    let Some(packages) = packages::Packages::fetched()? else { return Ok(figures) };
    if only.is_none() && !short {
        figures.push(pairs::found(&packages)?);
        figures.push(pairs::false_ones()?);
    }
    for program in Program::ALL {
        if only.is_some_and(|it| it != program.name()) || (short && program == Program::Nginx) {
            continue;
        }
        let new = trials::figures(program, &packages, [a, b], BLOCKS[usize::from(short)])?;
        for it in &new {
            eprintln!("{it}");
        }
        figures.extend(new);
    }
    figures.extend(worst(&figures, "cpu-percent", "place/cpu-percent", 1.0));
    figures.extend(worst(&figures, "loss-percent", "place/throughput-loss-percent", 1.0));
    figures.extend(worst(&figures, "live-of-best-percent", "place/live-of-best-percent", -1.0));
    Ok(figures)
}

/// The worst of a figure over the servers: the largest, or with `sign` -1 the least.
fn worst(figures: &[Value], what: &str, name: &str, sign: f64) -> Option<Value> {
    let end = format!("-{what}");
    let of = figures.iter().filter(|it| it["name"].as_str().is_some_and(|it| it.ends_with(&end)));
    let value = |it: &&Value| sign * it["value"].as_f64().unwrap_or(f64::NAN);
    let worst = of.max_by(|x, y| value(x).total_cmp(&value(y)))?;
    let (low, high) = (&worst["low"], &worst["high"]);
    Some(json!({
        "name": name, "value": worst["value"], "unit": "%", "low": low, "high": high, "of": worst["name"],
    }))
}
