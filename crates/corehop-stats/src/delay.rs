// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of one cell's delay, with their certainty.

use serde::Serialize;

use super::moments::{Moments, moments};
use super::ordered::{Interval, Ordered};
use super::quantile::{Maximum, Quantile, maximum};
use super::replicates::{
    FEWEST_REPLICATES, Nested, NoInterval, ReplicateDrift, ReplicateMaximum, Spread,
};
use super::tail::{Replicated, fit_tail};

/// The confidence of every interval in a summary is one minus this number.
pub const ALPHA: f64 = 0.05;

/// The quantiles that a summary states if there are enough samples.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The statistics of a cell's delay, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayStatistics {
    /// The number, mean and standard deviation of the delays; the interval of the mean comes from the replicate means.
    pub moments: Moments,
    /// The median and the other quantiles that the number of samples supports, with intervals between replicates.
    pub quantiles: Vec<Quantile>,
    /// The spread of the replicates' medians, with the number of replicates.
    pub spread: Spread,
    /// The reason why the median has no interval.
    pub no_interval: Option<NoInterval>,
    /// The change of the replicates in the course of the run, or `None` for fewer than six replicates.
    pub drift: Option<ReplicateDrift>,
    /// The largest delay over all replicates, with the bound that it gives.
    pub max_between: ReplicateMaximum,
    /// The smallest delay of the valid samples.
    pub min: f64,
    /// The largest delay, with the number of samples.
    pub max: Maximum,
    /// The delay for each KiB of the working set.
    pub per_kib: PerKib,
    /// The median delay divided by the median warm touch.
    pub over_warm: Option<f64>,
    /// A quantile beyond the samples, if their tail supports one.
    pub tail: Extrapolation,
}

/// A delay for each KiB of the working set, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerKib {
    /// The median of the delays for each KiB.
    pub median: f64,
    /// The lower end of the median's interval.
    pub median_low: Option<f64>,
    /// The upper end of the median's interval.
    pub median_high: Option<f64>,
    /// The mean of the delays for each KiB.
    pub mean: f64,
    /// The largest delay for each KiB.
    pub max: f64,
}

/// The values beyond the largest sample, as estimated from the peaks over a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extrapolation {
    /// The highest quantile that the samples support.
    Quantile {
        /// The probability of the quantile that was extrapolated.
        p: f64,
        /// The estimate of the quantile, in microseconds.
        estimate: f64,
        /// The interval of the estimate, from the variation between replicates.
        interval: Option<Interval>,
        /// The reason why the statistic has no interval.
        #[serde(skip_serializing_if = "Option::is_none")]
        no_interval: Option<NoInterval>,
        /// The number of replicates of the samples.
        replicates: usize,
        /// The number of values above the threshold of the fit.
        exceedances: usize,
        /// The shape of the fitted distribution; negative if the distribution has an upper end.
        shape: f64,
        /// The bootstrapped p-value of the Anderson–Darling statistic for the fit.
        p_value: f64,
    },
    /// The reason why the samples support no quantile beyond the largest sample.
    Refused(String),
}

impl Extrapolation {
    fn of(values: &[f64], nested: &Nested, labels: &[u64]) -> Self {
        let tail = match fit_tail(values, SEED) {
            Ok(tail) => tail,
            Err(refusal) => return Self::Refused(refusal.to_string()),
        };
        let replicated = Replicated::of(&tail, values, labels, nested.in_a_row());
        let told = match &replicated {
            Ok(of) => tail.replicated_quantile(tail.reaches_to(), ALPHA, of),
            Err(_) => tail.quantile(tail.reaches_to(), ALPHA),
        };
        match told {
            Ok((estimate, interval)) => Self::Quantile {
                p: tail.reaches_to(),
                estimate,
                interval: replicated.is_ok().then_some(interval),
                no_interval: replicated.err(),
                replicates: nested.replicates(),
                exceedances: tail.exceedances,
                shape: tail.law.shape,
                p_value: tail.p_value,
            },
            Err(out_of_reach) => Self::Refused(out_of_reach.to_string()),
        }
    }
}

/// The seed of every bootstrap in this module, so that a file always yields the same table.
const SEED: u64 = 1;

