// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with exchanges of machines whose levels are known, and of a guest whose host really moved its
//! CPUs.

use proptest::prelude::*;

use super::*;
use crate::draw::{ReferenceLaw, ResampleSource};

/// Every fifth of the exchanges, 20 ms apart, that a two-CPU guest (AMD EPYC) measured in six seconds.
const MEASURED: [f64; 60] = [
    47.6, 48.0, 42.4, 43.2, 45.4, 42.1, 42.6, 42.4, 47.1, 41.6, 43.0, 45.2, 51.8, 44.1, 48.5, 45.1,
    47.3, 44.1, 46.8, 44.4, 45.4, 41.0, 41.3, 41.5, 30.8, 30.8, 41.3, 31.3, 32.5, 219.2, 219.2,
    192.6, 226.1, 207.3, 209.5, 210.5, 33.0, 31.9, 31.5, 29.6, 31.9, 217.2, 54.6, 48.4, 50.7, 52.0,
    44.0, 43.7, 45.9, 43.8, 44.6, 43.8, 42.7, 43.7, 44.3, 43.2, 63.7, 49.1, 31.6, 32.4,
];

/// Returns the levels without their certainty, which takes most of the computing time.
fn levels_of(values: &[f64]) -> ExchangeLevels {
    let levels = number::ExchangeRun::new(values).levels();
    ExchangeLevels { levels, certainty: None, exchanges: values.len() }.settled(values)
}

fn medians(levels: &ExchangeLevels) -> Vec<f64> {
    levels.levels.iter().map(|level| level.median_ns).collect()
}

/// Makes two levels: 28 to 55 ns, and 195 to 224 ns.
fn near_and_far() -> ExchangeLevels {
    let level =
        |low_ns, median_ns, high_ns| ExchangeLevel { median_ns, low_ns, high_ns, exchanges: 100 };
    let levels = vec![level(28.0, 46.0, 55.0), level(195.0, 213.0, 224.0)];
    ExchangeLevels { levels, certainty: Some(1.0), exchanges: 200 }
}

/// Returns a value near `ns`, with this standard deviation of its logarithm.
fn about(ns: f64, noise: f64, draw: &mut ResampleSource) -> f64 {
    ns * (noise * draw.normal()).exp()
}

/// Returns an exchange within one cache as measured: one of two states of the clock.
fn near(draw: &mut ResampleSource) -> f64 {
    let ns = if draw.unit() < 0.12 { 31.5 } else { 46.5 };
    about(ns, 0.06, draw)
}

/// Returns a disturbed exchange: 1.3 to 10 times as long.
fn disturbed(ns: f64, draw: &mut ResampleSource) -> f64 {
    ns * 1.3 * (10.0_f64 / 1.3).powf(draw.unit())
}

/// Returns the number of seeds, of 100, that find several levels where there is only one.
fn false_splits(n: usize, one: impl Fn(&mut ResampleSource) -> f64) -> usize {
    let several = |seed| {
        let mut draw = ResampleSource::new(seed);
        let values: Vec<f64> = (0..n).map(|_| one(&mut draw)).collect();
        levels_of(&values).count() != 1
    };
    (0..100).filter(|&seed| several(seed)).count()
}

#[test]
fn one_peak_is_one_level_however_skewed() {
    let gamma = |d: &mut ResampleSource| {
        20.0 * (d.value(ReferenceLaw::Exponential) + d.value(ReferenceLaw::Exponential))
    };
    for n in [20, 150] {
        assert!(false_splits(n, |d| about(45.0, 0.1, d)) <= 1, "narrow, {n}");
        assert!(false_splits(n, |d| about(45.0, 0.3, d)) <= 1, "log-normal, {n}");
        assert!(false_splits(n, gamma) <= 1, "gamma, {n}");
        assert!(
            false_splits(n, |d| 27.0 + 8.0 * d.value(ReferenceLaw::Exponential)) <= 1,
            "shifted, {n}"
        );
        assert!(false_splits(n, |d| 27.0 + 28.0 * d.unit()) <= 1, "27 to 55, {n}");
    }
}

