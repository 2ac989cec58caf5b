// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples that come in replicates: intervals from the spread between replicates.
//!
//! In each replicate everything that a process draws when it starts (page frames, threads, order,
//! CPUs) is drawn anew. Samples of one replicate share those draws and are alike, so a thousand of
//! them may say no more than one. The replicate is the unit of the experiment (Kalibera and Jones,
//! Rigorous benchmarking in reasonable time, ISMM 2013; Mytkowicz et al., ASPLOS 2009): each is
//! reduced to one number, and the interval follows from how these numbers vary.
//!
//! **Median, and every quantile that each replicate carries** (at least one sample expected on
//! either side). What is estimated is the median, over replicates as the experiment draws them, of
//! the replicate's own quantile, as so many samples show it. The interval is that of the sign test
//! on the replicate quantiles, with the interpolation of Hettmansperger and Sheather (Statistics &
//! Probability Letters 4, 1986): no law is assumed, and 95 % are 95 % and not the 96.9 % or more of
//! whole ranks. For a skewed law within replicates this is not quite the quantile of all samples
//! together, nor is it where replicates differ much.
//!
//! **Other quantiles.** Where a replicate is too short, what is estimated is the quantile of all
//! samples together. The interval is Woodruff's (JASA 47, 1952; Francisco and Fuller, Annals of
//! Statistics 19, 1991): the share of samples below the estimate, with a standard error between
//! replicates and `t` with one degree of freedom less than replicates, read back as ranks. Where a
//! rank falls off the samples, or fewer than nine replicates have a sample beyond the quantile, there
//! is no interval.
//!
//! **Mean.** What is estimated is the expected mean of a replicate; replicates count alike. The
//! interval is that of `t` on replicate means after Hall's cubic transformation against skewness
//! (Journal of the Royal Statistical Society B 54, 1992). In simulation it covers a skewed law as
//! the studentized bootstrap does (92.3 % at six exponential replicates, where plain `t` has 88.5 %),
//! and it draws no random numbers.
//!
//! **Dependence.** Replicates that follow each other may be alike too. The autocorrelation of their
//! ranks at lag 1 says for how many independent ones they count, once it stands out of the noise:
//! from twenty replicates on by one standard error, since there the correction works; below twenty
//! by 1.645, since there it can only decline. Fewer than six effective ones have no interval. A
//! drift that has the same course in every run makes intervals too wide, not too narrow, for the
//! median over the run.
//!
//! **Where it falls short.** At a stated 95 %, medians and quantiles of independent replicates are
//! held in 93 to 97 % of experiments whatever the law (`tools/repeat/examples/coverage.rs` prints the table), and
//! differences of medians in 93 to 98 %. Otherwise:
//!
//! - Serial dependence that is there but does not show: with a correlation of 0.3 between neighbours
//!   83 to 89 % up to twelve replicates, 89 to 93 % at twenty, 93 to 95 % at fifty.
//! - A slow drift of the size of the spread between replicates: 98 % and more, and half of the runs of
//!   twelve replicates have no interval.
//! - Independent replicates lose their interval to the test of dependence in 1 to 5 % of runs.
//! - Means where replicates are skewed: 92 to 94 % at six replicates as skewed as an exponential law;
//!   log-normal with `σ = 1` 88 % at six, 92 % at twenty, 94 % at fifty. Means of replicates from two
//!   far peaks: 92 % at six, 99 % from ten to twenty.
//! - Quantiles of all samples, where they have an interval: 92 to 97 %.
//! - Replicates of exactly two values: 97 % and more, since the median is an end of the support.

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

/// Fewer replicates than this have no interval: of five, all lie on one side of their median with a
/// probability of 6 %, so no 95 % interval of any kind holds without assuming a law.
pub const FEWEST_REPLICATES: usize = 6;

/// So many replicates must have a sample beyond a quantile of all samples. With six, the few runs of
/// strongly alike samples that had an interval held the truth in 62 to 92 % only.
const FEWEST_BEYOND: usize = 9;

/// Samples of one cell, by replicate, each in time order, replicates in time order.
///
/// Never without a sample where made by [`Nested::new`] or [`Nested::from_labelled`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nested {
    groups: Vec<Vec<f64>>,
    /// The number of replicates in a row that count for one by the evidence of other cells; below 1 as 1.
    in_a_row: f64,
    /// The number of cells that are judged together; 0 as 1.
    family: usize,
}

/// The estimator of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// Interpolated order statistics of the replicates' own quantiles (Hettmansperger and Sheather,
    /// 1986). The estimate is the median of these.
    ReplicateQuantiles,
    /// The share of each replicate below the quantile of all samples, with `t` over replicates
    /// (Woodruff, 1952). The estimate is the quantile of all samples together.
    ReplicateShares,
    /// `t` on replicate means with Hall's transformation against skewness (1992). The estimate is
    /// the mean of these.
    ReplicateMeans,
}

/// Why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInterval {
    /// There are fewer than [`FEWEST_REPLICATES`].
    TooFewReplicates {
        /// The present number.
        have: usize,
    },
    /// Neighbouring replicates are so much alike that they are worth fewer than
    /// [`FEWEST_REPLICATES`].
    Dependent {
        /// The number of independent ones they are worth.
        worth: f64,
    },
    /// So many replicates cannot carry an interval of this confidence.
    LevelOutOfReach {
        /// The confidence asked for.
        level: f64,
    },
    /// An end of the interval of this quantile lies beyond all samples.
    QuantileOutOfReach {
        /// The quantile.
        p: f64,
    },
    /// All replicates show the same number, so how much they vary is not known.
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

