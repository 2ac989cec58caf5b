// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events that corehop caused in a program, which hold for the program's own working set.

use super::{Cost, EventCosts, NoCost};
use crate::program_costs::{ProgramCost, ProgramCostResults};
use corehop_plan::units::Nanos;
use corehop_plan::workload::Event;

/// The costs of events for one program, as a source of costs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramPrices(ProgramCostResults);

impl ProgramPrices {
    /// The name of the load of the measurement: whatever ran beside the program.
    pub const LOAD: &'static str = "as measured";
    /// The name of the statistic; costs are slopes, and a slope is a mean.
    pub const STATISTIC: &'static str = "mean";

    /// Returns the costs of a program, or `None` if no class of events has a cost.
    pub fn of(results: ProgramCostResults) -> Option<Self> {
        results.costs.iter().any(|it| it.cost.is_some()).then_some(Self(results))
    }

    /// Returns the results of the measurement from which the costs come.
    pub const fn results(&self) -> &ProgramCostResults {
        &self.0
    }

    /// Returns the costs after absences of `length`, or, if `length` is `None`, after the longest absences that corehop caused.
    pub const fn after(&self, length: Option<Nanos>) -> ProgramPricesAfter<'_> {
        ProgramPricesAfter { prices: self, length }
    }

    /// Returns the costs of an event, each with the length of the absence in microseconds (0 for migrations), in ascending order
    /// of the length. If preemptors of several sizes were measured at one length, the cost is the mean of their costs, and the
    /// interval covers all their intervals, because nobody knows the working sets of the neighbours in another run.
    pub fn of_event(&self, event: Event) -> Vec<(f64, Cost)> {
        let has_cost = |it: &&ProgramCost| it.event == event && it.cost.is_some();
        let length = |it: &ProgramCost| it.length_us.unwrap_or(0.0);
        let mut all: Vec<&ProgramCost> = self.0.costs.iter().filter(has_cost).collect();
        all.sort_by(|a, b| length(a).total_cmp(&length(b)));
        let alike = all.chunk_by(|a, b| length(a).total_cmp(&length(b)).is_eq());
        alike.map(|of| (length(of[0]), of_all(of))).collect()
    }
}

/// The costs of events for one program, after absences of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgramPricesAfter<'a> {
    prices: &'a ProgramPrices,
    length: Option<Nanos>,
}

impl EventCosts for ProgramPricesAfter<'_> {
    /// Returns the cost of a program's event, which is equal for all sizes. A cost whose interval includes zero has a lower end
    /// of zero. Between two measured lengths, the cost is interpolated linearly and its interval covers both intervals; beyond
    /// all lengths, the cost is that of the nearest length.
    fn cost(&self, event: Event, _: f64) -> Result<Cost, NoCost> {
        let all = self.prices.of_event(event);
        let longest = all.last().map_or(0.0, |&(length, _)| length);
        let us = self.length.map_or(longest, |it| it.get() as f64 / 1e3);
        let at = all.partition_point(|&(length, _)| length < us);
        let (below, above) = (at.checked_sub(1).and_then(|it| all.get(it)), all.get(at));
        let none = || NoCost(format!("{event}: none was caused in the program"));
        match (below, above) {
            (Some(low), Some(high)) if high.0 > us => Ok(between(*low, *high, us)),
            (_, Some(&(_, cost))) | (Some(&(_, cost)), None) => Ok(cost),
            (None, None) => Err(none()),
        }
    }

    fn happens(&self, event: Event) -> bool {
        event != Event::SmtMigration || !self.prices.of_event(event).is_empty()
    }

    /// Costs hold for every size, because they are measured with the program's own working set.
    fn measured(&self, event: Event) -> Vec<f64> {
        self.prices.of_event(event).first().map(|_| f64::INFINITY).into_iter().collect()
    }

    fn shortest_us(&self, event: Event) -> Option<f64> {
        self.prices.of_event(event).first().map(|&(length, _)| length).filter(|&it| it > 0.0)
    }

    fn is_of_one_set(&self) -> bool {
        true
    }
}

/// Returns the cost of a class, limited to zero or more.
fn known(it: &ProgramCost) -> Cost {
    let above = |us: f64| us.max(0.0);
    let cost = it.cost.map_or(Cost { us: 0.0, low_us: None, high_us: None }, |cost| Cost {
        us: cost.us,
        low_us: cost.interval.map(|it| it.low),
        high_us: cost.interval.map(|it| it.high),
    });
    Cost { us: above(cost.us), low_us: cost.low_us.map(above), high_us: cost.high_us.map(above) }
}

/// Returns the cost of classes that differ in their preemptors: the mean of the classes' costs, with an interval that covers the
/// intervals of all classes.
fn of_all(classes: &[&ProgramCost]) -> Cost {
    let costs: Vec<Cost> = classes.iter().map(|it| known(it)).collect();
    let us = costs.iter().map(|it| it.us).sum::<f64>() / costs.len() as f64;
    let held =
        costs.into_iter().reduce(holding).unwrap_or(Cost { us, low_us: None, high_us: None });
    Cost { us, ..held }
}

/// Returns the cost `a` with an interval that also covers the interval of `b`; an end is `None` if either cost lacks that end.
fn holding(a: Cost, b: Cost) -> Cost {
    Cost {
        us: a.us,
        low_us: a.low_us.zip(b.low_us).map(|(a, b)| a.min(b)),
        high_us: a.high_us.zip(b.high_us).map(|(a, b)| a.max(b)),
    }
}

