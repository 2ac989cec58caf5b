// SPDX-License-Identifier: MIT OR Apache-2.0
//! Series of cells that differ only in size and length, and the curve through their points.

use serde::{Deserialize, Serialize};

use super::monotone::{GridPosition, among, pools};
use super::point::{CostEstimate, DelayPoint, Statistic};
use crate::cell::{CellKey, fields};
use corehop_plan::platform::MemoryArchitecture;
use corehop_plan::workload::{Absence, Event, LineState, Mover, Page, Pattern};

/// The common properties of the cells of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesKey {
    /// The id of the platform on which the series was measured.
    pub machine: String,
    /// The way in which the machine's memory is attached to its packages.
    pub memory_architecture: MemoryArchitecture,
    /// The name of the experiment that measured the series.
    pub experiment: String,
    /// The background load under which the series was measured.
    pub load: String,
    /// The event that the cells of the series have.
    pub event: Event,
    /// The occupant of the CPU during the absence.
    pub preempted_by: Absence,
    /// The walk of the preemptor or of the polluters.
    pub polluter: Option<String>,
    /// The way in which the job moved to the other CPU.
    pub mover: Mover,
    /// The order in which the job accesses the lines of its working set.
    pub pattern: Pattern,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The number of independent chains of accesses.
    pub chains: u64,
    /// The kind of pages that the plan requested for the working set.
    pub page: Page,
    /// The requested NUMA node of the memory, or `None` if no node was requested.
    pub node: Option<u64>,
    /// Whether every job had fresh page frames.
    pub fresh_frames: bool,
    /// The state of the lines before the cold touch.
    pub cache_state: LineState,
    /// The user's own job, which replaces the pattern.
    pub workload: Option<String>,
    /// The measured class of the job's CPU and the load's CPU, for a job that stays beside a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair_class: Option<Event>,
}

impl SeriesKey {
    /// Returns the series to which a cell belongs.
    pub fn of(cell: &CellKey) -> Self {
        Self {
            machine: cell.machine.to_string(),
            memory_architecture: cell.memory_architecture,
            experiment: cell.experiment.to_string(),
            load: cell.load.to_string(),
            event: cell.event,
            preempted_by: cell.preempted_by,
            polluter: cell.polluter.as_ref().map(ToString::to_string),
            mover: cell.mover,
            pattern: cell.pattern,
            write_ratio: cell.write_ratio,
            chains: cell.chains,
            page: cell.page,
            node: cell.node,
            fresh_frames: cell.fresh_frames,
            cache_state: cell.cache_state,
            workload: cell.workload.as_ref().map(ToString::to_string),
            pair_class: cell.pair_class,
        }
    }

    /// Returns the series of a delay whose other properties are unknown; each field has its usual value.
    pub fn usual(event: Event, load: &str) -> Self {
        Self {
            machine: "given".to_owned(),
            memory_architecture: MemoryArchitecture::Uma,
            experiment: "synthetic".to_owned(),
            load: load.to_owned(),
            event,
            preempted_by: Absence::Preemptor,
            polluter: None,
            mover: Mover::Affinity,
            pattern: Pattern::Shuffled,
            write_ratio: 0.0,
            chains: 1,
            page: Page::Base,
            node: None,
            fresh_frames: false,
            cache_state: LineState::Valid,
            workload: None,
            pair_class: None,
        }
    }

    /// Returns the fields of the series by name, with each value as text; `none` for an absent value.
    pub fn fields(&self) -> Vec<(String, String)> {
        let mut all = fields(self);
        if self.pair_class.is_none() {
            // It is not stored where there is none.
            all.push(("pair_class".to_owned(), "none".to_owned()));
        }
        all
    }

