// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks: each figure with its peer or its limit, taken in one run, as JSON.
//!
//! `cargo bench -p corehop-benches -- OUT.json`; with `--computed`, only what measures nothing on this machine, with `--observed`
//! only what watching costs, with `--offload` only off-loading. With `--whole` the published experiments are simulated with
//! as many samples as their studies have, which takes 25 minutes of CPU time. Nothing here is asserted; the machine may be
//! shared.
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

mod check;
mod median;
mod offload;
mod recording;
mod study;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use corehop_linux::bpf::control::{ControlPages, PagePurpose};
use corehop_linux::control_page::overhead;
use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::{AccessTime, Experiment};
use corehop_plan::machine::rows_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Provenance, Reader, Sample};
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Event, LineState, WorkingSet};
use corehop_system::discover::{SysRoot, discover};

use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const BINARY: &str = corehop_benches::PROGRAM;

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, millis, file] = words.as_slice()
        && word == recording::CHILD
    {
        return recording::child(millis, file);
    }
    if let [_, word, what, file] = words.as_slice()
        && word == offload::CHILD
    {
        return offload::child(what, file);
    }
    let out = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let out = out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    let scratch = std::env::temp_dir().join(format!("corehop-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let figures = all(&scratch);
    std::fs::remove_dir_all(&scratch)?;
    let figures = figures?;
    std::fs::write(&out, format!("{:#}\n", Value::from(figures)))?;
    eprintln!("{}", out.display());
    Ok(())
}

fn all(scratch: &Path) -> Fallible<Vec<Value>> {
    if std::env::args().any(|argument| argument == "--observed") {
        let pipe: Vec<Value> = recording::pipe().into_iter().collect();
        return Ok([control_page(), recording::figures(scratch)?, pipe].concat());
    }
    if std::env::args().any(|argument| argument == "--offload") {
        return timed("off-load", || offload::figures(scratch));
    }
    let mut figures = timed("check", check::figures)?;
    figures.extend(timed("study", study::figures)?);
    if std::env::args().any(|argument| argument == "--computed") {
        return Ok(figures);
    }
    figures.extend(timed("controls", || synthetic(scratch))?);
    figures.extend(timed("access times", || access_times(scratch))?);
    figures.push(timed("first sample", || first_sample(scratch))?);
    figures.push(timed("memory", || memory(scratch))?);
    figures.extend(control_page());
    figures.extend(timed("recording", || recording::figures(scratch))?);
    figures.extend(timed("off-load", || offload::figures(scratch))?);
    figures.extend(timed("recorded pipe", || Ok(recording::pipe()))?);
    figures.push(timed("validate", validate)?);
    for figure in &figures {
        eprintln!("{figure}");
    }
    Ok(figures)
}

/// Carries out a part, and says how long it took.
fn timed<T>(what: &str, part: impl FnOnce() -> Fallible<T>) -> Fallible<T> {
    let begun = Instant::now();
    let outcome = part()?;
    eprintln!("{what}: {:.0} s", begun.elapsed().as_secs_f64());
    Ok(outcome)
}

fn figure(name: &str, value: f64, unit: &str) -> Value {
    json!({"name": name, "value": value, "unit": unit})
}

fn compared(name: &str, ours: f64, peer: f64, unit: &str) -> Value {
    json!({"name": name, "value": ours, "unit": unit, "peer": peer, "ratio": peer / ours})
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn measure(arguments: &[&str], file: &Path) -> Fallible<()> {
    let status = Command::new(BINARY)
        .arg("measure")
        .args(arguments)
        .args(["-q", "--force"])
        .arg("-o")
        .arg(file)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("corehop measure {arguments:?}: {status}").into())
    }
}

fn read(file: &Path) -> Fallible<(Vec<Sample>, Provenance)> {
    let mut reader = Reader::open(std::fs::File::open(file)?)?;
    let provenance = reader.kind().provenance.clone();
    Ok((reader.all()?, provenance))
}

/// Goes of each kind in the comparison of switches with and without the control page.
const GOES: u32 = 5;

