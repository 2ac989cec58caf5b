// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times per cache line in the cells of a calibration, live and simulated.

use std::collections::BTreeMap;

use corehop_plan::experiment::{Experiment, Preset, SamplingGroup, Synthetic};
use corehop_plan::machine::samples_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Event, Load, Page};
use corehop_sim::{Sampling, SimMachine};
use corehop_stats::delay::ALPHA;
use corehop_stats::replicates::Nested;
use corehop_stats::summary::replicate_of;

use super::cells::SMALL;
use super::fit::CalibrationError;

/// The event, the size, the requested length and the page kind of a cell.
type TrialCellKey = (Event, u64, u64, Page);

/// A working set with a smaller share of huge pages counts as having none.
pub(crate) const HUGE: f64 = 0.5;

/// Nanoseconds per line for each sample, with the replicate of each sample.
#[derive(Debug, Clone, Default)]
struct LineSamples {
    delays: Vec<f64>,
    warm: Vec<f64>,
    replicates: Vec<u64>,
}

/// The times per line by cell, on idle machines.
#[derive(Debug, Clone, Default)]
pub(super) struct IdleLineTimes(BTreeMap<TrialCellKey, LineSamples>);

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MedianEstimate {
    pub(super) median: f64,
    /// Both ends of the interval; the median itself if there is no interval.
    pub(super) ends: [f64; 2],
    pub(super) n: usize,
}

impl IdleLineTimes {
    /// Collects the valid samples.
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut times = Self::default();
        // What asked for huge pages and has none is of no kind.
        let pages = |it: &Sample| it.page != Page::Transparent || it.huge_share >= HUGE;
        let plain = |it: &&Sample| it.valid && &*it.load == Load::Idle.word() && pages(it);
        for it in samples.iter().filter(plain) {
            let lines = it.lines.max(1) as f64;
            let place = (it.event, it.wss_bytes, it.requested_length_ns, it.page);
            let values = times.0.entry(place).or_default();
            values.delays.push((it.resumed_ns - it.warm_ns) / lines);
            values.warm.push(it.warm_ns / lines);
            values.replicates.push(replicate_of(it));
        }
        times
    }

    /// Removes the cells with fewer samples than `fewest`.
    pub(super) fn with_at_least(mut self, fewest: usize) -> Self {
        self.0.retain(|_, values| values.delays.len() >= fewest);
        self
    }

    fn values(&self, event: Event, wss: Bytes, length: Nanos) -> Option<&LineSamples> {
        self.0.get(&(event, wss.get(), length.get(), Page::Base))
    }

    /// The delays of a cell, in the order of the samples; empty if the cell has none.
    pub(super) fn delays(&self, event: Event, wss: Bytes, length: Nanos) -> &[f64] {
        self.values(event, wss, length).map_or(&[], |it| &it.delays)
    }

    /// The median delay per line in a cell.
    pub(super) fn delay(&self, event: Event, wss: Bytes, length: Nanos) -> Option<MedianEstimate> {
        let values = self.values(event, wss, length)?;
        told(&values.delays, &values.replicates)
    }

    /// The median time per line of a warm touch in cells without an event afterwards.
    pub(super) fn warm(&self, wss: Bytes) -> Option<MedianEstimate> {
        self.warm_on(wss, Page::Base)
    }

    /// The median time per line of a warm touch on pages of this kind, in cells without an event afterwards.
    pub(super) fn warm_on(&self, wss: Bytes, page: Page) -> Option<MedianEstimate> {
        let values = self.0.get(&(Event::None, wss.get(), 0, page))?;
        told(&values.warm, &values.replicates)
    }

    /// The number of warm samples of an event at these sizes, on any pages.
    pub(super) fn samples_of(&self, event: Event, sizes: &[Bytes]) -> usize {
        let of = |(place, _): &(&TrialCellKey, &LineSamples)| {
            place.0 == event && sizes.iter().any(|it| it.get() == place.1)
        };
        self.0.iter().filter(of).map(|(_, values)| values.warm.len()).sum()
    }

    /// The mean of the median delays per line over several sizes, with the mean of their intervals.
    pub(super) fn mean_delay(
        &self,
        event: Event,
        sizes: &[Bytes],
        length: Nanos,
    ) -> Option<MedianEstimate> {
        let all: Vec<MedianEstimate> =
            sizes.iter().filter_map(|&wss| self.delay(event, wss, length)).collect();
        let mean = |of: &dyn Fn(&MedianEstimate) -> f64| {
            all.iter().map(of).sum::<f64>() / all.len() as f64
        };
        (!all.is_empty()).then(|| MedianEstimate {
            median: mean(&|it| it.median),
            ends: [mean(&|it| it.ends[0]), mean(&|it| it.ends[1])],
            n: all.iter().map(|it| it.n).sum(),
        })
    }
}

