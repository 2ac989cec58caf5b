// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which of two kinds of samples tends to be greater, if both come from the same replicates.
//!
//! The estimated quantity is `θ = P(X < Y) + P(X = Y)/2` over all pairs of samples. Samples of one
//! replicate are alike, so the error is computed from the contributions of replicates. A contribution
//! is the sum of the replicate's placements minus that of as many average samples (Obuchowski,
//! Biometrics 53, 1997, in the form that first sums both kinds). The interval is that of `t` over
//! replicates on the logit scale.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::compare::{logit_interval, pairs_interval, share_below};
use super::super::ordered::{BadInput, Interval, Ordered, probability};
use super::NoInterval;
use super::estimate::Replicates;

/// The stochastic order of two kinds of samples, which shows which kind tends to be greater, with the
/// evidence of replicates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplicateOrder {
    /// The value of `θ`: 1 if every `y` is above every `x`, 1/2 if neither kind tends to be greater.
    pub theta: f64,
    /// The interval of `θ`, or `None` for fewer than six replicates.
    pub interval: Option<Interval>,
    /// The reason why the statistic has no interval.
    pub why_none: Option<NoInterval>,
    /// The number of replicates behind the order.
    pub replicates: usize,
}

/// Returns the order of the samples `x` and `y`, each with its replicate, with the interval at
/// confidence `1 - alpha`; `in_a_row` consecutive replicates count as one. Replicates are ordered by
/// their ascending numbers.
///
/// # Errors
/// Returns [`BadInput`] for a side without samples, a value that is not a number, or an invalid
/// `alpha`.
pub fn replicate_order(
    x: &[(f64, u64)],
    y: &[(f64, u64)],
    in_a_row: f64,
    alpha: f64,
) -> Result<ReplicateOrder, BadInput> {
    probability("alpha", alpha)?;
    let sorted = |of: &[(f64, u64)]| Ordered::new(&of.iter().map(|it| it.0).collect::<Vec<_>>());
    let (below, above) = (sorted(x)?, sorted(y)?);
    let of_y = |value: f64| share_below(&below, value);
    let of_x = |value: f64| 1.0 - share_below(&above, value);
    let theta = y.iter().map(|it| of_y(it.0)).sum::<f64>() / y.len() as f64;
    let mut added: BTreeMap<u64, f64> = BTreeMap::new();
    for &(value, replicate) in x {
        *added.entry(replicate).or_default() += (of_x(value) - theta) / x.len() as f64;
    }
    for &(value, replicate) in y {
        *added.entry(replicate).or_default() += (of_y(value) - theta) / y.len() as f64;
    }
    let count = added.len() as f64;
    // So that their mean has the error of `θ`.
    let values: Vec<f64> = added.into_values().map(|it| count * it).collect();
    let replicates = Replicates::new(values).counting(in_a_row);
    let interval = replicates.enough().map(|()| {
        let error = replicates.error_of_mean();
        if error > 1e-12 && theta > 0.0 && theta < 1.0 {
            logit_interval(theta, error, replicates.worth - 1.0, alpha)
        } else {
            pairs_interval(theta, replicates.worth as usize, alpha)
        }
    });
    let (why_none, interval) = (interval.err(), interval.ok());
    Ok(ReplicateOrder { theta, interval, why_none, replicates: count as usize })
}

#[cfg(test)]
mod tests {
    use super::super::super::compare::order;
    use super::*;
    use crate::draw::ResampleSource;

    #[test]
    fn of_samples_that_are_each_a_replicate_it_is_that_of_independent_ones() {
        let mut draw = ResampleSource::new(5);
        let x: Vec<f64> = (0..60).map(|_| draw.normal()).collect();
        let y: Vec<f64> = (0..80).map(|_| draw.normal() + 0.8).collect();
        let alone = order(&x, &y, 0.05).unwrap();
        let label = |of: &[f64], first: u64| of.iter().copied().zip(first..).collect::<Vec<_>>();
        let replicated = replicate_order(&label(&x, 0), &label(&y, 60), 1.0, 0.05).unwrap();
        assert!((alone.theta - replicated.theta).abs() < 1e-12);
        let (one, other) = (alone.interval, replicated.interval.unwrap());
        assert!((one.low - other.low).abs() < 0.03 && (one.high - other.high).abs() < 0.03);
    }

