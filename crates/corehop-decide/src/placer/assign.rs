// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes a placement from ties and loads: clusters of threads under capacity limits, innermost level first.
//!
//! Ties between threads are processed in the order of their rates. A tie first joins threads that fit onto one CPU
//! together, then threads that fit below one cache. The method is single-linkage clustering with a bound, as in Tam,
//! Azimi and Stumm, "Thread Clustering", EuroSys 2007, section 4.4, on other evidence. Clusters go where most of
//! their threads already are. A cluster moves to another cache if its ties to clusters there weigh more. A thread
//! without a tie is not placed; the kernel continues to schedule it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::regions::{CpuRegion, Regions};
use super::terrain::{Ran, SIBLING, Terrain};
use corehop_plan::units::{Cpu, CpuList};

mod savings;

pub use savings::saved;
pub(super) use savings::{changes, gainful, savable};

/// A thread that may be placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrowdMember {
    /// The share of a CPU that the thread uses.
    pub busy: f64,
    /// The thread's working set, in bytes; 0 if unknown.
    pub bytes: f64,
    /// The CPUs that the thread may run on, as an index into [`Crowd::lists`].
    pub list: usize,
}

/// Two members that wake each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bond {
    /// The first member, as an index into [`Crowd::members`].
    pub a: usize,
    /// The second member, as an index into [`Crowd::members`].
    pub b: usize,
    /// The wake-ups per second, in both directions.
    pub wakes: f64,
    /// The cache lines that one member takes over from the other without a wake-up, per second.
    pub lines: f64,
    /// The distances at which both members ran; `None` if the host does not report CPUs. Without reported CPUs, both
    /// members are assumed to run anywhere in their allowed CPUs.
    pub ran: Option<Ran>,
}

impl Bond {
    /// The CPU time per second that the tie costs, in CPUs, if a wake-up and a line cost these nanoseconds.
    fn cost(&self, (wake, line): (f64, f64)) -> f64 {
        (self.wakes * wake + self.lines * line) * 1e-9
    }
}

/// Threads and the ties between them.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    /// Distinct lists of CPUs.
    pub lists: Vec<CpuList>,
    /// The threads of the crowd.
    pub members: Vec<CrowdMember>,
    /// The ties between the threads.
    pub bonds: Vec<Bond>,
}

/// Members that should run on a list of CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadCluster {
    /// The indexes of the members, ascending.
    pub members: Vec<usize>,
    /// The CPUs on which the members should run.
    pub cpus: CpuList,
}

/// A proposed placement of clusters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementProposal {
    /// The clusters with their target CPUs. Members in no cluster are not moved.
    pub placed: Vec<ThreadCluster>,
    /// The CPU time per second that the placement is predicted to save, in CPUs.
    pub saved: f64,
}

/// The largest load of threads placed on one CPU, in CPUs. Threads that take turns can fill a CPU; the excess above 1
/// allows for measurement error.
const FULL_CPU: f64 = 1.05;
/// The largest load of a cache's CPUs, as a share of these CPUs.
const FULL_CACHE: f64 = 0.9;
/// The smallest CPU time that a tie must cost to be considered, in CPUs.
const LEAST_TIE: f64 = 1e-4;

/// The capacity that threads need, or that a CPU or cache has.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ResourceDemand {
    /// The CPU load, in CPUs.
    busy: f64,
    bytes: f64,
}

impl ResourceDemand {
    /// The capacity of a CPU, without a limit on data, because threads that take turns use a cache one after the
    /// other.
    const CPU: Self = Self { busy: FULL_CPU, bytes: f64::INFINITY };

    /// The capacity below a cache. A cache of unknown size has no limit on data.
    fn below(terrain: &Terrain, cache: usize) -> Self {
        let bytes = terrain.size(cache).map_or(f64::INFINITY, |it| it.get() as f64);
        Self { busy: FULL_CACHE * terrain.capacity(cache), bytes }
    }

    fn and(self, other: Self) -> Self {
        Self { busy: self.busy + other.busy, bytes: self.bytes + other.bytes }
    }

