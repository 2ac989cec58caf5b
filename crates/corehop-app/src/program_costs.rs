// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the event costs of a program with those of synthetic jobs on this host, for orientation.

use corehop_plan::shown;
use corehop_plan::units::{Bytes, Nanos};
use corehop_stats::costs::{CostSource, EquivalentSet, HostCosts, Selection};
use corehop_stats::program_costs::{ProgramCost, ProgramCostResults};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::costs::IDLE;
use crate::host_costs;

/// Adds to an answer the working set sizes at which events cost synthetic jobs as much as the program. The comparison
/// uses the costs stored for this host, or says why there are none.
pub fn orient(answer: &mut Answer, results: &ProgramCostResults) {
    let seen: Vec<&ProgramCost> = results
        .costs
        .iter()
        .filter(|it| it.cost.is_some_and(|cost| cost.us > 0.0 && cost.is_seen()))
        .collect();
    if seen.is_empty() {
        return;
    }
    let (lines, sets): (Vec<String>, Value) = match host_costs::kept() {
        Ok(Some((kept, _))) => sets(&seen, kept),
        Ok(None) => (
            vec![unknown(&format!("no costs of this host are stored; {}", host_costs::REMEDY))],
            Value::Null,
        ),
        Err(why) => (vec![unknown(&why.sentence())], Value::Null),
    };
    for line in lines {
        answer.text.push_str(&line);
        answer.text.push('\n');
    }
    answer.json["equivalent_sets"] = sets;
}

fn unknown(why: &str) -> String {
    format!("The equivalent working set is unknown: {why}.")
}

fn sets(costs: &[&ProgramCost], kept: HostCosts) -> (Vec<String>, Value) {
    let (date, source) = (shown::line(&kept.date), CostSource::Model(kept.model));
    let found = costs.iter().filter_map(|it| Some((*it, set(it, &source)?)));
    let found: Vec<(&ProgramCost, EquivalentSet)> = found.collect();
    let line = |(it, set): &(&ProgramCost, EquivalentSet)| {
        format!(
            "{}: the program pays as much as a synthetic job {} (costs of this host, {date}).",
            it.event,
            walks(*set)
        )
    };
    let told = |(it, set): &(&ProgramCost, EquivalentSet)| json!({"event": it.event, "length_us": it.length_us, "wss": set});
    (found.iter().map(line).collect(), found.iter().map(told).collect())
}

/// The equivalent working set of one class; `None` if the stored costs lack its event.
fn set(it: &ProgramCost, source: &CostSource) -> Option<EquivalentSet> {
    let length = it.length_us.map(|us| Nanos::new((us * 1e3) as u64));
    let wanted = Selection {
        load: Some(IDLE.to_owned()),
        statistic: Some("mean".to_owned()),
        length,
        ..Selection::default()
    };
    let costs = source.selected(&wanted).ok()?.costs;
    EquivalentSet::of(costs.as_ref(), it.event, it.cost?.us)
}

fn walks(set: EquivalentSet) -> String {
    let size = |kib: f64| corehop_report::label::size(Bytes::new((kib * 1024.0) as u64));
    match set {
        EquivalentSet::About(kib) => format!("that walks some {}", size(kib.round())),
        EquivalentSet::AtMost(kib) => format!("that walks at most {}", size(kib)),
        EquivalentSet::AtLeast(kib) => format!("that walks {} or more", size(kib)),
    }
}
