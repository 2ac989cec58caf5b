// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of one load for a verdict: the highest quantile for which the samples give an upper end, or else the
//! largest observed cost.
//!
//! The largest of n samples has no upper bound, so a verdict that uses it is conditional.

use super::{Basis, Cost, CostCurves, CostTable, EventCosts, NoCost};
use corehop_plan::workload::Event;

/// The costs for several statistics of the same samples.
pub(super) struct RankedCosts<'a> {
    /// The name and the costs of each quantile, highest first.
    pub(super) quantiles: Vec<(String, Box<dyn EventCosts + Send + 'a>)>,
    /// The costs for the largest observed values.
    pub(super) largest: Box<dyn EventCosts + Send + 'a>,
}

impl EventCosts for RankedCosts<'_> {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        self.largest.cost(event, wss_kib)
    }

    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        self.largest.by_preemptor(wss_kib)
    }

    fn quantiles(&self) -> Vec<(&str, &dyn EventCosts)> {
        let mut all: Vec<(&str, &dyn EventCosts)> = Vec::new();
        for (name, costs) in &self.quantiles {
            all.push((name, costs.as_ref()));
        }
        all
    }

    fn too_few(&self, event: Event, wss_kib: f64) -> bool {
        self.largest.too_few(event, wss_kib)
    }

    fn basis(&self, event: Event, wss_kib: f64) -> Option<Basis> {
        self.largest.basis(event, wss_kib)
    }

    fn happens(&self, event: Event) -> bool {
        self.largest.happens(event)
    }

    fn shortest_us(&self, event: Event) -> Option<f64> {
        self.largest.shortest_us(event)
    }

    fn measured(&self, event: Event) -> Vec<f64> {
        self.largest.measured(event)
    }

    fn is_of_one_set(&self) -> bool {
        self.largest.is_of_one_set()
    }
}

/// The highest quantile that bounds costs, according to the samples.
#[expect(missing_debug_implementations, reason = "costs need not be printed")]
pub struct Highest<'a> {
    /// The costs for the quantile that the field `by` names.
    pub costs: &'a dyn EventCosts,
    /// The name of the quantile with the number of samples, such as "the p90 of at least 200 samples in 20
    /// replicates".
    pub by: String,
    /// The share of events that cost more, such as "half of them do", if the share is too large for a bound.
    pub beyond: Option<String>,
}

/// A quantile below this value is exceeded by too many events to be a bound.
const UPPER: f64 = 0.9;

/// Returns the share of events that cost more than a statistic, if the share is too large for a bound.
fn beyond(statistic: &str) -> Option<String> {
    let share = statistic.strip_prefix('p').and_then(|digits| format!("0.{digits}").parse().ok());
    match statistic {
        "mean" => Some("some of them do".to_owned()),
        "min" => Some("nearly all of them do".to_owned()),
        "median" | "p50" => Some("half of them do".to_owned()),
        _ => share
            .filter(|share: &f64| *share < UPPER)
            .map(|share| format!("{:.0} % of them do", 100.0 * (1.0 - share))),
    }
}

/// Returns whether a statistic says nothing about the largest cost, so that a verdict can use it at most with a
/// condition.
pub(super) fn is_named(statistic: &str) -> bool {
    beyond(statistic).is_some() || statistic.starts_with('p')
}

impl<'a> Highest<'a> {
    /// Returns the highest quantile for which the samples give an upper end at all sizes in KiB, for the most
    /// expensive of `events`. Every answer about deadlines uses this statistic if the user names none.
    pub fn of(costs: &'a dyn EventCosts, events: &[Event], sizes: &[f64]) -> Option<Self> {
        let bounds = |it: &dyn EventCosts, size: f64| {
            it.largest(events, size).is_ok_and(|cost| cost.high_us.is_some_and(|high| high >= 0.0))
        };
        let mut ranked = costs.quantiles().into_iter();
        let (name, costs) = ranked.find(|(_, it)| sizes.iter().all(|&size| bounds(*it, size)))?;
        let basis = sizes.iter().map(|&size| among(events, size, costs)).reduce(least).flatten();
        let samples = basis.map_or_else(|| "samples".to_owned(), counted);
        let beyond = beyond(name);
        let name = if name == "p50" { "median" } else { name };
        Some(Self { costs, by: format!("the {name} of {samples}"), beyond })
    }
}

