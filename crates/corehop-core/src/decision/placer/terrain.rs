// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs of a host as groups within groups, with the cost of waking a thread across each.

use serde::{Deserialize, Serialize};

use super::regions::Region;
use crate::platform::{Affinity, CpuGroups, Platform};
use crate::units::{Cpu, CpuList};

/// The cost of a wake-up, by the distance of the two CPUs, in nanoseconds of both threads together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WakeCosts {
    /// On one CPU: a switch from one to the other.
    pub same_cpu_ns: f64,
    /// On two CPUs with a cache in common.
    pub shared_cache_ns: f64,
    /// On two CPUs without.
    pub separate_ns: f64,
}

/// Groups of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Level {
    groups: Vec<CpuList>,
    /// The group of each CPU, by CPU number.
    of: Vec<usize>,
}

impl Level {
    fn new(groups: &[CpuList], cpus: &CpuList) -> Self {
        let groups: Vec<CpuList> = groups.iter().map(|it| it.intersection(cpus)).collect();
        let groups: Vec<CpuList> = groups.into_iter().filter(|it| !it.is_empty()).collect();
        let size = cpus.iter().map(|cpu| cpu.0 as usize + 1).max().unwrap_or(0);
        let mut of = vec![usize::MAX; size];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|cpu| of[cpu.0 as usize] = number);
        }
        Self { groups, of }
    }
}

/// The CPUs that threads can be placed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Terrain {
    cpus: CpuList,
    caches: Level,
    /// CPUs with an inner cache in common, or a core: some of those of a last-level cache.
    inner: Vec<CpuList>,
    costs: WakeCosts,
}

impl Terrain {
    /// The usable CPUs of a platform. Those below one last-level cache are a group.
    pub fn of(platform: &Platform, costs: WakeCosts) -> Self {
        let cpus = platform.usable();
        let groups = |farthest: Affinity| -> Vec<CpuList> {
            let near = |a: Cpu, b: Cpu| platform.affinity(a, b) <= farthest;
            let group = |cpu| CpuList::new(cpus.iter().filter(|&other| near(cpu, other)));
            CpuGroups::new(cpus.iter().map(group)).iter().cloned().collect()
        };
        let (caches, mut inner) = (groups(Affinity::L3), groups(Affinity::L2));
        inner.retain(|it| it.len() > 1 && !caches.contains(it));
        Self { inner, ..Self::new(&caches, costs) }
    }

    /// CPUs in groups with a cache in common. No CPU is in two.
    pub fn new(groups: &[CpuList], costs: WakeCosts) -> Self {
        let cpus = CpuList::new(groups.iter().flat_map(CpuList::iter));
        Self { caches: Level::new(groups, &cpus), inner: Vec::new(), cpus, costs }
    }

    /// All CPUs.
    pub const fn cpus(&self) -> &CpuList {
        &self.cpus
    }

    /// The groups with a cache in common.
    pub fn caches(&self) -> &[CpuList] {
        &self.caches.groups
    }

    /// CPUs with an inner cache in common, where that is not the last level.
    pub fn inner(&self) -> &[CpuList] {
        &self.inner
    }

    /// The costs of wake-ups.
    pub const fn costs(&self) -> WakeCosts {
        self.costs
    }

    /// The group of a CPU, by its place in [`Self::caches`].
    pub fn cache_of(&self, cpu: Cpu) -> Option<usize> {
        let group = self.caches.of.get(cpu.0 as usize).copied();
        group.filter(|&it| it != usize::MAX)
    }

    /// The cost of a wake-up between two CPUs, in nanoseconds.
    pub fn between(&self, a: Cpu, b: Cpu) -> f64 {
        if a == b {
            return self.costs.same_cpu_ns;
        }
        let near = self.cache_of(a).is_some() && self.cache_of(a) == self.cache_of(b);
        if near { self.costs.shared_cache_ns } else { self.costs.separate_ns }
    }

    /// A list of CPUs, with the number of them in each cache.
    pub fn region(&self, cpus: CpuList) -> Region {
        let mut within = vec![0.0; self.caches.groups.len()];
        cpus.iter().filter_map(|cpu| self.cache_of(cpu)).for_each(|group| within[group] += 1.0);
        Region { cpus, within }
    }

    /// The mean cost of a wake-up, in nanoseconds, where each thread runs on some CPU of its region.
    pub fn expected(&self, a: &Region, b: &Region) -> f64 {
        let size = (a.cpus.len() * b.cpus.len()) as f64;
        if size == 0.0 {
            return self.costs.separate_ns;
        }
        // Of the pairs, so many are one CPU, and so many lie in one group.
        let same = a.cpus.intersection(&b.cpus).len() as f64;
        let near: f64 = a.within.iter().zip(&b.within).map(|(n, m)| n * m).sum();
        let costs = same * self.costs.same_cpu_ns
            + (near - same) * self.costs.shared_cache_ns
            + (size - near) * self.costs.separate_ns;
        costs / size
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const COSTS: WakeCosts =
        WakeCosts { same_cpu_ns: 2_000.0, shared_cache_ns: 6_000.0, separate_ns: 10_000.0 };

    pub(crate) fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "sums of whole numbers")]
    fn a_wake_up_costs_what_its_distance_costs_and_the_mean_over_lists_of_cpus() {
        let terrain = Terrain::new(&[list("0-1"), list("2-3")], COSTS);
        let cpu = Cpu;
        let expected = |a, b| terrain.expected(&terrain.region(list(a)), &terrain.region(list(b)));
        assert_eq!(terrain.between(cpu(0), cpu(0)), 2_000.0);
        assert_eq!(terrain.between(cpu(0), cpu(1)), 6_000.0);
        assert_eq!(terrain.between(cpu(1), cpu(2)), 10_000.0);
        // Twice one CPU, twice its neighbour.
        assert_eq!(expected("0-1", "0-1"), 4_000.0);
        assert_eq!(expected("0-3", "0-3"), 7_000.0);
        assert_eq!(expected("0", "2-3"), 10_000.0);
    }
}
