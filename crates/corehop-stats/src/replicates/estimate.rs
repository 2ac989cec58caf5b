// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes intervals from one number per replicate.

use super::super::binomial;
use super::super::compare::t_quantile;
use super::super::ordered::{Interval, Ordered};
use super::{FEWEST_REPLICATES, Nested, NoInterval, mean, serial};

/// The struct has one number per replicate, in time order, with the number of independent replicates
/// that they are worth.
pub(super) struct Replicates {
    pub(super) values: Vec<f64>,
    pub(super) worth: f64,
}

impl Replicates {
    pub(super) fn new(values: Vec<f64>) -> Self {
        let worth = serial::worth(&values);
        Self { values, worth }
    }

    /// Returns the replicates of a cell, with one number for each.
    pub(super) fn of(cell: &Nested, values: Vec<f64>) -> Self {
        let worth = serial::worth_among(&values, cell.family);
        Self { values, worth }.counting(cell.in_a_row)
    }

    /// Returns the replicates if `in_a_row` consecutive replicates count as one, by evidence from
    /// other cells. The evidence of dependence alone never removes the interval, because one run
    /// cannot show how slowly a machine changes.
    pub(super) fn counting(self, in_a_row: f64) -> Self {
        let least = self.count().min(FEWEST_REPLICATES as f64);
        let worth = (self.count() / in_a_row.max(1.0)).max(least).min(self.worth);
        Self { worth, ..self }
    }

    fn count(&self) -> f64 {
        self.values.len() as f64
    }

    /// Returns the number of consecutive replicates that count as one.
    pub(super) fn in_a_row(&self) -> f64 {
        self.count() / self.worth
    }

    /// Checks that there are enough replicates, and enough independent ones.
    pub(super) fn enough(&self) -> Result<(), NoInterval> {
        if self.values.len() < FEWEST_REPLICATES {
            return Err(NoInterval::TooFewReplicates { have: self.values.len() });
        }
        if self.worth < FEWEST_REPLICATES as f64 {
            return Err(NoInterval::Dependent { worth: self.worth });
        }
        Ok(())
    }

    /// Returns the interval of the median of the distribution that the values come from; `sorted`
    /// contains the same values.
    pub(super) fn median_interval(
        &self,
        sorted: &Ordered,
        alpha: f64,
    ) -> Result<Interval, NoInterval> {
        self.enough()?;
        // Dependence spreads the number of signs: the same interval then errs more often, so a
        // smaller alpha is asked for; by `t`, since by how much is itself estimated.
        let reach = t_quantile(self.worth - 1.0, alpha) * self.in_a_row().sqrt();
        let corrected = statrs::function::erf::erfc(reach / std::f64::consts::SQRT_2);
        interpolated(sorted, if self.in_a_row() > 1.0 { corrected } else { alpha })
            .map(|(low, high)| Interval { low, high, level: 1.0 - alpha })
            .ok_or(NoInterval::LevelOutOfReach { level: 1.0 - alpha })
    }

    /// Returns the standard deviation of the values, and the reach of their mean with the factor of
    /// `t`.
    fn deviation_and_reach(&self, alpha: f64) -> (f64, f64) {
        let centre = mean(&self.values);
        let squares: f64 = self.values.iter().map(|x| (x - centre).powi(2)).sum();
        let deviation = (squares / (self.count() - 1.0)).sqrt();
        (deviation, t_quantile(self.worth - 1.0, alpha) * deviation / self.worth.sqrt())
    }

    /// Returns the standard error of the values' mean.
    pub(super) fn error_of_mean(&self) -> f64 {
        let centre = mean(&self.values);
        let squares: f64 = self.values.iter().map(|x| (x - centre).powi(2)).sum();
        (squares / (self.count() - 1.0) / self.worth).sqrt()
    }

    /// Returns the interval of the mean of the distribution that the values come from.
    pub(super) fn mean_interval(&self, alpha: f64) -> Result<Interval, NoInterval> {
        self.enough()?;
        let (deviation, reach) = self.deviation_and_reach(alpha);
        let centre = mean(&self.values);
        // Below this the differences are the rounding of the mean and no signal.
        if deviation <= centre.abs() * 1e-14 {
            return Err(NoInterval::Alike);
        }
        let cubes: f64 = self.values.iter().map(|x| ((x - centre) / deviation).powi(3)).sum();
        // The divisor of the deviation is n - 1, that of the skewness n.
        let skew = cubes / self.count() * (self.count() / (self.count() - 1.0)).powf(1.5);
        let shift = |z: f64| deviation * untransformed(z / deviation, skew, self.worth);
        Ok(Interval {
            low: centre - shift(reach),
            high: centre - shift(-reach),
            level: 1.0 - alpha,
        })
    }

