// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the cost of a preemption or migration as a function of working-set size and length; a model is fitted to
//! samples or computed from the caches alone.
//!
//! A fitted model keeps the measurements of every series of cells at each size and length, and interpolates on a curve
//! through them. The curve is monotone in the length, and monotone in the size as long as the working set stays in one
//! cache. Two analytic models are computed without samples ([`analytic`]). A model states its error on points that it
//! was not fitted to. The answer for a measured size and length is the measurement; between sizes, a computed model
//! answers only if its error on the same points is smaller.

mod companies;
mod monotone;
mod point;
mod series;
pub mod analytic;
mod holdout;
mod question;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use analytic::AnalyticHierarchy;
pub use holdout::{FEWEST as FEWEST_FOR_INTERVAL, HoldoutErrors};
pub use point::{CostEstimate, DelayPoint, Statistic};
use point::{DelaySample, nested};
pub use question::{DelayQuery, NoAnswer, Prediction};
pub use series::{DelaySeries, SeriesKey, SeriesValue, ValueOrigin};
pub use store::{MODEL_SCHEMA, NotAModel};

use super::balance::LevelLatencies;
use super::cell::CellKey;
use super::estimator::Estimator;
use super::replicates::{Nested, SharedDependence};
use super::summary::replicate_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::Bytes;
use corehop_plan::words::words;
use corehop_plan::workload::Event;

words! {
    /// The method that made a prediction.
    Method, "a method" {
        /// The cost comes from a curve through measured costs.
        Fitted = "fitted",
        /// The cost is computed: lines of the job that the preemptor pushes out of a cache come from an outer cache
        /// or from memory.
        Survivors = "survivors",
        /// The cost is computed: every line of the job that the caches held comes from memory.
        WorstCase = "worst_case",
    }
}

/// A model of delays that was fitted to measured samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayModel {
    /// The version of the model's file format.
    pub schema: String,
    /// The estimator that computes a delay from the intervals of a sample.
    pub estimator: Estimator,
    /// The caches of each machine, by the machine's name.
    pub machines: BTreeMap<String, Caches>,
    /// The measured curves, each with the errors of its predictions.
    pub curves: Vec<FittedSeries>,
}

/// The sizes of the caches of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// The sizes of the caches that hold data, in bytes, ascending.
    pub sizes: Vec<u64>,
    /// The size of the largest cache that belongs to only one core, in bytes, if known.
    #[serde(deserialize_with = "Option::deserialize")]
    pub own: Option<u64>,
    /// The caches with associativity and times, if known.
    pub hierarchy: Option<AnalyticHierarchy>,
    /// The events that the machine's CPUs allow (preemption and some migrations), if known.
    #[serde(deserialize_with = "Option::deserialize")]
    pub events: Option<Vec<Event>>,
}

/// A series with the errors of its predictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedSeries {
    /// The measured series that the model was fitted to.
    pub series: DelaySeries,
    /// The errors of each method, on points that it was not fitted to.
    pub errors: Vec<HoldoutErrors>,
    /// The method that makes the predictions.
    pub method: Method,
}

/// Collects samples and fits a model to them.
#[derive(Debug, Clone)]
pub struct DelayFitter {
    estimator: Estimator,
    machines: BTreeMap<String, Caches>,
    /// The valid samples by series and size; there are few series.
    seen: Vec<(SeriesKey, BySize)>,
    /// The index of each cell's series.
    known: BTreeMap<CellKey, usize>,
}

type BySize = BTreeMap<u64, BTreeMap<LengthDistribution, Vec<DelaySample>>>;
/// The distribution of preemption lengths, as text.
type LengthDistribution = String;

/// The number of parts of equal size into which drawn lengths are divided, if each part then has [`FEWEST`] samples.
const PARTS: usize = 4;
const FEWEST: usize = 20;

impl DelayFitter {
    /// Makes a fitter without samples.
    pub fn new(estimator: Estimator) -> Self {
        Self { estimator, machines: BTreeMap::new(), seen: Vec::new(), known: BTreeMap::new() }
    }

