// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs of a host as nested groups, with the costs of waking a thread and of fetching a cache line between
//! groups.

use serde::{Deserialize, Serialize};

use super::regions::CpuRegion;
use corehop_plan::host::LineTimes;
use corehop_plan::platform::{Affinity, CpuGroups, Platform};
use corehop_plan::units::{Bytes, Cpu, CpuList};

/// The cost of a wake-up by the distance of the two CPUs, in nanoseconds of both threads together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WakeCosts {
    /// The cost on one CPU, where the wake-up is a switch between the two threads.
    pub same_cpu_ns: f64,
    /// The cost between two CPUs that share a cache.
    pub shared_cache_ns: f64,
    /// The cost between two CPUs that share no cache.
    pub separate_ns: f64,
}

/// The distances of two CPUs, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// Both threads are on one CPU.
    Same,
    /// The CPUs share an inner cache or a core.
    Inner,
    /// The CPUs share a last-level cache.
    Cache,
    /// The CPUs share a NUMA node.
    Node,
    /// The CPUs share no cache and no NUMA node.
    Remote,
}

/// The number of distances.
pub(super) const DISTANCES: usize = 5;

/// A cost by distance, in nanoseconds.
type DistanceCosts = [f64; DISTANCES];

/// The shares of two threads' wake-ups (or looks) at each distance, nearest first. The shares add up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran([f64; DISTANCES]);

impl Ran {
    /// The distances between two threads that each run on some CPU of their region.
    pub(super) fn anywhere(a: &CpuRegion, b: &CpuRegion) -> Self {
        let size = (a.cpus.len() * b.cpus.len()) as f64;
        if size == 0.0 {
            let mut ran = Self([0.0; DISTANCES]);
            ran.0[Distance::Remote as usize] = 1.0;
            return ran;
        }
        // Of the pairs, so many are one CPU, and so many lie in one group.
        let both = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(n, m)| n * m).sum::<f64>();
        let same = a.cpus.intersection(&b.cpus).len() as f64;
        let inner = both(&a.within_inner, &b.within_inner).max(same);
        let near = both(&a.within, &b.within).max(inner);
        let node = both(&a.within_nodes, &b.within_nodes).max(near);
        let pairs = [same, inner - same, near - inner, node - near, size - node];
        Self(pairs.map(|it| it / size))
    }

    /// The shares by distance, nearest distance first.
    pub(super) fn shares(self) -> impl Iterator<Item = f64> {
        self.0.into_iter()
    }

    /// The range from the nearest to the farthest distance, as numbers.
    pub(super) fn range(self) -> std::ops::RangeInclusive<usize> {
        let is_some = |it: &f64| *it > 0.0;
        let nearest = self.0.iter().position(is_some).unwrap_or(0);
        nearest..=self.0.iter().rposition(is_some).unwrap_or(DISTANCES - 1)
    }

    /// The share of the looks on one CPU, or, if not `on_one_cpu`, on CPUs that share a last-level cache.
    pub(super) fn near(self, on_one_cpu: bool) -> f64 {
        let farthest = if on_one_cpu { Distance::Same } else { Distance::Cache };
        self.0[..=farthest as usize].iter().sum()
    }
}

/// The share of a CPU that its SMT sibling takes from it when both are busy. Two siblings do 1.25 times the work of
/// one, which is assumed; the usual gain is 15 to 30 %.
pub(super) const SIBLING: f64 = 0.375;
/// The assumed ratio between the time of a line from another node and the time of a line from another cache of one
/// node, on hosts whose nodes have several caches. corehop measures only one of these two line times.
const REMOTE: f64 = 1.3;

/// The groups of CPUs at one level.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TerrainLevel {
    groups: Vec<CpuList>,
    /// The group of each CPU, indexed by CPU number.
    of: Vec<usize>,
}

impl TerrainLevel {
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

    /// The group of a CPU.
    fn of(&self, cpu: Cpu) -> Option<usize> {
        self.of.get(cpu.0 as usize).copied().filter(|&it| it != usize::MAX)
    }

