// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop behind [`super::walk`]: accesses on a way of three caches of up to 16 ways each that
//! concern no other cache, compiled for the widths of their sets and for what is known of their
//! policies.
//!
//! It stops before an access for which another cache has to do something, and within one whose
//! evicted line the general way has to take care of; the caller goes on from there. What it does
//! itself is what [`super::movement`] does. The tests send the same accesses through both.
//!
//! An uninterrupted job is simulated 1.8 to 2.6 times as fast as without this loop, from
//! 8 MiB on (Xeon X5650; reads and writes); at 8 KiB there is no difference.

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

/// A cache on the way, taken apart. `KNOWN` is what its policy is known by,
/// and with `POWER` a mask finds the set.
pub(super) struct CacheStage<'a, const N: usize, const KNOWN: u8, const POWER: bool> {
    pub(super) blocks: &'a mut [TagBlock<N>],
    pub(super) finder: Remainder<'a>,
    /// The mask that finds the set, with `POWER`.
    pub(super) mask: u32,
    pub(super) policy: &'a mut ReplacementPolicy,
    pub(super) counters: &'a mut CacheCounters,
    pub(super) filled: &'a mut u32,
    /// The ways that may be filled.
    pub(super) allowed: u32,
    pub(super) level: u8,
    /// It includes the caches inside.
    pub(super) includes: bool,
    /// The caches inside but for the one on the way are empty, and questions to them are not counted.
    pub(super) lonely: bool,
    /// At a miss others have to be asked.
    pub(super) asks: bool,
    /// The bit of the next cache inside on the way; 0 for the innermost cache.
    pub(super) own: u16,
}

/// Why the loop stopped.
#[derive(Debug)]
pub(super) enum LoopExit {
    /// The visitor has no further access.
    Done,
    /// The visitor has something to do before its next access.
    Paused,
    /// Nothing was done about the next access.
    Ask,
    /// A line was put into the cache at this place of the way, and what it displaced is to go
    /// somewhere. Then the caches inside are to be filled.
    Evicted { place: usize, inserted: Inserted, fill: LineFill, outcome: AccessOutcome },
}

/// A line on its way inwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineFill {
    pub(super) line: LineNumber,
    /// It is held alone.
    pub(super) alone: bool,
    /// The action on the innermost copy, which comes first.
    pub(super) does: Does,
}

impl LineFill {
    /// The innermost copy is written.
    #[inline(always)]
    pub(super) fn writes(self) -> bool {
        self.does == Does::Writes
    }

    /// The flags of a copy outside the innermost cache.
    #[inline(always)]
    fn flags(self) -> u16 {
        u16::from(self.alone) * ALONE
    }
}

/// The counters of the loop.
#[derive(Debug, Default)]
pub(super) struct LoopCounters {
    /// Accesses that do not write, and those that do.
    pub(super) accesses: [u64; 2],
    /// Hits by level, and last what no cache had.
    pub(super) found: [u64; 4],
    /// Lines written to memory.
    pub(super) written: u64,
    /// The other roots that each miss of all caches asks.
    pub(super) asked: u8,
    /// The questions to caches beside the innermost one.
    pub(super) asked_beside: u64,
}

/// The line that another displaced, and its level.
#[derive(Clone, Copy)]
struct Displaced {
    way: u32,
    /// [`NO_LINE`] where the way was empty.
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

    /// Has the host fetch the set of a line that will be looked for.
    #[inline(always)]
    fn expect(&self, line: LineNumber) {
        if let Some(block) = self.blocks.get(self.set(line)) {
            block.expect();
        }
    }

    /// The line that has to go when `line` comes into a full set, if it is newer here than further
    /// out, and as far as it is known without a look at the policy.
    #[inline(always)]
    fn newer_to_go(&self, line: LineNumber) -> Option<LineNumber> {
        let block = self.blocks.get(self.set(line))?;
        let way = self.policy.next_victim::<N, KNOWN>(block.order)?;
        block.flagged(way, DIRTY)
    }

    /// The line in `way` was used.
    #[inline(always)]
    fn touch(&mut self, set: usize, way: u32) {
        self.policy.hit_in::<N, KNOWN>(&mut self.blocks[set].order, way);
    }

    /// A hit of the innermost cache, unless it writes a line that is not held alone.
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

    /// A hit that goes inwards: the word of the line, as the caches inside get it; nothing where
    /// another cache has to do something about it.
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

    /// As [`super::cache::CacheNode::insert`] in its set, with the bit of the cache inside.
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

    /// Gives up a line that a cache around evicts; whether it was newer.
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

    /// Takes newer data of a line from the cache inside, which does not have it any more as far as
    /// `gone` says; whether the line is here.
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

    /// Deals with what this cache, the second of three, displaced; or says that it cannot, and then
    /// what is left to do.
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

    /// Deals with what this cache, the outermost, displaced; or says that it cannot, and then what
    /// is left to do.
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

/// The lanes of a way, innermost first.
pub(super) struct WayLanes<'a, const A: usize, const B: usize, const C: usize, const KNOWN: u8> {
    pub(super) l1: CacheStage<'a, A, KNOWN, true>,
    pub(super) l2: CacheStage<'a, B, KNOWN, true>,
    pub(super) l3: CacheStage<'a, C, KNOWN, false>,
    /// The caches beside the innermost one, which the second one does not include and which are not empty.
    pub(super) beside: &'a mut [&'a mut CacheNode],
    /// The questions to them, as they are counted.
    pub(super) beside_asked: u8,
    /// The outermost caches elsewhere, which include all inside them and are not empty.
    pub(super) remote: &'a [&'a mut CacheNode],
    /// The innermost cache holds instructions: writes go another way.
    pub(super) fetches: bool,
}

impl<const A: usize, const B: usize, const C: usize, const KNOWN: u8> WayLanes<'_, A, B, C, KNOWN> {
    /// Carries out the accesses of `visitor` until it has to stop.
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

    /// Whether prefetchers asked for nothing but lines that the second cache or the first one has.
    #[inline(always)]
    fn holds_wanted<V: Visitor>(&self, visitor: &mut V) -> bool {
        let level = u32::from(self.l2.level);
        let inside = |line| bug!(FastPathDropsWanted) || self.l1.find(line).is_some();
        let held = |line, of| of == level && (self.l2.find(line).is_some() || inside(line));
        !self.fetches && visitor.wanted().is_some_and(|wanted| wanted.skip_held(held))
    }

    /// One line that the innermost cache lacks: the way it gets there, and whether the visitor, told
    /// of it, lets the walk go on. Each outcome is told where it is known, which is quicker.
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

    /// Has the host fetch what it needs to find where `later` is, and where the line will go that it
    /// is going to displace in the second cache, if that line is newer there.
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

    /// Whether a cache beside the innermost one has the line.
    #[inline(always)]
    fn is_beside(&self, line: LineNumber) -> bool {
        let found = self.beside.iter().any(|cache| cache.locate(line).is_some());
        found && !bug!(FastPathForgetsBeside)
    }

    /// Those beside are asked: by how many questions.
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

    /// The line comes from memory.
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

    /// The line, from further out, enters the second cache and then the first.
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

    /// The line enters the first cache.
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
