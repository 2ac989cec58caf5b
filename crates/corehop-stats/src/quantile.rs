// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles of a sample, with intervals that assume no distribution.
//!
//! **Definition.** `Q(p)` of `n` values is the midpoint of all `x` with at least a share `p` of the
//! values at or below `x` and at least `1 - p` at or above. The quantile is `X_(⌈np⌉)`, or
//! `(X_(np) + X_(np+1))/2` if `np` is a whole number (definition 2 of Hyndman and Fan, The American
//! Statistician 50(4), 1996). The definition gives the usual median at `p = 1/2`. The definition
//! interpolates between no other values.
//!
//! **Interval.** The interval is `[X_(l), X_(u)]` with ranks from the exact binomial distribution
//! (Hahn and Meeker, Statistical Intervals, 1991, section 5.2). The lower end `X_(l)` is above the
//! quantile only if fewer than `l` of `n` values are at or below it. The interval errs at either
//! end with probability at most `alpha/2`, for every distribution; ties only make an end safer. If
//! `n` does not support an end, the end is None: with 71 samples the 99 % quantile has no upper
//! bound, because half of all such runs never exceed it.
//!
//! **Assumption.** The samples are independent of each other. Autocorrelated samples carry less
//! information than `n` suggests; [`crate::moments`] computes how much less.

use std::fmt;

use serde::Serialize;

use super::binomial;
use super::ordered::{BadInput, Interval, Ordered, probability};

/// A quantile, with the interval that `n` samples give it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantile {
    /// The probability of the quantile: 0.5 for the median.
    pub p: f64,
    /// The quantile of the sample, by the definition of this module.
    pub estimate: f64,
    /// The lower end of the interval, or `None` if `n` is too small.
    pub low: Option<f64>,
    /// The upper end of the interval, or `None` if `n` is too small.
    pub high: Option<f64>,
    /// The nominal confidence of the two ends together, `1 - alpha`.
    pub level: f64,
    /// The true coverage of the existing ends, which is at least the nominal coverage because ranks
    /// are whole numbers.
    pub coverage: f64,
    /// The number of samples behind the quantile.
    pub n: usize,
}

impl Quantile {
    /// Returns the interval, or `None` unless both ends exist.
    pub fn interval(&self) -> Option<Interval> {
        Some(Interval { low: self.low?, high: self.high?, level: self.level })
    }
}

/// Returns the quantile `p` of the values, by the definition of this module.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1.
pub fn quantile(values: &Ordered, p: f64) -> Result<f64, BadInput> {
    probability("p", p)?;
    Ok(at(values, p))
}

/// Returns the median of the values.
pub fn median(values: &Ordered) -> f64 {
    at(values, 0.5)
}

fn at(values: &Ordered, p: f64) -> f64 {
    let place = values.len() as f64 * p;
    let whole = place.round();
    // 100 × 0.07 is 7.000000000000001 in binary; a place this near to a rank is that rank.
    if (place - whole).abs() <= 1e-9 * place.max(1.0) {
        let rank = (whole as usize).max(1);
        let lower = values.rank(rank).unwrap_or(values.max());
        return f64::midpoint(lower, values.rank(rank + 1).unwrap_or(lower));
    }
    values.rank(place.ceil() as usize).unwrap_or(values.max())
}

/// Returns the quantile `p` with its order-statistic interval at confidence `1 - alpha`.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1 and 0 < `alpha` < 1.
pub fn quantile_interval(values: &Ordered, p: f64, alpha: f64) -> Result<Quantile, BadInput> {
    probability("p", p)?;
    probability("alpha", alpha)?;
    let n = values.len();
    let (low_rank, high_rank) = ranks(n, p, alpha / 2.0);
    let missed_low = low_rank.map_or(0.0, |rank| binomial::at_most(n, p, rank - 1));
    let missed_high = high_rank.map_or(0.0, |rank| binomial::at_least(n, p, rank));
    Ok(Quantile {
        p,
        estimate: at(values, p),
        low: low_rank.and_then(|rank| values.rank(rank)),
        high: high_rank.and_then(|rank| values.rank(rank)),
        level: 1.0 - alpha,
        coverage: 1.0 - missed_low - missed_high,
        n,
    })
}

/// Returns the median with its interval at confidence `1 - alpha`; at 95 % both ends exist from
/// `n = 6` on.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `alpha` < 1.
pub fn median_interval(values: &Ordered, alpha: f64) -> Result<Quantile, BadInput> {
    quantile_interval(values, 0.5, alpha)
}

