// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common loop for walks: accesses of one CPU, one after the other, while no other CPU acts.
//!
//! Most accesses concern no other cache, so [`super::fast_path`] handles such accesses in one loop. All other
//! accesses take the general path one at a time. The tests run every access sequence through both paths.

use super::cache::{Bits, CacheNode};
use super::fast_path::{self, LoopCounters, LoopExit};
use super::hierarchy::{CachePath, Hierarchy, PendingAccess};
use super::observer::Observer;
use super::outcome::{Access, AccessOutcome};
use super::replacement::{ANY, LRU, TREES};
use super::tags::LineNumber;
use super::tags::{TagArray, TagBlock};
use super::timing::PrefetchQueue;
use super::walker::Visit;
use super::ways::WayCaches;
use corehop_plan::platform::{Found, Supplier};

/// Runs of the quick loop shorter than this many accesses cost more to set up than they save.
const WORTH_IT: u64 = 2;
/// The number of accesses that take the general path after a short run of the quick loop.
const PATIENCE: u32 = 16;

/// The accesses that a visit makes to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Reads or executes the line.
    Reads,
    /// Writes the line.
    Writes,
    /// Reads or executes the line, then writes the line: two accesses.
    Both,
}

impl Does {
    /// The accesses of a visit; None if the visit makes no accesses.
    #[inline(always)]
    pub(super) fn of(visit: &Visit) -> Option<Self> {
        match (visit.reads || visit.fetches, visit.writes) {
            (false, true) => Some(Self::Writes),
            (true, false) => Some(Self::Reads),
            (true, true) => Some(Self::Both),
            (false, false) => None,
        }
    }
}

/// A source of accesses, which receives the outcome of each access.
pub(super) trait Visitor {
    /// Returns the line of the next access and the action on that line; None if the walk has to end here. Repeated
    /// calls return the same access until the visitor receives its outcome. After the outcome of the first of two
    /// accesses, the second access is next.
    fn next(&mut self) -> Option<(LineNumber, Does)>;
    /// A line that the walk will access soon.
    fn ahead(&self) -> Option<LineNumber>;
    /// Receives the outcome of the access returned by `next`. Returns whether the walk may continue at once.
    fn met(&mut self, does: Does, outcome: AccessOutcome) -> bool;
    /// Reports that the second of two accesses was an [`AccessOutcome::HIT`].
    fn wrote(&mut self);
    /// The lines to prefetch before the next access; None if the walk pauses for another reason.
    fn wanted(&mut self) -> Option<&mut PrefetchQueue>;
}

/// The number of accesses that take the general path before the quick loop is tried again. This number affects only
/// the speed of the simulation.
#[derive(Debug, Default)]
pub(super) struct RetryBackoff(u32);

fn eight(blocks: &mut TagArray) -> Option<&mut Vec<TagBlock<8>>> {
    if let TagArray::Eight(blocks) = blocks { Some(blocks) } else { None }
}

fn sixteen(blocks: &mut TagArray) -> Option<&mut Vec<TagBlock<16>>> {
    if let TagArray::Sixteen(blocks) = blocks { Some(blocks) } else { None }
}

impl<O: Observer> Hierarchy<O> {
    /// Performs the accesses of `visitor` on `cpu`; `fetches` means that the visitor executes lines instead of
    /// reading. Returns true if the visitor has ended the walk, false if the visitor has paused.
    pub(super) fn walk<V: Visitor>(
        &mut self,
        cpu: usize,
        fetches: bool,
        pace: &mut RetryBackoff,
        visitor: &mut V,
    ) -> bool {
        let path = self.path(cpu, fetches);
        loop {
            if pace.0 == 0 && !O::ON {
                match self.quickly(cpu, &path, fetches, pace, visitor) {
                    LoopExit::Done => return true,
                    LoopExit::Paused => return false,
                    LoopExit::Ask | LoopExit::Evicted { .. } => {}
                }
            }
            pace.0 = pace.0.saturating_sub(1);
            let Some((line, does)) = visitor.next() else { return true };
            if !self.one(cpu, fetches, (line, does), visitor) {
                return false;
            }
        }
    }

    /// Performs the accesses of one visit on `cpu`, on the general path or in the loop of [`super::fast_path`]. The
    /// loop pays off for lines that the innermost cache lacks in machines so `large` that the host has to fetch
    /// their sets. Returns true if the visitor has ended the walk, false if the visitor has paused, as
    /// [`Hierarchy::walk`] does.
    #[inline(always)]
    pub(super) fn visit<V: Visitor>(
        &mut self,
        cpu: usize,
        fetches: bool,
        large: bool,
        visitor: &mut V,
    ) -> bool {
        let innermost = self.paths[cpu][usize::from(fetches)].caches[0];
        while let Some(next) = visitor.next() {
            if large && self.caches[innermost].locate(next.0).is_none() {
                return self.visit_quickly(cpu, fetches, visitor);
            }
            if !self.one(cpu, fetches, next, visitor) {
                return false;
            }
        }
        true
    }

