// SPDX-License-Identifier: MIT OR Apache-2.0
//! The advice in one sentence.

use super::{Advice, AdviceRule, AdvisedMove, AdvisedWait, Preference, WaitOrigin};
use corehop_plan::units::{Bytes, three_digits};
use corehop_plan::workload::Event;
use corehop_stats::cpmd::CostEstimate;

impl Advice {
    /// Whether it has any: a wait that was asked for is decided for some size, or, without such a wait, there are rules.
    pub fn is_any(&self) -> bool {
        self.rules.iter().any(|rule| match rule.waits.as_slice() {
            [asked] => asked.verdict != Preference::Unknown,
            _ => true,
        })
    }

    /// The advice in one sentence, for the load and company that stand first.
    pub fn sentence(&self) -> String {
        let Some(first) = self.rules.first() else {
            let why = self.silent.first().map(String::as_str);
            return format!(
                "No advice: {}.",
                why.unwrap_or("no preemption and no migration was measured")
            );
        };
        let is_first = |it: &&AdviceRule| it.load == first.load && it.company == first.company;
        let rules: Vec<&AdviceRule> = self.rules.iter().filter(is_first).collect();
        let clauses = match first.waits.as_slice() {
            [asked] => decided(&rules, asked),
            _ => thresholds(&rules),
        };
        format!("Load {}, {}: {clauses}.", first.load, first.company.brief())
    }
}

/// `from an expected wait of 3.00 us [1.00, 4.00] (16 KiB) on by l3_migration`: for each class of migration the shortest wait
/// of all sizes, and the longest.
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
        Some(format!("{range} on by {class}"))
    };
    let clauses: Vec<String> = classes.into_iter().filter_map(clause).collect();
    format!("a move pays from an expected wait of {}", clauses.join(", of "))
}

fn size(rule: &AdviceRule) -> String {
    Bytes::new(rule.wss_bytes).to_string()
}

/// `3.00 us [1.00, 4.00]`: the wait from which a move pays.
fn pays_from(it: &AdvisedMove) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), three_digits);
    let CostEstimate { estimate_us, low_us, high_us } = it.pays_from;
    let bound = it.at_most || matches!(it.known_by, WaitOrigin::BeyondAll { .. });
    let bound = if bound { "at most " } else { "" };
    format!("{bound}{} us [{}, {}]", three_digits(estimate_us), end(low_us), end(high_us))
}

/// `for a wait of 25 ms, move (l3_migration)`: a clause for each verdict.
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
    let wait = asked.wait_us;
    format!("for a wait of {} us, {}", three_digits(wait), clauses.join("; "))
}

/// The advice, in words.
fn word(verdict: Preference) -> String {
    match verdict {
        Preference::Stay => "stay".to_owned(),
        Preference::Move(event) => format!("move ({event})"),
        Preference::Unknown => "unknown, as the costs are not known well enough,".to_owned(),
    }
}