    fn share(&self, a: Cpu, b: Cpu) -> bool {
        self.of(a).is_some() && self.of(a) == self.of(b)
    }

    /// The number of the list's CPUs in each group.
    fn counts(&self, cpus: &CpuList) -> Vec<f64> {
        let mut within = vec![0.0; self.groups.len()];
        cpus.iter().filter_map(|cpu| self.of(cpu)).for_each(|group| within[group] += 1.0);
        within
    }
}

/// The CPUs on which threads can be placed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "TerrainLog", into = "TerrainLog")]
pub struct Terrain {
    cpus: CpuList,
    caches: TerrainLevel,
    /// Groups of CPUs that share an inner cache or a core, within a last-level cache.
    inner: TerrainLevel,
    /// Groups of SMT siblings.
    cores: TerrainLevel,
    /// NUMA nodes.
    nodes: TerrainLevel,
    /// The size of each last-level cache, if known.
    sizes: Vec<Option<Bytes>>,
    wakes: WakeCosts,
    lines: DistanceCosts,
}

/// The form of a terrain in a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TerrainLog {
    cpus: CpuList,
    caches: Vec<CpuList>,
    inner: Vec<CpuList>,
    cores: Vec<CpuList>,
    nodes: Vec<CpuList>,
    sizes: Vec<Option<Bytes>>,
    wakes: WakeCosts,
    lines: DistanceCosts,
}

impl From<TerrainLog> for Terrain {
    fn from(it: TerrainLog) -> Self {
        let level = |groups: &[CpuList]| TerrainLevel::new(groups, &it.cpus);
        Self {
            caches: level(&it.caches),
            inner: level(&it.inner),
            cores: level(&it.cores),
            nodes: level(&it.nodes),
            sizes: it.sizes,
            wakes: it.wakes,
            lines: it.lines,
            cpus: it.cpus,
        }
    }
}

impl From<Terrain> for TerrainLog {
    fn from(it: Terrain) -> Self {
        Self {
            cpus: it.cpus,
            caches: it.caches.groups,
            inner: it.inner.groups,
            cores: it.cores.groups,
            nodes: it.nodes.groups,
            sizes: it.sizes,
            wakes: it.wakes,
            lines: it.lines,
        }
    }
}

impl Terrain {
    /// Creates the terrain of a platform's usable CPUs. The CPUs below one last-level cache form a group.
    pub fn of(platform: &Platform, costs: WakeCosts) -> Self {
        let cpus = platform.usable();
        let groups = |farthest: Affinity| -> Vec<CpuList> {
            let near = |a: Cpu, b: Cpu| platform.affinity(a, b) <= farthest;
            let group = |cpu| CpuList::new(cpus.iter().filter(|&other| near(cpu, other)));
            CpuGroups::new(cpus.iter().map(group)).iter().cloned().collect()
        };
        let (caches, mut inner) = (groups(Affinity::L3), groups(Affinity::L2));
        inner.retain(|it| it.len() > 1 && !caches.contains(it));
        let mut cores = groups(Affinity::Smt);
        cores.retain(|it| it.len() > 1);
        let nodes: Vec<CpuList> = platform.nodes.iter().map(|it| it.cpus.value.clone()).collect();
        let last_level = |group: &CpuList| {
            let first = group.first()?;
            platform.data_caches(first).max_by_key(|it| it.level)?.capacity()
        };
        let level = |groups: &[CpuList]| TerrainLevel::new(groups, &cpus);
        let plain = Self::new(&caches, costs);
        Self {
            inner: level(&inner),
            cores: level(&cores),
            nodes: level(&nodes),
            sizes: plain.caches().iter().map(last_level).collect(),
            ..plain
        }
    }

