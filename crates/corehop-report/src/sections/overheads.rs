// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the scheduling overheads of a kernel.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection, SectionPlace};
use super::super::overheads;
use super::TerminalTables;
use super::kind_front::{KindFront, first_file};
use crate::front::{MOST_LINES, SurenessCheck, WordedChart, WordedLine};
use crate::table::micros;
use corehop_results::Results;
use corehop_stats::overheads::OverheadSummary;

/// Tables of overheads have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the section about overheads, if the data has any.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new(SectionPlace::Result, "overheads", "Scheduling overheads of the kernel")
    });
    section.into_iter().collect()
}

/// The number of times of an overhead that the 99th percentile needs.
const ENOUGH: usize = 100;

/// Returns the first screen about overheads, which shows the largest overheads.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let mut largest: Vec<&OverheadSummary> = data.overheads.summaries.iter().collect();
    largest.sort_by(|a, b| b.p50_us.total_cmp(&a.p50_us));
    let first = largest.first()?;
    let fewest = data.overheads.summaries.iter().map(|it| it.n).min().unwrap_or(0);
    let enough = format!(
        "measured times of each overhead: at least {fewest}; a 99th percentile needs {ENOUGH}"
    );
    let (median, rare) = (micros(first.p50_us), micros(first.p99_us));
    Some(KindFront {
        title: "Scheduling overheads of the kernel".to_owned(),
        answer: Some(format!(
            "The largest of {} scheduling overheads is {}: median {median} µs, 99th percentile {rare} µs, from {} measured times.",
            data.overheads.summaries.len(),
            in_words(first),
            first.n,
        )),
        chart: Some(WordedChart {
            quantity: "time of one event in µs, the largest overheads".to_owned(),
            unit: "µs",
            point: "median",
            level: 0.95,
            under: String::new(),
            lines: largest.iter().take(MOST_LINES).map(|it| line(it)).collect(),
        }),
        checks: vec![SurenessCheck::new(fewest >= ENOUGH, enough)],
        next: (
            format!("corehop check TASKS.json --overheads {}", first_file(data)),
            "tests a task set with these overheads.",
        ),
    })
}

fn line(it: &OverheadSummary) -> WordedLine {
    WordedLine { words: in_words(it), value: it.p50_us, ends: None, group: 0 }
}

fn in_words(it: &OverheadSummary) -> String {
    let tasks = if it.tasks > 0 { format!(", {} tasks", it.tasks) } else { String::new() };
    format!("{} ({}{tasks})", it.what, it.vantage)
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    let summaries = &data.overheads.summaries;
    let table = (!summaries.is_empty()).then(|| overheads::table(summaries));
    TerminalTables { before: table.into_iter().collect(), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    data.overheads.facts.iter().flat_map(|facts| overheads::notes(facts, None)).collect()
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.overheads.summaries.iter().map(|it| json!(it)).collect()
}
