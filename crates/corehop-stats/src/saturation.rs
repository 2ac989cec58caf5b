// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preemption length at which a delay stops growing, compared with the time in which the preempting
//! work refills the caches (Wächtler 2012, sections 5.1.1 and 5.3.2, Figs. 5.4 to 5.7).
//!
//! A delay grows with the preemption length until every useful line is evicted; the cold minus the warm
//! time is its limit. Wächtler predicts this length from the load: after as many misses as a cache has
//! lines, most of its lines belong to other threads. The prediction assumes that lines are replaced in
//! the order of their age, and that the lines which fill the cache are not yet in it. Real caches spare
//! some old lines, so the prediction is a lower bound.
//!
//! Finding the fixed point of a noisy curve needs a tolerance: [`STILL`] of the largest median.

use serde::Serialize;

use super::cell::CellKey;
use super::delay::DelayStatistics;
use super::summary::CellSummary;
use super::verdict::NEGLIGIBLE;
use corehop_plan::platform::Platform;
use corehop_plan::words::words;
use corehop_plan::workload::LINE;

/// The experiment that measures delays against the preemption length.
pub const SWEEP: &str = "polluter-sweep";

/// The largest increase at longer preemptions, as a share of the largest median, with which a delay
/// still counts as no longer growing.
pub const STILL: f64 = 0.1;

/// A data cache, with the properties that determine how fast it is refilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefillTarget {
    /// The label of the cache, such as `L1d` or `L2`.
    pub cache: String,
    /// The size of an instance: the declared size, or the measured size if it contradicts the declared
    /// size.
    pub bytes: u64,
    /// The number of instances of the cache on the machine.
    pub instances: u64,
    /// The number of CPUs that share an instance.
    pub sharers: u64,
}

impl RefillTarget {
    /// Returns the caches that serve the first usable CPU of `platform`, innermost first.
    pub fn of(platform: &Platform) -> Vec<Self> {
        let cpu = platform.usable().first().unwrap_or_default();
        let target = |cache: &corehop_plan::platform::Cache| {
            let sharers = cache.instances.value.containing(cpu)?.len() as u64;
            let (bytes, instances) = (cache.capacity()?.get(), cache.instances.value.len() as u64);
            Some(Self { cache: cache.label(), bytes, instances, sharers })
        };
        platform.data_caches(cpu).filter_map(target).collect()
    }
}

words! {
    /// The source of the rate at which lines enter the caches.
    FillSource, "a source" {
        /// The rate comes from the lines that the preemptor accessed, on one CPU.
        Preemptor = "lines the preemptor walked",
        /// The rate comes from the bytes that the load moved, on all its CPUs.
        Load = "bytes the load moved",
        /// The rate comes from the last-level cache misses that all CPUs counted while the load ran.
        Misses = "misses counted",
    }
}

/// The rate at which lines enter the caches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FillRate {
    /// The number of lines per second.
    pub lines_per_s: f64,
    /// The source from which the rate is known.
    pub source: FillSource,
}

/// The time in which as many lines enter a cache as it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refill {
    /// The label of the cache, such as `L1d` or `L2`.
    pub cache: String,
    /// The time in microseconds, or `None` if the rate does not apply to this cache, or if the running
    /// work fits into it.
    pub time_us: Option<f64>,
}

/// The length at which a delay stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SaturationLength {
    /// The delay stops growing at this preemption length.
    At {
        /// The length by the medians, in microseconds.
        length_us: f64,
        /// The shortest length that cannot be excluded, in microseconds.
        earliest_us: Option<f64>,
        /// The shortest length at which the delay has certainly stopped growing, in microseconds, or
        /// `None` if there is none.
        latest_us: Option<f64>,
    },
    /// The delay still grew at the longest measured length.
    NotBy {
        /// The longest measured length, in microseconds.
        longest_us: f64,
    },
    /// The cell has no delay that could grow: at every length it is negligible compared with the warm
    /// touch.
    NoDelay,
}

/// The delay of one working set under one load, as a function of the preemption length. The times of
/// the saturation are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturation {
    /// The cell with the longest preemption length.
    pub cell: CellKey,
    /// The number of preemption lengths that were measured.
    pub lengths: usize,
    /// The length at which the delay stops growing.
    pub reached: SaturationLength,
    /// The median delay at the longest length.
    pub final_us: f64,
    /// The median of cold minus warm at the longest length, which is the cost of losing every line.
    pub bound_us: Option<f64>,
    /// The delay at the longest length as a share of `bound_us`, or `None` if that bound is not above
    /// 0.
    pub share_of_bound: Option<f64>,
    /// The rate at which lines enter the caches.
    pub fill: Option<FillRate>,
    /// The caches, innermost first, each with the time to refill the cache at the rate `fill`.
    pub refills: Vec<Refill>,
}

/// The counted misses of a load in a file: the load's word, its command, and the misses per second.
pub type CountedMisses = (String, Option<String>, f64);

/// Returns the saturation of every series of a sweep with at least two lengths.
pub fn saturations(
    summaries: &[CellSummary],
    targets: &[RefillTarget],
    misses: &[CountedMisses],
) -> Vec<Saturation> {
    let mut series: Vec<Vec<&CellSummary>> = Vec::new();
    for cell in summaries.iter().filter(|cell| &*cell.cell.experiment == SWEEP) {
        match series.iter_mut().find(|other| same_but_length(&other[0].cell, &cell.cell)) {
            Some(known) => known.push(cell),
            None => series.push(vec![cell]),
        }
    }
    series.into_iter().filter_map(|cells| saturation(cells, targets, misses)).collect()
}

