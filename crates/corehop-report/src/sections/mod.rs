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
mod supply;
mod sweep;
mod switching;
mod tasks;

use super::figure::{Section, Table};
use corehop_results::Results;

/// The tables beside the delays of cells: causes of the spread, saturation, access times, preemption lengths,
/// gangs, task sets.
pub fn other_tables(data: &Results) -> Vec<Table> {
    let parts = [
        conditions::conditions(data),
        access::access(data),
        length::asked_and_got(data),
        sharing::sharing(data),
    ];
    let own = tables(parts.into_iter().chain([tasks::tasks(data)]));
    sweep::saturation(data).into_iter().chain(own).chain(of_programs(data)).collect()
}

/// The same tables in two groups: those of experiments that ask another question than the cost of a cell,
/// and the rest.
pub(super) fn tables_around_cells(data: &Results) -> (Vec<Table>, Vec<Table>) {
    let first = [conditions::conditions(data), tasks::tasks(data)];
    let later = [access::access(data), length::asked_and_got(data), sharing::sharing(data)];
    let first = tables(first).chain(sweep::saturation(data)).chain(of_programs(data));
    (first.collect(), tables(later).collect())
}

fn tables(sections: impl IntoIterator<Item = Option<Section>>) -> impl Iterator<Item = Table> {
    sections.into_iter().flatten().flat_map(|section| section.tables)
}

/// Recorded programs, the kernel's overheads, core switches, supplies.
fn of_programs(data: &Results) -> impl Iterator<Item = Table> {
    let measured = overheads::tables(data).into_iter().chain(switching::tables(data));
    recorded::tables(data).into_iter().chain(measured).chain(supply::tables(data))
}

/// The notes beside these tables in a terminal.
pub fn notes(data: &Results) -> Vec<String> {
    let notes = conditions::notes(data).chain(tasks::notes(data));
    let notes = notes.chain(recorded::notes(data)).chain(overheads::notes(data));
    notes.chain(switching::notes(data)).chain(supply::notes(data)).collect()
}

/// The sections that the data support, in the order of reading: the picture first.
pub fn sections(data: &Results) -> Vec<Section> {
    let results = [
        cost::cost(data),
        overview::overview(data),
        overview::trust(data),
        machine::machines(data),
        exchange::exchange(data),
        conditions::conditions(data),
        sweep::sweep(data),
        length::scatter(data),
        access::access(data),
        length::asked_and_got(data),
        sharing::sharing(data),
        tasks::tasks(data),
        overheads::overheads(data),
        supply::supply(data),
        switching::switching(data),
    ];
    let account = [
        account::budget(data),
        account::verdicts(data),
        account::balance(data),
        machine::findings(data),
        origin::origin(data),
    ];
    let results = results.into_iter().flatten().chain(recorded::recorded(data));
    results.chain(account.into_iter().flatten()).collect()
}
