// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of a page about recorded programs.

use serde_json::{Value, json};

use super::super::figure::PageSection;
use super::super::{observed, observed_page, program_runs};
use super::TerminalTables;
use super::kind_front::KindFront;
use corehop_results::{Recorded, Results};

/// Tables of recorded programs have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the sections of each recorded program.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map(program_runs::section);
        let sections = observed_page::sections(&it.recording, &it.cost, &it.platform);
        arms.into_iter().chain(sections).collect::<Vec<_>>()
    };
    data.program.iter().flat_map(of).collect()
}

/// Returns the first screen about a recorded program, with its waiting and its absences.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let first = data.program.first()?;
    let answer = program_runs::sentence(&first.recording, &first.cost, first.comparison.as_ref());
    Some(KindFront {
        title: "Preemptions and migrations of a program".to_owned(),
        answer: Some(answer),
        chart: Some(observed_page::chart(&first.cost)),
        checks: Vec::new(),
        next: observed_page::next(),
    })
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map_or_else(Vec::new, program_runs::tables);
        [arms, observed::tables(&it.cost)].concat()
    };
    TerminalTables { before: data.program.iter().flat_map(of).collect(), after: Vec::new() }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    let of = |it: &Recorded| {
        let arms = it.comparison.as_ref().map_or_else(Vec::new, program_runs::answers);
        let firsts = observed::firsts(&it.recording, &it.cost);
        let head = observed::head(&it.recording);
        let notes = observed::notes(&it.recording, &it.cost);
        arms.into_iter()
            .chain(firsts)
            .chain([head])
            .chain(notes)
            .chain(it.costs.clone())
            .collect::<Vec<_>>()
    };
    data.program.iter().flat_map(of).collect()
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    let of = |it: &Recorded| {
        let mut result = observed::json(&it.recording, &it.cost);
        if let Some(costs) = &it.costs {
            result["costs"] = json!(costs);
        }
        result
    };
    data.program.iter().map(of).collect()
}