/// The cost of the control page to a switch, of threads that have one and of those that have none.
fn control_page() -> Vec<Value> {
    let measured = discover(&SysRoot::live())
        .map_err(|error| error.to_string())
        .and_then(|platform| platform.usable().first().ok_or_else(|| "no usable CPU".to_owned()))
        .and_then(|cpu| {
            let open = || ControlPages::open(PagePurpose::Own);
            overhead(cpu, GOES, open).map_err(|error| error.to_string())
        });
    match measured {
        Ok(it) => vec![
            figure("observe/switch-overhead-ns", it.registered_ns - it.none_ns, "ns"),
            figure("observe/unregistered-overhead-ns", it.unregistered_ns - it.none_ns, "ns"),
        ],
        Err(why) => {
            eprintln!("skipped: observe/*: {why}");
            Vec::new()
        }
    }
}

/// The samples of each cell when the published experiments are simulated, but for `--whole`.
const SAMPLES: u32 = 2;

/// The time of all published experiments on the simulated machine; all of their samples would take most of an
/// hour on a small machine.
fn validate() -> Fallible<Value> {
    let whole = std::env::args().any(|argument| argument == "--whole");
    let some = ["--samples".to_owned(), SAMPLES.to_string()];
    let fewer = if whole { &[][..] } else { &some };
    let begun = Instant::now();
    let output = Command::new(BINARY).args(["sim", "validate", "--json"]).args(fewer).output()?;
    // 1: a table has missed its aim.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let mut figure = figure("sim/validate-seconds", begun.elapsed().as_secs_f64(), "s");
    figure["samples"] = if whole { json!("all") } else { json!(SAMPLES) };
    Ok(figure)
}

/// Controls, order and wall time: five runs of one synthetic experiment.
fn synthetic(scratch: &Path) -> Fallible<Vec<Value>> {
    let sizes = [64, 256, 1024];
    let mut runs = Vec::new();
    for seed in 1..=5 {
        let file = scratch.join("synthetic.parquet");
        let events = "none,idle_leave,preemption,flush";
        let seed = seed.to_string();
        measure(
            &[
                "synthetic",
                "--load",
                "idle",
                "--wss",
                "64KiB,256KiB,1MiB",
                "--page",
                "4k",
                "--event",
                events,
                "--length",
                "4ms",
                "--samples",
                "60",
                "--seed",
                &seed,
            ],
            &file,
        )?;
        runs.push(read(&file)?);
    }
    let mut figures = Vec::new();
    let pick = |rows: &[Sample], kib: u64, event: Event, value: fn(&Sample) -> f64| {
        let of = |row: &&Sample| row.valid && row.wss_bytes == kib << 10 && row.event == event;
        median(rows.iter().filter(of).map(value).collect())
    };
    let delay = |row: &Sample| row.resumed_ns - row.warm_ns;
    for kib in sizes {
        let share = |event| {
            let of = |(rows, _): &(Vec<Sample>, _)| {
                pick(rows, kib, event, delay) / pick(rows, kib, event, |row| row.warm_ns)
            };
            median(runs.iter().map(of).collect())
        };
        let name = if kib == 1024 { "1MiB".to_owned() } else { format!("{kib}KiB") };
        figures.push(figure(
            &format!("measure/none-control-{name}"),
            share(Event::None) * 100.0,
            "% of the warm touch",
        ));
        figures.push(figure(
            &format!("measure/idle-leave-control-{name}"),
            share(Event::IdleLeave) * 100.0,
            "% of the warm touch",
        ));
    }
    let ordered = |(rows, _): &&(Vec<Sample>, _)| {
        sizes.iter().all(|&kib| {
            let [none, preemption, flush] = [Event::None, Event::Preemption, Event::Flush]
                .map(|event| pick(rows, kib, event, delay));
            none < preemption && preemption < flush
        })
    };
    figures.push(figure(
        "measure/ordered-runs-of-5",
        runs.iter().filter(ordered).count() as f64,
        "runs",
    ));
    let ratios = runs.iter().filter_map(|(_, provenance)| {
        provenance.machine.get("wall")?.get("wall_over_minimum")?.as_f64()
    });
    figures.push(figure(
        "measure/wall-over-minimum",
        median(ratios.collect()),
        "times the physical minimum",
    ));
    Ok(figures)
}

