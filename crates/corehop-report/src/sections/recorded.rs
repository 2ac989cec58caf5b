// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded programs.

use super::super::figure::{Section, Table};
use super::super::{observed, observed_page, program_runs};
use corehop_results::{Recorded, Results};

/// The sections of each recorded program.
pub(super) fn recorded(data: &Results) -> Vec<Section> {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map(program_runs::section);
        let sections = observed_page::sections(&it.recording, &it.cost, &it.platform);
        arms.into_iter().chain(sections).collect::<Vec<_>>()
    };
    data.recorded.iter().flat_map(of).collect()
}

pub(super) fn tables(data: &Results) -> Vec<Table> {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map_or_else(Vec::new, program_runs::tables);
        [arms, observed::tables(&it.cost)].concat()
    };
    data.recorded.iter().flat_map(of).collect()
}

pub(super) fn notes(data: &Results) -> impl Iterator<Item = String> {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map_or_else(Vec::new, program_runs::answers);
        let firsts = observed::firsts(&it.recording, &it.cost);
        let head = observed::head(&it.recording);
        let notes = observed::notes(&it.recording, &it.cost);
        arms.into_iter().chain(firsts).chain([head]).chain(notes).collect::<Vec<_>>()
    };
    data.recorded.iter().flat_map(of)
}
