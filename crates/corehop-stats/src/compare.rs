// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares two samples: which tends to be greater, by how much, and with which certainty.
//!
//! The functions of this module assume neither a distribution nor equal variances. Samples are in the
//! order of measurement; if neighbours are visibly dependent, they count as fewer samples (see
//! [`crate::moments`]). The two samples must be independent of each other.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::binomial;
use super::moments::dependence;
use super::ordered::{BadInput, Interval, Ordered, finite, probability};
use super::quantile::{quantile, quantile_interval};
use super::sequential::dependence_about;

/// The stochastic order `θ = P(X < Y) + P(X = Y)/2` of two samples, which shows which sample tends
/// to be greater.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StochasticOrder {
    /// The value of `θ`: 1 if every `y` is above every `x`, 1/2 if neither sample tends to be greater. The
    /// value `θ` is Mann and Whitney's U divided by the number of pairs.
    pub theta: f64,
    /// The confidence interval of the value `θ`.
    pub interval: Interval,
    /// The two-sided p-value of `θ = 1/2`.
    pub p_value: f64,
    /// The number of values in `x`.
    pub n_x: usize,
    /// The number of values in `y`.
    pub n_y: usize,
}

impl StochasticOrder {
    /// Returns whether `Y` tends to be greater, because the whole interval is above 1/2.
    pub fn ascending(&self) -> bool {
        self.interval.low > 0.5
    }

    /// Returns whether `X` tends to be greater, because the whole interval is below 1/2.
    pub fn descending(&self) -> bool {
        self.interval.high < 0.5
    }
}

/// Returns the stochastic order of `x` and `y` with its interval at confidence `1 - alpha`, on the logit
/// scale. The p-value comes from the test of Brunner and Munzel (Biometrical Journal 42, 2000), which also
/// holds for distributions of different shapes, unlike the test of Mann and Whitney. If the samples do not
/// overlap, the variance is zero; then the interval is the exact interval of independent pairs, and the
/// p-value is the p-value of the permutation test.
///
/// # Errors
/// Returns [`BadInput`] for fewer than two values on a side, a value that is not a number, or an invalid
/// `alpha`.
pub fn order(x: &[f64], y: &[f64], alpha: f64) -> Result<StochasticOrder, BadInput> {
    probability("alpha", alpha)?;
    let (sorted_x, sorted_y) = (at_least_two(x)?, at_least_two(y)?);
    // The share of the other sample below each value, in the order of time.
    let of_y: Vec<f64> = y.iter().map(|&value| share_below(&sorted_x, value)).collect();
    let of_x: Vec<f64> = x.iter().map(|&value| share_below(&sorted_y, value)).collect();
    let theta = of_y.iter().sum::<f64>() / y.len() as f64;
    let (error, freedom) = placement_error(&of_x, &of_y);
    let (interval, p_value) = if error > 0.0 && theta > 0.0 && theta < 1.0 {
        (logit_interval(theta, error, freedom, alpha), 2.0 * t_tail(freedom, (theta - 0.5) / error))
    } else {
        (pairs_interval(theta, x.len().min(y.len()), alpha), separated(theta, x.len(), y.len()))
    };
    Ok(StochasticOrder { theta, interval, p_value: p_value.min(1.0), n_x: x.len(), n_y: y.len() })
}

fn at_least_two(values: &[f64]) -> Result<Ordered, BadInput> {
    finite(values)?;
    if values.len() < 2 {
        return Err(BadInput::TooFew { what: "a comparison", needed: 2, got: values.len() });
    }
    Ordered::new(values)
}

/// Returns the share of `values` below `x`; equal values count half.
pub(super) fn share_below(values: &Ordered, x: f64) -> f64 {
    (values.below(x) + values.at_most(x)) as f64 / 2.0 / values.len() as f64
}

