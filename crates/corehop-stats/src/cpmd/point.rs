// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements at one working-set size and preemption length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::delay::{ALPHA, nested_quantile};
use crate::ordered::Ordered;
use crate::replicates::Nested;
use corehop_plan::words::words;

words! {
    /// A statistic of the delays at a point.
    Statistic, "a statistic" {
        /// The mean of the delays.
        Mean = "mean",
        /// Half of the delays do not exceed this value.
        Median = "median",
        /// Nine in ten delays do not exceed this value.
        P90 = "p90",
        /// Ninety-nine in a hundred delays do not exceed this value.
        P99 = "p99",
        /// The longest measured delay; more samples can show a longer delay.
        Max = "max",
    }
}

impl Statistic {
    /// Returns the probability of the quantile, or `None` for a statistic that is not a quantile.
    fn share(self) -> Option<f64> {
        match self {
            Self::Median => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::Mean | Self::Max => None,
        }
    }

    /// Returns the smallest number of samples that supports the statistic: with fewer samples, a
    /// quantile would show little more than the largest sample.
    fn needs(self) -> usize {
        match self {
            Self::P90 => 20,
            Self::P99 => 200,
            Self::Mean | Self::Median | Self::Max => 1,
        }
    }
}

/// A value with its interval, in microseconds. An end that the samples do not support is None.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostEstimate {
    /// The estimate of the cost in microseconds.
    pub estimate_us: f64,
    /// The lower end of the interval.
    pub low_us: Option<f64>,
    /// The upper end of the interval.
    pub high_us: Option<f64>,
}

impl CostEstimate {
    /// Returns whether the interval ends before the interval of `other` begins.
    pub fn surely_less(&self, other: &Self) -> bool {
        self.high_us.zip(other.low_us).is_some_and(|(high, low)| high < low)
    }

    /// Returns whether the interval is above zero.
    pub fn surely_positive(&self) -> bool {
        self.low_us.is_some_and(|low| low > 0.0)
    }

    /// Returns the difference from another, independent estimate: the distances from the estimates to
    /// their ends are added as squares (Zou and Donner, Statistics in Medicine 27, 2008).
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        let estimate_us = self.estimate_us - other.estimate_us;
        let reach = |end: Option<f64>, its: Option<f64>| {
            let apart =
                |(end, its): (f64, f64)| (end - self.estimate_us).hypot(its - other.estimate_us);
            end.zip(its).map(apart)
        };
        Self {
            estimate_us,
            low_us: reach(self.low_us, other.high_us).map(|reach| estimate_us - reach),
            high_us: reach(self.high_us, other.low_us).map(|reach| estimate_us + reach),
        }
    }
}

/// The delays at one size and length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayPoint {
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The median preemption length, in microseconds; 0 if the job resumed at once.
    pub length_us: f64,
    /// The shortest preemption length, in microseconds.
    pub least_length_us: f64,
    /// The longest preemption length, in microseconds.
    pub most_length_us: f64,
    /// The number of valid samples of the point.
    pub n: usize,
    /// The number of replicates of the samples.
    pub replicates: usize,
    /// The statistics that the samples support.
    pub delay: BTreeMap<Statistic, CostEstimate>,
}

/// The values of a valid sample that a model needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DelaySample {
    /// The time off the CPU, in microseconds.
    pub(super) length_us: f64,
    /// The delay of the sample in microseconds.
    pub(super) delay_us: f64,
    /// The replicate to which the sample belongs.
    pub(super) replicate: u64,
}

/// Returns the delays grouped by replicate.
pub(super) fn nested(seen: &[DelaySample]) -> Option<Nested> {
    let (delays, labels): (Vec<f64>, Vec<u64>) =
        seen.iter().map(|it| (it.delay_us, it.replicate)).unzip();
    Nested::from_labelled(&delays, &labels).ok()
}

/// The range, as ratios to measured lengths, in which a requested length counts as measured, because a
/// sleep overshoots.
const NEAR: (f64, f64) = (0.9, 1.1);