    /// Creates a terrain from groups of CPUs that share a cache. No CPU may be in two groups.
    pub fn new(groups: &[CpuList], wakes: WakeCosts) -> Self {
        let cpus = CpuList::new(groups.iter().flat_map(CpuList::iter));
        let none = TerrainLevel::new(&[], &cpus);
        let caches = TerrainLevel::new(groups, &cpus);
        Self {
            inner: none.clone(),
            cores: none.clone(),
            nodes: none,
            sizes: vec![None; caches.groups.len()],
            caches,
            cpus,
            wakes,
            lines: [0.0; DISTANCES],
        }
    }

    /// Sets the line times to the last measurement. An unknown time keeps its earlier value.
    #[must_use]
    pub fn with_lines(mut self, times: LineTimes) -> Self {
        self.set_lines(times);
        self
    }

    /// Sets the line times to the last measurement.
    pub fn set_lines(&mut self, times: LineTimes) {
        let near = times.shared_cache_ns.unwrap_or(self.lines[Distance::Cache as usize]);
        let far = times.separate_ns.unwrap_or(self.lines[Distance::Node as usize]).max(near);
        let caches = self.caches.groups.len();
        let node = |it: usize| self.node_of(it);
        let same_node = |a: usize| node(a).is_some() && (0..a).any(|b| node(b) == node(a));
        let remote = if (0..caches).any(same_node) { far * REMOTE } else { far };
        self.lines = [0.0, near, near, far, remote];
    }

    /// Returns the last measured line times; `None` for unknown times.
    pub fn line_times(&self) -> LineTimes {
        let known = |at: Distance| Some(self.lines[at as usize]).filter(|it| *it > 0.0);
        let separate_ns = known(Distance::Node).filter(|_| self.caches.groups.len() > 1);
        LineTimes { shared_cache_ns: known(Distance::Cache), separate_ns }
    }

    /// Returns all CPUs.
    pub const fn cpus(&self) -> &CpuList {
        &self.cpus
    }

    /// Returns the groups of CPUs that share a last-level cache.
    pub fn caches(&self) -> &[CpuList] {
        &self.caches.groups
    }

    /// Returns the groups of CPUs that share an inner cache, if that is not the last level.
    pub fn inner(&self) -> &[CpuList] {
        &self.inner.groups
    }

    /// Returns the size of a cache, by its index in [`Self::caches`].
    pub fn size(&self, cache: usize) -> Option<Bytes> {
        self.sizes.get(cache).copied().flatten()
    }

    /// Returns the parallel capacity of a cache's CPUs, in units of a CPU that has a core for itself.
    pub fn capacity(&self, cache: usize) -> f64 {
        let share = |cpu: Cpu| {
            let siblings = self.siblings(cpu).map_or(1, |it| it.intersection(&self.cpus).len());
            if siblings > 1 { 1.0 - SIBLING } else { 1.0 }
        };
        self.caches.groups[cache].iter().map(share).sum()
    }

    /// Returns the CPUs of the CPU's core, if the core has several.
    pub fn siblings(&self, cpu: Cpu) -> Option<&CpuList> {
        self.cores.of(cpu).map(|core| &self.cores.groups[core])
    }

    /// Returns the costs of wake-ups.
    pub const fn costs(&self) -> WakeCosts {
        self.wakes
    }

    /// The largest additional cost of a wake-up, and of a line, between two CPUs compared with one CPU.
    pub(super) fn spread(&self) -> (f64, f64) {
        let wakes = self.wakes.separate_ns.max(self.wakes.shared_cache_ns);
        (wakes - self.wakes.same_cpu_ns, self.lines.iter().copied().fold(0.0, f64::max))
    }

    /// Returns the group of a CPU, as an index into [`Self::caches`].
    pub fn cache_of(&self, cpu: Cpu) -> Option<usize> {
        self.caches.of(cpu)
    }

    /// Returns the NUMA node of a cache, both as indexes; `None` if no node is known.
    pub fn node_of(&self, cache: usize) -> Option<usize> {
        self.caches.groups[cache].first().and_then(|it| self.nodes.of(it))
    }