    #[test]
    fn every_pair_is_counted_as_by_hand_and_few_replicates_have_no_interval() {
        // Of 1, 3 against 2, 3: below in 1 + 1, not in 0 + 1/2: 2.5 of 4.
        let told = replicate_order(&[(1.0, 0), (3.0, 1)], &[(2.0, 0), (3.0, 1)], 1.0, 0.05);
        let told = told.unwrap();
        assert!((told.theta - 0.625).abs() < 1e-12);
        assert_eq!(told.interval, None);
        assert_eq!(told.why_none.unwrap().to_string(), "2 replicates; an interval needs 6");
    }

    /// A replicate moves all of its samples by one amount, and has samples of one kind only, so that
    /// only the few replicates show which kind is greater.
    #[test]
    fn replicates_that_are_alike_within_are_covered_and_samples_taken_for_them_are_not() {
        let mut draw = ResampleSource::new(17);
        let (mut held, mut held_alone) = (0, 0);
        for _ in 0..300 {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            for replicate in 0..24 {
                let level = draw.normal();
                let side = if replicate % 2 == 0 { &mut x } else { &mut y };
                side.extend((0..10).map(|_| (level + 0.5 * draw.normal(), replicate)));
            }
            let holds = |interval: Interval| u32::from(interval.contains(0.5));
            held += holds(replicate_order(&x, &y, 1.0, 0.05).unwrap().interval.unwrap());
            // Out of their order, since neighbours that are alike would be noticed.
            let apart = |of: &[(f64, u64)], first: u64| -> Vec<(f64, u64)> {
                of.iter().zip(0..).map(|(it, at)| (it.0, 2 * (at * 37 % 120) + first)).collect()
            };
            let alone = replicate_order(&apart(&x, 0), &apart(&y, 1), 1.0, 0.05).unwrap();
            held_alone += holds(alone.interval.unwrap());
        }
        assert!((270..=298).contains(&held), "{held} of 300");
        assert!(held_alone < 220, "{held_alone} of 300");
    }

    #[test]
    fn an_impossible_level_and_a_side_without_samples_are_refused() {
        let (some, none) = ([(1.0, 0)], []);
        for alpha in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(replicate_order(&some, &some, 1.0, alpha).is_err(), "{alpha}");
        }
        assert_eq!(replicate_order(&some, &none, 1.0, 0.05), Err(BadInput::Empty));
        assert_eq!(replicate_order(&none, &some, 1.0, 0.05), Err(BadInput::Empty));
    }

    #[test]
    fn exact_ties_are_half_and_replicates_of_unequal_sizes_count_by_their_samples() {
        let tied = replicate_order(&[(2.0, 0), (2.0, 1)], &[(2.0, 2)], 1.0, 0.05).unwrap();
        assert_eq!((tied.theta, tied.replicates), (0.5, 3));
        // Below 4 lie three of four, below 1 one tie: (3 + 0.5) / 8.
        let x = [(1.0, 0), (2.0, 0), (3.0, 0), (9.0, 1)];
        let told = replicate_order(&x, &[(4.0, 2), (1.0, 3)], 1.0, 0.05).unwrap();
        assert_eq!((told.theta, told.replicates), (3.5 / 8.0, 4));
    }

    #[test]
    fn six_replicates_have_an_interval_and_apart_ones_one_that_ends_at_one() {
        let side = |level: f64, first: u64, count: u64| {
            (first..first + count).map(|at| (level + (at * 7 % 5) as f64, at)).collect::<Vec<_>>()
        };
        let of =
            |count| replicate_order(&side(0.0, 0, 3), &side(50.0, 10, count), 1.0, 0.05).unwrap();
        assert_eq!((of(2).theta, of(2).interval, of(2).replicates), (1.0, None, 5));
        let six = of(3);
        let interval = six.interval.unwrap();
        assert_eq!((six.theta, interval.high, six.why_none), (1.0, 1.0, None));
        assert!(interval.low > 0.2 && interval.low < 1.0, "{interval:?}");
    }
}
