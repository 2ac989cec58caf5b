// SPDX-License-Identifier: MIT OR Apache-2.0
//! The difference between two cells, with the replicate as the unit.
//!
//! **Interval.** Each median has its own interval, and the distances from estimate to end are added as squares (method
//! of variance estimates recovery: Zou and Donner, Statistics in Medicine 27, 2008). A distance uses `t` of its own
//! replicates, and the sum uses `t` with the degrees of freedom of Satterthwaite. The interval follows skewed and
//! two-peaked replicates on each side, and does not assume equal variances of the sides.
//!
//! **p-value.** The test is that of Brunner and Munzel (Biometrical Journal 42, 2000) on replicate medians. The test
//! enumerates all exchanges of replicates if their number allows it (Neubert and Brunner, Computational Statistics &
//! Data Analysis 51, 2007), and otherwise uses `t`. The test asks whether replicates of one side tend to be greater, so
//! near its `alpha` it can disagree with the interval.

use serde::Serialize;

use super::super::compare::order;
use super::super::compare::t_quantile;
use super::super::ordered::{BadInput, Interval, Ordered, probability};
use super::super::paired::exceeded;
use super::super::quantile::median;
use super::estimate::Replicates;
use super::{Nested, NoInterval};

/// The largest number of exchanges that are enumerated; eight replicates against eight have 12,870 exchanges.
pub(super) const MOST_EXCHANGES: f64 = 20_000.0;

/// The difference of two cells' medians, with the evidence of their replicates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BetweenDifference {
    /// The median over replicates of the replicate's median of `y`, minus that of `x`, in the unit of the samples.
    pub estimate: f64,
    /// The interval of the difference, or `None` if a side has no interval for its own median.
    pub interval: Option<Interval>,
    /// The reason why there is no interval, from the first side that has no interval.
    pub why_none: Option<NoInterval>,
    /// The two-sided p-value of the hypothesis that replicates of neither side tend to be greater, or `None` if a side
    /// has fewer than six effective replicates. The p-value of `k` against `m` replicates is never below
    /// `2/C(k + m, k)`.
    pub p_value: Option<f64>,
    /// The numbers of replicates of `x` and `y`.
    pub replicates: [usize; 2],
    /// The numbers of samples of `x` and `y`.
    pub samples: [usize; 2],
    /// The numbers of independent replicates that the replicates of `x` and `y` are worth.
    pub effective_replicates: [f64; 2],
}

/// A side of the comparison, with its replicates.
struct ComparisonArm {
    replicates: Replicates,
    median: f64,
    interval: Result<Interval, NoInterval>,
}

impl ComparisonArm {
    fn new(of: &Nested, alpha: f64) -> Result<Self, BadInput> {
        let replicates = Replicates::of(of, of.medians());
        let sorted = Ordered::new(&replicates.values)?;
        let interval = replicates.median_interval(&sorted, alpha);
        Ok(Self { median: median(&sorted), interval, replicates })
    }
}

/// Returns the difference of the medians of two independent cells, `y` minus `x`, with its interval at confidence
/// `1 - alpha` and its p-value.
///
/// # Errors
/// Returns [`BadInput`] for an invalid `alpha`, or a side without samples.
pub fn median_difference(
    x: &Nested,
    y: &Nested,
    alpha: f64,
) -> Result<BetweenDifference, BadInput> {
    probability("alpha", alpha)?;
    let (left, right) = (ComparisonArm::new(x, alpha)?, ComparisonArm::new(y, alpha)?);
    let interval = combined(&left, &right, alpha);
    Ok(BetweenDifference {
        estimate: right.median - left.median,
        interval: interval.ok(),
        why_none: interval.err(),
        p_value: p_value(&left.replicates, &right.replicates)?,
        replicates: [x.replicates(), y.replicates()],
        samples: [x.samples(), y.samples()],
        effective_replicates: [left.replicates.worth, right.replicates.worth],
    })
}

