// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads in pairs that swap items and make no system call: does page sampling name each one's partner, and what does it cost?
//!
//! The program is this benchmark itself, started again with [`PROGRAM`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_plan::workload::draw::DrawStream;
use serde_json::{Value, json};

use super::running::threads;
use crate::Fallible;
use crate::median::Median;

/// The argument that makes the benchmark the program: `--page-pairs=SEED,FILE`.
pub(crate) const PROGRAM: &str = "--page-pairs=";
const PAIRS: usize = 4;
/// Items of a pair's array: two pages.
const ITEMS: usize = 1_024;
const RUNS: u64 = 10;
/// The time that a run samples.
const SAMPLED: Duration = Duration::from_secs(3);
/// The time that the program runs: longer than it is looked at.
const RUNNING: Duration = Duration::from_secs(5);
/// A stretch of which the swaps are counted, and the time before the first one.
const STRETCH: Duration = Duration::from_millis(1_500);
const BEGIN: Duration = Duration::from_millis(800);
/// The time between two writes of the count.
const TICK: Duration = Duration::from_millis(5);

/// An array on pages of its own.
#[repr(align(4096))]
struct Array([AtomicU64; ITEMS]);

#[derive(Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Swaps for some time, and writes into FILE the number of swaps.
pub(crate) fn run(argument: &str) -> Fallible<()> {
    let (seed, file) = argument.split_once(',').ok_or("SEED,FILE")?;
    let mut draw = DrawStream::new(seed.parse()?, 0);
    let arrays: Vec<Arc<Array>> = (0..PAIRS)
        .map(|_| Arc::new(Array(std::array::from_fn(|at| AtomicU64::new(at as u64)))))
        .collect();
    let counts: Arc<Vec<Count>> = Arc::new((0..2 * PAIRS).map(|_| Count::default()).collect());
    let mut order: Vec<usize> = (0..2 * PAIRS).collect();
    draw.shuffle(&mut order);
    for at in order {
        // The name tells the pair to who knows the seed; the placer does not.
        let name = format!("{}{:08x}", at / 2, draw.bits() as u32);
        let (array, counts, seed) = (arrays[at / 2].clone(), counts.clone(), draw.bits());
        let swap = move || swaps(&array, &counts[at].0, seed);
        std::thread::Builder::new().name(name).spawn(swap)?;
    }
    let (begun, new) = (Instant::now(), format!("{file}.new"));
    while begun.elapsed() < RUNNING {
        let done: u64 = counts.iter().map(|it| it.0.load(Ordering::Relaxed)).sum();
        std::fs::write(&new, done.to_string())?;
        std::fs::rename(&new, file)?;
        sleep(TICK);
    }
    Ok(())
}

/// Swaps the item in hand with one of the array, again and again.
fn swaps(array: &Array, count: &AtomicU64, seed: u64) {
    let (mut state, mut item) = (seed | 1, u64::MAX);
    loop {
        for _ in 0..1_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            item = array.0[state as usize % ITEMS].swap(item, Ordering::Relaxed);
        }
        count.fetch_add(1_000, Ordering::Relaxed);
    }
}