    fn without(self, other: Self) -> Self {
        Self { busy: self.busy - other.busy, bytes: self.bytes - other.bytes }
    }

    fn holds(self, other: Self) -> bool {
        other.busy <= self.busy && other.bytes <= self.bytes
    }

    /// The larger value of each field.
    fn or(self, other: Self) -> Self {
        Self { busy: self.busy.max(other.busy), bytes: self.bytes.max(other.bytes) }
    }
}

/// Joined sets of numbers (disjoint-set forest with path halving, by weight).
struct DisjointSets {
    parent: Vec<usize>,
    takes: Vec<ResourceDemand>,
    /// The region number of the CPUs that all members of a set may use.
    allowed: Vec<usize>,
}

impl DisjointSets {
    fn new(takes: Vec<ResourceDemand>, allowed: Vec<usize>) -> Self {
        Self { parent: (0..takes.len()).collect(), takes, allowed }
    }

    fn find(&mut self, mut it: usize) -> usize {
        while self.parent[it] != it {
            self.parent[it] = self.parent[self.parent[it]];
            it = self.parent[it];
        }
        it
    }

    /// Joins the sets of `a` and `b` if there is capacity for both and they have an allowed CPU in common.
    fn join(&mut self, a: usize, b: usize, room: ResourceDemand, regions: &mut Regions<'_>) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b || !room.holds(self.takes[a].and(self.takes[b])) {
            return;
        }
        let common = regions.common(self.allowed[a], self.allowed[b]);
        if regions.get(common).cpus.is_empty() {
            return;
        }
        // The lower number stays, so that the result does not depend on the order of equal ties.
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high] = low;
        self.takes[low] = self.takes[low].and(self.takes[high]);
        self.allowed[low] = common;
    }

    /// The number of each element's set, counted from 0 in the order of first members, and the roots of the sets.
    fn numbered(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut number, mut roots) = (vec![usize::MAX; self.parent.len()], Vec::new());
        let sets = (0..self.parent.len()).map(|thread| {
            let root = self.find(thread);
            if number[root] == usize::MAX {
                number[root] = roots.len();
                roots.push(root);
            }
            number[root]
        });
        let sets = sets.collect();
        (sets, roots)
    }
}

/// Returns the best placement found; empty if no placement saves CPU time.
pub fn assign(crowd: &Crowd, terrain: &Terrain) -> PlacementProposal {
    ClusterAssignment::new(crowd, terrain).placement()
}

struct ClusterAssignment<'a> {
    crowd: &'a Crowd,
    terrain: &'a Terrain,
    regions: Regions<'a>,
    /// The relevant ties, the strongest first.
    bonds: Vec<Bond>,
    /// For each member, its cluster that fits onto one CPU.
    cluster: Vec<usize>,
    /// The capacity that each cluster needs.
    takes: Vec<ResourceDemand>,
    /// The region number of the CPUs that all members of a cluster may use.
    allowed: Vec<usize>,
}

impl<'a> ClusterAssignment<'a> {
    fn new(crowd: &'a Crowd, terrain: &'a Terrain) -> Self {
        let (costs, spread) = (terrain.costs(), terrain.spread());
        let weighed = crowd.bonds.iter().map(|it| (it.cost(spread), *it));
        let mut bonds: Vec<(f64, Bond)> = weighed.filter(|(cost, _)| *cost >= LEAST_TIE).collect();
        bonds.sort_unstable_by(|(x_cost, x), (y_cost, y)| {
            y_cost.total_cmp(x_cost).then((x.a, x.b).cmp(&(y.a, y.b)))
        });
        let bonds: Vec<Bond> = bonds.into_iter().map(|(_, it)| it).collect();
        let mut regions = Regions::new(terrain);
        let lists: Vec<usize> = crowd.lists.iter().map(|it| regions.number(it)).collect();
        let mut sets = DisjointSets::new(
            crowd
                .members
                .iter()
                .map(|it| ResourceDemand { busy: it.busy, bytes: it.bytes })
                .collect(),
            crowd.members.iter().map(|it| lists[it.list]).collect(),
        );
        if costs.same_cpu_ns < costs.shared_cache_ns {
            for it in &bonds {
                sets.join(it.a, it.b, ResourceDemand::CPU, &mut regions);
            }
        }
        let (cluster, roots) = sets.numbered();
        let takes = roots.iter().map(|&it| sets.takes[it]).collect();
        let allowed = roots.iter().map(|&it| sets.allowed[it]).collect();
        Self { crowd, terrain, regions, bonds, cluster, takes, allowed }
    }

