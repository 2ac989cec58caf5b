// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups samples by cell, and summarises the delay of each cell.
//!
//! A cell groups samples with common properties: the machine, the load, the event, the working set. The
//! statistics of a cell use its valid samples. The summary also states the number of all samples and the
//! causes of disturbances, because a maximum without number and causes is meaningless.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::cell::CellKey;
use super::delay::{ALPHA, DelayStatistics, nested_quantile};
use super::estimator::Estimator;
use super::ordered::BadInput;
use super::quantile::Quantile;
use super::replicates::{Nested, SharedDependence};
use super::verdict::{CellView, ClaimVerdict, MachineView, verdicts};
use corehop_plan::samples::{Cause, Certificate, Sample, Text};
use corehop_plan::workload::Event;

/// The summary of the samples of one cell. The times of the summary are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellSummary {
    /// The common properties of the cell's samples.
    pub cell: CellKey,
    /// The estimator that computes the delays.
    pub estimator: Estimator,
    /// The number of samples, including disturbed samples.
    pub n_all: usize,
    /// The number of valid samples of the cell.
    pub n_valid: usize,
    /// The share of valid samples among all samples.
    pub valid_share: f64,
    /// The number of samples that each cause disturbed; a sample can have several causes.
    pub disturbed_by: BTreeMap<Cause, usize>,
    /// The number of disturbed samples; each counts once, for its most telling cause.
    pub lost_to: BTreeMap<Cause, usize>,
    /// The number of valid samples with disturbed segments cut out.
    pub n_repaired: usize,
    /// The share of repaired samples among the valid samples, or `None` without valid samples.
    pub repaired_share: Option<f64>,
    /// The causes that were cut out, each with its number of samples.
    pub repaired_by: BTreeMap<Cause, usize>,
    /// The statistics of the delay, or `None` if no valid sample has a delay.
    pub delay: Option<DelayStatistics>,
    /// The median of the warm touch.
    pub warm_us: Option<Quantile>,
    /// The median of cold minus warm, for certified cold touches. The bound is the cost of losing every
    /// line.
    pub cold_bound_us: Option<Quantile>,
    /// The median of cold minus warm for each KiB of the working set.
    pub cold_bound_us_per_kib: Option<f64>,
    /// The median of the direct cost of the switch, apart from the delay.
    pub switch_us: Option<Quantile>,
    /// The median of the actual preemption length.
    pub length_us: Option<Quantile>,
    /// The median number of additional last-level cache misses in the resumed touch, or `None` if not
    /// counted.
    pub extra_misses: Option<Quantile>,
    /// The median number of bytes per second that the background load moves.
    pub load_bytes_per_s: Option<Quantile>,
    /// The median number of lines per second that the preemptor walks.
    pub preemptor_lines_per_s: Option<Quantile>,
    /// The mean share of the working set on huge pages.
    pub huge_share: f64,
    /// The evidence that nothing disturbed the valid samples, with the number of samples for each kind.
    pub certificates: BTreeMap<Certificate, usize>,
    /// The scheduling policies under which the samples were taken.
    pub policies: BTreeSet<String>,
}

/// Values in the order of measurement, each with its replicate.
#[derive(Debug, Clone, Default)]
struct ReplicateValues {
    values: Vec<f64>,
    replicates: Vec<u64>,
}

impl ReplicateValues {
    /// Keeps a value if it is present and finite.
    fn keep(&mut self, value: Option<f64>, replicate: u64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.values.push(value);
            self.replicates.push(replicate);
        }
    }

    fn nested(&self) -> Option<Nested> {
        Nested::from_labelled(&self.values, &self.replicates).ok()
    }

    /// Returns the median of the values divided by `unit`, with its interval, or `None` without values.
    fn middle(&self, unit: f64) -> Option<Quantile> {
        let values: Vec<f64> = self.values.iter().map(|value| value / unit).collect();
        let nested = Nested::from_labelled(&values, &self.replicates).ok()?;
        nested_quantile(&nested, 0.5).filter(|_| !values.is_empty())
    }
}

/// Returns the replicate of a sample; a file without replicates counts as one replicate. A run of
/// `conditions` also counts as one replicate, because its steps keep most draws of the previous step.
pub fn replicate_of(sample: &Sample) -> u64 {
    sample.replicate.filter(|_| sample.renewed.is_none()).unwrap_or_default()
}

/// Returns whether nothing happened between the two touches of the cell's samples.
pub fn is_control(cell: &CellKey) -> bool {
    cell.event == Event::None
}

/// The number of nanoseconds in a microsecond.
const MICROS: f64 = 1e3;

/// The kept values of a cell's samples; times are in nanoseconds.
#[derive(Debug, Clone, Default)]
struct CellSamples {
    n_all: usize,
    n_valid: usize,
    n_repaired: usize,
    disturbed_by: BTreeMap<Cause, usize>,
    lost_to: BTreeMap<Cause, usize>,
    repaired_by: BTreeMap<Cause, usize>,
    /// The fields `delays`, `warm` and `lengths` have one value for each valid sample.
    delays: ReplicateValues,
    warm: ReplicateValues,
    lengths: ReplicateValues,
    cold_bound: ReplicateValues,
    switch: ReplicateValues,
    extra_misses: ReplicateValues,
    load_rate: ReplicateValues,
    preemptor_rate: ReplicateValues,
    huge_share: f64,
    away: bool,
    certificates: BTreeMap<Certificate, usize>,
    policies: BTreeSet<Text>,
}

