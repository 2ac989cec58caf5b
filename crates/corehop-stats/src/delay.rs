// SPDX-License-Identifier: MIT OR Apache-2.0
//! The delay of one cell: what its samples say of it, and how sure that is.

use serde::Serialize;

use super::moments::{Moments, moments};
use super::ordered::{Interval, Ordered};
use super::quantile::{Maximum, Quantile, maximum};
use super::replicates::{
    FEWEST_REPLICATES, Nested, NoInterval, ReplicateDrift, ReplicateMaximum, Spread,
};
use super::tail::{Replicated, fit_tail};

/// One less the confidence of every interval of a summary.
pub const ALPHA: f64 = 0.05;

/// The quantiles that a summary states, as far as there are samples for them.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The statistics of a delay, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayStatistics {
    /// Number, mean and standard deviation; the interval of the mean is that of replicate means.
    pub moments: Moments,
    /// The median and what other quantiles the number of samples carries, with their intervals, which
    /// come from the replicates.
    pub quantiles: Vec<Quantile>,
    /// The spread of the replicates' medians, and the number of replicates.
    pub spread: Spread,
    /// Why the median has no interval, where it has none.
    pub no_interval: Option<NoInterval>,
    /// Whether the replicates change in the course of the run; None below six.
    pub drift: Option<ReplicateDrift>,
    /// The greatest of all replicates, and what it bounds.
    pub max_between: ReplicateMaximum,
    /// The least.
    pub min: f64,
    /// The greatest, and over how many.
    pub max: Maximum,
    /// The same for each KiB of the working set.
    pub per_kib: PerKib,
    /// The median over the median warm touch.
    pub over_warm: Option<f64>,
    /// A quantile beyond the samples, where their tail carries one.
    pub tail: Extrapolation,
}

/// A delay for each KiB of the working set, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerKib {
    /// The median.
    pub median: f64,
    /// The lower end of its interval.
    pub median_low: Option<f64>,
    /// The upper end of its interval.
    pub median_high: Option<f64>,
    /// The mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
}

/// The values beyond the greatest one, as far as the peaks over a threshold tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extrapolation {
    /// The furthest quantile that the samples carry.
    Quantile {
        /// The quantile.
        p: f64,
        /// Its estimate, in microseconds.
        estimate: f64,
        /// The interval of the estimate, from how replicates differ.
        interval: Option<Interval>,
        /// Why there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        no_interval: Option<NoInterval>,
        /// The replicates that the samples come from.
        replicates: usize,
        /// The number of values above the threshold of the fit.
        exceedances: usize,
        /// The shape of the fitted law: negative where it has an end.
        shape: f64,
        /// The fit of the law: the bootstrapped p-value of Anderson and Darling's statistic.
        p_value: f64,
    },
    /// Why the samples carry none.
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

/// The seed of every bootstrap here: the same file always has the same table.
const SEED: u64 = 1;

impl DelayStatistics {
    /// The statistics of `values`, in microseconds and in the order in which they were taken, each
    /// with its replicate, of which so many in a row count for one, of a working set of `wss_kib` KiB whose warm touch has this median. None of
    /// no values.
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

    /// Whether there are replicates enough for an interval.
    pub fn has_replicates(&self) -> bool {
        self.spread.replicates >= FEWEST_REPLICATES
    }

    /// The median, with its interval.
    pub fn median(&self) -> &Quantile {
        // `Delay::of` refuses to make one without the median, which stands first.
        &self.quantiles[0]
    }

    /// The quantile `p`, where the number of samples carries it.
    pub fn quantile(&self, p: f64) -> Option<&Quantile> {
        self.quantiles.iter().find(|quantile| (quantile.p - p).abs() < 1e-9)
    }
}

/// The quantile `p` with what replicates say of it; None of nothing.
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

    /// Each value a replicate of its own.
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