    fn placement(&mut self) -> PlacementProposal {
        let tied = self.tied();
        let caches = self.caches(&tied);
        let lists = self.cpus(&tied, &caches);
        let mut members = vec![Vec::new(); lists.len()];
        for (member, &cluster) in self.cluster.iter().enumerate() {
            members[cluster].push(member);
        }
        let all = self.terrain.cpus().len();
        let placed = lists.into_iter().zip(members).filter_map(|(cpus, members)| {
            let cpus = cpus.filter(|it| !it.is_empty() && it.len() < all)?;
            let unchanged =
                members.iter().all(|&it| self.crowd.lists[self.crowd.members[it].list] == cpus);
            (!unchanged).then_some(ThreadCluster { members, cpus })
        });
        let placed: Vec<ThreadCluster> = placed.collect();
        let saved = saved(self.crowd, self.terrain, &placed);
        if saved > 0.0 { PlacementProposal { placed, saved } } else { PlacementProposal::default() }
    }

    /// Marks the clusters that have a tie, or more than one member.
    fn tied(&self) -> Vec<bool> {
        let mut tied = vec![false; self.takes.len()];
        for it in &self.bonds {
            tied[self.cluster[it.a]] = true;
            tied[self.cluster[it.b]] = true;
        }
        tied
    }

    /// The cache of each cluster.
    fn caches(&mut self, tied: &[bool]) -> Vec<Option<usize>> {
        let caches = 0..self.terrain.caches().len();
        let mut free: Vec<ResourceDemand> =
            caches.map(|it| ResourceDemand::below(self.terrain, it)).collect();
        let Some(largest) = free.iter().copied().reduce(ResourceDemand::or) else {
            return vec![None; self.takes.len()];
        };
        let mut sets = DisjointSets::new(self.takes.clone(), self.allowed.clone());
        for it in &self.bonds {
            let (a, b) = (self.cluster[it.a], self.cluster[it.b]);
            sets.join(a, b, largest, &mut self.regions);
        }
        let (group, roots) = sets.numbered();
        let mut clusters = vec![Vec::new(); roots.len()];
        for (cluster, &group) in group.iter().enumerate() {
            clusters[group].push(cluster);
        }
        clusters.retain(|it| it.iter().any(|&it| tied[it]));
        let busy = |it: &[usize]| self.taken(it).busy;
        clusters.sort_by(|x, y| busy(y).total_cmp(&busy(x)).then(x[0].cmp(&y[0])));
        let near = self.neighbours();
        let mut caches = vec![None; self.takes.len()];
        let mut pull = Pull::new(self.terrain);
        for at in self.order(&clusters, &near) {
            let group = &clusters[at];
            pull.set(group.iter().flat_map(|&it| &near[it]), &caches);
            let Some(cache) = self.best_cache(group, &free, &pull) else { continue };
            free[cache] = free[cache].without(self.taken(group));
            for &cluster in group {
                caches[cluster] = Some(cache);
            }
        }
        self.change_caches(&mut caches, &mut free, &near);
        caches
    }

    /// The order in which groups of clusters get a cache. On a host with several nodes, the group with the strongest
    /// ties to an earlier group comes next, so that the node of the earlier group still has capacity.
    fn order(&self, groups: &[Vec<usize>], near: &[Neighbours]) -> Vec<usize> {
        if self.terrain.nodes() < 2 {
            return (0..groups.len()).collect();
        }
        let mut group_of = vec![usize::MAX; self.takes.len()];
        for (at, group) in groups.iter().enumerate() {
            for &cluster in group {
                group_of[cluster] = at;
            }
        }
        let (mut order, mut known) = (Vec::new(), vec![false; groups.len()]);
        for first in 0..groups.len() {
            let mut next = BinaryHeap::from([(0, Reverse(first))]);
            while let Some((_, Reverse(at))) = next.pop() {
                if std::mem::replace(&mut known[at], true) {
                    continue;
                }
                order.push(at);
                for (other, [_, by_node]) in groups[at].iter().flat_map(|&it| &near[it]) {
                    let other = group_of[*other];
                    if other != usize::MAX && !known[other] && *by_node > 0.0 {
                        // Positive numbers are in the order of their bits.
                        next.push((by_node.to_bits(), Reverse(other)));
                    }
                }
            }
        }
        order
    }

