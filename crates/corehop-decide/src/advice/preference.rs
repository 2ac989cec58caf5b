// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preferred one of several costs.

use serde::Serialize;

use super::{AdviceChoice, LEAST_MARGIN_US};
use corehop_plan::workload::Event;
use corehop_stats::cpmd::CostEstimate;

/// The preference by the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// This one surely costs least.
    Prefer(Event),
    /// No two of those that may cost least differ by more than the margin.
    NoDifference,
    /// It cannot be told.
    NotEnoughEvidence,
}

impl Preference {
    /// The preference among choices: that of the curve, if what was measured says the same.
    pub(super) fn among(choices: &[AdviceChoice], margin_us: f64) -> Self {
        let of = |cost: fn(&AdviceChoice) -> CostEstimate| {
            let costs: Vec<(Event, CostEstimate)> =
                choices.iter().map(|it| (it.event, cost(it))).collect();
            preference(costs, margin_us)
        };
        let (curve, seen) = (of(|it| it.cost), of(AdviceChoice::seen));
        if curve == seen { curve } else { Self::NotEnoughEvidence }
    }
}

/// The difference that does not matter among choices, in microseconds: a share of the smallest cost.
pub(super) fn margin_us(choices: &[AdviceChoice], share: f64) -> f64 {
    let least = choices.iter().map(|it| it.cost.estimate_us).fold(f64::MAX, f64::min);
    (share * least).max(LEAST_MARGIN_US)
}

/// Options that surely cost more than the cheapest, by more than the margin, are ignored here.
fn preference(mut costs: Vec<(Event, CostEstimate)>, margin_us: f64) -> Preference {
    costs.sort_by(|a, b| a.1.estimate_us.total_cmp(&b.1.estimate_us));
    let span = |(_, cost): &(Event, CostEstimate)| cost.low_us.zip(cost.high_us);
    let spans: Option<Vec<(f64, f64)>> = costs.iter().map(span).collect();
    let Some(spans) = spans.filter(|it| !it.is_empty()) else {
        return Preference::NotEnoughEvidence;
    };
    let near = |span: &&(f64, f64)| span.0 - spans[0].1 <= margin_us;
    let least = spans.iter().filter(near).map(|span| span.0).fold(f64::MAX, f64::min);
    let most = spans.iter().filter(near).map(|span| span.1).fold(f64::MIN, f64::max);
    let (first, cost) = costs[0];
    if spans.iter().filter(near).count() > 1 && most - least <= margin_us {
        Preference::NoDifference
    } else if costs[1..].iter().all(|(_, other)| cost.surely_less(other)) {
        Preference::Prefer(first)
    } else {
        Preference::NotEnoughEvidence
    }
}
