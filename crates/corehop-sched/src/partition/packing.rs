// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bin packing: next, first, best, worst and almost-worst fit, each decreasing or not.

use std::cmp::Ordering;

use super::admission::Admission;
use crate::exact::{self, Filter, compare_sum};
use crate::system::System;
use crate::uni::{edf, fixed};
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// The rule that selects one of the admitting bins for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fit {
    /// The last used bin, or the next admitting bin after it.
    Next,
    /// The first admitting bin.
    First,
    /// The fullest admitting bin, or the first of equally full bins.
    Best,
    /// The emptiest admitting bin, or the first of equally full bins.
    Worst,
    /// The second emptiest admitting bin, or the first of equally full bins. If only one bin admits the task, that bin
    /// gets the task.
    AlmostWorst,
}

impl Fit {
    /// Every fit.
    pub const ALL: [Self; 5] =
        [Self::Next, Self::First, Self::Best, Self::Worst, Self::AlmostWorst];

    /// Returns the fit for its usual letters, and whether tasks are sorted: `ff` is first fit, `ffd` first fit
    /// decreasing.
    pub fn by_letters(letters: &str) -> Option<(Self, bool)> {
        let fit = |letters| match letters {
            "nf" => Some(Self::Next),
            "ff" => Some(Self::First),
            "bf" => Some(Self::Best),
            "wf" => Some(Self::Worst),
            "awf" => Some(Self::AlmostWorst),
            _ => None,
        };
        let decreasing = letters.strip_suffix('d').and_then(fit).map(|fit| (fit, true));
        decreasing.or_else(|| fit(letters).map(|fit| (fit, false)))
    }
}

/// A packing method for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packing {
    /// The rule that selects one of the admitting bins for a task.
    pub fit: Fit,
    /// Whether tasks are taken by falling utilisation instead of in their order.
    pub decreasing: bool,
    /// The condition under which a bin admits tasks.
    pub admission: Admission,
    /// The number of CPUs of a bin: 1, or the size of a cluster.
    pub cluster: u32,
}

/// The tasks of each bin in the order of their arrival; or the index of the first task that no bin admitted.
pub type PackingResult = Result<Vec<Vec<usize>>, usize>;

/// A bin: its tasks, and the rounded sum of their utilisations. If the rounded sum does not decide, the exact
/// utilisations of the tasks decide.
#[derive(Debug, Clone, Default)]
struct Bin {
    tasks: Vec<usize>,
    sum: f64,
}

impl Packing {
    /// Packs the tasks into `cpus / cluster` bins.
    ///
    /// # Errors
    /// Returns the index of the first task that no bin admits.
    pub fn pack(self, system: System<'_>) -> PackingResult {
        let (bins, rest) = self.pack_as_far(system);
        rest.first().map_or(Ok(bins), |&at| Err(at))
    }

    /// Packs tasks until one task fits nowhere. Returns the bins, and the tasks from the first task that fits nowhere,
    /// in packing order.
    pub fn pack_as_far(self, system: System<'_>) -> (Vec<Vec<usize>>, Vec<usize>) {
        let tasks = system.tasks;
        let mut bins = vec![Bin::default(); (system.cpus / self.cluster.max(1)) as usize];
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        if self.decreasing {
            order.sort_by(|&a, &b| by_utilisation(&tasks[b], &tasks[a]));
        }
        let (mut last, mut packed) = (0, 0);
        for &at in &order {
            let Some(chosen) = self.choose(system, &bins, at, last) else { break };
            last = chosen;
            packed += 1;
            bins[chosen].tasks.push(at);
            bins[chosen].sum += tasks[at].wcet.as_f64() / tasks[at].period.as_f64();
        }
        (bins.into_iter().map(|bin| bin.tasks).collect(), order.split_off(packed))
    }

    fn choose(self, system: System<'_>, bins: &[Bin], at: usize, last: usize) -> Option<usize> {
        let admits = |bin: &usize| {
            self.may_use(system, bins, *bin, at)
                && self.has_room(system.tasks, &bins[*bin], at)
                && self.meets(system, &bins[*bin], at)
        };
        match self.fit {
            Fit::Next => (last..bins.len()).find(admits),
            Fit::First => (0..bins.len()).find(admits),
            Fit::Best | Fit::Worst => self.best_after(system, bins, at, None),
            Fit::AlmostWorst => {
                let worst = self.best_after(system, bins, at, None)?;
                self.best_after(system, bins, at, Some(worst)).or(Some(worst))
            }
        }
    }

