// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice for one program, from the costs of events that were caused in that program.
//!
//! The question is that of the [module above](super): wait for the CPU, or move at once? Both costs are means of CPU time per
//! event. The migrations were caused in a thread that was not away, so their cost is that of a move at once, and the nearest class
//! whose cost is known to be above zero gives Linux's `sched_migration_cost_ns`.

use super::sure::{pays_from, word};
use super::waiting::{StayCurve, advised};
use super::{AdvisedMove, AdvisedWait, Preference};
use corehop_plan::units::{Nanos, three_digits};
use corehop_plan::workload::Event;
use corehop_stats::costs::{Cost, ProgramPrices};
use corehop_stats::cpmd::CostEstimate;
use corehop_stats::program_costs::ProgramCost;
use serde::Serialize;

/// The advice for a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramAdvice {
    /// The program, as a person would call it.
    pub program: String,
    /// The migrations that were measured, from near to far; `n` counts events and `replicates` rounds.
    pub moves: Vec<AdvisedMove>,
    /// The advice for the requested wait; `None` if no wait was requested.
    pub wait: Option<AdvisedWait>,
    /// The event and the cost that Linux calls `sched_migration_cost_ns`; `None` if no cost is known to be above zero.
    pub constant: Option<(Event, CostEstimate)>,
    /// The reasons for missing advice, each with the missing measurement.
    pub silent: Vec<String>,
}

impl ProgramAdvice {
    /// Returns the advice for a program with these costs, for the expected wait `length` if it is given.
    pub fn of(prices: &ProgramPrices, length: Option<Nanos>) -> Self {
        let stays = prices.of_event(Event::Preemption);
        let curve = StayCurve::of(stays.into_iter().map(|(us, it)| (us, estimate(it))).collect());
        let mut migrations: Vec<&ProgramCost> =
            prices.results().costs.iter().filter(|it| it.event.is_migration()).collect();
        migrations.sort_by_key(|it| it.event);
        let constant = migrations.iter().find_map(|migration| {
            let cost = migration.cost.filter(|cost| cost.is_seen() && cost.us > 0.0)?;
            let ends = cost.interval;
            let (low_us, high_us) = (ends.map(|it| it.low), ends.map(|it| it.high));
            Some((migration.event, CostEstimate { estimate_us: cost.us, low_us, high_us }))
        });
        let of = |curve: &StayCurve| -> Vec<AdvisedMove> {
            migrations.iter().filter_map(|it| moved(prices, curve, it)).collect()
        };
        let moves = curve.as_ref().map(of).unwrap_or_default();
        let wait = curve.as_ref().filter(|_| !moves.is_empty()).zip(length);
        let wait = wait.map(|(curve, length)| advised(curve, &moves, length.micros()));
        let tried = |is: fn(Event) -> bool| {
            let of = prices.results().costs.iter().filter(|it| is(it.event));
            of.map(|it| it.tried).sum::<u64>()
        };
        let lacks = [
            ("preemption", curve.is_none(), tried(|it| it == Event::Preemption)),
            (
                "migration",
                migrations.iter().all(|it| it.cost.is_none()),
                tried(Event::is_migration),
            ),
        ];
        let silent =
            lacks.into_iter().filter(|it| it.1).map(|(what, _, tried)| lacking(what, tried));
        let program = prices.results().program.clone();
        Self { program, wait, constant, silent: silent.collect(), moves }
    }

    /// Whether there is advice: a verdict if a wait was requested, otherwise a wait from which a move pays.
    pub fn is_any(&self) -> bool {
        let known = |it: &AdvisedWait| it.verdict != Preference::Unknown;
        !self.moves.is_empty() && self.wait.as_ref().is_none_or(known)
    }