impl DelayStatistics {
    /// Returns the statistics of `values`, in microseconds and in the order of measurement, each with its replicate;
    /// `in_a_row` consecutive replicates count as one. The working set has `wss_kib` KiB, and `warm` is the median of
    /// its warm touches. Returns `None` if there are no values.
    pub fn of(
        values: &[f64],
        replicates: &[u64],
        in_a_row: f64,
        wss_kib: f64,
        warm: Option<&Quantile>,
    ) -> Option<Self> {
        let ordered = Ordered::new(values).ok()?;
        let nested = Nested::from_labelled(values, replicates).ok()?.depending(in_a_row);
        // At least one value must lie beyond; 10 × (1 - 0.9) is a little less than 1 in binary.
        let carried = |p: f64| p <= 0.5 || values.len() as f64 * (1.0 - p) > 0.999;
        let quantiles: Vec<Quantile> = QUANTILES
            .into_iter()
            .filter(|&p| carried(p))
            .filter_map(|p| nested_quantile(&nested, p))
            .collect();
        let mean = nested.mean(ALPHA).ok()?;
        let moments = Moments { interval: mean.interval, ..moments(values, ALPHA, SEED).ok()? };
        let max = maximum(&ordered, 1.0 - ALPHA).ok()?;
        let median = *quantiles.first()?;
        let per_kib = |value: f64| value / wss_kib;
        Some(Self {
            per_kib: PerKib {
                median: per_kib(median.estimate),
                median_low: median.low.map(per_kib),
                median_high: median.high.map(per_kib),
                mean: per_kib(moments.mean),
                max: per_kib(max.value),
            },
            over_warm: warm
                .map(|warm| median.estimate / warm.estimate)
                .filter(|ratio| ratio.is_finite()),
            min: ordered.min(),
            spread: nested.spread(),
            no_interval: nested.median(ALPHA).ok()?.why_none,
            drift: nested.drift(ALPHA),
            max_between: nested.maximum(1.0 - ALPHA).ok()?,
            moments,
            quantiles,
            max,
            tail: Extrapolation::of(values, &nested, replicates),
        })
    }

    /// Returns whether there are enough replicates for an interval.
    pub fn has_replicates(&self) -> bool {
        self.spread.replicates >= FEWEST_REPLICATES
    }

    /// Returns the median with its interval.
    pub fn median(&self) -> &Quantile {
        // `Delay::of` refuses to make one without the median, which stands first.
        &self.quantiles[0]
    }

    /// Returns the quantile `p`, if the number of samples supports it.
    pub fn quantile(&self, p: f64) -> Option<&Quantile> {
        self.quantiles.iter().find(|quantile| (quantile.p - p).abs() < 1e-9)
    }
}

/// Returns the quantile `p` with its interval between replicates, or `None` without samples.
pub fn nested_quantile(nested: &Nested, p: f64) -> Option<Quantile> {
    let between = nested.quantile(p, ALPHA).ok()?;
    let level = 1.0 - ALPHA;
    Some(Quantile {
        p,
        estimate: between.estimate,
        low: between.interval.map(|interval| interval.low),
        high: between.interval.map(|interval| interval.high),
        level,
        coverage: level,
        n: between.samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers that make each of `n` values a replicate of its own.
    fn apart(n: usize) -> Vec<u64> {
        (0..n as u64).collect()
    }

    #[test]
    fn a_smooth_tail_of_a_thousand_samples_is_extrapolated_a_little_and_a_short_one_is_not() {
        let mut draw = crate::draw::ResampleSource::new(3);
        let values = draw.values(crate::draw::ReferenceLaw::Exponential, 2_000);
        let delay = DelayStatistics::of(&values, &apart(2_000), 1.0, 4.0, None).unwrap();
        let Extrapolation::Quantile { p, estimate, interval: Some(interval), .. } = delay.tail
        else {
            panic!("{:?}", delay.tail)
        };
        // -ln(1 - p) for p = 1 - 1/20,000 is 9.9.
        assert!((p - 0.999_95).abs() < 1e-9 && interval.contains(9.9), "{estimate} {interval:?}");
        let one = DelayStatistics::of(&values, &[0; 2_000], 1.0, 4.0, None).unwrap().tail;
        assert!(matches!(one, Extrapolation::Quantile { interval: None, replicates: 1, .. }));
        let short = DelayStatistics::of(&values[..100], &apart(100), 1.0, 4.0, None).unwrap();
        assert!(matches!(short.tail, Extrapolation::Refused(why) if why.contains("100 samples")));
    }

    #[test]
    fn quantiles_that_the_number_of_samples_cannot_carry_are_not_stated() {
        let of = |n: usize| {
            DelayStatistics::of(&vec![1.0; n], &apart(n), 1.0, 4.0, None).unwrap().quantiles.len()
        };
        assert_eq!([of(1), of(10), of(100), of(1000)], [1, 2, 3, 4]);
        assert!(DelayStatistics::of(&[], &[], 1.0, 4.0, None).is_none());
    }
}
