// SPDX-License-Identifier: MIT OR Apache-2.0
//! The affinity of two CPUs, which determines the class of a migration (Bastoni, Brandenburg and Anderson, OSPERT 2010,
//! section 2).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Cache, CpuGroups, Platform};
use crate::units::{Cpu, CpuList};
use crate::words::words;

/// The innermost cache for data, or the core, that two CPUs share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Affinity {
    /// The two CPUs are one CPU.
    SameCpu,
    /// The two CPUs are SMT siblings of one core.
    Smt,
    /// The two CPUs share a level-2 (or level-1) cache, but no core.
    L2,
    /// The innermost cache that the two CPUs share is a level-3 (or outer) cache.
    L3,
    /// The two CPUs share no cache.
    Memory,
}

impl Affinity {
    /// All affinities of two CPUs, nearest first.
    pub const ALL: [Self; 5] = [Self::SameCpu, Self::Smt, Self::L2, Self::L3, Self::Memory];

    /// Returns the word for the event of resuming on a CPU of this affinity, in sample rows and summary tables.
    pub fn event(self) -> &'static str {
        match self {
            Self::SameCpu => "preemption",
            Self::Smt => "smt_migration",
            Self::L2 => "l2_migration",
            Self::L3 => "l3_migration",
            Self::Memory => "memory_migration",
        }
    }
    /// Returns a clause that says why no pair of this affinity exists among `these` ("two CPUs", "two usable CPUs").
    fn absence(self, these: &str) -> String {
        match self {
            Self::SameCpu => "no CPU is usable".to_owned(),
            Self::Smt => format!("no {these} share a core"),
            Self::L2 => format!("no {these} of different cores share a level-2 cache"),
            Self::L3 => {
                format!("no {these} have a level-3 cache as the innermost cache that they share")
            }
            Self::Memory => format!("every {these} share a cache"),
        }
    }
}

words! {
    /// The way in which memory is attached to the packages.
    MemoryArchitecture, "a memory architecture" {
        /// The machine has several packages and one memory, equally far from all packages.
        Uma = "uma",
        /// The machine has several NUMA nodes, each with its own memory.
        Numa = "numa",
        /// The machine has one package and one NUMA node.
        SingleSocket = "single_socket",
    }
}

/// A class to which no pair of usable CPUs belongs, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingClass {
    /// The affinity of the missing class.
    pub affinity: Affinity,
    /// The reason why the class cannot be measured, as a clause such as "no two usable CPUs share a core".
    pub why: String,
}

impl Platform {
    /// Returns the affinity of `from` and `to`: the innermost cache or core that they share. A CPU that the platform
    /// does not know shares nothing.
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

    /// Returns the usable CPUs grouped by their affinity to `from`, nearest first; empty groups are left out.
    pub fn classes(&self, from: Cpu) -> Vec<(Affinity, CpuList)> {
        let usable = self.usable();
        let class = |affinity| {
            CpuList::new(usable.iter().filter(|&to| self.affinity(from, to) == affinity))
        };
        let classes = Affinity::ALL.map(|affinity| (affinity, class(affinity)));
        classes.into_iter().filter(|(_, cpus)| !cpus.is_empty()).collect()
    }

    /// Returns the classes to which no pair of usable CPUs belongs.
    pub fn missing_classes(&self) -> Vec<MissingClass> {
        let usable = self.usable();
        Affinity::ALL
            .into_iter()
            .filter(|&affinity| self.pair(&usable, affinity).is_none())
            .map(|affinity| MissingClass { affinity, why: self.why_missing(affinity) })
            .collect()
    }

    /// Returns the first pair of `cpus` that has this affinity.
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

    /// Returns the reason why no usable pair has this affinity: the machine has no such pair, or the CPUs of its pairs
    /// are not usable.
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
            return format!("the statement which CPUs share the L{level} is contradicted");
        }
        affinity.absence("two CPUs")
    }

    /// Returns the level of a cache that would give pairs this affinity if the statement of its sharers were not
    /// contradicted.
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

/// Returns the first pair of `cpus` that shares a group of `within` but no group of `nearer`. The function takes
/// `n log n` steps if the groups are nested, as a machine's groups are.
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

/// Returns the first pair of `cpus` that shares no group.
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

/// Returns whether a group that contains `cpu` contains all of `cpus`.
fn covers(groups: &CpuGroups, cpu: Cpu, cpus: &CpuList) -> bool {
    let mut all = groups.all_containing(cpu).map(|(_, group)| group);
    all.any(|group| group.len() >= cpus.len() && cpus.iter().all(|it| group.contains(it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the pairs of an affinity by its definition.
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
