// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether excesses follow the fitted distribution, and are independent draws from it.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use statrs::function::erf::erfc;

use super::gpd::{Gpd, by_likelihood};
use crate::ordered::Ordered;

/// The largest number of resamples for a p-value.
const RESAMPLES: usize = 299;

/// The number of resamples with a worse fit than the data after which the p-value counts as settled
/// (Besag and Clifford, Biometrika 78(2), 1991): a good fit then costs fifty refits instead of 299.
const SETTLED_AFTER: usize = 25;

/// Returns the Anderson–Darling statistic `A²` of ascending excesses against `law`.
pub(crate) fn anderson_darling(excesses: &Ordered, law: Gpd) -> f64 {
    let ys = excesses.as_slice();
    let n = ys.len() as f64;
    let sum: f64 = ys
        .iter()
        .zip(ys.iter().rev())
        .enumerate()
        .map(|(index, (&low, &high))| {
            // ln F(low) + ln(1 - F(high)); the floor keeps a y of 0 from being infinitely unlikely.
            let below = (-(-law.hazard(low)).exp_m1()).max(1e-300).ln();
            (2 * index + 1) as f64 * (below - law.hazard(high).min(700.0))
        })
        .sum();
    -n - sum / n
}

/// Returns the probability that excesses drawn from `law` and fitted again have a worse fit than the
/// data (parametric bootstrap). The tables of Choulakian and Stephens (Technometrics 43(4), 2001)
/// agree for long samples; the bootstrap also holds for short samples.
pub(crate) fn p_value(statistic: f64, law: Gpd, n: usize, random: &mut Pcg64Mcg) -> f64 {
    let mut worse = 0;
    for drawn in 1..=RESAMPLES {
        let sample: Vec<f64> = (0..n).map(|_| law.excess(1.0 - random.random::<f64>())).collect();
        if refitted(&sample).is_none_or(|resampled| resampled >= statistic) {
            worse += 1;
        }
        if worse == SETTLED_AFTER {
            return SETTLED_AFTER as f64 / drawn as f64;
        }
    }
    (worse + 1) as f64 / (RESAMPLES + 1) as f64
}

fn refitted(sample: &[f64]) -> Option<f64> {
    let sample = Ordered::new(sample).ok()?;
    Some(anderson_darling(&sample, by_likelihood(&sample)?))
}

/// Returns the probability of a normal variable beyond `±z`.
pub(crate) fn two_sided(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Returns the p-value of the Kolmogorov–Smirnov test of `places` (indices from 0, ascending) among
/// `n` against the uniform distribution, which shows whether the places are evenly spread. The
/// p-value is small for drift or a single burst.
pub(crate) fn evenness(places: &[usize], n: usize) -> f64 {
    let k = places.len() as f64;
    let distance = places.iter().enumerate().fold(0.0_f64, |worst, (index, &place)| {
        let expected = (place as f64 + 0.5) / n as f64;
        worst.max(expected - index as f64 / k).max((index + 1) as f64 / k - expected)
    });
    kolmogorov((k.sqrt() + 0.12 + 0.11 / k.sqrt()) * distance)
}

/// Returns the series `2·Σ(-1)^(j-1)·exp(-2j²x²)`, which is the limit distribution of the
/// Kolmogorov–Smirnov distance.
fn kolmogorov(x: f64) -> f64 {
    if x < 0.3 {
        return 1.0; // the series does not converge there, and the sum is 1 to nine digits
    }
    let terms = (1..=100).map(|j: i32| {
        let sign = if j % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(j * j) * x * x).exp()
    });
    terms.sum::<f64>().clamp(0.0, 1.0)
}

/// Returns the p-value of the runs test (Wald and Wolfowitz, Annals of Mathematical Statistics 11,
/// 1940) on the series marked at `places`, which shows whether the places come singly. The p-value
/// is small for clusters, and for places that are too regular to be random.
pub(crate) fn singleness(places: &[usize], n: usize) -> f64 {
    let marked = places.len() as f64;
    let unmarked = n as f64 - marked;
    let starts = 1 + places.windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
    let at_ends = [places.first() == Some(&0), places.last() == Some(&(n - 1))];
    // Runs of marks, the runs between them, and one more at each end that is not marked.
    let runs = 2 * starts + 1 - at_ends.into_iter().filter(|&marked| marked).count();
    let product = 2.0 * marked * unmarked;
    let mean = 1.0 + product / n as f64;
    let variance = product * (product - n as f64) / ((n * n) as f64 * (n as f64 - 1.0));
    two_sided((runs as f64 - mean) / variance.sqrt())
}

/// Returns the p-value of the correlation of ranks at lag 1, which shows whether successive values
/// are unrelated; for independent values the correlation is normal with mean `-1/n` and variance
/// `1/n`.
pub(crate) fn unrelatedness(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let ranks = centred_ranks(values);
    let square: f64 = ranks.iter().map(|r| r * r).sum();
    let product: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
    two_sided((product / square + 1.0 / n) * n.sqrt())
}

