// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variation of a difference, and the number of replicates needed to detect a change.

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
    /// The variation with the standard error of the normal distribution that would have this interval, for these
    /// numbers of replicates.
    pub(super) fn of(interval: Interval, a: &Nested, b: &Nested) -> Self {
        let error = interval.width() / 2.0 / exceeded((1.0 - interval.level) / 2.0);
        let worth = |of: &Nested| of.replicates() as f64 / of.in_a_row();
        Self { error, freedom: (worth(a) + worth(b) - 2.0).max(1.0) }
    }

    /// The difference that a test at this one-sided level detects with a power of 80 %.
    pub(super) fn beyond(&self, level: f64) -> f64 {
        self.error * (t_quantile(self.freedom, 2.0 * level) + exceeded(1.0 - POWER))
    }
}

/// The number of replicates per side with which two equal quantities would be found equivalent. The standard error
/// shrinks with the root of the number of replicates until the margin is as far away as the first equivalence test and
/// its power require. If there is no interval, the result is the number of replicates with which the first comparison
/// could fail.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64]) -> Nested {
        Nested::new(values.iter().map(|&value| vec![value]).collect()).unwrap()
    }

    fn levels() -> SignificanceLevels {
        SignificanceLevels { alpha: 0.05, first: 0.025 }
    }

    #[test]
    fn the_error_is_the_half_width_over_the_normal_quantile_and_freedom_is_that_of_both() {
        let interval = Interval { low: -3.92, high: 3.92, level: 0.95 };
        let (six, eight) = (cell(&[1.0; 6]), cell(&[1.0; 8]));
        let found = DifferenceVariation::of(interval, &six, &eight);
        assert!((found.error - 2.0).abs() < 1e-3, "{}", found.error);
        let few = DifferenceVariation::of(interval, &six.depending(3.0), &cell(&[1.0]));
        assert_eq!((found.freedom, few.freedom), (12.0, 1.0));
        // t(0.975; 12) is 2.179, and the normal quantile of 80 % 0.842.
        assert!((found.beyond(0.025) - found.error * (2.179 + 0.842)).abs() < 2e-3);
    }

    #[test]
    fn the_replicates_needed_grow_with_the_square_of_the_error_over_the_margin() {
        let of = |error: f64, margin_us| {
            needed(20, Some(&DifferenceVariation { error, freedom: 10.0 }), margin_us, levels())
        };
        let (one, double) = (of(4.0, 1.0).unwrap() as f64, of(8.0, 1.0).unwrap() as f64);
        assert!((double / one - 4.0).abs() < 0.01, "{one} {double}");
        assert_eq!(of(4.0, 1.0), of(8.0, 2.0));
        assert_eq!((of(4.0, 0.0), of(4.0, -1.0)), (None, None));
        // One more at least.
        assert_eq!(of(1e-9, 1.0), Some(21));
    }

    #[test]
    fn without_an_interval_it_is_as_many_as_let_the_first_comparison_fail() {
        let fewest = replicates_for(levels().first);
        assert_eq!(needed(3, None, 1.0, levels()), Some(fewest));
        assert_eq!(needed(fewest as usize, None, 1.0, levels()), None);
    }
}