/// Returns the standard error of `θ`, from the placements of each sample in the other, with the degrees of
/// freedom of Satterthwaite.
fn placement_error(of_x: &[f64], of_y: &[f64]) -> (f64, f64) {
    let parts = [of_x, of_y].map(|placements| {
        let n = placements.len() as f64;
        let mean = placements.iter().sum::<f64>() / n;
        let variance = placements.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let worth = (n / dependence(placements)).max(2.0);
        (variance / worth, worth)
    });
    let total = parts[0].0 + parts[1].0;
    let spread: f64 = parts.iter().map(|(part, worth)| part * part / (worth - 1.0)).sum();
    (total.sqrt(), if spread > 0.0 { (total * total / spread).max(1.0) } else { 1.0 })
}

pub(super) fn logit_interval(theta: f64, error: f64, freedom: f64, alpha: f64) -> Interval {
    let reach = t_quantile(freedom, alpha) * error / (theta * (1.0 - theta));
    let centre = (theta / (1.0 - theta)).ln();
    let [low, high] = [centre - reach, centre + reach].map(|logit| 1.0 / (1.0 + (-logit).exp()));
    Interval { low, high, level: 1.0 - alpha }
}

/// Returns the interval if placements do not vary: all of `pairs` independent pairs agree, which has a
/// probability of at most `alpha` if the true share is below `alpha^(1/pairs)`.
pub(super) fn pairs_interval(theta: f64, pairs: usize, alpha: f64) -> Interval {
    let room = -((alpha / 2.0).ln() / pairs as f64).exp_m1();
    let (low, high) = ((theta - room).max(0.0), (theta + room).min(1.0));
    Interval { low, high, level: 1.0 - alpha }
}

/// Returns the permutation p-value of complete separation, which is the probability of two of all ways to
/// choose the `x` among the values.
fn separated(theta: f64, n_x: usize, n_y: usize) -> f64 {
    if (theta - 0.5).abs() < 0.5 {
        return 1.0;
    }
    // With p = 1/2 the mass is C(n, k)/2^n.
    let n = n_x + n_y;
    let ln_choose = binomial::ln_mass(n, 0.5, n_x) + n as f64 * std::f64::consts::LN_2;
    2.0 * (-ln_choose).exp()
}

/// Returns the value `t` with probability `alpha` beyond `±t`.
pub fn t_quantile(freedom: f64, alpha: f64) -> f64 {
    // Beyond some thousand degrees of freedom the law is normal to four digits, and the series of
    // the library slow.
    if freedom > 5_000.0 {
        return std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(alpha);
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - alpha / 2.0))
}

/// Returns the probability `P(T > |t|)` of the t distribution.
fn t_tail(freedom: f64, t: f64) -> f64 {
    if freedom > 5_000.0 {
        return 0.5 * statrs::function::erf::erfc(t.abs() / std::f64::consts::SQRT_2);
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(0.5, |law| law.sf(t.abs()))
}

/// The difference between the quantiles of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QuantileDifference {
    /// The probability of the quantile; 0.5 for the median.
    pub p: f64,
    /// The quantile of `y` minus the quantile of `x`.
    pub estimate: f64,
    /// The interval of the difference, or `None` if a sample is too small to bound its own quantile on
    /// both sides.
    pub interval: Option<Interval>,
}

/// Returns the difference of the medians, `y` minus `x`, with its interval at confidence `1 - alpha`.
///
/// # Errors
/// Returns [`BadInput`], as [`quantile_difference`] does.
pub fn median_difference(x: &[f64], y: &[f64], alpha: f64) -> Result<QuantileDifference, BadInput> {
    quantile_difference(x, y, 0.5, alpha)
}

/// Returns the difference of the `p` quantiles, `y` minus `x`, with its interval at confidence
/// `1 - alpha`.
///
/// The interval is a bootstrap interval without random draws: the rank of a resample's quantile follows a
/// binomial tail (Maritz and Jarrett, JASA 73, 1978). The distributions of both resampled quantiles, and
/// of their difference, are therefore known exactly.
///
/// # Errors
/// Returns [`BadInput`] for fewer than two values on a side, a value that is not a number, or a `p` or
/// `alpha` that is not a probability.
pub fn quantile_difference(
    x: &[f64],
    y: &[f64],
    p: f64,
    alpha: f64,
) -> Result<QuantileDifference, BadInput> {
    probability("p", p)?;
    probability("alpha", alpha)?;
    let (sorted_x, sorted_y) = (at_least_two(x)?, at_least_two(y)?);
    let estimate = quantile(&sorted_y, p)? - quantile(&sorted_x, p)?;
    let bounded = |values: &Ordered| -> Result<bool, BadInput> {
        Ok(quantile_interval(values, p, alpha)?.interval().is_some())
    };
    if !(bounded(&sorted_x)? && bounded(&sorted_y)?) {
        return Ok(QuantileDifference { p, estimate, interval: None });
    }
    let (law_x, law_y) = (resampled(x, &sorted_x, p), resampled(y, &sorted_y, p));
    Ok(QuantileDifference { p, estimate, interval: difference_interval(&law_x, &law_y, alpha) })
}

