// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the working set of a synthetic job for which an event costs as much as for a program.

use corehop_plan::workload::Event;
use serde::Serialize;

use super::EventCosts;

/// The size of a synthetic job's working set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "kib")]
pub enum EquivalentSet {
    /// The working set has about this size in KiB.
    About(f64),
    /// The working set has at most this size in KiB: the smallest measured size already costs more.
    AtMost(f64),
    /// The working set has at least this size in KiB: the largest measured size costs less.
    AtLeast(f64),
}

impl EquivalentSet {
    /// Returns the size at which an event costs `us` microseconds; between measured sizes, costs are linear in the
    /// logarithm of the size. A size whose cost is below the cost of a smaller size counts with the smaller size's
    /// cost. Returns `None` if the costs of the event are unknown.
    pub fn of(costs: &dyn EventCosts, event: Event, us: f64) -> Option<Self> {
        let mut before: Option<(f64, f64)> = None;
        for kib in costs.sizes(&[event]) {
            let here = costs.cost(event, kib).ok()?.us.max(before.map_or(0.0, |it| it.1));
            match before {
                None if here >= us => return Some(Self::AtMost(kib)),
                Some((smaller, cost)) if here >= us => {
                    let part = (us - cost) / (here - cost);
                    return Some(Self::About(smaller * (kib / smaller).powf(part)));
                }
                _ => before = Some((kib, here)),
            }
        }
        before.map(|(kib, _)| Self::AtLeast(kib))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CostSource, CostTable, Selection};
    use super::*;

    fn set_of(us: f64) -> Option<EquivalentSet> {
        let text = "load,event,statistic,wss_kib,cost_us\nidle,preemption,avg,16,4\nidle,preemption,avg,64,8\n\
            idle,preemption,avg,256,7\nidle,preemption,avg,1024,28\n";
        let source = CostSource::Table(CostTable::parse(text).unwrap());
        let wanted = Selection { statistic: Some("avg".to_owned()), ..Selection::default() };
        let costs = source.selected(&wanted).unwrap().costs;
        EquivalentSet::of(costs.as_ref(), Event::Preemption, us)
    }

    #[test]
    fn the_size_lies_between_measured_ones_or_beyond_them() {
        assert_eq!(set_of(4.0), Some(EquivalentSet::AtMost(16.0)));
        assert_eq!(set_of(6.0), Some(EquivalentSet::About(32.0)), "half of two octaves");
        assert_eq!(set_of(8.0), Some(EquivalentSet::About(64.0)));
        // The cost of 256 KiB counts as that of 64 KiB: 18 us are half of the way to 1 MiB.
        assert_eq!(set_of(18.0), Some(EquivalentSet::About(512.0)));
        assert_eq!(set_of(28.5), Some(EquivalentSet::AtLeast(1024.0)));
    }
}
