// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether one cell is beyond another cell by more than a margin. The tests are one-sided and use the replicate
//! as the unit.
//!
//! The replicate medians of the first cell are moved by the margin, and the medians of the second cell are ranked among
//! them. The p-value is that of Brunner and Munzel's statistic over all exchanges if there are at most some thousands
//! of exchanges (Neubert and Brunner 2007). The p-value for more exchanges is the larger of two. The exact p-value of
//! the rank sum (Wilcoxon 1945, with mid-ranks for ties) is right in the far tail, where a gate over many cells
//! decides. The p-value of Brunner and Munzel by `t` allows for cells with different variances.

use serde::Serialize;

use super::super::compare::order;
use super::super::ordered::{BadInput, Ordered};
use super::difference::{MOST_EXCHANGES, as_fewer, exchanges, hits};
use super::estimate::Replicates;
use super::{FEWEST_REPLICATES, Nested};

/// The largest number of replicates on both sides for which rank sums are counted; the effort grows with the fourth
/// power. The test uses only `t` for larger numbers.
const MOST_COUNTED: usize = 80;

/// The evidence about `y` against the moved `x`, as one-sided p-values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BeyondShift {
    /// The p-value of the hypothesis that `y` is not above the moved `x`.
    pub above: f64,
    /// The p-value of the hypothesis that `y` is not below the moved `x`.
    pub below: f64,
}

/// Returns the evidence about `y` against `x`, or `None` for fewer than six replicates on a side. The replicate medians
/// of `x` are `moved` individually, so that a margin that is a share of `x` adds no error of its own.
///
/// # Errors
/// Returns [`BadInput`] for a side without samples, or a moved value that is not a number.
pub fn beyond(
    x: &Nested,
    y: &Nested,
    moved: impl Fn(f64) -> f64,
) -> Result<Option<BeyondShift>, BadInput> {
    let [x, y] = [x, y].map(|cell| Replicates::of(cell, cell.medians()));
    if !have_enough(&x, &y) {
        return Ok(None);
    }
    let from: Vec<f64> = x.values.iter().map(|&value| moved(value)).collect();
    let [above, below] = tails(&from, &y.values)?;
    let in_a_row = x.in_a_row().max(y.in_a_row());
    let of = |p_value| as_fewer(p_value, in_a_row);
    Ok(Some(BeyondShift { above: of(above), below: of(below) }))
}

/// Returns whether both sides have enough replicates. Dependence between replicates does not matter for this count,
/// because it raises p-values but never removes them.
fn have_enough(x: &Replicates, y: &Replicates) -> bool {
    x.values.len().min(y.values.len()) >= FEWEST_REPLICATES
}

/// Returns the smallest one-sided p-value that the given numbers of replicates allow, which occurs if all replicates of
/// one side are beyond all of the other; `in_a_row` replicates count as one. Returns `None` if a side has fewer than
/// six replicates.
pub fn least_p_value(x: usize, y: usize, in_a_row: f64) -> Option<f64> {
    (x.min(y) >= FEWEST_REPLICATES).then(|| as_fewer(1.0 / exchanges(x, y), in_a_row))
}

/// Returns the number of replicates on each side whose smallest p-value is at most `level`.
pub fn replicates_for(level: f64) -> u64 {
    let allows = |&n: &usize| 1.0 / exchanges(n, n) <= level;
    (FEWEST_REPLICATES..1_000).find(allows).unwrap_or(1_000) as u64
}

/// Returns the p-values of `y` being above `x`, and of `y` being below `x`.
fn tails(x: &[f64], y: &[f64]) -> Result<[f64; 2], BadInput> {
    if exchanges(x.len(), y.len()) <= MOST_EXCHANGES {
        let hits = hits(x, y);
        return Ok([hits.above, hits.below]);
    }
    let by_t = order(x, y, 0.05)?;
    let (half, rest) = (by_t.p_value / 2.0, 1.0 - by_t.p_value / 2.0);
    let studentised = if by_t.theta >= 0.5 { [half, rest] } else { [rest, half] };
    if x.len() + y.len() > MOST_COUNTED {
        return Ok(studentised);
    }
    let counted = rank_sum(x, y)?;
    Ok([0, 1].map(|tail| f64::max(counted[tail], studentised[tail])))
}

/// Returns the exact p-values, over all exchanges, of a rank sum of `y` that is at least, and of one that is at most,
/// as large as the observed rank sum.
fn rank_sum(x: &[f64], y: &[f64]) -> Result<[f64; 2], BadInput> {
    let all = Ordered::new(&[x, y].concat())?;
    // Twice the mid-rank is whole.
    let twice = |value: &f64| all.below(*value) + all.at_most(*value) + 1;
    let ranks: Vec<usize> = all.as_slice().iter().map(twice).collect();
    let seen: usize = y.iter().map(twice).sum();
    let ways = ways(&ranks, y.len());
    let total: f64 = ways.iter().sum();
    let (below, from) = ways.split_at(seen.min(ways.len() - 1));
    let at_least: f64 = from.iter().sum();
    let at_most: f64 = below.iter().sum::<f64>() + from[0];
    Ok([at_least / total, at_most / total])
}

