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
mod overheads;
mod overview;
mod panel;
mod recorded;
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
    let recorded = recorded::tables(data).into_iter().chain(overheads::tables(data));
    sweep::saturation(data).into_iter().chain(tables).chain(sets).chain(recorded).collect()
}

/// The notes beside these tables in a terminal.
pub fn notes(data: &ReportData) -> Vec<String> {
    let notes = conditions::notes(data).chain(tasks::notes(data));
    notes.chain(recorded::notes(data)).chain(overheads::notes(data)).collect()
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
    let mut parts: Vec<Section> = parts.into_iter().flatten().collect();
    let own = overheads::overheads(data).into_iter().chain(recorded::recorded(data));
    // Before the account of what was lost.
    let account = parts.iter().position(|part| part.id == "budget").unwrap_or(parts.len());
    parts.splice(account..account, own);
    parts
}