    /// Returns the value of a field, or `None` if series do not have the field.
    pub fn field(&self, name: &str) -> Option<String> {
        self.fields().into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A series of points that were measured at several sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelaySeries {
    /// The common properties of the series' cells.
    pub key: SeriesKey,
    /// The points, ordered by size, then by length.
    pub points: Vec<DelayPoint>,
}

/// The origin of a value in a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueOrigin {
    /// The value belongs to a measured size.
    Measured,
    /// The size is between two measured sizes.
    Between {
        /// The smaller measured size, in bytes.
        below_bytes: u64,
        /// The larger measured size, in bytes.
        above_bytes: u64,
    },
    /// The size is below all measured sizes, so its cost is between zero and the cost of the smallest measured size.
    BelowAll {
        /// The smallest measured size, in bytes.
        smallest_bytes: u64,
    },
}

/// A value of a series at a size and a length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesValue {
    /// The cost: the measured value if size and length were measured, otherwise the value of the curve.
    pub cost: CostEstimate,
    /// The position among the measured sizes.
    pub place: ValueOrigin,
    /// The value of the curve at a measured size and length, if the curve pools the measured value with its neighbours.
    pub curve: Option<CostEstimate>,
    /// The number of samples at the size, or the smaller number at the two neighbouring sizes.
    pub n: usize,
    /// The number of replicates of the point's samples.
    pub replicates: Option<usize>,
    /// The measured length that is nearest to the requested length, in microseconds, if the requested length was not
    /// measured.
    pub nearest_length_us: Option<f64>,
}

impl DelaySeries {
    /// Returns the measured sizes in ascending order.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.points.iter().map(|point| point.wss_bytes).collect();
        sizes.dedup();
        sizes
    }

    /// Returns the series without the points of one size.
    pub(super) fn without(&self, wss_bytes: u64) -> Self {
        let others = self.points.iter().filter(|point| point.wss_bytes != wss_bytes);
        Self { key: self.key.clone(), points: others.cloned().collect() }
    }

    /// Returns a statistic at a size and a length; without a length, at the longest measured length. `caches` are the
    /// sizes of the caches, ascending; within one cache, a larger working set costs at least as much as a smaller one.
    ///
    /// Between two sizes within one cache, the true cost is between their costs. Between two sizes on different sides
    /// of a cache's size, the cost can rise with the lines that still fit into the cache, and then fall.
    ///
    /// Returns `None` for a size above the largest measured size, or if the points do not support the statistic.
    pub(super) fn read(
        &self,
        statistic: Statistic,
        wss_bytes: u64,
        length_us: Option<f64>,
        caches: &[u64],
    ) -> Option<SeriesValue> {
        let columns: Vec<CostColumn> = self
            .points
            .chunk_by(|a, b| a.wss_bytes == b.wss_bytes)
            .filter_map(|points| CostColumn::read(points, statistic, length_us))
            .collect();
        let columns = ordered_within_caches(&columns, caches);
        let sizes: Vec<f64> = columns.iter().map(|column| column.wss_bytes as f64).collect();
        let plain = |column: &CostColumn, cost, place| SeriesValue {
            cost,
            place,
            curve: None,
            n: column.n,
            replicates: column.replicates,
            nearest_length_us: column.nearest_length_us,
        };
        match among(&sizes, wss_bytes as f64) {
            GridPosition::Beyond => None,
            GridPosition::At(at) => {
                let column = &columns[at];
                let cost = column.measured.unwrap_or(column.cost);
                let curve = Some(column.cost).filter(|curve| *curve != cost);
                Some(SeriesValue { curve, ..plain(column, cost, ValueOrigin::Measured) })
            }
            GridPosition::Before => {
                let first = columns.first()?;
                let share = wss_bytes as f64 / first.wss_bytes as f64;
                let place = ValueOrigin::BelowAll { smallest_bytes: first.wss_bytes };
                Some(plain(first, first.cost.down_to_nothing(share), place))
            }
            GridPosition::Between(at, share) => {
                Some(between(&columns[at], &columns[at + 1], share, caches))
            }
        }
    }
}

