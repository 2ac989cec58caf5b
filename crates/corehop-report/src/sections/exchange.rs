// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section about measurements of the machine: the time to move a line between CPUs, the access
//! time of each cache level, and the outcome of the checks of stated facts.

use crate::figure::{FigureTable, PageSection, SectionPlace};
use crate::{exchange_svg, label};
use corehop_plan::platform::observed::Exchange;
use corehop_plan::platform::{Check, Platform};
use corehop_results::Results;

/// A report shows the table of all CPU pairs at once if it has at most this many pairs.
const AT_ONCE: usize = 16;

/// Returns the section about the exchanges and latencies of each machine, or about the command that
/// measures them.
pub(super) fn exchange(data: &Results) -> Option<PageSection> {
    let known: Vec<&Platform> =
        data.machines.iter().filter_map(|machine| machine.platform.as_ref()).collect();
    known.first()?;
    let mut section = PageSection::new(SectionPlace::Machine, "exchange", "The machine, measured");
    let measured = known.iter().filter(|platform| platform.exchange.is_some());
    let drawings: String = measured.clone().filter_map(|it| exchange_svg::draw(it)).collect();
    if !drawings.is_empty() {
        section = section.says(
            "Transfer time of one cache line from one CPU to another: half of a round trip of a line that both CPUs write in turn. The CPU of the row touches the line first, and measures the time. The diagonal is the control, in which one thread plays both sides: the cost of the protocol itself. A migrated job fetches its modified lines by these transfers, several at a time if its accesses allow.",
        );
        section.drawing = Some(drawings);
    }
    let missing: Vec<&str> =
        known.iter().filter(|it| it.exchange.is_none()).map(|it| it.name.as_str()).collect();
    if !missing.is_empty() {
        section = section.says(format!(
            "Not measured on {}: cache-line transfers between CPUs, latencies of each level, and the check of the stated facts. `corehop measure platform -o FILE.toml` measures them in some seconds; pass FILE.toml to `corehop report` with the files of samples.",
            missing.join(" and ")
        ));
    }
    section.tables = known.iter().flat_map(|it| [classes(it), pairs(it)]).collect();
    section.tables.extend(known.iter().flat_map(|it| [latencies(it), checks(it)]));
    section.tables.retain(|table| !table.rows.is_empty());
    Some(section)
}

fn classes(platform: &Platform) -> FigureTable {
    let mut table = FigureTable::new(
        format!("A cache line from CPU to CPU by class, {}", platform.id),
        &["class", "pairs", "shortest of all, ns", "middle median, ns"],
    )
    .shown();
    table.rows = platform
        .exchange_classes()
        .into_iter()
        .map(|class| {
            vec![
                label::exchange(class.affinity).to_owned(),
                class.pairs.to_string(),
                label::ns(class.least),
                label::ns(class.median),
            ]
        })
        .collect();
    table
}

fn pairs(platform: &Platform) -> FigureTable {
    let mut table = FigureTable::new(
        format!("A cache line from CPU to CPU, each direction, {}", platform.id),
        &["from", "to", "class", "shortest, ns", "median, ns", "batches"],
    );
    let exchanges = platform.exchange.iter().flat_map(|fact| &fact.value);
    let row = |exchange: &Exchange| {
        vec![
            exchange.from.to_string(),
            exchange.to.to_string(),
            label::exchange(platform.affinity(exchange.from, exchange.to)).to_owned(),
            label::ns(exchange.min),
            label::ns(exchange.median),
            exchange.batches.to_string(),
        ]
    };
    table.rows = exchanges.map(row).collect();
    table.open = table.rows.len() <= AT_ONCE;
    table
}

fn latencies(platform: &Platform) -> FigureTable {
    let mut table = FigureTable::new(
        format!("An access at each level, {}", platform.id),
        &["level", "latency", "source"],
    )
    .shown();
    let row =
        |(name, fact): (String, &corehop_plan::platform::Fact<corehop_plan::platform::Latency>)| {
            vec![name, fact.value.to_string(), fact.source.to_string()]
        };
    table.rows = label::latencies(platform).into_iter().map(row).collect();
    table
}

/// Returns a table of the stated facts about a machine that corehop checked.
fn checks(platform: &Platform) -> FigureTable {
    let mut table = FigureTable::new(
        format!("Stated facts, checked, {}", platform.id),
        &["fact", "here", "because"],
    )
    .shown();
    let row = |(fact, check): (String, &Check)| {
        let (word, why) = match check {
            Check::Observed { how } => ("observed", how.as_str()),
            Check::Contradicted { why } => ("contradicted", why.as_str()),
            Check::Unchecked => ("cannot tell", ""),
        };
        vec![fact, word.to_owned(), why.to_owned()]
    };
    table.rows = label::checks(platform).into_iter().map(row).collect();
    table
}
