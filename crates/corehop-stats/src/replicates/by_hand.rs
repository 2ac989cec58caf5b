// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with numbers that were computed in another way: unequal replicates, ties, the smallest number of replicates,
//! and invalid probabilities.

use super::difference::{exchanges, hits};
use super::estimate::Replicates;
use super::serial::worth;
use super::*;

/// Returns a cell with one sample in each replicate, in this order.
fn singles(values: &[f64]) -> Nested {
    Nested::new(values.iter().map(|&value| vec![value]).collect()).unwrap()
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

fn ends(interval: Option<Interval>, low: f64, high: f64) -> bool {
    // Quantiles of `t` have eight digits.
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-7;
    interval.is_some_and(|it| near(it.low, low) && near(it.high, high) && is(it.level, 0.95))
}

/// The interval of a median of n values, between the ranks d and n + 1 - d, has a coverage of 1 - 2 P(fewer than d of
/// n). The coverage for six values is 0.96875 with rank 1 and 0.78125 with rank 2. A 95 % interval gives up a tenth of
/// the difference between these coverages, which is 0.357 of a rank by the formula of Hettmansperger and Sheather.
#[test]
fn the_interval_of_a_median_lies_between_ranks() {
    for (values, low, high) in [
        (&[3.0, 6.0, 1.0, 5.0, 2.0, 4.0][..], 1.357_142_857_142_857, 5.642_857_142_857_142),
        (&[4.0, 7.0, 1.0, 6.0, 3.0, 5.0, 2.0], 1.733_333_333_333_333, 6.266_666_666_666_667),
        (
            &[5.0, 9.0, 1.0, 7.0, 3.0, 8.0, 2.0, 6.0, 4.0],
            2.227_906_976_744_187,
            7.772_093_023_255_814,
        ),
    ] {
        let median = singles(values).median(0.05).unwrap();
        assert!(ends(median.interval, low, high), "{median:?}");
        assert!(is(median.estimate, (values.len() + 1) as f64 / 2.0));
        assert!(is(median.effective_replicates, values.len() as f64));
    }
}

/// The interval has 2.5706 standard errors of 5.0990 / √6, bent by Hall's transformation for a skewness of 1.4873: one
/// end is far above the mean, and the other end is close below the mean.
#[test]
fn the_interval_of_a_mean_is_bent_by_the_skewness_of_replicates() {
    let mean = singles(&[3.0, 15.0, 1.0, 5.0, 2.0, 4.0]).mean(0.05).unwrap();
    assert!(is(mean.estimate, 5.0));
    assert!(ends(mean.interval, 1.327_230_041_882_769, 24.065_843_243_232_386), "{mean:?}");
    // Replicates count alike, whatever their sizes.
    let uneven =
        vec![vec![3.0; 9], vec![15.0], vec![0.0, 2.0], vec![5.0; 4], vec![2.0], vec![4.0, 4.0]];
    let uneven = Nested::new(uneven).unwrap().mean(0.05).unwrap();
    assert_eq!((uneven.interval, uneven.samples), (mean.interval, 19));
}

#[test]
fn the_errors_of_a_mean_are_over_the_replicates_that_it_is_worth() {
    let replicates = Replicates::new(vec![3.0, 15.0, 1.0, 5.0, 2.0, 4.0]);
    let deviation = 26.0_f64.sqrt();
    assert!(is(replicates.error_of_mean(), deviation / 6.0_f64.sqrt()));
    // Six are the least: what is known from elsewhere takes no interval away.
    let six = replicates.counting(3.0);
    assert!(is(six.worth, 6.0) && is(six.in_a_row(), 1.0) && six.enough().is_ok());
    let twelve: Vec<f64> = [3.0, 15.0, 1.0, 5.0, 2.0, 4.0].repeat(2);
    let twelve = Replicates::new(twelve).counting(1.5);
    assert!(is(twelve.worth, 8.0) && is(twelve.in_a_row(), 1.5));
}

#[test]
fn each_difference_says_its_level_and_equal_replicates_have_one_without_a_width() {
    let (low, high) =
        (singles(&[3.0, 6.0, 1.0, 5.0, 2.0, 4.0]), singles(&[13.0, 16.0, 11.0, 15.0, 12.0, 14.0]));
    let difference = median_difference(&low, &high, 0.05).unwrap();
    let interval = difference.interval.unwrap();
    assert!(is(difference.estimate, 10.0) && is(interval.level, 0.95), "{difference:?}");
    // Both sides reach as far, 2.142857 from 3.5: √2 of that, by `t` with ten degrees of freedom in place of five.
    let reach =
        2.142_857_142_857_143 / 2.570_581_836_614_74 * 2.0_f64.sqrt() * 2.228_138_851_986_274;
    assert!((interval.high - 10.0 - reach).abs() < 1e-6, "{interval:?} {reach}");
    assert!(is(interval.high - 10.0, 10.0 - interval.low));
    assert!(is(difference.p_value.unwrap(), 2.0 / 924.0));
    let (one, two) =
        (Nested::new(vec![vec![1.0]; 6]).unwrap(), Nested::new(vec![vec![3.0]; 7]).unwrap());
    let alike = median_difference(&one, &two, 0.05).unwrap();
    assert!(ends(alike.interval, 2.0, 2.0), "{alike:?}");
    assert_eq!((alike.replicates, alike.samples), ([6, 7], [6, 7]));
    let (estimate, interval) = quantile_difference(&one, &two, 0.5, 0.05).unwrap();
    assert!(is(estimate, 2.0) && ends(interval, 2.0, 2.0));
}

#[test]
fn where_a_level_is_out_of_reach_the_widest_within_is_taken_and_named() {
    let (x, y) =
        (singles(&[3.0, 6.0, 1.0, 5.0, 2.0, 4.0]), singles(&[3.0, 6.0, 1.0, 5.0, 2.0, 4.0]));
    assert!(median_difference(&x, &y, 0.03).unwrap().interval.is_none());
    let widest = widest_difference(&x, &y, 0.03).unwrap().unwrap();
    assert!(is(widest.level, 1.0 - 1.25 * 0.03), "{widest:?}");
    // At a level within reach it is that of the difference; five replicates have none at any.
    let within = median_difference(&x, &y, 0.05).unwrap().interval;
    assert_eq!(widest_difference(&x, &y, 0.05).unwrap().ok(), within);
    let five = singles(&[3.0, 1.0, 5.0, 2.0, 4.0]);
    let why = widest_difference(&five, &y, 0.05).unwrap().unwrap_err();
    assert_eq!(why, NoInterval::TooFewReplicates { have: 5 });
}

/// Of all 35 choices of 3 from 1, 2, 2, 2, 3, 3, 5, a separate program found three whose statistic is as large as the
/// statistic of 1, 2, 2 against the other values, and one more that is as far from 0.
#[test]
fn exchanges_of_unequal_sides_with_ties_are_all_counted() {
    let of = |x: &[f64], y: &[f64]| {
        let hits = hits(x, y);
        [hits.above, hits.below].map(|share| (35.0 * share).round() as u32)
    };
    assert_eq!(of(&[1.0, 2.0, 2.0], &[2.0, 3.0, 3.0, 5.0]), [3, 35]);
    assert_eq!(of(&[2.0, 3.0, 3.0, 5.0], &[1.0, 2.0, 2.0]), [35, 3]);
}

/// The exchanges of 50 against 53 replicates are too many to enumerate; the two tails of the test by `t` add up to
/// one.
#[test]
fn the_tails_of_many_replicates_add_up_to_one_and_change_sides_with_the_cells() {
    let values = |n: usize, shift: f64| -> Vec<f64> {
        (0..n).map(|at| (at * 37 % n) as f64 / n as f64 + shift).collect()
    };
    let (x, y) = (singles(&values(50, 0.0)), singles(&values(53, 0.1)));
    let there = beyond(&x, &y, |value| value).unwrap().unwrap();
    let back = beyond(&y, &x, |value| value).unwrap().unwrap();
    assert!(is(there.above + there.below, 1.0) && there.above < 0.1, "{there:?}");
    assert!(is(back.below, there.above) && is(back.above, there.below), "{back:?}");
    let moved = beyond(&x, &y, |value| value + 0.2).unwrap().unwrap();
    assert!(moved.below < 0.1 && moved.above > 0.9, "{moved:?}");
    assert_eq!(least_p_value(6, 6, 1.0), Some(1.0 / exchanges(6, 6)));
    assert_eq!(least_p_value(6, 5, 1.0), None);
}

/// The list 1, 3, 1, 2, 3, 2, 3, 4 has 28 pairs, of which 19 rise and 4 fall. The two ones, two twos and three threes
/// reduce the variance to 1074/18, and a score of 14 is 1.812 standard deviations.
#[test]
fn ties_of_a_drift_are_counted_wherever_they_stand() {
    let drift = singles(&[1.0, 3.0, 1.0, 2.0, 3.0, 2.0, 3.0, 4.0]).drift(0.05).unwrap();
    assert!(is(drift.tau, 15.0 / 28.0), "{drift:?}");
    assert!((drift.p_value - 0.069_919_18).abs() < 1e-7, "{drift:?}");
    // The medians of 1, 1, 2, 3 and of 2, 3, 3, 4.
    assert_eq!((drift.drifts, drift.shift), (false, 1.5));
    assert!(singles(&[1.0, 3.0, 1.0, 2.0, 3.0, 2.0, 3.0, 4.0]).drift(0.07).unwrap().drifts);
    // As many rises as falls are no sign of a trend: without ties, of which the law is counted out, and with ties.
    let turned = singles(&[8.0, 7.0, 1.0, 2.0, 3.0, 4.0, 6.0, 5.0]).drift(0.05).unwrap();
    assert_eq!((turned.tau, turned.p_value, turned.shift), (0.0, 1.0, 0.0));
    let none = singles(&[1.0, 2.0, 3.0, 3.0, 2.0, 1.0]).drift(0.05).unwrap();
    assert_eq!((none.tau, none.p_value, none.shift), (0.0, 1.0, 0.0));
}

/// The products of neighbours among the centred ranks of a ramp of ten are 0.7 of the squares, and a tenth is added.
#[test]
fn a_ramp_of_ten_is_worth_little_more_than_one() {
    let ramp: Vec<f64> = (0..10).map(f64::from).collect();
    assert!(is(worth(&ramp), 10.0 * 0.2 / 1.8), "{}", worth(&ramp));
}

#[test]
fn what_cells_share_is_the_mean_over_cells_of_what_their_blocks_vary_more() {
    let cell = |values: &[f64]| singles(values);
    let ramp: Vec<f64> = (1..=12).map(f64::from).collect();
    let mixed = [1.0, 2.0, 9.0, 4.0, 5.0, 3.0, 7.0, 8.0, 6.0, 10.0, 12.0, 11.0];
    let shared = |cells: &[Nested]| {
        let of = SharedDependence::of(cells.iter().map(|it| (false, it)));
        assert!(is(of.in_a_row(true), 1.0), "no control");
        of.in_a_row(false)
    };
    // Three blocks of four vary 4.923 times as much as of independent ranks, five of two 2.182 times.
    assert!(is(shared(&[cell(&ramp)]), 4.923_076_923_076_923));
    assert!(is(
        shared(&[cell(&ramp), cell(&mixed)]),
        f64::midpoint(4.923_076_923_076_923, 2.673_076_923_076_923)
    ));
    // Ten replicates show something of blocks, nine do not, and equal ones never do.
    assert!(is(shared(&[cell(&ramp[..10])]), 3.6));
    assert!(is(shared(&[cell(&ramp[..9])]), 1.0));
    assert!(is(shared(&[cell(&[2.0; 12])]), 1.0));
    assert!(is(shared(&[cell(&ramp), cell(&[2.0; 12])]), 4.923_076_923_076_923));
}

/// If every sample of one kind is above every sample of the other kind, the interval is the interval of equally many
/// pairs that all agree.
#[test]
fn an_order_without_exception_has_an_interval_at_the_edge_and_turns_with_its_sides() {
    let side = |from: f64| -> Vec<(f64, u64)> {
        (0..8).map(|at| (from + (at * 5 % 8) as f64, at)).collect()
    };
    let (low, high) = (side(0.0), side(100.0));
    let above = replicate_order(&low, &high, 1.0, 0.05).unwrap();
    let below = replicate_order(&high, &low, 1.0, 0.05).unwrap();
    assert_eq!((above.theta, below.theta, above.replicates), (1.0, 0.0, 8));
    let room = 1.0 - (0.025_f64).powf(1.0 / 8.0);
    assert!(ends(above.interval, 1.0 - room, 1.0), "{above:?}");
    assert!(ends(below.interval, 0.0, room), "{below:?}");
    // One exception leaves room on the other side, too.
    let mut mixed = high.clone();
    mixed[3].0 = 2.5;
    let there = replicate_order(&low, &mixed, 1.0, 0.05).unwrap();
    let back = replicate_order(&mixed, &low, 1.0, 0.05).unwrap();
    let (there, back) =
        ((there.theta, there.interval.unwrap()), (back.theta, back.interval.unwrap()));
    assert!(is(there.0 + back.0, 1.0) && is(there.1.low + back.1.high, 1.0), "{there:?} {back:?}");
    assert!(there.0 < 1.0 && there.1.high < 1.0 && there.1.contains(there.0), "{there:?}");
}

#[test]
fn a_maximum_says_what_it_bounds_and_for_no_probability_it_says_nothing() {
    let six = singles(&[3.0, 7.0, 1.0, 5.0, 2.0, 4.0]).maximum(0.9).unwrap();
    // 0.1^(1/6) = 0.6813.
    let said = "the largest of 6 samples in 6 replicates; with 90 % confidence at most 31.9 % of all replicates have a larger one";
    assert_eq!(six.to_string(), said);
    for impossible in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
        assert!(six.confidence_for(impossible).is_err(), "{impossible}");
        let cell = singles(&[1.0, 2.0]);
        assert!(cell.maximum(impossible).is_err() && cell.quantile(impossible, 0.05).is_err());
        assert!(quantile_difference(&cell, &cell, impossible, 0.05).is_err());
    }
    assert!(is(six.confidence_for(0.5).unwrap(), 1.0 - 1.0 / 64.0));
    let none = Nested::default().spread();
    assert_eq!((none.low, none.high, none.replicates, none.quartiles), (0.0, 0.0, 0, None));
    // Three replicates are too few to tell quarters of them apart, four are not.
    let quartiles = |n: usize| singles(&[1.0, 2.0, 3.0, 4.0][..n]).spread().quartiles;
    assert_eq!((quartiles(3), quartiles(4)), (None, Some((1.5, 3.5))));
}