/// A statistic with what replicates say of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicateStatistic {
    /// The statistic, in the unit of the samples; see [`IntervalMethod`] for what exactly it is.
    pub estimate: f64,
    /// Its interval; None below six replicates or where the data do not carry it.
    pub interval: Option<Interval>,
    /// Why there is none.
    pub why_none: Option<NoInterval>,
    /// The estimator of the interval, or of one if there were more replicates.
    pub method: IntervalMethod,
    /// Number of replicates.
    pub replicates: usize,
    /// Number of samples in all of them.
    pub samples: usize,
    /// The number of independent replicates these are worth, after allowing for serial dependence.
    pub effective_replicates: f64,
}

impl Nested {
    /// Of the samples of each replicate; empty ones are left out.
    ///
    /// # Errors
    /// [`BadInput::Empty`] where there is no sample at all, [`BadInput::NotFinite`] for the first
    /// NaN or infinity, with its place among all samples.
    pub fn new(mut groups: Vec<Vec<f64>>) -> Result<Self, BadInput> {
        groups.retain(|group| !group.is_empty());
        finite(&groups.concat())?;
        Ok(Self { groups, in_a_row: 1.0, family: 1 })
    }

    /// Of samples in time order with the replicate of each; replicates in ascending order.
    ///
    /// # Errors
    /// [`BadInput::Unpaired`] unless there is one label a value; else as [`Nested::new`].
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

    /// The same where so many replicates in a row count for one (see [`SharedDependence`]).
    #[must_use]
    pub fn depending(self, in_a_row: f64) -> Self {
        Self { in_a_row, ..self }
    }

    /// The same, judged together with others: of so many cells in all, some have neighbouring replicates that are alike by
    /// chance. A cell's own dependence counts if it stands out among all of them.
    #[must_use]
    pub fn among(self, cells: usize) -> Self {
        Self { family: cells, ..self }
    }

    /// The number of replicates in a row that count for one; at least 1.
    pub fn in_a_row(&self) -> f64 {
        self.in_a_row.max(1.0)
    }

    /// The same with what its own replicates show of it.
    pub fn in_a_row_of_medians(&self) -> f64 {
        Replicates::of(self, self.medians()).in_a_row()
    }

    /// Its replicates dealt out in turn to two halves; None of a single one.
    pub fn in_turn(&self) -> Option<[Self; 2]> {
        let half = |first: usize| {
            let groups = self.groups.iter().skip(first).step_by(2).cloned().collect();
            Self { groups, ..*self }
        };
        (self.replicates() > 1).then(|| [half(0), half(1)])
    }

    /// The earlier half of its replicates and the later one; None of a single one.
    pub fn in_time(&self) -> Option<[Self; 2]> {
        let (earlier, later) = self.groups.split_at(self.replicates() / 2);
        let half = |groups: &[Vec<f64>]| Self { groups: groups.to_vec(), ..*self };
        (self.replicates() > 1).then(|| [half(earlier), half(later)])
    }

    /// Number of replicates with a sample.
    pub fn replicates(&self) -> usize {
        self.groups.len()
    }

    /// Number of samples in all replicates.
    pub fn samples(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// The median over replicates of the replicate's median, with its interval at confidence
    /// `1 - alpha`.
    ///
    /// # Errors
    /// [`BadInput`] for a bad `alpha`, or no sample.
    pub fn median(&self, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        probability("alpha", alpha)?;
        self.by_own_quantiles(0.5, alpha)
    }

    /// The quantile `p` with its interval at confidence `1 - alpha`. Where every replicate has at
    /// least one sample expected on either side, it is the median over replicates of the
    /// replicate's quantile; else the quantile of all samples together. The method says which.
    ///
    /// # Errors
    /// [`BadInput`] for a `p` or `alpha` that is no probability, or no sample.
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

    /// The mean over replicates of the replicate's mean, with its interval at confidence
    /// `1 - alpha`.
    ///
    /// # Errors
    /// [`BadInput`] for a bad `alpha`, or no sample.
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

    /// The median of the replicates' own quantiles `p`.
    fn by_own_quantiles(&self, p: f64, alpha: f64) -> Result<ReplicateStatistic, BadInput> {
        let replicates = Replicates::of(self, self.own_quantiles(p)?);
        let sorted = Ordered::new(&replicates.values)?;
        let interval = replicates.median_interval(&sorted, alpha);
        let method = IntervalMethod::ReplicateQuantiles;
        Ok(self.between(quantile::median(&sorted), interval, method, &replicates))
    }

    /// The quantile `p` of each replicate.
    pub(crate) fn own_quantiles(&self, p: f64) -> Result<Vec<f64>, BadInput> {
        self.groups.iter().map(|group| quantile::quantile(&Ordered::new(group)?, p)).collect()
    }

    /// The median of each replicate; no replicate is empty, so each has one.
    fn medians(&self) -> Vec<f64> {
        self.own_quantiles(0.5).unwrap_or_default()
    }

    /// Whether every replicate has a sample expected on either side of the quantile; that a median
    /// always has, by the median of one sample.
    fn carries(&self, p: f64) -> bool {
        let rarer = p.min(1.0 - p);
        // 20 × (1 - 0.95) is 1.0000000000000009 in binary, 10 × (1 - 0.9) is 0.9999999999999998.
        rarer >= 0.5 || self.groups.iter().all(|group| group.len() as f64 * rarer >= 1.0 - 1e-9)
    }

    /// The number of replicates with a sample on the rarer side of the quantile. Where these are few, what
    /// seems to be the spread of all is that of one or two.
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

/// Arithmetic mean; the second pass takes up what the rounding of the first left. NaN of nothing.
fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let first = values.iter().sum::<f64>() / n;
    first + values.iter().map(|x| x - first).sum::<f64>() / n
}