#[test]
fn two_states_of_the_clock_below_one_cache_are_one_level() {
    for n in [8, 40, 300] {
        assert_eq!(false_splits(n, near), 0, "{n}");
    }
}

#[test]
fn a_slow_drift_by_a_third_is_one_level() {
    for seed in 0..5 {
        let mut draw = ResampleSource::new(seed);
        let drifting = |at: i32| 40.0 * (1.0 + 0.3 * f64::from(at) / 1_000.0);
        let values: Vec<f64> = (0..1_000).map(|at| about(drifting(at), 0.05, &mut draw)).collect();
        assert_eq!(levels_of(&values).count(), 1, "seed {seed}");
    }
}

/// Draws `n` values, a share of which is `ratio` times as long; each value states its level.
fn two(n: usize, share: f64, ratio: f64, draw: &mut ResampleSource) -> Vec<(usize, f64)> {
    let far = |at: usize| (at + 1) as f64 * share - (at as f64 * share).floor() >= 1.0;
    let value = |at| {
        let level = usize::from(far(at));
        (level, about(if level == 1 { 45.0 * ratio } else { 45.0 }, 0.07, draw))
    };
    (0..n).map(value).collect()
}

#[test]
fn two_levels_are_found_at_every_share_from_2_to_98_percent() {
    for ratio in [2.0, 3.0, 5.0] {
        for share in [0.02, 0.05, 0.3, 0.5, 0.8, 0.95, 0.98] {
            for seed in 0..3 {
                let known = two(1_000, share, ratio, &mut ResampleSource::new(seed));
                let levels = levels_of(&known.iter().map(|known| known.1).collect::<Vec<_>>());
                let what = format!("ratio {ratio}, share {share}, seed {seed}: {levels:?}");
                assert_eq!(levels.count(), 2, "{what}");
                let right =
                    known.iter().filter(|known| levels.level_of(known.1) == Some(known.0)).count();
                assert!(right >= 990, "{right} right: {what}");
            }
        }
    }
}

#[test]
fn three_levels_are_found_at_equal_and_at_unequal_distances() {
    for (ns, every) in [([20.0, 60.0, 180.0], [1, 1, 1]), ([12.0, 45.0, 210.0], [16, 3, 1])] {
        let mut draw = ResampleSource::new(7);
        let times: Vec<usize> = (0..3).flat_map(|level| vec![level; 30 * every[level]]).collect();
        let values: Vec<f64> =
            times.iter().map(|&level| about(ns[level], 0.06, &mut draw)).collect();
        let levels = levels_of(&values);
        assert_eq!(levels.count(), 3, "{levels:?}");
        for (median, ns) in medians(&levels).into_iter().zip(ns) {
            assert!((median / ns - 1.0).abs() < 0.05, "{median} for {ns}");
        }
        let right =
            times.iter().zip(&values).filter(|(at, ns)| levels.level_of(**ns) == Some(**at));
        assert!(right.count() * 100 >= 99 * values.len());
    }
}

#[test]
fn what_is_seen_twice_or_three_times_is_no_level_and_of_none() {
    for (n, times) in [(12, 2), (12, 3), (60, 2), (60, 3), (300, 3)] {
        let mut draw = ResampleSource::new(3);
        let mut values: Vec<f64> = (0..n).map(|_| near(&mut draw)).collect();
        values.extend((0..times).map(|_| about(213.0, 0.04, &mut draw)));
        let levels = levels_of(&values);
        assert_eq!(levels.count(), 1, "{times} of {n}: {levels:?}");
        assert!(levels.levels[0].high_ns < 70.0, "{levels:?}");
        assert_eq!((levels.level_of(46.0), levels.level_of(213.0)), (Some(0), None));
        values.extend((times..FEWEST).map(|_| about(213.0, 0.04, &mut draw)));
        assert_eq!(levels_of(&values).count(), 2, "{FEWEST} of {n}");
    }
}