/// A statistic at one size, for a fixed length.
#[derive(Debug, Clone, Copy)]
struct CostColumn {
    wss_bytes: u64,
    cost: CostEstimate,
    /// The measured value at the length, if there is one.
    measured: Option<CostEstimate>,
    n: usize,
    replicates: Option<usize>,
    nearest_length_us: Option<f64>,
}

impl CostColumn {
    fn read(points: &[DelayPoint], statistic: Statistic, length_us: Option<f64>) -> Option<Self> {
        let carrying: Vec<(&DelayPoint, CostEstimate)> = points
            .iter()
            .filter_map(|point| Some((point, *point.delay.get(&statistic)?)))
            .collect();
        let (last, _) = carrying.last()?;
        let weights: Vec<f64> = carrying.iter().map(|(point, _)| point.n as f64).collect();
        let costs: Vec<CostEstimate> = carrying.iter().map(|(_, cost)| *cost).collect();
        let costs = CostEstimate::non_decreasing(&costs, &weights);
        let lengths: Vec<f64> = carrying.iter().map(|(point, _)| point.length_us).collect();
        let length = length_us.unwrap_or(last.length_us);
        let (cost, around) = match among(&lengths, length) {
            GridPosition::At(at) => (costs[at], at..=at),
            GridPosition::Before => (costs[0], 0..=0),
            GridPosition::Beyond => (costs[costs.len() - 1], costs.len() - 1..=costs.len() - 1),
            GridPosition::Between(at, share) => {
                (costs[at].towards(costs[at + 1], share), at..=at + 1)
            }
        };
        let seen = carrying.iter().any(|(point, _)| point.saw(length));
        let spanned = carrying[0].0.least_length_us <= length && length <= last.most_length_us;
        let apart = |at: usize| (lengths[at] - length).abs();
        let nearest = (0..lengths.len()).min_by(|&a, &b| apart(a).total_cmp(&apart(b)))?;
        let measured = carrying[nearest].0.saw(length).then_some(carrying[nearest].1);
        let around = if measured.is_some() { nearest..=nearest } else { around };
        let around = &carrying[around];
        Some(Self {
            wss_bytes: points[0].wss_bytes,
            cost: if measured.is_some() { costs[nearest] } else { cost },
            measured,
            n: around.iter().map(|(point, _)| point.n).min().unwrap_or(0),
            replicates: around.iter().map(|(point, _)| point.replicates).min(),
            nearest_length_us: Some(lengths[nearest]).filter(|_| !seen && !spanned),
        })
    }
}

/// Makes the values within each cache non-decreasing.
fn ordered_within_caches(columns: &[CostColumn], caches: &[u64]) -> Vec<CostColumn> {
    let level = |column: &CostColumn| caches.partition_point(|&size| size < column.wss_bytes);
    let mut all = Vec::with_capacity(columns.len());
    for within in columns.chunk_by(|a, b| level(a) == level(b)) {
        // Beyond the last cache nothing fits anyway, and a cost may fall.
        if level(&within[0]) == caches.len() {
            all.extend_from_slice(within);
            continue;
        }
        let weights: Vec<f64> = within.iter().map(|column| column.n as f64).collect();
        let costs: Vec<CostEstimate> = within.iter().map(|column| column.cost).collect();
        let costs = CostEstimate::non_decreasing(&costs, &weights);
        all.extend(within.iter().zip(costs).map(|(column, cost)| CostColumn { cost, ..*column }));
    }
    all
}

