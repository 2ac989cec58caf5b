// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing: the time of a decision, the cost of watching, and real programs that are placed.
//!
//! `cargo bench -p corehop-benches --bench place -- OUT.json`; `--short` has two servers and leaves out what takes long,
//! `--program=NAME` is about one program, `--blocks=N` has more or fewer repetitions, `--regret=ROWS.jsonl` is about the regret of
//! all programs alone, and goes on with these rows. All live: two CPUs stand for near (one
//! CPU) and far (two). Ctrl-C ends it with all that it has started.
#![expect(clippy::print_stderr, reason = "progress and results go to stderr")]

mod decision;
mod ends;
mod locks;
mod model;
mod pages;
mod pairs;
mod placer;
mod programs;
mod regret;
mod running;
mod servers;
mod simulated;
mod swap;
mod trials;
mod wakes;
mod watching;
#[path = "../list/mod.rs"]
mod list;
#[path = "../median/mod.rs"]
mod median;
#[path = "../packages/mod.rs"]
mod packages;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corehop_linux::bpf::sharing::WakeGraph;
use corehop_plan::units::Cpu;
use corehop_system::supervisor::interrupt;
use packages::Packages;
use programs::Program;
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Blocks of a program: with six, a median has an interval of 96.9 %.
const BLOCKS: usize = 6;
/// Blocks of each size of swap, and of a short run.
const SWAP_BLOCKS: [usize; 2] = [2, 1];

/// The words of the command line.
struct Wish {
    out: PathBuf,
    short: bool,
    only: Option<String>,
    blocks: usize,
    /// The rows of `--regret`.
    regret: Option<PathBuf>,
}

/// Runs of a placer beside programs that hand over without pause; of a short run.
const ENDS: [usize; 2] = [100, 20];

/// The figures so far, and what failed.
#[derive(Default)]
struct Figures {
    all: Vec<Value>,
    failed: Vec<String>,
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(swap) = arguments.iter().find_map(|word| word.strip_prefix(swap::PROGRAM)) {
        return swap::run(swap);
    }
    if let Some(pages) = arguments.iter().find_map(|word| word.strip_prefix(pages::PROGRAM)) {
        return pages::run(pages);
    }
    let (wish, begun) = (Wish::of(&arguments)?, Instant::now());
    let _alone = alone()?;
    interrupt::install()?;
    let mut figures = Figures::default();
    if let Some(rows) = &wish.regret {
        figures.add("regret", || regret(&wish, rows));
        return finish(figures, &wish, begun);
    }
    if wish.has("decision") {
        figures.add("decision", || Ok(vec![decision::figure()?]));
        figures.add("model", || Ok(vec![model::figure()?]));
    }
    if wish.has("simulated") {
        figures.add("simulated", || simulated::figures(wish.short));
    }
    live(&wish, &mut figures)?;
    finish(figures, &wish, begun)
}

fn finish(figures: Figures, wish: &Wish, begun: Instant) -> Fallible<()> {
    eprintln!("{} s in whole", begun.elapsed().as_secs());
    if interrupt::requested() {
        return Err("interrupted: no figure was written".into());
    }
    list::put(figures.all, &wish.out)?;
    if figures.failed.is_empty() { Ok(()) } else { Err(figures.failed.join("; ").into()) }
}

/// The regret of the programs that are asked for.
fn regret(wish: &Wish, rows: &Path) -> Fallible<Vec<Value>> {
    let cpus: Vec<Cpu> = corehop_system::thread::affinity()?.iter().collect();
    let &[a, b, ..] = &cpus[..] else { return Err("placing takes two CPUs".into()) };
    let packages = Packages::fetched()?.ok_or("the packages cannot be had")?;
    let programs = Program::ALL.into_iter().filter(|it| wish.has(&it.name()));
    regret::figures(&programs.collect::<Vec<_>>(), &packages, [a, b], (wish.blocks, rows))
}

impl Wish {
    fn of(arguments: &[String]) -> Fallible<Self> {
        let value = |name: &str| arguments.iter().find_map(|word| word.strip_prefix(name));
        let out = arguments.iter().find(|word| !word.starts_with("--"));
        Ok(Self {
            out: out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from),
            short: arguments.iter().any(|word| word == "--short"),
            only: value("--program=").map(str::to_owned),
            blocks: value("--blocks=").map_or(Ok(BLOCKS), str::parse)?,
            regret: value("--regret=").map(PathBuf::from),
        })
    }

    /// Whether this is asked for: by its name, or with all others.
    fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|it| it == name)
    }

    /// The same for what takes long.
    fn has_long(&self, name: &str) -> bool {
        self.has(name) && (!self.short || self.only.is_some())
    }

    fn programs(&self) -> Vec<Program> {
        let all: &[Program] =
            if self.short && self.only.is_none() { &Program::SHORT } else { &Program::PLACED };
        all.iter().copied().filter(|it| self.has(&it.name())).collect()
    }
}