#[test]
fn disturbed_exchanges_make_no_level_and_hide_none() {
    for seed in 0..10 {
        let mut draw = ResampleSource::new(seed);
        let mut values: Vec<f64> = (0..980).map(|_| near(&mut draw)).collect();
        values.extend((0..20).map(|_| disturbed(46.0, &mut draw)));
        assert_eq!(levels_of(&values).count(), 1, "seed {seed}");
        values.extend((0..40).map(|_| about(213.0, 0.045, &mut draw)));
        let levels = levels_of(&values);
        assert_eq!(levels.count(), 2, "seed {seed}: {levels:?}");
        assert!((medians(&levels)[1] / 213.0 - 1.0).abs() < 0.05, "seed {seed}: {levels:?}");
    }
}

#[test]
fn a_guest_whose_cpus_were_moved_has_two_levels() {
    let levels = ExchangeLevels::of(&MEASURED);
    assert_eq!((levels.count(), levels.exchanges), (2, 60), "{levels:?}");
    let [near, far] = [levels.levels[0], levels.levels[1]];
    assert!(near.low_ns > 28.0 && near.high_ns < 60.0, "{near:?}");
    assert!(far.low_ns > 185.0 && far.high_ns < 230.0, "{far:?}");
    assert_eq!(near.exchanges + far.exchanges, 60);
    assert!(levels.certainty.is_some_and(|certainty| certainty > 0.5), "{levels:?}");
}

#[test]
fn the_certainty_is_high_where_both_levels_are_common_and_low_where_one_was_seen_in_one_stay() {
    let mut draw = ResampleSource::new(11);
    let often =
        (0..400).map(|at| about(if at / 20 % 2 == 0 { 45.0 } else { 210.0 }, 0.05, &mut draw));
    let often = ExchangeLevels::of(&often.collect::<Vec<_>>());
    assert!(often.count() == 2 && often.certainty >= Some(0.99), "{often:?}");
    let once = (0..400).map(|at| about(if at / 8 == 20 { 210.0 } else { 45.0 }, 0.05, &mut draw));
    let once = ExchangeLevels::of(&once.collect::<Vec<_>>());
    assert!(once.count() == 2 && once.certainty < Some(0.9), "{once:?}");
}

#[test]
fn too_few_exchanges_are_one_level_without_a_certainty_and_none_is_no_level() {
    let few = ExchangeLevels::of(&[45.0, 46.0, f64::NAN, 210.0, -1.0, 0.0, 44.0, f64::INFINITY]);
    assert_eq!((few.count(), few.certainty, few.exchanges), (1, None, 4));
    let none = ExchangeLevels::of(&[f64::NAN]);
    assert_eq!((none.count(), none.certainty, none.exchanges), (0, None, 0));
    assert_eq!(none.level_of(45.0), None);
    assert_eq!(none.batch(Some(45.0), None), BatchClass::Unknown);
}

#[test]
fn equal_exchanges_are_one_level_and_two_values_are_two() {
    assert_eq!(medians(&ExchangeLevels::of(&[45.0; 20])), [45.0]);
    let levels = ExchangeLevels::of(&[[45.0; 20], [210.0; 20]].concat());
    assert_eq!((medians(&levels), levels.certainty), (vec![45.0, 210.0], Some(1.0)));
}

#[test]
fn values_at_the_ends_of_what_a_number_can_be_are_told_apart() {
    let levels = levels_of(&[[1e-300; 8], [45.0; 8], [1e300; 8]].concat());
    assert_eq!(medians(&levels), [1e-300, 45.0, 1e300]);
    assert_eq!(levels.level_of(44.0), Some(1));
}

#[test]
fn a_value_between_two_levels_or_beyond_all_is_of_none() {
    let levels = near_and_far();
    for ns in [26.0, 28.0, 46.0, 55.0, 69.0, 80.0] {
        assert_eq!(levels.level_of(ns), Some(0), "{ns}");
    }
    for ns in [164.0, 195.0, 213.0, 250.0] {
        assert_eq!(levels.level_of(ns), Some(1), "{ns}");
    }
    for ns in [5.0, 90.0, 105.0, 120.0, 400.0, 0.0, -46.0, f64::NAN, f64::INFINITY] {
        assert_eq!(levels.level_of(ns), None, "{ns}");
    }
}

