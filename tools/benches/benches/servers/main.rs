// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real servers, unmodified and off-loaded: throughput, latency, and the time of each core.
//!
//! `cargo bench -p corehop-benches --bench servers -- OUT.json`; `--blocks=N` for more or fewer repetitions, `--server=NAME` for
//! one of them. The arms of a block are run in an order of their own. An arm is compared with another within its block:
//! the median of the ratios, with its interval. Client, server and OS core share the CPUs of this machine.
#![expect(clippy::print_stderr, reason = "progress and results go to stderr")]

mod arms;
mod cores;
#[path = "../list/mod.rs"]
mod list;
#[path = "../median/mod.rs"]
mod median;
#[path = "../packages/mod.rs"]
mod packages;
mod programs;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use arms::Arm;
use cores::{Account, Shares};
use packages::{FOLDER, Packages};
use programs::{Load, Place, Server};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Blocks of the compared arms; those that are only shown have a third of them.
const BLOCKS: usize = 10;
const REPLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/servers/replay.sh");

/// One trial.
#[derive(Debug)]
pub(crate) struct Trial {
    arm: Arm,
    block: usize,
    load: Load,
    cores: Vec<Shares>,
    /// Switches between threads per second, of the whole machine.
    switches: f64,
    /// The answer of `corehop offload`.
    answer: Option<Value>,
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
    let out = arguments.iter().find(|word| !word.starts_with("--"));
    let out = out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    let blocks = value("--blocks=").map_or(Ok(BLOCKS), str::parse)?;
    let Some(packages) = Packages::fetched()? else { return Ok(()) };
    if corehop_system::thread::affinity()?.len() < 2 {
        eprintln!("skipped: off-loading takes two CPUs, and one is usable");
        return Ok(());
    }
    replayed()?;
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = tempfile::Builder::new().prefix("corehop-servers-").tempdir_in(folder)?;
    let place = Place { packages, scratch: scratch.path().to_owned() };
    let mut figures = Vec::new();
    for server in Server::ALL {
        if value("--server=").is_none_or(|name| name == server.name()) {
            figures.extend(of_server(server, &place, blocks)?);
        }
    }
    figures.extend(table::coverage(&figures));
    figures.extend(table::regret(&figures));
    list::put(figures, &out)
}

/// Whether the append-only file of an off-loaded redis is whole: a benchmark of a broken server is worth nothing.
fn replayed() -> Fallible<()> {
    let output = Command::new(REPLAY).arg(corehop_benches::PROGRAM).arg(FOLDER).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    eprintln!("{text}");
    Ok(())
}

fn of_server(server: Server, place: &Place, blocks: usize) -> Fallible<Vec<Value>> {
    let begun = Instant::now();
    if let Err(why) = server.prepare(place) {
        eprintln!("skipped: {}: {why}", server.name());
        return Ok(Vec::new());
    }
    let mut trials = Vec::new();
    for block in 0..blocks {
        let mut arms = Arm::COMPARED.to_vec();
        if block % 3 == 0 {
            arms.extend(Arm::SHOWN);
        }
        // Each block begins with another arm, and every other one goes backwards.
        let first = block % arms.len();
        arms.rotate_left(first);
        if block % 2 == 1 {
            arms.reverse();
        }
        for arm in arms {
            trials.push(trial(server, arm, block, place, false)?);
        }
    }
    let covered = trial(server, Arm::Guarded, blocks, place, true).ok();
    let figures = table::figures(server, &trials, covered.as_ref());
    eprintln!("{}", table::text(server, &trials, begun.elapsed()));
    Ok(figures)
}

fn trial(server: Server, arm: Arm, block: usize, place: &Place, coverage: bool) -> Fallible<Trial> {
    let answer = place.scratch.join("answer.json");
    std::fs::remove_file(&answer).ok();
    let mut accounts = Vec::new();
    let moment = || {
        accounts.push((Account::now()?, Instant::now()));
        Ok(())
    };
    let load = server
        .trial(arm, place, &answer, coverage, moment)
        .map_err(|error| format!("{}, {}: {error}", server.name(), arm.name()))?;
    let [(then, begin), (now, end)] = &accounts[..] else { return Err("two moments".into()) };
    let (cores, switches) = now.since(then);
    let answer = std::fs::read(&answer).ok();
    Ok(Trial {
        arm,
        block,
        load,
        cores,
        switches: switches as f64 / (*end - *begin).as_secs_f64(),
        answer: answer.map(|text| serde_json::from_slice(&text)).transpose()?,
    })
}
