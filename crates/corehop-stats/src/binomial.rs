// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes tails of the binomial distribution by summing the relevant terms.
//!
//! The usual method, the incomplete beta function by a continued fraction with a fixed number of
//! steps, is silently wrong from some ten thousand trials on. A sum of positive terms outward from
//! the largest cannot be wrong in this way: it ends when a term no longer counts, after about
//! `8·sqrt(n)` terms.

use statrs::function::gamma::ln_gamma;

/// Returns the logarithm `ln P(B = k)` for `B` binomial with `n` trials of probability `p`, 0 < p <
/// 1, `k <= n`.
pub(crate) fn ln_mass(n: usize, p: f64, k: usize) -> f64 {
    let (trials, hits) = (n as f64, k as f64);
    let misses = trials - hits;
    ln_choose(trials, hits) + hits * p.ln() + misses * (-p).ln_1p()
}

fn ln_choose(n: f64, k: f64) -> f64 {
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
}

/// Returns the probability `P(B <= k)`; 1 for `k >= n`.
pub fn at_most(n: usize, p: f64, k: usize) -> f64 {
    if k >= n {
        return 1.0;
    }
    if k as f64 <= n as f64 * p { lower_tail(n, p, k) } else { 1.0 - upper_tail(n, p, k + 1) }
}

/// Returns the probability `P(B >= k)`; 0 for `k > n`.
pub fn at_least(n: usize, p: f64, k: usize) -> f64 {
    match k {
        0 => 1.0,
        k if k > n => 0.0,
        k if k as f64 > n as f64 * p => upper_tail(n, p, k),
        k => 1.0 - lower_tail(n, p, k - 1),
    }
}

/// Returns the sum of the probabilities from `k` down; intended for `k` up to the mode, where they
/// decrease.
fn lower_tail(n: usize, p: f64, k: usize) -> f64 {
    let odds = (1.0 - p) / p;
    let mut term = ln_mass(n, p, k).exp();
    let mut sum = term;
    for j in (1..=k).rev() {
        term *= odds * j as f64 / (n - j + 1) as f64;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum.min(1.0)
}

/// Returns the sum of the probabilities from `k` up; the mirror image of [`lower_tail`].
fn upper_tail(n: usize, p: f64, k: usize) -> f64 {
    lower_tail(n, 1.0 - p, n - k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::function::beta::beta_reg;

    /// Returns the obvious twin: the law of the number of hits, one trial after the other.
    fn slow_masses(n: usize, p: f64) -> Vec<f64> {
        let mut masses = vec![1.0];
        for _ in 0..n {
            let hit = |k: usize| if k == 0 { 0.0 } else { masses[k - 1] * p };
            let miss = |k: usize| masses.get(k).map_or(0.0, |mass| mass * (1.0 - p));
            masses = (0..=masses.len()).map(|k| hit(k) + miss(k)).collect();
        }
        masses
    }

    #[test]
    fn tails_agree_with_the_direct_sum_and_with_the_incomplete_beta_function() {
        for n in [1, 2, 7, 40, 200] {
            for p in [0.01, 0.2, 0.5, 0.9, 0.99] {
                let masses = slow_masses(n, p);
                for k in 0..=n {
                    let fast = at_most(n, p, k);
                    let slow: f64 = masses[..=k].iter().sum();
                    assert!((fast - slow).abs() < 1e-11, "{n} {p} {k}: {fast} {slow}");
                    assert!((ln_mass(n, p, k).exp() - masses[k]).abs() < 1e-11, "{n} {p} {k}");
                    if k < n {
                        let beta = beta_reg((n - k) as f64, k as f64 + 1.0, 1.0 - p);
                        assert!((fast - beta).abs() < 1e-9, "{n} {p} {k}: {fast} {beta}");
                        assert!((at_least(n, p, k + 1) - (1.0 - fast)).abs() < 1e-11);
                    }
                }
            }
        }
    }

    #[test]
    fn a_million_trials_keep_their_symmetry_and_their_normal_limit() {
        let n = 1_000_000;
        // By symmetry P(B <= n/2 - 1) = P(B >= n/2 + 1), and 500 is one standard deviation.
        let (low, high) = (at_most(n, 0.5, 499_999), at_least(n, 0.5, 500_001));
        assert!((low - high).abs() < 1e-9 && (low - 0.5).abs() < 1e-3, "{low} {high}");
        let one_sigma = at_most(n, 0.5, 499_500);
        assert!((one_sigma - 0.158_9).abs() < 2e-4, "{one_sigma}");
    }

    #[test]
    fn the_ends_are_certain() {
        assert_eq!((at_most(5, 0.3, 5), at_least(5, 0.3, 0), at_least(5, 0.3, 6)), (1.0, 1.0, 0.0));
    }
}
