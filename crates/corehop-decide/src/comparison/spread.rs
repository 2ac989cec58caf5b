// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variation of a difference, and what it takes to see through it.

use super::SignificanceLevels;
use corehop_stats::compare::t_quantile;
use corehop_stats::ordered::Interval;
use corehop_stats::paired::{POWER, exceeded};
use corehop_stats::replicates::{Nested, replicates_for};

/// The variation of the difference of two medians.
pub(super) struct DifferenceVariation {
    error: f64,
    freedom: f64,
}

impl DifferenceVariation {
    /// The standard error for which a normal law would have this interval, by so many replicates.
    pub(super) fn of(interval: Interval, a: &Nested, b: &Nested) -> Self {
        let error = interval.width() / 2.0 / exceeded((1.0 - interval.level) / 2.0);
        let worth = |of: &Nested| of.replicates() as f64 / of.in_a_row();
        Self { error, freedom: (worth(a) + worth(b) - 2.0).max(1.0) }
    }

    /// The distance that a test at this one-sided level sees with a power of 80 %.
    pub(super) fn beyond(&self, level: f64) -> f64 {
        self.error * (t_quantile(self.freedom, 2.0 * level) + exceeded(1.0 - POWER))
    }
}

/// The number of replicates a side that would tell two equal quantities apart from different ones, where so many vary so much: the
/// standard error shrinks as the root of their number, and is to leave the margin as far away as the first test of equivalence
/// and its power ask for. Without an interval, as many as let the first comparison fail.
pub(super) fn needed(
    replicates: usize,
    spread: Option<&DifferenceVariation>,
    margin_us: f64,
    levels: SignificanceLevels,
) -> Option<u64> {
    let fewest = replicates_for(levels.first);
    let Some(spread) = spread else {
        return (fewest > replicates as u64).then_some(fewest);
    };
    if margin_us <= 0.0 {
        return None;
    }
    // Two equal ones lie in the middle of the margin: either side of the test may fail.
    let reach = exceeded(2.0 * levels.first) + exceeded((1.0 - POWER) / 2.0);
    let times = (spread.error * reach / margin_us).powi(2);
    let more = (replicates as f64 * times).ceil().max(1.0 + replicates as f64) as u64;
    Some(more.max(fewest))
}
