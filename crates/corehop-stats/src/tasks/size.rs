// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays by the number of tasks: Fig. 4 of Bastoni et al., and observation 5 with an interval.
//!
//! A maximum grows with the number of samples. Therefore, for each class of event and each working set,
//! maxima are compared over equal numbers of samples: the first k_min of each trace (section 3.1). A trace
//! is all samples of the runs with one number of tasks, taken from the runs in turn. k_min is the length of
//! the shortest trace with at least [`LEAST_SAMPLES`] samples; shorter traces are listed, but not compared.
//!
//! Intervals are percentiles of a bootstrap that draws runs, and then samples within each run, because
//! samples of one run share its tasks. A few runs drawn from themselves vary less than runs really do, so
//! the ends for `n` runs are moved out by the square root of n/(n - 1). A single run has an interval of its
//! samples alone, which cannot reflect other runs. Ends beyond the reach of the resamples are extrapolated
//! from reachable ends with the normal distribution of a ratio's logarithm. The interval of a maximum shows
//! its variation over observed values; it cannot know unobserved values.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{TaskRunFiles, Under, millionths};
use crate::delay::ALPHA;
use crate::ordered::{Interval, Ordered};
use crate::paired::{exceeded, to_detectable};
use crate::quantile::median;
use crate::verdict::{COMPARABLE, Comparison, Says};
use corehop_plan::experiment::DrawStream;
use corehop_plan::words::words;
use corehop_plan::workload::Event;

/// The number of samples that a trace needs for a comparison.
pub const LEAST_SAMPLES: usize = 10;
/// The number of resamples of the bootstrap.
const RESAMPLES: usize = 2_000;
/// The number of resamples that must be beyond an end for the end to be read from them.
const BEYOND: f64 = 10.0;

/// The class, the size and the write ratio (in millionths) under a scheduler and a load.
type SizeGroupKey = (Under, Event, u64, u64);
/// The delays of each run in order, by number of tasks.
type Traces = BTreeMap<u64, BTreeMap<(usize, u64), Vec<f64>>>;

words! {
    /// The statistic by which delays of task sets of different sizes are compared.
    Statistic, "a statistic" {
        /// The largest of the first k_min delays.
        Max = "max",
        /// The mean of the delays.
        Mean = "mean",
        /// The median of the delays.
        Median = "median",
    }
}

/// The delays of one class for one number of tasks, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizePoint {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The class of event that the absences have.
    pub event: Event,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The number of tasks in each set.
    pub task_count: u64,
    /// The number of runs that yielded samples.
    pub runs: usize,
    /// The number of valid samples of the runs that yielded samples.
    pub n: usize,
    /// The number of samples that the maxima of this class and size use, or `None` if this trace is too
    /// short.
    pub k_min: Option<usize>,
    /// The largest of the first k_min delays.
    pub max_us: Option<f64>,
    /// The largest of the delays of all samples.
    pub max_of_all_us: f64,
    /// The mean of the delays of all samples.
    pub mean_us: f64,
    /// The median of the delays of all samples.
    pub median_us: f64,
}

/// The effect on delays of increasing the number of tasks from the smallest to the largest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeEffect {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The class of event that the absences have.
    pub event: Event,
    /// The statistic of the delays that is compared.
    pub statistic: Statistic,
    /// The smallest number of tasks that is compared.
    pub from_tasks: u64,
    /// The largest number of tasks that is compared.
    pub to_tasks: u64,
    /// The statistic at the largest number of tasks divided by the statistic at the smallest.
    pub comparison: Comparison,
    /// The smallest ratio that this number of samples distinguishes from 1 in four of five experiments,
    /// which means that the interval of the comparison excludes 1.
    pub detectable: Option<f64>,
}

/// Returns all points, and the effects of the number of tasks.
pub(super) fn sizes(pairs: &[&TaskRunFiles]) -> (Vec<SizePoint>, Vec<SizeEffect>) {
    let mut groups: BTreeMap<SizeGroupKey, Traces> = BTreeMap::new();
    for (file, pair) in pairs.iter().enumerate() {
        for (run, of, delay) in pair.of_runs() {
            let ratio = millionths(delay.write_ratio);
            let group = (of.under.clone(), delay.event, delay.wss_bytes, ratio);
            let traces = groups.entry(group).or_default().entry(of.task_count).or_default();
            traces.entry((file, run)).or_default().push(delay.micros);
        }
    }
    let points = groups.iter().flat_map(|(group, traces)| points(group, traces)).collect();
    let compared = |(group, traces): &(&SizeGroupKey, &Traces)| {
        let long = traces.values().filter(|runs| long_enough(runs)).count();
        long > 1 && counts(&group.0)
    };
    let comparisons = groups.iter().filter(compared).count() * Statistic::ALL.len();
    let effects = groups.iter().flat_map(|(group, traces)| effects(group, traces, comparisons));
    (points, effects.collect())
}

/// Returns whether observation 5 concerns this machine, scheduler and load.
pub(super) fn counts(under: &Under) -> bool {
    &*under.load != "idle"
}