#[test]
fn a_batch_between_two_exchanges_that_disagree_has_changed() {
    let levels = near_and_far();
    for (before, after, class) in [
        (Some(46.0), Some(31.0), BatchClass::Level(0)),
        (Some(210.0), Some(220.0), BatchClass::Level(1)),
        (Some(46.0), Some(210.0), BatchClass::Changed),
        (Some(210.0), Some(46.0), BatchClass::Changed),
        (Some(210.0), None, BatchClass::Level(1)),
        (None, Some(46.0), BatchClass::Level(0)),
        (Some(105.0), Some(46.0), BatchClass::Level(0)),
        (Some(105.0), None, BatchClass::Unknown),
        (None, None, BatchClass::Unknown),
    ] {
        assert_eq!(levels.batch(before, after), class, "{before:?} {after:?}");
    }
}

#[test]
fn a_farther_level_is_the_next_class_outward() {
    use Event::{
        L2Migration as L2, L3Migration as L3, MemoryMigration as Memory, Preemption,
        SmtMigration as Smt,
    };
    for (declared, measured) in [
        (Smt, [Smt, L2, L3]),
        (L2, [L2, L3, Memory]),
        (L3, [L3, Memory, Memory]),
        (Memory, [L3, L3, Memory]),
        (Preemption, [Preemption; 3]),
    ] {
        assert_eq!([0, 1, 2].map(|level| measured_event(declared, level, 3)), measured);
        assert_eq!(measured_event(declared, 0, 1), declared);
        assert_eq!(measured_event(declared, 0, 0), declared);
        assert_eq!(measured_event(declared, 9, 3), measured[2]);
    }
    assert_eq!([0, 1].map(|level| measured_event(Memory, level, 2)), [L3, Memory]);
}

#[test]
fn stays_come_out_as_by_hand() {
    // Near until 3.5 s, far to 5.5, near to 9.5, far to 11 (what is at 11 s is of no level), near.
    let ns = [46, 45, 31, 46, 210, 213, 46, 46, 47, 46, 215, 105, 46, 44];
    let series: Vec<(u64, f64)> =
        ns.into_iter().zip(0..).map(|(ns, s)| (s * 1_000_000_000, f64::from(ns))).collect();
    let levels = near_and_far();
    let found = stays(&series, &levels);
    assert_eq!((found.seconds, found.changes), (13.0, 4));
    let [near, far] = [&found.levels[0], &found.levels[1]];
    assert_eq!((near.visits, near.share, near.longest_stay_s), (3, 9.5 / 13.0, 4.0));
    assert_eq!((far.visits, far.share, far.longest_stay_s), (2, 3.5 / 13.0, 2.0));
    // Of 2, 3.5 and 4 s near, only that of 4 s was seen from its beginning to its end.
    assert_eq!((near.median_stay_s, far.median_stay_s), (Some(4.0), Some(1.5)));
    assert_eq!((near.level, far.level), (levels.levels[0], levels.levels[1]));
}

#[test]
fn a_machine_that_never_changes_leaves_its_median_stay_open() {
    let found = stays(&[(0, 46.0), (2_000_000_000, 45.0)], &near_and_far());
    assert_eq!((found.seconds, found.changes), (2.0, 0));
    let [near, far] = [&found.levels[0], &found.levels[1]];
    assert_eq!((near.share, near.visits, near.median_stay_s), (1.0, 1, None));
    assert_eq!((far.share, far.visits, far.longest_stay_s), (0.0, 0, 0.0));
    let empty = stays(&[], &near_and_far());
    assert_eq!((empty.seconds, empty.changes, empty.levels[0].share), (0.0, 0, 0.0));
    assert_eq!(stays(&[(5, 46.0)], &ExchangeLevels::of(&[])).levels, []);
}

/// Returns the exchanges of a host that moves CPUs between two caches, observed every 20 ms: the
/// state, and the exchange, a share of which is disturbed.
fn moving_host(n: usize, share: f64, seed: u64) -> Vec<(usize, f64)> {
    let mut draw = ResampleSource::new(seed);
    let mut state = 0;
    let exchange = |_| {
        if draw.unit() < [0.005, 0.02][state] {
            state = 1 - state;
        }
        let ns = if state == 0 { near(&mut draw) } else { about(213.0, 0.045, &mut draw) };
        (state, if draw.unit() < share { disturbed(ns, &mut draw) } else { ns })
    };
    (0..n).map(exchange).collect()
}

