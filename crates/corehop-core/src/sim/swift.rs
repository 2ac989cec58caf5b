// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop behind [`super::Hierarchy::walk`]: reads on a way of three caches of up to 16 ways each
//! that concern nobody else, compiled for the widths of their sets and for whether all of them
//! replace the least recently used line.
//!
//! It stops before an access for which somebody else has to be asked, and within one whose evicted
//! line the general way has to take care of; the caller goes on from there. What it does itself is
//! what [`super::movement`] does. The tests send the same accesses through both.

use crate::platform::{Found, Supplier};

use super::cache::{Bits, CacheCounters, Finder, Inserted};
use super::outcome::Outcome;
use super::replacement::Policy;
use super::tags::{Block, Line, NO_LINE};

const ALONE: u16 = 1;
const DIRTY: u16 = 2;
/// The first bit of a way's word that names a cache inside.
const NAMES: u32 = 3;
/// How many accesses ahead the host is told of the sets that will be needed.
const AHEAD: usize = 6;

/// A cache on the way, taken apart. With `LRU` it replaces the least recently used line of all ways,
/// with `POWER` a mask finds the set.
pub(super) struct Lane<'a, const N: usize, const LRU: bool, const POWER: bool> {
    pub(super) blocks: &'a mut [Block<N>],
    pub(super) finder: &'a Finder,
    /// The mask that finds the set, with `POWER`.
    pub(super) mask: u32,
    pub(super) policy: &'a mut Policy,
    pub(super) counters: &'a mut CacheCounters,
    pub(super) filled: &'a mut u32,
    /// The ways that may be filled.
    pub(super) allowed: u32,
    pub(super) level: u8,
    /// It includes the caches inside.
    pub(super) includes: bool,
    /// The caches inside but for the one on the way are empty, and nobody counts questions to them.
    pub(super) lonely: bool,
    /// At a miss others have to be asked.
    pub(super) asks: bool,
    /// The bit of the next cache inside on the way; 0 for the innermost cache.
    pub(super) own: u16,
}

/// Why the loop stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// All lines are done.
    Done,
    /// Nothing was done about the next line.
    Ask,
    /// The next line was put into the cache at this place of the way, and what it displaced is to go
    /// somewhere. Then the caches inside are to be filled.
    Evicted { place: usize, inserted: Inserted, alone: bool, outcome: Outcome },
}

/// Where the loop counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Hits by level, and last what no cache had.
    pub(super) found: [u64; 4],
    /// Lines written to memory.
    pub(super) written: u64,
    /// The other roots, which are empty, that each miss of all caches asks.
    pub(super) asked: u8,
}

/// What a line displaced, and where.
#[derive(Clone, Copy)]
struct Displaced {
    way: u32,
    /// [`NO_LINE`] where the way was empty.
    victim: Line,
    word: u16,
}

impl Displaced {
    fn inserted(self, set: usize) -> Inserted {
        let Self { way, victim, word } = self;
        let sharers = u64::from(word >> NAMES);
        Inserted { set: set as u32, way, victim, bits: Bits::unpacked(word), sharers }
    }
}

impl<const N: usize, const LRU: bool, const POWER: bool> Lane<'_, N, LRU, POWER> {
    #[inline(always)]
    fn set(&self, line: Line) -> usize {
        let set = if POWER { line & self.mask } else { self.finder.set(line) };
        set as usize
    }

    #[inline(always)]
    fn find(&self, line: Line) -> Option<(usize, u32)> {
        let set = self.set(line);
        Some((set, self.blocks[set].find(line)?))
    }

    /// Has the host fetch the set of a line that will be looked for.
    #[inline(always)]
    fn expect(&self, line: Line) {
        if let Some(block) = self.blocks.get(self.set(line)) {
            block.expect();
        }
    }

    /// The line in `way` was used.
    #[inline(always)]
    fn touch(&mut self, set: usize, way: u32) {
        self.policy.hit_in::<N, LRU>(&mut self.blocks[set].order, way);
    }

    /// A hit that goes inwards: the word of the line, unless others may have it.
    #[inline(always)]
    fn pass(&mut self, set: usize, way: u32) -> Option<u16> {
        let word = self.blocks[set].word(way);
        let found = *word;
        let others = if self.includes { found >> NAMES & !self.own != 0 } else { !self.lonely };
        if others && !bug!(SwiftAsksNobody) {
            return None;
        }
        if self.includes && !bug!(SwiftSetsNoBit) {
            *word |= self.own << NAMES;
        }
        self.touch(set, way);
        Some(found)
    }

    /// As [`super::cache::Cache::insert`] in its set, with the bit of the cache inside.
    #[inline(always)]
    fn insert(&mut self, set: usize, line: Line, alone: u16) -> Displaced {
        let block = &mut self.blocks[set];
        let empty = !block.taken & self.allowed;
        let way = if empty == 0 {
            self.counters.evictions += 1;
            self.policy.replace_in::<N, LRU>(&mut block.order, self.allowed)
        } else {
            let way = empty.trailing_zeros();
            block.taken |= 1 << way;
            *self.filled += 1;
            self.policy.fill_in::<N>(&mut block.order, way);
            way
        };
        let own = if self.includes { self.own << NAMES } else { 0 };
        let (victim, word) = block.put(way, line, alone | own);
        Displaced { way, victim, word }
    }

    /// Gives up a line that a cache around evicts; whether it was newer.
    #[inline(always)]
    fn remove(&mut self, line: Line) -> bool {
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
    fn absorb(&mut self, line: Line, gone: bool) -> bool {
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
        l3: &mut Lane<'_, C, LRU, false>,
        l1: &mut Lane<'_, A, LRU, true>,
    ) -> bool {
        let Displaced { victim, word, .. } = *displaced;
        let sharers = word >> NAMES;
        if sharers & !self.own != 0 {
            return false;
        }
        if sharers != 0 {
            let newer = if l1.remove(victim) { DIRTY } else { 0 };
            displaced.word = word & ((1 << NAMES) - 1) | newer;
        }
        if displaced.word & DIRTY == 0 || bug!(SwiftForgetsSecond) {
            return true;
        }
        let gone = self.includes || l1.find(victim).is_none();
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
        (l2, l1): (&mut Lane<'_, B, LRU, true>, &mut Lane<'_, A, LRU, true>),
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
                dirty |= !bug!(SwiftPurgesOnlyInnermost) && l2.remove(victim);
            } else {
                return false;
            }
        }
        if dirty && !bug!(SwiftForgetsWriteBack) {
            self.counters.write_backs += 1;
            *written += 1;
        }
        true
    }
}