    /// The capacity that the given clusters need.
    fn taken(&self, clusters: &[usize]) -> ResourceDemand {
        let none = ResourceDemand { busy: 0.0, bytes: 0.0 };
        clusters.iter().fold(none, |sum, &it| sum.and(self.takes[it]))
    }

    /// The cache to which the ties of these clusters lead, or on which most of the clusters may already run; the cache
    /// has capacity for all of them.
    fn best_cache(
        &self,
        clusters: &[usize],
        free: &[ResourceDemand],
        pull: &Pull<'_>,
    ) -> Option<usize> {
        let taken = self.taken(clusters);
        let present = |cache: usize| -> f64 {
            let share = |&it: &usize| {
                let region = self.allowed_in(it);
                self.takes[it].busy * region.within[cache] / region.cpus.len().max(1) as f64
            };
            clusters.iter().map(share).sum()
        };
        let may = |&cache: &usize| {
            free[cache].holds(taken)
                && clusters.iter().all(|&it| self.allowed_in(it).within[cache] > 0.0)
        };
        let caches = (0..free.len()).filter(may).map(|it| (it, present(it)));
        let better = |&(x, present_x): &(usize, f64), &(y, present_y): &(usize, f64)| {
            let by_ties = pull.of(x).total_cmp(&pull.of(y));
            by_ties
                .then(present_x.total_cmp(&present_y))
                .then(free[x].busy.total_cmp(&free[y].busy))
                .then(y.cmp(&x))
        };
        caches.max_by(better).map(|(cache, _)| cache)
    }

    /// The CPUs that all members of a cluster may use.
    fn allowed_in(&self, cluster: usize) -> &CpuRegion {
        self.regions.get(self.allowed[cluster])
    }

    /// Moves each cluster, in two passes, to the cache (or at least the node) to which its ties lead, if there is
    /// capacity.
    fn change_caches(
        &self,
        caches: &mut [Option<usize>],
        free: &mut [ResourceDemand],
        near: &[Neighbours],
    ) {
        if free.len() < 2 {
            return;
        }
        let mut pull = Pull::new(self.terrain);
        for _ in 0..2 {
            for cluster in 0..caches.len() {
                let Some(now) = caches[cluster] else { continue };
                pull.set(&near[cluster], caches);
                let takes = self.takes[cluster];
                let may =
                    |to: usize| free[to].holds(takes) && self.allowed_in(cluster).within[to] > 0.0;
                if let Some(to) =
                    pull.strongest().filter(|&to| pull.of(to) > pull.of(now) && may(to))
                {
                    free[now] = free[now].and(takes);
                    free[to] = free[to].without(takes);
                    caches[cluster] = Some(to);
                }
            }
        }
    }

    /// For each cluster, the clusters that it has ties to, with the savings from a common cache and from a common
    /// node.
    fn neighbours(&self) -> Vec<Neighbours> {
        let steps = self.terrain.steps();
        let mut near = vec![Vec::new(); self.takes.len()];
        for it in &self.bonds {
            let (a, b) = (self.cluster[it.a], self.cluster[it.b]);
            if a != b {
                let gains = steps.map(|step| it.cost(step));
                near[a].push((b, gains));
                near[b].push((a, gains));
            }
        }
        near
    }