/// Returns the smallest number of samples among which the cost of the most expensive of `events` was found.
pub fn among(events: &[Event], wss_kib: f64, costs: &dyn EventCosts) -> Option<Basis> {
    let there = events.iter().filter(|&&event| costs.happens(event));
    there.map(|&event| costs.basis(event, wss_kib)).reduce(least).flatten()
}

/// Returns the smaller value of each field of two bases, or `None` if either is unknown.
pub fn least(a: Option<Basis>, b: Option<Basis>) -> Option<Basis> {
    a.zip(b).map(|(a, b)| a.least(b))
}

/// Returns the number of samples as text, such as `at least 200 samples in 20 replicates`.
fn counted(basis: Basis) -> String {
    let replicates = basis.replicates.map(|count| format!(" in {count} replicates"));
    format!("at least {} samples{}", basis.samples, replicates.unwrap_or_default())
}

/// The costs for a statistic of a table that states its numbers of samples: each cost is an estimate, and has an
/// upper end only if the table states one.
pub(super) struct SampledCosts<'a> {
    costs: &'a CostCurves,
    upper: Option<&'a CostCurves>,
    counts: &'a CostCurves,
    largest: bool,
}

impl<'a> SampledCosts<'a> {
    /// Returns the costs of a load for a statistic, or `None` if the table lacks the statistic or the numbers of
    /// samples.
    pub(super) fn of(table: &'a CostTable, load: &str, statistic: &str) -> Option<Self> {
        let (costs, counts) = (table.select(load, statistic)?, table.select(load, "n")?);
        let upper = table.select(load, &format!("{statistic}_high"));
        Some(Self { costs, upper, counts, largest: statistic == "max" })
    }

    /// Returns the upper end of a cost; between two measured sizes it exists only if both sizes have an upper end.
    fn high(&self, event: Event, wss_kib: f64) -> Option<f64> {
        let upper = self.upper?;
        let known = upper.measured(event);
        let around = around(&self.costs.measured(event), wss_kib);
        let carried = around.iter().all(|size| known.contains(size));
        carried.then(|| upper.cost(event, wss_kib).ok()).flatten().map(|cost| cost.us)
    }
}

/// Returns the measured sizes from which the cost of a size is computed: the size itself, or the two neighbouring
/// sizes.
fn around(measured: &[f64], wss_kib: f64) -> Vec<f64> {
    let at = measured.partition_point(|&size| size < wss_kib);
    let exact = measured.get(at).is_some_and(|&size| size <= wss_kib);
    let from = if exact { at } else { at.saturating_sub(1) };
    measured.get(from..=at).unwrap_or_default().to_vec()
}

