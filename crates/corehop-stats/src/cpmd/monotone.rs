// SPDX-License-Identifier: MIT OR Apache-2.0
//! Monotone regression, and linear interpolation between its points.

use std::ops::Range;

/// Returns the ranges of neighbours to pool: the weighted means of the pools are the non-decreasing values nearest to
/// `values` in weighted least squares (Ayer et al., Annals of Mathematical Statistics 26, 1955). The weights of the
/// values must be positive.
pub(super) fn pools(values: &[f64], weights: &[f64]) -> Vec<Range<usize>> {
    // Blocks: mean, weight, how many values.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(values.len());
    for (&value, &weight) in values.iter().zip(weights) {
        let mut block = (value, weight, 1);
        while let Some(&(mean, total, count)) = blocks.last().filter(|last| last.0 > block.0) {
            let sum = total + block.1;
            block = ((mean * total + block.0 * block.1) / sum, sum, count + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let ends = blocks.iter().scan(0, |end, &(_, _, count)| {
        *end += count;
        Some(*end - count..*end)
    });
    ends.collect()
}

/// The position of a place relative to a list of ascending places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum GridPosition {
    /// The place is before the first place of the list.
    Before,
    /// The place equals this place of the list.
    At(usize),
    /// The place is between this place and the next place of the list, at this share of the distance.
    Between(usize, f64),
    /// The place is beyond the last place of the list.
    Beyond,
}

/// Returns the position of `place` in `places`, which ascend.
pub(super) fn among(places: &[f64], place: f64) -> GridPosition {
    let next = places.partition_point(|&it| it < place);
    match (next, places.get(next)) {
        (_, Some(&it)) if it <= place => GridPosition::At(next),
        (0, _) => GridPosition::Before,
        (_, None) => GridPosition::Beyond,
        (next, Some(&after)) => {
            let before = places[next - 1];
            GridPosition::Between(next - 1, (place - before) / (after - before))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the weighted means of the pools, one for each value.
    fn non_decreasing(values: &[f64], weights: &[f64]) -> Vec<f64> {
        let of = |pool: Range<usize>| {
            let sum: f64 = pool.clone().map(|at| values[at] * weights[at]).sum();
            let mean = sum / weights[pool.clone()].iter().sum::<f64>();
            std::iter::repeat_n(mean, pool.len())
        };
        pools(values, weights).into_iter().flat_map(of).collect()
    }

    /// Returns the obvious twin: the min-max formula of isotonic regression.
    fn slow(values: &[f64], weights: &[f64]) -> Vec<f64> {
        let mean = |from: usize, to: usize| {
            let sum: f64 = (from..=to).map(|at| values[at] * weights[at]).sum();
            sum / (from..=to).map(|at| weights[at]).sum::<f64>()
        };
        let n = values.len();
        let at = |i: usize| {
            let least = |from: usize| (i..n).map(|to| mean(from, to)).fold(f64::MAX, f64::min);
            (0..=i).map(least).fold(f64::MIN, f64::max)
        };
        (0..n).map(at).collect()
    }

    #[test]
    fn neighbours_out_of_order_are_pooled_by_weight() {
        assert_eq!(non_decreasing(&[1.0, 3.0, 2.0, 5.0], &[1.0; 4]), [1.0, 2.5, 2.5, 5.0]);
        assert_eq!(non_decreasing(&[4.0, 1.0], &[1.0, 3.0]), [1.75, 1.75]);
        assert_eq!(non_decreasing(&[], &[]), [0.0; 0]);
    }

    #[test]
    fn it_agrees_with_the_min_max_formula() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / 1e6
        };
        for n in 1..12 {
            let values: Vec<f64> = (0..n).map(|_| draw()).collect();
            let weights: Vec<f64> = (0..n).map(|_| draw() + 0.1).collect();
            let (fast, slow) = (non_decreasing(&values, &weights), slow(&values, &weights));
            let near = fast.iter().zip(&slow).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(near, "{values:?} {weights:?}: {fast:?} {slow:?}");
        }
    }

    #[test]
    fn a_place_is_at_between_before_or_beyond() {
        let places = [1.0, 2.0, 4.0];
        assert_eq!(among(&places, 0.5), GridPosition::Before);
        assert_eq!(among(&places, 2.0), GridPosition::At(1));
        assert_eq!(among(&places, 3.0), GridPosition::Between(1, 0.5));
        assert_eq!(among(&places, 4.1), GridPosition::Beyond);
    }
}
