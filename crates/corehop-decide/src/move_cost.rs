// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of migrating a thread, fitted or assumed.

use serde::{Deserialize, Serialize};

use corehop_plan::words::words;
use corehop_plan::workload::Event;
use corehop_stats::costs::{Cost, EventCosts};

/// The assumed cost of a migration, in nanoseconds, equivalent to fetching some thousand cache lines from far away.
pub const ASSUMED_NS: f64 = 200_000.0;

words! {
    /// The way in which the cost of a migration is known.
    CostOrigin, "an origin of a cost" {
        /// The cost of the migration is not known, so corehop assumes 200 µs.
        Assumed = "assumed",
        /// The cost was fitted for the size of the thread's working set.
        Fitted = "fitted",
        /// The working set size is not known. The cost is the upper end at the largest measured size, which bounds
        /// the cost of smaller sizes.
        LargestMeasured = "largest_measured",
        /// The working set is larger than all measured sizes. The cost is that of the largest measured size, so the
        /// actual cost may be higher.
        AtLeast = "at_least",
    }
}

/// The cost of one migration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveCost {
    /// The cost, in nanoseconds.
    pub ns: f64,
    /// The way in which the cost is known.
    pub origin: CostOrigin,
}

/// The costs of migrations by class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MoveCosts {
    /// The cost of a migration between CPUs that share a cache.
    pub same_cache: MoveCost,
    /// The cost of a migration from one cache to another.
    pub across: MoveCost,
}

impl MoveCost {
    const ASSUMED: Self = Self { ns: ASSUMED_NS, origin: CostOrigin::Assumed };
}

impl MoveCosts {
    /// The assumed costs for a host without fitted costs.
    pub const ASSUMED: Self = Self { same_cache: MoveCost::ASSUMED, across: MoveCost::ASSUMED };

    /// Returns the cost on a host with `caches` last-level caches. If there are several caches, the target of a
    /// migration is not known yet, so the higher of both costs counts.
    pub fn on(self, caches: usize) -> MoveCost {
        if caches < 2 || self.across.ns < self.same_cache.ns {
            self.same_cache
        } else {
            self.across
        }
    }

    /// Returns the fitted costs for a working set of `wss_kib` KiB, or for an unknown size. The cost covers touching
    /// the working set on another CPU, but not the kernel's work for the migration itself. A class that was not
    /// measured has the assumed cost.
    pub fn of(costs: &dyn EventCosts, wss_kib: Option<f64>) -> Self {
        let of = |events: &[Event]| move_cost(costs, events, wss_kib).unwrap_or(MoveCost::ASSUMED);
        let across = of(&[Event::MemoryMigration]);
        Self { same_cache: of(&[Event::L2Migration, Event::L3Migration]), across }
    }
}

/// The cost of the most expensive of these events.
fn move_cost(costs: &dyn EventCosts, events: &[Event], wss_kib: Option<f64>) -> Option<MoveCost> {
    let known: Vec<Event> =
        events.iter().copied().filter(|&it| !costs.measured(it).is_empty()).collect();
    let largest = *costs.sizes(&known).last()?;
    let at = |wss| costs.largest(&known, wss).ok();
    // A delay below zero is noise.
    let ns = |us: f64| (us * 1e3).max(0.0);
    let upper = |it: Cost| it.high_us.unwrap_or(it.us);
    Some(match wss_kib {
        None => MoveCost { ns: ns(upper(at(largest)?)), origin: CostOrigin::LargestMeasured },
        Some(wss) if wss > largest => {
            MoveCost { ns: ns(at(largest)?.us), origin: CostOrigin::AtLeast }
        }
        Some(wss) => MoveCost { ns: ns(at(wss)?.us), origin: CostOrigin::Fitted },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_stats::costs::{CostSource, CostTable, Selection};

    /// A summary table with the means of two sizes, without migrations across caches.
    const TABLE: &str = "\
platform,memory_architecture,load,event,preemption_length,write_ratio,statistic,wss_kib,cost_us
x,uma,idle,l2_migration,uniform,0.25,avg,64,5
x,uma,idle,l2_migration,uniform,0.25,avg,1024,80
x,uma,idle,l3_migration,uniform,0.25,avg,64,9
x,uma,idle,l3_migration,uniform,0.25,avg,1024,120
";

    #[test]
    fn a_move_costs_what_was_fitted_for_its_size_and_class_and_else_what_is_assumed() {
        let source = CostSource::Table(CostTable::parse(TABLE).unwrap());
        let wanted = Selection { statistic: Some("avg".to_owned()), ..Selection::default() };
        let selected = source.selected(&wanted).unwrap();
        let at = |wss| MoveCosts::of(selected.costs.as_ref(), wss);
        let cost = |us: f64, origin| MoveCost { ns: us * 1e3, origin };
        assert_eq!(at(Some(64.0)).same_cache, cost(9.0, CostOrigin::Fitted));
        assert_eq!(at(None).same_cache, cost(120.0, CostOrigin::LargestMeasured));
        assert_eq!(at(Some(4096.0)).same_cache, cost(120.0, CostOrigin::AtLeast));
        assert_eq!(at(Some(64.0)).across, MoveCost::ASSUMED);
        assert_eq!(MoveCosts::ASSUMED.across, cost(200.0, CostOrigin::Assumed));
    }

    #[test]
    fn on_one_cache_a_move_stays_below_it_and_on_several_the_dearer_way_counts() {
        let cost = |ns| MoveCost { ns, origin: CostOrigin::Fitted };
        let costs =
            |same_cache, across| MoveCosts { same_cache: cost(same_cache), across: cost(across) };
        assert_eq!([0, 1, 2].map(|caches| costs(1.0, 2.0).on(caches)), [1.0, 1.0, 2.0].map(cost));
        assert_eq!(costs(3.0, 2.0).on(2), cost(3.0));
        let tie = MoveCosts { same_cache: MoveCost::ASSUMED, across: cost(ASSUMED_NS) };
        assert_eq!(tie.on(2).origin, CostOrigin::Fitted);
    }

    #[test]
    fn a_cost_below_zero_is_none() {
        let table = TABLE.replace(",64,9", ",64,-9").replace(",64,5", ",64,-5");
        let source = CostSource::Table(CostTable::parse(&table).unwrap());
        let wanted = Selection { statistic: Some("avg".to_owned()), ..Selection::default() };
        let selected = source.selected(&wanted).unwrap();
        let found = MoveCosts::of(selected.costs.as_ref(), Some(64.0)).same_cache;
        assert_eq!(found, MoveCost { ns: 0.0, origin: CostOrigin::Fitted });
    }
}