    /// The advice in one sentence.
    pub fn sentence(&self) -> String {
        let program = if self.program.is_empty() { "the program" } else { &self.program };
        let clause = match (&self.wait, self.moves.as_slice()) {
            (_, []) => format!("no advice, because {}", self.silent.join("; ")),
            (Some(wait), moves) => decided(wait, moves),
            (None, moves) => {
                let by = |it: &AdvisedMove| format!("by {} from {}", it.event, pays_from(it));
                let moves: Vec<String> = moves.iter().map(by).collect();
                format!("moving pays {} of expected wait on", moves.join(", "))
            }
        };
        format!("{program}: {clause}.{}", self.constant())
    }

    /// Formats the constant as ` sched_migration_cost_ns: 60792 [52145, 61640] (l3_migration).`; the text is empty if a
    /// wait was requested.
    fn constant(&self) -> String {
        if self.wait.is_some() {
            return String::new();
        }
        let Some((event, cost)) = self.constant else {
            return " sched_migration_cost_ns: unknown, because no migration is known to cost more than nothing: cause more events \
                    (--share, --rounds)."
                .to_owned();
        };
        let nanos = |us: f64| format!("{:.0}", 1e3 * us);
        let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
        let (low, high) = (end(cost.low_us), end(cost.high_us));
        format!(" sched_migration_cost_ns: {} [{low}, {high}] ({event}).", nanos(cost.estimate_us))
    }
}

/// The reason why there is no cost of these events, and the remedy.
fn lacking(what: &str, tried: u64) -> String {
    if tried > 0 {
        return format!(
            "{tried} events of a {what} were tried and gave no cost: `corehop report` on this file gives the reason"
        );
    }
    format!(
        "this file has no cost of a {what}: `corehop measure program-costs` without --event measures each kind"
    )
}

fn estimate(it: Cost) -> CostEstimate {
    CostEstimate { estimate_us: it.us, low_us: it.low_us, high_us: it.high_us }
}

/// A migration in place of the wait; `None` if the cost of the migration is not known.
fn moved(prices: &ProgramPrices, curve: &StayCurve, of: &ProgramCost) -> Option<AdvisedMove> {
    let &(_, cost) = prices.of_event(of.event).first()?;
    let cost = estimate(cost);
    let pays_from = curve.pays_from(&cost);
    Some(AdvisedMove {
        event: of.event,
        cost,
        length_us: 0.0,
        at_most: false,
        n: usize::try_from(of.events).unwrap_or(usize::MAX),
        replicates: Some(of.rounds),
        known_by: curve.origin(pays_from.estimate_us),
        pays_from,
    })
}