fn long_enough(runs: &BTreeMap<(usize, u64), Vec<f64>>) -> bool {
    runs.values().map(Vec::len).sum::<usize>() >= LEAST_SAMPLES
}

/// Returns the length of the shortest trace that is long enough for a comparison.
fn k_min(traces: &Traces) -> Option<usize> {
    let lengths = traces.values().filter(|runs| long_enough(runs));
    lengths.map(|runs| runs.values().map(Vec::len).sum()).min()
}

/// Returns the samples of several runs, taken from each run in turn.
fn in_turn(runs: &[&[f64]]) -> Vec<f64> {
    let longest = runs.iter().map(|run| run.len()).max().unwrap_or(0);
    (0..longest).flat_map(|at| runs.iter().filter_map(move |run| run.get(at).copied())).collect()
}

fn of(statistic: Statistic, values: &[f64], k_min: usize) -> Option<f64> {
    match statistic {
        Statistic::Max => values.iter().take(k_min).copied().reduce(f64::max),
        Statistic::Mean => {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        }
        Statistic::Median => Ordered::new(values).ok().map(|values| median(&values)),
    }
}

fn points(group: &SizeGroupKey, traces: &Traces) -> Vec<SizePoint> {
    let (under, event, wss_bytes, ratio) = group.clone();
    let k_min = k_min(traces);
    let point = |(&task_count, runs): (&u64, &BTreeMap<_, Vec<f64>>)| {
        let k_min = k_min.filter(|_| long_enough(runs));
        let all = in_turn(&runs.values().map(Vec::as_slice).collect::<Vec<_>>());
        let value = |statistic| of(statistic, &all, all.len()).unwrap_or(f64::NAN);
        SizePoint {
            under: under.clone(),
            event,
            wss_bytes,
            write_ratio: ratio as f64 / 1e6,
            task_count,
            runs: runs.len(),
            n: all.len(),
            k_min,
            max_us: k_min.and_then(|k_min| of(Statistic::Max, &all, k_min)),
            max_of_all_us: value(Statistic::Max),
            mean_us: value(Statistic::Mean),
            median_us: value(Statistic::Median),
        }
    };
    traces.iter().map(point).collect()
}

fn effects(group: &SizeGroupKey, traces: &Traces, comparisons: usize) -> Vec<SizeEffect> {
    let (under, event, wss_bytes, ratio) = group.clone();
    let Some(k_min) = k_min(traces) else { return Vec::new() };
    let long: Vec<_> = traces.iter().filter(|(_, runs)| long_enough(runs)).collect();
    let (Some(&(&from_tasks, first)), Some(&(&to_tasks, last))) = (long.first(), long.last())
    else {
        return Vec::new();
    };
    if from_tasks == to_tasks {
        return Vec::new();
    }
    let runs = |of: &BTreeMap<_, Vec<f64>>| of.values().cloned().collect::<Vec<_>>();
    let (first, last) = (runs(first), runs(last));
    let effect = |&statistic: &Statistic| {
        let ratios = Ratios::new(&first, &last, statistic, k_min)?;
        let narrow = ratios.interval(2.0 * ALPHA);
        let wide = ratios.interval(ALPHA / comparisons.max(1) as f64);
        let most = 1.0 + COMPARABLE;
        let fits = narrow.is_some_and(|it| it.low >= 1.0 / most && it.high <= most);
        let contradicts = wide.is_some_and(|it| it.low > most || it.high < 1.0 / most);
        Some(SizeEffect {
            under: under.clone(),
            event,
            statistic,
            from_tasks,
            to_tasks,
            comparison: Comparison {
                what: format!(
                    "{statistic} delay of {event} with {to_tasks} tasks over that with \
                     {from_tasks}, {}, load {}, write ratio {}",
                    under.scheduler,
                    under.load,
                    ratio as f64 / 1e6
                ),
                wss_bytes,
                estimate: ratios.estimate,
                interval: narrow,
                why_none: None,
                margin: COMPARABLE,
                unit: "1",
                says: match (fits, contradicts) {
                    (_, true) => Says::Contradicts,
                    (true, false) => Says::Fits,
                    (false, false) => Says::Open,
                },
            },
            detectable: narrow.map(|it| ((it.high / it.low).ln() / 2.0 * to_detectable(&it)).exp()),
        })
    };
    Statistic::ALL.iter().filter_map(effect).collect()
}

/// A ratio, and the sorted logarithms of the resamples' ratios.
struct Ratios {
    estimate: f64,
    resampled: Vec<f64>,
    /// The factor that widens the interval, because resamples of a few runs vary less than the runs
    /// themselves.
    stretch: f64,
}

