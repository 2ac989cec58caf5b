// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the next run land in the interval of this one? The whole thing again, and again.
//!
//! `make repeat` measures with the preset `quick` five times, one run after the other, and holds each
//! run's medians and intervals against those of every other, by event, class and load. The same files
//! with planted defects (samples taken for replicates, classes pooled) stand below: they show what
//! the figures would be if the intervals were wrong.
//!
//! `cargo bench -p corehop --bench repeat -- OUT.json [FILE.parquet …]` judges files that are there.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use corehop_core::decision::landing::{Kind, Landings, landings, together};
use corehop_core::model::classes::as_declared;
use corehop_core::model::estimator::Estimator;
use corehop_core::model::summary::{CellSummary, summarize};
use corehop_core::samples::{Reader, Sample};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const BINARY: &str = env!("CARGO_BIN_EXE_corehop");
const RUNS: usize = 5;
/// The shares that all cells together are to reach, in percent: of two medians that are equally sure
/// the one lies in the other's 95 % interval in 83 of 100 pairs.
const OVERLAP: f64 = 95.0;
const INSIDE: f64 = 78.0;

fn main() -> Fallible<ExitCode> {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let out = PathBuf::from(words.first().map_or("out/bench.json", String::as_str));
    let files: Vec<PathBuf> = match words.get(1..) {
        Some(given) if !given.is_empty() => given.iter().map(PathBuf::from).collect(),
        _ => measured(out.parent().unwrap_or(Path::new(".")))?,
    };
    let runs: Vec<Vec<Sample>> = files.iter().map(|file| read(file)).collect::<Fallible<_>>()?;
    let kinds = landings(&summaries(&runs, |_, _| {}));
    for (kind, landings) in &kinds {
        println!("{}", line(&name(kind), landings));
    }
    let all = together(&kinds);
    println!("{}", line("all cells", &all));
    for (what, planted) in planted(&runs) {
        println!("{}", line(&format!("planted: {what}"), &planted));
    }
    write(&out, &kinds.iter().collect::<Vec<_>>(), &all)?;
    let reached = all.overlap_percent() >= Some(OVERLAP) && all.inside_percent() >= Some(INSIDE);
    println!("{}", if reached { "the next run lands" } else { "the next run does not land" });
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Five runs, one after the other.
fn measured(folder: &Path) -> Fallible<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let mut files = Vec::new();
    for run in 1..=RUNS {
        let file = folder.join(format!("repeat-{run}.parquet"));
        let status = Command::new(BINARY)
            .args(["measure", "synthetic", "--preset", "quick", "-q", "-o"])
            .arg(&file)
            .status()?;
        if !status.success() {
            return Err(format!("run {run} of {RUNS}: {status}").into());
        }
        files.push(file);
    }
    Ok(files)
}

fn read(file: &Path) -> Fallible<Vec<Sample>> {
    let opened =
        std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Reader::open(opened)?.all()?)
}

/// The summaries of all runs, each sample as `change` leaves it.
fn summaries(runs: &[Vec<Sample>], change: impl Fn(u64, &mut Sample)) -> Vec<Vec<CellSummary>> {
    let of = |run: &Vec<Sample>| {
        let mut samples = run.clone();
        samples.iter_mut().zip(0..).for_each(|(sample, number)| change(number, sample));
        summarize(&samples, Estimator::Difference)
    };
    runs.iter().map(of).collect()
}

/// What the figures would be with intervals that are wrong on purpose.
fn planted(runs: &[Vec<Sample>]) -> Vec<(&'static str, Landings)> {
    let of = |change: &dyn Fn(u64, &mut Sample)| together(&landings(&summaries(runs, change)));
    vec![
        ("samples taken for replicates", of(&|number, it| it.replicate = Some(number))),
        (
            "one replicate counted as ten",
            of(&|number, it| it.replicate = it.replicate.map(|own| 10 * (own / 10) + number % 10)),
        ),
        ("classes pooled", of(&|_, it| as_declared(it))),
    ]
}

fn name(kind: &Kind) -> String {
    let beside = kind.beside.as_ref().map_or(String::new(), |class| format!(" beside {class}"));
    format!("{} {}{beside}", kind.load, kind.event)
}

fn line(name: &str, it: &Landings) -> String {
    let share = |value: Option<f64>| value.map_or("unknown".to_owned(), |it| format!("{it:.0} %"));
    format!(
        "{name:<52} inside {:>8} of {:>4}   overlap {:>8} of {:>4}   without interval {:>4}",
        share(it.inside_percent()),
        it.medians,
        share(it.overlap_percent()),
        it.pairs,
        it.without_interval
    )
}

/// Puts the figures into the list, in place of earlier ones of the same names.
fn write(out: &Path, kinds: &[(&Kind, &Landings)], all: &Landings) -> Fallible<()> {
    let text = std::fs::read_to_string(out).unwrap_or_else(|_| "[]".to_owned());
    let mut list: Vec<Value> = serde_json::from_str(&text)?;
    let ours = |figure: &Value| figure["name"].as_str().is_some_and(|it| it.starts_with("repeat/"));
    list.retain(|figure| !ours(figure));
    let mut put = |name: String, value: Option<f64>| {
        list.push(json!({"name": name, "value": value, "unit": "%"}));
    };
    put("repeat/overlap-percent".to_owned(), all.overlap_percent());
    put("repeat/inside-percent".to_owned(), all.inside_percent());
    let mut loads: Vec<&str> = kinds.iter().map(|(kind, _)| kind.load.as_str()).collect();
    loads.dedup();
    for load in loads {
        let mut sum = Landings::default();
        kinds.iter().filter(|(kind, _)| kind.load == load).for_each(|(_, it)| sum.add(**it));
        put(format!("repeat/overlap-percent-{load}"), sum.overlap_percent());
        put(format!("repeat/inside-percent-{load}"), sum.inside_percent());
    }
    std::fs::write(out, format!("{:#}\n", Value::from(list)))?;
    Ok(())
}
