// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples by cell, and what each cell says of its delay.
//!
//! A cell is what samples have in common: the machine, the load, the event, the working set. Its
//! statistics are over the valid samples, and beside them stands how many there were in all and what
//! disturbed the others: a maximum without both says nothing.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::estimator::Estimator;
use super::moments::{Moments, moments};
use super::ordered::Ordered;
use super::quantile::{Maximum, Quantile, maximum, median_interval, quantile_interval};
use crate::platform::MemoryArchitecture;
use crate::samples::{Cause, Certificate, Sample, Text};
use crate::workload::{Absence, Event, LineState, Mover, Page, Pattern};

/// One less the confidence of every interval here.
pub const ALPHA: f64 = 0.05;

/// The quantiles that a summary states, as far as there are samples for them.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// What the samples of a cell have in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellKey {
    /// The platform, by id.
    #[serde(serialize_with = "text")]
    pub machine: Text,
    /// How its memory looks from the packages.
    pub memory_architecture: MemoryArchitecture,
    /// The experiment.
    #[serde(serialize_with = "text")]
    pub experiment: Text,
    /// The background load.
    #[serde(serialize_with = "text")]
    pub load: Text,
    /// The order of the accesses.
    pub pattern: Pattern,
    /// The pages asked for.
    pub page: Page,
    /// The number of independent chains.
    pub chains: u64,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The state of the lines before the cold touch.
    pub cache_state: LineState,
    /// What happened between the warm and the resumed touch.
    pub event: Event,
    /// Who had the CPU meanwhile.
    pub preempted_by: Absence,
    /// How preemption lengths were drawn.
    #[serde(serialize_with = "text")]
    pub preemption_length: Text,
    /// What the preemptor or the polluters walked.
    #[serde(serialize_with = "optional_text")]
    pub polluter: Option<Text>,
    /// How the job got to the other CPU.
    pub mover: Mover,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
}

fn text<S: Serializer>(text: &Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

#[expect(clippy::ref_option, reason = "the form that serde calls")]
fn optional_text<S: Serializer>(text: &Option<Text>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&text.as_deref())
}

impl CellKey {
    /// The cell of a sample.
    pub fn of(sample: &Sample) -> Self {
        Self {
            machine: sample.machine.clone(),
            memory_architecture: sample.memory_architecture,
            experiment: sample.experiment.clone(),
            load: sample.load.clone(),
            pattern: sample.pattern,
            page: sample.page,
            chains: sample.chains,
            write_ratio: sample.write_ratio,
            cache_state: sample.cache_state,
            event: sample.event,
            preempted_by: sample.preempted_by,
            preemption_length: sample.preemption_length.clone(),
            polluter: sample.polluter.clone(),
            mover: sample.mover,
            wss_bytes: sample.wss_bytes,
        }
    }

    /// The working-set size in KiB.
    pub fn wss_kib(&self) -> f64 {
        self.wss_bytes as f64 / 1024.0
    }

    /// Whether the two differ in nothing but the working-set size.
    pub fn same_series(&self, other: &Self) -> bool {
        *self == Self { wss_bytes: self.wss_bytes, ..other.clone() }
    }

    /// The fields in the order in which summaries are listed; `idle` stands before other loads.
    fn order(&self) -> impl Ord + '_ {
        let place = (&self.machine, self.memory_architecture, &self.experiment);
        let load = (&*self.load != "idle", &self.load);
        let set = (self.pattern, self.page, self.chains, self.write_ratio.to_bits());
        let length = (self.preempted_by, &self.preemption_length, &self.polluter, self.mover);
        (place, load, set, self.cache_state, self.event, length, self.wss_bytes)
    }
}

impl Eq for CellKey {}

