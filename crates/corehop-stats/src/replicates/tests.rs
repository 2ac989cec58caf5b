// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with small nested samples whose medians, means, quantiles and spreads can be computed by
//! hand.
use super::*;
use corehop_fixtures::designs::{Design, SeededSource, StandardLaw};

fn cell(groups: &[&[f64]]) -> Nested {
    Nested::new(groups.iter().map(|group| group.to_vec()).collect()).unwrap()
}

/// Returns a cell with one sample in each replicate, counted from 1, in an order in which
/// neighbours are not alike.
fn apart(count: usize) -> Nested {
    let key = |at: usize| (at as f64 * 0.618_034).fract();
    let rank = |at: usize| (0..count).filter(|&other| key(other) <= key(at)).count();
    Nested::new((0..count).map(|at| vec![rank(at) as f64]).collect()).unwrap()
}

#[test]
fn halves_in_time_share_the_replicates_and_one_replicate_has_none() {
    let [earlier, later] = cell(&[&[1.0, 2.0], &[3.0], &[4.0]]).in_time().unwrap();
    assert_eq!((earlier, later), (cell(&[&[1.0, 2.0]]), cell(&[&[3.0], &[4.0]])));
    assert_eq!(cell(&[&[1.0, 2.0]]).in_time(), None);
}

#[test]
fn labels_sort_replicates_and_keep_the_order_of_their_samples() {
    let labelled = Nested::from_labelled(&[5.0, 1.0, 4.0, 2.0], &[9, 3, 9, 3]).unwrap();
    assert_eq!(labelled, cell(&[&[1.0, 2.0], &[5.0, 4.0]]));
    assert_eq!((labelled.replicates(), labelled.samples()), (2, 4));
}

#[test]
fn empty_replicates_are_left_out_and_broken_input_is_an_error() {
    assert_eq!(cell(&[&[1.0], &[], &[2.0]]).replicates(), 2);
    assert_eq!(Nested::new(vec![vec![], vec![]]), Err(BadInput::Empty));
    assert_eq!(Nested::from_labelled(&[], &[]), Err(BadInput::Empty));
    let broken = Nested::new(vec![vec![1.0], vec![2.0, f64::NAN]]);
    assert!(matches!(broken, Err(BadInput::NotFinite { index: 2, .. })));
    assert!(matches!(Nested::from_labelled(&[1.0], &[]), Err(BadInput::Unpaired { .. })));
    for alpha in [0.0, 1.0, f64::NAN] {
        assert!(apart(8).median(alpha).is_err() && apart(8).mean(alpha).is_err());
        assert!(apart(8).quantile(0.9, alpha).is_err() && apart(8).maximum(alpha).is_err());
        assert!(apart(8).quantile(alpha, 0.05).is_err());
        assert!(median_difference(&apart(8), &apart(8), alpha).is_err());
    }
    let none = Nested::default();
    assert_eq!(none.median(0.05), Err(BadInput::Empty));
    assert_eq!(none.mean(0.05), Err(BadInput::Empty));
    assert_eq!(none.quantile(0.9, 0.05), Err(BadInput::Empty));
    assert!(none.maximum(0.95).is_err() && none.drift(0.05).is_none());
    assert_eq!(none.spread().share_between, None);
}

#[test]
fn five_replicates_have_an_estimate_and_no_interval_however_many_samples() {
    let groups = Design::steady(StandardLaw::Normal, StandardLaw::Normal, 0.3).run(
        &mut SeededSource::new(1),
        5,
        500,
    );
    let five = Nested::new(groups).unwrap();
    for of in [five.median(0.05), five.mean(0.05), five.quantile(0.9, 0.05)] {
        let of = of.unwrap();
        assert_eq!((of.interval, of.replicates, of.samples), (None, 5, 2_500));
        assert_eq!(of.why_none, Some(NoInterval::TooFewReplicates { have: 5 }));
    }
    let difference = median_difference(&five, &apart(8), 0.05).unwrap();
    assert_eq!((difference.interval, difference.p_value), (None, None));
}

#[test]
fn the_estimate_is_the_median_of_medians_and_the_mean_of_means() {
    let uneven = cell(&[&[1.0, 2.0, 9.0], &[3.0], &[4.0, 6.0]]);
    assert!((uneven.median(0.05).unwrap().estimate - 3.0).abs() < 1e-12);
    assert!((uneven.mean(0.05).unwrap().estimate - 4.0).abs() < 1e-12);
}

#[test]
fn a_quantile_that_replicates_do_not_carry_is_that_of_all_samples() {
    let few = apart(200).quantile(0.9, 0.05).unwrap();
    assert_eq!((few.method, few.estimate), (IntervalMethod::ReplicateShares, 180.5));
    // Woodruff by hand: 1.972 · √(0.9 · 0.1 / 199) = 0.0419 of 200 samples.
    let interval = few.interval.unwrap();
    assert_eq!((interval.low, interval.high), (171.0, 189.0));
    let own = Nested::new(vec![vec![1.0; 10]; 8]).unwrap().quantile(0.9, 0.05).unwrap();
    assert_eq!(own.method, IntervalMethod::ReplicateQuantiles);
    let beyond = apart(20).quantile(0.99, 0.05).unwrap();
    assert_eq!(beyond.why_none, Some(NoInterval::QuantileOutOfReach { p: 0.99 }));
}

