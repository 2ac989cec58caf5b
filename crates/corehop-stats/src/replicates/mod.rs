// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples in replicates: intervals come from the spread between replicates.
//!
//! A replicate draws anew everything that a process draws when it starts (page frames, threads, order, CPUs). Samples
//! of one replicate share its draws and are alike, so a thousand of them can carry no more information than one. The
//! replicate is the unit of the experiment (Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013;
//! Mytkowicz et al., ASPLOS 2009). The statistics reduce each replicate to one number, and the interval follows from
//! the variation of these numbers.
//!
//! **Median, and every quantile that each replicate carries** (at least one sample expected on either side). The
//! estimated quantity is the median, over replicates as the experiment draws them, of the replicate's own quantile, as
//! a replicate's number of samples shows it. The interval is that of the sign test on the replicate quantiles, with the
//! interpolation of Hettmansperger and Sheather (Statistics & Probability Letters 4, 1986). The method assumes no
//! distribution, and 95 % mean 95 %, not the 96.9 % or more of whole ranks. If the distribution within replicates is
//! skewed, or if replicates differ much, this quantity is not exactly the quantile of all samples together.
//!
//! **Other quantiles.** If a replicate is too short, the estimated quantity is the quantile of all samples together.
//! The interval is Woodruff's (JASA 47, 1952; Francisco and Fuller, Annals of Statistics 19, 1991). Woodruff takes the
//! share of samples below the estimate, with a standard error between replicates and `t` with one degree of freedom
//! less than replicates, and converts it back to ranks. If a rank is beyond the samples, or if fewer than nine
//! replicates have a sample beyond the quantile, there is no interval.
//!
//! **Mean.** The estimated quantity is the expected mean of a replicate; all replicates have equal weight. The interval
//! is that of `t` on replicate means after Hall's cubic transformation against skewness (Journal of the Royal
//! Statistical Society B 54, 1992). The interval covers in simulations with skewed distributions as well as the
//! studentized bootstrap (92.3 % at six exponential replicates, where plain `t` has 88.5 %), and it draws no random
//! numbers.
//!
//! **Dependence.** Consecutive replicates can be alike, too. The autocorrelation of their ranks at lag 1 determines how
//! many independent replicates they are worth, as soon as it exceeds the noise. The threshold is one standard error
//! from twenty replicates on, where the correction works, and 1.645 standard errors below twenty, where corehop can
//! only decline. Fewer than six effective replicates have no interval. A drift with the same course in every run makes
//! intervals of the median over the run too wide, not too narrow.
//!
//! **Limits.** At a stated 95 %, intervals of medians and quantiles of independent replicates cover in 93 to 97 % of
//! experiments, whatever the distribution; intervals of differences of medians cover in 93 to 98 %. The program
//! `tools/repeat/examples/coverage.rs` prints the table. The coverage differs in the following cases:
//!
//! - Undetected serial dependence: with a correlation of 0.3 between neighbours, the coverage is 83 to 89 % up to
//!   twelve replicates, 89 to 93 % at twenty, and 93 to 95 % at fifty.
//! - A slow drift as large as the spread between replicates: the coverage is 98 % and more, and half of the runs of
//!   twelve replicates have no interval.
//! - Independent replicates: 1 to 5 % of runs have no interval because the test of dependence fails.
//! - Means of skewed replicates: the coverage is 92 to 94 % at six replicates as skewed as an exponential distribution.
//!   The coverage with a log-normal distribution (`σ = 1`) is 88 % at six, 92 % at twenty, 94 % at fifty replicates.
//!   Means of replicates from two distant peaks: the coverage is 92 % at six, 99 % from ten to twenty.
//! - Quantiles of all samples, if they have an interval: the coverage is 92 to 97 %.
//! - Replicates with exactly two values: the coverage is 97 % and more, because the median is an end of the support.

mod difference;
mod drift;
mod estimate;
mod order;
mod quantiles;
mod shared;
mod serial;
mod shift;
mod spread;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod tests;