/// Returns the ranks of `values` minus the mean of all ranks; equal values have their mean rank.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let below = |x: f64| sorted.partition_point(|&y| y < x);
    let up_to = |x: f64| sorted.partition_point(|&y| y <= x);
    let centre = values.len() as f64 / 2.0;
    values.iter().map(|&x| (below(x) + up_to(x)) as f64 / 2.0 - centre).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_anderson_darling_statistic_comes_out_as_by_hand() {
        // One value at the median of its law: -1 - ln(1/2) - ln(1/2).
        let law = Gpd { shape: 0.0, scale: 1.0 };
        let one = Ordered::new(&[2.0_f64.ln()]).unwrap();
        assert!((anderson_darling(&one, law) - (4.0_f64.ln() - 1.0)).abs() < 1e-12);
        // Two at the quartiles 1/4 and 3/4: -2 - (1/2)(2·ln(1/16) + ... ) with weights 1 and 3.
        let two = Ordered::new(&[law.excess(0.75), law.excess(0.25)]).unwrap();
        let by_hand = -2.0 - 0.5 * (2.0 * 0.25_f64.ln() + 3.0 * 2.0 * 0.75_f64.ln());
        assert!((anderson_darling(&two, law) - by_hand).abs() < 1e-12);
    }

    #[test]
    fn p_values_of_true_laws_are_uniform_and_of_false_ones_small() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut draw = ResampleSource::new(43);
        let mut p_of = |values: &[f64]| {
            let sample = Ordered::new(values).unwrap();
            let law = by_likelihood(&sample).unwrap();
            p_value(anderson_darling(&sample, law), law, sample.len(), &mut random)
        };
        let runs = 250;
        let rejected =
            (0..runs).filter(|_| p_of(&draw.values(ReferenceLaw::Pareto(0.1), 60)) < 0.1).count();
        assert!((8..=40).contains(&rejected), "{rejected} of {runs} at 0.1");
        // Two clumps far apart are no excesses of one law.
        let clumps: Vec<f64> =
            (0..100).map(|i| 1.0 + f64::from(i % 2) * 50.0 + draw.unit()).collect();
        assert!(p_of(&clumps) < 0.01);
    }

    #[test]
    fn the_kolmogorov_law_has_its_known_quantiles() {
        for (x, p) in [(1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01), (0.05, 1.0)] {
            assert!((kolmogorov(x) - p).abs() < 1e-4, "{x}: {}", kolmogorov(x));
        }
    }

    #[test]
    fn runs_are_counted_as_by_hand() {
        // Marks at 0, 1 and 4 of six: runs 11 00 1 0, so 4; expected 1 + 2·3·3/6 = 4.
        assert!((singleness(&[0, 1, 4], 6) - 1.0).abs() < 1e-12);
        // All marks together in the middle: 3 runs of an expected 4, variance 18·12/180 = 1.2.
        let p = singleness(&[2, 3, 4], 6);
        assert!((p - two_sided(1.0 / 1.2_f64.sqrt())).abs() < 1e-12, "{p}");
    }

    fn rejections(
        test: impl Fn(&[usize], &[f64], usize) -> f64,
        mut series: impl FnMut() -> Vec<f64>,
    ) -> f64 {
        let runs = 1_000;
        let rejected = (0..runs)
            .filter(|_| {
                let values = series();
                let places: Vec<usize> = (0..values.len()).filter(|&i| values[i] > 1.28).collect();
                test(&places, &values, values.len()) < 0.05
            })
            .count();
        rejected as f64 / f64::from(runs)
    }

    #[test]
    fn the_three_tests_of_independence_keep_their_level_and_find_what_they_are_for() {
        let mut draw = ResampleSource::new(47);
        let mut white = || draw.values(ReferenceLaw::Normal, 500);
        for level in [
            rejections(|places, _, n| evenness(places, n), &mut white),
            rejections(|places, _, n| singleness(places, n), &mut white),
            rejections(|_, values, _| unrelatedness(values), &mut white),
        ] {
            assert!((0.02..=0.075).contains(&level), "{level}");
        }
        let mut draw = ResampleSource::new(53);
        let mut drifting = || {
            let values = draw.values(ReferenceLaw::Normal, 500);
            values.iter().enumerate().map(|(i, x)| x + i as f64 / 400.0).collect()
        };
        assert!(rejections(|places, _, n| evenness(places, n), &mut drifting) > 0.95);
        let mut draw = ResampleSource::new(59);
        let mut clustered = || draw.autoregression(0.6, 500);
        assert!(rejections(|places, _, n| singleness(places, n), &mut clustered) > 0.95);
        assert!(rejections(|_, values, _| unrelatedness(values), &mut clustered) > 0.95);
    }
}
