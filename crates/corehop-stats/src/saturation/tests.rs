// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with curves whose end is known, and with the refill times that Wächtler printed.

use super::*;
use crate::estimator::Estimator;
use crate::example::sample;
use crate::summary::summarize;
use corehop_plan::samples::Sample;
use corehop_plan::workload::Absence;

/// Returns a sweep with 40 samples at this length, delayed by about `us` (± 1 %); the warm touch
/// takes 1 µs, and cold minus warm is 100 µs.
fn at(ms: u64, us: f64) -> Vec<Sample> {
    (0..40)
        .map(|i| Sample {
            experiment: SWEEP.into(),
            wss_bytes: 64 << 10,
            requested_length_ns: ms * 1_000_000,
            length_ns: ms as f64 * 1e6,
            preemption_length: format!("fixed_{ms}ms").into(),
            cold_ns: 101_000.0,
            resumed_ns: 1e3 * (1.0 + us * (0.99 + 0.02 * f64::from(i) / 39.0)),
            preemptor_lines: None,
            preempted_by: Absence::Load,
            // A replicate each, in an order without a trend.
            replicate: Some(i as u64 * 17 % 40),
            ..sample()
        })
        .collect()
}

fn curve(points: &[(u64, f64)]) -> Vec<Sample> {
    points.iter().flat_map(|&(ms, us)| at(ms, us)).collect()
}

fn only(samples: &[Sample], targets: &[RefillTarget], misses: &[CountedMisses]) -> Saturation {
    let summaries = summarize(samples, Estimator::Difference);
    let [one] = saturations(&summaries, targets, misses).try_into().unwrap();
    one
}

fn reached_by(points: &[(u64, f64)]) -> SaturationLength {
    only(&curve(points), &[], &[]).reached
}

#[test]
fn a_delay_stops_growing_where_no_longer_length_costs_a_tenth_more() {
    let reached = reached_by(&[(1, 10.0), (2, 40.0), (4, 92.0), (8, 100.0), (16, 99.0)]);
    let length = Some(4_000.0);
    assert!(
        matches!(reached, SaturationLength::At { length_us, earliest_us, latest_us }
            if (Some(length_us), earliest_us, latest_us) == (length, length, length)),
        "{reached:?}"
    );
}

#[test]
fn a_step_back_in_the_middle_is_not_taken_for_the_end() {
    let SaturationLength::At { length_us, .. } =
        reached_by(&[(1, 60.0), (2, 30.0), (4, 100.0), (8, 99.0)])
    else {
        panic!("it ends at 4 ms")
    };
    assert!((length_us - 4_000.0).abs() < 1.0, "{length_us}");
}

#[test]
fn a_delay_that_grows_to_the_last_length_is_not_said_to_have_stopped() {
    let reached = reached_by(&[(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)]);
    assert_eq!(reached, SaturationLength::NotBy { longest_us: 8_000.0 });
}

#[test]
fn where_nothing_is_lost_there_is_no_end_to_find() {
    assert_eq!(reached_by(&[(1, 0.02), (2, -0.01), (4, 0.03)]), SaturationLength::NoDelay);
}

#[test]
fn scattered_samples_leave_a_range_of_lengths() {
    let mut samples = curve(&[(1, 10.0), (2, 85.0), (4, 96.0), (8, 100.0)]);
    // Half of the samples at 2 ms are as dear as those at 8 ms: its median is only known roughly.
    for sample in samples.iter_mut().filter(|it| it.requested_length_ns == 2_000_000).step_by(2) {
        sample.resumed_ns = 101_000.0;
    }
    let SaturationLength::At { earliest_us, latest_us, .. } = only(&samples, &[], &[]).reached
    else {
        panic!("it ends by 4 ms")
    };
    assert_eq!((earliest_us, latest_us), (Some(2_000.0), Some(4_000.0)));
}

#[test]
fn one_length_says_nothing_and_another_experiment_is_left_out() {
    let of = |samples: &[Sample]| saturations(&summarize(samples, Estimator::Difference), &[], &[]);
    assert_eq!(of(&at(4, 10.0)), []);
    let mut other = curve(&[(1, 1.0), (2, 2.0)]);
    for sample in &mut other {
        sample.experiment = "synthetic".into();
    }
    assert_eq!(of(&other), []);
}

