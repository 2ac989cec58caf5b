// SPDX-License-Identifier: MIT OR Apache-2.0
//! The coverage of the intervals of simulated runs, for every cell of the preset `quick`.
//!
//! The simulated machine draws frames, orders and pairs of CPUs anew for each replicate, so the median over the
//! replicates of all runs together is the truth, to a part in some thousands. The intervals of the runs should
//! contain that truth as often as their confidence level claims.

use std::collections::BTreeMap;

use corehop_plan::experiment::{Experiment, Preset, SamplingGroup, Synthetic};
use corehop_plan::machine::{MachineError, samples_of};
use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_plan::workload::Load;
use corehop_sim::SimMachine;
use corehop_stats::cell::CellKey;
use corehop_stats::estimator::Estimator;
use corehop_stats::ordered::{Interval, Ordered};
use corehop_stats::quantile::median;
use corehop_stats::summary::summarize;

/// The number of replicates of a run.
const REPLICATES: u32 = 10;

/// The parameters of the simulated runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuickRuns {
    /// The number of runs.
    pub(crate) runs: u64,
    /// The number of samples of each replicate in every cell.
    pub(crate) samples: u32,
    /// The size of the largest working set to include.
    pub(crate) most: Bytes,
    /// Whether to include cells under a load.
    pub(crate) loaded: bool,
}

/// The coverage of a cell's intervals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IntervalCoverage {
    pub(crate) cell: CellKey,
    /// The median over the replicates of all runs, in microseconds.
    pub(crate) truth_us: f64,
    /// The number of runs whose interval contains the truth.
    pub(crate) held: u32,
    /// The number of runs with an interval.
    pub(crate) had: u32,
    /// Whether replicates differ at all; if none differ, the interval is a point and coverage has no meaning.
    pub(crate) differs: bool,
}

/// The results of runs for a cell.
#[derive(Default)]
struct CellRunResults {
    medians: Vec<f64>,
    intervals: Vec<Interval>,
}

/// Computes the coverage for every requested cell of `quick`.
pub(crate) fn coverage(
    platform: &Platform,
    asked: QuickRuns,
) -> Result<Vec<IntervalCoverage>, MachineError> {
    let quick = quick(platform, asked);
    let mut machine = SimMachine::new(platform.clone())?;
    let mut cells: BTreeMap<CellKey, CellRunResults> = BTreeMap::new();
    for seed in 0..asked.runs {
        let plan = quick.replicated(platform, 1_000 + seed, REPLICATES).expect("quick is possible");
        let samples = samples_of(&mut machine, &plan)?;
        for summary in summarize(&samples, Estimator::Difference) {
            let Some(delay) = &summary.delay else { continue };
            let of_cell = cells.entry(summary.cell.clone()).or_default();
            of_cell.intervals.extend(delay.median().interval());
        }
        let mut replicates: BTreeMap<(CellKey, Option<u64>), Vec<f64>> = BTreeMap::new();
        for (sample, delay) in Estimator::Difference.delays_us(&samples) {
            replicates.entry((CellKey::of(sample), sample.replicate)).or_default().push(delay);
        }
        for ((cell, _), delays) in replicates {
            cells.entry(cell).or_default().medians.push(middle(&delays));
        }
    }
    Ok(cells.into_iter().map(|(cell, runs)| covered(cell, &runs)).collect())
}

fn covered(cell: CellKey, runs: &CellRunResults) -> IntervalCoverage {
    let truth_us = middle(&runs.medians);
    let held = runs.intervals.iter().filter(|interval| interval.contains(truth_us)).count();
    let differs = runs.medians.iter().any(|it| (it - truth_us).abs() > 1e-9 * truth_us.abs());
    IntervalCoverage {
        cell,
        truth_us,
        held: held as u32,
        had: runs.intervals.len() as u32,
        differs,
    }
}

fn middle(values: &[f64]) -> f64 {
    Ordered::new(values).map_or(f64::NAN, |sorted| median(&sorted))
}

/// The preset with the requested number of samples and the requested cells only.
fn quick(platform: &Platform, asked: QuickRuns) -> Synthetic {
    let whole = Preset::Quick.synthetic(platform, None, None);
    let kept = |group: SamplingGroup| {
        let sets = group.sets.into_iter().filter(|set| set.wss <= asked.most).collect();
        SamplingGroup { sets, samples: asked.samples * REPLICATES, ..group }
    };
    let groups = whole.groups.into_iter().filter(|it| asked.loaded || it.load == Load::Idle);
    let groups = groups.map(kept).filter(|group| !group.sets.is_empty()).collect();
    Synthetic { groups, ..whole }
}