    /// The best bin for this fit among the bins that admit the task and rank after the bin `after`. The demand test
    /// runs only for a bin that would be chosen.
    fn best_after(
        self,
        system: System<'_>,
        bins: &[Bin],
        at: usize,
        mut after: Option<usize>,
    ) -> Option<usize> {
        let tasks = system.tasks;
        let wanted = if self.fit == Fit::Best { Ordering::Greater } else { Ordering::Less };
        // Of equal ones the first.
        let before = |a: usize, b: usize| match fuller(tasks, &bins[a], &bins[b]) {
            Ordering::Equal => a < b,
            unequal => unequal == wanted,
        };
        loop {
            let left = (0..bins.len()).filter(|&bin| after.is_none_or(|after| before(after, bin)));
            let left = left.filter(|&bin| self.may_use(system, bins, bin, at));
            let next = if self.fit == Fit::Best {
                let open = left.filter(|&bin| self.has_room(tasks, &bins[bin], at));
                open.reduce(|a, b| if before(b, a) { b } else { a })?
            } else {
                // Where the emptiest has no room, none has.
                let next = left.reduce(|a, b| if before(b, a) { b } else { a })?;
                self.has_room(tasks, &bins[next], at).then_some(next)?
            };
            if self.meets(system, &bins[next], at) {
                return Some(next);
            }
            after = Some(next);
        }
    }

    /// Whether the set lets the task run on the CPUs of a bin, and no lock of the task is used in another bin.
    fn may_use(self, system: System<'_>, bins: &[Bin], bin: usize, at: usize) -> bool {
        system.may_use(at, bin, self.cluster as usize)
            && !system.is_torn(at, bin, bins.iter().map(|bin| &bin.tasks[..]))
    }

    /// Whether the utilisation of the task fits into the bin.
    fn has_room(self, tasks: &[Task], bin: &Bin, at: usize) -> bool {
        let own = &tasks[at];
        if own.wcet > own.period {
            return false;
        }
        // With one task more the sum has so many rounded terms; in doubt it is taken anew.
        let mut filter = Filter::default();
        let sum = bin.sum + own.wcet.as_f64() / own.period.as_f64() - f64::from(self.cluster);
        filter.add_many(sum, f64::from(self.cluster) + bin.sum + 1.0, bin.tasks.len() + 2);
        let all = || bin.with(tasks, at).map(Task::u).collect::<Vec<_>>().into_iter();
        filter.sign().unwrap_or_else(|| compare_sum(all(), u64::from(self.cluster))).is_le()
    }

    /// Whether a bin with room for the task meets all deadlines with the task, if the admission requires that.
    fn meets(self, system: System<'_>, bin: &Bin, at: usize) -> bool {
        let late = |task: &Task| {
            task.deadline >= task.period
                && (task.jitter, task.blocking, task.suspension)
                    == (Time::ZERO, Time::ZERO, Time::ZERO)
        };
        let plain = || bin.with(system.tasks, at).all(|task| task.suspension == Time::ZERO);
        let known = match self.admission {
            Admission::Utilisation => true,
            Admission::Demand => bin.with(system.tasks, at).all(late),
            Admission::Response | Admission::Blocks(_) | Admission::Pairs => false,
        };
        let bare = system.bill.is_none() && system.locks.is_none() && system.supply.is_none();
        if known && bare {
            return true;
        }
        let quick = bare && plain();
        if self.admission == Admission::Demand && quick {
            let all: Vec<Task> = bin.with(system.tasks, at).copied().collect();
            return edf::qpa(&all) == Verdict::Schedulable;
        }
        let mut group = [&bin.tasks[..], &[at]].concat();
        // Ties of priority go by index.
        group.sort_unstable();
        if self.admission == Admission::Response && quick {
            let all: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
            return fixed::still_meet(&all, group.partition_point(|&other| other < at));
        }
        self.admission.meets(system, self.cluster, &group)
    }
}

impl Bin {
    /// The tasks of the bin, and the task `at`.
    fn with<'a>(&'a self, tasks: &'a [Task], at: usize) -> impl Iterator<Item = &'a Task> {
        self.tasks.iter().map(|&other| &tasks[other]).chain([&tasks[at]])
    }
}

/// The order of two bins by utilisation.
fn fuller(tasks: &[Task], a: &Bin, b: &Bin) -> Ordering {
    if a.tasks.is_empty() || b.tasks.is_empty() {
        return a.tasks.is_empty().cmp(&b.tasks.is_empty()).reverse();
    }
    let mut filter = Filter::default();
    filter.add_many(a.sum - b.sum, a.sum + b.sum, a.tasks.len() + b.tasks.len());
    filter.sign().unwrap_or_else(|| {
        let terms = |bin: &Bin, sign: i128| {
            bin.tasks
                .iter()
                .map(move |&at| (sign * i128::from(tasks[at].wcet), tasks[at].period.ticks()))
                .collect::<Vec<_>>()
        };
        exact::sign_of_sum(terms(a, 1).into_iter().chain(terms(b, -1)))
    })
}

