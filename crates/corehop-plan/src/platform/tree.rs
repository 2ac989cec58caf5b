// SPDX-License-Identifier: MIT OR Apache-2.0
//! The topology of a machine as nested boxes: nodes, packages, caches, cores and CPUs, in any order of nesting.

use std::collections::BTreeSet;

use super::{Cache, CacheKind, CpuGroups, Node, Platform};
use crate::units::{Cpu, CpuList};

/// A part of a machine that a set of CPUs shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyDomain<'a> {
    /// The domain is the whole machine.
    Machine,
    /// The domain is a NUMA node.
    Node(&'a Node),
    /// The domain is a package, given as an index into [`Platform::packages`].
    Package(usize),
    /// The domain is an instance of a cache.
    Cache(&'a Cache),
    /// The domain is a core, given as an index into [`Platform::cores`].
    Core(usize),
    /// The domain is a CPU.
    Cpu(Cpu),
}

/// A set of CPUs with the parts that exactly these CPUs share, and the smaller sets inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingDomain<'a> {
    /// All parts of the machine that exactly the CPUs of this set share, outermost first.
    pub parts: Vec<TopologyDomain<'a>>,
    /// The online CPUs of the set.
    pub cpus: CpuList,
    /// The next smaller sets of CPUs.
    pub inside: Vec<SharingDomain<'a>>,
}

/// A way to divide CPUs: each group of CPUs with the part that the group shares.
type Division<'a> = Vec<(TopologyDomain<'a>, &'a CpuList)>;

impl Platform {
    /// Returns the topology of the machine as nested boxes: the outermost box is the machine, the innermost boxes are
    /// CPUs.
    ///
    /// A level that divides nothing further is merged into the box around it, so that a package which is also a node is
    /// one box with two parts.
    pub fn tree(&self) -> SharingDomain<'_> {
        let cpus = self.online().clone();
        let levels: Vec<DivisionLevel<'_>> =
            self.divisions().into_iter().map(DivisionLevel::of).collect();
        let inside = blocks(&cpus, &levels);
        SharingDomain { parts: vec![TopologyDomain::Machine], cpus, inside }
    }

    fn divisions(&self) -> Vec<Division<'_>> {
        let nodes: Division<'_> =
            self.nodes.iter().map(|node| (TopologyDomain::Node(node), &node.cpus.value)).collect();
        let packages = numbered(&self.packages.value, TopologyDomain::Package);
        // A node of several packages is outside them; several nodes in a package are inside it.
        let mut divisions = if nodes.len() > packages.len() {
            vec![packages, nodes]
        } else {
            vec![nodes, packages]
        };
        let mut levels: Vec<_> =
            self.caches.iter().map(|cache| (cache.level, cache.kind)).collect();
        levels.sort_unstable_by_key(|&(level, kind)| (std::cmp::Reverse(level), kind));
        levels.dedup();
        let (outer, inner): (Vec<_>, Vec<_>) =
            levels.into_iter().partition(|&(level, _)| level > 1);
        for level in outer {
            // A cache that spans packages or nodes is outside them, so that each instance is one box.
            let caches = self.instances(level);
            let torn = divisions.iter().position(|it| tears(it, &caches));
            divisions.insert(torn.unwrap_or(divisions.len()), caches);
        }
        divisions.push(numbered(&self.cores.value, TopologyDomain::Core));
        divisions.extend(inner.into_iter().map(|level| self.instances(level)));
        divisions
    }

    /// Returns the instances of all caches of one level and kind; a machine with two kinds of core has two such caches.
    fn instances(&self, level: (u32, CacheKind)) -> Division<'_> {
        let caches = self.caches.iter().filter(|cache| (cache.level, cache.kind) == level);
        let instance = |cache| move |cpus| (TopologyDomain::Cache(cache), cpus);
        caches.flat_map(|cache| cache.instances.value.iter().map(instance(cache))).collect()
    }
}

fn numbered(groups: &CpuGroups, part: fn(usize) -> TopologyDomain<'static>) -> Division<'_> {
    groups.iter().enumerate().map(|(place, cpus)| (part(place), cpus)).collect()
}

/// Returns whether a part of the machine that is not a cache contains only some of the CPUs of a cache instance.
fn tears(division: &Division<'_>, caches: &Division<'_>) -> bool {
    let is_cache =
        division.first().is_some_and(|(part, _)| matches!(part, TopologyDomain::Cache(_)));
    let groups = |it: &Division<'_>| CpuGroups::new(it.iter().map(|&(_, cpus)| cpus.clone()));
    !is_cache && groups(caches).straddling(&groups(division)).is_some()
}

/// A division of the CPUs, with an index from each CPU to its groups.
struct DivisionLevel<'a> {
    division: Division<'a>,
    /// The places list each CPU with the indices of its groups, ascending; a large machine has too many groups for a
    /// linear search.
    places: Vec<(Cpu, usize)>,
}

