// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs from a fitted model, for one load and one statistic.

use super::{Basis, Cost, EventCosts, NoCost};
use crate::cpmd::{self, DelayModel, DelayQuery, DelaySeries, Method, NoAnswer, Statistic};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;

/// The costs of a model under one load, for one statistic.
#[derive(Debug, Clone)]
pub struct ModelCosts<'a> {
    model: &'a DelayModel,
    /// The question to the model, without its event and size.
    asked: DelayQuery,
    /// The measured series of each event, found once because costs are requested often.
    series: Vec<(Event, Result<&'a DelaySeries, NoAnswer>)>,
    /// The events that can happen on the machines, if known for all machines.
    events: Option<Vec<Event>>,
}

impl<'a> ModelCosts<'a> {
    /// Returns the costs of a model after absences of `length`; if `length` is `None`, of the longest
    /// measured length. The argument `only` states other fields of the series, as names and values.
    pub fn new(
        model: &'a DelayModel,
        load: &str,
        statistic: Statistic,
        length: Option<Nanos>,
        only: &[(String, String)],
    ) -> Self {
        let asked = DelayQuery {
            event: Event::Preemption,
            load: load.to_owned(),
            wss: Bytes::new(0),
            length,
            statistic,
            // Off the measured range: a decision is not to rest on sizes that were never measured.
            method: Some(Method::Fitted),
            only: only.to_vec(),
        };
        let of = |&event: &Event| (event, model.measured(&DelayQuery { event, ..asked.clone() }));
        let series = Event::RESUMING.iter().map(of).collect();
        let known = model.machines.values().map(|machine| machine.events.clone());
        let known: Option<Vec<Vec<Event>>> = known.collect();
        let events = known.map(|all| all.concat()).filter(|all| !all.is_empty());
        Self { model, asked, series, events }
    }

    fn series(&self, event: Event) -> Result<&'a DelaySeries, NoAnswer> {
        let found = self.series.iter().find(|(known, _)| *known == event);
        match found {
            Some((_, series)) => series.clone(),
            None => self.model.measured(&DelayQuery { event, ..self.asked.clone() }),
        }
    }
}

impl EventCosts for ModelCosts<'_> {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let wss = Bytes::new((wss_kib * 1024.0).ceil() as u64);
        let asked = DelayQuery { event, wss, ..self.asked.clone() };
        let read = self.series(event).and_then(|series| self.model.reading(series, &asked));
        sound(event, read.map_err(|why| NoCost(format!("{event}: {why}")))?.cost)
    }

    fn too_few(&self, event: Event, wss_kib: f64) -> bool {
        let wss = Bytes::new((wss_kib * 1024.0).ceil() as u64);
        let asked = DelayQuery { event, wss, ..self.asked.clone() };
        let read = self.series(event).and_then(|series| self.model.reading(series, &asked));
        matches!(read, Err(NoAnswer::TooFew { .. }))
    }

    fn basis(&self, event: Event, wss_kib: f64) -> Option<Basis> {
        let wss = Bytes::new((wss_kib * 1024.0).ceil() as u64);
        let found = self.model.predict(&DelayQuery { event, wss, ..self.asked.clone() }).ok()?;
        Some(Basis { samples: found.n?, replicates: found.replicates, classes: found.classes })
    }

    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let wss = Bytes::new((wss_kib * 1024.0).ceil() as u64);
        let asked = DelayQuery { wss, ..self.asked.clone() };
        let no = |why: NoAnswer| NoCost(format!("preemption: {why}"));
        let all = self.model.by_preemptor(&asked).map_err(no)?;
        let cost = |(bytes, series): (u64, &DelaySeries)| {
            let cost = self.model.reading(series, &asked).map_err(no)?.cost;
            Ok((bytes as f64 / 1024.0, sound(Event::Preemption, cost)?))
        };
        all.into_iter().map(cost).collect()
    }

    fn happens(&self, event: Event) -> bool {
        match &self.events {
            Some(events) => events.contains(&event),
            None => event != Event::SmtMigration || self.series(event).is_ok(),
        }
    }

    fn shortest_us(&self, event: Event) -> Option<f64> {
        let points = &self.series(event).ok()?.points;
        points.iter().map(|point| point.least_length_us).min_by(f64::total_cmp)
    }

    fn measured(&self, event: Event) -> Vec<f64> {
        let sizes = self.series(event).map(DelaySeries::sizes).unwrap_or_default();
        sizes.into_iter().map(|bytes| bytes as f64 / 1024.0).collect()
    }
}