pub use difference::{BetweenDifference, median_difference, widest_difference};
pub use drift::ReplicateDrift;
pub use order::{ReplicateOrder, replicate_order};
pub use quantiles::quantile_difference;
pub use shared::SharedDependence;
pub use shift::{BeyondShift, beyond, least_p_value, replicates_for};
pub use spread::{ReplicateMaximum, Spread, bounds_quantile};

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::ordered::{BadInput, Interval, Ordered, finite, probability};
use super::quantile;
use estimate::Replicates;

/// The smallest number of replicates with an interval: five replicates are all on one side of their median with a
/// probability of 6 %, so that no 95 % interval of any kind holds without assuming a distribution.
pub const FEWEST_REPLICATES: usize = 6;

/// The number of replicates that must have a sample beyond a quantile of all samples. With only six replicates beyond
/// the quantile, the few runs of strongly alike samples that had an interval covered the true value in 62 to 92 % of
/// the cases.
const FEWEST_BEYOND: usize = 9;

/// The samples of one cell by replicate; samples and replicates are in time order.
///
/// A value made by [`Nested::new`] or [`Nested::from_labelled`] has at least one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nested {
    groups: Vec<Vec<f64>>,
    /// The number of consecutive replicates that count as one by the evidence of other cells; a value below 1 counts as
    /// 1.
    in_a_row: f64,
    /// The number of cells that are judged together; 0 counts as 1.
    family: usize,
}

/// The method that computes an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// The method interpolates order statistics of the replicates' own quantiles (Hettmansperger and Sheather, 1986).
    /// The estimate is the median of the replicates' quantiles.
    ReplicateQuantiles,
    /// The method uses the share of each replicate below the quantile of all samples, with `t` over replicates
    /// (Woodruff, 1952). The estimate is the quantile of all samples together.
    ReplicateShares,
    /// The method uses `t` on replicate means with Hall's transformation against skewness (1992). The estimate is the
    /// mean of the replicate means.
    ReplicateMeans,
}

/// The reason why the statistic has no interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInterval {
    /// The cell has fewer than [`FEWEST_REPLICATES`] replicates.
    TooFewReplicates {
        /// The number of replicates of the cell.
        have: usize,
    },
    /// Neighbouring replicates are so much alike that they are worth fewer than [`FEWEST_REPLICATES`] independent
    /// replicates.
    Dependent {
        /// The number of independent replicates that the cell's replicates are worth.
        worth: f64,
    },
    /// The cell has too few replicates for an interval of this confidence.
    LevelOutOfReach {
        /// The confidence that was requested.
        level: f64,
    },
    /// An end of the quantile's interval is beyond all samples.
    QuantileOutOfReach {
        /// The quantile that was requested.
        p: f64,
    },
    /// All replicates have the same value, so that their variation is unknown.
    Alike,
}

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewReplicates { have } => {
                write!(f, "{have} replicates; an interval needs {FEWEST_REPLICATES}")
            }
            Self::Dependent { worth } => write!(
                f,
                "consecutive replicates are alike, and count only as {worth:.1} independent ones; an interval needs {FEWEST_REPLICATES}"
            ),
            Self::LevelOutOfReach { level } => {
                write!(f, "too few replicates for an interval at {:.1} %", 100.0 * level)
            }
            Self::QuantileOutOfReach { p } => {
                write!(f, "too few samples to bound the {:.4} % quantile both ways", 100.0 * p)
            }
            Self::Alike => write!(f, "all replicates show the same; how much they vary is unknown"),
        }
    }
}

/// A statistic with its interval between replicates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicateStatistic {
    /// The statistic, in the unit of the samples; [`IntervalMethod`] defines the estimated quantity.
    pub estimate: f64,
    /// The interval of the statistic, or `None` for fewer than six replicates, or if the data do not support an
    /// interval.
    pub interval: Option<Interval>,
    /// The reason why the statistic has no interval.
    pub why_none: Option<NoInterval>,
    /// The method of the interval; without an interval, the method that would apply with more replicates.
    pub method: IntervalMethod,
    /// The number of replicates behind the statistic.
    pub replicates: usize,
    /// The number of samples in all replicates.
    pub samples: usize,
    /// The number of independent replicates that the replicates of the statistic are worth, after correction for serial
    /// dependence.
    pub effective_replicates: f64,
}

