// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a report page, made from its data: words, figures and tables.

mod access;
mod account;
mod cost;
mod exchange;
mod length;
mod machine;
mod origin;
mod overview;
mod panel;

use super::data::ReportData;
use super::figure::{Section, Table};

/// Access times and preemption lengths as tables, for a terminal: what is no delay.
pub fn other_tables(data: &ReportData) -> Vec<Table> {
    let parts = [access::access(data), length::asked_and_got(data)];
    parts.into_iter().flatten().flat_map(|section| section.tables).collect()
}

/// All parts that the data have something for, in the order of reading.
pub(super) fn sections(data: &ReportData) -> Vec<Section> {
    let parts = [
        overview::overview(data),
        overview::trust(data),
        machine::machines(data),
        exchange::exchange(data),
        cost::cost(data),
        cost::sweep(data),
        length::scatter(data),
        access::access(data),
        length::asked_and_got(data),
        account::budget(data),
        account::verdicts(data),
        account::balance(data),
        machine::findings(data),
        origin::origin(data),
    ];
    parts.into_iter().flatten().collect()
}