/// Returns the cost of an absence of `us` microseconds, interpolated linearly between the costs at two lengths.
fn between((from, low): (f64, Cost), (to, high): (f64, Cost), us: f64) -> Cost {
    let part = (us - from) / (to - from);
    Cost { us: low.us + part * (high.us - low.us), ..holding(low, high) }
}

#[cfg(test)]
mod tests {
    use super::super::{CostSource, Selection};
    use super::*;
    use crate::ordered::Interval;
    use crate::program_costs::EventCost;

    fn caused(event: Event, length_us: Option<f64>, [us, low, high]: [f64; 3]) -> ProgramCost {
        let interval = Some(Interval { low, high, level: 0.95 });
        ProgramCost {
            event,
            length_us,
            polluter: None,
            rounds: 40,
            invalid: <_>::default(),
            events: 10,
            tried: 10,
            cost: Some(EventCost { us, interval }),
            by_dose: Vec::new(),
            bend: None,
            floor: None,
            effect_percent: None,
            exchange_ns: None,
        }
    }

    fn of(costs: Vec<ProgramCost>) -> Option<ProgramPrices> {
        ProgramPrices::of(ProgramCostResults { costs, ..ProgramCostResults::default() })
    }

    fn prices(us: f64, low: f64, high: f64) -> Option<ProgramPrices> {
        of(vec![caused(Event::L3Migration, None, [us, low, high])])
    }

    #[test]
    fn the_cost_is_that_of_the_program_at_any_size_and_of_caused_events_alone() {
        let prices = prices(27.0, 24.0, 30.0).unwrap();
        let after = prices.after(None);
        for kib in [0.0, 64.0, 1e9] {
            let cost = after.cost(Event::L3Migration, kib).unwrap();
            assert_eq!((cost.us, cost.low_us, cost.high_us), (27.0, Some(24.0), Some(30.0)));
        }
        let why = after.cost(Event::Preemption, 64.0).unwrap_err().to_string();
        assert!(why.contains("preemption: none was caused"), "{why}");
        assert!(after.measured(Event::Preemption).is_empty());
        let long = prices.after(Some(Nanos::from_millis(40)));
        assert_eq!(long.cost(Event::L3Migration, 1.0), after.cost(Event::L3Migration, 1.0));
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let prices = prices(-3.0, -9.0, 4.0).unwrap();
        let cost = prices.after(None).cost(Event::L3Migration, 1.0).unwrap();
        assert_eq!((cost.us, cost.low_us, cost.high_us), (0.0, Some(0.0), Some(4.0)));
        assert!(ProgramPrices::of(ProgramCostResults::default()).is_none());
    }

    #[test]
    fn a_preemption_costs_by_its_length() {
        let classes = [(4_000.0, [50.0, 40.0, 60.0]), (100.0, [11.0, 10.0, 12.0])];
        let of_length = |(us, cost)| caused(Event::Preemption, Some(us), cost);
        let prices = of(classes.map(of_length).to_vec()).unwrap();
        let at = |us: Option<u64>| {
            let after = prices.after(us.map(Nanos::from_micros));
            after.cost(Event::Preemption, 1.0).unwrap()
        };
        let interval = |it: Cost| (it.us, it.low_us, it.high_us);
        for length in [Some(20), Some(100)] {
            assert_eq!(interval(at(length)), (11.0, Some(10.0), Some(12.0)));
        }
        for length in [None, Some(4_000), Some(9_000)] {
            assert_eq!(interval(at(length)), (50.0, Some(40.0), Some(60.0)));
        }
        assert_eq!(interval(at(Some(2_050))), (30.5, Some(10.0), Some(60.0)));
        assert_eq!(prices.after(None).shortest_us(Event::Preemption), Some(100.0));
    }

    #[test]
    fn preemptors_of_several_sizes_have_their_mean_in_an_interval_that_holds_all() {
        let of_size = |cost| caused(Event::Preemption, Some(1_000.0), cost);
        let mut classes = vec![of_size([10.0, 8.0, 12.0]), of_size([50.0, 40.0, 60.0])];
        let cost = |classes: &[ProgramCost]| {
            of(classes.to_vec()).unwrap().after(None).cost(Event::Preemption, 1.0).unwrap()
        };
        let it = cost(&classes);
        assert_eq!((it.us, it.low_us, it.high_us), (30.0, Some(8.0), Some(60.0)));
        classes[1].cost = Some(EventCost { us: 50.0, interval: None });
        let it = cost(&classes);
        assert_eq!((it.us, it.low_us, it.high_us), (30.0, None, None));
    }

    #[test]
    fn a_verdict_on_deadlines_takes_a_mean_only_if_it_is_named() {
        let source = CostSource::Program(prices(27.0, 24.0, 30.0).unwrap());
        let why = source.for_a_verdict(&Selection::default()).unwrap_err().to_string();
        assert!(why.contains("--statistic mean"), "{why}");
        let mean = Selection { statistic: Some("mean".to_owned()), ..Selection::default() };
        let selected = source.for_a_verdict(&mean).unwrap();
        assert_eq!(selected.costs.cost(Event::L3Migration, 1.0).map(|it| it.us), Ok(27.0));
        assert_eq!(source.selected(&Selection::default()).unwrap().statistic, "mean");
        let most = Selection { statistic: Some("max".to_owned()), ..Selection::default() };
        assert!(source.selected(&most).is_err());
        let long = Selection { length: Some(Nanos::new(1)), ..mean.clone() };
        assert!(source.selected(&long).is_ok());
        let only = Selection { only: vec![("page".to_owned(), "4k".to_owned())], ..mean };
        assert!(source.selected(&only).unwrap_err().to_string().contains("--only"));
    }
}
