// SPDX-License-Identifier: MIT OR Apache-2.0
//! A placement from ties and loads: clusters under capacity, innermost first.
//!
//! Ties are taken in the order of their rates. First they join threads that fit onto one CPU together, then those that fit
//! below one cache (single-linkage clustering with a bound, as in Tam, Azimi and Stumm, "Thread Clustering", EuroSys
//! 2007, section 4.4, on other evidence). Clusters go where most of their threads are already, and a cluster changes its
//! cache where its ties to the others weigh more there. A thread without a tie is not placed: it stays the kernel's.

use std::collections::HashMap;

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
}

impl Sets {
    fn new(busy: Vec<f64>) -> Self {
        Self { parent: (0..busy.len()).collect(), busy }
    }

    fn find(&mut self, mut it: usize) -> usize {
        while self.parent[it] != it {
            self.parent[it] = self.parent[self.parent[it]];
            it = self.parent[it];
        }
        it
    }

    /// Joins the sets of both if they are allowed to be one.
    fn join(&mut self, a: usize, b: usize, most: f64, may: impl Fn(usize, usize) -> bool) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b && self.busy[a] + self.busy[b] <= most && may(a, b) {
            // The lower number stays, so that the result does not depend on the order of equal ties.
            let (low, high) = (a.min(b), a.max(b));
            self.parent[high] = low;
            self.busy[low] += self.busy[high];
        }
    }

    /// The number of each one's set, counted from 0 in the order of their first members; how many there are.
    fn numbered(&mut self) -> (Vec<usize>, usize) {
        let (mut number, mut count) = (vec![usize::MAX; self.parent.len()], 0);
        let sets = (0..self.parent.len()).map(|it| {
            let root = self.find(it);
            if number[root] == usize::MAX {
                number[root] = count;
                count += 1;
            }
            number[root]
        });
        let sets = sets.collect();
        (sets, count)
    }
}

/// The best placement that is found; empty where none saves anything.
pub fn assign(crowd: &Crowd, terrain: &Terrain) -> Placement {
    Assignment::new(crowd, terrain).placement()
}

struct Assignment<'a> {
    crowd: &'a Crowd,
    terrain: &'a Terrain,
    /// The ties that count, the strongest first.
    bonds: Vec<Bond>,
    /// The cluster that fits onto one CPU, of each member; the load of each cluster, and the CPUs of all its members.
    cluster: Vec<usize>,
    busy: Vec<f64>,
    allowed: Vec<CpuList>,
}

impl<'a> Assignment<'a> {
    fn new(crowd: &'a Crowd, terrain: &'a Terrain) -> Self {
        let costs = terrain.costs();
        let most = costs.separate_ns.max(costs.shared_cache_ns) - costs.same_cpu_ns;
        let counts = |it: &&Bond| it.per_second * most * 1e-9 >= LEAST_TIE;
        let mut bonds: Vec<Bond> = crowd.bonds.iter().filter(counts).copied().collect();
        bonds.sort_by(|x, y| {
            y.per_second.total_cmp(&x.per_second).then((x.a, x.b).cmp(&(y.a, y.b)))
        });
        let (cluster, count) = clusters_of_one_cpu(crowd, terrain, &bonds);
        let mut busy = vec![0.0; count];
        let mut allowed: Vec<Option<(usize, CpuList)>> = vec![None; count];
        for (member, &cluster) in crowd.members.iter().zip(&cluster) {
            busy[cluster] += member.busy;
            allowed[cluster] = Some(match allowed[cluster].take() {
                None => (member.list, crowd.lists[member.list].clone()),
                Some((list, cpus)) if list == member.list => (list, cpus),
                Some((list, cpus)) => (list, cpus.intersection(&crowd.lists[member.list])),
            });
        }
        let allowed = allowed.into_iter().map(|it| it.map(|(_, cpus)| cpus).unwrap_or_default());
        Self { crowd, terrain, bonds, cluster, busy, allowed: allowed.collect() }
    }

