// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placement from ties and loads: clusters under capacity, innermost first.
//!
//! Ties are taken in the order of their rates. First they join threads that fit onto one CPU together, then those that fit
//! below one cache (single-linkage clustering with a bound, as in Tam, Azimi and Stumm, "Thread Clustering", EuroSys
//! 2007, section 4.4, on other evidence). Clusters go where most of their threads are already, and a cluster changes its
//! cache where its ties to the others weigh more there. A thread without a tie is not placed: it stays the kernel's.

use super::regions::{Region, Regions};
use super::terrain::Terrain;
use crate::units::{Cpu, CpuList};

/// A thread that may be placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    /// The share of a CPU that it uses.
    pub busy: f64,
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
    pub per_second: f64,
}

/// Threads and their ties.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    /// Lists of CPUs, none twice.
    pub lists: Vec<CpuList>,
    /// The threads.
    pub members: Vec<Member>,
    /// Their ties.
    pub bonds: Vec<Bond>,
}

/// Members that are to run on a list of CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The members, ascending.
    pub members: Vec<usize>,
    /// The CPUs.
    pub cpus: CpuList,
}

/// A placement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Placement {
    /// Clusters, and where they go. Members that are in none stay as they are.
    pub placed: Vec<Placed>,
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

/// Sets of numbers that are joined (disjoint-set forest with path halving, by weight).
struct Sets {
    parent: Vec<usize>,
    busy: Vec<f64>,
    /// The CPUs that all of a set may run on, by number of their region.
    allowed: Vec<usize>,
}

impl Sets {
    fn new(busy: Vec<f64>, allowed: Vec<usize>) -> Self {
        Self { parent: (0..busy.len()).collect(), busy, allowed }
    }

    fn find(&mut self, mut it: usize) -> usize {
        while self.parent[it] != it {
            self.parent[it] = self.parent[self.parent[it]];
            it = self.parent[it];
        }
        it
    }

