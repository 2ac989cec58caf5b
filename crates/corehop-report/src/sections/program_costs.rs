// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events that were caused in a program.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection};
use super::super::program_costs;
use super::TerminalTables;
use corehop_results::Results;

/// The place of these sections on a page.
pub(super) const ON_PAGE: u8 = 1;

/// The headings that only these tables have.
pub(super) const HEADINGS: &[(&str, &str)] = &[
    (
        "rate",
        "The rate of the events in a block, in multiples of the lowest rate; `none` compares two blocks without events.",
    ),
    ("events/s", "The number of events per second of a block."),
    (
        "cost µs",
        "The additional CPU time per event, compared with the same progress without events, in µs.",
    ),
    ("seen", "Whether the interval excludes a cost of zero."),
];

/// The costs, if the data has some.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = program_costs::tables(&data.program_costs);
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new("program-costs", "Cost of an event for the program")
    });
    section.into_iter().collect()
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    TerminalTables { before: program_costs::tables(&data.program_costs), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    program_costs::notes(&data.program_costs)
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.program_costs.costs.iter().map(|it| json!(it)).collect()
}
