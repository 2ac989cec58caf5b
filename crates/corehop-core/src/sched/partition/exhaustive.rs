// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact partitioning of small sets: every assignment is tried that is not a renaming of another.

use crate::sched::system::System;
use crate::sched::uni::edf;
use crate::sched::verdict::Verdict;

use super::admission::charged;
use super::packing::by_utilisation;

/// The number of CPUs asked for demand before the search gives up.
const LOOKS: u32 = 200_000;

/// An assignment of tasks to CPUs such that EDF meets all deadlines on each.
///
/// # Errors
/// [`Verdict::Unschedulable`] where there is none, [`Verdict::Unknown`] where that took too many looks
/// (a count, not a time).
pub fn partition(system: System<'_>) -> Result<Vec<Vec<usize>>, Verdict> {
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by(|&a, &b| by_utilisation(&system.tasks[b], &system.tasks[a]));
    let mut search = Search { system, order, looks: LOOKS, in_doubt: false };
    let mut bins = vec![Vec::new(); system.cpus as usize];
    if search.place(0, &mut bins) {
        Ok(bins)
    } else if search.in_doubt {
        Err(Verdict::Unknown)
    } else {
        Err(Verdict::Unschedulable)
    }
}

struct Search<'a> {
    system: System<'a>,
    order: Vec<usize>,
    looks: u32,
    in_doubt: bool,
}

impl Search<'_> {
    fn place(&mut self, at: usize, bins: &mut [Vec<usize>]) -> bool {
        let Some(&task) = self.order.get(at) else { return true };
        for bin in 0..bins.len() {
            bins[bin].push(task);
            if self.fits(&bins[bin]) && self.place(at + 1, bins) {
                return true;
            }
            bins[bin].pop();
            // Empty CPUs are alike: one of them stands for all.
            if bins[bin].is_empty() {
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
        let verdict = edf::qpa(&charged(self.system, 1, bin));
        self.in_doubt |= verdict == Verdict::Unknown;
        verdict == Verdict::Schedulable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::task::testing::implicit;

    #[test]
    fn three_cpus_are_filled_to_the_brim() {
        // 44 + 8 + 8, 24 + 24 + 6 + 6 and 22 + 21 + 17 fill three CPUs of 60 to the brim; first fit
        // decreasing begins with 44 alone, 24 + 24 and 22 + 21 + 17, and by luck fits here too.
        let sizes = [44, 24, 24, 22, 21, 17, 8, 8, 6, 6];
        let tasks: Vec<_> = sizes.iter().map(|&size| (size, 60)).collect();
        let set = implicit(3, &tasks);
        let bins = partition(set.system()).unwrap();
        let sums: Vec<u64> = bins.iter().map(|bin| bin.iter().map(|&at| sizes[at]).sum()).collect();
        assert_eq!(sums, [60, 60, 60]);
    }

    #[test]
    fn where_there_is_none_it_says_so() {
        let set = implicit(2, &[(6, 10), (6, 10), (6, 10)]);
        assert_eq!(partition(set.system()), Err(Verdict::Unschedulable));
    }
}