impl Nested {
    /// Returns a cell with the samples of each replicate; replicates without samples are left out.
    ///
    /// # Errors
    /// Returns [`BadInput::Empty`] if there is no sample, [`BadInput::NotFinite`] for the first NaN or infinity, with
    /// its index among all samples.
    pub fn new(mut groups: Vec<Vec<f64>>) -> Result<Self, BadInput> {
        groups.retain(|group| !group.is_empty());
        finite(&groups.concat())?;
        Ok(Self { groups, in_a_row: 1.0, family: 1 })
    }

    /// Returns a cell with samples in time order, each labelled with its replicate; replicates are in ascending order.
    ///
    /// # Errors
    /// Returns [`BadInput::Unpaired`] unless there is one label for each value, and otherwise the errors of
    /// [`Nested::new`].
    pub fn from_labelled(values: &[f64], replicates: &[u64]) -> Result<Self, BadInput> {
        if values.len() != replicates.len() {
            return Err(BadInput::Unpaired {
                left: "values",
                left_len: values.len(),
                right: "replicates",
                right_len: replicates.len(),
            });
        }
        finite(values)?;
        let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (&value, &label) in values.iter().zip(replicates) {
            groups.entry(label).or_default().push(value);
        }
        Ok(Self { groups: groups.into_values().collect(), in_a_row: 1.0, family: 1 })
    }

    /// Returns the cell in which `in_a_row` consecutive replicates count as one (see [`SharedDependence`]).
    #[must_use]
    pub fn depending(self, in_a_row: f64) -> Self {
        Self { in_a_row, ..self }
    }

    /// Returns the cell as one of `cells` cells that are judged together: among many cells, some have neighbouring
    /// replicates that are alike by chance. A cell's own dependence counts only if it stands out among all cells.
    #[must_use]
    pub fn among(self, cells: usize) -> Self {
        Self { family: cells, ..self }
    }

    /// Returns the number of consecutive replicates that count as one; at least 1.
    pub fn in_a_row(&self) -> f64 {
        self.in_a_row.max(1.0)
    }

    /// Returns the number of consecutive replicates that count as one, including the evidence of the cell's own
    /// medians.
    pub fn in_a_row_of_medians(&self) -> f64 {
        Replicates::of(self, self.medians()).in_a_row()
    }

    /// Returns the replicates dealt alternately to two halves, or `None` if there is only one replicate.
    pub fn in_turn(&self) -> Option<[Self; 2]> {
        let half = |first: usize| {
            let groups = self.groups.iter().skip(first).step_by(2).cloned().collect();
            Self { groups, ..*self }
        };
        (self.replicates() > 1).then(|| [half(0), half(1)])
    }

    /// Returns the earlier and the later half of the replicates, or `None` if there is only one replicate.
    pub fn in_time(&self) -> Option<[Self; 2]> {
        let (earlier, later) = self.groups.split_at(self.replicates() / 2);
        let half = |groups: &[Vec<f64>]| Self { groups: groups.to_vec(), ..*self };
        (self.replicates() > 1).then(|| [half(earlier), half(later)])
    }