fn told(values: &[f64], replicates: &[u64]) -> Option<MedianEstimate> {
    let between = Nested::from_labelled(values, replicates).ok()?.median(ALPHA).ok()?;
    let ends = between.interval.map_or([between.estimate; 2], |it| [it.low, it.high]);
    Some(MedianEstimate { median: between.estimate, ends, n: values.len() })
}

/// Simulates groups on a platform, with `samples` samples of each cell.
///
/// # Errors
/// Returns an error if the platform cannot be simulated.
pub(super) fn simulated(
    platform: &Platform,
    groups: Vec<SamplingGroup>,
    samples: u32,
) -> Result<IdleLineTimes, CalibrationError> {
    run(platform, groups, samples, Sampling::Most)
}

/// Simulates groups on a platform with every set of every cache.
///
/// # Errors
/// Returns the errors of [`simulated`].
pub(super) fn exactly(
    platform: &Platform,
    groups: Vec<SamplingGroup>,
    samples: u32,
) -> Result<IdleLineTimes, CalibrationError> {
    run(platform, groups, samples, Sampling::Exact)
}

fn run(
    platform: &Platform,
    mut groups: Vec<SamplingGroup>,
    samples: u32,
    sampling: Sampling,
) -> Result<IdleLineTimes, CalibrationError> {
    for group in &mut groups {
        group.samples = samples;
    }
    let synthetic = Synthetic { groups, ..Preset::Quick.synthetic(platform, None, None) };
    let plan = synthetic.plan(platform, SEED)?;
    let mut machine = SimMachine::new(platform.clone())?.sampling(sampling);
    Ok(IdleLineTimes::of(&samples_of(&mut machine, &plan)?))
}

/// The relative change of private-cache touches, from the first half of a run to the second, above which the core's
/// speed has changed.
const OTHER_SPEED: f64 = 0.1;

/// Describes a change of the core's speed while the samples were taken, if there was one. The warm touches of the
/// smallest working set in earlier replicates are compared with those in later replicates.
pub fn change_of_speed(samples: &[Sample]) -> Option<String> {
    let times = IdleLineTimes::of(samples);
    let values = times.values(Event::None, SMALL[0], Nanos::new(0))?;
    let halves = Nested::from_labelled(&values.warm, &values.replicates).ok()?.in_time()?;
    let [first, second] = halves.map(|half| half.median(ALPHA).map(|between| between.estimate));
    let (first, second) = (first.ok()?, second.ok()?);
    let changed = (first.max(second) / first.min(second) - 1.0) > OTHER_SPEED;
    changed.then(|| {
        format!(
            "the speed of the host changed during the measurement: a warm touch of {} took {first:.2} ns a line in the first half and {second:.2} ns in the second",
            SMALL[0]
        )
    })
}

/// The seed of every calibration simulation, so that given samples always give the same numbers.
const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::sample;

    #[test]
    fn a_host_that_becomes_slower_is_told_so() {
        let at = |replicate: u64, warm: f64| Sample {
            event: Event::None,
            requested_length_ns: 0,
            wss_bytes: SMALL[0].get(),
            lines: 512,
            load: "idle".into(),
            page: Page::Base,
            replicate: Some(replicate),
            warm_ns: warm,
            ..sample()
        };
        let steady: Vec<Sample> = (0..20).map(|it| at(it, 600.0 + it as f64)).collect();
        assert_eq!(change_of_speed(&steady), None);
        let slower: Vec<Sample> =
            (0..20).map(|it| at(it, if it < 10 { 600.0 } else { 900.0 })).collect();
        let said = change_of_speed(&slower).unwrap();
        assert!(said.contains("1.17 ns") && said.contains("1.76 ns"), "{said}");
    }

    #[test]
    fn times_are_of_a_line_and_of_valid_samples_alone() {
        let clean = Sample { lines: 10, warm_ns: 100.0, resumed_ns: 400.0, ..sample() };
        let samples: Vec<Sample> = [(true, 400.0), (true, 600.0), (true, 800.0), (false, 1e9)]
            .map(|(valid, resumed_ns)| Sample { resumed_ns, valid, ..clean.clone() })
            .to_vec();
        let times = IdleLineTimes::of(&samples);
        let (wss, length) = (Bytes::new(clean.wss_bytes), Nanos::new(clean.requested_length_ns));
        let delay = times.delay(clean.event, wss, length).unwrap();
        assert_eq!((delay.median, delay.n), (50.0, 3));
        assert_eq!(times.delays(clean.event, wss, length), [30.0, 50.0, 70.0]);
        assert_eq!(times.delay(Event::Flush, wss, length), None);
    }
}
