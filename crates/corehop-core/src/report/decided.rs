// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice and comparisons, as text.

use super::figure::Table;
use super::label::size;
use super::table::{interval, micros, plain};
use crate::decision::advice::{Advice, Choice, Constants, Flip, Preference, Rule};
use crate::decision::comparison::{Compared, Comparison, Outcome};
use crate::decision::simulated::Saving;
use crate::model::cpmd::Cost;
use crate::units::Bytes;
use crate::workload::Event;

/// What to do for each load and size, the constants, and what could not be advised on.
pub fn advice(advice: &Advice) -> String {
    let mut text = String::new();
    let mut rest = advice.rules.as_slice();
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|rule| rule.load == first.load).count();
        let (of_load, others) = rest.split_at(same);
        text.push_str(&plain(&rules(of_load)));
        rest = others;
    }
    text.extend(advice.constants.iter().map(constants));
    if !advice.partitioning.is_empty() {
        text.push_str(&plain(&partitioning(&advice.partitioning)));
    }
    text.extend(advice.silent.iter().map(|why| format!("No advice: {why}.\n")));
    text
}

/// The rules of one load.
pub(super) fn rules(rules: &[Rule]) -> Table {
    let load = rules.first().map_or("", |rule| rule.load.as_str());
    let mut table = Table::new(
        format!("Load {load}: median costs in us [95 % interval], cheapest first"),
        &["WSS", "after", "do", "costs", "avoid", "flips", "isolation saves at most"],
    );
    table.rows = rules
        .iter()
        .map(|rule| {
            let costs = rule.choices.iter().map(choice).collect::<Vec<_>>().join(", ");
            let avoid = rule.choices.iter().filter(|it| it.avoid).map(|it| it.event.word());
            vec![
                size(Bytes::new(rule.wss_bytes)),
                or_dash(rule.length_us.map(time).unwrap_or_default()),
                preference(rule),
                costs,
                or_dash(avoid.collect::<Vec<_>>().join(", ")),
                or_dash(rule.flip.as_ref().map(flip).unwrap_or_default()),
                or_dash(rule.isolation_saves.as_ref().map(cost).unwrap_or_default()),
            ]
        })
        .collect();
    table
}

/// What dividing the last level of cache would save.
pub(super) fn partitioning(savings: &[Saving]) -> Table {
    let mut table = Table::new(
        "Half of the last level of cache for the job, half for everyone else: a preemption's median cost in us",
        &["load", "WSS", "divided by", "as it is", "divided", "saves", "a warm touch grows by"],
    );
    let row = |it: &Saving| {
        vec![
            it.load.clone(),
            size(Bytes::new(it.wss_bytes)),
            it.by.word().to_owned(),
            micros(it.undivided_us),
            micros(it.divided_us),
            cost(&it.saves),
            micros(it.warm_us),
        ]
    };
    table.rows = savings.iter().map(row).collect();
    table
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "–".to_owned() } else { text }
}

fn preference(rule: &Rule) -> String {
    match rule.verdict {
        Preference::Prefer(Event::Preemption) => "stay".to_owned(),
        Preference::Prefer(event) => format!("move: {event}"),
        Preference::NoDifference => format!("either (within {} us)", micros(rule.margin_us)),
        Preference::NotEnoughEvidence => "not enough evidence".to_owned(),
    }
}

/// What can be done, and what it costs.
pub(super) fn choice(choice: &Choice) -> String {
    format!("{} {}", choice.event, cost(&choice.cost))
}

fn cost(cost: &Cost) -> String {
    format!("{} {}", micros(cost.estimate_us), interval(cost.low_us, cost.high_us))
}

fn time(us: f64) -> String {
    format!("{} ms", micros(us / 1e3))
}

fn flip(flip: &Flip) -> String {
    match (flip.not_yet_us, flip.by_us) {
        (Some(not_yet), Some(by)) => {
            format!("stay up to {}, {} from {}", time(not_yet), flip.to, time(by))
        }
        (Some(not_yet), None) => format!("stay up to {}", time(not_yet)),
        (None, Some(by)) => format!("{} from {}", flip.to, time(by)),
        (None, None) => String::new(),
    }
}

