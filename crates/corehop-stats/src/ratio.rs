// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ratio of two means that were measured in pairs.
//!
//! The mean determines a long run: for a program that is fast in two of three stretches, the median would only say that
//! it is fast. The interval contains every ratio `r` for which the sign-flip test of the differences
//! `with - r * without` finds nothing. If `r` is the true ratio, each difference is as likely positive as negative, by
//! any amount. Flipping a set of signs makes the sum no smaller exactly if the ratio of sums over the flipped pairs is
//! at most `r`. The ends are therefore order statistics of the ratios over all subsets of the pairs (Hartigan, Journal
//! of the American Statistical Association 64, 1969). The method draws no random numbers and assumes only symmetry.

use super::ordered::Interval;

/// The largest number of pairs of which all subsets are examined.
const MOST_PAIRS: usize = 20;

/// Returns the ratio of the mean with a change to the mean without, with its interval at confidence `1 - alpha`; a pair
/// is (without, with). Returns `None` if a value is not positive, if there are more than 20 pairs, or if there are too
/// few pairs for this confidence.
pub fn ratio_of_means(pairs: &[[f64; 2]], alpha: f64) -> Option<(f64, Interval)> {
    let usable = |it: &[f64; 2]| it.iter().all(|value| value.is_finite() && *value > 0.0);
    if pairs.is_empty() || pairs.len() > MOST_PAIRS || !pairs.iter().all(usable) {
        return None;
    }
    let mut ratios = of_subsets(pairs);
    // All pairs together are the last subset.
    let estimate = *ratios.last()?;
    let beyond = (alpha / 2.0 * (ratios.len() + 1) as f64) as usize;
    let (low, high) = (beyond.checked_sub(1)?, ratios.len().checked_sub(beyond)?);
    let mut at = |place: usize| *ratios.select_nth_unstable_by(place, f64::total_cmp).1;
    Some((estimate, Interval { low: at(low), high: at(high), level: 1.0 - alpha }))
}

/// Returns the ratio of sums over every non-empty subset of the pairs. A subset is encoded as a number whose bits
/// select pairs.
fn of_subsets(pairs: &[[f64; 2]]) -> Vec<f64> {
    let mut sums = vec![[0.0; 2]; 1 << pairs.len()];
    for subset in 1..sums.len() {
        let [without, with] = pairs[subset.trailing_zeros() as usize];
        let [x, y] = sums[subset & (subset - 1)];
        sums[subset] = [x + without, y + with];
    }
    sums[1..].iter().map(|[without, with]| with / without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the one-sided p-value of the sign-flip test that the ratio is at most `r`, by flipping the signs in
    /// every way.
    fn at_most(pairs: &[[f64; 2]], r: f64) -> f64 {
        let differences: Vec<f64> =
            pairs.iter().map(|[without, with]| with - r * without).collect();
        let sum: f64 = differences.iter().sum();
        let flips = 1_u32 << pairs.len();
        let flipped = |signs: u32| -> f64 {
            let sign = |at: usize| if signs >> at & 1 == 1 { -1.0 } else { 1.0 };
            differences.iter().enumerate().map(|(at, it)| sign(at) * it).sum()
        };
        let as_large = (0..flips).filter(|&signs| flipped(signs) >= sum - 1e-12).count();
        as_large as f64 / f64::from(flips)
    }

    fn drawn(pairs: u64, seed: u64) -> Vec<[f64; 2]> {
        let mut draw = corehop_fixtures::designs::SeededSource::new(seed);
        (0..pairs).map(|_| [0, 1].map(|_| (0.5 * draw.normal()).exp())).collect()
    }

    #[test]
    fn the_interval_is_what_flipping_every_sign_does_not_reject() {
        for seed in 0..20 {
            let pairs = drawn(9, seed);
            let (estimate, interval) = ratio_of_means(&pairs, 0.05).unwrap();
            assert!(interval.low < estimate && estimate < interval.high);
            let mirrored: Vec<[f64; 2]> = pairs.iter().map(|&[x, y]| [y, x]).collect();
            for (pairs, end) in [(&pairs, interval.low), (&mirrored, 1.0 / interval.high)] {
                assert!(at_most(pairs, end * 0.999) <= 0.025, "seed {seed}");
                assert!(at_most(pairs, end * 1.001) > 0.025, "seed {seed}");
            }
        }
    }

    #[test]
    fn six_pairs_that_agree_tell_and_five_do_not() {
        let pair = [1.0, 2.0];
        let (estimate, interval) = ratio_of_means(&[pair; 6], 0.032).unwrap();
        assert_eq!((estimate, interval.low, interval.high), (2.0, 2.0, 2.0));
        assert_eq!(ratio_of_means(&[pair; 5], 0.032), None);
        assert_eq!(ratio_of_means(&[[0.0, 1.0]; 8], 0.05), None);
        assert_eq!(ratio_of_means(&[pair; 21], 0.05), None);
    }

    #[test]
    fn equal_means_are_outside_no_more_often_than_the_level_says() {
        let outside = (0..2000).filter(|&seed| {
            let (_, interval) = ratio_of_means(&drawn(8, 100 + seed), 0.05).unwrap();
            interval.low > 1.0 || interval.high < 1.0
        });
        let share = outside.count() as f64 / 2000.0;
        assert!((0.02..0.065).contains(&share), "{share}");
    }
}
