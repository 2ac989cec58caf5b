// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of a report, made from its data: words, figures and tables.
//!
//! A kind of measurement has a module with its name, which the registry of kinds finds. The module has the kind's
//! sections on a page, its part of the first screen, its tables and notes in a terminal, the headings of its tables
//! with their meanings, and its results as objects for other programs.

mod access;
mod account;
mod conditions;
mod cost;
mod exchange;
mod gangs;
mod jobs;
mod jobs_front;
mod kind_front;
mod length;
mod machine;
mod origin;
mod overheads;
mod overview;
mod panel;
mod program;
mod program_costs;
mod supply;
mod sweep;
mod switches;
mod tasks;

use super::figure::{FigureTable, PageSection};
use super::front::PageFront;
use corehop_plan::for_each_kind;
use corehop_results::Results;
use serde_json::Value;

/// The tables of a kind in a terminal, before and after the tables of cells.
struct TerminalTables {
    /// The tables of experiments whose question is not the cost of a cell.
    before: Vec<FigureTable>,
    /// The tables that follow the tables of cells.
    after: Vec<FigureTable>,
}

macro_rules! of_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The headings that only the tables of one kind have, each with its meaning.
        pub(super) const HEADINGS: &[&[(&str, &str)]] = &[$($name::HEADINGS),+];

        /// Returns the sections of all kinds.
        fn of_kinds(data: &Results) -> impl Iterator<Item = PageSection> {
            [$($name::sections(data)),+].into_iter().flatten()
        }

        /// Returns the first screen, from the first measured kind.
        pub fn front(data: &Results) -> PageFront {
            let kinds = [$($name::front(data)),+];
            kind_front::front(data, kinds.into_iter().flatten().next())
        }

        /// Returns the terminal tables of all kinds.
        fn tables_of_kinds(data: &Results) -> Vec<TerminalTables> {
            vec![$($name::tables(data)),+]
        }

        /// Returns the notes that follow the tables in a terminal.
        pub fn notes(data: &Results) -> Vec<String> {
            [$($name::notes(data)),+].concat()
        }

        /// Returns the results of kinds that have no columns of their own in tables for other programs; each result is
        /// an object.
        pub fn results(data: &Results) -> Vec<Value> {
            [$($name::results(data)),+].concat()
        }
    };
}

for_each_kind!(of_kinds);

/// Returns the tables other than the delays of cells: causes of the spread, saturation, access times, preemption
/// lengths, gangs, task sets.
pub fn other_tables(data: &Results) -> Vec<FigureTable> {
    let all = tables_of_kinds(data).into_iter();
    all.flat_map(|TerminalTables { before, after }| [before, after].concat()).collect()
}

/// Returns the tables other than the delays of cells in two groups: the tables of experiments whose question is not the
/// cost of a cell, and all other tables.
pub(super) fn tables_around_cells(data: &Results) -> (Vec<FigureTable>, Vec<FigureTable>) {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for TerminalTables { before, after } in tables_of_kinds(data) {
        first.extend(before);
        later.extend(after);
    }
    (first, later)
}

fn tables_of(sections: impl IntoIterator<Item = PageSection>) -> Vec<FigureTable> {
    sections.into_iter().flat_map(|section| section.tables).collect()
}

/// Returns the sections for which the data suffice. A page sorts the sections by their
/// [place](crate::figure::SectionPlace).
pub fn sections(data: &Results) -> Vec<PageSection> {
    let account = [
        account::budget(data),
        account::verdicts(data),
        account::balance(data),
        machine::findings(data),
        origin::origin(data),
    ];
    of_kinds(data).chain(account.into_iter().flatten()).collect()
}
