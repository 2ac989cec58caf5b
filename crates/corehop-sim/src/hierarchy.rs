// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches of a machine together: the effects of an access on all caches, applied in one step.

use corehop_plan::platform::{Distance, Found, Inclusion, Lookup, Protocol, Supplier};

use super::cache::{Bits, CacheCounters, CacheNode};
use super::coherence::{CoherenceRequest, SnoopResponse};
use super::observer::Observer;
use super::outcome::{Access, AccessOutcome, CpuCounters};
use super::spec::{MAX_LEVELS, Spec, SpecError};
use super::tags::LineNumber;
use super::ways::WayCaches;

/// The caches between a CPU and memory, innermost first.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachePath {
    pub(super) caches: [usize; MAX_LEVELS],
    /// For each cache of the path, the cache's place among the children of the next cache outwards.
    pub(super) places: [usize; MAX_LEVELS],
    pub(super) len: usize,
    /// Whether no cache of the path is exclusive or mostly exclusive, is write-through, lacks write-allocate, or
    /// has a snoop filter.
    pub(super) plain: bool,
}

/// The caches of a machine, with the lines in the caches.
///
/// A clone of the hierarchy is a snapshot of all caches. Caches that never held a line occupy no memory in the
/// clone.
#[derive(Debug, Clone)]
pub struct Hierarchy<O = ()> {
    pub(super) caches: Vec<CacheNode>,
    /// The outermost caches.
    pub(super) roots: Vec<usize>,
    /// Whether one of the caches has a snoop filter.
    pub(super) filtered: bool,
    /// The caches between each CPU and memory: the path for data, then the path for instructions.
    pub(super) paths: Vec<[CachePath; 2]>,
    /// The ways that each CPU may fill, by CPU and level (from 0).
    masks: Vec<[u32; MAX_LEVELS]>,
    packages: Vec<usize>,
    pub(super) protocol: Protocol,
    pub(super) lookup: Lookup,
    pub(super) counters: Vec<CpuCounters>,
    /// The facts that the quick loop keeps about each CPU's caches, for data and for instructions.
    pub(super) ready: Vec<[Option<Box<WayCaches>>; 2]>,
    /// Counts the events at which a cache may have received its first line.
    pub(super) fillings: u64,
    pub(super) observer: O,
}

/// The result of searching a CPU's way for a line.
enum SearchEnd {
    /// The line is in the cache at this place of the CPU's path, in this set and way.
    Own(usize, u32, u32),
    /// The line is inside the cache at this place, but in none of the caches on the CPU's way.
    Beside(usize, SnoopResponse),
    /// No cache below this root has the line.
    Nowhere,
}

/// The state of an access that is in progress.
pub(super) struct PendingAccess {
    pub(super) outcome: AccessOutcome,
    /// The mask of the ways that the access may fill, by level.
    pub(super) masks: [u32; MAX_LEVELS],
}

/// The state that the new copies of a line receive.
pub(super) struct Filling {
    pub(super) bits: Bits,
    /// Whether the outermost new copy has newer data than the levels further out.
    pub(super) carried: bool,
    /// The range of places on the path to fill: from the first number up to, but not including, the second number.
    pub(super) places: (usize, usize),
}

impl Hierarchy {
    /// Creates empty caches. `seed` starts the generators of caches with random replacement.
    ///
    /// # Errors
    /// Returns [`SpecError`], as [`Spec::check`] does.
    pub fn new(spec: &Spec, seed: u64) -> Result<Self, SpecError> {
        Self::observed(spec, seed, ())
    }
}