#[test]
fn the_end_is_held_against_cold_less_warm() {
    let one = only(&curve(&[(1, 10.0), (2, 80.0), (4, 80.0)]), &[], &[]);
    assert_eq!(one.bound_us, Some(100.0));
    assert!((one.share_of_bound.unwrap() - 0.8).abs() < 1e-3, "{one:?}");
    assert_eq!(one.lengths, 3);
}

/// Returns the caches of the Xeon X5650: 256 KiB for each of six cores, and 12 MiB for all.
fn x5650() -> Vec<RefillTarget> {
    let target = |cache: &str, kib: u64, instances, sharers| RefillTarget {
        cache: cache.to_owned(),
        bytes: kib << 10,
        instances,
        sharers,
    };
    vec![target("L2", 256, 6, 1), target("L3", 12 << 10, 1, 6)]
}

fn refills(one: &Saturation) -> Vec<Option<f64>> {
    // Milliseconds with one decimal, as printed.
    one.refills.iter().map(|it| it.time_us.map(|us| (us / 100.0).round() / 10.0)).collect()
}

#[test]
fn counted_misses_predict_the_refill_times_that_are_printed_for_the_last_cache_alone() {
    let mut samples = curve(&[(1, 10.0), (200, 80.0)]);
    for sample in &mut samples {
        sample.load = "realistic".into();
        sample.polluter = Some("make".into());
    }
    // Wächtler, Table 5.1, on one CPU and on six.
    for (misses_per_s, refill_ms) in [(1_300e3, 151.2), (11_137e3, 17.7)] {
        let counted = [
            ("realistic".to_owned(), Some("ls".to_owned()), 1.0),
            ("realistic".to_owned(), Some("make".to_owned()), misses_per_s),
        ];
        let one = only(&samples, &x5650(), &counted);
        assert_eq!(one.fill.unwrap().source, FillSource::Misses);
        assert_eq!(refills(&one), [None, Some(refill_ms)]);
    }
    let uncounted = only(&samples, &x5650(), &[]);
    assert_eq!((uncounted.fill, refills(&uncounted)), (None, vec![None, None]));
}

#[test]
fn what_the_preemptor_walked_refills_every_cache_of_its_cpu_that_is_smaller_than_its_set() {
    let mut samples = curve(&[(1, 10.0), (8, 80.0)]);
    for sample in &mut samples {
        sample.preempted_by = Absence::Preemptor;
        sample.polluter = Some("shuffled 24 MiB write 0.5".into());
        // 183 cycles of 2.66 GHz a line.
        sample.preemptor_lines = Some((sample.length_ns / 68.8) as u64);
    }
    let one = only(&samples, &x5650(), &[]);
    assert_eq!(one.fill.unwrap().source, FillSource::Preemptor);
    // 4,096 and 196,608 lines of 68.8 ns.
    assert_eq!(refills(&one), [Some(0.3), Some(13.5)]);
    for sample in &mut samples {
        sample.polluter = Some("shuffled 4 MiB write 0.5".into());
    }
    assert_eq!(refills(&only(&samples, &x5650(), &[])), [Some(0.3), None]);
}

#[test]
fn what_a_load_moves_on_all_cpus_is_shared_among_the_instances_of_a_cache() {
    let mut samples = curve(&[(1, 10.0), (8, 80.0)]);
    for sample in &mut samples {
        sample.load = "constructed".into();
        sample.polluter = Some("shuffled 4 MiB write 0.5".into());
        // Wächtler, Table 5.2, six CPUs: 49,608 thousand lines a second.
        sample.load_bytes_per_s = Some(49_608e3 * 64.0);
    }
    let one = only(&samples, &x5650(), &[]);
    assert_eq!(one.fill.unwrap().source, FillSource::Load);
    // An L2 cache sees a sixth of it: 4,096 lines at 8,268 thousand a second. 4 MiB on each of six
    // CPUs are more than 12 MiB.
    assert_eq!(refills(&one), [Some(0.5), Some(4.0)]);
}