    /// Returns the interval of the quantile `p` of `all` samples. A value is the replicate's surplus
    /// of samples at or below the estimate, compared with the number expected from its size.
    pub(super) fn share_interval(
        &self,
        all: &Ordered,
        p: f64,
        alpha: f64,
    ) -> Result<Interval, NoInterval> {
        self.enough()?;
        let (_, reach) = self.deviation_and_reach(alpha);
        let samples = all.len() as f64;
        // The mean excess is zero; the sum over all replicates, per sample, is the share.
        let half = reach * self.count() / samples;
        let (low, high) = ((samples * (p - half)).floor(), (samples * (p + half)).ceil());
        if half <= 0.0 || low < 1.0 || high > samples - 1.0 {
            return Err(NoInterval::QuantileOutOfReach { p });
        }
        let ends = all.rank(low as usize).zip(all.rank(high as usize));
        ends.map(|(low, high)| Interval { low, high, level: 1.0 - alpha })
            .ok_or(NoInterval::QuantileOutOfReach { p })
    }
}

/// Returns the coverage of `[X_(rank), X_(n+1-rank)]` for the median, as in the sign test.
fn coverage(n: usize, rank: usize) -> f64 {
    1.0 - 2.0 * binomial::at_most(n, 0.5, rank - 1)
}

/// Returns the interpolated interval between two neighbouring ranks whose coverages enclose
/// `1 - alpha` (Hettmansperger and Sheather, 1986, equation 5), or `None` if even the extremes cover
/// less.
fn interpolated(sorted: &Ordered, alpha: f64) -> Option<(f64, f64)> {
    let n = sorted.len();
    let ranks: Vec<usize> = (1..=n / 2).collect();
    let enough = ranks.partition_point(|&rank| coverage(n, rank) >= 1.0 - alpha);
    let rank = *ranks[..enough].last()?;
    let (outer, inner) = (coverage(n, rank), coverage(n, rank + 1).max(0.0));
    let part = ((outer - (1.0 - alpha)) / (outer - inner)).clamp(0.0, 1.0);
    let (d, all) = (rank as f64, n as f64);
    let weight = (all - d) * part / (d + (all - 2.0 * d) * part);
    // The innermost interval of an even number has no other within.
    let next = if 2 * rank < n { rank + 1 } else { rank };
    let between = |outer: usize, inner: usize| -> Option<f64> {
        Some((1.0 - weight) * sorted.rank(outer)? + weight * sorted.rank(inner)?)
    };
    Some((between(rank, next)?, between(n + 1 - rank, n + 1 - next)?))
}

/// Inverts Hall's transformation `z + g·z² + g²·z³/3 + g/2n` of `z = t/√n`, where `g` is a third of
/// the skewness. The transformation increases everywhere, so the inverse is unique.
fn untransformed(z: f64, skew: f64, n: f64) -> f64 {
    let g = skew / 3.0;
    if g.abs() < 1e-6 {
        return z;
    }
    ((1.0 + 3.0 * g * (z - g / (2.0 * n))).cbrt() - 1.0) / g
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(n: usize) -> Ordered {
        Ordered::new(&(1..=n).map(|k| k as f64).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_interpolation_is_that_of_the_formula_by_hand() {
        // n = 10: ranks 2 and 9 cover 0.978516, 3 and 8 0.890625; I = 0.324444 at 95 % and
        // λ = 8·I/(2 + 6·I) = 0.657658.
        let (low, high) = interpolated(&one_to(10), 0.05).unwrap();
        assert!((low - 2.657_658).abs() < 1e-5 && (high - 8.342_342).abs() < 1e-5, "{low} {high}");
    }

    #[test]
    fn five_have_no_interval_and_six_nearly_their_extremes() {
        assert_eq!(interpolated(&one_to(5), 0.05), None);
        let (low, high) = interpolated(&one_to(6), 0.05).unwrap();
        assert!((1.0..1.5).contains(&low) && (low + high - 7.0).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn intervals_shrink_as_alpha_grows_and_always_hold_the_median() {
        for n in 6..40 {
            let mut before = n as f64;
            for alpha in [0.04, 0.05, 0.1, 0.2, 0.5, 0.8, 0.99] {
                let (low, high) = interpolated(&one_to(n), alpha).unwrap();
                let centre = (n + 1) as f64 / 2.0;
                assert!(low <= centre && centre <= high && high - low <= before, "{n} {alpha}");
                before = high - low;
            }
        }
    }

    #[test]
    fn the_transformation_is_undone() {
        for (z, skew, n) in [(0.8, 1.2, 6.0), (-0.3, -2.0, 12.0), (0.0, 0.4, 50.0)] {
            let (t, g) = (untransformed(z, skew, n), skew / 3.0);
            let again: f64 = t + g * t * t + g * g * t * t * t / 3.0 + g / (2.0 * n);
            assert!((again - z).abs() < 1e-12, "{z} {again}");
        }
        assert!((untransformed(0.7, 0.0, 9.0) - 0.7).abs() < 1e-12);
    }
}
