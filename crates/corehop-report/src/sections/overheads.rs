// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling overheads of a kernel.

use super::super::figure::{Section, Table};
use super::super::overheads;
use corehop_results::Results;

/// The overheads, if the data has some.
pub(super) fn overheads(data: &Results) -> Option<Section> {
    let tables = tables(data);
    (!tables.is_empty()).then(|| Section {
        text: notes(data).collect(),
        tables: tables.into_iter().map(Table::shown).collect(),
        ..Section::new("overheads", "Scheduling overheads of the kernel")
    })
}

pub(super) fn tables(data: &Results) -> Vec<Table> {
    let table = (!data.overheads.is_empty()).then(|| overheads::table(&data.overheads));
    table.into_iter().collect()
}

pub(super) fn notes(data: &Results) -> impl Iterator<Item = String> {
    data.overhead_facts.iter().flat_map(|facts| overheads::notes(facts, None))
}