impl PartialOrd for CellKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CellKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// What a cell says. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellSummary {
    /// What its samples have in common.
    pub cell: CellKey,
    /// How a delay was computed.
    pub estimator: Estimator,
    /// How many samples there are, disturbed ones included.
    pub n_all: usize,
    /// How many of them are valid.
    pub n_valid: usize,
    /// How many samples each cause has disturbed; a sample may have several.
    pub disturbed_by: BTreeMap<Cause, usize>,
    /// How many valid samples had disturbed segments cut out.
    pub n_repaired: usize,
    /// That as a share of the valid ones; None where there are none.
    pub repaired_share: Option<f64>,
    /// What was cut out, by cause.
    pub repaired_by: BTreeMap<Cause, usize>,
    /// The delay; None where no valid sample has one.
    pub delay: Option<Delay>,
    /// The warm touch: its median.
    pub warm_us: Option<Quantile>,
    /// Cold less warm, where the cold touch is certified: its median. What losing every line costs.
    pub cold_bound_us: Option<Quantile>,
    /// The direct cost of the switch, apart from the delay: its median.
    pub switch_us: Option<Quantile>,
    /// The preemption length got: its median.
    pub length_us: Option<Quantile>,
    /// Additional last-level cache misses of the resumed touch, where counted: their median.
    pub extra_misses: Option<Quantile>,
    /// The bytes per second of the background load: the median.
    pub load_bytes_per_s: Option<Quantile>,
    /// The mean share of the working set on huge pages.
    pub huge_share: f64,
    /// How it is known that nothing disturbed the valid samples.
    pub certificates: BTreeMap<Certificate, usize>,
    /// The scheduling policies it ran under.
    pub policies: BTreeSet<String>,
}

/// The statistics of a delay, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delay {
    /// Number, mean and standard deviation; the interval of the mean allows for autocorrelation.
    pub moments: Moments,
    /// The median and what other quantiles the number of samples carries, with their intervals.
    pub quantiles: Vec<Quantile>,
    /// The least.
    pub min: f64,
    /// The greatest, and over how many.
    pub max: Maximum,
    /// The median for each KiB of the working set.
    pub median_per_kib: f64,
    /// The mean for each KiB of the working set.
    pub mean_per_kib: f64,
    /// The greatest for each KiB of the working set.
    pub max_per_kib: f64,
    /// The median over the median warm touch.
    pub over_warm: Option<f64>,
}

impl Delay {
    fn of(values: &[f64], wss_kib: f64, warm: Option<&Quantile>) -> Option<Self> {
        let ordered = Ordered::new(values).ok()?;
        // At least one value must lie beyond; 10 × (1 - 0.9) is a little less than 1 in binary.
        let carried = |p: f64| p <= 0.5 || values.len() as f64 * (1.0 - p) > 0.999;
        let quantiles: Vec<Quantile> = QUANTILES
            .into_iter()
            .filter(|&p| carried(p))
            .filter_map(|p| quantile_interval(&ordered, p, ALPHA).ok())
            .collect();
        // The seed of the bootstrap is fixed: the same file always has the same table.
        let moments = moments(values, ALPHA, 1).ok()?;
        let max = maximum(&ordered, 1.0 - ALPHA).ok()?;
        let median = quantiles.first()?.estimate;
        Some(Self {
            median_per_kib: median / wss_kib,
            mean_per_kib: moments.mean / wss_kib,
            max_per_kib: max.value / wss_kib,
            over_warm: warm.map(|warm| median / warm.estimate).filter(|ratio| ratio.is_finite()),
            min: ordered.min(),
            moments,
            quantiles,
            max,
        })
    }

    /// The median, with its interval.
    pub fn median(&self) -> &Quantile {
        // `Delay::of` refuses to make one without the median, which stands first.
        &self.quantiles[0]
    }
}

/// What is kept of a cell's samples while they stream by.
#[derive(Debug, Clone, Default)]
struct Gathered {
    n_all: usize,
    n_valid: usize,
    n_repaired: usize,
    disturbed_by: BTreeMap<Cause, usize>,
    repaired_by: BTreeMap<Cause, usize>,
    delays: Vec<f64>,
    warm: Vec<f64>,
    cold_bound: Vec<f64>,
    switch: Vec<f64>,
    length: Vec<f64>,
    extra_misses: Vec<f64>,
    load_rate: Vec<f64>,
    huge_share: f64,
    certificates: BTreeMap<Certificate, usize>,
    policies: BTreeSet<Text>,
}

impl Gathered {
    fn take(&mut self, sample: &Sample, estimator: Estimator) {
        self.n_all += 1;
        self.huge_share += sample.huge_share;
        if !self.policies.contains(&sample.policy) {
            self.policies.insert(sample.policy.clone());
        }
        count(&mut self.disturbed_by, &sample.disturbed_by);
        if !sample.valid {
            return;
        }
        self.n_valid += 1;
        self.n_repaired += usize::from(!sample.repaired.is_empty());
        count(&mut self.repaired_by, &sample.repaired);
        *self.certificates.entry(sample.certificate).or_default() += 1;
        keep(&mut self.delays, estimator.delay_us(sample));
        keep(&mut self.warm, Some(sample.warm_ns / 1e3));
        keep(&mut self.cold_bound, Estimator::ColdBound.delay_us(sample));
        keep(&mut self.switch, sample.switch_ns.map(|nanos| nanos / 1e3));
        if sample.requested_length_ns > 0 {
            keep(&mut self.length, Some(sample.length_ns / 1e3));
        }
        let misses = sample.misses_resumed.zip(sample.misses_warm);
        keep(&mut self.extra_misses, misses.map(|(resumed, warm)| resumed as f64 - warm as f64));
        keep(&mut self.load_rate, sample.load_bytes_per_s);
    }