/// Returns a cost that a decision can charge. A cost whose interval is at or below zero, or has its ends in
/// the wrong order, bounds no delay and is an error.
fn sound(event: Event, cost: cpmd::CostEstimate) -> Result<Cost, NoCost> {
    let cpmd::CostEstimate { estimate_us: us, low_us, high_us } = cost;
    let wrong = match (low_us, high_us) {
        (Some(low), Some(high)) if low > high => Some("its ends are in the wrong order"),
        (_, Some(high)) if high <= 0.0 => Some("a delay of zero or less is not a bound"),
        _ => None,
    };
    let Some(why) = wrong else { return Ok(Cost { us, low_us, high_us }) };
    let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), |us| format!("{us:.3}"));
    let interval = format!("[{}, {}] us", end(low_us), end(high_us));
    let more =
        "measure more replicates, use another --statistic, or charge nothing with --delay 0us";
    Err(NoCost(format!("the interval of the cost of {event} is {interval}, but {why}: {more}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpmd::DelayFitter;
    use crate::estimator::Estimator;
    use crate::example::sample;
    use corehop_plan::samples::Sample;

    /// Returns a model with delays of 10 us at 64 KiB and of 40 us at 256 KiB, and with twice these delays
    /// after an L3 migration.
    fn model() -> DelayModel {
        let mut fit = DelayFitter::new(Estimator::Difference);
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

    fn costs(model: &DelayModel) -> ModelCosts<'_> {
        ModelCosts::new(model, "idle", Statistic::Median, None, &[])
    }

    #[test]
    fn a_model_answers_at_its_sizes_and_between_them_and_not_beyond() {
        let model = model();
        let costs = costs(&model);
        let us = |wss| costs.cost(Event::Preemption, wss).unwrap().us;
        assert!((us(64.0) - 10.0).abs() < 0.01 && (us(256.0) - 40.0).abs() < 0.01);
        assert!((10.0..40.0).contains(&us(128.0)));
        let why = costs.cost(Event::Preemption, 257.0).unwrap_err().to_string();
        assert!(why.contains("preemption") && why.contains("beyond the measured sizes"), "{why}");
        assert_eq!(costs.sizes(&[Event::Preemption, Event::L3Migration]), [64.0, 256.0]);
    }

    #[test]
    fn an_interval_that_is_not_above_zero_or_upside_down_is_refused() {
        let of = |low, high| {
            let cost =
                cpmd::CostEstimate { estimate_us: -1.0, low_us: Some(low), high_us: Some(high) };
            sound(Event::Preemption, cost)
        };
        for (low, high, said) in
            [(-3.0, -1.0, "zero or less"), (0.0, 0.0, "zero or less"), (2.0, 1.0, "wrong order")]
        {
            let why = of(low, high).unwrap_err().to_string();
            assert!(why.contains(said) && why.contains("preemption"), "{why}");
            assert!(why.contains(&format!("[{low:.3}, {high:.3}] us")), "{why}");
        }
        assert_eq!(of(-1.0, 0.1).unwrap().high_us, Some(0.1));
        // Of a largest cost, and without an interval, nothing is known to be wrong.
        let largest = cpmd::CostEstimate { estimate_us: 0.0, low_us: Some(0.0), high_us: None };
        assert!(sound(Event::Preemption, largest).is_ok());
    }

    #[test]
    fn a_largest_cost_says_what_it_was_found_among() {
        let model = model();
        let costs = ModelCosts::new(&model, "idle", Statistic::Max, None, &[]);
        let basis = costs.basis(Event::Preemption, 64.0).unwrap();
        assert_eq!((basis.samples, basis.classes), (30, 1));
        assert_eq!(costs.basis(Event::Preemption, 257.0), None);
        assert_eq!(costs.basis(Event::MemoryMigration, 64.0), None);
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
        assert!(
            (most.us - 20.0).abs() < 0.01
                && most.low_us.is_none_or(|it| it <= most.us)
                && most.high_us.is_none_or(|it| it >= most.us)
        );
    }
}