impl EventCosts for SampledCosts<'_> {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let us = self.costs.cost(event, wss_kib)?.us;
        let low_us = self.largest.then_some(us);
        Ok(Cost { us, low_us, high_us: self.high(event, wss_kib) })
    }

    fn basis(&self, event: Event, wss_kib: f64) -> Option<Basis> {
        let counts = around(&self.counts.measured(event), wss_kib);
        let counts = counts.into_iter().filter_map(|size| self.counts.cost(event, size).ok());
        let samples = counts.map(|count| count.us as usize).min()?;
        Some(Basis { samples, replicates: None, classes: 1 })
    }

    fn happens(&self, event: Event) -> bool {
        self.costs.happens(event)
    }

    fn measured(&self, event: Event) -> Vec<f64> {
        self.costs.measured(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{CostSource, Selection};

    const SAMPLED: &str = "load,event,statistic,wss_kib,cost_us\n\
        idle,preemption,max,64,90\nidle,preemption,max,256,400\n\
        idle,preemption,n,64,200\nidle,preemption,n,256,60\n\
        idle,preemption,p90,64,40\nidle,preemption,p90_high,64,50\nidle,preemption,p90,256,160\n\
        idle,preemption,p50,64,20\nidle,preemption,p50_high,64,25\n\
        idle,preemption,p50,256,80\nidle,preemption,p50_high,256,85\n";

    fn source(text: &str) -> CostSource {
        CostSource::Table(CostTable::parse(text).unwrap())
    }

    fn costs<'a>(
        source: &'a CostSource,
        statistic: Option<&str>,
    ) -> Box<dyn EventCosts + Send + 'a> {
        let statistic = statistic.map(ToOwned::to_owned);
        let wanted = Selection { load: Some("idle".to_owned()), statistic, ..Selection::default() };
        source.for_a_verdict(&wanted).unwrap().costs
    }

    #[test]
    fn a_table_of_samples_has_upper_ends_only_where_its_samples_give_them() {
        let source = source(SAMPLED);
        let ranked = costs(&source, None);
        let high = |wss: f64| -> Vec<(String, Option<f64>)> {
            let of = |(name, it): (&str, &dyn EventCosts)| {
                (name.to_owned(), it.cost(Event::Preemption, wss).unwrap().high_us)
            };
            ranked.quantiles().into_iter().map(of).collect()
        };
        let named = |p90, p50| vec![("p90".to_owned(), p90), ("p50".to_owned(), Some(p50))];
        assert_eq!(high(64.0), named(Some(50.0), 25.0));
        assert_eq!(high(256.0), named(None, 85.0));
        assert_eq!(high(160.0), named(None, 55.0));
        let largest = ranked.cost(Event::Preemption, 256.0).unwrap();
        assert_eq!((largest.us, largest.high_us), (400.0, None));
        assert_eq!(ranked.basis(Event::Preemption, 160.0).unwrap().samples, 60);
        assert_eq!(
            costs(&source, Some("p90")).cost(Event::Preemption, 256.0).unwrap().high_us,
            None
        );
    }

    #[test]
    fn the_highest_quantile_is_the_one_that_has_an_upper_end_at_all_sizes_asked_for() {
        let source = source(SAMPLED);
        let ranked = costs(&source, None);
        let by = |sizes: &[f64]| {
            Highest::of(ranked.as_ref(), &[Event::Preemption], sizes).map(|it| it.by)
        };
        assert_eq!(by(&[64.0]).as_deref(), Some("the p90 of at least 200 samples"));
        assert_eq!(by(&[64.0, 256.0]).as_deref(), Some("the median of at least 60 samples"));
        assert_eq!(by(&[64.0, 512.0]), None);
        // A statistic that is named is the only one: at 256 KiB the 90 % quantile has no upper end.
        let beyond = |name, sizes: &[f64]| {
            let named = costs(&source, Some(name));
            Highest::of(named.as_ref(), &[Event::Preemption], sizes).map(|it| (it.by, it.beyond))
        };
        let p90 = "the p90 of at least 200 samples".to_owned();
        assert_eq!(beyond("p90", &[64.0]), Some((p90, None)));
        assert_eq!(beyond("p90", &[64.0, 256.0]), None);
        let median = "the median of at least 200 samples".to_owned();
        assert_eq!(beyond("p50", &[64.0]), Some((median, Some("half of them do".to_owned()))));
    }

    #[test]
    fn a_statistic_that_many_events_exceed_is_no_bound() {
        let shares = ["p50", "median", "mean", "p75", "p90", "p99", "p999", "max"].map(beyond);
        let half = Some("half of them do".to_owned());
        let expected = [
            half.clone(),
            half,
            Some("some of them do".to_owned()),
            Some("25 % of them do".to_owned()),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(shares, expected);
        assert!(is_named("p99") && is_named("mean") && !is_named("max"));
    }

    #[test]
    fn a_table_without_numbers_of_samples_states_bounds() {
        let stated: Vec<&str> = SAMPLED.lines().filter(|line| !line.contains(",n,")).collect();
        let source = source(&stated.join("\n"));
        let cost = costs(&source, None).cost(Event::Preemption, 256.0).unwrap();
        assert_eq!(cost.high_us, Some(400.0));
        assert!(costs(&source, None).quantiles().is_empty());
    }
}
