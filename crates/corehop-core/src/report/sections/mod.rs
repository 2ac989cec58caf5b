// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a report page, made from its data: words, figures and tables.

mod access;
mod account;
mod conditions;
mod cost;
mod exchange;
mod length;
mod machine;
mod origin;
mod overview;
mod panel;
mod sharing;
mod sweep;
mod tasks;

use super::data::ReportData;
use super::figure::{Section, Table};

/// What else is told in a terminal than delays by cell: what makes their spread, where they stop
/// growing with the preemption length, access times, preemption lengths, and gangs.
pub fn other_tables(data: &ReportData) -> Vec<Table> {
    let parts = [
        conditions::conditions(data),
        access::access(data),
        length::asked_and_got(data),
        sharing::sharing(data),
    ];
    let tables = parts.into_iter().flatten().flat_map(|section| section.tables);
    let sets = tasks::tasks(data).into_iter().flat_map(|section| section.tables);
    sweep::saturation(data).into_iter().chain(tables).chain(sets).collect()
}

/// What is said beside these tables in a terminal: of what makes a spread, and of task sets.
pub fn notes(data: &ReportData) -> Vec<String> {
    conditions::notes(data).chain(tasks::notes(data)).collect()
}

/// All parts that the data have something for, in the order of reading.
pub(super) fn sections(data: &ReportData) -> Vec<Section> {
    let parts = [
        overview::overview(data),
        overview::trust(data),
        machine::machines(data),
        exchange::exchange(data),
        cost::cost(data),
        conditions::conditions(data),
        sweep::sweep(data),
        length::scatter(data),
        access::access(data),
        length::asked_and_got(data),
        sharing::sharing(data),
        tasks::tasks(data),
        account::budget(data),
        account::verdicts(data),
        account::balance(data),
        machine::findings(data),
        origin::origin(data),
    ];
    parts.into_iter().flatten().collect()
}
