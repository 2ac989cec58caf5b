// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded programs.

use super::super::data::{Recorded, ReportData};
use super::super::figure::{Section, Table};
use super::super::{observed, observed_page};

/// The sections of each recorded program.
pub(super) fn recorded(data: &ReportData) -> Vec<Section> {
    let of = |it: &Recorded| observed_page::sections(&it.recording, &it.cost, &it.platform);
    data.recorded.iter().flat_map(of).collect()
}

pub(super) fn tables(data: &ReportData) -> Vec<Table> {
    data.recorded.iter().flat_map(|it| observed::tables(&it.cost)).collect()
}

pub(super) fn notes(data: &ReportData) -> impl Iterator<Item = String> {
    let of = |it: &Recorded| {
        let first = observed::firsts(&it.recording, &it.cost).into_iter();
        let head = std::iter::once(observed::head(&it.recording));
        let notes = observed::notes(&it.recording, &it.cost);
        first.chain(head).chain(notes).collect::<Vec<_>>()
    };
    data.recorded.iter().flat_map(of)
}
