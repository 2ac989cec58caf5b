// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generalized Pareto distribution and two ways to fit it.
//!
//! The distribution is `F(y) = 1 - (1 + ξy/σ)^(-1/ξ)` for excesses `y > 0` over a threshold, with shape `ξ`
//! and scale `σ`. `ξ = 0` is the exponential distribution, and with `ξ < 0` the distribution ends at `-σ/ξ`.
//! (Hosking and Wallis write `k = -ξ`.)

use serde::Serialize;

use crate::ordered::Ordered;

/// The smallest shape in the search for the maximum likelihood; below -1 the likelihood is unbounded.
const LEAST_SHAPE: f64 = -0.95;

/// A generalized Pareto distribution of the excesses over a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gpd {
    /// The shape `ξ` of the distribution.
    pub shape: f64,
    /// The scale `σ`, in the unit of the values.
    pub scale: f64,
}

impl Gpd {
    /// Returns the hazard `-ln P(Y > y)`; infinite beyond the end of a distribution with negative shape.
    pub(crate) fn hazard(self, y: f64) -> f64 {
        let z = y / self.scale;
        if self.shape.abs() < 1e-9 {
            return z;
        }
        let base = self.shape * z;
        if base <= -1.0 { f64::INFINITY } else { base.ln_1p() / self.shape }
    }

    /// Returns the excess that is exceeded with probability `survival`.
    pub fn excess(self, survival: f64) -> f64 {
        let hazard = -survival.ln();
        if self.shape.abs() < 1e-9 {
            return self.scale * hazard;
        }
        self.scale * (self.shape * hazard).exp_m1() / self.shape
    }

    /// Returns the end of the distribution, above the threshold, or `None` for an unbounded distribution.
    pub fn end(self) -> Option<f64> {
        (self.shape < 0.0).then(|| -self.scale / self.shape)
    }
}

/// Fits by probability-weighted moments (Hosking and Wallis, Technometrics 29(3), 1987). Returns `None` if
/// the moments do not belong to a distribution of this family with a mean.
pub fn by_moments(excesses: &Ordered) -> Option<Gpd> {
    let n = excesses.len() as f64;
    let (mut first, mut second) = (0.0, 0.0);
    for (index, y) in excesses.as_slice().iter().enumerate() {
        let position = (index as f64 + 0.65) / n; // (j - 0.35)/n for j from 1
        first += y / n;
        second += (1.0 - position) * y / n;
    }
    let gap = first - 2.0 * second;
    let scale = 2.0 * first * second / gap;
    (gap > 0.0 && scale > 0.0).then(|| Gpd { shape: 2.0 - first / gap, scale })
}

/// Fits by maximum likelihood in the single variable `θ = ξ/σ`, to which Grimshaw (Technometrics 35(2),
/// 1993) reduces the problem: for a given `θ`, the best shape is the mean of `ln(1 + θy)`. Returns `None`
/// for fewer than two different excesses.
pub fn by_likelihood(excesses: &Ordered) -> Option<Gpd> {
    if excesses.distinct() < 2 || excesses.min() < 0.0 {
        return None;
    }
    let ys = excesses.as_slice();
    // θ > -1/max; the logarithm of 1 + θ·max makes equal steps of what the likelihood sees.
    let theta = |s: f64| s.exp_m1() / excesses.max();
    let best = maximize(|s| profile(ys, theta(s)), -12.0, 24.0, 36)?;
    Some(given_theta(ys, theta(best)))
}

/// Returns the most likely distribution with `ξ/σ = θ`.
fn given_theta(ys: &[f64], theta: f64) -> Gpd {
    let mean = ys.iter().sum::<f64>() / ys.len() as f64;
    let shape = mean_log(ys, theta);
    // Near θ = 0 the quotient is a difference of rounding errors; its limit is the mean.
    let scale = if theta.abs() * mean < 1e-9 { mean } else { shape / theta };
    Gpd { shape, scale }
}

fn mean_log(ys: &[f64], theta: f64) -> f64 {
    ys.iter().map(|y| (theta * y).ln_1p()).sum::<f64>() / ys.len() as f64
}

/// Returns the largest log-likelihood per excess for a given `θ`, which is `-ln σ - ξ - 1`.
fn profile(ys: &[f64], theta: f64) -> f64 {
    let law = given_theta(ys, theta);
    if law.shape < LEAST_SHAPE { f64::NEG_INFINITY } else { -law.scale.ln() - law.shape - 1.0 }
}

/// Returns the log-likelihood per excess of a distribution with shape `ξ` and `ξ/σ = θ` (of the same sign).
pub(crate) fn log_likelihood(ys: &[f64], shape: f64, theta: f64, scale: f64) -> f64 {
    if shape.abs() < 1e-9 {
        let mean = ys.iter().sum::<f64>() / ys.len() as f64;
        return -scale.ln() - mean / scale;
    }
    let mean_log = mean_log(ys, theta);
    if mean_log.is_nan() { f64::NEG_INFINITY } else { -scale.ln() - (1.0 + 1.0 / shape) * mean_log }
}

