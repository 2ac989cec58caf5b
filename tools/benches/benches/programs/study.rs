// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events for programs that people run, and whether they predict what a load costs these programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::median::Median;
use crate::packages::Packages;
use crate::strangers::{CALLS, SERVERS, commands, server};
use crate::{BINARY, Fallible, answer, company};

/// The share of its time that a program may lose to its measurement. With the default of 5 %, some fifteen preemptions of 1 ms
/// fit into a run of 300 ms, and two runs differ by more CPU time than fifteen preemptions cost.
const SHARE: &str = "30%";
/// The time that the costs of a program may take.
const PATIENCE: &str = "60s";
/// The runs of one measurement: the time that they take together decides on the rounds.
const COSTS: Duration = Duration::from_secs(50);
/// Pairs of runs, one of which has a load beside it.
const PAIRS: usize = 12;
/// The smallest width of an interval that is no answer: half of it, as a part of the cost.
const SURE: f64 = 0.25;

/// A program in the table.
struct Row {
    name: &'static str,
    /// By event.
    costs: Value,
    seconds: f64,
    loss: Option<Loss>,
}

/// The CPU time that a load costs a run, in percent of a run alone: measured, with its interval, and predicted.
#[derive(Debug, Clone, Copy)]
struct Loss {
    measured: Median,
    predicted: f64,
}

impl Loss {
    /// Whether the prediction is right: within a quarter, or both too small to be seen. A loss whose interval excludes zero was seen.
    fn is_met(self) -> bool {
        let ends = self.measured.low.zip(self.measured.high);
        let seen = ends.map_or(f64::INFINITY, |(low, high)| (high - low) / 2.0);
        let is_measured = ends.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        let both_below = !is_measured && self.measured.value.abs() < seen && self.predicted < seen;
        both_below || (self.predicted / self.measured.value - 1.0).abs() <= SURE
    }
}

/// Measures all programs that are here; the table goes to the standard output and into the folder.
pub(crate) fn figures(folder: &Path) -> Fallible<Vec<Value>> {
    let mut rows = Vec::new();
    for (name, words) in commands(folder)? {
        rows.push(of_command(name, &words, folder)?);
        println!("{}", rows.last().map(told).unwrap_or_default());
    }
    if let Some(packages) = Packages::fetched()? {
        for name in SERVERS {
            rows.push(of_server(name, &packages, folder)?);
            println!("{}", rows.last().map(told).unwrap_or_default());
        }
    }
    fs::write(folder.join("programs.md"), table(&rows))?;
    Ok(listed(&rows))
}

fn of_command(name: &'static str, words: &[String], folder: &Path) -> Fallible<Row> {
    let file = folder.join(format!("{name}.parquet"));
    let begun = Instant::now();
    let warm = record(words, &file, None)?;
    let each = begun.elapsed().min(Duration::from_secs(3));
    let rounds = (COSTS.as_secs_f64() / (10.0 * (warm.cpu_us * 1e-6).max(0.05))).clamp(6.0, 40.0);
    let rounds = format!("{rounds:.0}");
    let begun = Instant::now();
    let costs = costs(&file, |command| command.args(["--rounds", &rounds, "--"]).args(words))?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{name}: a run of {each:.1?}, {rounds} rounds in {seconds:.0} s");
    let loss = Some(loss(words, &file)?);
    Ok(Row { name, costs, seconds, loss })
}

fn of_server(name: &'static str, packages: &Packages, folder: &Path) -> Fallible<Row> {
    let here = tempfile::Builder::new().prefix("corehop-programs-").tempdir()?;
    let processes = server(name, packages, here.path())?;
    std::thread::sleep(Duration::from_secs(1));
    let pid = processes[0].pid().to_string();
    let begun = Instant::now();
    let costs = costs(&folder.join(format!("{name}.parquet")), |command| {
        command.args(["--rounds", "45", "--progress", CALLS, "--pid", &pid])
    })?;
    Ok(Row { name, costs, seconds: begun.elapsed().as_secs_f64(), loss: None })
}

/// Causes events in a program.
fn costs(file: &Path, words: impl FnOnce(&mut Command) -> &mut Command) -> Fallible<Value> {
    let mut command = Command::new(BINARY);
    command.args(["measure", "program-costs", "--json", "--force"]);
    command.args(["--budget", PATIENCE, "--share", SHARE]);
    command.args(["--preemptor", &format!("{}KiB", company::KIB)]);
    command.args(["--length", &format!("{}us", company::LENGTH.as_micros()), "-o"]).arg(file);
    Ok(answer(words(&mut command))?["program_costs"]["costs"].clone())
}

/// A run by its record, in microseconds.
struct Run {
    cpu_us: f64,
    lost_us: f64,
}

