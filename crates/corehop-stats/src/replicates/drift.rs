// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether replicates change during a run.

use serde::Serialize;

use super::{FEWEST_REPLICATES, Nested};

/// The largest number of replicates without ties for which the exact distribution is computed; for
/// more replicates, the normal distribution is as good.
const MOST_COUNTED: usize = 60;

/// The result of a test whether the medians of replicates rise or fall with time: the test of Mann
/// (Econometrica 13, 1945) and Kendall, which is exact up to sixty replicates without ties.
///
/// The test finds a trend, but not a course that returns to its start. The test assumes that
/// replicates without a trend are exchangeable, so replicates that resemble their neighbours also
/// show a trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplicateDrift {
    /// Kendall's `τ` of median and time, -1 to 1; positive if the medians rise.
    pub tau: f64,
    /// The two-sided p-value of the hypothesis of no trend.
    pub p_value: f64,
    /// Whether the p-value is below the requested `alpha`.
    pub drifts: bool,
    /// The median of the second half's replicates minus that of the first half's, in the unit of the
    /// samples; a replicate in the middle belongs to neither half.
    pub shift: f64,
}

impl Nested {
    /// Tests whether replicates drift in the course of the run, at level `alpha`; returns `None` for
    /// fewer than six replicates, or if all have the same median.
    pub fn drift(&self, alpha: f64) -> Option<ReplicateDrift> {
        let medians = self.medians();
        let n = medians.len();
        if n < FEWEST_REPLICATES {
            return None;
        }
        let score = rises_less_falls(&medians);
        let ties = ties(&medians);
        let variance = variance(n, &ties);
        if variance <= 0.0 {
            return None;
        }
        let counted = ties.is_empty() && n <= MOST_COUNTED;
        let p_value = if counted { exact(n, score) } else { normal(score, variance) };
        let half = n / 2;
        let pairs = (n * (n - 1) / 2) as f64;
        Some(ReplicateDrift {
            tau: score as f64 / pairs,
            p_value,
            drifts: p_value < alpha,
            shift: middle(&medians[n - half..]) - middle(&medians[..half]),
        })
    }
}

/// Returns the number of pairs whose later value is larger, minus the number of pairs whose later
/// value is smaller.
fn rises_less_falls(values: &[f64]) -> i64 {
    let against = |(at, &earlier): (usize, &f64)| -> i64 {
        let sign = |&later: &f64| i64::from(later > earlier) - i64::from(later < earlier);
        values[at + 1..].iter().map(sign).sum()
    };
    values.iter().enumerate().map(against).sum()
}

/// Returns the sizes of groups of equal values.
fn ties(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a >= b).map(<[f64]>::len).filter(|&size| size > 1).collect()
}

/// Returns the variance of the score without a trend, corrected for ties (Kendall, Rank Correlation
/// Methods).
fn variance(n: usize, ties: &[usize]) -> f64 {
    let term = |size: usize| (size * (size - 1) * (2 * size + 5)) as f64;
    (term(n) - ties.iter().map(|&size| term(size)).sum::<f64>()) / 18.0
}

/// Returns the two-sided p-value of the score among all orders of `n` different values.
fn exact(n: usize, score: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    // The law is symmetric, so either tail does.
    let falls = (pairs - score.unsigned_abs() as usize) / 2;
    let tail: f64 = law_of_falls(n)[..=falls].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Returns the probabilities of 0, 1, … falling pairs in a random order of `n` values; each further
/// value is put before any number of the earlier values.
fn law_of_falls(n: usize) -> Vec<f64> {
    let mut law = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; law.len() + size - 1];
        for (falls, mass) in law.iter().enumerate() {
            next[falls..falls + size].iter_mut().for_each(|to| *to += mass / size as f64);
        }
        law = next;
    }
    law
}

fn normal(score: i64, variance: f64) -> f64 {
    let z = (score.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    statrs::function::erf::erfc(z / std::f64::consts::SQRT_2)
}

/// Returns the median of at least one value.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(medians: &[f64]) -> Nested {
        Nested::new(medians.iter().map(|&median| vec![median; 3]).collect()).unwrap()
    }

    #[test]
    fn six_rising_replicates_drift_with_two_chances_in_720() {
        let drift = run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).drift(0.05).unwrap();
        assert!((drift.p_value - 2.0 / 720.0).abs() < 1e-12, "{drift:?}");
        assert_eq!((drift.tau, drift.drifts, drift.shift), (1.0, true, 3.0));
        assert_eq!(run(&[1.0, 2.0, 3.0, 4.0, 5.0]).drift(0.05), None);
        assert_eq!(run(&[2.0; 9]).drift(0.05), None);
    }

    #[test]
    fn the_tail_is_that_of_the_published_table() {
        // Kendall, Rank Correlation Methods, table of S: n = 8, S = 16: 0.031 one-sided; n = 10,
        // S = 21: 0.036.
        assert!((exact(8, 16) / 2.0 - 0.031).abs() < 5e-4, "{}", exact(8, 16));
        assert!((exact(10, 21) / 2.0 - 0.036).abs() < 5e-4, "{}", exact(10, 21));
        assert!((law_of_falls(60).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_normal_law_agrees_with_the_exact_one_where_it_takes_over() {
        for score in [0, 100, 300, 500] {
            let (exact, normal) = (exact(60, score), normal(score, variance(60, &[])));
            assert!((exact - normal).abs() < 0.02 * exact + 2e-4, "{score}: {exact} {normal}");
        }
    }

    #[test]
    fn ties_lower_the_variance_and_no_trend_has_no_drift() {
        assert!(variance(8, &[3, 2]) < variance(8, &[]));
        let drift = run(&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0]).drift(0.05).unwrap();
        assert!(!drift.drifts && drift.p_value > 0.5, "{drift:?}");
    }
}
