// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supply of CPUs.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection};
use super::super::supply;
use super::TerminalTables;
use corehop_results::Results;

/// The place of these sections on a page.
pub(super) const ON_PAGE: u8 = 2;

/// The headings that only these tables have.
pub(super) const HEADINGS: &[(&str, &str)] = &[
    ("windows", "The intervals in which a CPU was watched without a break."),
    ("watched s", "The time for which a CPU was watched, in seconds."),
    ("gaps", "The intervals in which a CPU did not run the watching thread."),
    ("gaps/s", "The gaps in a second."),
    ("largest gap", "The longest time in which a CPU did not run the watching thread."),
    (
        "lost %",
        "The share of the time that a CPU did not supply, including gaps too short for a row.",
    ),
    ("most in 1 ms", "The maximum loss in any 1 ms of the windows, in µs."),
    ("in 10 ms", "The maximum loss in any 10 ms of the windows, in µs."),
    ("in 40 ms", "The maximum loss in any 40 ms of the windows, in µs."),
];

/// The supply, if the data has some.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new("supply", "Supply of the CPUs")
    });
    section.into_iter().collect()
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