impl<O: Observer> Hierarchy<O> {
    /// Creates empty caches that report to `observer`.
    pub(super) fn observed(spec: &Spec, seed: u64, observer: O) -> Result<Self, SpecError> {
        spec.check()?;
        let mut caches: Vec<CacheNode> = Vec::new();
        let mut first = Vec::new();
        for cache in &spec.caches {
            first.push(caches.len());
            for cpus in &cache.instances {
                let seed = seed ^ (caches.len() as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let distance = spec.distance(cpus, cache.level);
                caches.push(CacheNode::new(cache, distance, spec.packages[cpus[0]], seed));
            }
        }
        let mut paths = Vec::new();
        for cpu in 0..spec.cpus() {
            let path = |instruction| {
                let way = spec.way(cpu, instruction);
                let mut caches = [usize::MAX; MAX_LEVELS];
                for (place, &(cache, instance)) in way.iter().enumerate() {
                    caches[place] = first[cache] + instance;
                }
                CachePath { caches, places: [0; MAX_LEVELS], len: way.len(), plain: false }
            };
            paths.push([path(false), path(true)]);
        }
        link(&mut caches, &mut paths);
        let roots = (0..caches.len()).filter(|&cache| caches[cache].parent.is_none()).collect();
        Ok(Self {
            filtered: caches.iter().any(|cache| cache.snoop_filter.is_some()),
            caches,
            roots,
            masks: vec![[u32::MAX; MAX_LEVELS]; spec.cpus()],
            packages: spec.packages.clone(),
            protocol: spec.protocol,
            lookup: spec.lookup,
            counters: vec![CpuCounters::default(); spec.cpus()],
            ready: vec![[None, None]; spec.cpus()],
            fillings: 0,
            paths,
            observer,
        })
    }

    /// Restricts `cpu` to filling the ways of `mask` in its caches of level `level` (from 1): a partition. Accesses
    /// still hit in all ways. Bits beyond the ways of a cache are ignored.
    ///
    /// # Panics
    /// Panics if the mask is empty or the level is beyond [`MAX_LEVELS`].
    pub fn set_ways(&mut self, cpu: usize, level: u32, mask: u32) {
        assert!(mask != 0, "a partition of no ways");
        self.masks[cpu][level as usize - 1] = mask;
        self.ready[cpu] = [None, None];
    }

    /// The number of lines that all outermost caches can hold.
    pub(super) fn lines(&self) -> u64 {
        self.roots.iter().map(|&root| self.caches[root].capacity()).sum()
    }

    /// The outermost cache on the path of `cpu` to memory.
    pub(super) fn root_of(&self, cpu: usize) -> usize {
        let path = self.path(cpu, false);
        path.caches[path.len - 1]
    }

    /// The counters of the accesses that `cpu` has made so far.
    pub fn counters(&self, cpu: usize) -> &CpuCounters {
        &self.counters[cpu]
    }

    /// The counters of evicted, invalidated and snooped lines of the cache that serves `cpu` at this level and for
    /// this kind of use.
    pub fn cache_counters(
        &self,
        cpu: usize,
        level: u32,
        instruction: bool,
    ) -> Option<CacheCounters> {
        let path = self.path(cpu, instruction);
        let mut caches = path.caches[..path.len].iter().map(|&cache| &self.caches[cache]);
        caches.find(|cache| u32::from(cache.level) == level).map(|cache| cache.counters)
    }

    #[inline(always)]
    pub(super) fn masks(&self, cpu: usize) -> [u32; MAX_LEVELS] {
        self.masks[cpu]
    }

    #[inline(always)]
    pub(super) fn path(&self, cpu: usize, instruction: bool) -> CachePath {
        self.paths[cpu][usize::from(instruction)]
    }

    /// Performs one access of `cpu` to `line`, with all effects on all caches.
    #[inline]
    pub fn access(&mut self, cpu: usize, line: LineNumber, access: Access) -> AccessOutcome {
        let counters = &mut self.counters[cpu];
        match access {
            Access::Read => counters.reads += 1,
            Access::Write => counters.writes += 1,
            Access::Fetch => counters.fetches += 1,
        }
        let cache = self.paths[cpu][usize::from(access == Access::Fetch)].caches[0];
        let cache = &mut self.caches[cache];
        let set = cache.set_of(line);
        let found = cache.find(set, line);
        if let Some(way) = found {
            cache.touch(set, way);
            let quiet =
                access != Access::Write || (cache.write_alone(set, way) && !cache.write_through);
            if quiet {
                if !(bug!(WriteHitsUncounted) && access == Access::Write) {
                    self.counters[cpu].hits[0] += 1;
                }
                if O::ON {
                    self.observer.looked_up(true);
                }
                return AccessOutcome::HIT;
            }
            return self.beyond(cpu, line, access);
        }
        let path = self.path(cpu, access == Access::Fetch);
        self.miss(cpu, &path, line, access)
    }

    /// Performs an access that the innermost cache cannot serve alone.
    pub(super) fn beyond(&mut self, cpu: usize, line: LineNumber, access: Access) -> AccessOutcome {
        let path = self.path(cpu, access == Access::Fetch);
        let innermost = &self.caches[path.caches[0]];
        let write = access == Access::Write;
        let passes = write && !innermost.write_allocate && path.len > 1;
        let first = usize::from(passes && innermost.locate(line).is_none());
        let (outcome, upgraded, remote) = self.bring(cpu, path, line, write, first);
        self.count(cpu, outcome, upgraded, remote);
        outcome
    }

    /// Brings `line` into the cache of level `level` of `cpu`, for data, unless that cache or a cache further in
    /// already has the line. A prefetch counts only in [`CpuCounters::prefetches`] and in the counters of the
    /// evicted lines. If the cache of that level is exclusive, the call has no effect.
    pub fn prefetch(&mut self, cpu: usize, line: LineNumber, level: u32) -> Option<AccessOutcome> {
        let path = self.path(cpu, false);
        let caches = &path.caches[..path.len];
        let first = caches.iter().position(|&x| u32::from(self.caches[x].level) == level)?;
        let inside = first > 0 && self.holds(caches[first - 1], line);
        let held = inside || self.caches[caches[first]].locate(line).is_some();
        if held || (first > 0 && self.caches[caches[first]].inclusion.takes_victims()) {
            return None;
        }
        let first = if bug!(PrefetchGoesInside) { 0 } else { first };
        let (outcome, _, _) = self.bring(cpu, path, line, false, first);
        let counters = &mut self.counters[cpu];
        counters.prefetches += 1;
        counters.write_backs += u64::from(outcome.written_back);
        Some(outcome)
    }

    /// Removes `line` from every cache, as `clflush` does; modified data goes to memory. Returns true if any cache
    /// had modified data.
    pub fn flush(&mut self, line: LineNumber) -> bool {
        let mut dirty = false;
        for root in 0..self.roots.len() {
            let root = self.roots[root];
            if bug!(FlushForgetsLast) && !self.caches[root].is_innermost() {
                for child in self.caches[root].children.clone() {
                    dirty |= self.ask(child, line, CoherenceRequest::Flush).dirty;
                }
                continue;
            }
            dirty |= self.ask(root, line, CoherenceRequest::Flush).dirty;
        }
        dirty
    }

    fn count(&mut self, cpu: usize, outcome: AccessOutcome, upgraded: bool, remote: SnoopResponse) {
        let counters = &mut self.counters[cpu];
        let dirty = usize::from(outcome.state == Found::Dirty);
        match outcome.supplier {
            Supplier::Own => counters.hits[usize::from(outcome.level) - 1] += 1,
            Supplier::Peer if remote.copies > 0 => counters.remote[dirty] += 1,
            Supplier::Peer => counters.peer[dirty] += 1,
            Supplier::Memory => counters.memory += 1,
        }
        let missed = outcome.supplier == Supplier::Memory || remote.supplied;
        counters.snoop_hits += u64::from(missed && remote.copies > 0);
        counters.snoop_hits_modified += u64::from(missed && remote.dirty);
        counters.upgrades += u64::from(upgraded);
        counters.invalidations += u64::from(outcome.invalidated);
        counters.write_backs += u64::from(outcome.written_back);
        counters.asked += u64::from(outcome.asked);
    }

    /// Finds the line, resolves coherence with the other caches, and fills the caches of the path from place
    /// `first` on. Also returns whether the access upgraded a shared copy, and the answers of the other roots.
    fn bring(
        &mut self,
        cpu: usize,
        path: CachePath,
        line: LineNumber,
        write: bool,
        first: usize,
    ) -> (AccessOutcome, bool, SnoopResponse) {
        let mut ongoing = PendingAccess { outcome: AccessOutcome::own(0), masks: self.masks[cpu] };
        let request = if write { CoherenceRequest::Invalidate } else { CoherenceRequest::Read };
        let mut remote = SnoopResponse::default();
        let mut upgraded = false;
        let place = self.search(path, line, request, first, &mut ongoing);
        let filling = match place {
            SearchEnd::Own(at, set, way) => {
                upgraded = write && at == 0 && !self.caches[path.caches[0]].bits(set, way).alone;
                self.own(path, at, (set, way), line, request, first, &mut ongoing)
            }
            SearchEnd::Beside(at, answer) => {
                self.beside(path, at, answer, line, request, first, &mut ongoing)
            }
            SearchEnd::Nowhere => {
                remote = self.others(path, line, request, self.packages[cpu], &mut ongoing);
                self.nowhere(path, remote, write, first, &mut ongoing)
            }
        };
        remote.supplied = ongoing.outcome.supplier == Supplier::Peer && remote.copies > 0;
        self.fill(path, line, write, &filling, &mut ongoing);
        (ongoing.outcome, upgraded, remote)
    }

    fn search(
        &mut self,
        path: CachePath,
        line: LineNumber,
        request: CoherenceRequest,
        first: usize,
        ongoing: &mut PendingAccess,
    ) -> SearchEnd {
        for at in first..path.len {
            let x = path.caches[at];
            let cache = &self.caches[x];
            let set = cache.set_of(line);
            let found = cache.find(set, line);
            if O::ON {
                self.observer.looked_up(found.is_some());
            }
            if let Some(way) = found {
                return SearchEnd::Own(at, set, way);
            }
            let cache = &self.caches[x];
            if at > 0 && !cache.includes() && cache.children.len() > 1 {
                let answer = self.ask_beside(x, path.caches[at - 1], line, request, ongoing);
                if answer.copies > 0 {
                    return SearchEnd::Beside(at, answer);
                }
            }
        }
        SearchEnd::Nowhere
    }

    /// Completes an access whose line is in a cache on the CPU's path to memory.
    #[expect(clippy::too_many_arguments, reason = "they are one access")]
    fn own(
        &mut self,
        path: CachePath,
        at: usize,
        (set, way): (u32, u32),
        line: LineNumber,
        request: CoherenceRequest,
        first: usize,
        ongoing: &mut PendingAccess,
    ) -> Filling {
        let x = path.caches[at];
        let write = request == CoherenceRequest::Invalidate;
        let bits = self.caches[x].bits(set, way);
        ongoing.outcome = AccessOutcome {
            asked: ongoing.outcome.asked,
            ..AccessOutcome::own(self.caches[x].level)
        };
        ongoing.outcome.state = if bits.dirty { Found::Dirty } else { Found::Clean };
        let mut grant = bits.alone;
        if at > 0 {
            let inner = path.caches[at - 1];
            let answer = self.ask_inside(x, inner, (set, way), line, request, ongoing);
            if answer.dirty {
                self.supplied_by_peer(answer, x, ongoing);
            }
            grant &= !answer.may_share || bug!(ReadGrantsExclusive);
        }
        if write && !bits.alone && !bug!(UpgradeForgetsOthers) {
            self.outward(path, at, line, ongoing);
        }
        if write {
            self.leave_outer(path, at + 1, line);
            self.own_all(path, at, line);
        }
        let mut filling = Filling {
            bits: Bits { alone: grant || write, dirty: false, forward: false },
            carried: false,
            places: (first, at),
        };
        let cache = &mut self.caches[x];
        let moves = match cache.inclusion {
            Inclusion::Exclusive => true,
            Inclusion::MostlyExclusive => write || bits.alone || bug!(SharedLineMoves),
            Inclusion::Inclusive | Inclusion::NonInclusive => false,
        };
        if at > first && moves {
            if !bug!(ExclusiveKeeps) {
                cache.remove(set, way);
            }
            filling.carried = bits.dirty && !bug!(ExclusiveMoveCleans);
            filling.bits.alone = bits.alone || write;
            filling.bits.forward = bits.forward && !write;
        } else if at > 0 {
            cache.touch(set, way);
            if at > first && cache.includes() && !bug!(PresenceNotSet) {
                let child = self.caches[path.caches[at - 1]].place;
                self.caches[x].set_present(set, way, child, true);
            }
        }
        filling
    }

    /// Completes an access whose line is beside the CPU's path: inside the cache at place `at`, which lacks the
    /// line itself.
    #[expect(clippy::too_many_arguments, reason = "they are one access")]
    fn beside(
        &mut self,
        path: CachePath,
        at: usize,
        answer: SnoopResponse,
        line: LineNumber,
        request: CoherenceRequest,
        first: usize,
        ongoing: &mut PendingAccess,
    ) -> Filling {
        let x = path.caches[at];
        let write = request == CoherenceRequest::Invalidate;
        self.supplied_by_peer(answer, x, ongoing);
        let filled = self.caches[x].inclusion == Inclusion::NonInclusive;
        let mut carried = false;
        if write {
            if !answer.alone {
                self.outward(path, at, line, ongoing);
            }
            self.leave_outer(path, at + 1, line);
            self.own_all(path, at + 1, line);
        } else if answer.dirty {
            let owned = self.protocol == Protocol::Moesi;
            if owned {
                self.settle(answer, line);
            } else if filled {
                carried = true;
            } else {
                let bits = Bits { alone: answer.alone, dirty: true, forward: false };
                self.hand_out(x, line, bits, ongoing);
            }
        }
        let bits = Bits { alone: write || bug!(ReadGrantsExclusive), dirty: false, forward: false };
        if !filled {
            return Filling { bits, carried, places: (first, at) };
        }
        // The cache that the peers share gets a copy first, with the rights that they had.
        let shared = Bits { alone: write || answer.alone, dirty: carried, forward: false };
        self.put(x, line, shared, ongoing);
        Filling { bits, carried: false, places: (first, at) }
    }

    /// Completes an access whose line no cache below this root has, after the other roots have answered.
    fn nowhere(
        &mut self,
        path: CachePath,
        remote: SnoopResponse,
        write: bool,
        first: usize,
        ongoing: &mut PendingAccess,
    ) -> Filling {
        let shared = remote.copies > 0 && !write;
        let answers =
            remote.dirty || (self.protocol == Protocol::Mesif && (remote.forward || remote.alone));
        let asked = ongoing.outcome;
        ongoing.outcome = AccessOutcome { supplier: Supplier::Memory, level: 0, ..asked };
        if answers {
            ongoing.outcome.supplier = Supplier::Peer;
            ongoing.outcome.level = remote.level;
            ongoing.outcome.state = if remote.dirty { Found::Dirty } else { Found::Clean };
            ongoing.outcome.distance = remote.distance;
        }
        let forward = shared && self.protocol == Protocol::Mesif;
        let alone = !shared || bug!(ReadGrantsExclusive);
        let bits = Bits { alone, dirty: false, forward };
        Filling { bits, carried: false, places: (first, path.len) }
    }
}

/// Sets the parent and the children of each cache; children are in the order of their numbers.
fn link(caches: &mut [CacheNode], paths: &mut [[CachePath; 2]]) {
    for path in paths.iter().flatten() {
        for pair in path.caches[..path.len].windows(2) {
            caches[pair[0]].parent = Some(pair[1]);
        }
    }
    for x in 0..caches.len() {
        if let Some(parent) = caches[x].parent {
            caches[x].place = caches[parent].children.len();
            caches[parent].children.push(x);
        }
    }
    for x in 0..caches.len() {
        let outer = caches[x].parent.map(|outer| caches[outer].inclusion);
        caches[x].settle(outer);
    }
    for path in paths.iter_mut().flatten() {
        let own = &path.caches[..path.len];
        for (place, &x) in path.places.iter_mut().zip(own) {
            *place = caches[x].place;
        }
        path.plain = own.iter().all(|&x| caches[x].is_plain());
    }
}

/// The distance between two packages, or between two parts of one package.
pub(super) fn between(a: usize, b: usize) -> Distance {
    if a == b { Distance::Package } else { Distance::Machine }
}
