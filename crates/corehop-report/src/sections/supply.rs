// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supply of CPUs.

use serde_json::{Value, json};

use super::super::figure::{Section, Table};
use super::super::supply;
use super::Around;
use corehop_results::Results;

/// The place of these sections on a page.
pub(super) const ON_PAGE: u8 = 2;

/// The supply, if the data has some.
pub(super) fn sections(data: &Results) -> Vec<Section> {
    let tables = tables(data).before;
    let section = (!tables.is_empty()).then(|| Section {
        text: notes(data),
        tables: tables.into_iter().map(Table::shown).collect(),
        ..Section::new("supply", "Supply of the CPUs")
    });
    section.into_iter().collect()
}

pub(super) fn tables(data: &Results) -> Around {
    let table = (!data.supply.is_empty()).then(|| supply::table(&data.supply));
    Around { before: table.into_iter().collect(), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    supply::notes(&data.supply)
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.supply.iter().map(|it| json!(it)).collect()
}
