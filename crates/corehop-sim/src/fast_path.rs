// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop behind [`super::walk`]: accesses on a way of three caches of up to 16 ways each that
//! concern no other cache, compiled for the widths of their sets and for what is known of their
//! policies.
//!
//! The loop stops before an access for which another cache has to act, and within an access whose evicted line the
//! general path has to handle; the caller continues from there. The loop's own line movements match those of
//! [`super::movement`]. The tests send the same accesses through both paths.
//!
//! With this loop, the simulation of an uninterrupted job is 1.8 to 2.6 times as fast, from 8 MiB on (Xeon X5650;
//! reads and writes); at 8 KiB there is no difference.

use corehop_plan::platform::{Found, Supplier};

use super::cache::{Bits, CacheCounters, CacheNode, Inserted, Remainder};
use super::outcome::AccessOutcome;
use super::replacement::ReplacementPolicy;
use super::tags::{LineNumber, NO_LINE, TagBlock};
use super::walk::{Does, Visitor};

const ALONE: u16 = 1;
const DIRTY: u16 = 2;
/// The first bit of a way's word that names a cache inside.
const NAMES: u32 = 3;

/// The parts of one cache on a CPU's path to memory. `KNOWN` is the key of the cache's policy; with `POWER` a mask
/// selects the set.
pub(super) struct CacheStage<'a, const N: usize, const KNOWN: u8, const POWER: bool> {
    pub(super) blocks: &'a mut [TagBlock<N>],
    pub(super) finder: Remainder<'a>,
    /// The mask that selects the set, if `POWER` is true.
    pub(super) mask: u32,
    pub(super) policy: &'a mut ReplacementPolicy,
    pub(super) counters: &'a mut CacheCounters,
    pub(super) filled: &'a mut u32,
    /// The ways that may be filled.
    pub(super) allowed: u32,
    pub(super) level: u8,
    /// Whether this cache includes the caches inside.
    pub(super) includes: bool,
    /// Whether the caches inside, except the next cache of the path, are empty, and requests to these caches are
    /// not counted.
    pub(super) lonely: bool,
    /// Whether a miss requires requests to other caches.
    pub(super) asks: bool,
    /// The bit of the next cache inside on the path; 0 for the innermost cache.
    pub(super) own: u16,
}

/// The reason for which the loop stopped.
#[derive(Debug)]
pub(super) enum LoopExit {
    /// The visitor has no further access.
    Done,
    /// The visitor has something to do before its next access.
    Paused,
    /// The general path has to handle the next access, for which nothing was done yet.
    Ask,
    /// The loop has inserted a line into the cache at this place of the path. The caller has to store the displaced
    /// line elsewhere, and then to fill the caches inside.
    Evicted { place: usize, inserted: Inserted, fill: LineFill, outcome: AccessOutcome },
}

/// A line that moves inwards from cache to cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineFill {
    pub(super) line: LineNumber,
    /// Whether the copy is held alone.
    pub(super) alone: bool,
    /// The accesses to the innermost copy, which is filled first.
    pub(super) does: Does,
}

impl LineFill {
    /// Whether the access writes the innermost copy.
    #[inline(always)]
    pub(super) fn writes(self) -> bool {
        self.does == Does::Writes
    }

    /// The state flags of a copy outside the innermost cache.
    #[inline(always)]
    fn flags(self) -> u16 {
        u16::from(self.alone) * ALONE
    }
}

/// The counts that the loop collects.
#[derive(Debug, Default)]
pub(super) struct LoopCounters {
    /// The numbers of accesses that do not write, and of accesses that write.
    pub(super) accesses: [u64; 2],
    /// The numbers of hits by level; the last entry counts lines that no cache had.
    pub(super) found: [u64; 4],
    /// The number of lines written to memory.
    pub(super) written: u64,
    /// The number of other roots asked at each miss of all caches.
    pub(super) asked: u8,
    /// The number of requests to caches beside the innermost cache.
    pub(super) asked_beside: u64,
}

/// The line that a fill displaced, with its way and its state word.
#[derive(Clone, Copy)]
struct Displaced {
    way: u32,
    /// The displaced line; [`NO_LINE`] if the way was empty.
    victim: LineNumber,
    word: u16,
}

