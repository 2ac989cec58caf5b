// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice and comparisons, as text.

use super::figure::FigureTable;
use super::label::size;
use super::table::{interval, micros, plain};
use corehop_decide::advice::{
    Advice, AdviceChoice, AdviceRule, Constants, Extra, Flip, Isolation, Preference, counted,
};
use corehop_decide::simulated::Saving;
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;
use corehop_stats::cpmd::CostEstimate;

/// The advice for each load, company and size, the constants, and the reasons for missing advice.
pub fn advice(advice: &Advice) -> String {
    let mut text = String::new();
    for rules_of in together(&advice.rules) {
        text.push_str(&plain(&rules(rules_of)));
    }
    if !advice.isolation.is_empty() {
        text.push_str(&plain(&isolation(&advice.isolation)));
    }
    if !advice.constants.is_empty() {
        let stated = constants_of(&advice.constants);
        if !stated.rows.is_empty() {
            text.push_str(&plain(&stated));
        }
        text.extend(withheld(&advice.constants).map(|why| format!("{why}\n")));
    }
    if !advice.partitioning.is_empty() {
        text.push_str(&plain(&partitioning(&advice.partitioning)));
    }
    text.extend(advice.silent.iter().map(|why| format!("No advice: {why}.\n")));
    text
}

/// The rules of each load and company.
pub(super) fn together(rules: &[AdviceRule]) -> impl Iterator<Item = &[AdviceRule]> {
    rules.chunk_by(|a, b| a.load == b.load && a.company == b.company)
}

/// The rules of one load and company.
pub(super) fn rules(rules: &[AdviceRule]) -> FigureTable {
    let of = rules.first().map(|rule| format!("Load {}, {}", rule.load, rule.company));
    let caption = "median costs in us [95 % interval] (n in replicates), cheapest first";
    let mut table = FigureTable::new(
        format!("{}: {caption}", of.unwrap_or_default()),
        &["WSS", "after", "do", "costs", "avoid", "flips"],
    );
    table.rows = rules
        .iter()
        .map(|rule| {
            let costs = rule.choices.iter().map(choice).collect::<Vec<_>>().join(", ");
            let avoid = rule.choices.iter().filter(|it| it.avoid).map(|it| it.event.word());
            vec![
                size(Bytes::new(rule.wss_bytes)),
                time(rule.length_us),
                preference(rule),
                costs,
                or_dash(avoid.collect::<Vec<_>>().join(", ")),
                or_dash(rule.flip.as_ref().map(flip).unwrap_or_default()),
            ]
        })
        .collect();
    table
}

/// The cost of company to a job that stays.
pub(super) fn isolation(all: &[Isolation]) -> FigureTable {
    let mut table = FigureTable::new(
        "Isolation saves at most (us): a preemption less an absence of the same length in which nothing ran",
        &["load", "company", "WSS", "after", "saves", "n in replicates"],
    );
    let row = |it: &Isolation| {
        vec![
            it.load.clone(),
            it.company.to_string(),
            size(Bytes::new(it.wss_bytes)),
            time(it.length_us),
            cost(&it.saves),
            counted(it.n, it.replicates),
        ]
    };
    table.rows = all.iter().map(row).collect();
    table
}

/// The savings of dividing the last level of cache.
pub(super) fn partitioning(savings: &[Saving]) -> FigureTable {
    let mut table = FigureTable::new(
        "Half of the last-level cache for the job, half for all others: median cost of a preemption in us",
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

fn preference(rule: &AdviceRule) -> String {
    match rule.verdict {
        Preference::Prefer(Event::Preemption | Event::IdleLeave) => "stay".to_owned(),
        Preference::Prefer(event) => format!("move: {event}"),
        Preference::NoDifference => format!("either (within {} us)", micros(rule.margin_us)),
        Preference::NotEnoughEvidence => "not enough evidence".to_owned(),
    }
}

/// A choice, its cost off the curve and as measured, and the number of samples.
pub(super) fn choice(choice: &AdviceChoice) -> String {
    let measured = choice.measured.map(|its| format!(", measured {}", cost(&its)));
    format!(
        "{} {}{} ({})",
        choice.event,
        cost(&choice.cost),
        measured.unwrap_or_default(),
        counted(choice.n, choice.replicates)
    )
}

fn cost(cost: &CostEstimate) -> String {
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

/// The constants that schedulers ask for, of each load and company.
pub(super) fn constants_of(all: &[Constants]) -> FigureTable {
    let mut table = FigureTable::new(
        "Constants for schedulers, at the largest measured size that fits into a core's private caches",
        &[
            "load",
            "company",
            "WSS",
            "sched_migration_cost_ns",
            "which is",
            "n in replicates",
            "warm budget, us",
            "n in replicates",
        ],
    );
    let row = |it: &Constants| {
        let extra = it.migration.as_ref();
        let budget = it.warm_budget_us.map(|us| format!("{us:.0}"));
        let budget_n = it.warm_budget_n.map(|(n, replicates)| counted(n, replicates));
        vec![
            it.load.clone(),
            it.company.to_string(),
            size(Bytes::new(it.wss_bytes)),
            or_dash(extra.map(|it| nanos(&it.cost)).unwrap_or_default()),
            or_dash(extra.map(beyond).unwrap_or_default()),
            or_dash(extra.map(|it| counted(it.n, it.replicates)).unwrap_or_default()),
            or_dash(budget.unwrap_or_default()),
            or_dash(budget_n.unwrap_or_default()),
        ]
    };
    let stated = |it: &&Constants| it.migration.is_some() || it.warm_budget_us.is_some();
    table.rows = all.iter().filter(stated).map(row).collect();
    table
}

/// Why constants are not stated.
pub(super) fn withheld(all: &[Constants]) -> impl Iterator<Item = String> {
    all.iter().filter_map(|setting| {
        let why = setting.withheld.as_ref()?;
        let (load, company, wss) =
            (&setting.load, &setting.company, size(Bytes::new(setting.wss_bytes)));
        Some(format!("No sched_migration_cost_ns for load {load}, {company}, at {wss}: {why}."))
    })
}

fn beyond(it: &Extra) -> String {
    format!("{} less {}, after {}", it.event, it.beyond, time(it.length_us))
}

fn nanos(cost: &CostEstimate) -> String {
    let nanos = |us: f64| format!("{:.0}", 1e3 * us);
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
    format!("{} [{}, {}]", nanos(cost.estimate_us), end(cost.low_us), end(cost.high_us))
}