    fn placement(&self) -> Placement {
        let tied = self.tied();
        let caches = self.caches(&tied);
        let lists = self.cpus(&tied, &caches);
        let mut members = vec![Vec::new(); lists.len()];
        for (member, &cluster) in self.cluster.iter().enumerate() {
            members[cluster].push(member);
        }
        let all = self.terrain.cpus().len();
        let placed = lists.iter().zip(members).filter_map(|(cpus, members)| {
            let cpus = cpus.clone().filter(|it| !it.is_empty() && it.len() < all)?;
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
    fn caches(&self, tied: &[bool]) -> Vec<Option<usize>> {
        let groups = self.terrain.caches();
        let largest = groups.iter().map(CpuList::len).max().unwrap_or(0);
        let mut sets = Sets::new(self.busy.clone());
        for it in &self.bonds {
            let fits = |a: usize, b: usize| {
                self.allowed[a] == self.allowed[b]
                    || !self.allowed[a].intersection(&self.allowed[b]).is_empty()
            };
            let (a, b) = (self.cluster[it.a], self.cluster[it.b]);
            sets.join(a, b, FULL_CACHE * largest as f64, fits);
        }
        let (group, count) = sets.numbered();
        let mut caches = vec![None; self.busy.len()];
        let mut free: Vec<f64> = groups.iter().map(|it| FULL_CACHE * it.len() as f64).collect();
        let mut clusters = vec![Vec::new(); count];
        group.iter().enumerate().for_each(|(cluster, &it)| clusters[it].push(cluster));
        let load = |it: &Vec<usize>| it.iter().map(|&it| self.busy[it]).sum::<f64>();
        clusters.retain(|it| it.iter().any(|&it| tied[it]));
        clusters.sort_by(|x, y| load(y).total_cmp(&load(x)).then(x[0].cmp(&y[0])));
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
            let group = &self.terrain.caches()[cache];
            let share = |&it: &usize| {
                let allowed = &self.allowed[it];
                let inside = allowed.intersection(group).len() as f64;
                self.busy[it] * inside / allowed.len().max(1) as f64
            };
            clusters.iter().map(share).sum()
        };
        let may = |&cache: &usize| {
            let group = &self.terrain.caches()[cache];
            let inside = |&it: &usize| !self.allowed[it].intersection(group).is_empty();
            free[cache] >= load && clusters.iter().all(inside)
        };
        let caches = (0..free.len()).filter(may);
        let better = |&x: &usize, &y: &usize| {
            present(x).total_cmp(&present(y)).then(free[x].total_cmp(&free[y])).then(y.cmp(&x))
        };
        caches.max_by(better)
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
                    let group = &self.terrain.caches()[to];
                    free[to] >= self.busy[cluster]
                        && !self.allowed[cluster].intersection(group).is_empty()
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
    fn cpus(&self, tied: &[bool], caches: &[Option<usize>]) -> Vec<Option<CpuList>> {
        let mut sizes = vec![0_usize; self.busy.len()];
        self.cluster.iter().for_each(|&it| sizes[it] += 1);
        let mut load: HashMap<Cpu, f64> = HashMap::new();
        let mut lists = vec![None; self.busy.len()];
        let mut order: Vec<usize> = (0..self.busy.len()).filter(|&it| tied[it]).collect();
        order.sort_by(|&x, &y| self.busy[y].total_cmp(&self.busy[x]).then(x.cmp(&y)));
        for cluster in order {
            let group = match caches[cluster] {
                Some(cache) => &self.terrain.caches()[cache],
                // No cache has room for all that it is tied to.
                None => self.terrain.cpus(),
            };
            let allowed = self.allowed[cluster].intersection(group);
            let on = |cpu: &Cpu| load.get(cpu).copied().unwrap_or(0.0);
            let least = |x: &Cpu, y: &Cpu| on(x).total_cmp(&on(y)).then(x.cmp(y));
            lists[cluster] = match allowed.iter().min_by(least) {
                Some(cpu) if sizes[cluster] > 1 => {
                    *load.entry(cpu).or_default() += self.busy[cluster];
                    Some(CpuList::new([cpu]))
                }
                _ => caches[cluster].map(|_| allowed),
            };
        }
        lists
    }
}

/// Clusters that fit onto one CPU: the number of each member's, and how many there are.
fn clusters_of_one_cpu(crowd: &Crowd, terrain: &Terrain, bonds: &[Bond]) -> (Vec<usize>, usize) {
    let mut sets = Sets::new(crowd.members.iter().map(|it| it.busy).collect());
    let costs = terrain.costs();
    if costs.same_cpu_ns < costs.shared_cache_ns {
        for it in bonds {
            let list = |member: usize| crowd.members[member].list;
            let together = |a: usize, b: usize| {
                list(a) == list(b)
                    || !crowd.lists[list(a)].intersection(&crowd.lists[list(b)]).is_empty()
            };
            sets.join(it.a, it.b, FULL_CPU, together);
        }
    }
    sets.numbered()
}

/// The CPU time that a placement saves per second, in CPUs: what its ties cost now, less what they cost then.
pub fn saved(crowd: &Crowd, terrain: &Terrain, placed: &[Placed]) -> f64 {
    let mut lists: Vec<&CpuList> = crowd.lists.iter().collect();
    let mut then: Vec<usize> = crowd.members.iter().map(|it| it.list).collect();
    for it in placed {
        it.members.iter().for_each(|&member| then[member] = lists.len());
        lists.push(&it.cpus);
    }
    let mut known: HashMap<(usize, usize), f64> = HashMap::new();
    let mut cost = |a: usize, b: usize| {
        *known.entry((a, b)).or_insert_with(|| terrain.expected(lists[a], lists[b]))
    };
    let difference = |it: &Bond| {
        let now = cost(crowd.members[it.a].list, crowd.members[it.b].list);
        (now - cost(then[it.a], then[it.b])) * it.per_second * 1e-9
    };
    crowd.bonds.iter().map(difference).sum()
}
