// SPDX-License-Identifier: MIT OR Apache-2.0
//! The spread of replicates, and the maximum of all samples.

use std::fmt;

use serde::Serialize;

use super::super::ordered::{BadInput, Ordered, probability};
use super::super::quantile::quantile;
use super::{Nested, mean};

/// The smallest number of replicates for which quartiles are computed.
const FEWEST_FOR_QUARTILES: usize = 4;

/// The differences between the replicates of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest median of a replicate, in the unit of the samples.
    pub low: f64,
    /// The largest median of a replicate.
    pub high: f64,
    /// The lower and the upper quartile of the replicates' medians, or `None` for fewer than four
    /// replicates.
    pub quartiles: Option<(f64, f64)>,
    /// The number of replicates of the cell.
    pub replicates: usize,
    /// The standard deviation of the replicates' contributions to their samples, in the unit of the
    /// samples, by analysis of variance; 0 if the replicates differ no more than their samples
    /// explain. The field is `None` for a single replicate, or if no replicate has two samples.
    pub std_between: Option<f64>,
    /// The share of a sample's variance that is between replicates, 0 to 1: the intraclass
    /// correlation of the one-way model with random effects and unequal sizes (Donner, International
    /// Statistical Review 54, 1986). The field is `None` for a single replicate, if no replicate has
    /// two samples, or if all samples are equal. The share uses second-order moments, so a few
    /// outliers can determine the share.
    pub share_between: Option<f64>,
}

/// The largest sample, with the quantile that it bounds if the replicate is the unit.
///
/// The maxima of `R` independent replicates are all below the quantile `p` of replicate maxima with
/// probability `p^R`, so with confidence `1 - p^R` the largest sample is at least that quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplicateMaximum {
    /// The largest sample, in the unit of the samples.
    pub value: f64,
    /// The number of replicates behind the maximum.
    pub replicates: usize,
    /// The number of samples behind the maximum.
    pub samples: usize,
    /// The highest quantile of the maxima of equally large replicates that the value bounds from
    /// above with confidence `level`.
    pub bounds_quantile: f64,
    /// The confidence with which the maximum bounds the quantile.
    pub level: f64,
}

impl ReplicateMaximum {
    /// Returns the confidence with which the value bounds the quantile `p` of replicate maxima,
    /// which is `1 - p^R`.
    ///
    /// # Errors
    /// Returns [`BadInput::NotAProbability`] unless 0 < `p` < 1.
    pub fn confidence_for(&self, p: f64) -> Result<f64, BadInput> {
        probability("p", p)?;
        Ok(-(self.replicates as f64 * p.ln()).exp_m1())
    }
}

impl fmt::Display for ReplicateMaximum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the largest of {} samples in {} replicates; with {:.0} % confidence at most {:.1} % of \
             all replicates have a larger one",
            self.samples,
            self.replicates,
            100.0 * self.level,
            100.0 * (1.0 - self.bounds_quantile)
        )
    }
}

/// Returns the quantile `p` with `1 - p^R = level`, the highest quantile of replicate maxima that
/// the largest of `replicates` maxima bounds from above with confidence `level`.
pub fn bounds_quantile(replicates: usize, level: f64) -> f64 {
    ((1.0 - level).ln() / replicates as f64).exp()
}

impl Nested {
    /// Returns the largest sample, and the quantile of replicate maxima that it bounds with
    /// confidence `level`. The function assumes that the replicates are independent.
    ///
    /// # Errors
    /// Returns [`BadInput`] for an invalid `level`, or without samples.
    pub fn maximum(&self, level: f64) -> Result<ReplicateMaximum, BadInput> {
        probability("level", level)?;
        let value = self.groups.iter().flatten().copied().max_by(f64::total_cmp);
        let replicates = self.replicates();
        Ok(ReplicateMaximum {
            value: value.ok_or(BadInput::Empty)?,
            replicates,
            samples: self.samples(),
            bounds_quantile: bounds_quantile(replicates, level),
            level,
        })
    }

    /// Returns the spread of the replicates. Returns zero or `None` for all values if there are no
    /// samples.
    pub fn spread(&self) -> Spread {
        let medians = Ordered::new(&self.medians()).ok();
        let variances = self.variances();
        let quarter = |p| medians.as_ref().and_then(|it| quantile(it, p).ok());
        Spread {
            low: medians.as_ref().map_or(0.0, Ordered::min),
            high: medians.as_ref().map_or(0.0, Ordered::max),
            quartiles: (self.replicates() >= FEWEST_FOR_QUARTILES)
                .then(|| quarter(0.25).zip(quarter(0.75)))
                .flatten(),
            replicates: self.replicates(),
            std_between: variances.map(|(between, _)| between.sqrt()),
            share_between: variances
                .filter(|(between, within)| between + within > 0.0)
                .map(|(between, within)| between / (between + within)),
        }
    }

    /// Returns the variances between and within replicates by one-way analysis of variance, or
    /// `None` if either has no degree of freedom.
    fn variances(&self) -> Option<(f64, f64)> {
        let (groups, samples) = (self.replicates(), self.samples());
        if groups < 2 || samples == groups {
            return None;
        }
        let means: Vec<f64> = self.groups.iter().map(|group| mean(group)).collect();
        let sizes: Vec<f64> = self.groups.iter().map(|group| group.len() as f64).collect();
        let n = samples as f64;
        let centre = sizes.iter().zip(&means).map(|(size, mean)| size * mean).sum::<f64>() / n;
        let off = |(size, mean): (&f64, &f64)| size * (mean - centre).powi(2);
        let between = sizes.iter().zip(&means).map(off).sum::<f64>() / (groups - 1) as f64;
        let own = |(group, mean): (&Vec<f64>, &f64)| -> f64 {
            group.iter().map(|x| (x - mean).powi(2)).sum()
        };
        let within =
            self.groups.iter().zip(&means).map(own).sum::<f64>() / (samples - groups) as f64;
        // The size of a replicate, for unequal sizes.
        let squares: f64 = sizes.iter().map(|size| size * size).sum();
        let size = (n - squares / n) / (groups - 1) as f64;
        // Below this the differences are the rounding of the means and no signal.
        if between.max(within) <= (centre * 1e-14).powi(2) {
            return Some((0.0, 0.0));
        }
        Some((((between - within) / size).max(0.0), within))
    }
}
