// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back to working-set sizes: with what a machine's preemptions and migrations cost, up to which size is one
//! scheduler preferable to another?

use serde::Serialize;

use super::tally::ShareEstimate;
use super::{Crossover, Preferable, StudyCounts, StudyReading};
use corehop_plan::workload::Event;
use corehop_stats::costs::{Cost, EventCosts};

/// Up to which size a scheduler is preferable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "preferable")]
pub enum PreferenceRange {
    /// Below this size.
    Below {
        /// In KiB.
        wss_kib: f64,
    },
    /// At every size that is known, up to this one.
    Throughout {
        /// In KiB.
        up_to_kib: f64,
    },
    /// At none.
    Never,
    /// The costs are not known, or at no size within the delays of the study.
    Unknown,
}

/// The meaning of a crossover for working sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizes {
    /// The scheduler whose delay grows.
    pub of: String,
    /// The scheduler that is compared with it.
    pub against: String,
    /// The reach if the latter's delay is the one of the crossover, for every size.
    pub fixed: PreferenceRange,
    /// By the ends of the crossover's interval, and of those of the costs: the lower one with the upper ends of
    /// costs, the upper one with the lower ends.
    pub fixed_interval: [PreferenceRange; 2],
    /// The reach if each suffers the cost of its own events.
    pub each_its_own: PreferenceRange,
    /// By the ends of the costs and of W, each taken against the scheduler, and each for it.
    pub each_its_own_interval: [PreferenceRange; 2],
}

/// The number of sizes between two of the table.
const BETWEEN: usize = 64;

impl StudyCounts {
    /// The meaning of a reading's crossovers on a machine with these costs.
    pub fn sizes(&self, reading: usize, costs: &dyn EventCosts) -> Vec<Sizes> {
        let Some(about) = self.study.readings.get(reading) else { return Vec::new() };
        let crossings = self.crossings(reading);
        let pairs = about.crossovers.iter().zip(crossings);
        let of = |(crossover, crossing): (&Crossover, super::DelayCrossing)| {
            let suffers = |name: &str| -> Option<&[Event]> {
                let found = about.schedulers.iter().find(|it| it.name == name);
                found.map(|scheduler| scheduler.suffers.as_slice())
            };
            let (own, other) = (suffers(&crossover.of)?, suffers(&crossover.against)?);
            let sizes = looked_at(costs, own, other);
            let below = |most: f64, end: fn(Cost) -> Option<f64>| {
                reach(&sizes, |size| Some(end(size.own?)? < most))
            };
            let (fixed, fixed_interval) = match crossing.preferable {
                Preferable::Below { crossover_us, interval_us: [low, high] } => {
                    let interval = [below(low, |it| it.high_us), below(high, |it| it.low_us)];
                    (below(crossover_us, |it| Some(it.us)), interval)
                }
                Preferable::Throughout => (PreferenceRange::Unknown, [PreferenceRange::Unknown; 2]),
                Preferable::Never => (PreferenceRange::Never, [PreferenceRange::Never; 2]),
            };
            let own_costs = |side: UncertaintyBias| {
                reach(&sizes, |size| {
                    let [ours, theirs] = side.delays((size.own?, size.other?))?;
                    let w = |name: &str, delay| self.between(reading, about, name, delay);
                    let ours = side.ours(w(&crossover.of, ours)?);
                    Some(ours >= side.theirs(w(&crossover.against, theirs)?))
                })
            };
            let (of, against) = (crossing.of, crossing.against);
            let each_its_own = own_costs(UncertaintyBias::Neither);
            let each_its_own_interval =
                [own_costs(UncertaintyBias::Against), own_costs(UncertaintyBias::For)];
            Some(Sizes { of, against, fixed, fixed_interval, each_its_own, each_its_own_interval })
        };
        pairs.filter_map(of).collect()
    }

    /// W at any delay up to the largest of the study, by the straight line between two.
    fn between(
        &self,
        reading: usize,
        about: &StudyReading,
        scheduler: &str,
        delay: f64,
    ) -> Option<ShareEstimate> {
        let delay = delay.max(0.0);
        let at = about.delays.partition_point(|&other| other.as_f64() < delay);
        let right = *about.delays.get(at)?;
        let above = self.weighted_of(reading, scheduler, right)?;
        let Some(before) = at.checked_sub(1) else { return Some(above) };
        let left = about.delays[before];
        let below = self.weighted_of(reading, scheduler, left)?;
        let share = (delay - left.as_f64()) / (right - left).as_f64();
        let line = |a: f64, b: f64| a + (b - a) * share;
        Some(ShareEstimate {
            value: line(below.value, above.value),
            low: line(below.low, above.low),
            high: line(below.high, above.high),
        })
    }
}

/// For whom what is uncertain is taken.
#[derive(Debug, Clone, Copy)]
enum UncertaintyBias {
    Against,
    Neither,
    For,
}

impl UncertaintyBias {
    /// None where an end is not known.
    fn delays(self, (ours, theirs): (Cost, Cost)) -> Option<[f64; 2]> {
        Some(match self {
            Self::Against => [ours.high_us?, theirs.low_us?],
            Self::Neither => [ours.us, theirs.us],
            Self::For => [ours.low_us?, theirs.high_us?],
        })
    }
    fn ours(self, w: ShareEstimate) -> f64 {
        match self {
            Self::Against => w.low,
            Self::Neither => w.value,
            Self::For => w.high,
        }
    }
    fn theirs(self, w: ShareEstimate) -> f64 {
        match self {
            Self::Against => w.high,
            Self::Neither => w.value,
            Self::For => w.low,
        }
    }
}

/// A size, and what the events of two schedulers cost there.
struct Looked {
    wss_kib: f64,
    own: Option<Cost>,
    other: Option<Cost>,
}

/// The sizes that are looked at: those at which the first one's costs are known, and some in between.
fn looked_at(costs: &dyn EventCosts, own: &[Event], other: &[Event]) -> Vec<Looked> {
    let sizes = costs.sizes(own);
    let steps = sizes.windows(2).flat_map(|pair| {
        let (from, to) = (pair[0], pair[1]);
        (1..=BETWEEN).map(move |step| from + (to - from) * step as f64 / BETWEEN as f64)
    });
    let of = |wss_kib: f64| {
        let largest = |events: &[Event]| costs.largest(events, wss_kib).ok();
        Looked { wss_kib, own: largest(own), other: largest(other) }
    };
    sizes.first().copied().into_iter().chain(steps).map(of).collect()
}

/// Up to which size something holds that does so for small ones.
fn reach(sizes: &[Looked], holds: impl Fn(&Looked) -> Option<bool>) -> PreferenceRange {
    let mut last = None;
    for size in sizes {
        match (holds(size), last) {
            (Some(true), _) => last = Some(size.wss_kib),
            (Some(false), None) => return PreferenceRange::Never,
            (Some(false), Some(below)) => {
                return PreferenceRange::Below { wss_kib: f64::midpoint(below, size.wss_kib) };
            }
            (None, _) => break,
        }
    }
    last.map_or(PreferenceRange::Unknown, |up_to_kib| PreferenceRange::Throughout { up_to_kib })
}