    /// The CPUs of each cluster: one CPU if its members gain by sharing it, otherwise the CPUs of its cache.
    fn cpus(&mut self, tied: &[bool], caches: &[Option<usize>]) -> Vec<Option<CpuList>> {
        let mut sizes = vec![0_usize; self.takes.len()];
        self.cluster.iter().for_each(|&it| sizes[it] += 1);
        let everywhere = self.regions.number(self.terrain.cpus());
        let groups: Vec<usize> =
            self.terrain.caches().iter().map(|it| self.regions.number(it)).collect();
        let mut load = TerrainLoad::new(self.terrain);
        let busy = |cluster: usize| self.takes[cluster].busy;
        let mut lists = vec![None; self.takes.len()];
        let mut order: Vec<usize> = (0..self.takes.len()).filter(|&it| tied[it]).collect();
        order.sort_by(|&x, &y| busy(y).total_cmp(&busy(x)).then(x.cmp(&y)));
        for cluster in order {
            // Without a cache there is none with room for all that it is tied to.
            let group = caches[cluster].map_or(everywhere, |cache| groups[cache]);
            let allowed = self.regions.common(self.allowed[cluster], group);
            let allowed = &self.regions.get(allowed).cpus;
            let least = |x: &Cpu, y: &Cpu| load.on(*x).total_cmp(&load.on(*y)).then(x.cmp(y));
            lists[cluster] = match allowed.iter().min_by(least) {
                Some(cpu) if sizes[cluster] > 1 => {
                    load.add(cpu, busy(cluster));
                    Some(CpuList::new([cpu]))
                }
                _ => caches[cluster].map(|_| allowed.clone()),
            };
        }
        lists
    }
}

/// The clusters to which a cluster has ties, with the savings from a common cache and from a common node.
type Neighbours = Vec<(usize, [f64; 2])>;

/// The total savings of a cluster's ties in each cache, and in each node.
struct Pull<'t> {
    terrain: &'t Terrain,
    caches: Vec<f64>,
    nodes: Vec<f64>,
}

impl<'t> Pull<'t> {
    fn new(terrain: &'t Terrain) -> Self {
        let (caches, nodes) = (terrain.caches().len(), terrain.nodes());
        Self { terrain, caches: vec![0.0; caches], nodes: vec![0.0; nodes] }
    }

    /// Adds up the savings towards clusters that have a cache.
    fn set<'a>(
        &mut self,
        near: impl IntoIterator<Item = &'a (usize, [f64; 2])>,
        caches: &[Option<usize>],
    ) {
        self.caches.fill(0.0);
        self.nodes.fill(0.0);
        for (other, gains) in near {
            caches[*other].into_iter().for_each(|cache| self.add(cache, *gains));
        }
    }

    fn add(&mut self, cache: usize, [by_cache, by_node]: [f64; 2]) {
        self.caches[cache] += by_cache;
        self.terrain.node_of(cache).into_iter().for_each(|node| self.nodes[node] += by_node);
    }

    fn of(&self, cache: usize) -> f64 {
        self.caches[cache] + self.terrain.node_of(cache).map_or(0.0, |node| self.nodes[node])
    }

    fn strongest(&self) -> Option<usize> {
        (0..self.caches.len()).max_by(|&x, &y| self.of(x).total_cmp(&self.of(y)))
    }
}

/// The load of each CPU, by its number. The load of an SMT sibling counts in part.
struct TerrainLoad<'t> {
    terrain: &'t Terrain,
    own: Vec<f64>,
}

impl<'t> TerrainLoad<'t> {
    fn new(terrain: &'t Terrain) -> Self {
        let last = terrain.cpus().iter().map(|cpu| cpu.0 as usize).max().unwrap_or(0);
        Self { terrain, own: vec![0.0; last + 1] }
    }

    fn add(&mut self, cpu: Cpu, busy: f64) {
        self.own[cpu.0 as usize] += busy;
    }

    fn on(&self, cpu: Cpu) -> f64 {
        let siblings = self.terrain.siblings(cpu).into_iter().flat_map(CpuList::iter);
        let others = siblings.filter(|&it| it != cpu).filter_map(|it| self.own.get(it.0 as usize));
        self.own[cpu.0 as usize] + SIBLING * others.sum::<f64>()
    }
}

#[cfg(test)]
mod tests;