/// The exact order of the utilisations of two tasks.
pub(crate) fn by_utilisation(a: &Task, b: &Task) -> Ordering {
    let left = u128::from(a.wcet) * u128::from(b.period);
    left.cmp(&(u128::from(b.wcet) * u128::from(a.period)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    fn pack(cpus: u32, tasks: &[(u64, u64)], fit: Fit, decreasing: bool) -> PackingResult {
        let set = implicit(cpus, tasks);
        let packing = Packing { fit, decreasing, admission: Admission::Utilisation, cluster: 1 };
        packing.pack(System::of(&set))
    }

    #[test]
    fn each_fit_puts_tasks_where_it_should() {
        // In tenths: 5, 7, 3, 4, 1.
        let tasks = [(5, 10), (7, 10), (3, 10), (4, 10), (1, 10)];
        let of = |fit| pack(3, &tasks, fit, false);
        assert_eq!(of(Fit::Next), Ok(vec![vec![0], vec![1, 2], vec![3, 4]]));
        assert_eq!(of(Fit::First), Ok(vec![vec![0, 2, 4], vec![1], vec![3]]));
        assert_eq!(of(Fit::Best), Ok(vec![vec![0, 3, 4], vec![1, 2], vec![]]));
        assert_eq!(of(Fit::Worst), Ok(vec![vec![0, 4], vec![1], vec![2, 3]]));
        assert_eq!(of(Fit::AlmostWorst), Ok(vec![vec![3], vec![0, 2], vec![1, 4]]));
    }

    #[test]
    fn decreasing_takes_the_largest_first_and_ties_by_index() {
        let tasks = [(2, 10), (6, 10), (4, 10), (6, 10), (2, 10)];
        let packed = pack(2, &tasks, Fit::First, true);
        assert_eq!(packed, Ok(vec![vec![1, 2], vec![3, 0, 4]]));
        assert_eq!(pack(2, &[(6, 10), (6, 10), (6, 10)], Fit::First, true), Err(2));
    }

    #[test]
    fn a_bin_is_filled_to_the_brim_and_not_beyond() {
        // Floating point makes 1/10 + 2/10 + 7/10 more or less than 1, by the order of the sum.
        let tasks = [(1, 10), (2, 10), (7, 10)];
        for fit in [Fit::First, Fit::Best] {
            assert_eq!(pack(1, &tasks, fit, false), Ok(vec![vec![0, 1, 2]]));
        }
        assert_eq!(pack(1, &[(1, 3), (1, 3), (1, 3), (1, 1 << 40)], Fit::First, false), Err(3));
        // Equally full, though not by the same sum: the first bin is taken.
        let even = [(3, 10), (1, 10), (2, 10), (1, 10)];
        assert_eq!(pack(2, &even, Fit::Worst, false), Ok(vec![vec![0, 3], vec![1, 2]]));
    }

    #[test]
    fn demand_admits_what_density_would_not() {
        let tasks = [(1, 8, 2), (2, 8, 4), (1, 8, 6)];
        let packing = Packing {
            fit: Fit::First,
            decreasing: false,
            admission: Admission::Demand,
            cluster: 1,
        };
        assert_eq!(packing.pack(System::of(&set(1, &tasks))), Ok(vec![vec![0, 1, 2]]));
        assert_eq!(packing.pack(System::of(&set(1, &[(1, 8, 2), (2, 8, 2)]))), Err(1));
    }

    #[test]
    fn asking_the_tasks_below_a_new_one_is_asking_all() {
        // The slow twin: first fit, every CPU analysed as a whole each time.
        let slow = |system: System<'_>, order: &[usize]| {
            let mut bins = vec![Vec::new(); system.cpus as usize];
            for &at in order {
                let with = |bin: &Vec<usize>| {
                    let mut all = [&bin[..], &[at]].concat();
                    all.sort_unstable();
                    let all: Vec<Task> = all.iter().map(|&at| system.tasks[at]).collect();
                    fixed::response_time_analysis(&all, None) == Verdict::Schedulable
                };
                let Some(place) = bins.iter().position(with) else { return Err(at) };
                bins[place].push(at);
            }
            Ok(bins)
        };
        let packing = Packing {
            fit: Fit::First,
            decreasing: false,
            admission: Admission::Response,
            cluster: 1,
        };
        let mut refused = 0;
        for index in 0..300 {
            let mut stream = corehop_plan::workload::draw::DrawStream::of_set(5, index);
            let mut task = || {
                let period = 4 + stream.below(12);
                let wcet = 1 + stream.below(period / 2);
                (wcet, period, wcet + stream.below(2 * period - wcet))
            };
            let tasks: Vec<_> = (0..9).map(|_| task()).collect();
            let set = set(3, &tasks);
            let expected = slow(System::of(&set), &(0..9).collect::<Vec<_>>());
            refused += u32::from(expected.is_err());
            assert_eq!(packing.pack(System::of(&set)), expected, "{tasks:?}");
        }
        assert!((50..250).contains(&refused), "{refused}");
    }

    #[test]
    fn a_cluster_holds_as_much_as_its_cpus() {
        let tasks = [(6, 10), (6, 10), (6, 10), (6, 10), (6, 10), (6, 10)];
        let set = implicit(4, &tasks);
        let packing = Packing {
            fit: Fit::Worst,
            decreasing: true,
            admission: Admission::Utilisation,
            cluster: 2,
        };
        assert_eq!(packing.pack(System::of(&set)), Ok(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(Packing { cluster: 1, ..packing }.pack(System::of(&set)), Err(4));
    }
}
