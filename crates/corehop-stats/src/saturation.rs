// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preemption length at which a delay stops growing, against the time in which what runs
//! meanwhile refills the caches (Wächtler 2012, sections 5.1.1 and 5.3.2, Figs. 5.4 to 5.7).
//!
//! A delay grows with the preemption length until every useful line is evicted; cold less warm is
//! where it must end. Wächtler predicts that length from the load: after as many misses as a cache has
//! lines, most of its lines are others'. The prediction assumes that lines are replaced in the order of
//! their age and that what fills the cache is nowhere in it yet: the first makes it a lower end, since
//! real caches spare some old lines.
//!
//! The fixed point of a noisy curve needs a tolerance: [`STILL`] of the greatest median.

use serde::Serialize;

use super::cell::CellKey;
use super::delay::DelayStatistics;
use super::summary::CellSummary;
use super::verdict::NEGLIGIBLE;
use corehop_plan::platform::Platform;
use corehop_plan::words::words;
use corehop_plan::workload::LINE;

/// The experiment whose delays are told by the preemption length.
pub const SWEEP: &str = "polluter-sweep";

/// A delay has stopped growing where no longer preemption costs more by over this share of the
/// greatest median.
pub const STILL: f64 = 0.1;

/// A cache that holds data, as far as it matters to refilling it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefillTarget {
    /// `L1d`, `L2`, …
    pub cache: String,
    /// The size of an instance: as declared, or as found where that is contradicted.
    pub bytes: u64,
    /// The number of instances.
    pub instances: u64,
    /// The number of CPUs that share one.
    pub sharers: u64,
}

impl RefillTarget {
    /// The caches that serve the first usable CPU of `platform`, innermost first.
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
    /// The source of the rate at which lines come into the caches.
    FillSource, "a source" {
        /// The rate comes from the lines that the preemptor accessed, on one CPU.
        Preemptor = "lines the preemptor walked",
        /// The rate comes from the bytes that the load moved, on all its CPUs.
        Load = "bytes the load moved",
        /// The rate comes from the last-level cache misses that all CPUs counted while the load ran.
        Misses = "misses counted",
    }
}

/// The rate at which lines come into the caches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FillRate {
    /// Lines a second.
    pub lines_per_s: f64,
    /// The source of the rate.
    pub source: FillSource,
}

/// The time in which as many lines come into a cache as it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refill {
    /// `L1d`, `L2`, …
    pub cache: String,
    /// The time in microseconds; None where the rate says nothing of this cache, or what runs is
    /// smaller than it.
    pub time_us: Option<f64>,
}

/// The length at which a delay stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SaturationLength {
    /// At this preemption length, in microseconds.
    At {
        /// By the medians.
        length_us: f64,
        /// The shortest length for which it cannot be excluded.
        earliest_us: Option<f64>,
        /// The shortest length for which it is sure; None where it is for none.
        latest_us: Option<f64>,
    },
    /// It still grew at the longest length measured, in microseconds.
    NotBy {
        /// That length.
        longest_us: f64,
    },
    /// There is no delay that could grow: at no length is it more than a trifle beside the warm touch.
    NoDelay,
}

/// The delay of one working set, under one load, by preemption length. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturation {
    /// The cell of the longest length.
    pub cell: CellKey,
    /// The number of lengths.
    pub lengths: usize,
    /// The length at which it stops growing.
    pub reached: SaturationLength,
    /// The median delay at the longest length.
    pub final_us: f64,
    /// Cold less warm there, at the median: what losing every line costs.
    pub bound_us: Option<f64>,
    /// The delay as a share of that; None of a bound that is not above 0.
    pub share_of_bound: Option<f64>,
    /// The rate at which lines come into the caches.
    pub fill: Option<FillRate>,
    /// The caches, innermost first, and how long refilling each takes at that rate.
    pub refills: Vec<Refill>,
}

/// The misses of a load in a file: its word, its command, the misses a second.
pub type CountedMisses = (String, Option<String>, f64);

/// The saturation of every series of a sweep that has at least two lengths.
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

/// Whether two cells differ in nothing but the preemption length.
pub fn same_but_length(a: &CellKey, b: &CellKey) -> bool {
    *a == CellKey { preemption_length: a.preemption_length.clone(), ..b.clone() }
}

/// A length and the median delay after it, with its interval.
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

/// The length at which the delays of `steps`, by ascending length, stop growing.
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

/// The rate of what ran in the absences of `cell`: of the preemptor or the load, or as counted.
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

/// The time in which as many lines come into an instance of `target` as it has; None where all that
/// what runs walks, so many `bytes` on each CPU, fits into it: it evicts nothing once it is there.
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
