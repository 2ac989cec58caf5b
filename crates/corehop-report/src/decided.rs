// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corehop writes advice and comparisons as text.

use super::figure::FigureTable;
use super::label::{self, size};
use super::table::{interval, micros, plain};
use corehop_decide::advice::{
    Advice, AdviceRule, AdvisedMove, AdvisedWait, Constants, Extra, Isolation, Preference,
    ProgramAdvice, WaitOrigin, counted,
};
use corehop_decide::simulated::Saving;
use corehop_plan::units::Bytes;
use corehop_stats::cpmd::CostEstimate;

/// Returns the advice for each load, company and size, followed by the constants and the reasons for missing
/// advice.
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
    text.extend(advice.lacking.iter().map(|what| format!("Lacking: {what}.\n")));
    text
}

/// Returns the rules, grouped by load and company.
pub(super) fn together(rules: &[AdviceRule]) -> impl Iterator<Item = &[AdviceRule]> {
    rules.chunk_by(|a, b| a.load == b.load && a.company == b.company)
}

/// Returns the rules of one load and company as a table: a row for each size and migration, with the advice if a
/// wait was given.
pub(super) fn rules(rules: &[AdviceRule]) -> FigureTable {
    let of = rules.first().map(|rule| format!("Load {}, {}", rule.load, rule.company));
    let (caption, more) = question(rules.first().and_then(asked));
    let mut table = FigureTable::new(
        format!("{}: {caption} (medians in us [95 % interval])", of.unwrap_or_default()),
        &[&["WSS", "move", "costs"][..], &more].concat(),
    );
    table.rows = rules.iter().flat_map(rows).collect();
    table
}

/// Returns the advice for one program as a table with a row for each migration.
pub fn program_advice(advice: &ProgramAdvice) -> String {
    let asked = advice.wait.as_ref();
    let (caption, more) = question(asked);
    let mut table = FigureTable::new(
        format!("{}: {caption} (means in us [95 % interval], n events in rounds)", advice.program),
        &[&["move", "costs"][..], &more].concat(),
    );
    let rows = advice.moves.iter().enumerate();
    table.rows = rows.map(|(at, it)| cells(it, at == 0, asked)).collect();
    let mut text = if advice.moves.is_empty() { String::new() } else { plain(&table) };
    text.extend(advice.silent.iter().map(|why| format!("Lacking: {why}.\n")));
    text
}

/// Returns the question that a table of advice answers, and the headings of the columns with the answer.
fn question(asked: Option<&AdvisedWait>) -> (String, [&'static str; 2]) {
    match asked {
        Some(wait) => {
            let wait = time(wait.wait_us);
            let caption =
                format!("for a wait of {wait}: staying costs the wait and `stay`, moving `costs`");
            (caption, ["stay", "do"])
        }
        None => {
            ("the expected wait from which a move pays".to_owned(), ["pays from", "preemptions"])
        }
    }
}

/// Returns the wait for which the user requested advice, or `None` if the rule has no single wait.
pub(super) fn asked(rule: &AdviceRule) -> Option<&AdvisedWait> {
    match rule.waits.as_slice() {
        [asked] => Some(asked),
        _ => None,
    }
}

/// Returns the rows of one size: a row for each move, with its samples and replicates.
fn rows(rule: &AdviceRule) -> Vec<Vec<String>> {
    let row = |(at, it): (usize, &AdvisedMove)| {
        let first = at == 0;
        let wss = if first { size(Bytes::new(rule.wss_bytes)) } else { String::new() };
        [vec![wss], cells(it, first, asked(rule))].concat()
    };
    rule.moves.iter().enumerate().map(row).collect()
}

/// Returns the cells of one move; if the user gave a wait, the first row also has the cost of staying.
fn cells(it: &AdvisedMove, first: bool, asked: Option<&AdvisedWait>) -> Vec<String> {
    let costs = format!("{} ({})", cost(&it.cost), counted(it.n, it.replicates));
    let own = vec![it.event.word().to_owned(), bounded(it.at_most, costs)];
    let more = if let Some(wait) = asked {
        let stay = if first { cost(&wait.stay) } else { String::new() };
        vec![stay, decided(wait.verdict, it, first).to_owned()]
    } else {
        vec![bounded(is_bound(it), cost(&it.pays_from)), known_by(it.known_by)]
    };
    [own, more].concat()
}

/// Whether the wait from which a move pays is only an upper bound.
pub(super) fn is_bound(it: &AdvisedMove) -> bool {
    it.at_most || matches!(it.known_by, WaitOrigin::BeyondAll { .. })
}

fn bounded(at_most: bool, text: String) -> String {
    if at_most { format!("at most {text}") } else { text }
}

/// Returns the advice, in the row of the recommended move, or else in the first row.
fn decided(verdict: Preference, it: &AdvisedMove, first: bool) -> &'static str {
    match verdict {
        Preference::Move(event) if event == it.event => "move",
        Preference::Stay if first => "stay",
        Preference::Unknown if first => "unknown",
        _ => "",
    }
}

/// Returns the range of the measured preemption lengths, if the wait is outside the range.
fn known_by(origin: WaitOrigin) -> String {
    match origin {
        WaitOrigin::Measured => "measured".to_owned(),
        WaitOrigin::BelowAll { shortest_us } => format!("from {}", time(shortest_us)),
        WaitOrigin::BeyondAll { longest_us } => format!("up to {}", time(longest_us)),
    }
}