    /// Joins the sets of both if they are no more than `most` together and have a CPU in common.
    fn join(&mut self, a: usize, b: usize, most: f64, regions: &mut Regions<'_>) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b || self.busy[a] + self.busy[b] > most {
            return;
        }
        let common = regions.common(self.allowed[a], self.allowed[b]);
        if regions.get(common).cpus.is_empty() {
            return;
        }
        // The lower number stays, so that the result does not depend on the order of equal ties.
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high] = low;
        self.busy[low] += self.busy[high];
        self.allowed[low] = common;
    }

    /// The number of each one's set, counted from 0 in the order of their first members; the sets by their roots.
    fn numbered(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut number, mut roots) = (vec![usize::MAX; self.parent.len()], Vec::new());
        let sets = (0..self.parent.len()).map(|it| {
            let root = self.find(it);
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
pub fn assign(crowd: &Crowd, terrain: &Terrain) -> Placement {
    Assignment::new(crowd, terrain).placement()
}

struct Assignment<'a> {
    crowd: &'a Crowd,
    terrain: &'a Terrain,
    regions: Regions<'a>,
    /// The ties that count, the strongest first.
    bonds: Vec<Bond>,
    /// The cluster that fits onto one CPU, of each member.
    cluster: Vec<usize>,
    /// The load of each cluster.
    busy: Vec<f64>,
    /// The CPUs that all of a cluster may run on, by number of their region.
    allowed: Vec<usize>,
}

impl<'a> Assignment<'a> {
    fn new(crowd: &'a Crowd, terrain: &'a Terrain) -> Self {
        let costs = terrain.costs();
        let most = costs.separate_ns.max(costs.shared_cache_ns) - costs.same_cpu_ns;
        let counts = |it: &&Bond| it.per_second * most * 1e-9 >= LEAST_TIE;
        let mut bonds: Vec<Bond> = crowd.bonds.iter().filter(counts).copied().collect();
        bonds.sort_unstable_by(|x, y| {
            y.per_second.total_cmp(&x.per_second).then((x.a, x.b).cmp(&(y.a, y.b)))
        });
        let mut regions = Regions::new(terrain);
        let lists: Vec<usize> = crowd.lists.iter().map(|it| regions.number(it)).collect();
        let mut sets = Sets::new(
            crowd.members.iter().map(|it| it.busy).collect(),
            crowd.members.iter().map(|it| lists[it.list]).collect(),
        );
        if costs.same_cpu_ns < costs.shared_cache_ns {
            for it in &bonds {
                sets.join(it.a, it.b, FULL_CPU, &mut regions);
            }
        }
        let (cluster, roots) = sets.numbered();
        let busy = roots.iter().map(|&it| sets.busy[it]).collect();
        let allowed = roots.iter().map(|&it| sets.allowed[it]).collect();
        Self { crowd, terrain, regions, bonds, cluster, busy, allowed }
    }

    fn placement(&mut self) -> Placement {
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
            (!unchanged).then_some(Placed { members, cpus })
        });
        let placed: Vec<Placed> = placed.collect();
        let saved = saved(self.crowd, self.terrain, &placed);
        if saved > 0.0 { Placement { placed, saved } } else { Placement::default() }
    }

    /// The clusters that have a tie, or more members than one.
    fn tied(&self) -> Vec<bool> {
        let mut tied = vec![false; self.busy.len()];
        for it in &self.bonds {
            tied[self.cluster[it.a]] = true;
            tied[self.cluster[it.b]] = true;
        }
        tied
    }

    /// The cache of each cluster.
    fn caches(&mut self, tied: &[bool]) -> Vec<Option<usize>> {
        let groups = self.terrain.caches();
        let largest = groups.iter().map(CpuList::len).max().unwrap_or(0);
        let mut sets = Sets::new(self.busy.clone(), self.allowed.clone());
        for it in &self.bonds {
            let (a, b) = (self.cluster[it.a], self.cluster[it.b]);
            sets.join(a, b, FULL_CACHE * largest as f64, &mut self.regions);
        }
        let (group, roots) = sets.numbered();
        let mut clusters = vec![Vec::new(); roots.len()];
        for (cluster, &group) in group.iter().enumerate() {
            clusters[group].push(cluster);
        }
        let load = |it: &Vec<usize>| it.iter().map(|&it| self.busy[it]).sum::<f64>();
        clusters.retain(|it| it.iter().any(|&it| tied[it]));
        clusters.sort_by(|x, y| load(y).total_cmp(&load(x)).then(x[0].cmp(&y[0])));
        let mut caches = vec![None; self.busy.len()];
        let mut free: Vec<f64> = groups.iter().map(|it| FULL_CACHE * it.len() as f64).collect();
        for it in clusters {
            let Some(cache) = self.best_cache(&it, &free) else { continue };
            free[cache] -= load(&it);
            for cluster in it {
                caches[cluster] = Some(cache);
            }
        }
        self.change_caches(&mut caches, &mut free);
        caches
    }

    /// The cache with room for all of these clusters where most of them may already be found.
    fn best_cache(&self, clusters: &[usize], free: &[f64]) -> Option<usize> {
        let load: f64 = clusters.iter().map(|&it| self.busy[it]).sum();
        let present = |cache: usize| -> f64 {
            let share = |&it: &usize| {
                let region = self.allowed_in(it);
                self.busy[it] * region.within[cache] / region.cpus.len().max(1) as f64
            };
            clusters.iter().map(share).sum()
        };
        let may = |&cache: &usize| {
            free[cache] >= load
                && clusters.iter().all(|&it| self.allowed_in(it).within[cache] > 0.0)
        };
        let caches = (0..free.len()).filter(may).map(|it| (it, present(it)));
        let better = |&(x, present_x): &(usize, f64), &(y, present_y): &(usize, f64)| {
            present_x.total_cmp(&present_y).then(free[x].total_cmp(&free[y])).then(y.cmp(&x))
        };
        caches.max_by(better).map(|(cache, _)| cache)
    }

    /// The CPUs that all of a cluster may run on.
    fn allowed_in(&self, cluster: usize) -> &Region {
        self.regions.get(self.allowed[cluster])
    }

    /// Two passes in which each cluster goes to the cache that its ties lead to, if there is room.
    fn change_caches(&self, caches: &mut [Option<usize>], free: &mut [f64]) {
        if free.len() < 2 {
            return;
        }
        let mut near: Vec<Vec<(usize, f64)>> = vec![Vec::new(); caches.len()];
        for it in &self.bonds {
            let (a, b) = (self.cluster[it.a], self.cluster[it.b]);
            if a != b {
                near[a].push((b, it.per_second));
                near[b].push((a, it.per_second));
            }
        }
        let mut pull = vec![0.0; free.len()];
        for _ in 0..2 {
            for cluster in 0..caches.len() {
                let Some(now) = caches[cluster] else { continue };
                pull.fill(0.0);
                for &(other, rate) in &near[cluster] {
                    caches[other].into_iter().for_each(|cache| pull[cache] += rate);
                }
                let may = |&to: &usize| {
                    free[to] >= self.busy[cluster] && self.allowed_in(cluster).within[to] > 0.0
                };
                let best = (0..free.len()).max_by(|&x, &y| pull[x].total_cmp(&pull[y]));
                if let Some(to) = best.filter(|&to| pull[to] > pull[now] && may(&to)) {
                    free[now] += self.busy[cluster];
                    free[to] -= self.busy[cluster];
                    caches[cluster] = Some(to);
                }
            }
        }
    }

    /// The CPUs of each cluster: one, where its members gain by sharing it; else those of its cache.
    fn cpus(&mut self, tied: &[bool], caches: &[Option<usize>]) -> Vec<Option<CpuList>> {
        let mut sizes = vec![0_usize; self.busy.len()];
        self.cluster.iter().for_each(|&it| sizes[it] += 1);
        let everywhere = self.regions.number(self.terrain.cpus());
        let groups: Vec<usize> =
            self.terrain.caches().iter().map(|it| self.regions.number(it)).collect();
        let last = self.terrain.cpus().iter().map(|cpu| cpu.0 as usize).max().unwrap_or(0);
        let mut load = vec![0.0_f64; last + 1];
        let mut lists = vec![None; self.busy.len()];
        let mut order: Vec<usize> = (0..self.busy.len()).filter(|&it| tied[it]).collect();
        order.sort_by(|&x, &y| self.busy[y].total_cmp(&self.busy[x]).then(x.cmp(&y)));
        for cluster in order {
            // Without a cache there is none with room for all that it is tied to.
            let group = caches[cluster].map_or(everywhere, |cache| groups[cache]);
            let allowed = self.regions.common(self.allowed[cluster], group);
            let allowed = &self.regions.get(allowed).cpus;
            let on = |cpu: &Cpu| load[cpu.0 as usize];
            let least = |x: &Cpu, y: &Cpu| on(x).total_cmp(&on(y)).then(x.cmp(y));
            lists[cluster] = match allowed.iter().min_by(least) {
                Some(cpu) if sizes[cluster] > 1 => {
                    load[cpu.0 as usize] += self.busy[cluster];
                    Some(CpuList::new([cpu]))
                }
                _ => caches[cluster].map(|_| allowed.clone()),
            };
        }
        lists
    }
}

/// The CPU time that a placement saves per second, in CPUs: what its ties cost now, less what they cost then.
pub fn saved(crowd: &Crowd, terrain: &Terrain, placed: &[Placed]) -> f64 {
    let mut regions = Regions::new(terrain);
    let lists: Vec<usize> = crowd.lists.iter().map(|it| regions.number(it)).collect();
    let now: Vec<usize> = crowd.members.iter().map(|it| lists[it.list]).collect();
    let mut then = now.clone();
    for it in placed {
        let region = regions.number(&it.cpus);
        it.members.iter().for_each(|&member| then[member] = region);
    }
    let difference = |it: &Bond| {
        let (now, then) = ((now[it.a], now[it.b]), (then[it.a], then[it.b]));
        if now == then {
            return 0.0;
        }
        let gain = regions.expected(now.0, now.1) - regions.expected(then.0, then.1);
        gain * it.per_second * 1e-9
    };
    crowd.bonds.iter().map(difference).sum()
}
