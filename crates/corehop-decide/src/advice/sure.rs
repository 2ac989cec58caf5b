// SPDX-License-Identifier: MIT OR Apache-2.0
//! The advice in one sentence.

use super::{Advice, AdviceRule, AdvisedMove, AdvisedWait, Preference, WaitOrigin};
use corehop_plan::units::{Bytes, Nanos, three_digits};
use corehop_plan::workload::Event;
use corehop_stats::cpmd::CostEstimate;

impl Advice {
    /// Whether there is advice: some size has a decision for the requested wait, or, if no wait was requested, there
    /// are rules.
    pub fn is_any(&self) -> bool {
        self.rules.iter().any(|rule| match rule.waits.as_slice() {
            [asked] => asked.verdict != Preference::Unknown,
            _ => true,
        })
    }

    /// Returns the advice in one sentence, for the first load and company.
    pub fn sentence(&self) -> String {
        let Some(first) = self.rules.first() else {
            let why = self.silent.first().map(String::as_str);
            return format!(
                "No advice: {}.{}",
                why.unwrap_or("no preemption and no migration was measured"),
                self.constant().unwrap_or_default()
            );
        };
        let is_first = |it: &&AdviceRule| it.load == first.load && it.company == first.company;
        let rules: Vec<&AdviceRule> = self.rules.iter().filter(is_first).collect();
        let clauses = match first.waits.as_slice() {
            [asked] => decided(&rules, asked),
            _ => thresholds(&rules),
        };
        let constant = if first.waits.len() == 1 { None } else { self.constant() };
        format!(
            "Load {}, {}: {clauses}.{}",
            first.load,
            first.company.brief(),
            constant.unwrap_or_default()
        )
    }

    /// Returns the clause ` sched_migration_cost_ns: 60792 [52145, 61640] (256 KiB, load idle).`, or the reason why the
    /// constant is unknown; `None` if no constant was computed.
    fn constant(&self) -> Option<String> {
        let of = self.constants.iter().find_map(|it| Some((it, it.migration?.cost)));
        let Some((it, cost)) = of else {
            let why = self.constants.iter().find_map(|it| it.withheld.as_deref())?;
            return Some(format!(" sched_migration_cost_ns: unknown, because {why}."));
        };
        let nanos = |us: f64| format!("{:.0}", 1e3 * us);
        let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), nanos);
        Some(format!(
            " sched_migration_cost_ns: {} [{}, {}] ({}, load {}).",
            nanos(cost.estimate_us),
            end(cost.low_us),
            end(cost.high_us),
            Bytes::new(it.wss_bytes),
            it.load
        ))
    }
}

/// Formats the shortest and the longest wait over all sizes for each class of migration, such as `moving by
/// l3_migration pays from 3.00 us [1.00, 4.00] (16 KiB) of expected wait on`.
fn thresholds(rules: &[&AdviceRule]) -> String {
    let mut classes: Vec<Event> =
        rules.iter().flat_map(|rule| &rule.moves).map(|it| it.event).collect();
    classes.sort_unstable();
    classes.dedup();
    let clause = |class: Event| {
        let of = |rule: &&'_ AdviceRule| {
            let it = rule.moves.iter().find(|it| it.event == class)?;
            Some((it.pays_from.estimate_us, format!("{} ({})", pays_from(it), size(rule))))
        };
        let mut waits: Vec<(f64, String)> = rules.iter().filter_map(of).collect();
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (&waits.first()?.1, &waits.last()?.1);
        let range = if least == most { least.clone() } else { format!("{least} to {most}") };
        Some((class, range))
    };
    let clauses = classes.into_iter().filter_map(clause).enumerate().map(|(at, (class, range))| {
        let (verb, on) = if at == 0 { ("pays ", " of expected wait on") } else { ("", "") };
        format!("by {class} {verb}from {range}{on}")
    });
    format!("moving {}", clauses.collect::<Vec<_>>().join(", "))
}

fn size(rule: &AdviceRule) -> String {
    Bytes::new(rule.wss_bytes).to_string()
}

/// Formats the wait from which a move pays, such as `3.00 us [1.00, 4.00]`.
pub(super) fn pays_from(it: &AdvisedMove) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), three_digits);
    let CostEstimate { estimate_us, low_us, high_us } = it.pays_from;
    let bound = it.at_most || matches!(it.known_by, WaitOrigin::BeyondAll { .. });
    let bound = if bound { "at most " } else { "" };
    format!("{bound}{} us [{}, {}]", three_digits(estimate_us), end(low_us), end(high_us))
}

/// Formats a clause for each verdict, such as `for a wait of 25 ms, move (l3_migration)`, with the costs beside the
/// wait.
fn decided(rules: &[&AdviceRule], asked: &AdvisedWait) -> String {
    let mut verdicts: Vec<Preference> =
        rules.iter().filter_map(|rule| Some(rule.waits.first()?.verdict)).collect();
    verdicts.sort_unstable();
    verdicts.dedup();
    let clause = |verdict: &Preference| {
        let of = rules.iter().filter(|rule| rule.waits[0].verdict == *verdict);
        let sizes: Vec<String> = of.map(|rule| size(rule)).collect();
        let only = if verdicts.len() == 1 && sizes.len() > 1 {
            "all sizes".to_owned()
        } else {
            sizes.join(", ")
        };
        format!("{} with {only}", word(*verdict))
    };
    let clauses: Vec<String> = verdicts.iter().map(clause).collect();
    let stay = rules.iter().filter_map(|rule| Some(rule.waits.first()?.stay.estimate_us));
    let cheapest =
        |rule: &&AdviceRule| rule.moves.iter().map(|it| it.cost.estimate_us).reduce(f64::min);
    format!(
        "for a wait of {}, {}: staying costs the wait and {}, moving {}",
        Nanos::new((1e3 * asked.wait_us).round() as u64),
        clauses.join("; "),
        range_us(stay),
        range_us(rules.iter().filter_map(cheapest))
    )
}

/// Formats a range of costs, for example `3.00 to 4.00 us`.
fn range_us(costs: impl Iterator<Item = f64> + Clone) -> String {
    let low = three_digits(costs.clone().fold(f64::INFINITY, f64::min));
    let high = three_digits(costs.fold(f64::NEG_INFINITY, f64::max));
    if low == high { format!("{low} us") } else { format!("{low} to {high} us") }
}

/// The advice, in words.
pub(super) fn word(verdict: Preference) -> String {
    match verdict {
        Preference::Stay => "stay".to_owned(),
        Preference::Move(event) => format!("move ({event})"),
        Preference::Unknown => {
            "unknown, because the intervals of the costs are too wide,".to_owned()
        }
    }
}