/// The constants that schedulers ask for, of each load.
pub(super) fn constants_of(all: &[Constants]) -> Table {
    let mut table = Table::new(
        "Constants that schedulers ask for, at the largest size measured that a core's own caches hold".to_owned(),
        &["load", "WSS", "sched_migration_cost_ns", "of a", "warm budget, µs"],
    );
    let row = |it: &Constants| {
        let nanos = |us: f64| format!("{:.0}", 1e3 * us);
        let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
        let extra = it.migration.as_ref().map(|(_, extra)| {
            format!("{} [{}, {}]", nanos(extra.estimate_us), end(extra.low_us), end(extra.high_us))
        });
        let event = it.migration.as_ref().map(|(event, _)| event.word().to_owned());
        vec![
            it.load.clone(),
            size(Bytes::new(it.wss_bytes)),
            or_dash(extra.unwrap_or_default()),
            or_dash(event.unwrap_or_default()),
            or_dash(it.warm_budget_us.map(|us| format!("{us:.0}")).unwrap_or_default()),
        ]
    };
    table.rows = all.iter().map(row).collect();
    table
}

fn constants(it: &Constants) -> String {
    let wss = size(Bytes::new(it.wss_bytes));
    let migration = it.migration.as_ref().map(|(event, extra)| {
        let nanos = |us: f64| format!("{:.0}", 1e3 * us);
        let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
        format!(
            "  sched_migration_cost_ns: {} [{}, {}] (a {event} beyond resuming in place)\n",
            nanos(extra.estimate_us),
            end(extra.low_us),
            end(extra.high_us)
        )
    });
    let budget = match it.warm_budget_us {
        Some(us) => {
            format!("  warm budget: {us:.0} us (half of the cost is there after that length)\n")
        }
        None => "  warm budget: not enough preemption lengths measured at that size\n".to_owned(),
    };
    format!(
        "Constants under load {}, for {wss}, the largest measured that a core's own caches hold:\n{}{budget}\n",
        it.load,
        migration.unwrap_or_default()
    )
}

/// Two results side by side.
pub fn comparison(comparison: &Comparison) -> String {
    let mut table = Table::new(
        format!(
            "Median delays in us; intervals hold for all cells together at {:.0} %",
            100.0 * comparison.confidence
        ),
        &[
            "cell",
            "WSS",
            "A",
            "B",
            "B - A",
            "interval",
            "margin",
            "A/A floor",
            "smallest seen",
            "n",
            "outcome",
        ],
    );
    table.rows = comparison.cells.iter().map(compared).collect();
    let count = |outcome| comparison.count(outcome);
    format!(
        "{}{} slower, {} faster, {} equivalent, {} cannot tell; {} cells are only in A, {} only in B.\n",
        plain(&table),
        count(Outcome::Slower),
        count(Outcome::Faster),
        count(Outcome::Equivalent),
        count(Outcome::CannotTell),
        comparison.only_a,
        comparison.only_b
    )
}

fn compared(it: &Compared) -> Vec<String> {
    let cell = &it.cell;
    let name = [cell.event.word(), &cell.load, cell.page.word(), cell.absence()].join(" ");
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), micros);
    vec![
        name.trim_end().to_owned(),
        size(Bytes::new(cell.wss_bytes)),
        micros(it.a_us),
        micros(it.b_us),
        micros(it.difference_us),
        it.interval.map_or_else(
            || "–".to_owned(),
            |interval| format!("[{}, {}]", micros(interval.low), micros(interval.high)),
        ),
        micros(it.margin_us),
        optional(it.floor_us),
        optional(it.smallest_us),
        format!("{}, {}", it.n_a, it.n_b),
        outcome(it.outcome).to_owned(),
    ]
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Slower => "slower",
        Outcome::Faster => "faster",
        Outcome::Equivalent => "equivalent",
        Outcome::CannotTell => "cannot tell",
    }
}