/// Returns whether two cells differ at most in the preemption length.
pub fn same_but_length(a: &CellKey, b: &CellKey) -> bool {
    *a == CellKey { preemption_length: a.preemption_length.clone(), ..b.clone() }
}

/// A preemption length, with the median delay after it and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SaturationPoint {
    length_us: f64,
    delay_us: f64,
    interval: Option<(f64, f64)>,
}

impl SaturationPoint {
    fn of(cell: &CellSummary) -> Option<Self> {
        let median = *cell.delay.as_ref().map(DelayStatistics::median)?;
        let length_us = cell.length_us?.estimate;
        let interval = median.low.zip(median.high);
        Some(Self { length_us, delay_us: median.estimate, interval })
    }
}

fn saturation(
    mut cells: Vec<&CellSummary>,
    targets: &[RefillTarget],
    misses: &[CountedMisses],
) -> Option<Saturation> {
    cells.retain(|cell| SaturationPoint::of(cell).is_some());
    let length = |cell: &CellSummary| cell.length_us.map_or(0.0, |length| length.estimate);
    cells.sort_by(|a, b| length(a).total_cmp(&length(b)));
    let steps: Vec<SaturationPoint> =
        cells.iter().filter_map(|cell| SaturationPoint::of(cell)).collect();
    let (last, longest) = (*cells.last()?, *steps.last()?);
    if steps.len() < 2 {
        return None;
    }
    let warm_us = last.warm_us.map_or(0.0, |warm| warm.estimate);
    let bound_us = last.cold_bound_us.map(|bound| bound.estimate);
    let fill = fill(last, misses);
    let refill = |(place, target): (usize, &RefillTarget)| Refill {
        cache: target.cache.clone(),
        time_us: fill.and_then(|fill| {
            // Misses are counted at the last cache; into the inner ones more lines come.
            let told = fill.source != FillSource::Misses || place + 1 == targets.len();
            if told { refill_us(target, fill, last.cell.polluter_bytes()) } else { None }
        }),
    };
    Some(Saturation {
        cell: last.cell.clone(),
        lengths: steps.len(),
        reached: reached(&steps, warm_us),
        final_us: longest.delay_us,
        bound_us,
        share_of_bound: bound_us.filter(|&us| us > 0.0).map(|bound| longest.delay_us / bound),
        fill,
        refills: targets.iter().enumerate().map(refill).collect(),
    })
}

/// Returns the length at which the delays of `steps`, in ascending order of length, stop growing.
fn reached(steps: &[SaturationPoint], warm_us: f64) -> SaturationLength {
    let top = steps.iter().map(|step| step.delay_us).fold(0.0, f64::max);
    if top <= NEGLIGIBLE * warm_us {
        return SaturationLength::NoDelay;
    }
    let margin = STILL * top;
    // The last step has no longer one; of it nothing can be said.
    let shortest = |grows: &dyn Fn(&SaturationPoint, &SaturationPoint) -> bool| {
        let mut places = 0..steps.len() - 1;
        let still = |&at: &usize| !steps[at + 1..].iter().any(|longer| grows(&steps[at], longer));
        places.find(still).map(|at| steps[at].length_us)
    };
    let surely = |here: &SaturationPoint, longer: &SaturationPoint| {
        let ends = here.interval.zip(longer.interval);
        ends.is_some_and(|(here, longer)| longer.0 - here.1 > margin)
    };
    let possibly = |here: &SaturationPoint, longer: &SaturationPoint| {
        let ends = here.interval.zip(longer.interval);
        ends.is_none_or(|(here, longer)| longer.1 - here.0 > margin)
    };
    match shortest(&|here, longer| longer.delay_us - here.delay_us > margin) {
        Some(length_us) => SaturationLength::At {
            length_us,
            earliest_us: shortest(&surely),
            latest_us: shortest(&possibly),
        },
        None => SaturationLength::NotBy { longest_us: steps[steps.len() - 1].length_us },
    }
}

/// Returns the rate of the work that ran in the absences of `cell`: of the preemptor, of the load, or
/// of counted misses.
fn fill(cell: &CellSummary, misses: &[CountedMisses]) -> Option<FillRate> {
    let walked = cell.preemptor_lines_per_s.map(|lines| (lines.estimate, FillSource::Preemptor));
    let counted = misses.iter().find(|(load, runs, _)| {
        *load == *cell.cell.load && runs.as_deref() == cell.cell.polluter.as_deref()
    });
    let counted = counted.map(|&(.., misses)| (misses, FillSource::Misses));
    let moved = cell.load_bytes_per_s;
    let moved = moved.map(|bytes| (bytes.estimate / LINE as f64, FillSource::Load));
    let (lines_per_s, source) = walked.or(counted).or(moved)?;
    (lines_per_s > 0.0).then_some(FillRate { lines_per_s, source })
}

/// Returns the time in which as many lines enter an instance of `target` as it has. Returns `None` if
/// the working sets of `bytes` of all walkers of the instance fit into the instance together, because
/// they then evict nothing once they are loaded.
fn refill_us(target: &RefillTarget, fill: FillRate, bytes: Option<u64>) -> Option<f64> {
    let (walkers, instances) = match fill.source {
        FillSource::Preemptor => (1, 1),
        FillSource::Load | FillSource::Misses => (target.sharers, target.instances.max(1)),
    };
    let fits = bytes.is_some_and(|bytes| walkers * bytes < target.bytes);
    let lines = target.bytes as f64 / LINE as f64;
    let time_us = 1e6 * lines * instances as f64 / fill.lines_per_s;
    (!fits || fill.source == FillSource::Misses).then_some(time_us)
}

#[cfg(test)]
mod tests;