/// Returns the cost that other threads cause for a job that stays on its CPU, as a table.
pub(super) fn isolation(all: &[Isolation]) -> FigureTable {
    let mut table = FigureTable::new(
        "Isolation saves at most (us): a preemption minus an absence of the same length in which nothing ran",
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

/// Returns the savings from dividing the last-level cache, as a table.
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

pub(super) fn cost(cost: &CostEstimate) -> String {
    format!("{} {}", micros(cost.estimate_us), interval(cost.low_us, cost.high_us))
}

/// Returns a wait or a length as text; `us` is in microseconds.
pub(super) fn time(us: f64) -> String {
    label::time(1e3 * us)
}

/// Returns the constants that schedulers need, for each load and company, as a table.
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

/// Returns sentences about constants that are not stated, with the reason.
pub(super) fn withheld(all: &[Constants]) -> impl Iterator<Item = String> {
    all.iter().filter_map(|setting| {
        let why = setting.withheld.as_ref()?;
        let (load, company, wss) =
            (&setting.load, &setting.company, size(Bytes::new(setting.wss_bytes)));
        Some(format!("No sched_migration_cost_ns for load {load}, {company}, at {wss}: {why}."))
    })
}

fn beyond(it: &Extra) -> String {
    format!("{} minus {}, after {}", it.event, it.beyond, time(it.length_us))
}

fn nanos(cost: &CostEstimate) -> String {
    let nanos = |us: f64| format!("{:.0}", 1e3 * us);
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
    format!("{} [{}, {}]", nanos(cost.estimate_us), end(cost.low_us), end(cost.high_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::Event;

    const COST: CostEstimate =
        CostEstimate { estimate_us: 20.0, low_us: Some(19.0), high_us: None };

    fn moved(known_by: WaitOrigin, at_most: bool) -> AdvisedMove {
        let pays_from = CostEstimate { estimate_us: 8.0, low_us: Some(7.0), high_us: Some(9.5) };
        let (n, replicates) = (60, Some(20));
        let event = Event::L3Migration;
        AdvisedMove {
            event,
            cost: COST,
            length_us: 0.0,
            at_most,
            n,
            replicates,
            pays_from,
            known_by,
        }
    }

    fn company() -> corehop_decide::advice::Company {
        corehop_decide::advice::Company {
            preempted_by: corehop_plan::workload::Absence::Preemptor,
            polluter: None,
            pair_class: None,
        }
    }

    fn rule(waits: &[f64]) -> AdviceRule {
        let wait = |&wait_us: &f64| AdvisedWait {
            wait_us,
            stay: CostEstimate { estimate_us: 5.0, low_us: Some(4.0), high_us: Some(6.0) },
            verdict: Preference::Move(Event::L3Migration),
        };
        let far = AdvisedMove {
            event: Event::MemoryMigration,
            ..moved(WaitOrigin::BeyondAll { longest_us: 4e3 }, false)
        };
        AdviceRule {
            load: "idle".to_owned(),
            company: company(),
            wss_bytes: 64 << 10,
            moves: vec![moved(WaitOrigin::BelowAll { shortest_us: 10.0 }, true), far],
            waits: waits.iter().map(wait).collect(),
        }
    }

    #[test]
    fn a_row_for_each_move_has_the_wait_from_which_it_pays_and_the_lengths_that_are_known() {
        let table = rules(&[rule(&[1.0, 3.0])]);
        assert!(table.caption.contains("preempted meanwhile: the expected wait from which a move"));
        let near = [
            "64 KiB",
            "l3_migration",
            "at most 20.0 [19.0, …] (60 in 20)",
            "at most 8.00 [7.00, 9.50]",
            "from 10.0 µs",
        ];
        assert_eq!(table.rows[0], near);
        assert_eq!(table.rows[1][0], "");
        assert_eq!(table.rows[1][3..], ["at most 8.00 [7.00, 9.50]", "up to 4.00 ms"]);
        assert_eq!(known_by(WaitOrigin::Measured), "measured");
    }

    #[test]
    fn a_wait_that_was_asked_for_has_its_advice_in_the_row_of_the_move() {
        let table = rules(&[rule(&[25e3])]);
        assert!(table.caption.contains("for a wait of 25.0 ms: staying costs the wait and `stay`"));
        assert_eq!(table.head[3..], ["stay", "do"]);
        assert_eq!(table.rows[0][3..], ["5.00 [4.00, 6.00]", "move"]);
        assert_eq!(table.rows[1][3..], ["", ""]);
        let far = moved(WaitOrigin::Measured, false);
        let told = |verdict| [true, false].map(|first| decided(verdict, &far, first));
        assert_eq!(told(Preference::Stay), ["stay", ""]);
        assert_eq!(told(Preference::Unknown), ["unknown", ""]);
        assert_eq!(told(Preference::Move(Event::L3Migration)), ["move", "move"]);
        assert_eq!(told(Preference::Move(Event::MemoryMigration)), ["", ""]);
    }

    #[test]
    fn a_cost_in_nanoseconds_keeps_an_open_end() {
        assert_eq!(nanos(&COST), "20000 [19000, …]");
    }

    #[test]
    fn constants_stand_where_they_are_known_and_their_reasons_where_they_are_not() {
        let constants =
            |migration: Option<Extra>, withheld: Option<&str>, warm_budget_us| Constants {
                load: "idle".to_owned(),
                company: company(),
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
            [
                "64 KiB",
                "20000 [19000, …]",
                "l3_migration minus preemption, after 1.00 ms",
                "8 in 2"
            ]
        );
        assert_eq!(rows[1][3..], ["–", "–", "–", "250", "9 in 3"]);
        let why: Vec<String> = withheld(&all).collect();
        assert_eq!(why.len(), 1);
        assert!(why[0].ends_with("at 64 KiB: the interval holds zero."), "{why:?}");
    }
}
