// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop behind [`super::Hierarchy::walk`]: reads on a way of three caches of up to 16 ways each
//! that concern nobody else, compiled for the widths of their sets.
//!
//! It stops before an access for which somebody else has to be asked, and within one whose evicted
//! line the general way has to take care of; the caller goes on from there. What it does itself is
//! what [`super::movement`] does. The tests send the same accesses through both.

use crate::platform::{Found, Supplier};

use super::cache::{Bits, CacheCounters, Finder, Inserted, run};
use super::outcome::Outcome;
use super::replacement::Policy;
use super::tags::{Block, Line, NO_LINE};

const ALONE: u16 = 1;
const DIRTY: u16 = 2;
/// The first bit of a way's word that names a cache inside.
const NAMES: u32 = 3;

/// A cache on the way, taken apart.
pub(super) struct Lane<'a, const N: usize> {
    pub(super) blocks: &'a mut [Block<N>],
    pub(super) finder: &'a Finder,
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

impl<const N: usize> Lane<'_, N> {
    #[inline(always)]
    fn find(&self, line: Line) -> Option<(u32, u32)> {
        let set = self.finder.set(line);
        Some((set, self.blocks[set as usize].find(line)?))
    }

    /// As [`super::cache::Cache::hits`].
    #[inline(always)]
    fn hits(&mut self, lines: &[Line]) -> usize {
        let finder = self.finder;
        match finder.mask() {
            Some(mask) => run(self.blocks, self.policy, &mut [], lines, |line| line & mask),
            None => run(self.blocks, self.policy, &mut [], lines, |line| finder.set(line)),
        }
    }

    /// A hit that goes inwards: the word of the line, unless others may have it.
    #[inline(always)]
    fn pass(&mut self, set: u32, way: u32) -> Option<u16> {
        let block = &mut self.blocks[set as usize];
        let word = block.word(way);
        let found = *word;
        let others = if self.includes { found >> NAMES & !self.own != 0 } else { !self.lonely };
        if others && !bug!(SwiftAsksNobody) {
            return None;
        }
        if self.includes && !bug!(SwiftSetsNoBit) {
            *word |= self.own << NAMES;
        }
        self.policy.hit(&mut block.order, &mut [], way);
        Some(found)
    }

    /// As [`super::cache::Cache::insert`] in its set, with the bit of the cache inside.
    #[inline(always)]
    fn insert(&mut self, set: u32, line: Line, alone: u16) -> Inserted {
        let block = &mut self.blocks[set as usize];
        let empty = !block.taken & self.allowed;
        let way = if empty == 0 {
            self.policy.victim(&mut block.order, &[], self.allowed)
        } else {
            empty.trailing_zeros()
        };
        self.policy.fill(&mut block.order, &mut [], way);
        block.taken |= 1 << way;
        let own = if self.includes { self.own << NAMES } else { 0 };
        let (victim, word) = block.put(way, line, alone | own);
        let gone = u32::from(victim != NO_LINE);
        *self.filled += 1 - gone;
        self.counters.evictions += u64::from(gone);
        let (bits, sharers) = (Bits::unpacked(word), u64::from(word >> NAMES));
        Inserted { set, way, victim, bits, sharers }
    }

    /// Gives up a line that a cache around evicts; whether it was newer.
    #[inline(always)]
    fn remove(&mut self, line: Line) -> bool {
        let Some((set, way)) = self.find(line) else { return false };
        let block = &mut self.blocks[set as usize];
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
        let word = self.blocks[set as usize].word(way);
        *word |= DIRTY;
        if self.includes && gone {
            *word &= !(self.own << NAMES);
        }
        true
    }

    /// Lets the innermost cache give up what this one displaced, where that is all there is to do
    /// inside.
    #[inline(always)]
    fn purge_innermost<const A: usize>(
        &self,
        l1: &mut Lane<'_, A>,
        inserted: &mut Inserted,
    ) -> bool {
        if inserted.sharers & !u64::from(self.own) != 0 {
            return false;
        }
        if inserted.sharers != 0 {
            inserted.bits.dirty |= l1.remove(inserted.victim);
            inserted.sharers = 0;
        }
        true
    }

    /// Deals with what this cache, the second of three, displaced; or says that it cannot.
    #[inline(always)]
    fn displaced_inside<const A: usize, const C: usize>(
        &mut self,
        inserted: &mut Inserted,
        l3: &mut Lane<'_, C>,
        l1: &mut Lane<'_, A>,
    ) -> bool {
        if !self.purge_innermost(l1, inserted) {
            return false;
        }
        if !inserted.bits.dirty || bug!(SwiftForgetsSecond) {
            return true;
        }
        let victim = inserted.victim;
        let gone = self.includes || l1.find(victim).is_none();
        let known = self.includes || self.lonely;
        let taken = known && l3.absorb(victim, gone);
        self.counters.write_backs += u64::from(taken);
        taken
    }

    /// Deals with what this cache, the outermost, displaced; or says that it cannot.
    #[inline(always)]
    fn displaced<const A: usize, const B: usize>(
        &mut self,
        inserted: &mut Inserted,
        (l2, l1): (&mut Lane<'_, B>, &mut Lane<'_, A>),
        written: &mut u8,
    ) -> bool {
        if inserted.sharers & !u64::from(self.own) != 0 {
            return false;
        }
        if inserted.sharers != 0 {
            let victim = inserted.victim;
            if l2.includes {
                if let Some((set, way)) = l2.find(victim) {
                    let sharers = *l2.blocks[set as usize].word(way) >> NAMES;
                    if sharers & !l2.own != 0 {
                        return false;
                    }
                    inserted.bits.dirty |= sharers != 0 && l1.remove(victim);
                    inserted.bits.dirty |= l2.remove(victim);
                }
            } else if l2.lonely {
                inserted.bits.dirty |= l1.remove(victim);
                inserted.bits.dirty |= !bug!(SwiftPurgesOnlyInnermost) && l2.remove(victim);
            } else {
                return false;
            }
            inserted.sharers = 0;
        }
        if inserted.bits.dirty && !bug!(SwiftForgetsWriteBack) {
            self.counters.write_backs += 1;
            *written += 1;
        }
        true
    }
}