impl Displaced {
    fn inserted(self, set: usize) -> Inserted {
        let Self { way, victim, word } = self;
        let sharers = u64::from(word >> NAMES);
        Inserted { set: set as u32, way, victim, bits: Bits::unpacked(word), sharers }
    }
}

impl<const N: usize, const KNOWN: u8, const POWER: bool> CacheStage<'_, N, KNOWN, POWER> {
    #[inline(always)]
    fn set(&self, line: LineNumber) -> usize {
        let set = if POWER { line & self.mask } else { self.finder.set(line) };
        set as usize
    }

    #[inline(always)]
    fn find(&self, line: LineNumber) -> Option<(usize, u32)> {
        let set = self.set(line);
        Some((set, self.blocks[set].find(line)?))
    }

    /// Prefetches the set of a line into the host's caches, because the loop will look up the line soon.
    #[inline(always)]
    fn expect(&self, line: LineNumber) {
        if let Some(block) = self.blocks.get(self.set(line)) {
            block.expect();
        }
    }

    /// The victim that `line` will displace from a full set, if the victim is dirty and quickly found.
    #[inline(always)]
    fn newer_to_go(&self, line: LineNumber) -> Option<LineNumber> {
        let block = self.blocks.get(self.set(line))?;
        let way = self.policy.next_victim::<N, KNOWN>(block.order)?;
        block.flagged(way, DIRTY)
    }

    /// Informs the policy of a hit in `way`.
    #[inline(always)]
    fn touch(&mut self, set: usize, way: u32) {
        self.policy.hit_in::<N, KNOWN>(&mut self.blocks[set].order, way);
    }

    /// Completes a hit in the innermost cache; returns false for a write to a line that is not held alone.
    #[inline(always)]
    fn hit(&mut self, set: usize, way: u32, write: bool) -> bool {
        let word = self.blocks[set].word(way);
        if write && *word & ALONE == 0 {
            return false;
        }
        if !bug!(FastPathForgetsWrite) {
            *word |= u16::from(write) * DIRTY;
        }
        self.touch(set, way);
        true
    }

    /// Completes a hit whose line moves inwards. Returns the line's state word for the caches inside; None if
    /// another cache has to act.
    #[inline(always)]
    fn pass(&mut self, set: usize, way: u32, write: bool) -> Option<u16> {
        let word = self.blocks[set].word(way);
        let mut found = *word;
        let others = if self.includes { found >> NAMES & !self.own } else { 0 };
        // The only one who may have it might have newer data.
        let sole = found & ALONE != 0 && (found >> NAMES).is_power_of_two();
        let shared = others != 0 && !bug!(FastPathAsksNone);
        if !(self.includes || self.lonely)
            || (write && (shared || found & ALONE == 0))
            || (shared && sole)
        {
            return None;
        }
        if shared {
            found &= !ALONE;
        }
        if self.includes && !bug!(FastPathSetsNoBit) {
            *word |= self.own << NAMES;
        }
        self.touch(set, way);
        Some(found)
    }

    /// Inserts a line as [`super::cache::CacheNode::insert`] does, with the bit of the inner cache set.
    #[inline(always)]
    fn insert(&mut self, set: usize, line: LineNumber, flags: u16) -> Displaced {
        let block = &mut self.blocks[set];
        let empty = !block.taken & self.allowed;
        let way = if empty == 0 {
            self.counters.evictions += 1;
            self.policy.victim_in::<N, KNOWN>(&mut block.order, self.allowed)
        } else {
            let way = empty.trailing_zeros();
            block.taken |= 1 << way;
            *self.filled += 1;
            way
        };
        self.policy.fill_in::<N, KNOWN>(&mut block.order, set, way);
        let own = if self.includes { self.own << NAMES } else { 0 };
        let (victim, word) = block.put(way, line, flags | own);
        Displaced { way, victim, word }
    }

    /// Removes a line that a cache further out evicts; returns whether the copy was dirty.
    #[inline(always)]
    fn remove(&mut self, line: LineNumber) -> bool {
        let Some((set, way)) = self.find(line) else { return false };
        let block = &mut self.blocks[set];
        block.taken &= !(1 << way);
        let (_, word) = block.put(way, NO_LINE, 0);
        *self.filled -= 1;
        self.counters.back_invalidations += 1;
        word & DIRTY != 0
    }

    /// Takes newer data of a line from the cache inside; `gone` states that the inner cache no longer has the line.
    /// Returns whether this cache has the line.
    #[inline(always)]
    fn absorb(&mut self, line: LineNumber, gone: bool) -> bool {
        let Some((set, way)) = self.find(line) else { return false };
        let word = self.blocks[set].word(way);
        *word |= DIRTY;
        if self.includes && gone {
            *word &= !(self.own << NAMES);
        }
        true
    }

    /// Handles the line that this cache, the second of three, displaced. Returns false if the general path has to
    /// handle the remaining work.
    #[inline(always)]
    fn displaced_inside<const A: usize, const C: usize>(
        &mut self,
        displaced: &mut Displaced,
        (l3, l1): (&mut CacheStage<'_, C, KNOWN, false>, &mut CacheStage<'_, A, KNOWN, true>),
        beside: &[&mut CacheNode],
    ) -> bool {
        let Displaced { victim, word, .. } = *displaced;
        let sharers = word >> NAMES;
        if sharers & !self.own != 0 {
            return false;
        }
        if sharers != 0 {
            let newer = if l1.remove(victim) { DIRTY } else { 0 };
            displaced.word = (word & ((1 << NAMES) - 1)) | newer;
        }
        if displaced.word & DIRTY == 0 || bug!(FastPathForgetsSecond) {
            return true;
        }
        let lack = || beside.iter().all(|cache| cache.locate(victim).is_none());
        let gone = self.includes || (l1.find(victim).is_none() && lack());
        let known = self.includes || self.lonely;
        let taken = known && l3.absorb(victim, gone);
        self.counters.write_backs += u64::from(taken);
        taken
    }

    /// Handles the line that this cache, the outermost, displaced. Returns false if the general path has to handle
    /// the remaining work.
    #[inline(always)]
    fn displaced<const A: usize, const B: usize>(
        &mut self,
        displaced: &mut Displaced,
        (l2, l1, beside): (
            &mut CacheStage<'_, B, KNOWN, true>,
            &mut CacheStage<'_, A, KNOWN, true>,
            &mut [&mut CacheNode],
        ),
        written: &mut u8,
    ) -> bool {
        let Displaced { victim, word, .. } = *displaced;
        let sharers = word >> NAMES;
        if sharers & !self.own != 0 {
            return false;
        }
        let mut dirty = word & DIRTY != 0;
        if sharers != 0 {
            if l2.includes {
                if let Some((set, way)) = l2.find(victim) {
                    let sharers = *l2.blocks[set].word(way) >> NAMES;
                    if sharers & !l2.own != 0 {
                        return false;
                    }
                    dirty |= sharers != 0 && l1.remove(victim);
                    dirty |= l2.remove(victim);
                }
            } else if l2.lonely {
                dirty |= l1.remove(victim);
                dirty |= !bug!(FastPathPurgesOnlyInnermost) && l2.remove(victim);
                for cache in beside {
                    dirty |= cache.give_up(victim);
                }
            } else {
                return false;
            }
        }
        if dirty && !bug!(FastPathForgetsWriteBack) {
            self.counters.write_backs += 1;
            *written += 1;
        }
        true
    }
}

