// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error of a model on unseen points.

use serde::{Deserialize, Serialize};

use super::point::{CostEstimate, DelayPoint, Statistic};
use super::series::DelaySeries;
use super::{AnalyticHierarchy, Method};
use crate::ordered::Ordered;
use crate::quantile::quantile;

/// Errors on points that a model has not seen, as shares of what was measured, or of 1 us where that is
/// less.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldoutErrors {
    /// By which method the points were predicted.
    pub method: Method,
    /// The number of points.
    pub points: usize,
    /// The median error.
    pub median: f64,
    /// Nine in ten errors are at most so large.
    pub p90: f64,
    /// The number of measured means in the predicted interval.
    pub inside: usize,
}

impl HoldoutErrors {
    /// The values around a computed one that are as far off as nine in ten of its errors on unseen points were. An end
    /// that these errors do not bound is None.
    pub fn widened(&self, cost: CostEstimate) -> CostEstimate {
        let low = cost.low_us.unwrap_or(cost.estimate_us).min(cost.estimate_us);
        let high = cost.high_us.unwrap_or(cost.estimate_us).max(cost.estimate_us);
        CostEstimate {
            estimate_us: cost.estimate_us,
            low_us: Some(reach(low, self.p90).0),
            high_us: reach(high, self.p90).1,
        }
    }
}

/// The least and the greatest value of which `predicted` is off by at most a share of `error`, or of 1 us where the
/// value is less.
fn reach(predicted: f64, error: f64) -> (f64, Option<f64>) {
    let low = (predicted / (1.0 + error)).min(predicted - error);
    let high = (error < 1.0).then(|| (predicted / (1.0 - error)).max(predicted + error));
    (low, high)
}

/// The errors of each method on the mean of every point it can be tried on, and the method that answers between
/// measured sizes. The fitted model is tried on each size between two others, without that size; the others have seen none.
pub(super) fn errors(
    series: &DelaySeries,
    caches: &[u64],
    hierarchy: Option<&AnalyticHierarchy>,
) -> (Vec<HoldoutErrors>, Method) {
    let mut tried: [(Method, Vec<Try>); 3] = [
        (Method::Fitted, interpolated(series, caches)),
        (Method::Survivors, computed(series, hierarchy, Method::Survivors)),
        (Method::WorstCase, computed(series, hierarchy, Method::WorstCase)),
    ];
    for (_, tries) in &mut tried[1..] {
        widen(tries);
    }
    let errors = tried.iter().filter_map(|(method, tries)| summary(*method, tries)).collect();
    (errors, best(&tried))
}

/// The computed method that does better than the fitted one on the same points: with a smaller error in the median and in
/// nine of ten, and with no fewer points in its interval. The fitted one, where no method does.
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
            && it.inside >= known.inside
    };
    let better = computed.iter().filter_map(on_the_same).filter(better);
    better.min_by(|a, b| a.p90.total_cmp(&b.p90)).map_or(Method::Fitted, |it| it.method)
}

/// A prediction of a point that the method has not seen.
#[derive(Debug, Clone, Copy)]
struct Try {
    /// The place of the point in the series.
    at: usize,
    seen: f64,
    predicted: CostEstimate,
    /// Whether the interval holds what was measured.
    inside: bool,
}

impl Try {
    fn new(at: usize, predicted: CostEstimate, seen: f64) -> Self {
        Self { at, seen, predicted, inside: holds(predicted, seen) }
    }

    /// The error, as a share of what was measured.
    fn error(&self) -> f64 {
        (self.predicted.estimate_us - self.seen).abs() / self.seen.abs().max(1.0)
    }
}

fn holds(cost: CostEstimate, seen: f64) -> bool {
    let low = cost.low_us.unwrap_or(f64::NEG_INFINITY);
    let high = cost.high_us.unwrap_or(f64::INFINITY);
    (low..=high).contains(&seen)
}

/// Judges each computed value by the interval that the errors on the other points give it.
fn widen(tries: &mut [Try]) {
    let inside: Vec<bool> = (0..tries.len())
        .map(|at| {
            let others: Vec<Try> = tries
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|it| *it.1)
                .collect();
            let Some(errors) = summary(Method::Survivors, &others) else { return tries[at].inside };
            holds(errors.widened(tries[at].predicted), tries[at].seen)
        })
        .collect();
    for (it, inside) in tries.iter_mut().zip(inside) {
        it.inside = inside;
    }
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
            tries.extend(pair.map(|(predicted, seen)| Try::new(at, predicted.cost, seen)));
        }
    }
    tries
}

fn computed(
    series: &DelaySeries,
    hierarchy: Option<&AnalyticHierarchy>,
    method: Method,
) -> Vec<Try> {
    let of = |(at, point): (usize, &DelayPoint)| {
        let expected = hierarchy?.expected(&series.key, point.wss_bytes, point.length_us)?;
        let cost =
            if method == Method::WorstCase { expected.worst_case } else { expected.survivors };
        Some(Try::new(at, cost, mean(point)?))
    };
    series.points.iter().enumerate().filter_map(of).collect()
}

fn summary(method: Method, tries: &[Try]) -> Option<HoldoutErrors> {
    let errors = Ordered::new(&tries.iter().map(Try::error).collect::<Vec<_>>()).ok()?;
    Some(HoldoutErrors {
        method,
        points: tries.len(),
        median: quantile(&errors, 0.5).ok()?,
        p90: quantile(&errors, 0.9).ok()?,
        inside: tries.iter().filter(|it| it.inside).count(),
    })
}
