// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of preemptions and migrations for a working-set size, as decisions use them.
//!
//! A decision uses a model only through [`EventCosts`]. [`CostTable`] interpolates linearly between the sizes of a
//! summary table, which is printed or made by `corehop report --table csv`. [`ModelCosts`] uses a fitted model, and
//! [`ProgramPrices`] uses events that corehop caused in a program. [`CostSource`] is a source of costs as a user names
//! it.

mod equivalent;
mod fitted;
mod host;
mod program;
mod ranked;
mod source;
mod table;

pub use equivalent::EquivalentSet;
pub use fitted::ModelCosts;
pub use host::{HostCosts, HostIdentity, NotHostCosts};
pub use program::ProgramPrices;
pub use ranked::Highest;
pub use ranked::{among, least};
pub use source::{CostSource, SelectError, Selected, Selection};
pub use table::{CostCurves, CostError, CostTable};

use corehop_plan::workload::Event;

/// A cost in microseconds, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Cost {
    /// The cost of one event in microseconds.
    pub us: f64,
    /// The lower end of the interval, or `None` without an interval.
    pub low_us: Option<f64>,
    /// The upper end of the interval, or `None` without an interval.
    pub high_us: Option<f64>,
}

/// The samples among which a largest cost was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// The number of samples at the size; between two measured sizes, the smaller number.
    pub samples: usize,
    /// The number of replicates of the samples, or `None` if replicates are not distinguished.
    pub replicates: Option<usize>,
    /// The number of measured classes of neighbouring CPUs that have samples.
    pub classes: usize,
}

impl Basis {
    /// Returns the smaller value of each field of two bases.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            samples: self.samples.min(other.samples),
            replicates: self.replicates.zip(other.replicates).map(|(a, b)| a.min(b)),
            classes: self.classes.min(other.classes),
        }
    }
}

/// The reason why a cost is unknown, as a clause such as "nothing is known of `l2_migration`".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCost(pub String);

/// The trait of sources of event costs.
pub trait EventCosts {
    /// Returns the cost of an event for a working set of `wss_kib` KiB.
    ///
    /// # Errors
    /// Returns [`NoCost`] if the cost is unknown.
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost>;

    /// Returns the costs of a preemption for a working set of `wss_kib` KiB, each with the size in KiB of the
    /// preemptor's walk, ascending.
    ///
    /// # Errors
    /// Returns [`NoCost`] unless preemptors of several sizes were measured.
    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let what = "the costs cover preemptors of only one size";
        Err(NoCost(format!("costs at {wss_kib} KiB: {what}")))
    }

    /// Returns the costs for several quantiles, each with its name, the highest quantile first; empty if the source has
    /// only one statistic.
    fn quantiles(&self) -> Vec<(&str, &dyn EventCosts)> {
        Vec::new()
    }

    /// Returns whether the cost of an event at this size was measured with too few samples for the statistic.
    fn too_few(&self, _: Event, _: f64) -> bool {
        false
    }

    /// Returns the samples behind an event's cost at this size, if known.
    fn basis(&self, _: Event, _: f64) -> Option<Basis> {
        None
    }

    /// Returns whether the costs hold for one working set only, whatever size is requested.
    fn is_of_one_set(&self) -> bool {
        false
    }

    /// Returns whether an event of this class can happen on the machine. If this is unknown, the answer is true, except
    /// for migrations to an SMT sibling, which most machines lack.
    fn happens(&self, event: Event) -> bool;

    /// Returns the sizes in KiB for which the source has measurements of this event.
    fn measured(&self, event: Event) -> Vec<f64>;

    /// Returns the shortest measured preemption length before `event`, in microseconds, or `None` if lengths are
    /// unknown.
    fn shortest_us(&self, event: Event) -> Option<f64> {
        let _ = event;
        None
    }

    /// Returns the largest cost of several events, which bounds the delay of a job that can suffer any of them. Events
    /// that cannot happen on the machine are left out.
    ///
    /// # Errors
    /// Returns [`NoCost`] if the cost of an event is unknown.
    fn largest(&self, events: &[Event], wss_kib: f64) -> Result<Cost, NoCost> {
        let there = events.iter().filter(|&&event| self.happens(event));
        let costs = there.map(|&event| self.cost(event, wss_kib));
        let larger = |a: Cost, b: Cost| Cost {
            us: a.us.max(b.us),
            low_us: a.low_us.zip(b.low_us).map(|(a, b)| a.max(b)),
            high_us: a.high_us.zip(b.high_us).map(|(a, b)| a.max(b)),
        };
        let costs: Vec<Cost> = costs.collect::<Result<_, _>>()?;
        let nothing = || NoCost("none of its events can happen on the machine".to_owned());
        costs.into_iter().reduce(larger).ok_or_else(nothing)
    }

    /// Returns the sizes in KiB for which all events have a cost, ascending.
    fn sizes(&self, events: &[Event]) -> Vec<f64> {
        let measured = events.iter().flat_map(|&event| self.measured(event));
        let mut sizes: Vec<f64> =
            measured.filter(|&wss| self.largest(events, wss).is_ok()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup_by_key(|wss| wss.to_bits());
        sizes
    }
}