    /// Performs one visit in the quick loop, and keeps the facts about the CPU's caches for the next visit.
    fn visit_quickly<V: Visitor>(&mut self, cpu: usize, fetches: bool, visitor: &mut V) -> bool {
        let path = self.path(cpu, fetches);
        loop {
            // An access the general way may have filled a cache that was left out for being empty.
            let way = self.ready(cpu, fetches, &path);
            let asked = way.as_ref().map_or(0, |way| way.asked);
            let mut tally = LoopCounters { asked, ..LoopCounters::default() };
            let stop = way.as_ref().and_then(|way| self.three(&path, way, visitor, &mut tally));
            self.add(cpu, fetches, &tally);
            self.ready[cpu][usize::from(fetches)] = way;
            match stop {
                Some(LoopExit::Done) => return true,
                Some(LoopExit::Paused) => return false,
                _ => {}
            }
            let Some(next) = visitor.next() else { return true };
            if !self.one(cpu, fetches, next, visitor) {
                return false;
            }
        }
    }

    /// Performs one access on the general path. Returns whether the walk may continue at once.
    #[inline(always)]
    fn one<V: Visitor>(
        &mut self,
        cpu: usize,
        fetches: bool,
        (line, does): (LineNumber, Does),
        visitor: &mut V,
    ) -> bool {
        let access = match does {
            Does::Writes => Access::Write,
            _ if fetches => Access::Fetch,
            _ => Access::Read,
        };
        let outcome = self.access(cpu, line, access);
        if let Some(later) = visitor.ahead().filter(|_| !outcome.is_innermost_hit()) {
            self.expect(cpu, later);
        }
        visitor.met(does, outcome)
    }

    /// Performs accesses in the loop of [`super::fast_path`] as long as the loop is fast.
    fn quickly<V: Visitor>(
        &mut self,
        cpu: usize,
        path: &CachePath,
        fetches: bool,
        pace: &mut RetryBackoff,
        visitor: &mut V,
    ) -> LoopExit {
        let Some(way) = self.ready(cpu, fetches, path) else {
            pace.0 = u32::MAX;
            return LoopExit::Ask;
        };
        let mut tally = LoopCounters { asked: way.asked, ..LoopCounters::default() };
        let stop = self.three(path, &way, visitor, &mut tally);
        let done: u64 = tally.accesses.iter().sum();
        pace.0 = if done < WORTH_IT { PATIENCE } else { 0 };
        self.add(cpu, fetches, &tally);
        self.ready[cpu][usize::from(fetches)] = Some(way);
        stop.unwrap_or(LoopExit::Ask)
    }

    /// Prefetches the sets of `line` into the host's caches, because `cpu` will access `line` soon.
    pub(super) fn expect(&self, cpu: usize, line: LineNumber) {
        let path = self.path(cpu, false);
        for &x in &path.caches[1.min(path.len)..path.len] {
            self.caches[x].expect(line);
        }
        for &root in &self.roots {
            if root != path.caches[path.len - 1] {
                self.caches[root].expect(line);
            }
        }
    }

    /// Prefetches into the host's caches only the sets of the outermost caches, which are by far the largest: the
    /// set of `line`, and the set of the line that `line` will displace from a second cache, if that cache holds
    /// newer data.
    #[inline(always)]
    pub(super) fn expect_outermost(&self, cpu: usize, line: LineNumber) {
        self.roots.iter().for_each(|&root| self.caches[root].expect(line));
        let path = &self.paths[cpu][0];
        let newer = || self.caches[path.caches[1]].newer_to_go(line);
        if let Some(newer) = (path.len == 3).then(newer).flatten() {
            self.caches[path.caches[2]].expect(newer);
        }
    }

    /// Whether every root but `own` would answer that nothing inside it has `line`.
    #[inline(always)]
    fn others_lack(&self, own: usize, line: LineNumber) -> bool {
        self.roots.iter().all(|&root| root == own || !self.holds(root, line))
    }

    /// Whether the caches inside `x`, except the cache in place `own`, would answer that they lack `line`; `x` does
    /// not include the caches inside.
    #[inline(always)]
    fn beside_lack(&self, x: usize, own: usize, line: LineNumber) -> bool {
        let children = &self.caches[x].children;
        children.iter().enumerate().all(|(place, &child)| place == own || !self.holds(child, line))
    }