/// Returns the distribution of the `p` quantile of a resample: values with their probabilities.
fn resampled(samples: &[f64], sorted: &Ordered, p: f64) -> Vec<(f64, f64)> {
    let at = sorted.rank((samples.len() as f64 * p).ceil() as usize).unwrap_or(sorted.max());
    let n = sorted.len();
    let worth = ((n as f64 / dependence_about(samples, at)) as usize).max(2);
    // The rank of the quantile among `worth` values lies between two whole ones.
    let place = (worth + 1) as f64 * p;
    let (rank, part) = ((place.floor() as usize).clamp(1, worth), place.fract());
    let below = |index: usize| {
        let share = index as f64 / n as f64;
        match index {
            0 => 0.0,
            _ if index == n => 1.0,
            _ => {
                (1.0 - part) * binomial::at_least(worth, share, rank)
                    + part * binomial::at_least(worth, share, rank + 1)
            }
        }
    };
    // Outside seven standard deviations nothing is left to count.
    let reach = 7.0 * (p * (1.0 - p) / worth as f64).sqrt() + 2.0 / worth as f64;
    let from = ((p - reach) * n as f64).max(0.0) as usize;
    let to = (((p + reach) * n as f64).ceil() as usize).min(n);
    let mut passed = 0.0;
    let mut law = Vec::with_capacity(to - from);
    for (index, &value) in sorted.as_slice()[from..to].iter().enumerate() {
        let upto = below(from + index + 1);
        if upto - passed > 1e-7 {
            law.push((value, upto - passed));
            passed = upto;
        }
    }
    law
}

/// Returns the `alpha/2` and `1 - alpha/2` quantiles of the difference of two independent distributions.
fn difference_interval(x: &[(f64, f64)], y: &[(f64, f64)], alpha: f64) -> Option<Interval> {
    let [low, high] = [alpha / 2.0, 1.0 - alpha / 2.0].map(|share| difference_at(x, y, share));
    Some(Interval { low: low?, high: high?, level: 1.0 - alpha })
}

/// Returns the smallest `d` with `P(Y - X <= d)` at least `share`, found by bisection because there are
/// too many pairs to sort. Returns `None` for a distribution without values.
fn difference_at(x: &[(f64, f64)], y: &[(f64, f64)], share: f64) -> Option<f64> {
    let (least_x, most_x) = (x.first()?.0, x.last()?.0);
    let (least_y, most_y) = (y.first()?.0, y.last()?.0);
    // The laws sum to 1 less what was cut off, which is cut off from the share too.
    let total: f64 = mass(x) * mass(y);
    let (mut low, mut high) = (least_y - most_x, most_y - least_x);
    if up_to(x, y, low) >= share * total {
        return Some(low);
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high || high - low <= 1e-12 * high.abs().max(low.abs()) {
            return Some(high);
        }
        if up_to(x, y, middle) >= share * total { high = middle } else { low = middle }
    }
}

fn mass(law: &[(f64, f64)]) -> f64 {
    law.iter().map(|(_, probability)| probability).sum()
}

/// Returns the probability `P(Y - X <= d)`; both distributions ascend, so the number of `y` that count
/// only grows.
fn up_to(x: &[(f64, f64)], y: &[(f64, f64)], d: f64) -> f64 {
    let (mut sum, mut below, mut next) = (0.0, 0.0, y.iter().peekable());
    for &(a, of_a) in x {
        while let Some(&&(b, of_b)) = next.peek() {
            if b - a > d {
                break;
            }
            below += of_b;
            next.next();
        }
        sum += of_a * below;
    }
    sum
}