impl Ratios {
    /// Returns the ratio of the statistic of the last runs to the statistic of the first runs, or `None` if
    /// a statistic is not above 0.
    fn new(
        first: &[Vec<f64>],
        last: &[Vec<f64>],
        statistic: Statistic,
        k_min: usize,
    ) -> Option<Self> {
        let ratio = |first: &[Vec<f64>], last: &[Vec<f64>]| {
            let value = |runs: &[Vec<f64>]| {
                let all = in_turn(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
                of(statistic, &all, k_min).filter(|&value| value > 0.0)
            };
            Some(value(last)? / value(first)?)
        };
        let estimate = ratio(first, last)?;
        let mut draw = DrawStream::new(0x0b5e_7265, statistic as u64);
        let mut resampled: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let again = [first, last].map(|runs| resample(runs, k_min, &mut draw));
                Some(ratio(&again[0], &again[1])?.ln())
            })
            .collect();
        resampled.sort_by(f64::total_cmp);
        let runs = first.len().min(last.len()) as f64;
        let stretch = if runs > 1.0 { (runs / (runs - 1.0)).sqrt() } else { 1.0 };
        Some(Self { estimate, resampled, stretch })
    }

    /// Returns the interval at confidence `1 - alpha`, or `None` if too many resamples have no ratio.
    fn interval(&self, alpha: f64) -> Option<Interval> {
        let n = self.resampled.len();
        if n * 10 < RESAMPLES * 9 {
            return None;
        }
        let (share, reached) = (alpha / 2.0, BEYOND / n as f64);
        let further = if share < reached { exceeded(share) / exceeded(reached) } else { 1.0 };
        let out = (n as f64 * share.max(reached)) as usize;
        let middle = self.resampled[n / 2];
        let end =
            |at: usize| (middle + (self.resampled[at] - middle) * further * self.stretch).exp();
        Some(Interval { low: end(out), high: end(n - 1 - out), level: 1.0 - alpha })
    }
}

/// Draws as many runs as there are, with replacement, and from each drawn run as many samples as the run
/// has, with replacement. If short runs are drawn, further runs follow until there are `least` samples for
/// a maximum.
fn resample(runs: &[Vec<f64>], least: usize, draw: &mut DrawStream) -> Vec<Vec<f64>> {
    let (mut again, mut samples) = (Vec::with_capacity(runs.len()), 0);
    while again.len() < runs.len() || samples < least {
        let run = draw.from(runs);
        samples += run.len();
        again.push((0..run.len()).map(|_| *draw.from(run)).collect());
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes as many ratios as there are resamples, whose logarithms are standard normal.
    fn normal(stretch: f64) -> Ratios {
        let at = |at: usize| exceeded(1.0 - (at as f64 + 0.5) / RESAMPLES as f64);
        Ratios { estimate: 1.0, resampled: (0..RESAMPLES).map(at).collect(), stretch }
    }

    #[test]
    fn ends_lie_where_the_law_has_them_within_and_beyond_what_resamples_reach() {
        let ends = |alpha| normal(1.0).interval(alpha).unwrap();
        for (alpha, end) in
            [(0.1, 1.644_9), (0.05, 1.960_0), (0.05 / 30.0, 3.143), (0.05 / 480.0, 3.882)]
        {
            let Interval { low, high, level } = ends(alpha);
            assert!((level - (1.0 - alpha)).abs() < 1e-12);
            assert!(
                (high.ln() - end).abs() < 0.02 * end && (low.ln() + end).abs() < 0.02 * end,
                "{alpha}: {low} {high}"
            );
        }
        // Two runs: moved out by the square root of two.
        let two = normal(2.0_f64.sqrt()).interval(0.1).unwrap();
        assert!((two.high.ln() - 1.644_9 * 2.0_f64.sqrt()).abs() < 0.05, "{}", two.high.ln());
    }

    #[test]
    fn ratios_of_few_runs_are_stretched_by_their_number() {
        let runs = |count: usize| vec![(1..=20).map(f64::from).collect::<Vec<_>>(); count];
        let stretch = |first, last| {
            Ratios::new(&runs(first), &runs(last), Statistic::Mean, 20).unwrap().stretch
        };
        assert!((stretch(2, 10) - 2.0_f64.sqrt()).abs() < 1e-12);
        assert!((stretch(10, 10) - (10.0_f64 / 9.0).sqrt()).abs() < 1e-12);
        assert!((stretch(1, 10) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn every_resample_has_samples_enough_for_a_maximum() {
        let runs = [vec![1.0; 30], vec![1.0; 2]];
        let mut draw = DrawStream::new(1, 1);
        for _ in 0..100 {
            let again = resample(&runs, 32, &mut draw);
            assert!(again.iter().map(Vec::len).sum::<usize>() >= 32 && again.len() >= 2);
        }
    }

    #[test]
    fn every_run_is_drawn() {
        let runs = [vec![1.0], vec![2.0], vec![3.0]];
        let mut draw = DrawStream::new(1, 1);
        let drawn: Vec<f64> =
            (0..100).flat_map(|_| resample(&runs, 1, &mut draw).concat()).collect();
        for value in [1.0, 2.0, 3.0] {
            let share = drawn.iter().filter(|&&it| (it - value).abs() < 0.5).count();
            assert!((60..140).contains(&share), "{value}: {share} of {}", drawn.len());
        }
    }
}