    /// Returns the number of replicates with a sample.
    pub fn replicates(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of samples in all replicates.
    pub fn samples(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Returns the median over replicates of the replicate's median, with its interval at confidence `1 - alpha`.
    ///
    /// # Errors
    /// Returns [`BadInput`] for an invalid `alpha`, or without samples.
    pub fn median(&self, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        probability("alpha", alpha)?;
        self.by_own_quantiles(0.5, alpha)
    }

    /// Returns the quantile `p` with its interval at confidence `1 - alpha`. If every replicate has at least one sample
    /// expected on either side, the quantile is the median over replicates of the replicate's quantile; otherwise it is
    /// the quantile of all samples together. [`ReplicateStatistic::method`] states which of the two methods was used.
    ///
    /// # Errors
    /// Returns [`BadInput`] for a `p` or `alpha` that is not a probability, or without samples.
    pub fn quantile(&self, p: f64, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        probability("p", p)?;
        probability("alpha", alpha)?;
        if self.carries(p) {
            return self.by_own_quantiles(p, alpha);
        }
        let all = Ordered::new(&self.groups.concat())?;
        let (estimate, count) = (quantile::quantile(&all, p)?, all.len() as f64);
        let share = all.at_most(estimate) as f64 / count;
        let excess = |group: &Vec<f64>| {
            let below = group.iter().filter(|&&value| value <= estimate).count();
            below as f64 - share * group.len() as f64
        };
        let replicates = Replicates::of(self, self.groups.iter().map(excess).collect());
        let interval = if self.reach_beyond(estimate, p) < FEWEST_BEYOND {
            replicates.enough().and(Err(NoInterval::QuantileOutOfReach { p }))
        } else {
            replicates.share_interval(&all, p, alpha)
        };
        Ok(self.between(estimate, interval, IntervalMethod::ReplicateShares, &replicates))
    }

    /// Returns the mean over replicates of the replicate's mean, with its interval at confidence `1 - alpha`.
    ///
    /// # Errors
    /// Returns [`BadInput`] for an invalid `alpha`, or without samples.
    pub fn mean(&self, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        probability("alpha", alpha)?;
        if self.groups.is_empty() {
            return Err(BadInput::Empty);
        }
        let means = self.groups.iter().map(|group| mean(group)).collect();
        let replicates = Replicates::of(self, means);
        let interval = replicates.mean_interval(alpha);
        Ok(self.between(
            mean(&replicates.values),
            interval,
            IntervalMethod::ReplicateMeans,
            &replicates,
        ))
    }

    /// Returns the median of the replicates' own `p` quantiles.
    fn by_own_quantiles(&self, p: f64, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        let replicates = Replicates::of(self, self.own_quantiles(p)?);
        let sorted = Ordered::new(&replicates.values)?;
        let interval = replicates.median_interval(&sorted, alpha);
        let method = IntervalMethod::ReplicateQuantiles;
        Ok(self.between(quantile::median(&sorted), interval, method, &replicates))
    }

    /// Returns the quantile `p` of each replicate.
    pub(crate) fn own_quantiles(&self, p: f64) -> Result<Vec<f64>, BadInput> {
        self.groups.iter().map(|group| quantile::quantile(&Ordered::new(group)?, p)).collect()
    }

    /// Returns the median of each replicate; no replicate is empty, so each has a median.
    fn medians(&self) -> Vec<f64> {
        self.own_quantiles(0.5).unwrap_or_default()
    }

    /// Returns whether every replicate has a sample expected on either side of the quantile; for the median this always
    /// holds, because even one sample has a median.
    fn carries(&self, p: f64) -> bool {
        let rarer = p.min(1.0 - p);
        // 20 × (1 - 0.95) is 1.0000000000000009 in binary, 10 × (1 - 0.9) is 0.9999999999999998.
        rarer >= 0.5 || self.groups.iter().all(|group| group.len() as f64 * rarer >= 1.0 - 1e-9)
    }

    /// Returns the number of replicates with a sample on the rarer side of the quantile. If few replicates have a
    /// sample on the rarer side, the apparent spread of all replicates is the spread of one or two replicates.
    fn reach_beyond(&self, x: f64, p: f64) -> usize {
        let beyond = |&value: &f64| if p > 0.5 { value > x } else { value < x };
        self.groups.iter().filter(|group| group.iter().any(beyond)).count()
    }

    fn between(
        &self,
        estimate: f64,
        interval: Result<Interval, NoInterval>,
        method: IntervalMethod,
        replicates: &Replicates,
    ) -> ReplicateStatistic {
        ReplicateStatistic {
            estimate,
            interval: interval.ok(),
            why_none: interval.err(),
            method,
            replicates: self.replicates(),
            samples: self.samples(),
            effective_replicates: replicates.worth,
        }
    }
}

/// Returns the arithmetic mean; a second pass corrects the rounding of the first. The mean of no values is NaN.
fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let first = values.iter().sum::<f64>() / n;
    first + values.iter().map(|x| x - first).sum::<f64>() / n
}
