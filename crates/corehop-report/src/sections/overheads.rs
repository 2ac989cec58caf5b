// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of a kernel.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection};
use super::super::overheads;
use super::TerminalTables;
use corehop_results::Results;

/// The place of these sections on a page.
pub(super) const ON_PAGE: u8 = 1;

/// None: other tables have these headings, too.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// The overheads, if the data has some.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| PageSection {
        text: notes(data),
        tables: tables.into_iter().map(FigureTable::shown).collect(),
        ..PageSection::new("overheads", "Scheduling overheads of the kernel")
    });
    section.into_iter().collect()
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