fn between(below: &CostColumn, above: &CostColumn, share: f64, caches: &[u64]) -> SeriesValue {
    let (a, b) = (below.cost, above.cost);
    let line = a.towards(b, share);
    // A cost grows about as a power of the size, a little faster than the lines do.
    let power = |a: f64, b: f64| {
        let size = below.wss_bytes as f64 + share * (above.wss_bytes - below.wss_bytes) as f64;
        let log = (size / below.wss_bytes as f64).ln()
            / (above.wss_bytes as f64 / below.wss_bytes as f64).ln();
        a * (log * (b / a).ln()).exp()
    };
    let both = a.estimate_us > 0.0 && b.estimate_us > 0.0;
    let estimate_us = if both { power(a.estimate_us, b.estimate_us) } else { line.estimate_us };
    // The first cache that the smaller one fits and the larger one does not.
    let edge = caches.iter().find(|&&size| below.wss_bytes <= size && size < above.wss_bytes);
    let peak = edge.map_or(1.0, |&edge| edge as f64 / below.wss_bytes as f64);
    let least = |x: f64, y: f64| x.min(y);
    let most = |x: f64, y: f64| (x * if x > 0.0 { peak } else { 1.0 }).max(y);
    SeriesValue {
        cost: CostEstimate {
            low_us: a.low_us.zip(b.low_us).map(|(x, y)| least(x, y)),
            high_us: a.high_us.zip(b.high_us).map(|(x, y)| most(x, y)),
            estimate_us,
        },
        place: ValueOrigin::Between { below_bytes: below.wss_bytes, above_bytes: above.wss_bytes },
        curve: None,
        n: below.n.min(above.n),
        replicates: below.replicates.zip(above.replicates).map(|(a, b)| a.min(b)),
        nearest_length_us: below.nearest_length_us.or(above.nearest_length_us),
    }
}

impl CostEstimate {
    /// Makes costs non-decreasing: neighbours that violate the order are pooled, and the interval of a pooled value
    /// covers the intervals of all its cells. If the intervals of two costs are disjoint, the data contradict the
    /// order, and the cells keep their measured values.
    fn non_decreasing(costs: &[Self], weights: &[f64]) -> Vec<Self> {
        let estimates: Vec<f64> = costs.iter().map(|cost| cost.estimate_us).collect();
        let mut all = Vec::with_capacity(costs.len());
        for pool in pools(&estimates, weights) {
            let (members, weights) = (&costs[pool.clone()], &weights[pool]);
            match members {
                [one] => all.push(*one),
                several if Self::contradict(several) => all.extend_from_slice(several),
                several => {
                    all.extend(std::iter::repeat_n(Self::pooled(several, weights), several.len()));
                }
            }
        }
        all
    }

    /// Returns whether a cost is certainly below an earlier cost.
    fn contradict(costs: &[Self]) -> bool {
        let later = |at: usize| costs[at + 1..].iter().any(|it| it.surely_less(&costs[at]));
        (0..costs.len()).any(later)
    }

    /// Returns the weighted mean of the costs, with an interval that covers all their intervals.
    fn pooled(costs: &[Self], weights: &[f64]) -> Self {
        let sum: f64 = costs.iter().zip(weights).map(|(cost, by)| cost.estimate_us * by).sum();
        let end = |end: fn(&Self) -> Option<f64>, farther: fn(f64, f64) -> f64| {
            let ends: Option<Vec<f64>> = costs.iter().map(end).collect();
            ends.and_then(|ends| ends.into_iter().reduce(farther))
        };
        Self {
            estimate_us: sum / weights.iter().sum::<f64>(),
            low_us: end(|cost| cost.low_us, f64::min),
            high_us: end(|cost| cost.high_us, f64::max),
        }
    }

    /// Makes a point on the way to `other`: the estimate and both ends move by `share` of the distance.
    #[must_use]
    pub fn towards(self, other: Self, share: f64) -> Self {
        let line = |a: f64, b: f64| a + share * (b - a);
        let ends = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| line(a, b));
        Self {
            estimate_us: line(self.estimate_us, other.estimate_us),
            low_us: ends(self.low_us, other.low_us),
            high_us: ends(self.high_us, other.high_us),
        }
    }

    /// Makes a cost whose estimate is the share `share` of this cost, and whose interval reaches from zero to the whole
    /// cost.
    #[must_use]
    pub fn down_to_nothing(self, share: f64) -> Self {
        Self {
            estimate_us: self.estimate_us * share,
            low_us: self.low_us.map(|low| low.min(0.0)),
            high_us: self.high_us,
        }
    }
}
