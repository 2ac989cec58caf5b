// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs read off a fitted model, for one load and statistic.

use super::{Cost, Costs, NoCost};
use crate::model::cpmd::{self, Asked, Method, Model, Statistic};
use crate::units::{Bytes, Nanos};
use crate::workload::Event;

/// Costs by a model, under one load and by one statistic.
#[derive(Debug, Clone)]
pub struct ModelCosts<'a> {
    /// The model.
    pub model: &'a Model,
    /// The background load.
    pub load: String,
    /// The statistic.
    pub statistic: Statistic,
    /// The preemption length; the longest measured where there is none.
    pub length: Option<Nanos>,
    /// Other fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

impl ModelCosts<'_> {
    fn asked(&self, event: Event, wss: Bytes) -> Asked {
        Asked {
            event,
            load: self.load.clone(),
            wss,
            length: self.length,
            statistic: self.statistic,
            // Off what was measured: a decision is not to rest on sizes that nobody has seen.
            method: Some(Method::Fitted),
            only: self.only.clone(),
        }
    }
}

impl Costs for ModelCosts<'_> {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let wss = Bytes::new((wss_kib * 1024.0).ceil() as u64);
        let known = self.model.predict(&self.asked(event, wss));
        let cpmd::Cost { estimate_us: us, low_us, high_us } =
            known.map_err(|why| NoCost(format!("{event}: {why}")))?.cost;
        Ok(Cost { us, low_us: low_us.unwrap_or(us), high_us: high_us.unwrap_or(us) })
    }

    fn happens(&self, event: Event) -> bool {
        let known: Vec<&Vec<Event>> =
            self.model.machines.values().filter_map(|it| it.events.as_ref()).collect();
        let all = known.len() == self.model.machines.len() && !known.is_empty();
        if all {
            known.into_iter().any(|events| events.contains(&event))
        } else {
            event != Event::SmtMigration || !self.measured(event).is_empty()
        }
    }

    fn measured(&self, event: Event) -> Vec<f64> {
        let series = self.model.measured(&self.asked(event, Bytes::new(0)));
        let sizes = series.map(cpmd::Series::sizes).unwrap_or_default();
        sizes.into_iter().map(|bytes| bytes as f64 / 1024.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cpmd::Fit;
    use crate::model::estimator::Estimator;
    use crate::model::example::sample;
    use crate::samples::Sample;

    /// Delays of 10 us at 64 KiB and of 40 us at 256 KiB, twice that after an L3-migration.
    fn model() -> Model {
        let mut fit = Fit::new(Estimator::Difference);
        for (event, by) in [(Event::Preemption, 1.0), (Event::L3Migration, 2.0)] {
            for (kib, us) in [(64, 10.0), (256, 40.0)] {
                let of = |k: u32| Sample {
                    event,
                    load: "idle".into(),
                    wss_bytes: kib << 10,
                    warm_ns: 1e3,
                    resumed_ns: 1e3 * (1.0 + by * us + f64::from(k % 3) / 1e3),
                    ..sample()
                };
                fit.take(&(0..30).map(of).collect::<Vec<_>>());
            }
        }
        fit.finish()
    }

    fn costs(model: &Model) -> ModelCosts<'_> {
        ModelCosts {
            model,
            load: "idle".to_owned(),
            statistic: Statistic::Median,
            length: None,
            only: Vec::new(),
        }
    }

    #[test]
    fn a_model_answers_at_its_sizes_and_between_them_and_not_beyond() {
        let model = model();
        let costs = costs(&model);
        let us = |wss| costs.cost(Event::Preemption, wss).unwrap().us;
        assert!((us(64.0) - 10.0).abs() < 0.01 && (us(256.0) - 40.0).abs() < 0.01);
        assert!((10.0..40.0).contains(&us(128.0)));
        let why = costs.cost(Event::Preemption, 257.0).unwrap_err().to_string();
        assert!(why.contains("preemption") && why.contains("beyond what was measured"), "{why}");
        assert_eq!(costs.sizes(&[Event::Preemption, Event::L3Migration]), [64.0, 256.0]);
    }

    #[test]
    fn what_cannot_happen_on_the_machine_costs_nothing_and_what_was_not_measured_has_no_cost() {
        let mut model = model();
        let all = [Event::Preemption, Event::SmtMigration, Event::L2Migration, Event::L3Migration];
        let why = costs(&model).largest(&all, 64.0).unwrap_err().to_string();
        assert!(why.contains("l2_migration"), "{why}");
        let known = Some(vec![Event::Preemption, Event::L3Migration]);
        let machine = model.curves[0].series.key.machine.clone();
        model.machines.entry(machine).or_default().events = known;
        let most = costs(&model).largest(&all, 64.0).unwrap();
        assert!((most.us - 20.0).abs() < 0.01 && most.low_us <= most.us && most.us <= most.high_us);
    }
}