#[test]
fn each_reason_for_no_interval_has_its_number() {
    for (why, said) in [
        (NoInterval::TooFewReplicates { have: 5 }, "5 replicates; an interval needs 6"),
        (
            NoInterval::LevelOutOfReach { level: 0.97 },
            "too few replicates for an interval at 97.0 %",
        ),
        (
            NoInterval::QuantileOutOfReach { p: 0.999 },
            "too few samples to bound the 99.9000 % quantile both ways",
        ),
        (NoInterval::Alike, "all replicates show the same; how much they vary is unknown"),
    ] {
        assert_eq!(why.to_string(), said);
    }
    let dependent = NoInterval::Dependent { worth: 2.345 }.to_string();
    assert!(dependent.contains("count only as 2.3 independent ones"), "{dependent}");
}

#[test]
fn halves_in_turn_deal_replicates_out_and_keep_what_is_known_of_them() {
    let cell = singles(&[1.0, 2.0, 3.0, 4.0, 5.0]).depending(2.0).among(7);
    let [even, odd] = cell.in_turn().unwrap();
    let own = |values: &[f64]| singles(values).depending(2.0).among(7);
    assert_eq!((even, odd), (own(&[1.0, 3.0, 5.0]), own(&[2.0, 4.0])));
    assert_eq!((singles(&[1.0]).in_turn(), cell.in_a_row()), (None, 2.0));
    assert_eq!(singles(&[1.0]).depending(0.5).in_a_row().to_bits(), 1.0_f64.to_bits());
}
