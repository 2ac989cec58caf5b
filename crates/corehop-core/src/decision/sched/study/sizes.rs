// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back to working-set sizes: with what a machine's preemptions and migrations cost, up to which size is one
//! scheduler preferable to another?

use serde::Serialize;

use super::{Crossover, Outcome, Preferable, Reading};
use crate::decision::costs::{CostCurves, Costs};
use crate::workload::Event;

/// Up to which size a scheduler is preferable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "preferable")]
pub enum Reach {
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

/// What a crossover means for working sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizes {
    /// Whose delay grows.
    pub of: String,
    /// Who is compared with it.
    pub against: String,
    /// Where the latter's delay is the one of the crossover, whatever the size.
    pub fixed: Reach,
    /// By the ends of the crossover's interval.
    pub fixed_interval: [Reach; 2],
    /// Where each suffers what its own events cost.
    pub each_its_own: Reach,
}

/// How many sizes are looked at between two of the table.
const BETWEEN: usize = 64;

impl Outcome {
    /// What the crossovers of a reading mean on a machine with these costs.
    pub fn sizes(&self, reading: usize, costs: &CostCurves) -> Vec<Sizes> {
        let Some(about) = self.study.readings.get(reading) else { return Vec::new() };
        let crossings = self.crossings(reading);
        let pairs = about.crossovers.iter().zip(crossings);
        let of = |(crossover, crossing): (&Crossover, super::Crossing)| {
            let suffers = |name: &str| -> Option<&[Event]> {
                let found = about.schedulers.iter().find(|it| it.name == name);
                found.map(|scheduler| scheduler.suffers.as_slice())
            };
            let (own, other) = (suffers(&crossover.of)?, suffers(&crossover.against)?);
            let delays =
                |wss: f64| Some((costs.largest(own, wss)?.us, costs.largest(other, wss)?.us));
            let below =
                |most: f64| reach(costs, own, |wss| Some(costs.largest(own, wss)?.us < most));
            let (fixed, fixed_interval) = match crossing.preferable {
                Preferable::Below { crossover_us, interval_us } => {
                    (below(crossover_us), interval_us.map(below))
                }
                Preferable::Throughout => (Reach::Unknown, [Reach::Unknown; 2]),
                Preferable::Never => (Reach::Never, [Reach::Never; 2]),
            };
            let each_its_own = reach(costs, own, |wss| {
                let (d, other) = delays(wss)?;
                let w = |name: &str, delay| self.between(reading, about, name, delay);
                Some(w(&crossover.of, d)? >= w(&crossover.against, other)?)
            });
            let (of, against) = (crossing.of, crossing.against);
            Some(Sizes { of, against, fixed, fixed_interval, each_its_own })
        };
        pairs.filter_map(of).collect()
    }

    /// W at any delay up to the largest of the study, by the straight line between two.
    fn between(&self, reading: usize, about: &Reading, scheduler: &str, delay: f64) -> Option<f64> {
        let at = about.delays.partition_point(|&other| (other as f64) < delay);
        let right = *about.delays.get(at)?;
        let above = self.weighted_of(reading, scheduler, right)?.value;
        let Some(before) = at.checked_sub(1) else { return Some(above) };
        let left = about.delays[before];
        let below = self.weighted_of(reading, scheduler, left)?.value;
        Some(below + (above - below) * (delay - left as f64) / (right - left) as f64)
    }
}

/// Up to which size something holds that does so for small ones.
fn reach(costs: &CostCurves, events: &[Event], holds: impl Fn(f64) -> Option<bool>) -> Reach {
    let sizes = costs.sizes(events);
    let steps = sizes.windows(2).flat_map(|pair| {
        let (from, to) = (pair[0], pair[1]);
        (1..=BETWEEN).map(move |step| from + (to - from) * step as f64 / BETWEEN as f64)
    });
    let mut last = None;
    for wss in sizes.first().copied().into_iter().chain(steps) {
        match (holds(wss), last) {
            (Some(true), _) => last = Some(wss),
            (Some(false), None) => return Reach::Never,
            (Some(false), Some(below)) => {
                return Reach::Below { wss_kib: f64::midpoint(below, wss) };
            }
            (None, _) => break,
        }
    }
    last.map_or(Reach::Unknown, |up_to_kib| Reach::Throughout { up_to_kib })
}