impl DelayPoint {
    /// Returns whether the point has absences of about this length, in microseconds.
    pub fn saw(&self, length_us: f64) -> bool {
        (self.least_length_us * NEAR.0..=self.most_length_us * NEAR.1).contains(&length_us)
    }

    /// Returns the statistics of delays after absences, in the order of measurement; `in_a_row`
    /// consecutive replicates count as one. Returns `None` if there are no delays, or if a delay is not
    /// a number.
    pub(super) fn of(wss_bytes: u64, seen: &[DelaySample], in_a_row: f64) -> Option<Self> {
        let of = |value: fn(&DelaySample) -> f64| seen.iter().map(value).collect::<Vec<f64>>();
        let lengths = Ordered::new(&of(|it| it.length_us)).ok()?;
        let delays = of(|it| it.delay_us);
        let nested = nested(seen)?.depending(in_a_row);
        let sorted = Ordered::new(&delays).ok()?;
        let cost = |&statistic: &Statistic| Some((statistic, cost(statistic, &nested, &sorted)?));
        Some(Self {
            wss_bytes,
            length_us: crate::quantile::median(&lengths),
            least_length_us: lengths.min(),
            most_length_us: lengths.max(),
            n: delays.len(),
            replicates: nested.replicates(),
            delay: Statistic::ALL.iter().filter_map(cost).collect(),
        })
    }
}

/// Returns a statistic of delays, which are given both by replicate and sorted.
fn cost(statistic: Statistic, nested: &Nested, sorted: &Ordered) -> Option<CostEstimate> {
    if sorted.len() < statistic.needs() {
        return None;
    }
    if let Some(share) = statistic.share() {
        let quantile = nested_quantile(nested, share)?;
        let (low_us, high_us) = (quantile.low, quantile.high);
        return Some(CostEstimate { estimate_us: quantile.estimate, low_us, high_us });
    }
    if statistic == Statistic::Max {
        // It bounds itself from below, and nothing bounds it from above.
        let max = sorted.max();
        return Some(CostEstimate { estimate_us: max, low_us: Some(max), high_us: None });
    }
    let mean = nested.mean(ALPHA).ok()?;
    let low_us = mean.interval.map(|interval| interval.low);
    let high_us = mean.interval.map(|interval| interval.high);
    Some(CostEstimate { estimate_us: mean.estimate, low_us, high_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_costs_reaches_as_far_as_the_squares_of_both_say() {
        let cost =
            |estimate_us, low, high| CostEstimate { estimate_us, low_us: Some(low), high_us: high };
        let (a, b) = (cost(10.0, 7.0, Some(14.0)), cost(4.0, 1.0, Some(8.0)));
        // Down: 3 and 4 make 5; up: 4 and 3 make 5.
        assert_eq!(a.less(&b), cost(6.0, 1.0, Some(11.0)));
        assert_eq!(a.less(&cost(4.0, 1.0, None)).low_us, None);
        assert!(a.less(&b).surely_positive() && !a.surely_less(&b));
    }

    #[test]
    fn a_point_has_the_statistics_that_its_samples_carry() {
        let at = |delay_us, replicate| DelaySample { length_us: 4000.0, delay_us, replicate };
        let seen: Vec<DelaySample> =
            (1..=21_u32).map(|k| at(f64::from(k), u64::from(k % 7))).collect();
        let point = DelayPoint::of(4096, &seen, 1.0).unwrap();
        assert_eq!((point.n, point.length_us, point.delay.len()), (21, 4000.0, 4));
        assert!((point.delay[&Statistic::Mean].estimate_us - 11.0).abs() < 1e-12);
        assert!((point.delay[&Statistic::P90].estimate_us - 19.0).abs() < 1e-12);
        assert!(!point.delay.contains_key(&Statistic::P99));
        let max = point.delay[&Statistic::Max];
        assert_eq!((max.estimate_us, max.low_us, max.high_us), (21.0, Some(21.0), None));
        assert_eq!(DelayPoint::of(4096, &[], 1.0), None);
        assert_eq!(DelayPoint::of(4096, &[at(f64::NAN, 0)], 1.0), None);
    }
}
