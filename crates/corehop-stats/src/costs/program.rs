// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of events that were caused in a program: those of its own working set, whatever its size.

use super::{Cost, EventCosts, NoCost};
use crate::program_costs::{ProgramCost, ProgramCostResults};
use corehop_plan::workload::Event;

/// The costs of events for one program, as a source of costs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramPrices(ProgramCostResults);

impl ProgramPrices {
    /// The load that they were measured under: whatever ran beside the program.
    pub const LOAD: &'static str = "as measured";
    /// The statistic: a slope is a mean.
    pub const STATISTIC: &'static str = "mean";

    /// None where no class has a cost.
    pub fn of(results: ProgramCostResults) -> Option<Self> {
        results.costs.iter().any(|it| it.cost.is_some()).then_some(Self(results))
    }

    fn of_event(&self, event: Event) -> Option<&ProgramCost> {
        self.0.costs.iter().find(|it| it.event == event && it.cost.is_some())
    }
}

impl EventCosts for &ProgramPrices {
    /// The same for all sizes. What is not above zero within its interval costs at least nothing.
    fn cost(&self, event: Event, _: f64) -> Result<Cost, NoCost> {
        let cost = self.of_event(event).and_then(|it| it.cost);
        let cost =
            cost.ok_or_else(|| NoCost(format!("{event}: none was caused in the program")))?;
        let above = |us: f64| us.max(0.0);
        let [low_us, high_us] =
            [cost.interval.map(|it| above(it.low)), cost.interval.map(|it| above(it.high))];
        Ok(Cost { us: above(cost.us), low_us, high_us })
    }

    fn happens(&self, event: Event) -> bool {
        event != Event::SmtMigration || self.of_event(event).is_some()
    }

    /// Every size is that of the program.
    fn measured(&self, event: Event) -> Vec<f64> {
        self.of_event(event).map(|_| f64::INFINITY).into_iter().collect()
    }

    fn shortest_us(&self, event: Event) -> Option<f64> {
        self.of_event(event)?.length_us
    }

    fn is_of_one_set(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CostSource, Selection};
    use super::*;
    use crate::ordered::Interval;
    use crate::program_costs::EventCost;

    fn prices(us: f64, low: f64, high: f64) -> Option<ProgramPrices> {
        let interval = Some(Interval { low, high, level: 0.95 });
        let cost = ProgramCost {
            event: Event::L3Migration,
            length_us: None,
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
        };
        let costs = vec![cost];
        ProgramPrices::of(ProgramCostResults { costs, ..ProgramCostResults::default() })
    }

    #[test]
    fn the_cost_is_that_of_the_program_at_any_size_and_of_caused_events_alone() {
        let prices = prices(27.0, 24.0, 30.0).unwrap();
        for kib in [0.0, 64.0, 1e9] {
            let cost = (&prices).cost(Event::L3Migration, kib).unwrap();
            assert_eq!((cost.us, cost.low_us, cost.high_us), (27.0, Some(24.0), Some(30.0)));
        }
        let why = (&prices).cost(Event::Preemption, 64.0).unwrap_err().to_string();
        assert!(why.contains("preemption: none was caused"), "{why}");
        assert!((&prices).measured(Event::Preemption).is_empty());
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let prices = prices(-3.0, -9.0, 4.0).unwrap();
        let cost = (&prices).cost(Event::L3Migration, 1.0).unwrap();
        assert_eq!((cost.us, cost.low_us, cost.high_us), (0.0, Some(0.0), Some(4.0)));
        assert!(ProgramPrices::of(ProgramCostResults::default()).is_none());
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
        let long = Selection { length: Some(corehop_plan::units::Nanos::new(1)), ..mean };
        assert!(source.selected(&long).unwrap_err().to_string().contains("--length"));
    }
}