/// Records a run of a command, with costs from a file.
fn record(words: &[String], scratch: &Path, costs: Option<&Path>) -> Fallible<Run> {
    let mut command = Command::new(BINARY);
    command.args(["record", "--json", "--force", "-o"]).arg(scratch.with_extension("run.parquet"));
    command.arg("--costs").arg(costs.map_or_else(|| PathBuf::from("none"), Path::to_path_buf));
    let it = answer(command.arg("--").args(words))?;
    let lost_us = it["cost"]["total"]["us"].as_f64().unwrap_or(0.0);
    Ok(Run { cpu_us: it["cpu_ns"].as_f64().ok_or("no CPU time")? / 1e3, lost_us })
}

/// Pairs of runs, alone and beside the load, each first in turn.
fn loss(words: &[String], costs: &Path) -> Fallible<Loss> {
    let (mut measured, mut predicted) = (Vec::new(), Vec::new());
    let run = |loaded: bool| {
        let _company = if loaded { company::begin()? } else { Vec::new() };
        record(words, costs, Some(costs))
    };
    for pair in 0..PAIRS {
        let first_is_loaded = pair % 2 == 0;
        let (first, second) = (run(first_is_loaded)?, run(!first_is_loaded)?);
        let (loaded, alone) = if first_is_loaded { (first, second) } else { (second, first) };
        measured.push(100.0 * (loaded.cpu_us / alone.cpu_us - 1.0));
        predicted.push(100.0 * (loaded.lost_us - alone.lost_us) / alone.cpu_us);
    }
    let measured = Median::of(&measured).ok_or("no pair")?;
    Ok(Loss { measured, predicted: Median::of(&predicted).ok_or("no pair")?.value })
}

/// The cost of an event: itself, and the ends of its interval.
fn cost(row: &Row, is_meant: impl Fn(&str) -> bool) -> Option<[f64; 3]> {
    let of = |it: &&Value| it["event"].as_str().is_some_and(&is_meant);
    let it = &row.costs.as_array()?.iter().find(of)?["cost"];
    let within = &it["interval"];
    Some([it["us"].as_f64()?, within["low"].as_f64()?, within["high"].as_f64()?])
}

fn events(row: &Row) -> [Option<[f64; 3]>; 2] {
    [cost(row, |it| it == "preemption"), cost(row, |it| it.ends_with("_migration"))]
}

/// The row of the table.
fn told(row: &Row) -> String {
    let within = |[us, low, high]: [f64; 3]| format!("{us:.0} [{low:.0}, {high:.0}]");
    let [preemption, migration] = events(row).map(|it| it.map_or_else(none, within));
    let [predicted, measured] = row.loss.map_or_else(|| [none(), none()], loss_told);
    format!("| {} | {preemption} | {migration} | {predicted} | {measured} |", row.name)
}

fn none() -> String {
    "–".to_owned()
}

/// The predicted loss, and the measured one with its interval.
fn loss_told(loss: Loss) -> [String; 2] {
    let Median { value, low, high } = loss.measured;
    let ends =
        low.zip(high).map_or_else(String::new, |(low, high)| format!(" [{low:.1}, {high:.1}]"));
    [format!("{:.1}", loss.predicted), format!("{value:.1}{ends}")]
}

fn table(rows: &[Row]) -> String {
    let head = "| program | preemption, µs | migration, µs | predicted loss, % | measured loss, % |\n|---|---|---|---|---|\n";
    let rows: Vec<String> = rows.iter().map(told).collect();
    format!("{head}{}\n", rows.join("\n"))
}

/// The figures of the list.
fn listed(rows: &[Row]) -> Vec<Value> {
    let losses: Vec<Loss> = rows.iter().filter_map(|it| it.loss).collect();
    let met = losses.iter().filter(|it| it.is_met()).count();
    let of = format!("of {} within a quarter, or both unseen", losses.len());
    let mut list = vec![
        json!({"name": "program/predicted-over-arm", "value": met, "unit": of}),
        json!({"name": "program/programs", "value": rows.len(), "unit": "programs"}),
    ];
    list.extend(rows.iter().filter(|it| ["redis", "zstd"].contains(&it.name)).filter_map(sure));
    list
}

/// The seconds until the dearer event is known within a quarter, by the width of the interval at the end: widths fall with the
/// root of time.
fn sure(row: &Row) -> Option<Value> {
    let dearer = |a: &[f64; 3], b: &[f64; 3]| a[0].total_cmp(&b[0]);
    let [us, low, high] = events(row).into_iter().flatten().max_by(dearer)?;
    let times = ((high - low) / 2.0 / us / SURE).powi(2);
    let name = format!("program/seconds-to-answer-{}", row.name);
    Some(
        json!({"name": name, "value": row.seconds * times, "unit": "s, from the interval after all rounds"}),
    )
}
