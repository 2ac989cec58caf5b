// SPDX-License-Identifier: MIT OR Apache-2.0
//! How lines move: inwards when they are brought, outwards when they make room.

use crate::platform::Inclusion;

use super::cache::Bits;
use super::coherence::Request;
use super::hierarchy::{Filling, Hierarchy, Ongoing, Path};
use super::observer::Observer;
use super::tags::Line;

impl<O: Observer> Hierarchy<O> {
    /// Fills the caches of the way, outermost first.
    pub(super) fn fill(
        &mut self,
        path: Path,
        line: Line,
        write: bool,
        filling: &Filling,
        ongoing: &mut Ongoing,
    ) {
        let (first, end) = filling.places;
        // Data newer than memory and the duty to forward stay with the outermost new copy.
        let (mut carried, mut forward) = (filling.carried, filling.bits.forward);
        for at in (first..end).rev() {
            let x = path.caches[at];
            if at > 0 && self.caches[x].inclusion == Inclusion::Exclusive {
                continue;
            }
            let bits = Bits { dirty: carried, forward, ..filling.bits };
            (carried, forward) = (false, false);
            let (set, way) = self.put(x, line, bits, ongoing);
            if at > first && self.caches[x].includes() && !bug!(PresenceNotSet) {
                let child = self.caches[path.caches[at - 1]].place;
                self.caches[x].set_present(set, way, child, true);
            }
        }
        if write {
            self.written(path.caches[first], line, ongoing);
        }
    }

    /// The copy in `x`, which is held alone, was written.
    fn written(&mut self, x: usize, line: Line, ongoing: &mut Ongoing) {
        let Some((set, way)) = self.caches[x].locate(line) else { return };
        let mut bits = self.caches[x].bits(set, way);
        if !bug!(SilentWriteStaysClean) {
            bits.dirty = true;
        }
        let through = self.caches[x].write_through;
        self.caches[x].set_bits(
            set,
            way,
            Bits { dirty: bits.dirty && (!through || bug!(WriteThroughKeepsDirty)), ..bits },
        );
        if through {
            self.hand_out(x, line, bits, ongoing);
        }
    }

    /// Puts a line into a cache that lacks it.
    pub(super) fn put(
        &mut self,
        x: usize,
        line: Line,
        bits: Bits,
        ongoing: &mut Ongoing,
    ) -> (u32, u32) {
        let level = usize::from(self.caches[x].level) - 1;
        let cache = &mut self.caches[x];
        let set = cache.set_of(line);
        let (way, taken) = cache.room(set, ongoing.masks[level]);
        // The new line is in before the old one arrives further out, where it might displace the
        // other copies of the new one.
        if taken {
            let (victim, newer) = self.evict(x, set, way);
            self.caches[x].insert(set, way, line, bits);
            self.hand_out(x, victim, newer, ongoing);
        } else {
            self.caches[x].insert(set, way, line, bits);
        }
        (set, way)
    }

    /// Makes a line leave a cache to make room; the line, and what becomes of it.
    fn evict(&mut self, x: usize, set: u32, way: u32) -> (Line, Bits) {
        let mut newer = false;
        if self.caches[x].includes() && !self.caches[x].is_innermost() && !bug!(NoBackInvalidation)
        {
            let line = self.caches[x].line_at(set, way);
            for child in 0..self.caches[x].children.len() {
                if self.caches[x].may_have(set, way, child) {
                    let child = self.caches[x].children[child];
                    newer |= self.ask(child, line, Request::Purge).dirty;
                }
            }
        }
        let cache = &mut self.caches[x];
        let (line, mut bits) = cache.remove(set, way);
        bits.dirty |= newer && !bug!(BackInvalidationLosesData);
        cache.counters.evictions += 1;
        cache.counters.write_backs += u64::from(bits.dirty);
        (line, bits)
    }

    /// Gives a line that left `x` (or newer data of it) to the caches further out, or memory.
    pub(super) fn hand_out(&mut self, x: usize, line: Line, bits: Bits, ongoing: &mut Ongoing) {
        let mut from = x;
        loop {
            let Some(outer) = self.caches[from].parent else {
                if bits.dirty && !bug!(DirtyEvictionDropped) {
                    ongoing.outcome.written_back = ongoing.outcome.written_back.saturating_add(1);
                    if O::ON {
                        self.observer.written_back(line);
                    }
                }
                return;
            };
            match self.caches[outer].inclusion {
                Inclusion::Exclusive if self.enters(outer, from, line, bits) => {
                    self.put(outer, line, bits, ongoing);
                    return;
                }
                _ if !bits.dirty => return,
                Inclusion::Exclusive => from = outer,
                Inclusion::Inclusive | Inclusion::NonInclusive => {
                    self.absorb(outer, from, line, bits, ongoing);
                    return;
                }
            }
        }
    }

    /// Whether a line that leaves `from` goes into the exclusive cache around it: no other cache
    /// inside that one has it.
    fn enters(&self, outer: usize, from: usize, line: Line, bits: Bits) -> bool {
        if bug!(ExclusiveTakesOnlyDirty) && !bits.dirty {
            return false;
        }
        let inside = if bits.alone { from } else { outer };
        bug!(ExclusiveDuplicates) || !self.has_inside(inside, line)
    }

    /// Newer data arrives at a cache from one inside it.
    fn absorb(&mut self, outer: usize, from: usize, line: Line, bits: Bits, ongoing: &mut Ongoing) {
        if let Some((set, way)) = self.caches[outer].locate(line) {
            self.caches[outer].make_dirty(set, way);
            let gone = bug!(PresenceClearedEarly) || !self.holds(from, line);
            if self.caches[outer].includes() && gone {
                let child = self.caches[from].place;
                self.caches[outer].set_present(set, way, child, false);
            }
        } else if !bug!(NonInclusiveDropsVictims) {
            self.put(outer, line, bits, ongoing);
        }
    }
}