    /// Returns the number of NUMA nodes.
    pub const fn nodes(&self) -> usize {
        self.nodes.groups.len()
    }

    /// The savings per wake-up and per line: within one cache compared with another cache of the node, and within one
    /// node compared with another node.
    pub(super) fn steps(&self) -> [(f64, f64); 2] {
        let (wakes, lines) = (self.wake_costs(), self.lines);
        let step = |near: Distance, far: Distance| {
            let (near, far) = (near as usize, far as usize);
            (wakes[far] - wakes[near], lines[far] - lines[near])
        };
        [step(Distance::Cache, Distance::Node), step(Distance::Node, Distance::Remote)]
    }

    fn distance(&self, a: Cpu, b: Cpu) -> Distance {
        match () {
            () if a == b => Distance::Same,
            () if self.inner.share(a, b) => Distance::Inner,
            () if self.caches.share(a, b) => Distance::Cache,
            () if self.nodes.share(a, b) => Distance::Node,
            () => Distance::Remote,
        }
    }

    /// The largest distance between two of some CPUs. Groups are nested, so all distances can be measured from the
    /// first CPU.
    fn farthest(&self, mut cpus: impl Iterator<Item = Cpu>) -> Distance {
        let Some(first) = cpus.next() else { return Distance::Same };
        cpus.map(|cpu| self.distance(first, cpu)).max().unwrap_or(Distance::Same)
    }

    /// Returns whether the CPUs `cpus` are at most as far apart as the CPUs of `list`.
    pub fn are_as_near(&self, cpus: &[Cpu], list: &CpuList) -> bool {
        self.farthest(cpus.iter().copied()) <= self.farthest(list.iter())
    }

    /// Returns whether the CPUs `cpus` are exactly as far apart as the CPUs of `list`.
    pub fn are_just_as_near(&self, cpus: &[Cpu], list: &CpuList) -> bool {
        self.farthest(cpus.iter().copied()) == self.farthest(list.iter())
    }

    /// The cost of a wake-up at each distance.
    const fn wake_costs(&self) -> DistanceCosts {
        let WakeCosts { same_cpu_ns, shared_cache_ns, separate_ns } = self.wakes;
        [same_cpu_ns, shared_cache_ns, shared_cache_ns, separate_ns, separate_ns]
    }

    /// Returns the cost of a wake-up and of a line between two CPUs, in nanoseconds.
    pub fn between(&self, a: Cpu, b: Cpu) -> (f64, f64) {
        let at = self.distance(a, b) as usize;
        (self.wake_costs()[at], self.lines[at])
    }

    /// Returns a list of CPUs with the number of its CPUs in each group.
    pub fn region(&self, cpus: CpuList) -> CpuRegion {
        CpuRegion {
            within: self.caches.counts(&cpus),
            within_inner: self.inner.counts(&cpus),
            within_nodes: self.nodes.counts(&cpus),
            cpus,
        }
    }

    /// The cost of a wake-up and of a line at each distance, in nanoseconds.
    pub(super) fn by_distance(&self) -> impl Iterator<Item = (f64, f64)> {
        self.wake_costs().into_iter().zip(self.lines)
    }

    /// The distances of two threads that ran only on these CPUs.
    pub(super) fn at(&self, a: Cpu, b: Cpu) -> Ran {
        let mut ran = Ran([0.0; DISTANCES]);
        ran.0[self.distance(a, b) as usize] = 1.0;
        ran
    }

    /// The distances between two threads' CPUs over weighted looks; `None` without a look.
    pub(super) fn ran(&self, looks: impl Iterator<Item = ([Cpu; 2], f64)>) -> Option<Ran> {
        let (mut counts, mut all) = ([0.0; DISTANCES], 0.0);
        for ([a, b], weight) in looks {
            counts[self.distance(a, b) as usize] += weight;
            all += weight;
        }
        (all > 0.0).then(|| Ran(counts.map(|it| it / all)))
    }

