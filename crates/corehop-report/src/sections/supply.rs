// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the supply of CPUs.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection, SectionPlace};
use super::super::supply;
use super::TerminalTables;
use super::kind_front::{KindFront, first_file};
use crate::front::{MOST_LINES, SurenessCheck, WordedChart, WordedLine};
use crate::table::micros;
use corehop_results::Results;
use corehop_sched::supply::SupplySummary;

/// The headings that only tables of the supply have.
pub(super) const HEADINGS: &[(&str, &str)] = &[
    ("windows", "The number of intervals in which corehop watched a CPU without a break."),
    ("watched s", "The total time for which corehop watched the CPU, in seconds."),
    (
        "gaps",
        "The number of gaps: intervals in which the CPU did not run the thread that watches it.",
    ),
    ("gaps/s", "The number of gaps per second of watching."),
    ("largest gap", "The longest time in which the CPU did not run the thread that watches it."),
    (
        "lost %",
        "The share of the time that the CPU did not supply, including gaps that are too short for a row of their own.",
    ),
    (
        "most in 1 ms",
        "The most time that the CPU did not supply within any 1 ms of the windows, in µs.",
    ),
    (
        "in 10 ms",
        "The most time that the CPU did not supply within any 10 ms of the windows, in µs.",
    ),
    (
        "in 40 ms",
        "The most time that the CPU did not supply within any 40 ms of the windows, in µs.",
    ),
];

/// Returns the section about the supply, if the data has any.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new(SectionPlace::Result, "supply", "Supply of the CPUs")
    });
    section.into_iter().collect()
}

/// The seconds for which corehop must watch a CPU to see rare gaps.
const ENOUGH_S: f64 = 10.0;

/// Returns the first screen about the supply, which shows the CPUs that lost the most time.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let first = data.supply.first()?;
    let mut most: Vec<(f64, &SupplySummary)> =
        data.supply.iter().filter_map(|it| Some((it.most_lost_us[2]?, it))).collect();
    most.sort_by(|a, b| b.0.total_cmp(&a.0));
    let line = |&(value, it): &(f64, &SupplySummary)| WordedLine {
        words: format!("CPU {}", it.cpu),
        value,
        ends: None,
        group: 0,
    };
    let watched = format!(
        "each CPU was watched for {:.1} s; rare gaps need {ENOUGH_S:.0} s",
        first.watched_s
    );
    Some(KindFront {
        title: "Time that the CPUs supplied".to_owned(),
        answer: most.first().map(least),
        chart: Some(WordedChart {
            quantity: "most time missing in any 40 ms, in µs".to_owned(),
            unit: "µs",
            point: "maximum",
            level: 0.95,
            under: String::new(),
            lines: most.iter().take(MOST_LINES).map(line).collect(),
        }),
        checks: vec![SurenessCheck::new(first.watched_s >= ENOUGH_S, watched)],
        next: (
            format!("corehop check TASKS.json --supply {}", first_file(data)),
            "tests a task set with the supply of these CPUs.",
        ),
    })
}

/// Returns a sentence about the CPU that supplied the least time.
fn least(&(us, it): &(f64, &SupplySummary)) -> String {
    format!(
        "CPU {} supplied the least: in the worst 40 ms, {} µs were missing; over {:.1} s, {:.2} % of the time.",
        it.cpu,
        micros(us),
        it.watched_s,
        it.lost_percent
    )
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    let table = (!data.supply.is_empty()).then(|| supply::table(&data.supply));
    TerminalTables { before: table.into_iter().collect(), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    supply::notes(&data.supply)
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.supply.iter().map(|it| json!(it)).collect()
}