/// Returns the interval of the difference of the medians at confidence `1 - alpha`. If the replicates do not support
/// this confidence, the function uses the highest confidence that the replicates support, which the interval states.
///
/// # Errors
/// Returns [`BadInput`] for an invalid `alpha`, or a side without samples. The inner error of the result is the reason
/// why no confidence yields an interval.
pub fn widest_difference(
    x: &Nested,
    y: &Nested,
    alpha: f64,
) -> Result<Result<Interval, NoInterval>, BadInput> {
    let found = median_difference(x, y, alpha)?;
    match (found.interval, found.why_none) {
        (None, Some(NoInterval::LevelOutOfReach { .. })) if alpha < 0.3 => {
            widest_difference(x, y, 1.25 * alpha)
        }
        (interval, why) => Ok(interval.ok_or(why.unwrap_or(NoInterval::Alike))),
    }
}

fn combined(x: &ComparisonArm, y: &ComparisonArm, alpha: f64) -> Result<Interval, NoInterval> {
    let (of_x, of_y) = (x.interval?, y.interval?);
    let freedom = [x, y].map(|side| side.replicates.worth - 1.0);
    let estimate = y.median - x.median;
    let below = reach([of_x.high - x.median, y.median - of_y.low], freedom, alpha);
    let above = reach([x.median - of_x.low, of_y.high - y.median], freedom, alpha);
    Ok(Interval { low: estimate - below, high: estimate + above, level: 1.0 - alpha })
}

/// Returns the reach of the difference's interval, computed from the reaches of its two parts.
fn reach(parts: [f64; 2], freedom: [f64; 2], alpha: f64) -> f64 {
    let variance = |i: usize| (parts[i] / t_quantile(freedom[i], alpha)).powi(2);
    let (a, b) = (variance(0), variance(1));
    let total = a + b;
    if total <= 0.0 {
        return 0.0;
    }
    t_quantile(total * total / (a * a / freedom[0] + b * b / freedom[1]), alpha) * total.sqrt()
}

fn p_value(x: &Replicates, y: &Replicates) -> Result<Option<f64>, BadInput> {
    if x.enough().is_err() || y.enough().is_err() {
        return Ok(None);
    }
    let in_a_row = x.in_a_row().max(y.in_a_row());
    if in_a_row > 1.0 {
        return Ok(Some(2.0 * as_fewer(independent(x, y)? / 2.0, in_a_row)));
    }
    Ok(Some(independent(x, y)?))
}

/// Returns the p-value under the assumption that all replicates are independent.
fn independent(x: &Replicates, y: &Replicates) -> Result<f64, BadInput> {
    if exchanges(x.values.len(), y.values.len()) <= MOST_EXCHANGES {
        return Ok(hits(&x.values, &y.values).either);
    }
    Ok(order(&x.values, &y.values, 0.05)?.p_value)
}

/// Returns the one-sided p-value if `in_a_row` replicates count as one: the normal deviate of the p-value is reduced by
/// the factor by which the standard error grows.
pub(super) fn as_fewer(p_value: f64, in_a_row: f64) -> f64 {
    if in_a_row <= 1.0 {
        return p_value;
    }
    let deviate = exceeded(p_value.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)) / in_a_row.sqrt();
    statrs::function::erf::erfc(deviate / std::f64::consts::SQRT_2) / 2.0
}

/// Returns the number of ways to divide `k + m` replicates into `k` and `m`.
pub(super) fn exchanges(k: usize, m: usize) -> f64 {
    (1..=k).map(|i| (m + i) as f64 / i as f64).product()
}

/// The shares of all exchanges whose statistic is at least as large, at least as small, or at least as far from 0 as
/// the observed statistic.
pub(super) struct Hits {
    pub(super) above: f64,
    pub(super) below: f64,
    either: f64,
}

/// Enumerates all exchanges of replicates between the two sides.
pub(super) fn hits(x: &[f64], y: &[f64]) -> Hits {
    let all = RankMatrix::new(&[x, y].concat());
    let first = (1_u32 << x.len()) - 1;
    let seen = all.statistic(first);
    // Equal statistics may differ by their rounding.
    let slack = if seen.is_finite() { 1e-9 * seen.abs() } else { 0.0 };
    let (mut above, mut below, mut either, mut tried, mut chosen) =
        (0_u32, 0_u32, 0_u32, 0_u32, first);
    while chosen < 1 << all.count {
        let statistic = all.statistic(chosen);
        above += u32::from(statistic >= seen - slack);
        below += u32::from(statistic <= seen + slack);
        either += u32::from(statistic.abs() >= seen.abs() - slack);
        tried += 1;
        chosen = next_of_equal_size(chosen);
    }
    let share = |hits| f64::from(hits) / f64::from(tried);
    Hits { above: share(above), below: share(below), either: share(either) }
}