/// Returns the p-values of a family, adjusted so that comparing each with `alpha` rejects any true
/// hypothesis with probability at most `alpha` (Holm, Scandinavian Journal of Statistics 6, 1979).
///
/// # Errors
/// Returns [`BadInput::NotFinite`] for a p-value that is not a number. An empty family yields an empty
/// list.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, BadInput> {
    if p_values.is_empty() {
        return Ok(Vec::new());
    }
    finite(p_values)?;
    let mut by_size: Vec<usize> = (0..p_values.len()).collect();
    by_size.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (place, &index) in by_size.iter().enumerate() {
        floor = floor.max((p_values.len() - place) as f64 * p_values[index]).min(1.0);
        adjusted[index] = floor;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn theta_counts_the_pairs_as_by_hand() {
        // Pairs: 1 below both, 2 ties once and is below once, 3 above 2 and tied with 3.
        let result = order(&[1.0, 2.0, 3.0], &[2.0, 3.0], 0.05).unwrap();
        assert!((result.theta - 4.0 / 6.0).abs() < 1e-12, "{result:?}");
    }

    #[test]
    fn the_p_value_is_that_of_the_published_example() {
        // Pain scores after surgery in two groups, the example of Brunner and Munzel (2000):
        // statistic 3.1375 with 17.683 degrees of freedom, p = 0.005786.
        let x = [1., 2., 1., 1., 1., 1., 1., 1., 1., 1., 2., 4., 1., 1.];
        let y = [3., 3., 4., 3., 1., 2., 3., 1., 1., 5., 4.];
        let result = order(&x, &y, 0.05).unwrap();
        assert!((result.p_value - 0.005_786).abs() < 1e-5, "{result:?}");
        assert!(result.ascending() && !result.descending());
    }

    proptest! {
        #[test]
        fn theta_is_the_share_of_all_pairs_and_swapping_mirrors_it(
            x in prop::collection::vec(0_i32..12, 2..30),
            y in prop::collection::vec(0_i32..12, 2..30),
        ) {
            let [x, y] = [x, y].map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
            let mut pairs = 0.0;
            for a in &x {
                for b in &y {
                    pairs += if a < b { 1.0 } else if a > b { 0.0 } else { 0.5 };
                }
            }
            let forth = order(&x, &y, 0.05).unwrap();
            let back = order(&y, &x, 0.05).unwrap();
            prop_assert!((forth.theta - pairs / (x.len() * y.len()) as f64).abs() < 1e-12);
            prop_assert!((forth.theta + back.theta - 1.0).abs() < 1e-12);
            prop_assert!((forth.interval.low + back.interval.high - 1.0).abs() < 1e-9);
            prop_assert!((forth.p_value - back.p_value).abs() < 1e-9);
            prop_assert!(forth.interval.contains(forth.theta));
        }

        /// The test compares the quantiles with those of the slow twin, which sorts all pairs.
        #[test]
        fn the_quantiles_of_a_difference_of_laws_are_those_of_all_pairs(
            x in prop::collection::vec((-9_i32..9, 1_i32..9), 1..12),
            y in prop::collection::vec((-9_i32..9, 1_i32..9), 1..12),
            share in 0.01_f64..0.99,
        ) {
            let law = |mut v: Vec<(i32, i32)>| -> Vec<(f64, f64)> {
                v.sort_unstable();
                v.into_iter().map(|(value, weight)| (value.into(), weight.into())).collect()
            };
            let (x, y) = (law(x), law(y));
            let mut pairs: Vec<(f64, f64)> = Vec::new();
            for a in &x {
                pairs.extend(y.iter().map(|b| (b.0 - a.0, a.1 * b.1)));
            }
            pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let mut left = share * mass(&x) * mass(&y);
            let slow = pairs.iter().find(|pair| { left -= pair.1; left <= 0.0 }).unwrap().0;
            let fast = difference_at(&x, &y, share).unwrap();
            prop_assert!((fast - slow).abs() < 1e-9, "{} {}", fast, slow);
        }

        #[test]
        fn holm_never_lowers_a_p_value_nor_changes_their_order(
            p in prop::collection::vec(0.0_f64..1.0, 0..12),
        ) {
            let adjusted = holm(&p).unwrap();
            for (i, &before) in p.iter().enumerate() {
                prop_assert!(adjusted[i] >= before && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }

    #[test]
    fn holm_adjusts_as_by_hand() {
        let adjusted = holm(&[0.04, 0.01, 0.03]).unwrap();
        for (got, expected) in adjusted.iter().zip([0.06, 0.03, 0.06]) {
            assert!((got - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[0.1, f64::NAN]).is_err());
        assert_eq!(holm(&[]), Ok(vec![]));
    }

    #[test]
    fn samples_that_do_not_overlap_are_ordered_with_an_interval_that_their_number_carries() {
        let low: Vec<f64> = (0..20).map(f64::from).collect();
        let high: Vec<f64> = (30..60).map(f64::from).collect();
        let result = order(&low, &high, 0.05).unwrap();
        // 0.025^(1/20) = 0.8316; C(50, 20) = 4.713e13.
        assert_eq!((result.theta, result.interval.high), (1.0, 1.0));
        assert!((result.interval.low - 0.8316).abs() < 1e-4, "{result:?}");
        assert!((result.p_value / (2.0 / 4.712_921_2e13) - 1.0).abs() < 1e-6, "{result:?}");
        let two = order(&[1.0, 2.0], &[3.0, 4.0], 0.05).unwrap();
        assert!(!two.ascending(), "two against two order nothing: {two:?}");
    }

    #[test]
    fn equal_samples_are_not_ordered() {
        let result = order(&[0.0; 30], &[0.0; 30], 0.05).unwrap();
        assert_eq!((result.theta, result.p_value), (0.5, 1.0));
        assert!(result.interval.contains(0.5) && result.interval.width() > 0.1);
    }

    #[test]
    fn broken_input_is_an_error() {
        let good = [1.0, 2.0, 3.0];
        assert_eq!(order(&[], &good, 0.05), Err(BadInput::Empty));
        assert!(matches!(order(&good, &[1.0], 0.05), Err(BadInput::TooFew { got: 1, .. })));
        assert!(matches!(order(&good, &[1.0, f64::NAN], 0.05), Err(BadInput::NotFinite { .. })));
        assert!(order(&good, &good, 0.0).is_err());
        assert!(median_difference(&good, &[], 0.05).is_err());
        assert!(quantile_difference(&good, &good, 1.0, 0.05).is_err());
    }

    fn rate(runs: u32, mut hit: impl FnMut() -> bool) -> f64 {
        f64::from((0..runs).map(|_| u32::from(hit())).sum::<u32>()) / f64::from(runs)
    }

    #[test]
    fn intervals_of_theta_cover_for_shifted_unequal_and_tied_laws() {
        let mut draw = ResampleSource::new(137);
        // Normal with shift d and spread s against standard normal: θ = Φ(d/sqrt(1 + s²)).
        for (shift, spread, n_x, n_y) in
            [(0.0, 1.0, 20, 20), (1.0, 3.0, 40, 15), (2.0, 1.0, 30, 30), (3.0, 1.0, 30, 30)]
        {
            let z: f64 = shift / f64::sqrt(1.0 + spread * spread);
            let theta = 1.0 - 0.5 * statrs::function::erf::erfc(z / std::f64::consts::SQRT_2);
            let covered = rate(1_500, || {
                let x = draw.values(ReferenceLaw::Normal, n_x);
                let y: Vec<f64> = draw
                    .values(ReferenceLaw::Normal, n_y)
                    .iter()
                    .map(|v| shift + spread * v)
                    .collect();
                order(&x, &y, 0.05).unwrap().interval.contains(theta)
            });
            assert!(covered > 0.925, "{shift} {spread}: {covered}");
        }
        let covered = rate(1_500, || {
            let (x, y) = (draw.values(ReferenceLaw::Die, 25), draw.values(ReferenceLaw::Die, 40));
            order(&x, &y, 0.05).unwrap().interval.contains(0.5)
        });
        assert!(covered > 0.925, "dice: {covered}");
    }

    #[test]
    fn a_true_null_is_rejected_at_its_level_and_a_shift_is_found() {
        let mut draw = ResampleSource::new(139);
        let rejected = rate(2_000, || {
            let (x, y) = (
                draw.values(ReferenceLaw::LogNormal, 40),
                draw.values(ReferenceLaw::LogNormal, 60),
            );
            order(&x, &y, 0.05).unwrap().p_value < 0.05
        });
        assert!((0.035..0.07).contains(&rejected), "{rejected}");
        let found = rate(200, || {
            let x = draw.values(ReferenceLaw::LogNormal, 100);
            let y: Vec<f64> =
                draw.values(ReferenceLaw::LogNormal, 100).iter().map(|v| 1.8 * v).collect();
            order(&x, &y, 0.05).unwrap().ascending()
        });
        assert!(found > 0.95, "{found}");
    }

    #[test]
    fn related_samples_do_not_make_an_order_out_of_nothing() {
        let mut draw = ResampleSource::new(149);
        let ordered = rate(400, || {
            let (x, y) = (draw.autoregression(0.8, 400), draw.autoregression(0.8, 400));
            let result = order(&x, &y, 0.05).unwrap();
            result.ascending() || result.descending()
        });
        assert!(ordered < 0.12, "{ordered}");
    }

    #[test]
    fn intervals_of_a_difference_of_quantiles_cover() {
        let mut draw = ResampleSource::new(151);
        for (law, factor, n_x, n_y, p) in [
            (ReferenceLaw::Exponential, 3.0, 40, 60, 0.5),
            (ReferenceLaw::LogNormal, 1.0, 25, 200, 0.5),
            (ReferenceLaw::Uniform, 2.0, 31, 31, 0.5),
            (ReferenceLaw::LogNormal, 2.0, 150, 150, 0.9),
        ] {
            let truth = (factor - 1.0) * law.quantile(p);
            let covered = rate(1_000, || {
                let x = draw.values(law, n_x);
                let y: Vec<f64> = draw.values(law, n_y).iter().map(|v| factor * v).collect();
                let difference = quantile_difference(&x, &y, p, 0.05).unwrap();
                difference.interval.unwrap().contains(truth)
            });
            assert!(covered > 0.925, "{law:?} {factor} {p}: {covered}");
        }
    }

    /// The twin of `resampled` draws resamples and counts.
    #[test]
    fn the_law_of_a_resampled_median_is_that_of_drawing() {
        let mut draw = ResampleSource::new(157);
        let values: Vec<f64> = (0..21).map(|i| f64::from(i * i)).collect();
        let sorted = Ordered::new(&values).unwrap();
        // In an order that shows no dependence.
        let shuffled: Vec<f64> = (0..21).map(|i| values[(i * 8) % 21]).collect();
        let law = resampled(&shuffled, &sorted, 0.5);
        let runs = 20_000;
        let mut seen = std::collections::HashMap::new();
        for _ in 0..runs {
            let resample: Vec<f64> =
                (0..21).map(|_| values[(draw.unit() * 21.0) as usize]).collect();
            let median = quantile(&Ordered::new(&resample).unwrap(), 0.5).unwrap();
            *seen.entry(median as u64).or_insert(0) += 1;
        }
        for (value, probability) in law {
            let share =
                f64::from(seen.get(&(value as u64)).copied().unwrap_or(0)) / f64::from(runs);
            assert!((share - probability).abs() < 0.015, "{value}: {share} {probability}");
        }
    }

    #[test]
    fn a_quantile_that_a_sample_cannot_bound_has_a_difference_without_interval() {
        let (few, many) =
            ([1.0, 2.0, 3.0], ResampleSource::new(163).values(ReferenceLaw::Uniform, 500));
        let difference = median_difference(&few, &many, 0.05).unwrap();
        assert!(difference.interval.is_none() && difference.estimate < 0.0);
        assert!(quantile_difference(&many, &many, 0.999, 0.05).unwrap().interval.is_none());
    }
}
