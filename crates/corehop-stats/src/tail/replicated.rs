// SPDX-License-Identifier: MIT OR Apache-2.0
//! The design effect of replicates on a tail: exceedances of one replicate are alike.
//!
//! The design effect (Kish, Survey Sampling, 1965) is the factor by which the replicates vary more than
//! they would if all samples were independent. A tail is determined by the number of exceedances and by
//! their excesses, so the larger of both design effects counts.

use std::collections::BTreeMap;

use super::Tail;
use crate::replicates::{FEWEST_REPLICATES, NoInterval};

/// The replicates of the samples to which a tail was fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replicated {
    /// The number of replicates with a sample.
    pub replicates: usize,
    /// The factor by which replicates vary more than independent samples would; at least 1.
    pub design_effect: f64,
}

/// The values of one replicate: the number of samples, the number above the threshold, and the sum of
/// their excesses.
#[derive(Debug, Clone, Copy, Default)]
struct ReplicateExcess {
    samples: f64,
    beyond: f64,
    excess: f64,
}

impl Replicated {
    /// Returns the design effect of the samples to which the tail was fitted, each with its replicate;
    /// `in_a_row` consecutive replicates count as one.
    ///
    /// # Errors
    /// Returns [`NoInterval::TooFewReplicates`] if fewer than six replicates have a sample above the
    /// threshold.
    pub fn of(
        tail: &Tail,
        samples: &[f64],
        replicates: &[u64],
        in_a_row: f64,
    ) -> Result<Self, NoInterval> {
        let mut all: BTreeMap<u64, ReplicateExcess> = BTreeMap::new();
        for (&value, &replicate) in samples.iter().zip(replicates) {
            let own = all.entry(replicate).or_default();
            own.samples += 1.0;
            if value > tail.threshold {
                own.beyond += 1.0;
                own.excess += value - tail.threshold;
            }
        }
        let have = all.values().filter(|own| own.beyond > 0.0).count();
        if have < FEWEST_REPLICATES {
            return Err(NoInterval::TooFewReplicates { have });
        }
        let all: Vec<ReplicateExcess> = all.into_values().collect();
        let design_effect = counts(&all).max(excesses(&all, tail)).max(1.0) * in_a_row.max(1.0);
        Ok(Self { replicates: all.len(), design_effect })
    }
}

/// Returns the variance of the numbers of exceedances, divided by the variance of binomial numbers.
fn counts(all: &[ReplicateExcess]) -> f64 {
    let sum = |of: fn(&ReplicateExcess) -> f64| all.iter().map(of).sum::<f64>();
    let (n, share) = (sum(|it| it.samples), sum(|it| it.beyond) / sum(|it| it.samples));
    let squares: f64 = all.iter().map(|it| (it.beyond - share * it.samples).powi(2)).sum();
    corrected(all) * squares / (n * share * (1.0 - share)).max(f64::MIN_POSITIVE)
}

/// Returns the variance of the sums of excesses, divided by the variance of independent sums.
fn excesses(all: &[ReplicateExcess], tail: &Tail) -> f64 {
    let ys = tail.excesses.as_slice();
    let mean = ys.iter().sum::<f64>() / ys.len() as f64;
    let within: f64 = ys.iter().map(|y| (y - mean).powi(2)).sum();
    let squares: f64 = all.iter().map(|it| (it.excess - mean * it.beyond).powi(2)).sum();
    corrected(all) * squares / within.max(f64::MIN_POSITIVE)
}

/// Returns the correction for the estimated mean: replicates vary slightly less around their own mean
/// than around the true mean.
fn corrected(all: &[ReplicateExcess]) -> f64 {
    all.len() as f64 / (all.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::fit_tail;
    use super::*;
    use crate::draw::{ReferenceLaw, ResampleSource};

    fn labels(n: usize, replicates: u64) -> Vec<u64> {
        (0..n as u64).map(|at| at * replicates / n as u64).collect()
    }

    #[test]
    fn independent_samples_have_a_design_effect_near_one_and_a_slightly_wider_interval() {
        let values = ResampleSource::new(3).values(ReferenceLaw::Exponential, 2_000);
        let tail = fit_tail(&values, 1).unwrap();
        let of = Replicated::of(&tail, &values, &labels(2_000, 20), 1.0).unwrap();
        assert!((1.0..1.6).contains(&of.design_effect), "{of:?}");
        let p = tail.reaches_to();
        let [alone, replicated] =
            [tail.quantile(p, 0.05).unwrap(), tail.replicated_quantile(p, 0.05, &of).unwrap()];
        assert!((alone.0 - replicated.0).abs() < 1e-12);
        assert!((1.0..1.6).contains(&(replicated.1.width() / alone.1.width())));
    }

    #[test]
    fn excesses_that_one_replicate_has_in_common_widen_the_interval() {
        // Every other replicate has excesses of about 1, every other of about 3.
        let mut draw = ResampleSource::new(11);
        let labels = labels(2_000, 20);
        let scale = |label: u64| if label.is_multiple_of(2) { 1.0 } else { 2.0 };
        let values: Vec<f64> =
            labels.iter().map(|&label| -scale(label) * (1.0 - draw.unit()).ln()).collect();
        // The law of the mixture is what matters here, not whether a run with such steps is refused.
        let shuffled: Vec<f64> = (0..2_000).map(|at| values[at * 997 % 2_000]).collect();
        let tail = fit_tail(&shuffled, 1).unwrap();
        let of = Replicated::of(&tail, &values, &labels, 1.0).unwrap();
        assert!(of.design_effect > 2.0, "{of:?}");
        let dependent = Replicated::of(&tail, &values, &labels, 2.0).unwrap();
        assert!((dependent.design_effect / of.design_effect - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_tail_of_one_replicate_has_no_interval_and_says_why() {
        let values = ResampleSource::new(3).values(ReferenceLaw::Exponential, 2_000);
        let tail = fit_tail(&values, 1).unwrap();
        let why = Replicated::of(&tail, &values, &vec![0; 2_000], 1.0).unwrap_err();
        assert_eq!(why.to_string(), "1 replicates; an interval needs 6");
    }
}
