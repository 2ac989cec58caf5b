// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with tails of known distributions, and with data that have no tail.

use super::super::draw::{ReferenceLaw, ResampleSource};
use super::*;

fn sample(law: ReferenceLaw, n: usize, seed: u64) -> Vec<f64> {
    ResampleSource::new(seed).values(law, n)
}

#[test]
fn a_tail_of_a_known_law_is_found_with_its_shape_and_its_far_quantile() {
    for (law, shape) in [
        (ReferenceLaw::Exponential, 0.0),
        (ReferenceLaw::Pareto(0.2), 0.2),
        (ReferenceLaw::Pareto(-0.3), -0.3),
    ] {
        let tail = fit_tail(&sample(law, 4_000, 62), 1).unwrap();
        let step = tail.stability[0];
        assert!((tail.law.shape - shape).abs() < 3.0 * step.error, "{law:?} {:?}", tail.law);
        let (estimate, interval) = tail.quantile(0.9999, 0.05).unwrap();
        assert!(interval.low < estimate && estimate < interval.high);
        assert!(interval.contains(law.quantile(0.9999)), "{law:?} {interval:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_tail() {
    let values = sample(ReferenceLaw::LogNormal, 1_000, 67);
    assert_eq!(fit_tail(&values, 5), fit_tail(&values, 5));
}

#[test]
fn true_tails_are_seldom_refused() {
    let runs = 100;
    let refused: Vec<TailError> = (0..runs)
        .filter_map(|seed| {
            fit_tail(&sample(ReferenceLaw::Pareto(0.1), 600, 1_000 + seed), seed).err()
        })
        .collect();
    assert!(refused.len() <= 15, "{refused:?}");
}

#[test]
fn profile_intervals_of_a_far_quantile_cover() {
    for law in [ReferenceLaw::Exponential, ReferenceLaw::Pareto(0.2), ReferenceLaw::LogNormal] {
        let (mut hits, mut fitted) = (0, 0);
        for seed in 0..100 {
            let Ok(tail) = fit_tail(&sample(law, 1_000, 5_000 + seed), seed) else { continue };
            fitted += 1;
            let (_, interval) = tail.quantile(0.9995, 0.05).unwrap();
            hits += u32::from(interval.contains(law.quantile(0.9995)));
        }
        let covered = f64::from(hits) / f64::from(fitted);
        assert!(fitted > 70 && covered > 0.88, "{law:?}: {covered} of {fitted}");
    }
}

#[test]
fn empty_nan_and_too_few_are_refused() {
    assert_eq!(fit_tail(&[], 1), Err(TailError::BadInput(BadInput::Empty)));
    let broken = fit_tail(&[1.0, f64::NAN], 1).unwrap_err();
    assert!(matches!(broken, TailError::BadInput(BadInput::NotFinite { index: 1, .. })));
    assert_eq!(fit_tail(&[1.0], 1), Err(TailError::TooFew { n: 1, needed: 250 }));
    let short = sample(ReferenceLaw::Exponential, 249, 1);
    assert_eq!(fit_tail(&short, 1), Err(TailError::TooFew { n: 249, needed: 250 }));
}

#[test]
fn ties_are_refused_whether_in_the_bulk_or_at_the_top() {
    let dice = fit_tail(&sample(ReferenceLaw::Die, 2_000, 71), 1);
    assert!(matches!(dice, Err(TailError::Discrete { .. })), "{dice:?}");
    let equal = fit_tail(&[5.0; 600], 1);
    assert!(matches!(equal, Err(TailError::Discrete { distinct: 1, .. })), "{equal:?}");
    let clipped: Vec<f64> =
        sample(ReferenceLaw::Exponential, 2_000, 73).iter().map(|x| x.min(3.0)).collect();
    let clipped = fit_tail(&clipped, 1);
    assert!(matches!(clipped, Err(TailError::Discrete { .. })), "{clipped:?}");
}

#[test]
fn a_tail_without_variance_and_a_sharp_end_are_refused() {
    let heavy = fit_tail(&sample(ReferenceLaw::Pareto(1.0), 3_000, 79), 1);
    assert!(matches!(heavy, Err(TailError::HeavyTail { .. })), "{heavy:?}");
    let sharp = fit_tail(&sample(ReferenceLaw::Uniform, 3_000, 83), 1);
    assert!(matches!(sharp, Err(TailError::SharpEnd { .. })), "{sharp:?}");
}

#[test]
fn drift_clusters_and_related_excesses_are_refused() {
    let ramp: Vec<f64> = sample(ReferenceLaw::Exponential, 1_000, 89)
        .iter()
        .enumerate()
        .map(|(i, x)| x * (1.0 + i as f64 / 500.0))
        .collect();
    let drifting = fit_tail(&ramp, 1);
    assert!(matches!(drifting, Err(TailError::Drifting { .. })), "{drifting:?}");
    let series = ResampleSource::new(97).autoregression(0.8, 2_000);
    let clustered = fit_tail(&series, 1);
    assert!(
        matches!(
            clustered,
            Err(TailError::Clustered { .. }
                | TailError::Related { .. }
                | TailError::Drifting { .. })
        ),
        "{clustered:?}"
    );
}

#[test]
fn a_mixture_of_two_far_laws_is_refused() {
    let mut draw = ResampleSource::new(101);
    // One sample in thirty lies in a second, narrow clump: a class of its own, not a tail.
    let values: Vec<f64> = (0..3_000)
        .map(|_| {
            if draw.unit() < 0.033 {
                100.0 + draw.unit()
            } else {
                draw.value(ReferenceLaw::Exponential)
            }
        })
        .collect();
    let mixture = fit_tail(&values, 1);
    assert!(
        matches!(
            mixture,
            Err(TailError::PoorFit { .. }
                | TailError::Unstable { .. }
                | TailError::HeavyTail { .. })
        ),
        "{mixture:?}"
    );
}

#[test]
fn quantiles_outside_the_limits_are_refused_with_the_limit() {
    let tail = fit_tail(&sample(ReferenceLaw::Exponential, 1_000, 103), 1).unwrap();
    assert!(matches!(tail.quantile(0.5, 0.05), Err(OutOfReach::BelowThreshold { .. })));
    assert!(matches!(tail.quantile(0.999_99, 0.05), Err(OutOfReach::BeyondLimit { n: 1_000, .. })));
    assert!(tail.quantile(0.9999, 0.05).is_ok());
    assert!(matches!(tail.quantile(f64::NAN, 0.05), Err(OutOfReach::BadInput(_))));
    assert!(matches!(tail.quantile(0.999, 0.0), Err(OutOfReach::BadInput(_))));
}

#[test]
fn a_law_that_ends_says_where() {
    let tail = fit_tail(&sample(ReferenceLaw::Pareto(-0.3), 4_000, 107), 1).unwrap();
    let end = tail.end().unwrap();
    assert!((end - 1.0 / 0.3).abs() < 0.5, "{end}");
}