#[test]
fn a_ramp_has_no_interval_and_says_why() {
    let ramp = Nested::new((0..12).map(|at| vec![f64::from(at)]).collect()).unwrap();
    let median = ramp.median(0.05).unwrap();
    assert!(matches!(median.why_none, Some(NoInterval::Dependent { worth }) if worth < 6.0));
    assert!(median.why_none.unwrap().to_string().contains("alike"), "{median:?}");
    assert!(ramp.drift(0.05).unwrap().drifts);
}

#[test]
fn equal_replicates_have_a_median_and_no_interval_of_the_mean() {
    let equal = Nested::new(vec![vec![0.1, 0.1]; 9]).unwrap();
    let interval = equal.median(0.05).unwrap().interval.unwrap();
    assert!((interval.low - 0.1).abs() < 1e-12 && (interval.high - 0.1).abs() < 1e-12);
    assert_eq!(equal.mean(0.05).unwrap().why_none, Some(NoInterval::Alike));
    let difference = median_difference(&equal, &equal, 0.05).unwrap();
    assert_eq!((difference.estimate, difference.p_value), (0.0, Some(1.0)));
    assert_eq!(equal.spread().share_between, None);
}

#[test]
fn a_level_beyond_so_many_replicates_is_refused() {
    let six = apart(6).median(0.03).unwrap();
    assert!(matches!(six.why_none, Some(NoInterval::LevelOutOfReach { .. })), "{six:?}");
}

#[test]
fn the_maximum_is_one_of_so_many_replicates_not_of_so_many_samples() {
    let groups = vec![vec![vec![1.0, 2.0], vec![7.0, 3.0], vec![4.0, 5.0]]; 2].concat();
    let maximum = Nested::new(groups).unwrap().maximum(0.95).unwrap();
    assert_eq!((maximum.value, maximum.replicates, maximum.samples), (7.0, 6, 12));
    // 0.05^(1/6)
    assert!((maximum.bounds_quantile - 0.606_96).abs() < 1e-5, "{maximum:?}");
    assert!((maximum.confidence_for(maximum.bounds_quantile).unwrap() - 0.95).abs() < 1e-12);
    assert!(maximum.to_string().contains("12 samples in 6 replicates"), "{maximum}");
}

#[test]
fn the_analysis_of_variance_is_that_by_hand() {
    // Sizes 2, 3 and 1 with means 2, 5 and 9: between 39.5/2, within 4/3, size (6 - 14/6)/2.
    let spread = cell(&[&[1.0, 3.0], &[4.0, 5.0, 6.0], &[9.0]]).spread();
    let (within, size) = (4.0 / 3.0, (6.0 - 14.0 / 6.0) / 2.0);
    let centre = 28.0 / 6.0;
    let squares: f64 = [(2.0_f64, 2.0_f64), (3.0, 5.0), (1.0, 9.0)]
        .iter()
        .map(|(size, mean)| size * (mean - centre).powi(2))
        .sum();
    let between = (squares / 2.0 - within) / size;
    assert!((spread.std_between.unwrap() - between.sqrt()).abs() < 1e-12, "{spread:?}");
    let share = between / (between + within);
    assert!((spread.share_between.unwrap() - share).abs() < 1e-12, "{spread:?}");
    assert_eq!((spread.low, spread.high, spread.quartiles), (2.0, 9.0, None));
    assert_eq!(apart(8).spread().quartiles, Some((2.5, 6.5)));
    assert_eq!(apart(8).spread().std_between, None, "one sample each");
}

#[test]
fn the_share_between_replicates_is_the_one_that_was_put_in() {
    for icc in [0.0, 0.3, 0.9] {
        let design = Design::steady(StandardLaw::Normal, StandardLaw::Exponential, icc);
        let groups = design.run(&mut SeededSource::new(5), 2_000, 10);
        let share = Nested::new(groups).unwrap().spread().share_between.unwrap();
        assert!((share - icc).abs() < 0.03, "{icc}: {share}");
    }
}

#[test]
fn intervals_move_and_turn_with_the_samples() {
    let design = Design::steady(StandardLaw::LogNormal(1.0), StandardLaw::Normal, 0.5);
    let groups = design.run(&mut SeededSource::new(10), 10, 7);
    let mapped = |f: fn(f64) -> f64| {
        let each = |group: &Vec<f64>| group.iter().map(|&x| f(x)).collect();
        Nested::new(groups.iter().map(each).collect()).unwrap()
    };
    let (plain, turned) = (mapped(|x| x), mapped(|x| 5.0 - 2.0 * x));
    for of in [|cell: &Nested| cell.median(0.05), |cell: &Nested| cell.mean(0.05)] {
        let (a, b) = (of(&plain).unwrap(), of(&turned).unwrap());
        let (a, b) = (a.interval.unwrap(), b.interval.unwrap());
        assert!((5.0 - 2.0 * a.low - b.high).abs() < 1e-9, "{a:?} {b:?}");
        assert!((5.0 - 2.0 * a.high - b.low).abs() < 1e-9, "{a:?} {b:?}");
    }
    let other = mapped(|x| x * x);
    let forth = median_difference(&plain, &other, 0.05).unwrap();
    let back = median_difference(&other, &plain, 0.05).unwrap();
    assert!((forth.interval.unwrap().low + back.interval.unwrap().high).abs() < 1e-9);
    assert!((forth.p_value.unwrap() - back.p_value.unwrap()).abs() < 1e-12);
}
