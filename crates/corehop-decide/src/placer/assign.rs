// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placement from ties and loads: clusters under capacity, innermost first.
//!
//! Ties are taken in the order of their rates. First they join threads that fit onto one CPU together, then those that fit
//! below one cache (single-linkage clustering with a bound, as in Tam, Azimi and Stumm, "Thread Clustering", EuroSys
//! 2007, section 4.4, on other evidence). Clusters go where most of their threads are already, and a cluster changes its
//! cache where its ties to the others weigh more there. A thread without a tie is not placed: it stays the kernel's.

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
    /// The share of a CPU that it uses.
    pub busy: f64,
    /// Its working set, in bytes; 0 where that is not known.
    pub bytes: f64,
    /// The CPUs that it may run on, by place in [`Crowd::lists`].
    pub list: usize,
}

/// Two members that wake each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bond {
    /// The one, by its place in [`Crowd::members`].
    pub a: usize,
    /// The other.
    pub b: usize,
    /// The wake-ups per second, both ways.
    pub wakes: f64,
    /// The lines that one takes over from the other without a wake-up, per second.
    pub lines: f64,
    /// The distances at which both ran; None where the host does not say: then they are taken to run anywhere they may.
    pub ran: Option<Ran>,
}

impl Bond {
    /// The CPU time per second that it costs, in CPUs, where a wake-up and a line cost so many nanoseconds.
    fn cost(&self, (wake, line): (f64, f64)) -> f64 {
        (self.wakes * wake + self.lines * line) * 1e-9
    }
}

/// Threads and their ties.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    /// Lists of CPUs, none twice.
    pub lists: Vec<CpuList>,
    /// The threads.
    pub members: Vec<CrowdMember>,
    /// Their ties.
    pub bonds: Vec<Bond>,
}

/// Members that are to run on a list of CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadCluster {
    /// The members, ascending.
    pub members: Vec<usize>,
    /// The CPUs.
    pub cpus: CpuList,
}

/// A placement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlacementProposal {
    /// Clusters, and where they go. Members that are in none stay as they are.
    pub placed: Vec<ThreadCluster>,
    /// The predicted gain: CPU time per second, in CPUs.
    pub saved: f64,
}

/// Threads that take turns can fill a CPU. Those that fill more of it than this do not fit onto it together: it allows for
/// the error of what was measured.
const FULL_CPU: f64 = 1.05;
/// A cache's CPUs are filled up to here.
const FULL_CACHE: f64 = 0.9;
/// A tie is worth that much CPU time, or it is not looked at.
const LEAST_TIE: f64 = 1e-4;

/// The room that threads take, or that there is.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ResourceDemand {
    /// In CPUs.
    busy: f64,
    bytes: f64,
}

impl ResourceDemand {
    /// Room on a CPU, whatever the size of the data: threads that take turns use a cache one after the other.
    const CPU: Self = Self { busy: FULL_CPU, bytes: f64::INFINITY };

    /// Room below a cache. One whose size is not known holds everything.
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

    /// The larger of each.
    fn or(self, other: Self) -> Self {
        Self { busy: self.busy.max(other.busy), bytes: self.bytes.max(other.bytes) }
    }
}

/// Sets of numbers that are joined (disjoint-set forest with path halving, by weight).
struct DisjointSets {
    parent: Vec<usize>,
    takes: Vec<ResourceDemand>,
    /// The CPUs that all of a set may run on, by number of their region.
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

    /// Joins the sets of both if there is room for both and they have a CPU in common.
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

    /// The number of each one's set, counted from 0 in the order of their first members; the sets by their roots.
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

/// The best placement that is found; empty where none saves anything.
pub fn assign(crowd: &Crowd, terrain: &Terrain) -> PlacementProposal {
    ClusterAssignment::new(crowd, terrain).placement()
}

struct ClusterAssignment<'a> {
    crowd: &'a Crowd,
    terrain: &'a Terrain,
    regions: Regions<'a>,
    /// The ties that count, the strongest first.
    bonds: Vec<Bond>,
    /// The cluster that fits onto one CPU, of each member.
    cluster: Vec<usize>,
    /// The room that each cluster takes.
    takes: Vec<ResourceDemand>,
    /// The CPUs that all of a cluster may run on, by number of their region.
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

    /// The clusters that have a tie, or more members than one.
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

    /// The order in which groups of clusters get a cache: as they come; on a host with several nodes those with
    /// the strongest ties to one that has a cache follow it, so that they find room in its node.
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

    /// The room that some clusters take.
    fn taken(&self, clusters: &[usize]) -> ResourceDemand {
        let none = ResourceDemand { busy: 0.0, bytes: 0.0 };
        clusters.iter().fold(none, |sum, &it| sum.and(self.takes[it]))
    }

    /// The cache with room for all of these clusters that their ties lead to, or where most of them may already be found.
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

    /// The CPUs that all of a cluster may run on.
    fn allowed_in(&self, cluster: usize) -> &CpuRegion {
        self.regions.get(self.allowed[cluster])
    }

    /// Two passes in which each cluster goes to the cache, or at least the node, that its ties lead to, if there is room.
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

    /// Of each cluster those that it has ties to, with what it gains by their cache, and by their node.
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

    /// The CPUs of each cluster: one, where its members gain by sharing it; else those of its cache.
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

/// The clusters that one has ties to, with what it gains by their cache, and by their node.
type Neighbours = Vec<(usize, [f64; 2])>;

/// The pull of a cluster's ties to each cache, and to each node.
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

    /// The pull to clusters that have a cache.
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

/// The load of each CPU, by its number. What runs on an SMT sibling counts in part.
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