impl Figures {
    /// Finds new ones and tells them, or says what failed: the others go on. Nothing where the benchmark is asked to end.
    fn add(&mut self, what: &str, new: impl FnOnce() -> Fallible<Vec<Value>>) {
        if interrupt::requested() {
            return;
        }
        match new() {
            Ok(new) => {
                for it in &new {
                    eprintln!("{it}");
                }
                self.all.extend(new);
            }
            Err(error) => {
                eprintln!("failed: {what}: {error}");
                self.failed.push(format!("{what}: {error}"));
            }
        }
    }
}

/// The figures that take two CPUs and the kernel's counts; it says what is missing.
fn live(wish: &Wish, figures: &mut Figures) -> Fallible<()> {
    if let Err(error) = WakeGraph::open() {
        eprintln!("skipped: {error}");
        return Ok(());
    }
    let cpus: Vec<Cpu> = corehop_system::thread::affinity()?.iter().collect();
    let &[a, b, ..] = &cpus[..] else {
        eprintln!("skipped: placing takes two CPUs, and one is usable");
        return Ok(());
    };
    if wish.has("wakes") {
        figures.add("wakes", || wakes::figures(a));
    }
    if wish.has("locks") {
        figures.add("locks", || locks::figures(a));
    }
    if wish.has("swap") {
        figures.add("swap", || swap::figures([a, b], SWAP_BLOCKS[usize::from(wish.short)]));
    }
    if wish.has("pages") {
        figures.add("pages", pages::figures);
    }
    let Some(packages) = Packages::fetched()? else { return Ok(()) };
    if wish.has("ends") {
        let runs = ENDS[usize::from(wish.short)];
        figures.add("ends", || Ok(vec![ends::figure(&packages, runs)?]));
    }
    if wish.has_long("pairs") {
        figures.add("pairs", || Ok(vec![pairs::found(&packages)?]));
    }
    if wish.has_long("false-pairs") {
        figures.add("false-pairs", || Ok(vec![pairs::false_ones(&packages)?]));
    }
    for program in wish.programs() {
        let new = || trials::figures(program, &packages, [a, b], wish.blocks);
        figures.add(&program.name(), new);
    }
    let summary = over_all(&figures.all);
    figures.add("all programs", || Ok(summary));
    Ok(())
}

/// The worst of each figure over programs.
fn over_all(all: &[Value]) -> Vec<Value> {
    let worst = [
        worst(all, "cpu-percent", "place/cpu-percent", |it| it["value"].as_f64()),
        worst(all, "loss-percent", "place/throughput-loss-percent", |it| it["value"].as_f64()),
        worst(all, "live-of-best-percent", "place/live-of-best-percent", |row| {
            row["value"].as_f64().map(|it| -it)
        }),
    ];
    worst.into_iter().flatten().chain(worse_than_alone(all)).collect()
}

/// The largest of a figure over the servers with one connection, by a key.
fn worst(
    all: &[Value],
    what: &str,
    name: &str,
    key: impl Fn(&Value) -> Option<f64>,
) -> Option<Value> {
    let of = Program::ALL.iter().filter(|it| it.is_watched());
    let names: Vec<String> = of.map(|it| format!("place/{}-{what}", it.name())).collect();
    let of = all.iter().filter(|it| names.iter().any(|name| it["name"] == **name));
    let key = |it: &&Value| key(it).unwrap_or(f64::NAN);
    let worst = of.max_by(|x, y| key(x).total_cmp(&key(y)))?;
    let (low, high) = (&worst["low"], &worst["high"]);
    Some(json!({
        "name": name, "value": worst["value"], "unit": "%", "low": low, "high": high, "of": worst["name"],
    }))
}

/// The program that is worst off beside a placer, by the upper end of its interval; and those of which the interval says that
/// they are worse off than alone.
fn worse_than_alone(all: &[Value]) -> Option<Value> {
    let has = |it: &&Value| {
        it["name"].as_str().is_some_and(|it| it.ends_with("-worse-than-alone-percent"))
    };
    let of: Vec<&Value> = all.iter().filter(has).filter(|it| it["high"].is_f64()).collect();
    let high = |it: &Value| it["high"].as_f64().unwrap_or(f64::NAN);
    let worst = of.iter().max_by(|x, y| high(x).total_cmp(&high(y)))?;
    let worse = of.iter().filter(|it| it["low"].as_f64() > Some(0.0));
    let worse: Vec<&Value> = worse.map(|it| &it["name"]).collect();
    Some(json!({
        "name": "place/worse-than-alone-percent", "value": worst["value"], "unit": "%", "low": worst["low"],
        "high": worst["high"], "floor": worst["floor"], "of": worst["name"], "programs": of.len(), "worse": worse,
    }))
}

/// Waits, unless the benchmark is asked to end.
fn pause(length: Duration) -> Fallible<()> {
    let end = Instant::now() + length;
    loop {
        if interrupt::requested() {
            return Err("interrupted".into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// A name that one benchmark at a time has: two of them would measure each other.
fn alone() -> Fallible<UnixListener> {
    let name = SocketAddr::from_abstract_name("corehop-bench-place")?;
    let taken = |error| format!("another benchmark of placing runs on this machine: {error}");
    Ok(UnixListener::bind_addr(&name).map_err(taken)?)
}
