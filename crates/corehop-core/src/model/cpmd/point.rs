// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was measured at one working-set size and preemption length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::delay::ALPHA;
use crate::model::moments::moments;
use crate::model::ordered::Ordered;
use crate::model::quantile::quantile_interval;
use crate::words::words;

words! {
    /// A statistic of a delay.
    Statistic, "a statistic" {
        /// The mean.
        Mean = "mean",
        /// Half of all delays are at most so long.
        Median = "median",
        /// Nine in ten are at most so long.
        P90 = "p90",
        /// Ninety-nine in a hundred are at most so long.
        P99 = "p99",
        /// The longest of those seen; more samples may show a longer one.
        Max = "max",
    }
}

impl Statistic {
    /// Which quantile it is, if it is one.
    fn share(self) -> Option<f64> {
        match self {
            Self::Median => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::Mean | Self::Max => None,
        }
    }

    /// How many samples it takes for it to be more than the longest one.
    fn needs(self) -> usize {
        match self {
            Self::P90 => 20,
            Self::P99 => 200,
            Self::Mean | Self::Median | Self::Max => 1,
        }
    }
}

/// A value with its interval, in microseconds. An end that the samples do not carry is None.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The estimate.
    pub estimate_us: f64,
    /// The lower end.
    pub low_us: Option<f64>,
    /// The upper end.
    pub high_us: Option<f64>,
}

/// A size and a length with the delays seen there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The median preemption length, in microseconds; 0 where the job resumed at once.
    pub length_us: f64,
    /// The shortest.
    pub least_length_us: f64,
    /// The longest.
    pub most_length_us: f64,
    /// Valid samples.
    pub n: usize,
    /// The statistics that they carry.
    pub delay: BTreeMap<Statistic, Cost>,
}

impl Point {
    /// What delays seen after absences say: pairs of length and delay, in microseconds, in the order in
    /// which they were taken. None where there are none, or one is no number.
    pub(super) fn of(wss_bytes: u64, seen: &[(f64, f64)]) -> Option<Self> {
        let lengths = Ordered::new(&seen.iter().map(|pair| pair.0).collect::<Vec<_>>()).ok()?;
        let delays: Vec<f64> = seen.iter().map(|pair| pair.1).collect();
        let sorted = Ordered::new(&delays).ok()?;
        let cost = |&statistic: &Statistic| Some((statistic, cost(statistic, &delays, &sorted)?));
        Some(Self {
            wss_bytes,
            length_us: crate::model::quantile::median(&lengths),
            least_length_us: lengths.min(),
            most_length_us: lengths.max(),
            n: delays.len(),
            delay: Statistic::ALL.iter().filter_map(cost).collect(),
        })
    }
}

/// A statistic of delays, given in the order taken and sorted.
fn cost(statistic: Statistic, delays: &[f64], sorted: &Ordered) -> Option<Cost> {
    if sorted.len() < statistic.needs() {
        return None;
    }
    if let Some(share) = statistic.share() {
        let quantile = quantile_interval(sorted, share, ALPHA).ok()?;
        let (low_us, high_us) = (quantile.low, quantile.high);
        return Some(Cost { estimate_us: quantile.estimate, low_us, high_us });
    }
    if statistic == Statistic::Max {
        // It bounds itself from below, and nothing bounds it from above.
        let max = sorted.max();
        return Some(Cost { estimate_us: max, low_us: Some(max), high_us: None });
    }
    let moments = moments(delays, ALPHA, 1).ok()?;
    let low_us = moments.interval.map(|interval| interval.low);
    let high_us = moments.interval.map(|interval| interval.high);
    Some(Cost { estimate_us: moments.mean, low_us, high_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_statistics_that_its_samples_carry() {
        let seen: Vec<(f64, f64)> = (1..=21).map(|k| (4000.0, f64::from(k))).collect();
        let point = Point::of(4096, &seen).unwrap();
        assert_eq!((point.n, point.length_us, point.delay.len()), (21, 4000.0, 4));
        assert!((point.delay[&Statistic::Mean].estimate_us - 11.0).abs() < 1e-12);
        assert!((point.delay[&Statistic::P90].estimate_us - 19.0).abs() < 1e-12);
        assert!(!point.delay.contains_key(&Statistic::P99));
        let max = point.delay[&Statistic::Max];
        assert_eq!((max.estimate_us, max.low_us, max.high_us), (21.0, Some(21.0), None));
        assert_eq!(Point::of(4096, &[]), None);
        assert_eq!(Point::of(4096, &[(1.0, f64::NAN)]), None);
    }
}
