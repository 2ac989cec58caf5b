// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact partitioning of small sets: tries every assignment, except those that only rename CPUs.

use crate::held_up;
use crate::system::System;
use crate::verdict::Verdict;

use super::admission::{analysed, charged};
use super::packing::by_utilisation;

/// The number of CPU analyses after which the search gives up.
const LOOKS: u32 = 200_000;

/// The exact answer for the tasks of one CPU, given in ascending order.
pub(crate) type OneCpu = fn(System<'_>, &[usize]) -> Verdict;

/// Whether EDF meets all deadlines.
pub(crate) fn by_deadline(system: System<'_>, group: &[usize]) -> Verdict {
    held_up::demand(system, group, &charged(system, 1, group))
}

/// Whether fixed priorities meet all deadlines.
pub(crate) fn by_priority(system: System<'_>, group: &[usize]) -> Verdict {
    analysed(system, group).0
}

/// An assignment of tasks to the CPUs that the set allows, such that each CPU meets all deadlines.
///
/// # Errors
/// Returns [`Verdict::Unschedulable`] if no such assignment exists, [`Verdict::Unknown`] if the search needs too many
/// analyses (a count, not a time).
pub(crate) fn partition(system: System<'_>, one: OneCpu) -> Result<Vec<Vec<usize>>, Verdict> {
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by(|&a, &b| by_utilisation(&system.tasks[b], &system.tasks[a]));
    let mut search = PartitionSearch { system, one, order, looks: LOOKS, in_doubt: false };
    let mut bins = vec![Vec::new(); system.cpus as usize];
    if search.place(0, &mut bins) {
        Ok(bins)
    } else if search.in_doubt {
        Err(Verdict::Unknown)
    } else {
        Err(Verdict::Unschedulable)
    }
}

struct PartitionSearch<'a> {
    system: System<'a>,
    one: OneCpu,
    order: Vec<usize>,
    looks: u32,
    in_doubt: bool,
}

impl PartitionSearch<'_> {
    fn place(&mut self, at: usize, bins: &mut [Vec<usize>]) -> bool {
        let Some(&task) = self.order.get(at) else { return true };
        for bin in 0..bins.len() {
            if !self.system.may_use(task, bin, 1)
                || self.system.is_torn(task, bin, bins.iter().map(Vec::as_slice))
            {
                continue;
            }
            bins[bin].push(task);
            if self.fits(&bins[bin]) && self.place(at + 1, bins) {
                return true;
            }
            bins[bin].pop();
            // Empty CPUs are alike where the set names none: one of them stands for all.
            if bins[bin].is_empty() && self.system.placement.is_none() {
                break;
            }
        }
        false
    }

    fn fits(&mut self, bin: &[usize]) -> bool {
        if self.looks == 0 {
            self.in_doubt = true;
            return false;
        }
        self.looks -= 1;
        let mut group = bin.to_vec();
        group.sort_unstable();
        let verdict = (self.one)(self.system, &group);
        self.in_doubt |= verdict == Verdict::Unknown;
        verdict == Verdict::Schedulable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::implicit;
    use corehop_plan::workload::placement::TaskPlacement;

    #[test]
    fn three_cpus_are_filled_to_the_brim() {
        // 44 + 8 + 8, 24 + 24 + 6 + 6 and 22 + 21 + 17 fill three CPUs of 60 to the brim; first fit
        // decreasing begins with 44 alone, 24 + 24 and 22 + 21 + 17, and by luck fits here too.
        let sizes = [44, 24, 24, 22, 21, 17, 8, 8, 6, 6];
        let tasks: Vec<_> = sizes.iter().map(|&size| (size, 60)).collect();
        let set = implicit(3, &tasks);
        let bins = partition(System::of(&set), by_deadline).unwrap();
        let sums: Vec<u64> = bins.iter().map(|bin| bin.iter().map(|&at| sizes[at]).sum()).collect();
        assert_eq!(sums, [60, 60, 60]);
    }

    #[test]
    fn where_there_is_none_it_says_so() {
        let set = implicit(2, &[(6, 10), (6, 10), (6, 10)]);
        assert_eq!(partition(System::of(&set), by_deadline), Err(Verdict::Unschedulable));
    }

    #[test]
    fn tasks_stay_on_the_cpus_that_they_may_use() {
        let set = implicit(2, &[(6, 10), (4, 10), (5, 10)]);
        let places =
            |last: usize| [vec![0], vec![0, 1], vec![last]].map(TaskPlacement::Cpus).to_vec();
        let on = |last| set.clone().placed(places(last)).unwrap();
        for one in [by_deadline, by_priority] {
            let bins = partition(System::of(&on(1)), one);
            assert_eq!(bins, Ok(vec![vec![0, 1], vec![2]]));
            assert_eq!(partition(System::of(&on(0)), one), Err(Verdict::Unschedulable));
        }
    }
}