/// Formats the verdict on a wait, such as `for a wait of 1 ms, move (l3_migration): staying costs the wait and 205 us,
/// moving 293 us`.
fn decided(wait: &AdvisedWait, moves: &[AdvisedMove]) -> String {
    let is_advised = |it: &&AdvisedMove| wait.verdict == Preference::Move(it.event);
    let cheapest = moves.iter().map(|it| it.cost.estimate_us).fold(f64::INFINITY, f64::min);
    let moving = moves.iter().find(is_advised).map_or(cheapest, |it| it.cost.estimate_us);
    format!(
        "for a wait of {}, {}: staying costs the wait and {} us, moving {} us",
        Nanos::new((1e3 * wait.wait_us).round() as u64),
        word(wait.verdict),
        three_digits(wait.stay.estimate_us),
        three_digits(moving)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_stats::ordered::Interval;
    use corehop_stats::program_costs::{EventCost, ProgramCostResults};

    fn caused(event: Event, length_us: Option<f64>, [us, low, high]: [f64; 3]) -> ProgramCost {
        ProgramCost {
            event,
            length_us,
            polluter: None,
            rounds: 40,
            invalid: <_>::default(),
            events: 500,
            tried: 500,
            cost: Some(EventCost { us, interval: Some(Interval { low, high, level: 0.95 }) }),
            by_dose: Vec::new(),
            bend: None,
            floor: None,
            effect_percent: None,
            exchange_ns: None,
        }
    }

    fn advice(costs: Vec<ProgramCost>, wait: Option<u64>) -> ProgramAdvice {
        let results =
            ProgramCostResults { program: "xz".to_owned(), costs, slowdown_percent: None };
        ProgramAdvice::of(&ProgramPrices::of(results).unwrap(), wait.map(Nanos::from_micros))
    }

    /// The advice for a preemption of 100 us that costs 50 us, and a migration that costs 120 us. Staying for a wait
    /// `w` below 100 us costs `1.5 w`, so the migration pays from 80 us.
    fn hand_solved(wait: Option<u64>) -> ProgramAdvice {
        let stay = caused(Event::Preemption, Some(100.0), [50.0, 50.0, 50.0]);
        advice(vec![stay, caused(Event::L3Migration, None, [120.0, 120.0, 120.0])], wait)
    }

    #[test]
    fn a_move_pays_from_the_wait_that_costs_as_much_together_with_its_preemption() {
        let it = hand_solved(None);
        assert!((it.moves[0].pays_from.estimate_us - 80.0).abs() < 1e-9, "{it:?}");
        // A shorter preemption than the measured one costs nothing at least, and at most as much.
        let [low, high] =
            [it.moves[0].pays_from.low_us, it.moves[0].pays_from.high_us].map(Option::unwrap);
        assert!((low - 70.0).abs() < 1e-9 && (high - 100.0).abs() < 1e-9, "{low} {high}");
        let said = it.sentence();
        assert!(
            said.starts_with("xz: moving pays by l3_migration from 80.0 us [70.0, 100]"),
            "{said}"
        );
        assert!(
            said.ends_with("sched_migration_cost_ns: 120000 [120000, 120000] (l3_migration)."),
            "{said}"
        );
    }

    #[test]
    fn a_wait_that_is_asked_for_is_decided_where_the_intervals_allow() {
        let verdict = |us| hand_solved(Some(us)).wait.unwrap().verdict;
        assert_eq!(verdict(60), Preference::Stay);
        assert_eq!(verdict(80), Preference::Unknown);
        assert_eq!(verdict(150), Preference::Move(Event::L3Migration));
        let said = hand_solved(Some(150)).sentence();
        assert!(said.contains("for a wait of 150 us, move (l3_migration)"), "{said}");
        assert!(!hand_solved(Some(80)).is_any() && hand_solved(Some(60)).is_any());
    }

    #[test]
    fn the_cost_beside_the_verdict_is_that_of_the_move_that_is_advised() {
        let stay = caused(Event::Preemption, Some(10.0), [1.0, 1.0, 1.0]);
        let vague = caused(Event::L3Migration, None, [10.0, 0.0, 500.0]);
        let sure = caused(Event::MemoryMigration, None, [30.0, 20.0, 40.0]);
        let said = advice(vec![stay, vague, sure], Some(100)).sentence();
        assert!(
            said.contains("move (memory_migration)") && said.ends_with("moving 30.0 us."),
            "{said}"
        );
    }

    #[test]
    fn a_cost_that_may_be_zero_is_no_constant_and_a_missing_event_is_named() {
        let unseen = caused(Event::L2Migration, None, [3.0, -5.0, 11.0]);
        let stay = caused(Event::Preemption, Some(1_000.0), [50.0, 40.0, 60.0]);
        let said = advice(vec![stay.clone(), unseen.clone()], None).sentence();
        assert!(said.contains("sched_migration_cost_ns: unknown"), "{said}");
        let seen = caused(Event::MemoryMigration, None, [30.0, 20.0, 40.0]);
        let it = advice(vec![stay, unseen.clone(), seen], None);
        assert_eq!(it.constant.map(|(event, _)| event), Some(Event::MemoryMigration));
        let lonely = advice(vec![unseen], Some(10));
        assert!(!lonely.is_any() && lonely.wait.is_none());
        assert!(lonely.sentence().contains("no cost of a preemption"), "{}", lonely.sentence());
    }
}