/// Returns the next larger number with the same number of set bits (Warren, Hacker's Delight, section 2-1).
fn next_of_equal_size(set: u32) -> u32 {
    let lowest = set & set.wrapping_neg();
    let carried = set + lowest;
    carried | (((carried ^ set) / lowest) >> 2)
}

/// The matrix has a number for each pair of values: 1 if the second value is below the first, 1/2 if the values are
/// equal, and 0 otherwise.
struct RankMatrix {
    count: usize,
    below: Vec<f64>,
}

impl RankMatrix {
    fn new(values: &[f64]) -> Self {
        let half = |yes: bool| if yes { 0.5 } else { 0.0 };
        let against = |&x: &f64| values.iter().map(move |&y| half(y < x) + half(y <= x));
        Self { count: values.len(), below: values.iter().flat_map(against).collect() }
    }

    /// Returns the statistic of Brunner and Munzel for the values `chosen` by their bits against the other values:
    /// positive if the others tend to be greater, infinite if the two groups do not overlap.
    fn statistic(&self, chosen: u32) -> f64 {
        let rest = !chosen & ((1 << self.count) - 1);
        let ((_, of_chosen), (mean, of_rest)) =
            (self.placements(chosen, rest), self.placements(rest, chosen));
        let off = mean - 0.5;
        let variance = of_chosen + of_rest;
        // Placements are multiples of 1/2k, so less than this is rounding.
        match (off.abs() < 1e-9, variance < 1e-9) {
            (true, _) => 0.0,
            (_, true) => f64::INFINITY.copysign(off),
            _ => off / variance.sqrt(),
        }
    }

    /// Returns the mean of the shares of `others` that are below each value of `own`, and the variance of that mean.
    fn placements(&self, own: u32, others: u32) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for at in bits(own) {
            let row = &self.below[at * self.count..(at + 1) * self.count];
            let share = bits(others).map(|other| row[other]).sum::<f64>();
            sum += share;
            squares += share * share;
        }
        let (n, k) = (f64::from(own.count_ones()), f64::from(others.count_ones()));
        (sum / n / k, (squares - sum * sum / n) / (n - 1.0) / n / (k * k))
    }
}

/// Returns the positions of the set bits.
fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (lowest < u32::BITS).then_some(lowest as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_tried_once() {
        let (mut set, mut seen) = (0b111_u32, 0);
        while set < 1 << 7 {
            assert_eq!(set.count_ones(), 3);
            (set, seen) = (next_of_equal_size(set), seen + 1);
        }
        assert_eq!(seen, 35);
        assert!(
            (exchanges(3, 4) - 35.0).abs() < 1e-12 && (exchanges(8, 8) - 12_870.0).abs() < 1e-6
        );
    }

    #[test]
    fn six_replicates_apart_from_six_have_two_chances_in_924() {
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [11.0, 12.0, 13.0, 14.0, 15.0, 16.0]);
        let apart = hits(&low, &high);
        assert!((apart.either - 2.0 / 924.0).abs() < 1e-12);
        assert!((apart.above - 1.0 / 924.0).abs() < 1e-12 && (apart.below - 1.0).abs() < 1e-12);
        assert!((hits(&low, &low).either - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_statistic_is_that_of_the_published_example() {
        // The example of Brunner and Munzel (2000): 3.1375.
        let x = [1., 2., 1., 1., 1., 1., 1., 1., 1., 1., 2., 4., 1., 1.];
        let y = [3., 3., 4., 3., 1., 2., 3., 1., 1., 5., 4.];
        let all = RankMatrix::new(&[&x[..], &y[..]].concat());
        assert!((all.statistic((1 << 14) - 1) - 3.1375).abs() < 1e-4);
    }

    #[test]
    fn dependence_makes_a_p_value_greater() {
        assert!((2.0 * as_fewer(0.025, 4.0) - 0.327).abs() < 1e-3, "{}", as_fewer(0.025, 4.0));
        assert!((as_fewer(0.5, 2.0) - 0.5).abs() < 1e-12);
        assert!(as_fewer(0.0, 1.5) >= 0.0);
    }
}