    /// Adds the facts of a machine; `levels` has the latencies of its caches.
    pub fn machine(&mut self, platform: &Platform, levels: &LevelLatencies) {
        let mut sizes: Vec<u64> =
            platform.cache_sizes().iter().map(|(_, size)| size.get()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let own = platform.largest_private_cache().map(Bytes::get);
        let events = Some(Event::on(platform));
        let caches =
            Caches { sizes, own, hierarchy: AnalyticHierarchy::of(platform, levels), events };
        self.machines.insert(platform.id.clone(), caches);
    }

    /// Adds samples; samples that are not valid are ignored, and so are samples of `conditions`, whose replicates are
    /// not independent.
    pub fn take(&mut self, samples: &[Sample]) {
        let delays = self.estimator.delays_us(samples);
        for (sample, delay) in delays.filter(|(sample, _)| sample.renewed.is_none()) {
            let at = self.series(CellKey::of(sample));
            let sizes = &mut self.seen[at].1;
            let drawn = sizes.entry(sample.wss_bytes).or_default();
            let seen = drawn.entry(sample.preemption_length.to_string()).or_default();
            let replicate = replicate_of(sample);
            seen.push(DelaySample { length_us: length_us(sample), delay_us: delay, replicate });
        }
    }

    /// Adds a delay in microseconds from another source, for a shuffled list in base pages, as in the synthetic
    /// method. A delay that is not a finite number is ignored.
    pub fn known(&mut self, event: Event, load: &str, wss: Bytes, length_us: f64, delay_us: f64) {
        if !delay_us.is_finite() || !length_us.is_finite() {
            return;
        }
        let at = self.place(SeriesKey::usual(event, load));
        let drawn = self.seen[at].1.entry(wss.get()).or_default();
        let drawn = drawn.entry("given".to_owned()).or_default();
        // Each is known apart from the others.
        let replicate = drawn.len() as u64;
        drawn.push(DelaySample { length_us, delay_us, replicate });
    }

    fn place(&mut self, key: SeriesKey) -> usize {
        let place = self.seen.iter().position(|(known, _)| *known == key);
        place.unwrap_or_else(|| {
            self.seen.push((key, BTreeMap::new()));
            self.seen.len() - 1
        })
    }

    fn series(&mut self, cell: CellKey) -> usize {
        if let Some(&at) = self.known.get(&cell) {
            return at;
        }
        let at = self.place(SeriesKey::of(&cell));
        self.known.insert(cell, at);
        at
    }

    /// Fits the model to the collected samples.
    pub fn finish(self) -> DelayModel {
        let Self { estimator, mut machines, seen, .. } = self;
        for (key, _) in &seen {
            // What was measured can happen, whatever the description of the machine says.
            if let Some(events) = machines.get_mut(&key.machine).and_then(|it| it.events.as_mut())
                && key.event.is_migration()
                && !events.contains(&key.event)
            {
                events.push(key.event);
            }
        }
        let dependences = dependences(&seen);
        let curve = |(key, sizes): (SeriesKey, BySize)| {
            let in_a_row = dependences[&key.machine].in_a_row(key.event == Event::None);
            let of_size = |(size, drawn)| points(size, drawn, in_a_row);
            let points = sizes.into_iter().flat_map(of_size).collect();
            let series = DelaySeries { key, points };
            let caches = machines.get(&series.key.machine).cloned().unwrap_or_default();
            let (errors, method) =
                holdout::errors(&series, &caches.sizes, caches.hierarchy.as_ref());
            FittedSeries { series, errors, method }
        };
        let mut curves: Vec<FittedSeries> = seen.into_iter().map(curve).collect();
        curves.retain(|curve| !curve.series.points.is_empty());
        DelayModel { schema: MODEL_SCHEMA.to_owned(), estimator, machines, curves }
    }
}

/// Returns for each machine the number of consecutive replicates that count as one.
fn dependences(seen: &[(SeriesKey, BySize)]) -> BTreeMap<String, SharedDependence> {
    let mut machines: BTreeMap<String, Vec<(bool, Nested)>> = BTreeMap::new();
    for (key, sizes) in seen {
        let cells = sizes.values().flat_map(BTreeMap::values).filter_map(|it| nested(it));
        let control = key.event == Event::None;
        let of_machine = machines.entry(key.machine.clone()).or_default();
        of_machine.extend(cells.map(|cell| (control, cell)));
    }
    let shown = |cells: &[(bool, Nested)]| {
        SharedDependence::of(cells.iter().map(|(control, cell)| (*control, cell)))
    };
    machines.into_iter().map(|(machine, cells)| (machine, shown(&cells))).collect()
}

/// Returns the time off the CPU in microseconds; 0 if the job resumed at once.
fn length_us(sample: &Sample) -> f64 {
    if sample.requested_length_ns == 0 { 0.0 } else { sample.length_ns / 1e3 }
}

/// Returns the points of a size: one point for each fixed length, and several points for drawn lengths.
fn points(
    wss_bytes: u64,
    by_length: BTreeMap<LengthDistribution, Vec<DelaySample>>,
    in_a_row: f64,
) -> Vec<DelayPoint> {
    let mut points = Vec::new();
    for (drawn, mut seen) in by_length {
        let parts =
            if drawn.starts_with("fixed") || drawn == "none" { 1 } else { parts(seen.len()) };
        if parts > 1 {
            seen.sort_by(|a, b| a.length_us.total_cmp(&b.length_us));
        }
        let n = seen.len();
        let part = |part: usize| {
            let range = part * n / parts..(part + 1) * n / parts;
            DelayPoint::of(wss_bytes, &seen[range], in_a_row)
        };
        points.extend((0..parts).filter_map(part));
    }
    points.sort_by(|a, b| a.length_us.total_cmp(&b.length_us));
    points
}

fn parts(n: usize) -> usize {
    (n / FEWEST).clamp(1, PARTS)
}
