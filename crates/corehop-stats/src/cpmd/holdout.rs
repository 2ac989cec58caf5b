// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of a model on points to which it was not fitted.

use serde::{Deserialize, Serialize};

use super::analytic::ComputedCost;
use super::point::{CostEstimate, DelayPoint, Statistic};
use super::series::DelaySeries;
use super::{AnalyticHierarchy, Method};
use crate::ordered::Ordered;
use crate::quantile::quantile;

/// The errors of a method on unseen points, as shares of the measured value, or of 1 us if the measured value is
/// smaller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutErrors {
    /// The method that predicted the points.
    pub method: Method,
    /// The number of points that were predicted from the other points.
    pub points: usize,
    /// The median of the prediction errors.
    pub median: f64,
    /// The error that nine in ten errors do not exceed.
    pub p90: f64,
    /// The number of measured means inside the predicted interval, or `None` for a computed method, which has no
    /// interval. The interval of a computed value comes from the method's errors on all other points.
    #[serde(default)]
    pub inside: Option<usize>,
    /// The error that a further similar point exceeds in at most one of ten cases: the error of rank 0.9 (n + 1) among
    /// n errors. The field is `None` for the fitted method, which has its own interval, and below [`FEWEST`] points.
    #[serde(default)]
    pub reach: Option<f64>,
}

/// The smallest number of points that gives computed values an interval: if one of ten points is left out, nine errors
/// remain, and at most one in ten further errors exceeds the largest of nine errors.
pub const FEWEST: usize = 10;

impl HoldoutErrors {
    /// Returns a computed cost with the interval that the errors on measured points give; without an interval if there
    /// are too few points. An end that the errors do not bound is None.
    pub fn widened(&self, cost: ComputedCost) -> CostEstimate {
        self.reach.map_or_else(|| cost.estimate(), |error| off_by(cost, error))
    }
}

/// Returns the interval around a computed cost whose relative error is at most `error`.
fn off_by(cost: ComputedCost, error: f64) -> CostEstimate {
    let (low_us, high_us) = (Some(reach(cost.least_us, error).0), reach(cost.most_us, error).1);
    CostEstimate { low_us, high_us, ..cost.estimate() }
}

/// Returns the error that at most one in ten further errors exceeds (Vovk, Gammerman and Shafer, Algorithmic Learning
/// in a Random World, 2005, section 2.2), or `None` if there are too few errors.
fn nine_in_ten(errors: &[f64]) -> Option<f64> {
    let rank = (9 * (errors.len() + 1)).div_ceil(10);
    Ordered::new(errors).ok()?.rank(rank)
}

/// Returns the smallest and the largest true value for which the error of `predicted` is at most `error`, as a share of
/// the value or of 1 us if the value is smaller.
fn reach(predicted: f64, error: f64) -> (f64, Option<f64>) {
    let low = (predicted / (1.0 + error)).min(predicted - error);
    let high = (error < 1.0).then(|| (predicted / (1.0 - error)).max(predicted + error));
    (low, high)
}

/// Returns the errors of each method on the means of all points that it can predict, and the method that predicts
/// between measured sizes. The fitted model predicts each size between two other sizes after a fit without that size;
/// the computed methods are not fitted to any point.
pub(super) fn errors(
    series: &DelaySeries,
    caches: &[u64],
    hierarchy: Option<&AnalyticHierarchy>,
) -> (Vec<HoldoutErrors>, Method) {
    let tried: [(Method, Vec<Try>); 3] = [
        (Method::Fitted, interpolated(series, caches)),
        (Method::Survivors, computed(series, hierarchy, Method::Survivors)),
        (Method::WorstCase, computed(series, hierarchy, Method::WorstCase)),
    ];
    let errors = tried.iter().filter_map(|(method, tries)| summary(*method, tries)).collect();
    (errors, best(&tried))
}

/// Returns the computed method that is better than the fitted method on the same points: its errors are smaller in the
/// median and at the 90 % quantile, and its intervals cover at least as many points. Returns the fitted method if no
/// computed method is better.
fn best(tried: &[(Method, Vec<Try>); 3]) -> Method {
    let (fitted, computed) = (&tried[0], &tried[1..]);
    let on_the_same = |(method, tries): &(Method, Vec<Try>)| {
        let same = |it: &&Try| fitted.1.iter().any(|other| other.at == it.at);
        summary(*method, &tries.iter().filter(same).copied().collect::<Vec<_>>())
    };
    let Some(known) = summary(Method::Fitted, &fitted.1) else { return Method::Fitted };
    let better = |it: &HoldoutErrors| {
        it.points == known.points
            && it.median < known.median
            && it.p90 < known.p90
            && it.inside.is_some_and(|inside| Some(inside) >= known.inside)
    };
    let better = computed.iter().filter_map(on_the_same).filter(better);
    better.min_by(|a, b| a.p90.total_cmp(&b.p90)).map_or(Method::Fitted, |it| it.method)
}

/// A prediction of a point to which the method was not fitted.
#[derive(Debug, Clone, Copy)]
struct Try {
    /// The index of the point in the series.
    at: usize,
    /// The error as a share of the measured value.
    error: f64,
    /// Whether the interval contains the measured value, or `None` without an interval.
    inside: Option<bool>,
}

/// Returns the error of a prediction, as a share of the measured value.
fn error(predicted: CostEstimate, seen: f64) -> f64 {
    (predicted.estimate_us - seen).abs() / seen.abs().max(1.0)
}