/// A placer that starts the program.
struct Run {
    placer: Child,
    count: PathBuf,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Run {
    fn begin(seed: u64, evidence: &str) -> Fallible<Self> {
        let folder = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let (count, log) = (folder.path().join("count"), folder.path().join("log.jsonl"));
        let mut command = Command::new(corehop_benches::PROGRAM);
        command.args(["place", "--evidence", evidence, "--dry-run", "--for"]);
        command.arg(format!("{}ms", SAMPLED.as_millis())).arg("-o").arg(&log).arg("--");
        command.arg(std::env::current_exe()?);
        command.arg(format!("{PROGRAM}{seed},{}", count.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let placer = command.spawn()?;
        let run = Self { placer, count, log, _folder: folder };
        let begun = Instant::now();
        while run.done().is_err() {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err("the swaps do not begin".into());
            }
            sleep(TICK);
        }
        Ok(run)
    }

    fn done(&self) -> Fallible<f64> {
        Ok(std::fs::read_to_string(&self.count)?.parse()?)
    }

    /// Swaps per second.
    fn rate(&self) -> Fallible<f64> {
        let (begun, before) = (Instant::now(), self.done()?);
        sleep(STRETCH);
        Ok((self.done()? - before) / begun.elapsed().as_secs_f64())
    }

    /// A process that the placer has started, by name.
    fn child(&self, name: &str) -> Option<u32> {
        let pid = self.placer.id();
        let children = threads(pid).into_iter().map(|tid| {
            std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default()
        });
        let children = children.collect::<Vec<_>>().join(" ");
        let mut pids = children.split_whitespace().filter_map(|it| it.parse().ok());
        pids.find(|pid| comm(&format!("/proc/{pid}")).is_some_and(|it| it == name))
    }

    fn end(mut self) -> Fallible<PathBuf> {
        self.placer.wait()?;
        let log = std::env::temp_dir().join(format!("corehop-place-{}.jsonl", self.placer.id()));
        std::fs::copy(&self.log, &log)?;
        Ok(log)
    }
}

fn comm(folder: &str) -> Option<String> {
    Some(std::fs::read_to_string(format!("{folder}/comm")).ok()?.trim_end().to_owned())
}

/// Whether the heaviest partner by pages of each thread is its own; also the share of hand-overs on true pairs.
fn named(log: &Path) -> Fallible<(bool, f64)> {
    let text = std::fs::read_to_string(log)?;
    let mut pair_of = BTreeMap::new();
    let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)?;
        let list = |name: &str| line["window"][name].as_array().cloned().unwrap_or_default();
        for it in list("threads") {
            let (tid, name) = (it["tid"].as_u64(), it["name"].as_str().unwrap_or(""));
            // Nine letters and digits, of which the first is the pair.
            if let (Some(tid), 9, Ok(pair)) =
                (tid, name.len(), name[..1.min(name.len())].parse::<usize>())
            {
                pair_of.insert(tid, pair);
            }
        }
        for it in list("shared").iter().filter(|it| it["by"] == "pages") {
            let number = |name: &str| it[name].as_u64().ok_or("a pair without numbers");
            *seen.entry((number("a")?, number("b")?)).or_default() += number("seen")?;
        }
    }
    seen.retain(|(a, b), _| pair_of.contains_key(a) && pair_of.contains_key(b));
    let is_true = |(a, b): &(u64, u64)| pair_of[a] == pair_of[b];
    let all: u64 = seen.values().sum();
    let on_pairs: u64 = seen.iter().filter(|(pair, _)| is_true(pair)).map(|(_, seen)| seen).sum();
    let heaviest = |tid: &u64| {
        let with = seen.iter().filter(|((a, b), _)| a == tid || b == tid);
        with.max_by_key(|(_, seen)| **seen).map(|(pair, _)| *pair)
    };
    let right = pair_of.keys().filter(|tid| heaviest(tid).as_ref().is_some_and(is_true)).count();
    Ok((right == 2 * PAIRS && pair_of.len() == right, on_pairs as f64 / all as f64))
}

/// Runs in which each thread's partner was named.
fn found(seed: u64) -> Fallible<Value> {
    let (mut runs, mut least) = (0, f64::INFINITY);
    for run in 0..RUNS {
        let log = Run::begin(seed + run, "pages")?.end()?;
        let (right, share) = named(&log)?;
        std::fs::remove_file(log)?;
        runs += u64::from(right);
        least = least.min(share);
    }
    Ok(json!({
        "name": "place/page-pairs-found", "value": runs, "unit": format!("of {RUNS} runs"), "least_share": least,
        "seed": seed,
    }))
}

/// The rate while pages are sampled over the one after that, which the end of the handler divides; without sampling,
/// the same two stretches.
fn ratio(seed: u64, sampled: bool) -> Fallible<f64> {
    let run = Run::begin(seed, if sampled { "pages" } else { "wakes" })?;
    sleep(BEGIN);
    let first = run.rate()?;
    if sampled {
        let handler = run.child("corehop-pages").ok_or("pages are not sampled")?;
        // SAFETY: takes two integers; the process is a child of the placer, which waits for it when it ends.
        unsafe { libc::kill(handler.cast_signed(), libc::SIGKILL) };
        sleep(TICK);
    }
    let second = run.rate()?;
    std::fs::remove_file(run.end()?)?;
    Ok(first / second)
}

/// The loss of the program by sampling at the default rate.
fn loss(seed: u64, blocks: usize) -> Fallible<Value> {
    let (mut losses, mut floors) = (Vec::new(), Vec::new());
    for block in 0..blocks as u64 {
        // Which comes first alternates.
        let first = block % 2 == 0;
        let one = ratio(seed + block, first)?;
        let other = ratio(seed + block, !first)?;
        let (with, without) = if first { (one, other) } else { (other, one) };
        losses.push(100.0 * (1.0 - with / without));
        floors.push(100.0 * (1.0 - without));
    }
    let (Some(loss), Some(floor)) = (Median::of(&losses), Median::of(&floors)) else {
        return Ok(
            json!({"name": "place/page-loss-percent", "value": null, "unit": "%", "why": "no blocks"}),
        );
    };
    let mut figure = loss.figure("place/page-loss-percent", "%");
    figure["floor"] = floor.figure("", "%");
    figure["blocks"] = json!(blocks);
    Ok(figure)
}

/// The figures of page sampling.
pub(crate) fn figures() -> Fallible<Vec<Value>> {
    let seed = 1;
    Ok(vec![found(seed)?, loss(seed, 6)?])
}