/// Returns the largest rank `l` and the smallest rank `u` whose order statistics each miss the
/// quantile with probability at most `tail`.
fn ranks(n: usize, p: f64, tail: f64) -> (Option<usize>, Option<usize>) {
    // Both searches are for the point where a monotone tail passes `tail`.
    let low = partition(n, |rank| binomial::at_most(n, p, rank - 1) <= tail);
    let from_top = partition(n, |step| binomial::at_least(n, p, n + 1 - step) <= tail);
    ((low > 0).then_some(low), (from_top > 0).then(|| n + 1 - from_top))
}

/// Returns the largest `k` in `1..=n` for which `holds` is true; `holds` must be true up to some
/// point and false after it. The result is 0 if `holds` is false for every `k`.
fn partition(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut yes, mut no) = (0, n + 1);
    while no - yes > 1 {
        let middle = usize::midpoint(yes, no);
        if holds(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// Returns the smallest number of samples for which the quantile `p` has an upper end at confidence
/// `1 - alpha` (two-sided): 368 for the 99 % quantile at 95 %.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1 and 0 < `alpha` < 1.
pub fn samples_for_upper_end(p: f64, alpha: f64) -> Result<usize, BadInput> {
    probability("p", p)?;
    probability("alpha", alpha)?;
    Ok(((alpha / 2.0).ln() / p.ln()).ceil() as usize)
}

/// The largest value, with the quantile that it bounds.
///
/// A maximum grows with the number of samples, so the value alone is meaningless. All of `n`
/// independent samples are below the quantile `p` with probability `p^n`, so with confidence
/// `1 - p^n` the maximum is at least that quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Maximum {
    /// The largest of the values that were observed.
    pub value: f64,
    /// The number of samples behind the maximum.
    pub n: usize,
    /// The number of samples that have this value.
    pub times: usize,
    /// The highest quantile that the maximum bounds from above with confidence `level`.
    pub bounds_quantile: f64,
    /// The confidence of the bound on the quantile.
    pub level: f64,
}

/// Returns the maximum, and the quantile that it bounds with confidence `level`.
///
/// # Errors
/// Returns [`BadInput::NotAProbability`] unless 0 < `level` < 1.
pub fn maximum(values: &Ordered, level: f64) -> Result<Maximum, BadInput> {
    probability("level", level)?;
    let (n, value) = (values.len(), values.max());
    let bounds_quantile = ((1.0 - level).ln() / n as f64).exp();
    Ok(Maximum { value, n, times: n - values.below(value), bounds_quantile, level })
}

impl Maximum {
    /// Returns the confidence with which the maximum bounds the quantile `p`, which is `1 - p^n`.
    ///
    /// # Errors
    /// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1.
    pub fn confidence_for(&self, p: f64) -> Result<f64, BadInput> {
        probability("p", p)?;
        Ok(-(self.n as f64 * p.ln()).exp_m1())
    }
}

impl fmt::Display for Maximum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the largest of {} samples; with {:.0} % confidence at most {:.2} % of all exceed it",
            self.n,
            100.0 * self.level,
            100.0 * (1.0 - self.bounds_quantile)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;
    use proptest::prelude::*;

    fn ordered(values: &[f64]) -> Ordered {
        Ordered::new(values).unwrap()
    }

    fn one_to(n: usize) -> Ordered {
        ordered(&(1..=n).map(|k| k as f64).collect::<Vec<_>>())
    }

    #[test]
    fn quantiles_of_small_samples_come_out_as_by_hand() {
        for (n, p, expected) in [
            (1, 0.5, 1.0),
            (2, 0.5, 1.5),
            (3, 0.5, 2.0),
            (10, 0.25, 3.0),
            (10, 0.1, 1.5),
            (100, 0.07, 7.5), // 100 × 0.07 is not 7 in binary
            (100, 0.95, 95.5),
            (71, 0.99, 71.0),
        ] {
            assert_eq!(quantile(&one_to(n), p), Ok(expected), "n {n} p {p}");
        }
    }

    #[test]
    fn the_median_of_ten_has_the_ranks_of_the_textbook_table() {
        // Hahn and Meeker, Table A.15: n = 10, 95 %: ranks 2 and 9, coverage 0.9785.
        let median = median_interval(&one_to(10), 0.05).unwrap();
        assert_eq!((median.low, median.high), (Some(2.0), Some(9.0)));
        assert!((median.coverage - 0.978_515_625).abs() < 1e-12, "{}", median.coverage);
    }

    #[test]
    fn the_median_has_no_interval_below_six_samples() {
        for n in 1..=5 {
            let median = median_interval(&one_to(n), 0.05).unwrap();
            assert_eq!((median.low, median.high, median.coverage), (None, None, 1.0), "n {n}");
        }
        let median = median_interval(&one_to(6), 0.05).unwrap();
        assert_eq!((median.low, median.high), (Some(1.0), Some(6.0)));
    }

    #[test]
    fn the_99_percent_quantile_of_71_samples_has_no_upper_end() {
        let high = quantile_interval(&one_to(71), 0.99, 0.05).unwrap();
        assert_eq!(high.high, None);
        assert!(high.low.is_some() && high.interval().is_none());
        let needed = samples_for_upper_end(0.99, 0.05).unwrap();
        assert_eq!(needed, 368);
        assert_eq!(quantile_interval(&one_to(needed - 1), 0.99, 0.05).unwrap().high, None);
        assert_eq!(quantile_interval(&one_to(needed), 0.99, 0.05).unwrap().high, Some(368.0));
    }

    #[test]
    fn the_maximum_bounds_the_quantile_that_its_n_can_carry() {
        // 0.95 = 1 - p^59 at p = 0.9505: the rule of 59 of acceptance testing.
        let maximum = maximum(&one_to(59), 0.95).unwrap();
        assert!((maximum.bounds_quantile - 0.950_49).abs() < 1e-5);
        assert!((maximum.confidence_for(0.95).unwrap() - 0.951_505).abs() < 1e-6);
        assert_eq!((maximum.value, maximum.n, maximum.times), (59.0, 59, 1));
        assert!(maximum.to_string().contains("at most 4.95 % of all exceed it"), "{maximum}");
        assert_eq!(super::maximum(&ordered(&[2.0, 3.0, 3.0]), 0.95).unwrap().times, 2);
    }

    #[test]
    fn parameters_out_of_range_are_errors_that_name_them() {
        let values = one_to(3);
        for bad in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(quantile(&values, bad).is_err());
            assert!(quantile_interval(&values, bad, 0.05).is_err());
            assert!(median_interval(&values, bad).unwrap_err().to_string().contains("alpha"));
            assert!(maximum(&values, bad).unwrap_err().to_string().contains("level"));
        }
    }

    /// Returns the same ranks as `ranks`, found by a walk from each end (the slow twin).
    fn slow_ranks(n: usize, p: f64, tail: f64) -> (Option<usize>, Option<usize>) {
        let low = (1..=n).take_while(|&l| binomial::at_most(n, p, l - 1) <= tail).last();
        let high = (1..=n).rev().take_while(|&u| binomial::at_least(n, p, u) <= tail).last();
        (low, high)
    }

    proptest! {
        #[test]
        fn the_ranks_are_those_of_a_walk(n in 1_usize..300, p in 0.001_f64..0.999) {
            prop_assert_eq!(ranks(n, p, 0.025), slow_ranks(n, p, 0.025));
        }

        #[test]
        fn the_interval_holds_its_estimate_and_covers_what_it_says(
            values in prop::collection::vec(-5_i32..5, 1..80), p in 0.01_f64..0.99,
        ) {
            let values = ordered(&values.into_iter().map(f64::from).collect::<Vec<_>>());
            let q = quantile_interval(&values, p, 0.1).unwrap();
            prop_assert!(q.low.is_none_or(|low| low <= q.estimate));
            prop_assert!(q.high.is_none_or(|high| q.estimate <= high));
            prop_assert!(q.coverage >= 0.9 - 1e-12);
        }
    }

    /// Returns the share of `repetitions` intervals that hold the law's true quantile; an end that
    /// does not exist misses nothing.
    fn coverage(law: ReferenceLaw, n: usize, p: f64, repetitions: usize) -> f64 {
        let mut draw = ResampleSource::new(11);
        let truth = law.quantile(p);
        let hits = (0..repetitions)
            .filter(|_| {
                let values = ordered(&draw.values(law, n));
                let q = quantile_interval(&values, p, 0.05).unwrap();
                q.low.is_none_or(|low| low <= truth) && q.high.is_none_or(|high| truth <= high)
            })
            .count();
        hits as f64 / repetitions as f64
    }

    #[test]
    fn ninety_five_percent_intervals_cover_at_least_that_for_every_law_ties_included() {
        for law in [
            ReferenceLaw::Uniform,
            ReferenceLaw::Exponential,
            ReferenceLaw::LogNormal,
            ReferenceLaw::Die,
        ] {
            for (n, p) in [(20, 0.5), (71, 0.5), (71, 0.99), (400, 0.99), (150, 0.9)] {
                let covered = coverage(law, n, p, 2_000);
                // Three standard errors of 2,000 repetitions are 1.5 points.
                assert!(covered >= 0.935, "{law:?} n {n} p {p}: {covered}");
            }
        }
    }

    #[test]
    fn the_stated_coverage_is_the_true_one_where_there_are_no_ties() {
        let stated = quantile_interval(&one_to(71), 0.5, 0.05).unwrap().coverage;
        let seen = coverage(ReferenceLaw::Exponential, 71, 0.5, 8_000);
        assert!((stated - seen).abs() < 0.008, "stated {stated}, seen {seen}");
    }
}
