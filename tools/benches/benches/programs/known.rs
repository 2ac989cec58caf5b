// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that walks a set of known size, by events that are caused in it and by the synthetic method.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::{BINARY, Fallible, answer, median, walker};

/// The sizes of the sets, in KiB.
const SIZES: [u64; 4] = [16, 64, 256, 1024];
/// Runs of a program in which nothing is to be found in blocks without events; each has one for every class.
const EMPTY_RUNS: usize = 20;

/// Measures both, and the floors of a program without a set.
pub(crate) fn figures(folder: &Path) -> Fallible<Vec<Value>> {
    let mut figures = Figures::default();
    for kib in SIZES {
        figures.compare(folder, kib)?;
    }
    for run in 0..EMPTY_RUNS {
        let costs =
            caused(folder, 0, &["--rounds", "12", "--block", "50ms", "--seed", &run.to_string()])?;
        figures.note(&costs);
    }
    Ok(figures.told())
}

/// The figures so far.
#[derive(Debug, Default)]
struct Figures {
    /// Of each size and class: the cost by events that were caused over that by the synthetic method, and whether the intervals
    /// overlap; the same of two synthetic runs.
    injected: Vec<(f64, bool)>,
    again: Vec<(f64, bool)>,
    floors: usize,
    false_effects: usize,
    /// The largest slowdown by a measurement, in percent.
    slowdown: f64,
}

/// A cost with its interval, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Interval {
    us: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// The ratio of this cost to another, and whether they overlap.
    fn over(self, other: Self) -> (f64, bool) {
        (self.us / other.us, self.low <= other.high && other.low <= self.high)
    }
}

impl Figures {
    /// A set of this size by both methods.
    fn compare(&mut self, folder: &Path, kib: u64) -> Fallible<()> {
        let costs =
            caused(folder, kib, &["--share", "20%", "--rounds", "60", "--length", "250us"])?;
        self.note(&costs);
        for cost in costs["costs"].as_array().into_iter().flatten() {
            let event = cost["event"].as_str().unwrap_or_default();
            let Some(caused) = interval(&cost["cost"]) else { continue };
            let length = cost["length_us"].as_f64().or_else(|| stay_us(cost)).unwrap_or(1_000.0);
            let synthetic = |seed| synthetic(folder, kib, event, length, seed);
            let (Some(first), Some(second)) = (synthetic(1)?, synthetic(2)?) else { continue };
            println!(
                "{kib:>5} KiB {event:<18} caused {caused:.1?}\n{:>30} synthetic {first:.1?} {second:.1?}",
                ""
            );
            self.injected.push(caused.over(first));
            self.again.push(second.over(first));
        }
        Ok(())
    }

    /// Notes the floors and the slowdown of a run.
    fn note(&mut self, costs: &Value) {
        for floor in
            costs["costs"].as_array().into_iter().flatten().filter_map(|it| interval(&it["floor"]))
        {
            self.floors += 1;
            self.false_effects += usize::from(floor.low > 0.0 || floor.high < 0.0);
        }
        self.slowdown = self.slowdown.max(costs["slowdown_percent"].as_f64().unwrap_or(0.0));
    }

    /// The figures of the list.
    fn told(&self) -> Vec<Value> {
        let put = |name: String, value: f64, unit: &str| json!({"name": format!("program/{name}"), "value": value, "unit": unit});
        let mut list = Vec::new();
        for (name, pairs) in [("injected", &self.injected), ("synthetic", &self.again)] {
            let overlap = 100.0 * pairs.iter().filter(|it| it.1).count() as f64;
            let ratios: Vec<f64> = pairs.iter().map(|it| it.0).collect();
            let middle = median::Median::of(&ratios).map_or(f64::NAN, |it| it.value);
            let of = format!("{name}-over-synthetic");
            list.push(put(format!("{of}-overlap"), overlap / pairs.len().max(1) as f64, "%"));
            list.push(put(format!("{of}-cells"), pairs.len() as f64, "cells"));
            list.push(put(of, middle, "ratio, median"));
        }
        let of = format!("of {}", self.floors);
        list.push(put("false-effects".to_owned(), self.false_effects as f64, &of));
        list.push(put("disturbance-percent".to_owned(), self.slowdown, "% at most"));
        list
    }
}

/// The time that a thread stayed on a CPU at the highest rate, in microseconds.
fn stay_us(cost: &Value) -> Option<f64> {
    let last = cost["by_dose"].as_array()?.last()?;
    Some(1e6 / last["per_second"].as_f64()?)
}

/// A cost in an answer of the program; None without an interval.
fn interval(cost: &Value) -> Option<Interval> {
    let within = &cost["interval"];
    let number = |it: &Value| it.as_f64();
    Some(Interval {
        us: number(&cost["us"])?,
        low: number(&within["low"])?,
        high: number(&within["high"])?,
    })
}

/// The costs of events caused in a walker.
fn caused(folder: &Path, kib: u64, words: &[&str]) -> Fallible<Value> {
    let path = folder.join("count");
    std::fs::write(&path, walker::told(0))?;
    let mut command = Command::new(BINARY);
    command.args(["measure", "program-costs", "--json", "--progress"]).arg(&path).args(words);
    command.arg("-o").arg(folder.join(format!("caused-{kib}.parquet"))).arg("--force");
    command.arg("--").arg(std::env::current_exe()?).arg("walk").arg(kib.to_string()).arg(&path);
    Ok(answer(&mut command)?["program_costs"].clone())
}

/// The cost of an event by the synthetic method, for a list that is read and half of which is written.
fn synthetic(
    folder: &Path,
    kib: u64,
    event: &str,
    length_us: f64,
    seed: u64,
) -> Fallible<Option<Interval>> {
    let path = folder.join(format!("synthetic-{kib}-{event}-{seed}.parquet"));
    let mut command = Command::new(BINARY);
    command.args([
        "measure",
        "synthetic",
        "--load",
        "idle",
        "--preemptor",
        "512KiB",
        "--write-ratio",
        "0.5",
    ]);
    command.args([
        "--page",
        "4k",
        "--samples",
        "120",
        "--json",
        "--force",
        "--seed",
        &seed.to_string(),
    ]);
    command.args(["--wss", &format!("{kib}KiB"), "--event", &format!("none,{event}")]);
    command.args(["--length", &format!("{length_us:.0}us")]).arg("-o").arg(&path);
    answer(&mut command)?;
    let mut report = Command::new(BINARY);
    report.arg("report").arg(&path).args(["--table", "json"]);
    let cells = answer(&mut report)?;
    let is_asked = |it: &&Value| it["cell"]["event"] == event && it["delay"].is_object();
    let cell = cells.as_array().into_iter().flatten().find(is_asked);
    Ok(cell.and_then(|cell| {
        let moments = &cell["delay"]["moments"];
        let [low, high] = [&moments["interval"]["low"], &moments["interval"]["high"]];
        Some(Interval { us: moments["mean"].as_f64()?, low: low.as_f64()?, high: high.as_f64()? })
    }))
}
