// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of preemptions and migrations at a working-set size, for decisions.
//!
//! [`EventCosts`] is all that a decision asks of a model. [`CostTable`] answers from a summary table, printed or
//! made by `corehop report --table csv`, by straight lines between its sizes; [`ModelCosts`] from a fitted
//! model, [`ProgramPrices`] from events that were caused in a program. [`CostSource`] is one of these, as a user names it.

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
    /// The cost.
    pub us: f64,
    /// The lower end of its interval, where it has one.
    pub low_us: Option<f64>,
    /// The upper end, where it has one.
    pub high_us: Option<f64>,
}

/// The cells among which a largest cost was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basis {
    /// Samples at the size, or the fewer of those at the sizes around it.
    pub samples: usize,
    /// Their replicates, where these were told apart.
    pub replicates: Option<usize>,
    /// The measured classes of the CPU's neighbours in which there were some.
    pub classes: usize,
}

impl Basis {
    /// The less of each of two.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            samples: self.samples.min(other.samples),
            replicates: self.replicates.zip(other.replicates).map(|(a, b)| a.min(b)),
            classes: self.classes.min(other.classes),
        }
    }
}

/// Why a cost is not known, as a clause: "nothing is known of `l2_migration`".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCost(pub String);

/// A source of event costs.
pub trait EventCosts {
    /// The cost of an event for a working set of this size.
    ///
    /// # Errors
    /// [`NoCost`] where that is not known.
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost>;

    /// The cost of a preemption to a working set of this size, by the size in KiB of the preemptor's walk,
    /// ascending.
    ///
    /// # Errors
    /// [`NoCost`] where preemptors of several sizes were not measured.
    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let what = "the costs cover preemptors of only one size";
        Err(NoCost(format!("costs at {wss_kib} KiB: {what}")))
    }

    /// The same costs by quantiles, the highest first, each with its name; none if these costs are of one statistic.
    fn quantiles(&self) -> Vec<(&str, &dyn EventCosts)> {
        Vec::new()
    }

    /// Whether the cost of an event at this size was measured, but with too few samples for the statistic.
    fn too_few(&self, _: Event, _: f64) -> bool {
        false
    }

    /// The basis of an event's cost at this size, where known.
    fn basis(&self, _: Event, _: f64) -> Option<Basis> {
        None
    }

    /// Whether the costs are those of one working set, whatever its size.
    fn is_of_one_set(&self) -> bool {
        false
    }

    /// Whether such events can happen on the machine. Where that is not known they can, but for migrations to
    /// an SMT sibling, which most machines lack.
    fn happens(&self, event: Event) -> bool;

    /// The sizes in KiB at which something was measured of this event.
    fn measured(&self, event: Event) -> Vec<f64>;

    /// The shortest measured preemption length before `event`, in microseconds; None if lengths are unknown.
    fn shortest_us(&self, event: Event) -> Option<f64> {
        let _ = event;
        None
    }

    /// The largest cost of several events: what bounds the delay of a job that may suffer any. Those that
    /// cannot happen are left out.
    ///
    /// # Errors
    /// [`NoCost`] where one is not known.
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

    /// The sizes in KiB for which all of these events have a cost, ascending.
    fn sizes(&self, events: &[Event]) -> Vec<f64> {
        let measured = events.iter().flat_map(|&event| self.measured(event));
        let mut sizes: Vec<f64> =
            measured.filter(|&wss| self.largest(events, wss).is_ok()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup_by_key(|wss| wss.to_bits());
        sizes
    }
}