/// Returns for each sum the number of ways to choose `many` of the ranks.
fn ways(ranks: &[usize], many: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut chosen = vec![vec![0.0; most + 1]; many + 1];
    chosen[0][0] = 1.0;
    for (place, &rank) in ranks.iter().enumerate() {
        for count in (1..=many.min(place + 1)).rev() {
            let (fewer, more) = chosen.split_at_mut(count);
            for (to, from) in more[0][rank..].iter_mut().zip(&fewer[count - 1]) {
                *to += from;
            }
        }
    }
    chosen.swap_remove(many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::designs::{Design, SeededSource, StandardLaw};

    fn by(shift: f64) -> impl Fn(f64) -> f64 {
        move |value| value + shift
    }

    fn cell(values: &[f64]) -> Nested {
        Nested::new(values.iter().map(|&value| vec![value]).collect()).unwrap()
    }

    #[test]
    fn the_rank_sum_is_that_of_all_exchanges_by_hand() {
        // Ranks of y: 3 and 4 of 4: one of six choices has so large a sum, all have so small a one.
        let [above, below] = rank_sum(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert!((above - 1.0 / 6.0).abs() < 1e-12 && (below - 1.0).abs() < 1e-12);
        // Mid-ranks 1.5, 1.5, 3: y has 1.5 + 3 of the sums 3, 4.5, 4.5.
        let [above, below] = rank_sum(&[1.0], &[1.0, 2.0]).unwrap();
        assert!((above - 2.0 / 3.0).abs() < 1e-12 && (below - 1.0).abs() < 1e-12);
    }

    #[test]
    fn replicates_that_do_not_overlap_reach_the_least_p_value() {
        let design = Design::steady(StandardLaw::Normal, StandardLaw::Normal, 0.9);
        for n in [6, 8, 20] {
            let low = design.run(&mut SeededSource::new(1), n, 1).concat();
            let high: Vec<f64> = low.iter().map(|value| value + 100.0).collect();
            let (low, high) = (cell(&low), cell(&high));
            let found = beyond(&low, &high, by(10.0)).unwrap().unwrap();
            let least = least_p_value(n, n, 1.0).unwrap();
            assert!((found.above / least - 1.0).abs() < 1e-6, "{n}: {found:?} {least}");
            assert!(found.below > 0.99, "{n}: {found:?}");
            let far = beyond(&low, &high, by(200.0)).unwrap().unwrap();
            assert!((far.below / least - 1.0).abs() < 1e-6 && far.above > 0.99, "{n}: {far:?}");
        }
    }

    #[test]
    fn the_least_p_value_says_how_many_replicates_a_level_takes() {
        // C(12, 6) = 924, C(14, 7) = 3,432, C(16, 8) = 12,870.
        assert_eq!([1e-2, 1.0 / 923.0, 1e-3, 1e-4].map(replicates_for), [6, 6, 7, 8]);
        let (five, six) = (cell(&[1.0; 5]), cell(&[1.0; 6]));
        assert_eq!((least_p_value(5, 6, 1.0), beyond(&five, &six, by(0.0))), (None, Ok(None)));
    }

    /// If the true difference equals the margin, the test errs in each tail about as often as its level states.
    #[test]
    fn a_difference_of_just_the_shift_is_found_as_rarely_as_the_level_says() {
        let laws = [StandardLaw::Normal, StandardLaw::LogNormal(0.5)];
        for (sizes, law) in
            [(6, 6), (10, 10), (20, 20), (6, 20)].into_iter().flat_map(|s| laws.map(|l| (s, l)))
        {
            let design = Design::steady(law, StandardLaw::Normal, 0.9);
            let (mut draw, mut small) = (SeededSource::new(11), [0_u32; 2]);
            let runs = 1_500;
            for _ in 0..runs {
                let x = Nested::new(design.run(&mut draw, sizes.0, 5)).unwrap();
                let mut groups = design.run(&mut draw, sizes.1, 5);
                groups.iter_mut().flatten().for_each(|value| *value += 3.0);
                let y = Nested::new(groups).unwrap();
                if let Some(found) = beyond(&x, &y, by(3.0)).unwrap() {
                    small[0] += u32::from(found.above <= 0.025);
                    small[1] += u32::from(found.below <= 0.025);
                }
            }
            for tail in small {
                let rate = f64::from(tail) / f64::from(runs);
                assert!(rate <= 0.037, "{sizes:?} {law:?}: {rate}");
            }
        }
    }

    #[test]
    fn the_smaller_side_decides_whether_there_is_evidence_and_dependence_raises_p_values() {
        assert_eq!(least_p_value(6, 5, 1.0), None);
        let near = |p_value: Option<f64>, of: f64| (p_value.unwrap() * of - 1.0).abs() < 1e-9;
        assert!(near(least_p_value(6, 6, 1.0), 924.0));
        // C(13, 6) = 1,716.
        assert!(near(least_p_value(7, 6, 1.0), 1_716.0));
        assert!(least_p_value(6, 6, 2.0).unwrap() > 2.0 / 924.0);
        let six = cell(&[3.0, 1.0, 5.0, 2.0, 6.0, 4.0]);
        let five = cell(&[3.0, 1.0, 5.0, 2.0, 4.0]);
        assert_eq!(beyond(&six, &five, by(0.0)), Ok(None));
        // All ties: neither tail is evidence.
        let same = cell(&[2.0; 6]);
        let found = beyond(&same, &same, by(0.0)).unwrap().unwrap();
        assert_eq!((found.above, found.below), (1.0, 1.0));
    }

    #[test]
    fn the_ways_to_choose_ranks_are_counted_by_their_sum() {
        // Of 1, 2, 3 two: sums 3, 4 and 5 once each.
        assert_eq!(ways(&[1, 2, 3], 2), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]);
        assert_eq!(ways(&[2, 2], 1), [0.0, 0.0, 2.0, 0.0, 0.0]);
        assert_eq!(ways(&[1, 2], 0), [1.0, 0.0, 0.0, 0.0]);
    }
}
