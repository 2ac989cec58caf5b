// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about scripted jobs: the cost of events, access times, preemption lengths, and the
//! causes of the spread.

use serde_json::Value;

use super::{
    TerminalTables, access, conditions, cost, exchange, length, machine, overview, sweep, tables_of,
};
use crate::figure::PageSection;
use corehop_results::Results;

/// Tables of scripted jobs have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the sections of a page about scripted jobs: first the picture of the costs, then the
/// section about trust, then the machine.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    let all = [
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
    ];
    all.into_iter().flatten().collect()
}

/// Returns the first screen about scripted jobs, with the costs of the answer.
pub(super) fn front(data: &Results) -> Option<super::kind_front::KindFront> {
    super::jobs_front::front(data)
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    let after = [access::access(data), length::asked_and_got(data)];
    let conditions = tables_of(conditions::conditions(data));
    TerminalTables {
        before: sweep::saturation(data).into_iter().chain(conditions).collect(),
        after: tables_of(after.into_iter().flatten()),
    }
}

pub(super) fn notes(data: &Results) -> Vec<String> {
    conditions::notes(data).collect()
}

/// Scripted jobs have no JSON results of their own, because tables have the columns of cells,
/// curves and lengths.
pub(super) fn results(_: &Results) -> Vec<Value> {
    Vec::new()
}