impl CellSamples {
    fn take(&mut self, sample: &Sample, estimator: Estimator) {
        self.n_all += 1;
        self.huge_share += sample.huge_share;
        self.away |= sample.requested_length_ns > 0;
        if !self.policies.contains(&sample.policy) {
            self.policies.insert(sample.policy.clone());
        }
        count(&mut self.disturbed_by, &sample.disturbed_by);
        if !sample.valid {
            // Causes stand in the order of how much they tell.
            count(&mut self.lost_to, sample.disturbed_by.get(..1).unwrap_or_default());
            return;
        }
        self.n_valid += 1;
        self.n_repaired += usize::from(!sample.repaired.is_empty());
        count(&mut self.repaired_by, &sample.repaired);
        *self.certificates.entry(sample.certificate).or_default() += 1;
        self.take_times(sample, estimator);
        let of = replicate_of(sample);
        let misses = sample.misses_resumed.zip(sample.misses_warm);
        let extra = misses.map(|(resumed, warm)| resumed as f64 - warm as f64);
        self.extra_misses.keep(extra, of);
        self.load_rate.keep(sample.load_bytes_per_s, of);
        let walked = sample.preemptor_lines.map(|lines| lines as f64 / (sample.length_ns / 1e9));
        self.preemptor_rate.keep(walked, of);
    }

    fn take_times(&mut self, sample: &Sample, estimator: Estimator) {
        let of = replicate_of(sample);
        let delay = estimator.delay_ns(sample).unwrap_or(f64::NAN);
        if [delay, sample.warm_ns, sample.length_ns].into_iter().all(f64::is_finite) {
            self.delays.keep(Some(delay), of);
            self.warm.keep(Some(sample.warm_ns), of);
            self.lengths.keep(Some(sample.length_ns), of);
        }
        self.cold_bound.keep(Estimator::ColdBound.delay_ns(sample), of);
        self.switch.keep(sample.switch_ns, of);
    }