#[test]
fn the_classes_of_a_host_that_moves_its_cpus_are_recovered() {
    for seed in 0..5 {
        let known = moving_host(3_000, 0.004, seed);
        let levels = levels_of(&known.iter().map(|known| known.1).collect::<Vec<_>>());
        let right = |pair: &&[(usize, f64)]| {
            let [(before, before_ns), (after, after_ns)] = [pair[0], pair[1]];
            let same = before == after;
            let class = if same { BatchClass::Level(before) } else { BatchClass::Changed };
            levels.batch(Some(before_ns), Some(after_ns)) == class
        };
        let right = known.windows(2).filter(right).count();
        assert!(right * 100 >= 99 * 2_999, "seed {seed}: {right} of 2999, {levels:?}");
    }
}

#[test]
fn the_stays_of_a_host_that_moves_its_cpus_are_those_of_its_process() {
    let known = moving_host(20_000, 0.0, 1);
    let levels = levels_of(&known.iter().map(|known| known.1).collect::<Vec<_>>());
    let at = |(index, known): (usize, &(usize, f64))| (20_000_000 * index as u64, known.1);
    let found = stays(&known.iter().enumerate().map(at).collect::<Vec<_>>(), &levels);
    let changes = known.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!(found.changes.abs_diff(changes) <= changes / 20, "{} of {changes}", found.changes);
    assert!((found.levels.iter().map(|level| level.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((found.levels[1].share - 0.2).abs() < 0.05, "{found:?}");
    // Geometric stays with a mean of 200 and 50 exchanges: medians of ln 2 times that.
    for (level, expected) in found.levels.iter().zip([2.77, 0.69]) {
        let median = level.median_stay_s.unwrap();
        assert!((median / expected - 1.0).abs() < 0.35, "{median} for {expected}");
    }
}

#[test]
fn levels_come_back_from_json_as_they_were() {
    let levels = near_and_far();
    let text = serde_json::to_string(&levels).unwrap();
    assert_eq!(serde_json::from_str::<ExchangeLevels>(&text).unwrap(), levels);
    assert_eq!(serde_json::to_string(&BatchClass::Level(1)).unwrap(), r#"{"level":1}"#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_constant_factor_changes_no_assignment(seed in 0_u64..1_000, factor in 0.01_f64..100.0) {
        let values: Vec<f64> = moving_host(200, 0.01, seed).into_iter().map(|known| known.1).collect();
        let scaled: Vec<f64> = values.iter().map(|value| factor * value).collect();
        let (levels, scaled_levels) = (levels_of(&values), levels_of(&scaled));
        prop_assert_eq!(levels.count(), scaled_levels.count());
        for (value, scaled) in values.iter().zip(&scaled) {
            prop_assert_eq!(levels.level_of(*value), scaled_levels.level_of(*scaled));
        }
    }

    #[test]
    fn the_order_of_the_values_changes_no_level(seed in 0_u64..1_000) {
        let mut values: Vec<f64> = moving_host(200, 0.01, seed).into_iter().map(|known| known.1).collect();
        let levels = levels_of(&values);
        values.reverse();
        prop_assert_eq!(&levels_of(&values), &levels);
        values.sort_by(f64::total_cmp);
        prop_assert_eq!(&levels_of(&values), &levels);
    }

    #[test]
    fn whatever_the_values_levels_ascend_and_each_median_is_of_its_own(
        values in prop::collection::vec(prop_oneof![1e-30_f64..1e30, 20.0_f64..300.0], 0..40),
    ) {
        let levels = ExchangeLevels::of(&values);
        prop_assert_eq!(levels.count() == 0, values.is_empty());
        prop_assert!(levels.count() <= 4);
        prop_assert!(levels.levels.windows(2).all(|pair| pair[0].high_ns < pair[1].low_ns));
        for (index, level) in levels.levels.iter().enumerate() {
            prop_assert_eq!(levels.level_of(level.median_ns), Some(index));
        }
    }
}
