// SPDX-License-Identifier: MIT OR Apache-2.0
//! Movement of lines: inwards on a fill, outwards on an eviction.

use corehop_plan::platform::Inclusion;

use super::cache::{Bits, Inserted};
use super::hierarchy::{CachePath, Filling, Hierarchy, PendingAccess};
use super::observer::Observer;
use super::tags::{LineNumber, NO_LINE};

impl<O: Observer> Hierarchy<O> {
    /// Fills the caches of a CPU's path to memory, outermost first.
    pub(super) fn fill(
        &mut self,
        path: CachePath,
        line: LineNumber,
        write: bool,
        filling: &Filling,
        ongoing: &mut PendingAccess,
    ) {
        let (first, end) = filling.places;
        // Data newer than memory and the duty to forward stay with the outermost new copy.
        let (mut carried, mut forward) = (filling.carried, filling.bits.forward);
        for at in (first..end).rev() {
            let x = path.caches[at];
            if at > 0 && self.caches[x].inclusion.takes_victims() {
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

    /// Handles a write to the copy in `x`, which is held alone.
    fn written(&mut self, x: usize, line: LineNumber, ongoing: &mut PendingAccess) {
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

    /// Inserts a line into a cache that lacks the line.
    #[inline]
    pub(super) fn put(
        &mut self,
        x: usize,
        line: LineNumber,
        bits: Bits,
        ongoing: &mut PendingAccess,
    ) -> (u32, u32) {
        let cache = &mut self.caches[x];
        let mask = ongoing.masks[usize::from(cache.level) - 1];
        // The new line is in before the old one arrives further out, where it might displace the
        // other copies of the new one.
        self.fillings += u64::from(cache.is_empty());
        let inserted = cache.insert(line, bits, mask);
        if inserted.victim != NO_LINE {
            self.displaced(x, inserted, ongoing);
        }
        // Last, or what the old one displaces might take its entry away again.
        if self.filtered {
            self.note_in_filters(x, line, ongoing);
        }
        (inserted.set, inserted.way)
    }

    /// Handles the line that a new line displaced from `x`.
    #[inline]
    pub(super) fn displaced(&mut self, x: usize, inserted: Inserted, ongoing: &mut PendingAccess) {
        let Inserted { victim, mut bits, sharers, .. } = inserted;
        if sharers != 0 && self.purge_inside(x, victim, sharers) {
            bits.dirty = !bug!(BackInvalidationLosesData) || bits.dirty;
        }
        if bits.dirty {
            self.caches[x].counters.write_backs += 1;
        }
        if bits.dirty || !self.caches[x].drops_clean() {
            self.hand_out(x, victim, bits, ongoing);
        }
    }

    /// Removes a line that left the inclusive cache `x` from the inner caches in the places of `sharers`. Returns
    /// whether one of the inner caches had newer data.
    #[inline]
    fn purge_inside(&mut self, x: usize, line: LineNumber, mut sharers: u64) -> bool {
        if bug!(NoBackInvalidation) {
            return false;
        }
        let mut newer = false;
        while sharers != 0 {
            let child = self.caches[x].children[sharers.trailing_zeros() as usize];
            newer |= self.purge(child, line);
            sharers &= sharers - 1;
        }
        newer
    }

    /// Removes a line from `x` and all caches inside. Returns whether `x` or a cache inside `x` had newer data.
    #[inline]
    fn purge(&mut self, x: usize, line: LineNumber) -> bool {
        let cache = &mut self.caches[x];
        if cache.is_innermost() { cache.give_up(line) } else { self.purge_outer(x, line) }
    }

    /// Removes a line from `x`, which has caches inside, and from those caches. Returns whether `x` or a cache
    /// inside `x` had newer data.
    fn purge_outer(&mut self, x: usize, line: LineNumber) -> bool {
        let cache = &self.caches[x];
        let here = cache.locate(line);
        let mut newer = false;
        match here {
            None if cache.includes() => return false,
            Some((set, way)) if cache.includes() => {
                newer = self.purge_inside(x, line, cache.sharers(set, way));
            }
            _ => {
                for place in 0..cache.children.len() {
                    newer |= self.purge(self.caches[x].children[place], line);
                }
            }
        }
        if let Some((set, way)) = here {
            newer |= self.caches[x].give_up_at(set, way);
        }
        newer
    }

    /// Passes a line that left `x`, or newer data of the line, to the caches further out or to memory.
    pub(super) fn hand_out(
        &mut self,
        x: usize,
        line: LineNumber,
        bits: Bits,
        ongoing: &mut PendingAccess,
    ) {
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
            let inclusion = self.caches[outer].inclusion;
            match inclusion {
                Inclusion::MostlyExclusive if self.stayed(outer, line, bits) => return,
                Inclusion::Exclusive | Inclusion::MostlyExclusive
                    if self.enters(outer, from, line, bits) =>
                {
                    self.put(outer, line, bits, ongoing);
                    return;
                }
                _ if !bits.dirty => return,
                Inclusion::Exclusive | Inclusion::MostlyExclusive => from = outer,
                Inclusion::Inclusive | Inclusion::NonInclusive => {
                    self.absorb(outer, from, line, bits, ongoing);
                    return;
                }
            }
        }
    }

    /// Returns whether a mostly exclusive cache already has the line that leaves a cache inside; a cache that has
    /// the line takes any newer data of the line.
    fn stayed(&mut self, outer: usize, line: LineNumber, bits: Bits) -> bool {
        let Some((set, way)) = self.caches[outer].locate(line) else { return false };
        if bits.dirty && !bug!(StayedLineLosesData) {
            self.caches[outer].make_dirty(set, way);
        }
        true
    }

    /// Whether a line that leaves `from` enters the exclusive cache around `from`: either no other inner cache has
    /// the line, or the line is shared and the cache is mostly exclusive.
    fn enters(&self, outer: usize, from: usize, line: LineNumber, bits: Bits) -> bool {
        if bug!(ExclusiveTakesOnlyDirty) && !bits.dirty {
            return false;
        }
        if self.caches[outer].inclusion == Inclusion::MostlyExclusive && !bits.alone {
            return true;
        }
        let inside = if bits.alone { from } else { outer };
        bug!(ExclusiveDuplicates) || !self.has_inside(inside, line)
    }

    /// Stores newer data of a line that arrives from an inner cache.
    fn absorb(
        &mut self,
        outer: usize,
        from: usize,
        line: LineNumber,
        bits: Bits,
        ongoing: &mut PendingAccess,
    ) {
        if let Some((set, way)) = self.caches[outer].locate(line) {
            self.caches[outer].make_dirty(set, way);
            let includes = self.caches[outer].includes();
            if includes && (bug!(PresenceClearedEarly) || !self.holds(from, line)) {
                let child = self.caches[from].place;
                self.caches[outer].set_present(set, way, child, false);
            }
        } else if !bug!(NonInclusiveDropsVictims) {
            self.put(outer, line, bits, ongoing);
        }
    }
}
