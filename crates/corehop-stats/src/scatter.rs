// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples as points of delay against preemption length, reduced to a number that a page can show.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cell::CellKey;
use super::estimator::Estimator;
use corehop_plan::samples::Sample;

/// The largest number of points on a page, for all cells together.
const MOST: usize = 20_000;
/// The number of points of a cell that are always kept.
const LEAST: usize = 50;

/// The points that the samples of one cell make in a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cloud {
    /// The cell to which the points belong.
    pub cell: CellKey,
    /// The number of valid samples in the cell.
    pub n_valid: usize,
    /// The points of valid samples: actual preemption length in milliseconds, delay in
    /// microseconds.
    pub valid: Vec<[f64; 2]>,
    /// The number of disturbed samples in the cell.
    pub n_disturbed: usize,
    /// The points of disturbed samples: actual preemption length in milliseconds, delay in
    /// microseconds.
    pub disturbed: Vec<[f64; 2]>,
}

/// Sorts samples with an absence into clouds while they stream in.
#[derive(Debug, Clone)]
pub struct Scatter {
    estimator: Estimator,
    clouds: BTreeMap<CellKey, [Vec<[f64; 2]>; 2]>,
}

impl Scatter {
    /// Makes an empty collection whose delays are computed by `estimator`.
    pub fn new(estimator: Estimator) -> Self {
        Self { estimator, clouds: BTreeMap::new() }
    }

    /// Adds samples to the clouds of points.
    pub fn take(&mut self, samples: &[Sample]) {
        for sample in samples.iter().filter(|sample| sample.requested_length_ns > 0) {
            let Some(delay) = self.estimator.delay_ns(sample) else { continue };
            let point = [sample.length_ns / 1e6, delay / 1e3];
            if point.into_iter().all(f64::is_finite) {
                let clouds = self.clouds.entry(CellKey::of(sample)).or_default();
                clouds[usize::from(!sample.valid)].push(point);
            }
        }
    }

    /// Returns the clouds, each thinned evenly; the highest point of a cloud is always kept.
    pub fn finish(&self) -> Vec<Cloud> {
        let each = (MOST / (2 * self.clouds.len()).max(1)).max(LEAST);
        let cloud = |(cell, [valid, disturbed]): (&CellKey, &[Vec<[f64; 2]>; 2])| Cloud {
            cell: cell.clone(),
            n_valid: valid.len(),
            valid: thinned(valid, each),
            n_disturbed: disturbed.len(),
            disturbed: thinned(disturbed, each),
        };
        self.clouds.iter().map(cloud).collect()
    }
}

/// Returns every k-th point, so that at most `most` points remain, and the highest point.
fn thinned(points: &[[f64; 2]], most: usize) -> Vec<[f64; 2]> {
    if points.len() <= most {
        return points.to_vec();
    }
    let step = points.len().div_ceil(most - 1);
    let mut kept: Vec<[f64; 2]> = points.iter().copied().step_by(step).collect();
    kept.extend(points.iter().copied().max_by(|a, b| a[1].total_cmp(&b[1])));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::sample;

    #[test]
    fn a_large_cloud_is_thinned_evenly_and_keeps_its_highest_point() {
        let at = |n: u32| Sample { resumed_ns: 1e3 * f64::from(n), ..sample() };
        let mut samples: Vec<Sample> = (1..=30_000).map(|n| at(n % 100)).collect();
        samples[12_345] = at(5_000);
        let mut scatter = Scatter::new(Estimator::Difference);
        scatter.take(&samples);
        let [cloud] = scatter.finish().try_into().unwrap();
        assert_eq!(cloud.n_valid, 30_000);
        assert!((5_000..=10_000).contains(&cloud.valid.len()), "{}", cloud.valid.len());
        assert!(cloud.valid.iter().any(|point| point[1] > 4_900.0));
    }

    #[test]
    fn disturbed_samples_are_kept_apart_and_those_without_an_absence_are_no_points() {
        let mut scatter = Scatter::new(Estimator::Difference);
        let lost = Sample { valid: false, ..sample() };
        scatter.take(&[sample(), lost, Sample { requested_length_ns: 0, ..sample() }]);
        let [cloud] = scatter.finish().try_into().unwrap();
        assert_eq!((cloud.valid, cloud.disturbed), (vec![[4.05, 2.0]], vec![[4.05, 2.0]]));
    }
}