    /// Runs the quick loop, and completes accesses that the loop left unfinished. Returns None if no compiled loop
    /// fits these caches.
    fn three<V: Visitor>(
        &mut self,
        path: &CachePath,
        way: &WayCaches,
        visitor: &mut V,
        tally: &mut LoopCounters,
    ) -> Option<LoopExit> {
        loop {
            let stop = self.dispatch(path, way, visitor, tally)?;
            let LoopExit::Evicted { place, inserted, fill, mut outcome } = stop else {
                return Some(stop);
            };
            let written = outcome.written_back;
            let mut ongoing = PendingAccess { outcome, masks: way.masks };
            self.displaced(path.caches[place], inserted, &mut ongoing);
            let end = place.saturating_sub(usize::from(bug!(FastPathResumesTooLate)));
            self.fill_quietly(path, end, fill.line, (fill.alone, fill.writes()), &mut ongoing);
            outcome.written_back = ongoing.outcome.written_back.max(written);
            tally.written += u64::from(outcome.written_back);
            tally.accesses[usize::from(fill.writes())] += 1;
            if !visitor.met(fill.does, outcome) {
                return Some(LoopExit::Paused);
            }
        }
    }

    /// Adds the counts of the quick loop to the counters of `cpu`.
    fn add(&mut self, cpu: usize, fetches: bool, tally: &LoopCounters) {
        let counters = &mut self.counters[cpu];
        let [others, writes] = tally.accesses;
        counters.writes += writes;
        *(if fetches { &mut counters.fetches } else { &mut counters.reads }) += others;
        for (count, found) in counters.hits.iter_mut().zip(&tally.found[..3]) {
            *count += found;
        }
        counters.memory += tally.found[3];
        counters.asked += tally.found[3] * u64::from(tally.asked) + tally.asked_beside;
        counters.write_backs += tally.written;
    }

    /// Selects the compiled loop that fits the set widths of these three caches.
    fn dispatch<V: Visitor>(
        &mut self,
        path: &CachePath,
        way: &WayCaches,
        visitor: &mut V,
        tally: &mut LoopCounters,
    ) -> Option<LoopExit> {
        macro_rules! of {
            ($count:literal) => {{
                let all: [usize; $count] = way.all.as_slice().try_into().ok()?;
                let mut all = self.caches.get_disjoint_mut(all).ok()?;
                Self::run_three(&mut all, path, way, visitor, tally)
            }};
        }
        match way.all.len() {
            3 => of!(3),
            4 => of!(4),
            5 => of!(5),
            6 => of!(6),
            7 => of!(7),
            _ => {
                let mut all: Vec<(usize, &mut CacheNode)> = Vec::new();
                for (x, cache) in self.caches.iter_mut().enumerate() {
                    if let Some(place) = way.all.iter().position(|&other| other == x) {
                        all.push((place, cache));
                    }
                }
                all.sort_unstable_by_key(|&(place, _)| place);
                let mut all: Vec<&mut CacheNode> =
                    all.into_iter().map(|(_, cache)| cache).collect();
                Self::run_three(&mut all, path, way, visitor, tally)
            }
        }
    }

