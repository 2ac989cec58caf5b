// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trials of a server as figures and as a table.

use std::time::Duration;

use corehop_report::figure::FigureTable;
use corehop_report::table::plain;
use serde_json::{Value, json};

use super::Trial;
use super::arms::{APPLICATION_CORE, Arm};
use super::cores::Shares;
use super::median::Median;
use super::programs::{Server, TIMED};

/// Names of figures.
const COVERAGE: &str = "offload/coverage-percent";
/// Servers whose coverage is asked for.
const COVERED: [Server; 2] = [Server::Redis, Server::Nginx];

fn interval(median: Median) -> String {
    match (median.low, median.high) {
        (Some(low), Some(high)) => format!("{:.3} [{low:.3}, {high:.3}]", median.value),
        _ => format!("{:.3}", median.value),
    }
}

/// The throughput of an arm over that of another one in the same block.
fn ratio(trials: &[Trial], arm: Arm, peer: Arm) -> Option<Median> {
    let of = |trial: &Trial| {
        let same = |other: &&Trial| other.arm == peer && other.block == trial.block;
        Some(trial.load.throughput / trials.iter().find(same)?.load.throughput)
    };
    let ratios: Vec<f64> = trials.iter().filter(|trial| trial.arm == arm).filter_map(of).collect();
    Median::of(&ratios)
}

/// The median of something over the trials of an arm.
fn typical(trials: &[Trial], arm: Arm, of: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter(|trial| trial.arm == arm).filter_map(of).collect();
    Some(Median::of(&values)?.value)
}

fn share(trials: &[Trial], arm: Arm, cpu: usize, of: fn(&Shares) -> f64) -> Option<f64> {
    typical(trials, arm, |trial| trial.cores.get(cpu).map(of))
}

/// Switches to the OS core and back for each call that qualifies.
fn switches_per_call(trial: &Trial) -> Option<f64> {
    let answer = trial.answer.as_ref()?;
    let there = answer["offloaded"].as_f64()? + repeated(answer);
    let qualifying = answer["qualifying"].as_f64().filter(|&count| count > 0.0)?;
    Some(2.0 * there / qualifying)
}

/// Calls that were tried there in vain.
fn repeated(answer: &Value) -> f64 {
    let calls = answer["by_call"].as_array().map_or(&[][..], Vec::as_slice);
    calls.iter().filter_map(|call| call["repeated"].as_f64()).sum()
}

pub(super) fn figures(server: Server, trials: &[Trial], covered: Option<&Trial>) -> Vec<Value> {
    let name = server.name();
    let mut figures = Vec::new();
    let mut compare = |figure: &str, arm: Arm, peer: Arm| {
        let Some(ratio) = ratio(trials, arm, peer) else { return };
        let mut figure = ratio.figure(&format!("offload/{name}-{figure}"), "ratio");
        figure["peer"] = json!(peer.name());
        figure["blocks"] = json!(trials.iter().filter(|trial| trial.arm == arm).count());
        figure["seconds"] = json!(TIMED);
        figures.push(figure);
    };
    compare("worst", Arm::Guarded, Arm::Plain);
    compare("worst-over-bound", Arm::Guarded, Arm::Bound);
    compare("loaded", Arm::Loaded, Arm::Plain);
    compare("bound", Arm::Bound, Arm::Plain);
    compare("floor", Arm::Again, Arm::Plain);
    for arm in Arm::SHOWN {
        compare(&arm.name(), arm, Arm::Bound);
    }
    figures.extend(covered.and_then(|trial| covered_by(name, trial)));
    figures
}

fn covered_by(server: &str, trial: &Trial) -> Option<Value> {
    let coverage = &trial.answer.as_ref()?["coverage"];
    Some(json!({
        "name": format!("{COVERAGE}-{server}"), "value": coverage["percent"].as_f64()?, "unit": "%",
        "calls": coverage["calls"], "missed": coverage["missed"], "peer": "the kernel's count",
    }))
}

/// The least coverage of those that are asked for, once all of them are there.
pub(super) fn coverage(figures: &[Value]) -> Option<Value> {
    let values = COVERED.map(|server| {
        let name = format!("{COVERAGE}-{}", server.name());
        figures.iter().find(|figure| figure["name"] == name)?["value"].as_f64()
    });
    let values = values.into_iter().collect::<Option<Vec<_>>>()?;
    let least = values.into_iter().reduce(f64::min)?;
    Some(json!({"name": COVERAGE, "value": least, "unit": "%", "peer": "the kernel's count"}))
}

/// The loss of the server to which off-loading by default costs the most, in percent of its throughput, once all of them are
/// there.
pub(super) fn regret(figures: &[Value]) -> Option<Value> {
    let worst = Server::ALL.map(|server| {
        let name = format!("offload/{}-worst", server.name());
        Some((server.name(), figures.iter().find(|figure| figure["name"] == name)?))
    });
    let ratio = |(_, figure): &(&str, &Value)| figure["value"].as_f64().unwrap_or(f64::NAN);
    let worst = worst.into_iter().collect::<Option<Vec<_>>>()?;
    let (server, figure) = worst.into_iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let loss = |end: &str| figure[end].as_f64().map(|ratio| 100.0 * (1.0 - ratio));
    Some(json!({
        "name": "offload/regret-percent", "value": loss("value"), "unit": "%", "low": loss("high"), "high": loss("low"),
        "server": server, "peer": "unmodified",
    }))
}

pub(super) fn text(server: Server, trials: &[Trial], took: Duration) -> String {
    let title = format!("{}, {}, {:.0} s", server.name(), server.unit(), took.as_secs_f64());
    let columns = [
        "arm",
        "n",
        "throughput",
        "over unmodified",
        "over bound",
        "p50 us",
        "p99 us",
        "core 0 user",
        "kernel",
        "interrupt",
        "idle",
        "core 1 user",
        "kernel",
        "interrupt",
        "idle",
        "switches/s",
        "per call",
    ];
    let mut table = FigureTable::new(&title, &columns);
    let arms = Arm::COMPARED.into_iter().chain(Arm::SHOWN);
    table.rows = arms.map(|arm| row(trials, arm)).collect();
    plain(&table)
}

fn row(trials: &[Trial], arm: Arm) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let ratio = |peer: Arm| ratio(trials, arm, peer).map_or_else(|| "-".to_owned(), interval);
    let latency = |at: usize| typical(trials, arm, |trial| Some(trial.load.latency_us?[at]));
    let mut row = vec![
        arm.name(),
        trials.iter().filter(|trial| trial.arm == arm).count().to_string(),
        number(typical(trials, arm, |trial| Some(trial.load.throughput)), 0),
        ratio(Arm::Plain),
        ratio(Arm::Bound),
        number(latency(0), 0),
        number(latency(1), 0),
    ];
    let parts: [fn(&Shares) -> f64; 4] =
        [|it| it.user, |it| it.kernel, |it| it.interrupt, |it| it.idle];
    for cpu in [APPLICATION_CORE, APPLICATION_CORE + 1] {
        row.extend(parts.map(|part| number(share(trials, arm, cpu, part), 2)));
    }
    row.push(number(typical(trials, arm, |trial| Some(trial.switches)), 0));
    row.push(number(typical(trials, arm, switches_per_call), 2));
    row
}