/// The lanes of a way, innermost first.
pub(super) struct Three<'a, const A: usize, const B: usize, const C: usize, const LRU: bool> {
    pub(super) l1: Lane<'a, A, LRU, true>,
    pub(super) l2: Lane<'a, B, LRU, true>,
    pub(super) l3: Lane<'a, C, LRU, false>,
}

impl<const A: usize, const B: usize, const C: usize, const LRU: bool> Three<'_, A, B, C, LRU> {
    /// Reads `lines`; how many were done, and why no more. `beyond` is told of all but innermost
    /// hits.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        lines: &[Line],
        tally: &mut Tally,
        mut beyond: impl FnMut(usize, Outcome),
    ) -> (usize, Stop) {
        let mut missed = 0;
        for (at, &line) in lines.iter().enumerate() {
            let set = self.l1.set(line);
            if let Some(way) = self.l1.blocks[set].find(line) {
                self.l1.touch(set, way);
                continue;
            }
            if let Some(&later) = lines.get(at + AHEAD) {
                self.l3.expect(later);
            }
            match self.bring(set, line, tally) {
                Ok(outcome) => beyond(at, outcome),
                Err(stop) => {
                    tally.found[0] += (at - missed) as u64;
                    return (at, stop);
                }
            }
            missed += 1;
        }
        tally.found[0] += (lines.len() - missed) as u64;
        (lines.len(), Stop::Done)
    }

    /// One line that the innermost cache lacks.
    #[inline(always)]
    fn bring(&mut self, first: usize, line: Line, tally: &mut Tally) -> Result<Outcome, Stop> {
        let second = self.l2.set(line);
        if let Some(way) = self.l2.blocks[second].find(line) {
            let word = self.l2.pass(second, way).ok_or(Stop::Ask)?;
            tally.found[1] += 1;
            return self.fill_first(first, line, word & ALONE, supplied(self.l2.level, word));
        }
        if self.l2.asks {
            return Err(Stop::Ask);
        }
        let third = self.l3.set(line);
        if let Some(way) = self.l3.blocks[third].find(line) {
            let word = self.l3.pass(third, way).ok_or(Stop::Ask)?;
            tally.found[2] += 1;
            let outcome = supplied(self.l3.level, word);
            return self.fill_inner((first, second), line, word & ALONE, outcome);
        }
        if self.l3.asks {
            return Err(Stop::Ask);
        }
        let asked = tally.asked;
        let mut outcome = Outcome { supplier: Supplier::Memory, asked, ..supplied(0, 0) };
        tally.found[3] += 1;
        let mut displaced = self.l3.insert(third, line, ALONE);
        let inside = (&mut self.l2, &mut self.l1);
        if displaced.victim != NO_LINE
            && !self.l3.displaced(&mut displaced, inside, &mut outcome.written_back)
        {
            let inserted = displaced.inserted(third);
            return Err(Stop::Evicted { place: 2, inserted, alone: true, outcome });
        }
        let outcome = self.fill_inner((first, second), line, ALONE, outcome)?;
        tally.written += u64::from(outcome.written_back);
        Ok(outcome)
    }

    /// The line, from further out, enters the second cache and then the first.
    #[inline(always)]
    fn fill_inner(
        &mut self,
        (first, second): (usize, usize),
        line: Line,
        alone: u16,
        outcome: Outcome,
    ) -> Result<Outcome, Stop> {
        let mut displaced = self.l2.insert(second, line, alone);
        if displaced.victim != NO_LINE
            && !self.l2.displaced_inside(&mut displaced, &mut self.l3, &mut self.l1)
        {
            let inserted = displaced.inserted(second);
            return Err(Stop::Evicted { place: 1, inserted, alone: alone == ALONE, outcome });
        }
        self.fill_first(first, line, alone, outcome)
    }

    /// The line enters the first cache.
    #[inline(always)]
    fn fill_first(
        &mut self,
        first: usize,
        line: Line,
        alone: u16,
        outcome: Outcome,
    ) -> Result<Outcome, Stop> {
        let displaced = self.l1.insert(first, line, alone);
        if displaced.word & DIRTY != 0 && !bug!(SwiftForgetsInnermost) {
            if !self.l2.absorb(displaced.victim, true) {
                let inserted = displaced.inserted(first);
                return Err(Stop::Evicted { place: 0, inserted, alone: alone == ALONE, outcome });
            }
            self.l1.counters.write_backs += 1;
        }
        Ok(outcome)
    }
}

#[inline(always)]
fn supplied(level: u8, word: u16) -> Outcome {
    let state = if word & DIRTY == 0 { Found::Clean } else { Found::Dirty };
    Outcome { state, ..Outcome::own(level) }
}