/// Reads `lines`; how many were done, and why no more. `beyond` is told of all but innermost hits.
#[inline(always)]
pub(super) fn three<const A: usize, const B: usize, const C: usize>(
    (l1, l2, l3): (&mut Lane<'_, A>, &mut Lane<'_, B>, &mut Lane<'_, C>),
    lines: &[Line],
    tally: &mut Tally,
    mut beyond: impl FnMut(usize, Outcome),
) -> (usize, Stop) {
    let mut at = 0;
    while at < lines.len() {
        let hits = l1.hits(&lines[at..]);
        tally.found[0] += hits as u64;
        at += hits;
        let Some(&line) = lines.get(at) else { break };
        let outcome = match bring((l1, l2, l3), line, tally) {
            Ok(outcome) => outcome,
            Err(stop) => return (at, stop),
        };
        beyond(at, outcome);
        at += 1;
    }
    (at, Stop::Done)
}

/// One line that the innermost cache lacks.
#[inline(always)]
fn bring<const A: usize, const B: usize, const C: usize>(
    (l1, l2, l3): (&mut Lane<'_, A>, &mut Lane<'_, B>, &mut Lane<'_, C>),
    line: Line,
    tally: &mut Tally,
) -> Result<Outcome, Stop> {
    let (mut outcome, alone);
    let (first, second) = (l1.finder.set(line), l2.finder.set(line));
    if let Some(way) = l2.blocks[second as usize].find(line) {
        let word = l2.pass(second, way).ok_or(Stop::Ask)?;
        (outcome, alone) = (supplied(l2.level, word), word & ALONE);
        tally.found[1] += 1;
    } else {
        if l2.asks {
            return Err(Stop::Ask);
        }
        let third = l3.finder.set(line);
        if let Some(way) = l3.blocks[third as usize].find(line) {
            let word = l3.pass(third, way).ok_or(Stop::Ask)?;
            (outcome, alone) = (supplied(l3.level, word), word & ALONE);
            tally.found[2] += 1;
        } else {
            if l3.asks {
                return Err(Stop::Ask);
            }
            let asked = tally.asked;
            (outcome, alone) = (Outcome { supplier: Supplier::Memory, asked, ..supplied(0, 0) }, 1);
            tally.found[3] += 1;
            let mut inserted = l3.insert(third, line, alone);
            if inserted.victim != NO_LINE
                && !l3.displaced(&mut inserted, (l2, l1), &mut outcome.written_back)
            {
                return Err(Stop::Evicted { place: 2, inserted, alone: true, outcome });
            }
        }
        let mut inserted = l2.insert(second, line, alone);
        if inserted.victim != NO_LINE && !l2.displaced_inside(&mut inserted, l3, l1) {
            return Err(Stop::Evicted { place: 1, inserted, alone: alone == ALONE, outcome });
        }
    }
    let inserted = l1.insert(first, line, alone);
    if inserted.bits.dirty && !bug!(SwiftForgetsInnermost) {
        if !l2.absorb(inserted.victim, true) {
            return Err(Stop::Evicted { place: 0, inserted, alone: alone == ALONE, outcome });
        }
        l1.counters.write_backs += 1;
    }
    tally.written += u64::from(outcome.written_back);
    Ok(outcome)
}

#[inline(always)]
fn supplied(level: u8, word: u16) -> Outcome {
    let state = if word & DIRTY == 0 { Found::Clean } else { Found::Dirty };
    Outcome { state, ..Outcome::own(level) }
}
