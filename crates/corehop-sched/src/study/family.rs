// SPDX-License-Identifier: MIT OR Apache-2.0
//! The task sets of one random stream, for all utilisation caps together.
//!
//! Each cap's set is a prefix of the stream, so caps between which no task is added share one set.

use std::ops::Range;

use super::{Caps, Generator};
use corehop_plan::workload::generate::fixed_sum::NoSuchSum;
use corehop_plan::workload::generate::{Capped, FixedSum, Last, scaled, share};
use corehop_plan::workload::task::{Task, TaskParameters, Time};

/// A list of tasks, and the sets that are prefixes of this list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    pub(super) tasks: Vec<Task>,
    /// The sets by rising length.
    pub(super) members: Vec<FamilyMember>,
}

/// One set: the first tasks of the family, and possibly one task of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FamilyMember {
    pub(super) prefix: usize,
    pub(super) extra: Option<Task>,
    /// The range of caps that this set belongs to.
    pub(super) caps: Range<usize>,
}

impl Family {
    /// The tasks of a member with `delay` charged to each.
    pub(super) fn charged(&self, member: &FamilyMember, delay: Time) -> Vec<Task> {
        let all = self.tasks[..member.prefix].iter().chain(&member.extra);
        all.map(|task| Task { wcet: task.wcet + delay, ..*task }).collect()
    }
}

/// The families that contain the sets of stream `index`.
///
/// # Errors
/// Returns an error if the generator finds no set with the requested sum.
pub(super) fn families(
    generator: &Generator,
    caps: Caps,
    seed: u64,
    index: u64,
) -> Result<Vec<Family>, NoSuchSum> {
    match generator {
        Generator::Capped(capped) => Ok(vec![prefixes(capped, caps, seed, index)]),
        Generator::FixedSum(fixed) => {
            let of = |place: usize| {
                let given = FixedSum { sum: caps.at(place), ..fixed.clone() }.set(seed, index)?;
                let tasks: Vec<Task> = given.iter().map(task).collect();
                let only =
                    FamilyMember { prefix: tasks.len(), extra: None, caps: place..place + 1 };
                Ok(Family { tasks, members: vec![only] })
            };
            (0..caps.len()).map(of).collect()
        }
    }
}

fn task(given: &TaskParameters) -> Task {
    Task {
        wcet: given.wcet,
        period: given.period,
        deadline: given.deadline.unwrap_or(given.period),
        jitter: Time::ZERO,
        blocking: Time::ZERO,
        suspension: Time::ZERO,
        priority: None,
    }
}

fn prefixes(capped: &Capped, caps: Caps, seed: u64, index: u64) -> Family {
    let highest = caps.at(caps.len() - 1);
    let mut family = Family { tasks: Vec::new(), members: Vec::new() };
    let (mut sum, mut from) = (0.0, 0);
    for given in capped.drawn(seed, index) {
        let more = sum + share(&given);
        // Up to the first cap that admits this task too, the set is what came before it.
        let until = caps.admitting(more);
        let prefix = family.tasks.len();
        match capped.last {
            Last::Discard if from < until => {
                family.members.push(FamilyMember { prefix, extra: None, caps: from..until });
            }
            Last::Discard => {}
            Last::Scale => family.members.extend((from..until).map(|place| {
                let extra = scaled(&given, caps.at(place) - sum).as_ref().map(task);
                FamilyMember { prefix, extra, caps: place..place + 1 }
            })),
        }
        from = until;
        if more > highest {
            return family;
        }
        sum = more;
        family.tasks.push(task(&given));
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::generate::{Deadline, Period, Utilisation};

    #[test]
    fn every_cap_has_the_set_that_the_generator_makes_for_it() {
        let caps = Caps { from: 300, step: 100, count: 58, unit: 100 };
        for last in [Last::Discard, Last::Scale] {
            for deadline in [Deadline::Implicit, Deadline::Constrained] {
                let utilisation = Utilisation::BIMO_HEAVY;
                let capped =
                    Capped { cap: 0.0, utilisation, period: Period::SHORT, deadline, last };
                for index in 0..50 {
                    let family = prefixes(&capped, caps, 3, index);
                    let mut seen = 0;
                    for member in &family.members {
                        for place in member.caps.clone() {
                            let given = Capped { cap: caps.at(place), ..capped.clone() };
                            let set: Vec<Task> = given.set(3, index).iter().map(task).collect();
                            assert_eq!(family.charged(member, Time::ZERO), set, "{index} {place}");
                            seen += 1;
                        }
                    }
                    assert_eq!(seen, caps.len());
                }
            }
        }
    }
}
