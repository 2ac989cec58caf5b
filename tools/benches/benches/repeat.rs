// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does the next run land in the interval of this one? The whole thing again, and again.
//!
//! `make repeat` measures with the preset `quick` five times, one run after the other, and holds each
//! run's medians and intervals against those of every other, by event, class and load. What is wrong
//! with a run's replicates is named, and fails. The same files with planted defects stand below: they
//! show what the figures would be, and each has to be found, or the judge itself fails.
//!
//! `cargo bench -p corehop-benches --bench repeat -- OUT.json [FILE.parquet …]` judges files that are there.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use corehop_plan::samples::Reader;
use corehop_repeat::defects::{Planted, SampleFile, defects};
use corehop_repeat::landing::{LandingGroup, Landings, landings, lands, together};
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::{CellSummary, summarize};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const BINARY: &str = corehop_benches::PROGRAM;
const RUNS: usize = 5;

fn main() -> Fallible<ExitCode> {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let out = PathBuf::from(words.first().map_or("out/bench.json", String::as_str));
    let files: Vec<PathBuf> = match words.get(1..) {
        Some(given) if !given.is_empty() => given.iter().map(PathBuf::from).collect(),
        _ => measured(out.parent().unwrap_or(Path::new(".")))?,
    };
    let runs: Vec<SampleFile> = files.iter().map(|file| read(file)).collect::<Fallible<_>>()?;
    let kinds = landings(&summaries(&runs));
    for (kind, landings) in &kinds {
        println!("{}", line(&name(kind), landings));
    }
    let all = together(&kinds);
    println!("{}", line("all cells", &all));
    let unseen: usize = Planted::ALL.iter().map(|&planted| plant(planted, &runs)).sum();
    let mut wrong = 0;
    for (file, run) in files.iter().zip(&runs) {
        for defect in defects(run) {
            println!("{}: {defect}", file.display());
            wrong += 1;
        }
    }
    write(&out, &kinds.iter().collect::<Vec<_>>(), &all)?;
    let reached = lands(&all, runs.len());
    println!("{}", if reached { "the next run lands" } else { "the next run does not land" });
    let good = reached && wrong == 0 && unseen == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what the figures would be with a planted defect, and in how many runs it is not found though it
/// could be.
fn plant(planted: Planted, runs: &[SampleFile]) -> usize {
    let spoiled: Vec<SampleFile> = runs.iter().map(|run| planted.into(run)).collect();
    let figures = together(&landings(&summaries(&spoiled)));
    println!("{}", line(&format!("planted: {planted}"), &figures));
    let able = runs.iter().zip(&spoiled).filter(|(run, _)| planted.can_show(run));
    let unseen = able.filter(|(_, spoiled)| !defects(spoiled).iter().any(|it| planted.is(it)));
    let unseen = unseen.count();
    if unseen > 0 {
        println!("planted: {planted}: not found in {unseen} of {} runs", runs.len());
    }
    unseen
}

/// Five runs, one after the other.
fn measured(folder: &Path) -> Fallible<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)?;
    let mut files = Vec::new();
    for run in 1..=RUNS {
        let file = folder.join(format!("repeat-{run}.parquet"));
        let status = Command::new(BINARY)
            .args(["measure", "synthetic", "--preset", "quick", "-q", "--force", "-o"])
            .arg(&file)
            .status()?;
        if !status.success() {
            return Err(format!("run {run} of {RUNS}: {status}").into());
        }
        files.push(file);
    }
    Ok(files)
}

fn read(file: &Path) -> Fallible<SampleFile> {
    let opened =
        std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut reader = Reader::open(opened)?;
    let provenance = reader.kind().provenance.clone();
    Ok(SampleFile { provenance, samples: reader.all()? })
}

fn summaries(runs: &[SampleFile]) -> Vec<Vec<CellSummary>> {
    runs.iter().map(|run| summarize(&run.samples, Estimator::Difference)).collect()
}

fn name(kind: &LandingGroup) -> String {
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
fn write(out: &Path, kinds: &[(&LandingGroup, &Landings)], all: &Landings) -> Fallible<()> {
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
