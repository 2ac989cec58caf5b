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

#[cfg(test)]
mod tests {
    use super::*;

    const COST: CostEstimate =
        CostEstimate { estimate_us: 20.0, low_us: Some(19.0), high_us: None };

    #[test]
    fn a_flip_is_told_by_the_ends_that_are_known() {
        let told = |not_yet_us, by_us| flip(&Flip { to: Event::L3Migration, not_yet_us, by_us });
        assert_eq!(told(Some(1e3), Some(4e3)), "stay up to 1.00 ms, l3_migration from 4.00 ms");
        assert_eq!(told(Some(1e3), None), "stay up to 1.00 ms");
        assert_eq!(told(None, Some(4e3)), "l3_migration from 4.00 ms");
        assert_eq!(or_dash(told(None, None)), "–");
    }

    #[test]
    fn a_cost_in_nanoseconds_keeps_an_open_end_and_a_choice_its_measured_cost() {
        assert_eq!(nanos(&COST), "20000 [19000, …]");
        let mut it = AdviceChoice {
            event: Event::Preemption,
            cost: COST,
            measured: None,
            n: 60,
            replicates: None,
            avoid: false,
        };
        assert_eq!(choice(&it), "preemption 20.0 [19.0, …] (60)");
        it.measured = Some(CostEstimate { estimate_us: 21.0, low_us: None, high_us: Some(22.0) });
        it.replicates = Some(20);
        assert_eq!(choice(&it), "preemption 20.0 [19.0, …], measured 21.0 […, 22.0] (60 in 20)");
    }

    #[test]
    fn the_advice_of_a_rule_is_to_stay_to_move_or_neither() {
        let company = corehop_decide::advice::Company {
            preempted_by: corehop_plan::workload::Absence::Nothing,
            polluter: None,
            pair_class: None,
        };
        let rule = |verdict| AdviceRule {
            load: "idle".to_owned(),
            company: company.clone(),
            wss_bytes: 64 << 10,
            length_us: 1e3,
            choices: Vec::new(),
            verdict,
            margin_us: 1.5,
            flip: None,
        };
        let told = |verdict| preference(&rule(verdict));
        assert_eq!(told(Preference::Prefer(Event::Preemption)), "stay");
        assert_eq!(told(Preference::Prefer(Event::IdleLeave)), "stay");
        assert_eq!(told(Preference::Prefer(Event::L3Migration)), "move: l3_migration");
        assert_eq!(told(Preference::NoDifference), "either (within 1.50 us)");
        assert_eq!(told(Preference::NotEnoughEvidence), "not enough evidence");
        let constants =
            |migration: Option<Extra>, withheld: Option<&str>, warm_budget_us| Constants {
                load: "idle".to_owned(),
                company: company.clone(),
                wss_bytes: 64 << 10,
                migration,
                withheld: withheld.map(str::to_owned),
                warm_budget_us,
                warm_budget_n: Some((9, Some(3))),
            };
        let extra = Extra {
            event: Event::L3Migration,
            beyond: Event::Preemption,
            length_us: 1e3,
            cost: COST,
            n: 8,
            replicates: Some(2),
        };
        let all = [
            constants(Some(extra), None, None),
            constants(None, None, Some(250.4)),
            constants(None, Some("the interval holds zero"), None),
        ];
        let rows = constants_of(&all).rows;
        assert_eq!(rows.len(), 2, "what is not stated has no row");
        assert_eq!(
            rows[0][2..6],
            ["64 KiB", "20000 [19000, …]", "l3_migration less preemption, after 1.00 ms", "8 in 2"]
        );
        assert_eq!(rows[1][3..], ["–", "–", "–", "250", "9 in 3"]);
        let why: Vec<String> = withheld(&all).collect();
        assert_eq!(why.len(), 1);
        assert!(why[0].ends_with("at 64 KiB: the interval holds zero."), "{why:?}");
    }
}
