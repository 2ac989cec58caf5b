// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts crossovers to working set sizes: with a machine's costs of preemptions and migrations, up to which size
//! is one scheduler preferable to another?

use serde::Serialize;

use super::tally::ShareEstimate;
use super::{Crossover, Preferable, StudyCounts, StudyReading};
use corehop_plan::workload::Event;
use corehop_stats::costs::{Cost, EventCosts};

/// The working set sizes up to which a scheduler is preferable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "preferable")]
pub enum PreferenceRange {
    /// The scheduler is preferable below this size.
    Below {
        /// The size in KiB.
        wss_kib: f64,
    },
    /// The scheduler is preferable at every known size, up to this size.
    Throughout {
        /// The size in KiB.
        up_to_kib: f64,
    },
    /// The scheduler is preferable at no size.
    Never,
    /// The costs are not known, or exceed the study's delays at every size.
    Unknown,
}

/// The meaning of a crossover for working set sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizes {
    /// The scheduler whose delay grows.
    pub of: String,
    /// The scheduler with the fixed delay.
    pub against: String,
    /// The preferable sizes if the scheduler `against` has the fixed delay of the crossover at every size.
    pub fixed: PreferenceRange,
    /// The preferable sizes for the ends of the crossover's interval: the lower end with the upper ends of costs, the
    /// upper end with the lower ends of costs.
    pub fixed_interval: [PreferenceRange; 2],
    /// The preferable sizes if each scheduler suffers the cost of its own events.
    pub each_its_own: PreferenceRange,
    /// The preferable sizes with the ends of the intervals of costs and of W: first with the ends against the scheduler
    /// `of`, then with the ends in its favour.
    pub each_its_own_interval: [PreferenceRange; 2],
}

/// The number of interpolated sizes between two sizes of the cost table.
const BETWEEN: usize = 64;

impl StudyCounts {
    /// Returns the working set sizes that a reading's crossovers mean on a machine with these costs.
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

    /// The weighted schedulability W at any delay up to the largest delay of the study, interpolated linearly.
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

/// The side that benefits from uncertain values.
#[derive(Debug, Clone, Copy)]
enum UncertaintyBias {
    Against,
    Neither,
    For,
}

impl UncertaintyBias {
    /// Returns the delays of both schedulers; `None` if an interval end is not known.
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

/// One working set size, with the costs of two schedulers' events at this size.
struct Looked {
    wss_kib: f64,
    own: Option<Cost>,
    other: Option<Cost>,
}

/// The examined sizes: the sizes with known costs for the first scheduler, and some sizes in between.
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

/// The size up to which `holds` is true, starting from small sizes.
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