/// Returns the argument in `[low, high]` with the largest `f`: the best of `steps` equal steps, refined by
/// golden section between its neighbours. Returns `None` if `f` is not finite anywhere on the grid.
pub(crate) fn maximize(f: impl Fn(f64) -> f64, low: f64, high: f64, steps: usize) -> Option<f64> {
    let step = (high - low) / steps as f64;
    let grid = (0..=steps).map(|i| low + step * i as f64);
    let (best, value) = grid
        .map(|x| (x, f(x)))
        .fold((low, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best });
    if !value.is_finite() {
        return None;
    }
    let (mut a, mut b) = ((best - step).max(low), (best + step).min(high));
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (b - golden * (b - a), a + golden * (b - a));
    let (mut at_left, mut at_right) = (f(left), f(right));
    while b - a > 1e-5 * (1.0 + a.abs()) {
        if at_left >= at_right {
            (b, right, at_right) = (right, left, at_left);
            left = b - golden * (b - a);
            at_left = f(left);
        } else {
            (a, left, at_left) = (left, right, at_right);
            right = a + golden * (b - a);
            at_right = f(right);
        }
    }
    Some(f64::midpoint(a, b))
}

#[cfg(test)]
mod tests {
    use super::super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;

    const SHAPES: [f64; 6] = [-0.4, -0.2, 0.0, 0.2, 0.35, 0.5];

    #[test]
    fn the_law_is_the_one_of_the_formula() {
        for shape in SHAPES {
            let law = Gpd { shape, scale: 3.0 };
            for survival in [0.9, 0.5, 0.01, 1e-6] {
                let y = law.excess(survival);
                assert!((law.hazard(y) + f64::ln(survival)).abs() < 1e-9, "{shape} {survival}");
                assert!(
                    (y - 3.0 * ReferenceLaw::Pareto(shape).quantile(1.0 - survival)).abs()
                        < 1e-6 * y
                );
            }
        }
        let short = Gpd { shape: -0.5, scale: 1.0 };
        assert_eq!((short.end(), short.hazard(2.5)), (Some(2.0), f64::INFINITY));
        assert_eq!(Gpd { shape: 0.1, scale: 1.0 }.end(), None);
    }

    #[test]
    fn both_fits_recover_the_shape_and_the_scale() {
        let mut draw = ResampleSource::new(31);
        for shape in SHAPES {
            let sample = Ordered::new(&draw.values(ReferenceLaw::Pareto(shape), 20_000)).unwrap();
            let ml = by_likelihood(&sample).unwrap();
            let pwm = by_moments(&sample).unwrap();
            // Five standard errors of the likelihood fit, (1 + ξ)/sqrt(n); the moments lose their
            // variance at ξ = 1/2 and converge slowly there.
            let allowed = 5.0 * (1.0 + shape) / 20_000.0_f64.sqrt();
            assert!((ml.shape - shape).abs() < allowed, "{shape}: {ml:?}");
            assert!((ml.scale - 1.0).abs() < 0.05, "{shape}: {ml:?}");
            assert!((pwm.shape - shape).abs() < allowed + 0.05, "{shape}: {pwm:?}");
            assert!((pwm.scale - 1.0).abs() < 0.1, "{shape}: {pwm:?}");
        }
    }

    /// Returns the obvious twin: the likelihood on a grid of both parameters.
    fn slow_likelihood_fit(ys: &[f64]) -> (Gpd, f64) {
        let density =
            |law: Gpd, y: f64| -> f64 { -law.scale.ln() - (1.0 + law.shape) * law.hazard(y) };
        let mut best = (Gpd { shape: 0.0, scale: 1.0 }, f64::NEG_INFINITY);
        for i in -45..=70 {
            for j in 20..=250 {
                let law = Gpd { shape: f64::from(i) / 50.0, scale: f64::from(j) / 100.0 };
                let sum: f64 = ys.iter().map(|&y| density(law, y)).sum();
                if sum > best.1 {
                    best = (law, sum);
                }
            }
        }
        best
    }

    #[test]
    fn the_likelihood_fit_is_no_worse_than_a_search_of_both_parameters() {
        let mut draw = ResampleSource::new(37);
        for shape in SHAPES {
            let sample = Ordered::new(&draw.values(ReferenceLaw::Pareto(shape), 120)).unwrap();
            let ys = sample.as_slice();
            let fast = by_likelihood(&sample).unwrap();
            let value = 120.0 * log_likelihood(ys, fast.shape, fast.shape / fast.scale, fast.scale);
            let (slow, slow_value) = slow_likelihood_fit(ys);
            assert!(value >= slow_value - 1e-9, "{shape}: {value} {slow_value} {slow:?}");
            assert!((fast.shape - slow.shape).abs() < 0.03, "{shape}: {fast:?} {slow:?}");
            assert!((fast.scale - slow.scale).abs() < 0.03, "{shape}: {fast:?} {slow:?}");
        }
    }

    #[test]
    fn the_unit_of_the_values_changes_the_scale_only() {
        let values = ResampleSource::new(41).values(ReferenceLaw::Pareto(0.2), 300);
        let scaled: Vec<f64> = values.iter().map(|y| y * 1e6).collect();
        let [a, b] = [values, scaled].map(|v| by_likelihood(&Ordered::new(&v).unwrap()).unwrap());
        assert!((a.shape - b.shape).abs() < 1e-5);
        assert!((b.scale / a.scale / 1e6 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn equal_or_single_excesses_have_no_fit() {
        for values in [&[2.0][..], &[2.0, 2.0, 2.0]] {
            assert_eq!(by_likelihood(&Ordered::new(values).unwrap()), None);
        }
    }
}
