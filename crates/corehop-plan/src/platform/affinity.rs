// SPDX-License-Identifier: MIT OR Apache-2.0
//! The affinity of two CPUs: the classes of migrations (Bastoni, Brandenburg and Anderson, OSPERT
//! 2010, section 2).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Cache, CpuGroups, Platform};
use crate::units::{Cpu, CpuList};
use crate::words::words;

/// The innermost thing that two CPUs share, nearest first: a cache for data, or a whole core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Affinity {
    /// They are one CPU.
    SameCpu,
    /// They are SMT siblings: one core.
    Smt,
    /// A level-2 (or level-1) cache of two cores.
    L2,
    /// A level-3 (or outer) cache.
    L3,
    /// No cache.
    Memory,
}

impl Affinity {
    /// All of them, nearest first.
    pub const ALL: [Self; 5] = [Self::SameCpu, Self::Smt, Self::L2, Self::L3, Self::Memory];

    /// The name of resuming on a CPU of this class, in sample rows and summary tables.
    pub fn event(self) -> &'static str {
        match self {
            Self::SameCpu => "preemption",
            Self::Smt => "smt_migration",
            Self::L2 => "l2_migration",
            Self::L3 => "l3_migration",
            Self::Memory => "memory_migration",
        }
    }
    /// Why there is no such pair among `these` ("two CPUs", "two usable CPUs"), as a clause.
    fn absence(self, these: &str) -> String {
        match self {
            Self::SameCpu => "no CPU is usable".to_owned(),
            Self::Smt => format!("no {these} share a core"),
            Self::L2 => format!("no {these} of different cores share a level-2 cache"),
            Self::L3 => {
                format!("no {these} have a level-3 cache as the innermost one that they share")
            }
            Self::Memory => format!("every {these} share a cache"),
        }
    }
}

words! {
    /// The distance of memory from the packages.
    MemoryArchitecture, "a memory architecture" {
        /// The machine has several packages and one memory, equally far from all packages.
        Uma = "uma",
        /// The machine has several NUMA nodes, each with its own memory.
        Numa = "numa",
        /// The machine has one package and one NUMA node.
        SingleSocket = "single_socket",
    }
}

/// A class of CPU pairs that no two usable CPUs are in, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingClass {
    /// The class.
    pub affinity: Affinity,
    /// Why it cannot be measured, as a clause: "no two usable CPUs share a core".
    pub why: String,
}

impl Platform {
    /// The innermost thing that `from` and `to` share. A CPU that the platform does not know shares nothing.
    pub fn affinity(&self, from: Cpu, to: Cpu) -> Affinity {
        if from == to {
            return Affinity::SameCpu;
        }
        if self.cores.value.share(from, to) {
            return Affinity::Smt;
        }
        let shared =
            self.caches.iter().filter(|cache| cache.sharers().is_some_and(|it| it.share(from, to)));
        match shared.map(|cache| cache.level).min() {
            Some(..=2) => Affinity::L2,
            Some(_) => Affinity::L3,
            None => Affinity::Memory,
        }
    }

    /// The usable CPUs by what they share with `from`, nearest first; empty classes are left out.
    pub fn classes(&self, from: Cpu) -> Vec<(Affinity, CpuList)> {
        let usable = self.usable();
        let class = |affinity| {
            CpuList::new(usable.iter().filter(|&to| self.affinity(from, to) == affinity))
        };
        let classes = Affinity::ALL.map(|affinity| (affinity, class(affinity)));
        classes.into_iter().filter(|(_, cpus)| !cpus.is_empty()).collect()
    }

    /// The classes that no pair of usable CPUs is in.
    pub fn missing_classes(&self) -> Vec<MissingClass> {
        let usable = self.usable();
        Affinity::ALL
            .into_iter()
            .filter(|&affinity| self.pair(&usable, affinity).is_none())
            .map(|affinity| MissingClass { affinity, why: self.why_missing(affinity) })
            .collect()
    }

    /// The first pair of `cpus` in this class, if there is one.
    pub fn pair(&self, cpus: &CpuList, affinity: Affinity) -> Option<(Cpu, Cpu)> {
        let caches = |is_near: bool| -> Vec<&CpuGroups> {
            let level = self.caches.iter().filter(|it| (it.level <= 2) == is_near);
            level.filter_map(Cache::sharers).collect()
        };
        let cores = vec![&self.cores.value];
        match affinity {
            Affinity::SameCpu => cpus.first().map(|cpu| (cpu, cpu)),
            Affinity::Smt => together(cpus, &cores, &[]),
            Affinity::L2 => together(cpus, &caches(true), &cores),
            Affinity::L3 => together(cpus, &caches(false), &[cores, caches(true)].concat()),
            Affinity::Memory => apart(cpus, &[cores, caches(true), caches(false)].concat()),
        }
    }