/// Our walk and the plain C chase in turn, on one CPU, in the same kind of pages.
fn access_times(scratch: &Path) -> Fallible<Vec<Value>> {
    let chase = scratch.join("chase");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/chase.c");
    let compiled = Command::new("cc").args(["-O2", "-o"]).arg(&chase).arg(&source).status()?;
    if !compiled.success() {
        return Err(format!("cc: {compiled}").into());
    }
    let platform = discover(&SysRoot::live())?;
    let mut figures = Vec::new();
    for (label, wss) in levels(&platform) {
        let (mut ours, mut peers) = (Vec::new(), Vec::new());
        let passes = (40_000_000 / wss.get()).clamp(20, 2_000);
        for round in 0..12 {
            peers.push(peer(&chase, &platform, wss, passes)?);
            ours.push(own(&platform, wss, passes as u32, round)?);
        }
        figures.push(compared(
            &format!("measure/access-time-vs-peer-{label}"),
            median(ours),
            median(peers),
            "ns per access",
        ));
    }
    Ok(figures)
}

/// A working set well inside each level, and one beyond all.
fn levels(platform: &Platform) -> Vec<(String, Bytes)> {
    let caches = platform.cache_sizes();
    let inside = |size: Bytes| Bytes::from_kib((size.get() >> 12).max(8));
    let known = caches.iter().filter(|&&(level, _)| level <= 2);
    let mut sizes: Vec<(String, Bytes)> =
        known.map(|&(level, size)| (format!("L{level}"), inside(size))).collect();
    sizes.push(("L3".to_owned(), Bytes::from_mib(8)));
    sizes.push(("memory".to_owned(), Bytes::from_mib(64)));
    sizes
}

fn peer(chase: &Path, platform: &Platform, wss: Bytes, passes: u64) -> Fallible<f64> {
    let cpu = platform.usable().first().unwrap_or_default();
    let output = Command::new(chase)
        .args([cpu.0.to_string(), wss.get().to_string(), passes.to_string()])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn own(platform: &Platform, wss: Bytes, walks: u32, seed: u64) -> Fallible<f64> {
    let experiment = AccessTime {
        sets: vec![WorkingSet::list(wss, 0.0)],
        states: vec![(LineState::Valid, walks)],
        cpu: None,
    };
    let plan = experiment.plan(platform, seed)?;
    // Under the same policy as the peer.
    let options = LiveMachineOptions {
        no_real_time: Some("its peer is not".to_owned()),
        ..LiveMachineOptions::default()
    };
    let mut machine = LiveMachine::new(platform.clone(), options);
    let rows = rows_of(&mut machine, &plan)?.access_times;
    Ok(median(rows.iter().filter(|row| row.valid).map(|row| row.access_ns).collect()))
}

/// From the start of the process to the first sample in the stream.
fn first_sample(scratch: &Path) -> Fallible<Value> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let file = scratch.join("first.parquet");
        let begin = Instant::now();
        measure(
            &["synthetic", "--load", "idle", "--wss", "64KiB", "--event", "none", "--samples", "1"],
            &file,
        )?;
        times.push(begin.elapsed().as_secs_f64());
    }
    Ok(figure("measure/start-to-first-sample", median(times), "s, the file's conversion included"))
}

/// The largest resident size of a run, less its working sets.
fn memory(scratch: &Path) -> Fallible<Value> {
    let file = scratch.join("memory.parquet");
    let mut child = Command::new(BINARY)
        .args([
            "measure",
            "synthetic",
            "--load",
            "idle",
            "--wss",
            "4KiB,8MiB",
            "--event",
            "none,preemption",
            "--samples",
            "20",
            "-q",
            "-o",
        ])
        .arg(&file)
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0_f64;
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kib = text.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok()
        });
        peak = peak.max(kib.unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(figure("measure/resident-beyond-working-sets", peak / 1024.0 - 8.0, "MiB"))
}
