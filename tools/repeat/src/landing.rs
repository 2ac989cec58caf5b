// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether the next run lands in the interval of this one.
//!
//! Repeating a whole run tests its 95 % intervals. For two medians of equal precision, the second median is in the
//! 95 % interval of the first in 83 % of all pairs, and the two intervals overlap in more than 99 %: 1.96 against
//! 1.96·√2 standard errors, and twice 1.96 against that.

use std::collections::BTreeMap;

use serde::Serialize;

use corehop_stats::cell::CellKey;
use corehop_stats::quantile::Quantile;
use corehop_stats::summary::CellSummary;

/// The properties that group cells whose landings are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LandingGroup {
    /// The background load.
    pub load: String,
    /// The event, by its measured class.
    pub event: String,
    /// For cells under a load without a migration: the class of the CPU and of the other CPU.
    pub beside: Option<String>,
}

impl LandingGroup {
    fn of(cell: &CellKey) -> Self {
        Self {
            load: cell.load.to_string(),
            event: cell.event.to_string(),
            beside: cell.pair_class.map(|class| class.to_string()),
        }
    }
}

/// The number of times that runs land in each other's intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Landings {
    /// The number of medians compared with the interval of another run.
    pub medians: usize,
    /// The number of medians inside the other run's interval.
    pub inside: usize,
    /// The number of pairs of intervals.
    pub pairs: usize,
    /// The number of pairs of intervals that overlap.
    pub overlapping: usize,
    /// The number of cells for which at least one run of a pair has no interval.
    pub without_interval: usize,
}

impl Landings {
    /// Compares the medians of one cell in two runs, and counts the result.
    fn take(&mut self, one: &Quantile, other: &Quantile) {
        let (Some(first), Some(second)) = (one.interval(), other.interval()) else {
            self.without_interval += 1;
            return;
        };
        self.medians += 2;
        self.inside += usize::from(first.contains(other.estimate));
        self.inside += usize::from(second.contains(one.estimate));
        self.pairs += 1;
        self.overlapping += usize::from(first.low <= second.high && second.low <= first.high);
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Self) {
        self.medians += other.medians;
        self.inside += other.inside;
        self.pairs += other.pairs;
        self.overlapping += other.overlapping;
        self.without_interval += other.without_interval;
    }

    /// The share of medians inside, in percent; None where there is none.
    pub fn inside_percent(&self) -> Option<f64> {
        percent(self.inside, self.medians)
    }

    /// The share of overlapping intervals, in percent; None where there is none.
    pub fn overlap_percent(&self) -> Option<f64> {
        percent(self.overlapping, self.pairs)
    }
}

fn percent(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Counts the landings of every run in every other run, by group of cells. Cells that only one of two runs contains
/// are not counted.
pub fn landings(runs: &[Vec<CellSummary>]) -> BTreeMap<LandingGroup, Landings> {
    let mut kinds: BTreeMap<LandingGroup, Landings> = BTreeMap::new();
    for (at, one) in runs.iter().enumerate() {
        for other in &runs[at + 1..] {
            for summary in one {
                let same = other.iter().find(|it| it.cell == summary.cell);
                let delays = summary.delay.as_ref().zip(same.and_then(|it| it.delay.as_ref()));
                if let Some((one, other)) = delays {
                    let landings = kinds.entry(LandingGroup::of(&summary.cell)).or_default();
                    landings.take(one.median(), other.median());
                }
            }
        }
    }
    kinds
}

/// The shares that all cells of five runs together must reach, in percent. For two medians of equal precision, one
/// median is in the other's 95 % interval in 83 of 100 pairs.
const INSIDE: f64 = 83.0;
const OVERLAP: f64 = 99.0;
/// The tolerated shortfall for ten pairs of runs, in percentage points. All cells of a run share the same period,
/// so the pair is the statistical unit, and fewer pairs may fall short by more.
const SHORT: [f64; 2] = [5.0, 4.0];
const PAIRS: f64 = 10.0;

/// Whether `runs` runs land in each other's intervals as often as the intervals claim.
pub fn lands(all: &Landings, runs: usize) -> bool {
    let pairs = (runs * runs.saturating_sub(1) / 2).max(1) as f64;
    let room = (PAIRS / pairs).sqrt();
    let reaches = |percent: Option<f64>, least: f64| percent.is_some_and(|it| it >= least);
    reaches(all.inside_percent(), INSIDE - SHORT[0] * room)
        && reaches(all.overlap_percent(), OVERLAP - SHORT[1] * room)
}

/// Adds up the landings of all groups.
pub fn together(kinds: &BTreeMap<LandingGroup, Landings>) -> Landings {
    kinds.values().fold(Landings::default(), |mut sum, &it| {
        sum.add(it);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::Sample;
    use corehop_plan::samples::example::sample;
    use corehop_stats::estimator::Estimator;
    use corehop_stats::summary::summarize;

    /// A run of a cell whose twenty replicates lie within ± 1 of `us`, with five samples each.
    fn run(us: f64) -> Vec<CellSummary> {
        let samples: Vec<Sample> = (0..100_u32)
            .map(|at| {
                let place = f64::from(at % 20 * 7 % 20) / 10.0 - 0.95;
                let resumed_ns = 1e3 * (1.0 + us + place);
                Sample { resumed_ns, replicate: Some(u64::from(at % 20)), ..sample() }
            })
            .collect();
        summarize(&samples, Estimator::Difference)
    }

    #[test]
    fn a_run_lands_in_one_like_it_and_not_in_one_far_away() {
        let of = |runs: &[Vec<CellSummary>]| together(&landings(runs));
        let near = of(&[run(10.0), run(10.2)]);
        assert_eq!((near.medians, near.inside, near.pairs, near.overlapping), (2, 2, 1, 1));
        let far = of(&[run(10.0), run(10.1), run(20.0)]);
        assert_eq!((far.medians, far.inside, far.pairs, far.overlapping), (6, 2, 3, 1));
        assert_eq!(far.overlap_percent(), Some(100.0 / 3.0));
        assert!(lands(&near, 2) && !lands(&far, 3));
        assert!(!lands(&Landings::default(), 5), "nothing is not enough");
    }

    #[test]
    fn one_replicate_has_no_interval_and_that_is_counted_apart() {
        let one = summarize(&vec![sample(); 50], Estimator::Difference);
        let all = together(&landings(&[one.clone(), one]));
        assert_eq!((all.medians, all.pairs, all.without_interval), (0, 0, 1));
        assert_eq!(all.inside_percent(), None, "unknown is not zero");
    }
}