    /// Whether the machine has no such pair at all, or has one that may not be used.
    fn why_missing(&self, affinity: Affinity) -> String {
        let usable = self.usable();
        // Of a CPU that is offline most hosts do not say what it shares.
        let placed = self.cores.value.cpus();
        if let Some((a, b)) = self.pair(&placed, affinity) {
            let idle = if usable.contains(a) { b } else { a };
            let state = if self.online().contains(idle) { "not allowed to us" } else { "offline" };
            return format!("{}; {idle} is {state}", affinity.absence("two usable CPUs"));
        }
        if usable.len() < 2 {
            return format!("only {} CPU is usable", usable.len());
        }
        if let Some(level) = self.doubted(affinity) {
            return format!("who shares the L{level} is contradicted");
        }
        affinity.absence("two CPUs")
    }

    /// The level of a cache that would make pairs of this class if the statement of its sharers were not contradicted.
    fn doubted(&self, affinity: Affinity) -> Option<u32> {
        let of_class = |cache: &&Cache| match affinity {
            Affinity::L2 => cache.level <= 2,
            Affinity::L3 => cache.level > 2,
            _ => false,
        };
        let doubted =
            self.caches.iter().filter(|it| it.holds_data() && it.instances.is_contradicted());
        doubted.filter(of_class).map(|cache| cache.level).max()
    }
}

/// The first pair of `cpus` that shares a group of `within` and none of `nearer`. Takes `n log n` steps where groups lie in
/// each other, as those of a machine do.
fn together(cpus: &CpuList, within: &[&CpuGroups], nearer: &[&CpuGroups]) -> Option<(Cpu, Cpu)> {
    // Groups that lie in one nearer group: no CPU of theirs has such a partner.
    let mut without = BTreeSet::new();
    cpus.iter().find_map(|from| {
        let is_far = |to: &Cpu| {
            *to != from && cpus.contains(*to) && !nearer.iter().any(|it| it.share(from, *to))
        };
        let mut nearest = None;
        for (level, groups) in within.iter().enumerate() {
            for (number, group) in groups.all_containing(from) {
                if without.contains(&(level, number)) {
                    continue;
                }
                match group.iter().find(is_far) {
                    Some(to) => nearest = Some(nearest.map_or(to, |it: Cpu| it.min(to))),
                    None if nearer.iter().any(|it| covers(it, from, group)) => {
                        without.insert((level, number));
                    }
                    None => {}
                }
            }
        }
        nearest.map(|to| (from, to))
    })
}

/// The first pair of `cpus` that shares none of the groups.
fn apart(cpus: &CpuList, groups: &[&CpuGroups]) -> Option<(Cpu, Cpu)> {
    for from in cpus.iter() {
        let is_apart = |to: &Cpu| *to != from && !groups.iter().any(|it| it.share(from, *to));
        if let Some(to) = cpus.iter().find(is_apart) {
            return Some((from, to));
        }
        if groups.iter().any(|it| covers(it, from, cpus)) {
            return None;
        }
    }
    None
}

/// Whether one of the groups that `cpu` is in holds all of `cpus`.
fn covers(groups: &CpuGroups, cpu: Cpu, cpus: &CpuList) -> bool {
    let mut all = groups.all_containing(cpu).map(|(_, group)| group);
    all.any(|group| group.len() >= cpus.len() && cpus.iter().all(|it| group.contains(it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition.
    fn slowly(platform: &Platform, cpus: &CpuList, affinity: Affinity) -> Option<(Cpu, Cpu)> {
        let from = |from| cpus.iter().map(move |to| (from, to));
        cpus.iter().flat_map(from).find(|&(from, to)| platform.affinity(from, to) == affinity)
    }

    fn lists() -> impl Strategy<Value = Vec<Vec<u32>>> {
        proptest::collection::vec(proptest::collection::vec(0_u32..9, 1..5), 0..5)
    }

    fn groups(lists: &[Vec<u32>]) -> CpuGroups {
        CpuGroups::new(lists.iter().map(|list| CpuList::new(list.iter().copied().map(Cpu))))
    }

    proptest! {
        #[test]
        fn the_first_pair_of_each_class_is_that_of_the_definition(
            [cores, near, far] in [lists(), lists(), lists()],
            cpus in proptest::collection::vec(0_u32..10, 0..8),
        ) {
            let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
            platform.cores.value = groups(&cores);
            for cache in &mut platform.caches {
                cache.instances.value = groups(if cache.level <= 2 { &near } else { &far });
            }
            let cpus = CpuList::new(cpus.into_iter().map(Cpu));
            for affinity in Affinity::ALL {
                prop_assert_eq!(platform.pair(&cpus, affinity), slowly(&platform, &cpus, affinity));
            }
        }
    }
}
