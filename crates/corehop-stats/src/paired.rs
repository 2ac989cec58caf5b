// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differences of paired measurements: the effect of a change with its interval, and the smallest
//! detectable effect.

use serde::Serialize;

use super::binomial;
use super::moments::moments;
use super::ordered::{BadInput, Interval};

/// The probability with which an experiment shows an effect that counts as detectable.
pub const POWER: f64 = 0.8;

/// The evidence of pairs of measurements, without and with a change, about the effect of the change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Paired {
    /// The number of pairs of measurements.
    pub pairs: usize,
    /// The mean of the differences, with minus without the change.
    pub mean: f64,
    /// The interval of the mean, or `None` if there are too few pairs, or pairs that are too much alike.
    pub interval: Option<Interval>,
    /// The smallest difference that this number of pairs with this variation would show in four of five
    /// experiments, or `None` if unknown.
    pub detectable: Option<f64>,
}

/// Returns the value that a standard normal variable exceeds with probability `p`.
pub fn exceeded(p: f64) -> f64 {
    std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * p)
}

/// Returns the p-value of the sign test for `hits` or more among `pairs` pairs, each of which is a hit
/// with probability one half.
pub fn sign_test(pairs: usize, hits: usize) -> f64 {
    if hits == 0 { 1.0 } else { binomial::at_least(pairs, 0.5, hits) }
}

/// Returns the factor by which half an interval is multiplied to give the shift that four of five
/// experiments show, so that the interval excludes zero; the factor is 1.43 for 95 %.
pub(super) fn to_detectable(interval: &Interval) -> f64 {
    let half = exceeded((1.0 - interval.level) / 2.0);
    (half + exceeded(1.0 - POWER)) / half
}

impl Paired {
    /// Returns the evidence of differences in the order of measurement, with the interval at confidence
    /// `1 - alpha`; equal seeds give equal intervals.
    ///
    /// # Errors
    /// Returns [`BadInput`] if there is no difference, a difference is not finite, or `alpha` is not
    /// between 0 and 1.
    pub fn of(differences: &[f64], alpha: f64, seed: u64) -> Result<Self, BadInput> {
        let of = moments(differences, alpha, seed)?;
        let detectable = of.interval.map(|it| it.width() / 2.0 * to_detectable(&it));
        Ok(Self { pairs: of.n, mean: of.mean, interval: of.interval, detectable })
    }

    /// Returns the verdict as one of the words `more`, `less` and `inconclusive`; the last word means
    /// that the interval includes zero, or that there is no interval.
    pub fn verdict(&self) -> &'static str {
        match self.interval {
            Some(interval) if interval.low > 0.0 => "more",
            Some(interval) if interval.high < 0.0 => "less",
            _ => "inconclusive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns differences around `mean` that vary by one in either direction.
    fn around(mean: f64) -> Vec<f64> {
        (0..200).map(|at| mean + f64::from(at * 7919 % 201) / 100.0 - 1.0).collect()
    }

    #[test]
    fn a_change_shows_where_it_is_larger_than_what_would_have_shown() {
        let nothing = Paired::of(&around(0.0), 0.05, 1).unwrap();
        assert_eq!(nothing.verdict(), "inconclusive");
        let detectable = nothing.detectable.unwrap();
        // Uniform within one either way: a standard error of 0.577 / sqrt(200), times 2.80.
        assert!((0.08..0.15).contains(&detectable), "{detectable}");
        assert_eq!(Paired::of(&around(2.0 * detectable), 0.05, 1).unwrap().verdict(), "more");
        assert_eq!(Paired::of(&around(-2.0 * detectable), 0.05, 1).unwrap().verdict(), "less");
    }

    #[test]
    fn what_shows_in_four_of_five_experiments_is_a_quantile_of_power_beyond_half_of_any_interval() {
        let of = |alpha| Paired::of(&around(0.0), alpha, 1).unwrap();
        for (alpha, factor) in [(0.05, 1.429_4), (0.1, 1.511_7), (0.32, 1.846_3)] {
            let half = of(alpha).interval.unwrap().width() / 2.0;
            let detectable = of(alpha).detectable.unwrap();
            assert!((detectable / half - factor).abs() < 1e-3, "{alpha}: {}", detectable / half);
        }
    }

    #[test]
    fn a_few_pairs_or_equal_ones_say_nothing() {
        let few = Paired::of(&[1.0, 2.0, 3.0], 0.05, 1).unwrap();
        assert_eq!((few.verdict(), few.detectable, few.pairs), ("inconclusive", None, 3));
        assert!(Paired::of(&[], 0.05, 1).is_err());
        assert!(Paired::of(&[f64::NAN], 0.05, 1).is_err());
    }
}
