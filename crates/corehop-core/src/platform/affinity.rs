// SPDX-License-Identifier: MIT OR Apache-2.0
//! The affinity of two CPUs: the classes of migrations (Bastoni, Brandenburg and Anderson, OSPERT
//! 2010, section 2).

use serde::{Deserialize, Serialize};

use super::{CacheKind, Platform};
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
        /// Several packages, one memory, equally far from all.
        Uma = "uma",
        /// Several nodes, each with memory of its own.
        Numa = "numa",
        /// One package, one node.
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
        let shared = self.caches.iter().filter(|cache| {
            cache.kind != CacheKind::Instruction && cache.instances.value.share(from, to)
        });
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
        let from = |from| cpus.iter().map(move |to| (from, to));
        cpus.iter().flat_map(from).find(|&(from, to)| self.affinity(from, to) == affinity)
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
        affinity.absence("two CPUs")
    }
}
