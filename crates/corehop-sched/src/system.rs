// SPDX-License-Identifier: MIT OR Apache-2.0
//! The input of a schedulability test: tasks and CPUs.

use super::bill::Bill;
use super::cache_aware::pairs::PairwiseDelays;
use super::supply::{FULL, Supplied, Supply};
use corehop_plan::workload::blocks::CacheUse;
use corehop_plan::workload::chains::Chains;
use corehop_plan::workload::locks::Locks;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{Task, TaskSet};

/// The tasks and CPUs that a schedulability test analyses.
#[derive(Debug, Clone, Copy)]
pub struct System<'a> {
    pub(crate) cpus: u32,
    pub(crate) tasks: &'a [Task],
    /// The cache use of each task, in the order of the tasks, if known.
    pub(crate) cache: Option<&'a CacheUse>,
    /// The bill, if the charges depend on the placement.
    pub(crate) bill: Option<&'a Bill>,
    /// Measured delays by pair of tasks, if known.
    pub(crate) pairs: Option<&'a PairwiseDelays>,
    /// The locks of the tasks, in the order of the tasks, if tasks use locks.
    pub(crate) locks: Option<&'a Locks>,
    /// The chains of the tasks, if there are chains.
    pub(crate) chains: Option<&'a Chains>,
    /// The CPUs of each task, in the order of the tasks, if given.
    pub(crate) placement: Option<&'a [TaskPlacement]>,
    /// The CPUs of each cluster, if a machine's caches form the clusters; otherwise clusters are consecutive CPUs.
    pub(crate) clusters: Option<&'a [Vec<usize>]>,
    /// The supply of the CPUs, if they are not always available.
    pub(crate) supply: Option<Supplied<'a>>,
}

impl<'a> System<'a> {
    /// A system of these tasks on `cpus` CPUs, without knowledge of caches.
    pub(crate) fn plain(cpus: u32, tasks: &'a [Task]) -> Self {
        Self {
            cpus,
            tasks,
            cache: None,
            bill: None,
            pairs: None,
            locks: None,
            chains: None,
            placement: None,
            clusters: None,
            supply: None,
        }
    }
    /// The supply of the CPU that a test of one CPU analyses.
    pub(crate) fn supply(self) -> &'a Supply {
        self.supply.map_or(&FULL, Supplied::supply)
    }
    /// The system with each bin corresponding to a CPU of the set.
    pub(crate) fn on_own_cpus(self) -> Self {
        Self { supply: self.supply.map(Supplied::own), ..self }
    }
    /// The system for the tasks of a bin: with the supply of the bin's CPU if each bin is a CPU of the set.
    pub(crate) fn at_bin(self, bin: usize) -> Self {
        Self { supply: self.supply.map(|it| it.at(bin)), ..self }
    }
    /// The number of CPUs, m.
    pub fn cpus(self) -> u32 {
        self.cpus
    }
    /// Returns the tasks of the system.
    pub fn tasks(self) -> &'a [Task] {
        self.tasks
    }
    /// The CPUs of a bin with `size` CPUs.
    pub(crate) fn bin_cpus(self, bin: usize, size: usize) -> Vec<usize> {
        let cluster = self.clusters.and_then(|all| all.get(bin)).filter(|cpus| cpus.len() == size);
        cluster.cloned().unwrap_or_else(|| (bin * size..(bin + 1) * size).collect())
    }
    /// The CPUs of each task in these bins, in the order of the tasks.
    pub(crate) fn places_of(self, bins: &[Vec<usize>]) -> Vec<TaskPlacement> {
        let size = self.cpus as usize / bins.len().max(1);
        TaskPlacement::of_bins(bins, |bin| self.bin_cpus(bin, size), self.tasks.len())
    }
    /// Whether the set lets task `at` run on all CPUs of a bin with `size` CPUs.
    pub(crate) fn may_use(self, at: usize, bin: usize, size: usize) -> bool {
        match self.placement.map(|places| &places[at]) {
            None => true,
            Some(TaskPlacement::Cpus(own)) => {
                self.bin_cpus(bin, size).iter().all(|cpu| own.contains(cpu))
            }
            Some(TaskPlacement::Pieces(_) | TaskPlacement::Shares(_)) => false,
        }
    }
    /// Whether task `at` in this bin shares a lock with a task in another bin.
    pub(crate) fn is_torn<'b>(
        self,
        at: usize,
        bin: usize,
        bins: impl Iterator<Item = &'b [usize]>,
    ) -> bool {
        let Some(locks) = self.locks else { return false };
        let others = bins.enumerate().filter(|&(other, _)| other != bin);
        let mut others = others.flat_map(|(_, tasks)| tasks);
        others.any(|&other| locks.shared(at, other).is_some())
    }
    /// The first task that is not placed where the set requires. `found` holds the CPUs, pieces or shares that a test
    /// gave the tasks, or `None` if the test lets tasks run anywhere.
    pub(crate) fn first_misplaced(self, found: Option<&[TaskPlacement]>) -> Option<usize> {
        let stated = self.placement?;
        let anywhere = TaskPlacement::Cpus((0..self.cpus as usize).collect());
        (0..self.tasks.len()).find(|&at| {
            let found = found.map_or(&anywhere, |all| &all[at]);
            !found.is_within(&stated[at])
        })
    }
    pub(crate) fn m(self) -> u64 {
        u64::from(self.cpus)
    }
}

impl<'a> System<'a> {
    /// Returns the input of a test for this set, without charges.
    pub fn of(set: &'a TaskSet) -> Self {
        Self {
            cpus: set.cpus(),
            tasks: set.tasks(),
            cache: set.cache(),
            bill: None,
            pairs: None,
            locks: set.locks(),
            chains: set.chains(),
            placement: set.placement(),
            clusters: None,
            supply: None,
        }
    }
}
