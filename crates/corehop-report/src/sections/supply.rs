// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supply of CPUs.

use super::super::figure::{Section, Table};
use super::super::supply;
use corehop_results::Results;

/// The supply, if the data has some.
pub(super) fn supply(data: &Results) -> Option<Section> {
    let tables = tables(data);
    (!tables.is_empty()).then(|| Section {
        text: notes(data),
        tables: tables.into_iter().map(Table::shown).collect(),
        ..Section::new("supply", "Supply of the CPUs")
    })
}

pub(super) fn tables(data: &Results) -> Vec<Table> {
    let table = (!data.supply.is_empty()).then(|| supply::table(&data.supply));
    table.into_iter().collect()
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    supply::notes(&data.supply)
}