impl<'a> DivisionLevel<'a> {
    fn of(division: Division<'a>) -> Self {
        let of =
            |(place, (_, group)): (usize, &(TopologyDomain<'_>, &CpuList))| -> Vec<(Cpu, usize)> {
                group.iter().map(|cpu| (cpu, place)).collect()
            };
        let mut places: Vec<_> = division.iter().enumerate().flat_map(of).collect();
        places.sort_unstable();
        Self { division, places }
    }

    /// Returns the groups that contain any of the given CPUs, in the order of the division.
    fn groups(
        &self,
        cpus: &CpuList,
    ) -> impl Iterator<Item = (TopologyDomain<'a>, &'a CpuList)> + '_ {
        let of = |cpu| {
            let first = self.places.partition_point(|&(other, _)| other < cpu);
            self.places[first..].iter().take_while(move |(other, _)| *other == cpu)
        };
        let places: BTreeSet<usize> = cpus.iter().flat_map(of).map(|&(_, place)| place).collect();
        places.into_iter().map(|place| self.division[place])
    }
}

/// Returns the boxes into which the first division divides `cpus`, where the remaining divisions divide each box
/// further. CPUs that the first division does not contain are passed on to the next division.
fn blocks<'a>(cpus: &CpuList, levels: &[DivisionLevel<'a>]) -> Vec<SharingDomain<'a>> {
    let Some((first, rest)) = levels.split_first() else {
        return cpus.iter().map(leaf).collect();
    };
    if cpus.is_empty() {
        return Vec::new();
    }
    let mut left: BTreeSet<Cpu> = cpus.iter().collect();
    let mut found = Vec::new();
    for (part, group) in first.groups(cpus) {
        // The smaller one has fewer to go through.
        let both = if group.len() < cpus.len() { group } else { cpus };
        let here = |cpu: &Cpu| group.contains(*cpu) && left.remove(cpu);
        let group = CpuList::new(both.iter().filter(here));
        if !group.is_empty() {
            found.push(merged(part, group.clone(), blocks(&group, rest)));
        }
    }
    found.extend(blocks(&CpuList::new(left), rest));
    found.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    found
}

fn leaf<'a>(cpu: Cpu) -> SharingDomain<'a> {
    SharingDomain {
        parts: vec![TopologyDomain::Cpu(cpu)],
        cpus: CpuList::new([cpu]),
        inside: Vec::new(),
    }
}

/// Makes a box that has the part `part`. If the only box inside has the same CPUs and is not a single CPU, the function
/// adds the part to that inner box instead.
fn merged<'a>(
    part: TopologyDomain<'a>,
    cpus: CpuList,
    mut inside: Vec<SharingDomain<'a>>,
) -> SharingDomain<'a> {
    match inside.pop() {
        Some(mut only) if inside.is_empty() && !only.inside.is_empty() => {
            // A core is named before the caches that it has for itself.
            let own = matches!(
                (part, only.parts[0]),
                (TopologyDomain::Cache(_), TopologyDomain::Core(_))
            );
            only.parts.insert(usize::from(own), part);
            only
        }
        last => {
            inside.extend(last);
            SharingDomain { parts: vec![part], cpus, inside }
        }
    }
}

impl SharingDomain<'_> {
    /// Returns whether two boxes are alike except for their CPUs and the numbers of their parts.
    pub fn resembles(&self, other: &Self) -> bool {
        let alike = |(a, b): (&TopologyDomain<'_>, &TopologyDomain<'_>)| match (a, b) {
            // Mostly one cache of the description, whose instances take long to compare on a large machine.
            (TopologyDomain::Cache(a), TopologyDomain::Cache(b)) => std::ptr::eq(*a, *b) || a == b,
            _ => std::mem::discriminant(a) == std::mem::discriminant(b),
        };
        self.parts.len() == other.parts.len()
            && self.inside.len() == other.inside.len()
            && self.parts.iter().zip(&other.parts).all(alike)
            && self.inside.iter().zip(&other.inside).all(|(a, b)| a.resembles(b))
    }
    /// Returns whether the box is a core, or shares a box with a core.
    pub fn is_core(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TopologyDomain::Core(_)))
    }
}