    fn summary(&self, cell: CellKey, estimator: Estimator) -> CellSummary {
        let warm_us = middle(&self.warm);
        CellSummary {
            delay: Delay::of(&self.delays, cell.wss_kib(), warm_us.as_ref()),
            cell,
            estimator,
            n_all: self.n_all,
            n_valid: self.n_valid,
            disturbed_by: self.disturbed_by.clone(),
            n_repaired: self.n_repaired,
            repaired_share: (self.n_valid > 0)
                .then(|| self.n_repaired as f64 / self.n_valid as f64),
            repaired_by: self.repaired_by.clone(),
            warm_us,
            cold_bound_us: middle(&self.cold_bound),
            switch_us: middle(&self.switch),
            length_us: middle(&self.length),
            extra_misses: middle(&self.extra_misses),
            load_bytes_per_s: middle(&self.load_rate),
            huge_share: self.huge_share / self.n_all as f64,
            certificates: self.certificates.clone(),
            policies: self.policies.iter().map(ToString::to_string).collect(),
        }
    }
}

fn count(counts: &mut BTreeMap<Cause, usize>, causes: &[Cause]) {
    for &cause in causes {
        *counts.entry(cause).or_default() += 1;
    }
}

/// Keeps a value that is there and is a number.
fn keep(values: &mut Vec<f64>, value: Option<f64>) {
    values.extend(value.filter(|value| value.is_finite()));
}

/// The median with its interval; None of nothing.
fn middle(values: &[f64]) -> Option<Quantile> {
    median_interval(&Ordered::new(values).ok()?, ALPHA).ok()
}

/// Sorts samples into cells as they stream by.
#[derive(Debug, Clone)]
pub struct Summaries {
    estimator: Estimator,
    cells: BTreeMap<CellKey, Gathered>,
}

impl Summaries {
    /// No samples yet; delays will be computed by `estimator`.
    pub fn new(estimator: Estimator) -> Self {
        Self { estimator, cells: BTreeMap::new() }
    }

    /// Takes some more samples.
    pub fn take(&mut self, samples: &[Sample]) {
        for sample in samples {
            let cell = self.cells.entry(CellKey::of(sample)).or_default();
            cell.take(sample, self.estimator);
        }
    }

    /// The summary of every cell, sorted.
    pub fn finish(&self) -> Vec<CellSummary> {
        let summary = |(cell, gathered): (&CellKey, &Gathered)| {
            gathered.summary(cell.clone(), self.estimator)
        };
        self.cells.iter().map(summary).collect()
    }
}

