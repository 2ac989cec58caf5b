// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice and comparisons, as text.

use std::collections::BTreeMap;

use super::figure::Table;
use super::label::size;
use super::table::{interval, micros, plain, wrapped};
use crate::decision::advice::{
    Advice, Choice, Constants, Extra, Flip, Isolation, Preference, Rule, counted,
};
use crate::decision::comparison::{Compared, Comparison, CostChange, FailOn, Gate};
use crate::decision::simulated::Saving;
use crate::model::cpmd::Cost;
use crate::units::Bytes;
use crate::workload::Event;

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
pub(super) fn together(rules: &[Rule]) -> impl Iterator<Item = &[Rule]> {
    rules.chunk_by(|a, b| a.load == b.load && a.company == b.company)
}

/// The rules of one load and company.
pub(super) fn rules(rules: &[Rule]) -> Table {
    let of = rules.first().map(|rule| format!("Load {}, {}", rule.load, rule.company));
    let caption = "median costs in us [95 % interval] (n in replicates), cheapest first";
    let mut table = Table::new(
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
pub(super) fn isolation(all: &[Isolation]) -> Table {
    let mut table = Table::new(
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
pub(super) fn partitioning(savings: &[Saving]) -> Table {
    let mut table = Table::new(
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

fn preference(rule: &Rule) -> String {
    match rule.verdict {
        Preference::Prefer(Event::Preemption | Event::IdleLeave) => "stay".to_owned(),
        Preference::Prefer(event) => format!("move: {event}"),
        Preference::NoDifference => format!("either (within {} us)", micros(rule.margin_us)),
        Preference::NotEnoughEvidence => "not enough evidence".to_owned(),
    }
}

/// A choice, its cost off the curve and as measured, and the number of samples.
pub(super) fn choice(choice: &Choice) -> String {
    let measured = choice.measured.map(|its| format!(", measured {}", cost(&its)));
    format!(
        "{} {}{} ({})",
        choice.event,
        cost(&choice.cost),
        measured.unwrap_or_default(),
        counted(choice.n, choice.replicates)
    )
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

/// The constants that schedulers ask for, of each load and company.
pub(super) fn constants_of(all: &[Constants]) -> Table {
    let mut table = Table::new(
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
    all.iter().filter_map(|it| {
        let why = it.withheld.as_ref()?;
        let (load, company, wss) = (&it.load, &it.company, size(Bytes::new(it.wss_bytes)));
        Some(format!("No sched_migration_cost_ns for load {load}, {company}, at {wss}: {why}."))
    })
}

fn beyond(it: &Extra) -> String {
    format!("{} less {}, after {}", it.event, it.beyond, time(it.length_us))
}

fn nanos(cost: &Cost) -> String {
    let nanos = |us: f64| format!("{:.0}", 1e3 * us);
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
    format!("{} [{}, {}]", nanos(cost.estimate_us), end(cost.low_us), end(cost.high_us))
}

/// Two results side by side: the answer to "did it get slower?", then the cells by load, page and absence, then what would have
/// been seen, in lines of at most `width` columns where a word allows it.
pub fn comparison(comparison: &Comparison, fail_on: &[FailOn], width: usize) -> String {
    let mut text = wrapped(&answer(comparison, fail_on), width) + "\n";
    for cells in comparison.cells.chunk_by(|a, b| group_of(a) == group_of(b)) {
        text.push_str(&plain(&cells_of(cells)));
    }
    let sentences = [
        Some(sensitivity(comparison)),
        Some(format!(
            "Intervals hold at {:.0} % for each cell by itself; outcomes allow for all {} cells.",
            100.0 * comparison.confidence,
            comparison.cells.len()
        )),
        left_out(comparison),
        comparison.replicates_needed().map(|replicates| {
            format!(
                "To tell every cell would take about {replicates} replicates on either side (--replicates), \
                 if nothing changed, or a wider margin."
            )
        }),
    ];
    for sentence in sentences.into_iter().flatten().chain(without_interval(comparison)) {
        text.push_str(&wrapped(&sentence, width));
    }
    text
}

/// The answer of the gate, in one sentence.
fn answer(comparison: &Comparison, fail_on: &[FailOn]) -> String {
    let all = comparison.cells.len();
    let counts = [
        (CostChange::Slower, "slower"),
        (CostChange::Faster, "faster"),
        (CostChange::Equivalent, "equivalent"),
        (CostChange::CannotTell, "cannot tell"),
    ]
    .map(|(outcome, word)| format!("{} {word}", comparison.count(outcome)))
    .join(", ");
    match comparison.gate(fail_on) {
        Gate::Nothing => "Nothing was compared: the results have no cell in common.".to_owned(),
        Gate::Mute => {
            let mute = comparison.mute().count();
            let replicates = comparison.replicates_to_fail();
            format!(
                "Cannot tell whether B is slower: {mute} of {all} cells have so few replicates that no slowdown could have \
                 shown ({counts}); {replicates} replicates on either side would do (--replicates {replicates})."
            )
        }
        Gate::Passes if comparison.count(CostChange::Slower) == 0 => {
            format!("No sign that B is slower than A, in {all} cells: {counts}.")
        }
        Gate::Passes | Gate::Fails => {
            let slower = comparison.count(CostChange::Slower);
            let worst = worst(comparison).unwrap_or_default();
            if slower > 0 {
                format!("B is slower than A in {slower} of {all} cells{worst} ({counts}).")
            } else {
                format!("B is not slower than A, but the gate fails on other outcomes: {counts}.")
            }
        }
    }
}

/// The slower cell whose cost grew by the largest share.
fn worst(comparison: &Comparison) -> Option<String> {
    let slower = comparison.cells.iter().filter(|it| it.outcome == CostChange::Slower);
    let worst = slower.max_by(|a, b| share(a).total_cmp(&share(b)))?;
    Some(format!(
        ", most in {} {}: {} -> {} us",
        name_of(worst),
        size(Bytes::new(worst.cell.wss_bytes)),
        micros(worst.a_us),
        micros(worst.b_us)
    ))
}

/// The change as a share of the first result's cost; infinite where that is not above 0.
fn share(it: &Compared) -> f64 {
    if it.a_us > 0.0 { it.difference_us / it.a_us } else { f64::INFINITY }
}

/// The slowdown that would have been seen.
fn sensitivity(comparison: &Comparison) -> String {
    let mut seen: Vec<f64> = comparison
        .cells
        .iter()
        .filter_map(|it| Some(it.detectable_us? / it.a_us).filter(|_| it.a_us > 0.0))
        .collect();
    seen.sort_by(f64::total_cmp);
    let percent = |at: usize| format!("{:.0} %", 100.0 * seen[at]);
    match seen.len() {
        0 => "No slowdown of any cell would have been seen with 80 % power.".to_owned(),
        1 => format!("A slowdown of {} would have been seen with 80 % power.", percent(0)),
        n => format!(
            "With 80 % power a slowdown of {} would have been seen in the most sensitive cell, of {} in half of the cells, of {} in \
             the least sensitive of {n}.",
            percent(0),
            percent((n - 1) / 2),
            percent(n - 1)
        ),
    }
}

/// The cells that only one result has.
fn left_out(comparison: &Comparison) -> Option<String> {
    let (only_a, only_b) = (comparison.only_a, comparison.only_b);
    (only_a + only_b > 0)
        .then(|| format!("Not compared: {only_a} cells are only in A, {only_b} only in B."))
}

/// The cells that have no interval, by the reason.
fn without_interval(comparison: &Comparison) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for it in &comparison.cells {
        if let Some(why) = &it.no_interval {
            let cell = format!("{} {}", name_of(it), size(Bytes::new(it.cell.wss_bytes)));
            reasons.entry(why).or_default().push(cell);
        }
    }
    let told =
        |(why, cells): (&str, Vec<String>)| format!("No interval for {}: {why}.", cells.join(", "));
    reasons.into_iter().map(told).collect()
}

/// What the cells of one table have in common.
fn group_of(it: &Compared) -> (&str, &'static str, &str) {
    (&it.cell.load, it.cell.page.word(), it.cell.absence())
}

/// The cells that are compared, in a few words.
fn name_of(it: &Compared) -> String {
    let (load, page, absence) = group_of(it);
    [it.cell.event.word(), load, page, absence].join(" ").trim_end().to_owned()
}

fn cells_of(cells: &[Compared]) -> Table {
    let common = cells.first().map(|it| {
        let (load, page, absence) = group_of(it);
        format!("load {load}, {page} pages {absence}").trim_end().to_owned()
    });
    let mut table = Table::new(
        format!("Median delays in us, {}", common.unwrap_or_default()),
        &["event", "WSS", "A", "B", "B - A", "interval", "would see", "outcome"],
    );
    table.rows = cells.iter().map(compared).collect();
    table
}

fn compared(it: &Compared) -> Vec<String> {
    let dash = || "–".to_owned();
    vec![
        it.cell.event.word().to_owned(),
        size(Bytes::new(it.cell.wss_bytes)),
        micros(it.a_us),
        micros(it.b_us),
        micros(it.difference_us),
        it.interval.map_or_else(dash, |its| interval(Some(its.low), Some(its.high))),
        it.detectable_us.map_or_else(dash, micros),
        outcome(it.outcome).to_owned(),
    ]
}

fn outcome(outcome: CostChange) -> &'static str {
    match outcome {
        CostChange::Slower => "slower",
        CostChange::Faster => "faster",
        CostChange::Equivalent => "equivalent",
        CostChange::CannotTell => "cannot tell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::comparison::{Delays, FailOn, Margin, compare};
    use crate::model::estimator::Estimator;
    use crate::model::example::sample;
    use crate::samples::Sample;

    /// Samples of so many replicates, one each, in an order without a trend.
    fn delays(wss_kib: u64, replicates: u64) -> Vec<Sample> {
        let of = |at: u64| {
            let resumed_ns = 2e3 + (at * 7 % 10) as f64;
            Sample { replicate: Some(at), wss_bytes: wss_kib << 10, resumed_ns, ..sample() }
        };
        (0..replicates).map(of).collect()
    }

    #[test]
    fn a_comparison_says_why_a_cell_has_no_interval_each_reason_once() {
        let mut all = Delays::new(Estimator::Difference);
        for samples in [delays(4, 10), delays(64, 2), delays(256, 2)] {
            all.take(&samples);
        }
        let margin = Margin { share: 0.05, least_us: 1.0 };
        let text = comparison(&compare(&all, &all, margin, 0.05).unwrap(), &[FailOn::Slower], 100);
        let why = "No interval for preemption idle 4k fixed_4ms 64 KiB, preemption idle 4k fixed_4ms \
                   256 KiB: 2 replicates; an interval needs 6.";
        assert!(text.replace('\n', " ").trim_end().ends_with(why), "{text}");
        assert_eq!(text.matches("No interval for").count(), 1);
    }
}
