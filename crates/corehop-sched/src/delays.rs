// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delay of each task from measured costs: the cost of the most expensive event that the scheduler allows, for
//! the task's working set.

use super::verdict::CONDITIONAL;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{TaskError, TaskSet, Time};
use corehop_stats::costs::{Basis, EventCosts, Highest, among, least};

/// The delay of each task in ticks, and how well the delays are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Delays {
    pub(super) each: Vec<Time>,
    /// The reason why the delays bound nothing, as a clause after a comma.
    pub(super) doubt: Option<String>,
    /// The assumptions behind the delays.
    pub(super) note: Option<String>,
    /// The statistic that was charged as the delay, with its number of samples.
    pub(super) by: Option<String>,
}

/// The cost of the most expensive of `events` for each task's working set. The cost is the highest quantile for which
/// the samples give every task an upper end, or else the largest observed value.
pub(super) fn by_the_highest(
    set: &TaskSet,
    events: &[Event],
    costs: &dyn EventCosts,
    largest_bounds: bool,
) -> Result<Delays, TaskError> {
    let sizes: Vec<f64> = set.wss_kib().iter().flatten().map(|&wss| wss as f64).collect();
    if let Some(Highest { costs: by_it, by, beyond }) = Highest::of(costs, events, &sizes) {
        let mut found = by_working_set(set, events, by_it, largest_bounds)?;
        let highest = if costs.quantiles().len() > 1 {
            ", the highest quantile that has one here"
        } else {
            ""
        };
        let note = format!("A delay is the upper end of {by}{highest}; an event can cost more.");
        if let Some(share) = beyond {
            let remedy = match costs.quantiles().len() {
                _ if costs.is_of_one_set() => {
                    "costs of a program are means: `measure synthetic` measures quantiles"
                }
                1 => "omit --statistic to charge the highest quantile that the samples give",
                _ => "more samples give a higher quantile",
            };
            let what = format!("no event costs more than {by} ({share}); {remedy}");
            found.doubt = Some(format!("{CONDITIONAL}{what}"));
            return Ok(Delays { note: Some(note), ..found });
        }
        return Ok(Delays { note: Some(note), by: Some(by), ..found });
    }
    by_working_set(set, events, costs, largest_bounds)
}

/// The cost of the most expensive of `events` for each task's working set: the upper end of the interval if there is
/// an interval.
fn by_working_set(
    set: &TaskSet,
    events: &[Event],
    costs: &dyn EventCosts,
    largest_bounds: bool,
) -> Result<Delays, TaskError> {
    let mut found = Delays::default();
    let mut seen = Vec::new();
    for (at, wss) in set.wss_kib().iter().enumerate() {
        let wrong = |value: String, expected: String| {
            let name = set.names()[at].clone();
            TaskError { task: Some(at), name, field: "wss_kib", value, expected }
        };
        let Some(wss) = *wss else {
            let what = "the size of the working set, from which the task's delay follows";
            return Err(wrong("absent".to_owned(), what.to_owned()));
        };
        let cost = match costs.largest(events, wss as f64) {
            Ok(cost) => cost,
            Err(why) if events.iter().any(|&event| costs.too_few(event, wss as f64)) => {
                found.doubt.get_or_insert(format!("the test accepts the set, but {why}"));
                found.each.push(Time::ZERO);
                continue;
            }
            Err(why) => {
                let expected = format!("a size whose cost is known ({why})");
                return Err(wrong(wss.to_string(), expected));
            }
        };
        match (cost.low_us, cost.high_us) {
            (_, Some(_)) => {}
            (Some(_), None) => seen.push(among(events, wss as f64, costs)),
            (None, None) => {
                let more = "measure more replicates, or charge the largest observed cost with --statistic max";
                let what = format!(
                    "the test accepts the set, but the cost for a working set of {wss} KiB (task {at}) has no interval: {more}"
                );
                found.doubt.get_or_insert(what);
            }
        }
        if cost.high_us.is_some_and(|high| high < 0.0) {
            let what = "a size whose interval does not end below zero";
            return Err(wrong(wss.to_string(), what.to_owned()));
        }
        found.each.push(set.tick().up_from_us(cost.high_us.unwrap_or(cost.us)));
    }
    let seen = seen.into_iter().reduce(least);
    if let (Some(seen), false) = (seen, largest_bounds) {
        found.doubt.get_or_insert(if_no_more_than(seen));
    }
    found.note = seen.map(largest_seen);
    Ok(found)
}

/// The condition under which a yes holds that relies on the largest observed delay.
fn if_no_more_than(among: Option<Basis>) -> String {
    let among = among.map_or_else(|| "samples".to_owned(), |it| it.samples.to_string());
    format!(
        "{CONDITIONAL}no event costs more than the largest of {among} seen, which nothing bounds from above; \
         --accept-largest treats the largest sample as a bound, and more samples give a quantile with an upper end"
    )
}

/// Names the statistic `max`, with its number of samples.
pub(super) fn largest_seen(among: Option<Basis>) -> String {
    const HEAD: &str = "A charged delay is the largest measured delay";
    let Some(Basis { samples, replicates, classes }) = among else {
        return format!("{HEAD}, and larger delays are possible.");
    };
    let replicates =
        replicates.map(|count| format!(" in at least {count} replicates")).unwrap_or_default();
    let classes = match classes {
        1 => "one class".to_owned(),
        several => format!("{several} classes"),
    };
    format!(
        "{HEAD} among at least {samples} samples of each size and event{replicates}, in {classes}; larger delays are \
         possible."
    )
}