/// The summaries of `samples`, by `estimator`.
pub fn summarize(samples: &[Sample], estimator: Estimator) -> Vec<CellSummary> {
    let mut summaries = Summaries::new(estimator);
    summaries.take(samples);
    summaries.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::example::sample;
    use proptest::prelude::*;

    /// A sample with this delay in microseconds.
    fn delayed(us: f64) -> Sample {
        let clean = sample();
        Sample { resumed_ns: clean.warm_ns + 1e3 * us, ..clean }
    }

    fn one(samples: &[Sample]) -> CellSummary {
        let [summary] = summarize(samples, Estimator::Difference).try_into().unwrap();
        summary
    }

    #[test]
    fn the_statistics_of_a_cell_are_those_computed_by_hand() {
        let samples: Vec<Sample> = [4.0, 1.0, 2.0, 3.0, 10.0].map(delayed).into();
        let summary = one(&samples);
        let delay = summary.delay.as_ref().unwrap();
        assert_eq!((summary.n_all, summary.n_valid), (5, 5));
        assert_eq!((delay.median().estimate, delay.moments.mean), (3.0, 4.0));
        // Squares 0, 9, 4, 1, 36 sum to 50; 50 / 4 = 12.5.
        assert!((delay.moments.std.unwrap() - 12.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!((delay.min, delay.max.value, delay.max.n), (1.0, 10.0, 5));
        assert_eq!((delay.median_per_kib, delay.max_per_kib), (0.75, 2.5));
        assert_eq!(delay.over_warm, Some(3.0));
        assert_eq!(summary.warm_us.map(|warm| warm.estimate), Some(1.0));
        assert_eq!(summary.cold_bound_us.map(|cold| cold.estimate), Some(4.0));
    }

    #[test]
    fn disturbed_samples_are_counted_by_cause_and_stay_out_of_the_statistics() {
        let disturbed = |causes: &[Cause]| Sample {
            valid: false,
            disturbed_by: causes.to_vec(),
            ..delayed(1e6)
        };
        let mended = Sample { repaired: vec![Cause::Gap], ..delayed(2.0) };
        let summary = one(&[
            delayed(1.0),
            mended,
            disturbed(&[Cause::Gap]),
            disturbed(&[Cause::Preempted, Cause::Gap]),
        ]);
        assert_eq!((summary.n_all, summary.n_valid, summary.n_repaired), (4, 2, 1));
        assert_eq!(summary.disturbed_by, [(Cause::Preempted, 1), (Cause::Gap, 2)].into());
        assert_eq!(summary.repaired_by, [(Cause::Gap, 1)].into());
        assert_eq!(summary.repaired_share, Some(0.5));
        assert_eq!(summary.delay.map(|delay| delay.max.value), Some(2.0));
    }

    #[test]
    fn a_cell_without_a_valid_sample_is_listed_and_says_nothing_of_its_delay() {
        let lost = Sample { valid: false, disturbed_by: vec![Cause::Steal], ..sample() };
        let summary = one(&[lost]);
        assert_eq!((summary.n_all, summary.n_valid), (1, 0));
        assert!(summary.delay.is_none() && summary.warm_us.is_none());
        assert_eq!(summary.repaired_share, None);
    }

    #[test]
    fn whatever_differs_makes_another_cell() {
        let variants = [
            sample(),
            Sample { machine: "other".into(), ..sample() },
            Sample { load: "constructed".into(), ..sample() },
            Sample { event: Event::L3Migration, ..sample() },
            Sample { preempted_by: Absence::Load, ..sample() },
            Sample { preemption_length: "uniform_0_50ms".into(), ..sample() },
            Sample { pattern: Pattern::Scan, ..sample() },
            Sample { page: Page::Transparent, ..sample() },
            Sample { chains: 4, ..sample() },
            Sample { write_ratio: 0.25, ..sample() },
            Sample { wss_bytes: 8192, ..sample() },
            Sample { memory_architecture: MemoryArchitecture::Numa, ..sample() },
        ];
        let twice: Vec<Sample> = variants.iter().chain(&variants).cloned().collect();
        let summaries = summarize(&twice, Estimator::Difference);
        assert_eq!(summaries.len(), variants.len());
        assert!(summaries.iter().all(|summary| summary.n_all == 2));
    }

    #[test]
    fn a_value_that_is_no_number_spoils_nothing() {
        let broken = Sample { resumed_ns: f64::NAN, ..sample() };
        let summary = one(&[broken, delayed(1.0), delayed(2.0), delayed(3.0)]);
        let delay = summary.delay.unwrap();
        assert_eq!((summary.n_valid, delay.moments.n, delay.median().estimate), (4, 3, 2.0));
    }

    #[test]
    fn quantiles_that_the_number_of_samples_cannot_carry_are_not_stated() {
        let of = |n: usize| one(&vec![sample(); n]).delay.unwrap().quantiles.len();
        assert_eq!([of(1), of(10), of(100), of(1000)], [1, 2, 3, 4]);
    }

    proptest! {
        /// The slow twin: the summary does not depend on how the samples are cut into batches.
        #[test]
        fn batches_make_no_difference(
            delays in proptest::collection::vec((0.0..100.0_f64, 0_u64..3), 1..60),
            cut in 0_usize..60,
        ) {
            let samples: Vec<Sample> = delays
                .iter()
                .map(|&(us, size)| Sample { wss_bytes: 4096 << size, ..delayed(us) })
                .collect();
            let (first, second) = samples.split_at(cut.min(samples.len()));
            let mut summaries = Summaries::new(Estimator::Difference);
            summaries.take(first);
            summaries.take(second);
            prop_assert_eq!(summaries.finish(), summarize(&samples, Estimator::Difference));
        }
    }
}