    /// The share of looks in which two threads ran as far apart as the CPUs of a list; with `or_nearer`, looks in
    /// which they ran nearer count too.
    pub(super) fn share_as_near(&self, ran: Ran, list: &CpuList, or_nearer: bool) -> f64 {
        let farthest = self.farthest(list.iter()) as usize;
        let nearest = if or_nearer { 0 } else { farthest };
        ran.0[nearest..=farthest].iter().sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const COSTS: WakeCosts =
        WakeCosts { same_cpu_ns: 2_000.0, shared_cache_ns: 6_000.0, separate_ns: 10_000.0 };
    pub(crate) const LINES: LineTimes =
        LineTimes { shared_cache_ns: Some(40.0), separate_ns: Some(100.0) };

    pub(crate) fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn expected(terrain: &Terrain, a: &str, b: &str) -> (f64, f64) {
        mean(terrain, Ran::anywhere(&terrain.region(list(a)), &terrain.region(list(b))))
    }

    /// The mean costs of a wake-up and of a line.
    fn mean(terrain: &Terrain, ran: Ran) -> (f64, f64) {
        let all = ran.shares().zip(terrain.by_distance());
        all.fold((0.0, 0.0), |(wake, line), (share, it)| (wake + share * it.0, line + share * it.1))
    }

    #[test]
    fn a_wake_up_costs_what_its_distance_costs_and_the_mean_over_lists_of_cpus() {
        let terrain = Terrain::new(&[list("0-1"), list("2-3")], COSTS).with_lines(LINES);
        let between = |a, b| terrain.between(Cpu(a), Cpu(b));
        assert_eq!(between(0, 0), (2_000.0, 0.0));
        assert_eq!(between(0, 1), (6_000.0, 40.0));
        assert_eq!(between(1, 2), (10_000.0, 100.0));
        // Twice one CPU, twice its neighbour.
        assert_eq!(expected(&terrain, "0-1", "0-1"), (4_000.0, 20.0));
        assert_eq!(expected(&terrain, "0-3", "0-3"), (7_000.0, 60.0));
        assert_eq!(expected(&terrain, "0", "2-3"), (10_000.0, 100.0));
    }

    #[test]
    fn the_mean_over_lists_is_the_mean_over_their_pairs_at_every_level() {
        for id in ["xeon_e5520", "xeon_l7455", "epyc_7313"] {
            let platform = Platform::named(id).unwrap().unwrap();
            let terrain = Terrain::of(&platform, COSTS).with_lines(LINES);
            let all: Vec<Cpu> = terrain.cpus().iter().collect();
            for (x, y) in [(0..2, 1..5), (0..all.len(), 0..all.len()), (0..4, 3..8)] {
                let (x, y) = (CpuList::new(all[x].to_vec()), CpuList::new(all[y].to_vec()));
                let mut sum = (0.0, 0.0);
                for (a, b) in x.iter().flat_map(|a| y.iter().map(move |b| (a, b))) {
                    let (wake, line) = terrain.between(a, b);
                    sum = (sum.0 + wake, sum.1 + line);
                }
                let pairs = (x.len() * y.len()) as f64;
                let anywhere = Ran::anywhere(&terrain.region(x), &terrain.region(y));
                let (wake, line) = mean(&terrain, anywhere);
                assert!((wake - sum.0 / pairs).abs() < 1e-6, "{id}: {wake}");
                assert!((line - sum.1 / pairs).abs() < 1e-6, "{id}: {line}");
            }
        }
    }

    #[test]
    fn a_line_time_that_was_not_measured_again_stays_and_far_is_no_nearer_than_near() {
        let mut terrain = Terrain::new(&[list("0-1"), list("2-3")], COSTS).with_lines(LINES);
        terrain.set_lines(LineTimes { shared_cache_ns: Some(160.0), separate_ns: None });
        assert!((terrain.between(Cpu(0), Cpu(1)).1 - 160.0).abs() < 1e-9);
        assert!((terrain.between(Cpu(0), Cpu(2)).1 - 160.0).abs() < 1e-9);
    }
}