/// The three caches on a CPU's way to memory, innermost first, and the caches beside them.
pub(super) struct WayLanes<'a, const A: usize, const B: usize, const C: usize, const KNOWN: u8> {
    pub(super) l1: CacheStage<'a, A, KNOWN, true>,
    pub(super) l2: CacheStage<'a, B, KNOWN, true>,
    pub(super) l3: CacheStage<'a, C, KNOWN, false>,
    /// The non-empty caches beside the innermost cache that the second cache does not include.
    pub(super) beside: &'a mut [&'a mut CacheNode],
    /// The number of requests counted for each look into the caches beside the innermost cache.
    pub(super) beside_asked: u8,
    /// The non-empty outermost caches of other roots, which include all caches inside.
    pub(super) remote: &'a [&'a mut CacheNode],
    /// Whether the innermost cache holds instructions, so that writes take the general path.
    pub(super) fetches: bool,
}

impl<const A: usize, const B: usize, const C: usize, const KNOWN: u8> WayLanes<'_, A, B, C, KNOWN> {
    /// Performs the accesses of `visitor` until the loop has to stop.
    #[inline(always)]
    pub(super) fn run<V: Visitor>(
        &mut self,
        visitor: &mut V,
        tally: &mut LoopCounters,
    ) -> LoopExit {
        while let Some((line, does)) = visitor.next() {
            if self.fetches && does != Does::Reads {
                return LoopExit::Ask;
            }
            let (set, write) = (self.l1.set(line), does == Does::Writes);
            let (way, goes_on) = match self.l1.blocks[set].find(line) {
                Some(way) if self.l1.hit(set, way, write) => {
                    tally.found[0] += 1;
                    (way, visitor.met(does, AccessOutcome::HIT))
                }
                Some(_) => return LoopExit::Ask,
                None => match self.bring(set, line, does, visitor, tally) {
                    Ok(brought) => brought,
                    Err(stop) => return stop,
                },
            };
            tally.accesses[usize::from(write)] += 1;
            if !goes_on && !self.holds_wanted(visitor) {
                return LoopExit::Paused;
            }
            if does == Does::Both {
                if !self.l1.hit(set, way, true) {
                    return LoopExit::Ask;
                }
                tally.found[0] += 1;
                tally.accesses[1] += 1;
                visitor.wrote();
            }
        }
        LoopExit::Done
    }

    /// Whether the first or the second cache already has every line that prefetchers requested.
    #[inline(always)]
    fn holds_wanted<V: Visitor>(&self, visitor: &mut V) -> bool {
        let level = u32::from(self.l2.level);
        let inside = |line| bug!(FastPathDropsWanted) || self.l1.find(line).is_some();
        let held = |line, of| of == level && (self.l2.find(line).is_some() || inside(line));
        !self.fetches && visitor.wanted().is_some_and(|wanted| wanted.skip_held(held))
    }

    /// Brings a line that the innermost cache lacks into the caches, and reports the outcome to the visitor at the
    /// earliest point, which is faster. Returns whether the visitor lets the walk continue.
    #[inline(always)]
    fn bring<V: Visitor>(
        &mut self,
        first: usize,
        line: LineNumber,
        does: Does,
        visitor: &mut V,
        tally: &mut LoopCounters,
    ) -> Result<(u32, bool), LoopExit> {
        let write = does == Does::Writes;
        if let Some(later) = visitor.ahead() {
            self.expect(later);
        }
        let second = self.l2.set(line);
        if let Some(way) = self.l2.blocks[second].find(line) {
            let alone = *self.l2.blocks[second].word(way) & ALONE != 0;
            if alone && self.is_beside(line) {
                return Err(LoopExit::Ask);
            }
            let word = self.l2.pass(second, way, write).ok_or(LoopExit::Ask)?;
            tally.found[1] += 1;
            let fill = LineFill { line, alone: word & ALONE != 0, does };
            let asked = if alone { self.ask_beside(tally) } else { 0 };
            let outcome = AccessOutcome { asked, ..supplied(self.l2.level, word) };
            return Ok((self.fill_first(first, fill, outcome)?, visitor.met(does, outcome)));
        }
        let third = self.l3.set(line);
        if self.l2.asks || self.is_beside(line) {
            return Err(LoopExit::Ask);
        }
        if let Some(way) = self.l3.blocks[third].find(line) {
            let word = self.l3.pass(third, way, write).ok_or(LoopExit::Ask)?;
            tally.found[2] += 1;
            let fill = LineFill { line, alone: word & ALONE != 0, does };
            let asked = self.ask_beside(tally);
            let outcome = AccessOutcome { asked, ..supplied(self.l3.level, word) };
            let way = self.fill_inner((first, second), fill, outcome)?;
            return Ok((way, visitor.met(does, outcome)));
        }
        if self.l3.asks || (!self.remote.is_empty() && self.is_remote(line)) {
            return Err(LoopExit::Ask);
        }
        let fill = LineFill { line, alone: true, does };
        let (way, outcome) = self.bring_from_memory((first, second, third), fill, tally)?;
        Ok((way, visitor.met(does, outcome)))
    }

    /// Prefetches the sets of `later` into the host's caches, and the set of the dirty line that `later` will
    /// displace from the second cache, if there is such a line.
    #[inline(always)]
    fn expect(&self, later: LineNumber) {
        self.l3.expect(later);
        if !self.remote.is_empty() {
            self.remote.iter().for_each(|root| root.expect(later));
        }
        if let Some(newer) = self.l2.newer_to_go(later) {
            self.l3.expect(newer);
        }
    }

    /// Whether a cache beside the innermost cache has the line.
    #[inline(always)]
    fn is_beside(&self, line: LineNumber) -> bool {
        let found = self.beside.iter().any(|cache| cache.locate(line).is_some());
        found && !bug!(FastPathForgetsBeside)
    }

    /// Counts the requests to the caches beside the innermost cache, and returns their number.
    #[inline(always)]
    fn ask_beside(&self, tally: &mut LoopCounters) -> u8 {
        tally.asked_beside += u64::from(self.beside_asked);
        self.beside_asked
    }

    /// Whether a cache of another package has the line.
    fn is_remote(&self, line: LineNumber) -> bool {
        let found = self.remote.iter().any(|root| root.locate(line).is_some());
        found && !bug!(FastPathForgetsPackages)
    }

    /// Brings the line from memory.
    #[inline(always)]
    fn bring_from_memory(
        &mut self,
        (first, second, third): (usize, usize, usize),
        fill: LineFill,
        tally: &mut LoopCounters,
    ) -> Result<(u32, AccessOutcome), LoopExit> {
        let asked = tally.asked.saturating_add(self.ask_beside(tally));
        let mut outcome = AccessOutcome { supplier: Supplier::Memory, asked, ..supplied(0, 0) };
        tally.found[3] += 1;
        let mut displaced = self.l3.insert(third, fill.line, fill.flags());
        let inside = (&mut self.l2, &mut self.l1, &mut *self.beside);
        if displaced.victim != NO_LINE
            && !self.l3.displaced(&mut displaced, inside, &mut outcome.written_back)
        {
            let inserted = displaced.inserted(third);
            return Err(LoopExit::Evicted { place: 2, inserted, fill, outcome });
        }
        let written = u64::from(outcome.written_back);
        let way = self.fill_inner((first, second), fill, outcome)?;
        tally.written += written;
        Ok((way, outcome))
    }

    /// Inserts a line from further out into the second cache and then into the first.
    #[inline(always)]
    fn fill_inner(
        &mut self,
        (first, second): (usize, usize),
        fill: LineFill,
        outcome: AccessOutcome,
    ) -> Result<u32, LoopExit> {
        let mut displaced = self.l2.insert(second, fill.line, fill.flags());
        if displaced.victim != NO_LINE
            && !self.l2.displaced_inside(&mut displaced, (&mut self.l3, &mut self.l1), self.beside)
        {
            let inserted = displaced.inserted(second);
            return Err(LoopExit::Evicted { place: 1, inserted, fill, outcome });
        }
        self.fill_first(first, fill, outcome)
    }

    /// Inserts the line into the first cache.
    #[inline(always)]
    fn fill_first(
        &mut self,
        first: usize,
        fill: LineFill,
        outcome: AccessOutcome,
    ) -> Result<u32, LoopExit> {
        let written = fill.writes() && !bug!(FastPathForgetsWrite);
        let flags = fill.flags() | (u16::from(written) * DIRTY);
        let displaced = self.l1.insert(first, fill.line, flags);
        if displaced.word & DIRTY != 0 && !bug!(FastPathForgetsInnermost) {
            if !self.l2.absorb(displaced.victim, true) {
                let inserted = displaced.inserted(first);
                return Err(LoopExit::Evicted { place: 0, inserted, fill, outcome });
            }
            self.l1.counters.write_backs += 1;
        }
        Ok(displaced.way)
    }
}

#[inline(always)]
fn supplied(level: u8, word: u16) -> AccessOutcome {
    let state = if word & DIRTY == 0 { Found::Clean } else { Found::Dirty };
    AccessOutcome { state, ..AccessOutcome::own(level) }
}
