// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error of a model on unseen points.

use serde::{Deserialize, Serialize};

use super::point::{Point, Statistic};
use super::series::Series;
use super::{Hierarchy, Method};
use crate::model::ordered::Ordered;
use crate::model::quantile::quantile;

/// Errors on points that a model has not seen, as shares of what was measured, or of 1 us where that is
/// less.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
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

/// The errors of each method on the mean of every point it can be tried on. The fitted model is tried on
/// each size between two others, without that size; the others have seen none.
pub(super) fn errors(
    series: &Series,
    caches: &[u64],
    hierarchy: Option<&Hierarchy>,
) -> Vec<Errors> {
    let tried: [(Method, Vec<Try>); 3] = [
        (Method::Fitted, interpolated(series, caches)),
        (Method::Survivors, computed(series, hierarchy, Method::Survivors)),
        (Method::WorstCase, computed(series, hierarchy, Method::WorstCase)),
    ];
    tried.iter().filter_map(|(method, tries)| summary(*method, tries)).collect()
}

/// The method with the least median error; the fitted one where nothing could be tried.
pub(super) fn best(errors: &[Errors]) -> Method {
    let least = errors.iter().min_by(|a, b| a.median.total_cmp(&b.median));
    least.map_or(Method::Fitted, |errors| errors.method)
}

/// An error, and whether the interval holds what was measured.
#[derive(Debug, Clone, Copy)]
struct Try {
    error: f64,
    inside: bool,
}

impl Try {
    fn new(predicted: super::Cost, seen: f64) -> Self {
        let low = predicted.low_us.unwrap_or(f64::NEG_INFINITY);
        let high = predicted.high_us.unwrap_or(f64::INFINITY);
        let error = (predicted.estimate_us - seen).abs() / seen.abs().max(1.0);
        Self { error, inside: (low..=high).contains(&seen) }
    }
}

fn mean(point: &Point) -> Option<f64> {
    Some(point.delay.get(&Statistic::Mean)?.estimate_us)
}

fn interpolated(series: &Series, caches: &[u64]) -> Vec<Try> {
    let sizes = series.sizes();
    let inner = sizes.get(1..sizes.len().saturating_sub(1)).unwrap_or_default();
    let mut tries = Vec::new();
    for &size in inner {
        let others = series.without(size);
        for point in series.points.iter().filter(|point| point.wss_bytes == size) {
            let predicted = others.read(Statistic::Mean, size, Some(point.length_us), caches);
            let pair = predicted.zip(mean(point));
            tries.extend(pair.map(|(predicted, seen)| Try::new(predicted.cost, seen)));
        }
    }
    tries
}

fn computed(series: &Series, hierarchy: Option<&Hierarchy>, method: Method) -> Vec<Try> {
    let of = |point: &Point| {
        let expected = hierarchy?.expected(&series.key, point.wss_bytes, point.length_us)?;
        let cost =
            if method == Method::WorstCase { expected.worst_case } else { expected.survivors };
        Some(Try::new(cost, mean(point)?))
    };
    series.points.iter().filter_map(of).collect()
}

fn summary(method: Method, tries: &[Try]) -> Option<Errors> {
    let errors = Ordered::new(&tries.iter().map(|it| it.error).collect::<Vec<_>>()).ok()?;
    Some(Errors {
        method,
        points: tries.len(),
        median: quantile(&errors, 0.5).ok()?,
        p90: quantile(&errors, 0.9).ok()?,
        inside: tries.iter().filter(|it| it.inside).count(),
    })
}