    fn summary(&self, cell: CellKey, estimator: Estimator, in_a_row: f64) -> CellSummary {
        let warm_us = self.warm.middle(MICROS);
        let cold_bound_us = self.cold_bound.middle(MICROS);
        let delays_us: Vec<f64> = self.delays.values.iter().map(|ns| ns / MICROS).collect();
        let (kib, labels) = (cell.wss_kib(), &self.delays.replicates);
        CellSummary {
            cold_bound_us_per_kib: cold_bound_us.map(|bound| bound.estimate / kib),
            delay: DelayStatistics::of(&delays_us, labels, in_a_row, kib, warm_us.as_ref()),
            cell,
            estimator,
            n_all: self.n_all,
            n_valid: self.n_valid,
            valid_share: self.n_valid as f64 / self.n_all as f64,
            disturbed_by: self.disturbed_by.clone(),
            lost_to: self.lost_to.clone(),
            n_repaired: self.n_repaired,
            repaired_share: (self.n_valid > 0)
                .then(|| self.n_repaired as f64 / self.n_valid as f64),
            repaired_by: self.repaired_by.clone(),
            warm_us,
            cold_bound_us,
            switch_us: self.switch.middle(MICROS),
            length_us: self.away.then(|| self.lengths.middle(MICROS)).flatten(),
            extra_misses: self.extra_misses.middle(1.0),
            load_bytes_per_s: self.load_rate.middle(1.0),
            preemptor_lines_per_s: self.preemptor_rate.middle(1.0),
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

/// Sorts samples into cells while they stream in.
#[derive(Debug, Clone)]
pub struct Summaries {
    estimator: Estimator,
    cells: BTreeMap<CellKey, CellSamples>,
}

impl Summaries {
    /// Makes an empty collection whose delays are computed by `estimator`.
    pub fn new(estimator: Estimator) -> Self {
        Self { estimator, cells: BTreeMap::new() }
    }

    /// Adds samples to their cells.
    pub fn take(&mut self, samples: &[Sample]) {
        for sample in samples {
            let cell = self.cells.entry(CellKey::of(sample)).or_default();
            cell.take(sample, self.estimator);
        }
    }

    /// Returns the summary of every cell, sorted.
    pub fn finish(&self) -> Vec<CellSummary> {
        let dependence = self.dependence();
        let summary = |(cell, gathered): (&CellKey, &CellSamples)| {
            let in_a_row = dependence.in_a_row(is_control(cell));
            gathered.summary(cell.clone(), self.estimator, in_a_row)
        };
        self.cells.iter().map(summary).collect()
    }

    /// Returns the number of consecutive replicates that count as one, estimated from all cells, because
    /// a slow change of a machine affects all of them.
    fn dependence(&self) -> SharedDependence {
        let of = |(cell, gathered): (&CellKey, &CellSamples)| {
            Some((is_control(cell), gathered.delays.nested()?))
        };
        let nested: Vec<(bool, Nested)> = self.cells.iter().filter_map(of).collect();
        SharedDependence::of(nested.iter().map(|(control, nested)| (*control, nested)))
    }

    /// Returns the verdicts on the observations of the studies, for the cells of `machine`.
    ///
    /// # Errors
    /// Returns [`BadInput`] if a cell is invalid, which [`Summaries::take`] prevents.
    pub fn verdicts(
        &self,
        machine: &str,
        view: &MachineView,
    ) -> Result<Vec<ClaimVerdict>, BadInput> {
        let dependence = self.dependence();
        let of_machine = self.cells.iter().filter(|(cell, _)| &*cell.machine == machine);
        let variants: Vec<(String, &CellKey, &CellSamples)> =
            of_machine.map(|(cell, gathered)| (cell.variant(), cell, gathered)).collect();
        let views: Vec<CellView> = variants
            .iter()
            .map(|(variant, cell, gathered)| CellView {
                event: cell.event,
                load: &cell.load,
                preempted_by: cell.preempted_by,
                wss_bytes: cell.wss_bytes,
                write_ratio: cell.write_ratio,
                variant,
                absence: cell.absence(),
                warm_ns: &gathered.warm.values,
                delay_ns: &gathered.delays.values,
                length_ns: &gathered.lengths.values,
                replicates: &gathered.delays.replicates,
                in_a_row: dependence.in_a_row(is_control(cell)),
            })
            .collect();
        verdicts(&views, view, ALPHA)
    }
}

/// Returns the summaries of `samples`, with delays computed by `estimator`.
pub fn summarize(samples: &[Sample], estimator: Estimator) -> Vec<CellSummary> {
    let mut summaries = Summaries::new(estimator);
    summaries.take(samples);
    summaries.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::sample;
    use corehop_plan::platform::MemoryArchitecture;
    use corehop_plan::workload::{Absence, Page, Pattern};
    use proptest::prelude::*;

    /// Returns a sample with this delay in microseconds.
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
        assert_eq!((delay.per_kib.median, delay.per_kib.max), (0.75, 2.5));
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
        assert_eq!(summary.lost_to, [(Cause::Preempted, 1), (Cause::Gap, 1)].into());
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
    fn a_class_that_was_met_twice_is_reported_without_an_interval_and_with_the_reason() {
        let near = (0..8).map(|number| Sample { replicate: Some(number), ..delayed(1.0) });
        let far = [2, 5].map(|number| Sample {
            event: Event::MemoryMigration,
            replicate: Some(number),
            ..delayed(9.0)
        });
        let all = summarize(&near.chain(far).collect::<Vec<_>>(), Estimator::Difference);
        let far = all.iter().find(|it| it.cell.event == Event::MemoryMigration).unwrap();
        let delay = far.delay.as_ref().unwrap();
        assert_eq!((delay.median().estimate, delay.median().interval()), (9.0, None));
        let why = delay.no_interval.unwrap().to_string();
        assert_eq!(why, "2 replicates; an interval needs 6");
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
            Sample { workload: Some("job.so:run".into()), ..sample() },
            Sample { node: Some(1), ..sample() },
            Sample { fresh_frames: Some(true), ..sample() },
            Sample { polluter: Some("make on CPUs 0".into()), ..sample() },
            Sample { write_ratio: 0.25, ..sample() },
            Sample {
                preempted_by: Absence::Load,
                pair_class: Some(Event::MemoryMigration),
                ..sample()
            },
            Sample { wss_bytes: 8192, ..sample() },
            Sample { memory_architecture: MemoryArchitecture::Numa, ..sample() },
        ];
        let twice: Vec<Sample> = variants.iter().chain(&variants).cloned().collect();
        let summaries = summarize(&twice, Estimator::Difference);
        assert_eq!(summaries.len(), variants.len());
        assert!(summaries.iter().all(|summary| summary.n_all == 2));
    }

    #[test]
    fn cells_stand_in_the_order_of_their_preemption_lengths() {
        let texts = ["none", "fixed_500us", "fixed_1ms", "fixed_16ms", "uniform_0_20ms"];
        let of = |text: &&str| Sample { preemption_length: (*text).into(), ..sample() };
        let samples: Vec<Sample> = texts.iter().rev().map(of).collect();
        let summaries = summarize(&samples, Estimator::Difference);
        let order: Vec<&str> = summaries.iter().map(|it| &*it.cell.preemption_length).collect();
        assert_eq!(order, texts);
    }

    #[test]
    fn a_value_that_is_no_number_spoils_nothing() {
        let broken = Sample { resumed_ns: f64::NAN, ..sample() };
        let summary = one(&[broken, delayed(1.0), delayed(2.0), delayed(3.0)]);
        let delay = summary.delay.unwrap();
        assert_eq!((summary.n_valid, delay.moments.n, delay.median().estimate), (4, 3, 2.0));
    }

    proptest! {
        /// The test checks that the summary does not depend on the places at which the samples are cut
        /// into batches.
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