fn holds(cost: CostEstimate, seen: f64) -> bool {
    let low = cost.low_us.unwrap_or(f64::NEG_INFINITY);
    let high = cost.high_us.unwrap_or(f64::INFINITY);
    (low..=high).contains(&seen)
}

fn mean(point: &DelayPoint) -> Option<f64> {
    Some(point.delay.get(&Statistic::Mean)?.estimate_us)
}

fn interpolated(series: &DelaySeries, caches: &[u64]) -> Vec<Try> {
    let sizes = series.sizes();
    let inner = sizes.get(1..sizes.len().saturating_sub(1)).unwrap_or_default();
    let mut tries = Vec::new();
    for &size in inner {
        let others = series.without(size);
        let of_size = series.points.iter().enumerate().filter(|(_, it)| it.wss_bytes == size);
        for (at, point) in of_size {
            let predicted = others.read(Statistic::Mean, size, Some(point.length_us), caches);
            let pair = predicted.zip(mean(point));
            tries.extend(pair.map(|(predicted, seen)| Try {
                at,
                error: error(predicted.cost, seen),
                inside: Some(holds(predicted.cost, seen)),
            }));
        }
    }
    tries
}

/// Returns the errors of a computed method; each value is judged by the interval that the errors on the other points
/// give.
fn computed(
    series: &DelaySeries,
    hierarchy: Option<&AnalyticHierarchy>,
    method: Method,
) -> Vec<Try> {
    let of = |(at, point): (usize, &DelayPoint)| {
        let expected = hierarchy?.expected(&series.key, point.wss_bytes, point.length_us)?;
        let cost =
            if method == Method::WorstCase { expected.worst_case } else { expected.survivors };
        Some((at, cost, mean(point)?))
    };
    let all: Vec<(usize, ComputedCost, f64)> =
        series.points.iter().enumerate().filter_map(of).collect();
    let errors: Vec<f64> =
        all.iter().map(|&(_, cost, seen)| error(cost.estimate(), seen)).collect();
    let judged = |(place, &(at, cost, seen)): (usize, &(usize, ComputedCost, f64))| {
        let others = [&errors[..place], &errors[place + 1..]].concat();
        let inside = nine_in_ten(&others).map(|error| holds(off_by(cost, error), seen));
        Try { at, error: errors[place], inside }
    };
    all.iter().enumerate().map(judged).collect()
}

fn summary(method: Method, tries: &[Try]) -> Option<HoldoutErrors> {
    let errors: Vec<f64> = tries.iter().map(|it| it.error).collect();
    let sorted = Ordered::new(&errors).ok()?;
    let inside: Option<Vec<bool>> = tries.iter().map(|it| it.inside).collect();
    let enough = method != Method::Fitted && tries.len() >= FEWEST;
    Some(HoldoutErrors {
        method,
        points: tries.len(),
        median: quantile(&sorted, 0.5).ok()?,
        p90: quantile(&sorted, 0.9).ok()?,
        inside: inside.map(|inside| inside.into_iter().filter(|&it| it).count()),
        reach: nine_in_ten(&errors).filter(|_| enough),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_errors_are_the_fewest_of_which_the_largest_bounds_a_tenth() {
        let errors: Vec<f64> = (1..=20).map(f64::from).collect();
        for (n, rank) in [(0, None), (8, None), (9, Some(9.0)), (10, Some(10.0)), (19, Some(18.0))]
        {
            assert_eq!(nine_in_ten(&errors[..n]), rank, "{n}");
        }
    }

    fn tries(errors: &[f64], inside: Option<bool>) -> Vec<Try> {
        let of = |(at, &error): (usize, &f64)| Try { at, error, inside };
        errors.iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_computed_cost_has_an_interval_from_ten_points_on_and_no_end_that_is_not_bounded() {
        let cost = ComputedCost { least_us: 90.0, most_us: 110.0 };
        let errors: Vec<f64> = (1..=10).map(|k| f64::from(k) / 20.0).collect();
        let of = |errors: &[f64]| summary(Method::Survivors, &tries(errors, Some(true))).unwrap();
        let few = of(&errors[..9]);
        assert_eq!((few.reach, few.widened(cost)), (None, cost.estimate()));
        assert_eq!((cost.estimate().low_us, cost.estimate().high_us), (None, None));
        // Off by a half: 60 us would be computed as 90, and 220 us as 110.
        let widened = of(&errors).widened(cost);
        assert_eq!((widened.low_us, widened.high_us), (Some(60.0), Some(220.0)));
        assert!((widened.estimate_us - 100.0).abs() < 1e-9);
        let far: Vec<f64> = errors.iter().map(|error| 10.0 * error).collect();
        assert_eq!(of(&far).widened(cost).high_us, None);
        // The curve has an interval of its own.
        assert_eq!(summary(Method::Fitted, &tries(&errors, Some(true))).unwrap().reach, None);
    }

    #[test]
    fn a_method_without_an_interval_does_not_answer_however_small_its_errors() {
        let of = |inside| {
            let fitted = (Method::Fitted, tries(&[0.5; 4], Some(true)));
            let worst = (Method::WorstCase, tries(&[0.9; 4], Some(true)));
            best(&[fitted, (Method::Survivors, tries(&[0.01; 4], inside)), worst])
        };
        assert_eq!(of(None), Method::Fitted);
        assert_eq!(of(Some(true)), Method::Survivors);
        assert_eq!(of(Some(false)), Method::Fitted);
    }
}