    /// Runs the loop compiled for the set widths of these caches, which are in the order of [`WayCaches::all`].
    fn run_three<'a, V: Visitor>(
        all: &'a mut [&'a mut CacheNode],
        path: &CachePath,
        way: &WayCaches,
        visitor: &mut V,
        tally: &mut LoopCounters,
    ) -> Option<LoopExit> {
        let (own, others) = all.split_at_mut(3);
        let (beside, remote) = others.split_at_mut(way.beside);
        let [l1, l2, l3] = own else { return None };
        let widths = [&l1, &l2, &l3].map(|cache| cache.width());
        let masks = [&l1, &l2, &l3].map(|cache| way.masks[usize::from(cache.level) - 1]);
        macro_rules! three {
            ($a:ident, $b:ident, $c:ident, $known:ident) => {{
                let mut l3 = l3.lane($c, masks[2], path.places[1], way.lonely[2])?;
                l3.asks |= !way.remote_includes;
                let l1 = l1.lane($a, masks[0], 0, true)?;
                let l2 = l2.lane($b, masks[1], path.places[0], way.lonely[1])?;
                let mut three = fast_path::WayLanes::<'_, _, _, _, $known> {
                    l1,
                    l2,
                    l3,
                    beside,
                    beside_asked: way.beside_asked,
                    remote,
                    fetches: way.fetches,
                };
                Some(three.run(visitor, tally))
            }};
        }
        match (widths, way.known) {
            ([8, 8, 16], LRU) => three!(eight, eight, sixteen, LRU),
            ([8, 8, 16], TREES) => three!(eight, eight, sixteen, TREES),
            ([8, 8, 8], _) => three!(eight, eight, eight, ANY),
            ([8, 8, 16], _) => three!(eight, eight, sixteen, ANY),
            ([8, 16, 16], _) => three!(eight, sixteen, sixteen, ANY),
            _ => None,
        }
    }

    /// Performs an access to a line that the innermost cache lacks.
    #[inline(always)]
    pub(super) fn miss(
        &mut self,
        cpu: usize,
        path: &CachePath,
        line: LineNumber,
        access: Access,
    ) -> AccessOutcome {
        if path.plain && !O::ON {
            let write = access == Access::Write;
            if let Some(outcome) = self.quiet(cpu, path, line, write) {
                let counters = &mut self.counters[cpu];
                counters.write_backs += u64::from(outcome.written_back);
                counters.asked += u64::from(outcome.asked);
                match outcome.supplier {
                    Supplier::Memory => counters.memory += 1,
                    _ => counters.hits[usize::from(outcome.level) - 1] += 1,
                }
                return outcome;
            }
        }
        self.beyond(cpu, line, access)
    }

    /// Performs the access if no other cache has to give up or hand over anything: the line is in memory, or
    /// further out on a path without exclusive caches. Otherwise changes nothing.
    #[inline(always)]
    fn quiet(
        &mut self,
        cpu: usize,
        path: &CachePath,
        line: LineNumber,
        write: bool,
    ) -> Option<AccessOutcome> {
        let spotted = self.spot(path, line, write)?;
        let mut ongoing = PendingAccess { outcome: AccessOutcome::own(0), masks: self.masks(cpu) };
        ongoing.outcome.asked = spotted.asked;
        let end = if let Some((at, set, way)) = spotted.place {
            let cache = &mut self.caches[path.caches[at]];
            cache.touch(set, way);
            if cache.includes() && !bug!(PresenceNotSet) {
                cache.set_present(set, way, path.places[at - 1], true);
            }
            ongoing.outcome.level = cache.level;
            ongoing.outcome.state = if spotted.dirty { Found::Dirty } else { Found::Clean };
            at
        } else {
            ongoing.outcome.supplier = Supplier::Memory;
            path.len
        };
        self.fill_quietly(path, end, line, (spotted.alone, write), &mut ongoing);
        Some(ongoing.outcome)
    }

    /// Fills the caches of the path before place `end`, outermost first, with a line. `alone` states whether the
    /// copy is held alone; the innermost copy may be written.
    #[inline(always)]
    fn fill_quietly(
        &mut self,
        path: &CachePath,
        end: usize,
        line: LineNumber,
        (alone, write): (bool, bool),
        ongoing: &mut PendingAccess,
    ) {
        for at in (0..end).rev() {
            let x = path.caches[at];
            let dirty = write && at == 0 && !bug!(SilentWriteStaysClean);
            let (set, way) = self.put(x, line, Bits { alone, dirty, forward: false }, ongoing);
            if at > 0 && self.caches[x].includes() && !bug!(PresenceNotSet) {
                self.caches[x].set_present(set, way, path.places[at - 1], true);
            }
        }
    }

    /// Searches for a line that the innermost cache lacks; None if another cache would have to act.
    #[inline(always)]
    fn spot(&self, path: &CachePath, line: LineNumber, write: bool) -> Option<Spotted> {
        let mut asked = 0_u8;
        for at in 1..path.len {
            let (x, own) = (path.caches[at], path.places[at - 1]);
            let cache = &self.caches[x];
            let set = cache.set_of(line);
            let found = cache.find(set, line);
            let bits = found.map_or(Bits::default(), |way| cache.bits(set, way));
            if found.is_some() && write && !bits.alone {
                return None;
            }
            let mut shared = false;
            if cache.includes() {
                let sharers = found.map_or(0, |way| cache.sharers(set, way));
                shared = sharers & !(1 << own) != 0;
                // The only one who may have it might have newer data.
                if shared && (write || (bits.alone && sharers.is_power_of_two())) {
                    return None;
                }
            } else if cache.children.len() > 1 && (found.is_none() || bits.alone) {
                if !self.beside_lack(x, own, line) {
                    return None;
                }
                asked = asked.saturating_add(self.beside_asked(x));
            }
            if let Some(way) = found {
                let alone = bits.alone && !shared;
                return Some(Spotted {
                    place: Some((at, set, way)),
                    alone,
                    dirty: bits.dirty,
                    asked,
                });
            }
        }
        if !self.others_lack(path.caches[path.len - 1], line) {
            return None;
        }
        asked = asked.saturating_add(self.roots_asked());
        Some(Spotted { place: None, alone: true, dirty: false, asked })
    }
}

/// The location of a line whose access requires no action by another cache.
struct Spotted {
    /// The place on the path, the set and the way of the line; None if the line is in memory.
    place: Option<(usize, u32, u32)>,
    /// Whether no other cache has the line.
    alone: bool,
    /// Whether the copy that was found is newer than memory.
    dirty: bool,
    /// The number of caches asked during the search.
    asked: u8,
}
