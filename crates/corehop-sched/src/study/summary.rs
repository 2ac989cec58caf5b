// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summarises study counts in few numbers, for scripts.

use serde_json::{Map, Value, json};

use super::{Measure, Preferable, StudyCounts, StudyReading};
use corehop_stats::costs::Selected;

impl StudyCounts {
    /// Returns `{"id", "title", "seed", "sets", "complete", "readings": [{"name", "w": {SCHEDULER: {D_C: W}},
    /// "w_interval": {SCHEDULER: {D_C: [low, high]}}, "crossover_us", "interval_us", "crossovers": […]}], "held"?,
    /// "warnings"?}`.
    ///
    /// `crossover_us` and `interval_us` belong to the first crossover, and are null if there is none. A study of
    /// breakdown utilisations has `breakdown` and `breakdown_interval` instead of `w`.
    pub fn json(&self) -> Value {
        let readings = self.study.readings.iter().enumerate();
        let mut value = json!({
            "id": self.study.id,
            "title": self.study.title,
            "seed": self.study.seed,
            "sets": self.sets(),
            "complete": self.is_whole(),
            "readings": readings.map(|(at, about)| self.reading_json(at, about)).collect::<Value>(),
        });
        let warnings = self.study.warnings();
        if !warnings.is_empty() {
            value["warnings"] = json!(warnings);
        }
        if let (Some(held), Some(fields)) = (&self.study.held, value.as_object_mut()) {
            fields.insert("held".to_owned(), json!({"reading": held.reading, "why": held.why}));
        }
        value
    }

    /// Returns the summary of [`StudyCounts::json`] with a field for each reading: `"wss": [{"load", "statistic",
    /// "of", "against", "fixed", "fixed_interval", "each_its_own", "each_its_own_interval"}]`. The field says up to
    /// which working set size the scheduler `of` is preferable at these costs.
    pub fn json_by_size(&self, costs: &[Selected<'_>]) -> Value {
        let mut value = self.json();
        let readings = value.get_mut("readings").and_then(Value::as_array_mut);
        for (at, reading) in readings.into_iter().flatten().enumerate() {
            let all = costs.iter().flat_map(|Selected { load, statistic, costs }| {
                self.sizes(at, costs.as_ref()).into_iter().map(move |sizes| {
                    let mut one = json!(sizes);
                    one["load"] = json!(load);
                    one["statistic"] = json!(statistic);
                    one
                })
            });
            reading["wss"] = all.collect();
        }
        value
    }

    fn reading_json(&self, at: usize, about: &StudyReading) -> Value {
        let (mut values, mut intervals) = (Map::new(), Map::new());
        for (s, scheduler) in about.schedulers.iter().enumerate() {
            let estimates = about
                .delays
                .iter()
                .enumerate()
                .filter_map(|(d, delay)| Some((delay.to_string(), self.weighted(at, s, d)?)));
            let estimates: Vec<_> = estimates.collect();
            let value = estimates.iter().map(|(delay, it)| (delay.clone(), json!(it.value)));
            values.insert(scheduler.name.clone(), Value::Object(value.collect()));
            let interval =
                estimates.iter().map(|(delay, it)| (delay.clone(), json!([it.low, it.high])));
            intervals.insert(scheduler.name.clone(), Value::Object(interval.collect()));
        }
        let crossovers = self.crossings(at);
        let first = crossovers.first().map(|crossing| crossing.preferable);
        let (crossover_us, interval_us) = match first {
            Some(Preferable::Below { crossover_us, interval_us }) => {
                (json!(crossover_us), json!(interval_us))
            }
            _ => (Value::Null, Value::Null),
        };
        match about.measure {
            Measure::Schedulability => json!({
                "name": about.name,
                "w": values,
                "w_interval": intervals,
                "crossover_us": crossover_us,
                "interval_us": interval_us,
                "crossovers": crossovers,
            }),
            Measure::Breakdown => json!({
                "name": about.name,
                "breakdown": values,
                "breakdown_interval": intervals,
            }),
        }
    }
}
