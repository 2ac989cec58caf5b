// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snoop filters: directories of limited size. A line that enters one of the caches inside needs an entry. If no
//! entry is free, another line has to leave all caches inside, although these caches had room for that line.
//!
//! An entry whose line has left the caches inside stays until the room is needed; such entries are replaced before
//! all others.

use super::cache::{Bits, CacheNode};
use super::coherence::{CoherenceRequest, SnoopResponse};
use super::hierarchy::{Hierarchy, PendingAccess};
use super::observer::Observer;
use super::tags::{LineNumber, NO_LINE};

/// An entry evicted from a snoop filter.
struct Forgotten {
    line: LineNumber,
    /// The children that may have the line, as a mask of their indices.
    sharers: u64,
}

impl<O: Observer> Hierarchy<O> {
    /// Records in the filters of all caches around `x` that a line has entered `x`.
    #[cold]
    pub(super) fn note_in_filters(
        &mut self,
        x: usize,
        line: LineNumber,
        ongoing: &mut PendingAccess,
    ) {
        let mut inner = x;
        while let Some(outer) = self.caches[inner].parent {
            if let Some(mut filter) = self.caches[outer].snoop_filter.take() {
                let forgotten = self.note_in(&mut filter, inner, line);
                self.caches[outer].snoop_filter = Some(filter);
                if let Some(forgotten) = forgotten.filter(|_| !bug!(FilterForgetsVictim)) {
                    self.leave(outer, &forgotten, ongoing);
                }
            }
            inner = outer;
        }
    }

    /// Records that the line has entered `child` or a cache inside `child`. Returns the entry evicted to make room.
    fn note_in(&self, filter: &mut CacheNode, child: usize, line: LineNumber) -> Option<Forgotten> {
        let place = self.caches[child].place;
        if let Some((set, way)) = filter.locate(line) {
            filter.touch(set, way);
            filter.set_present(set, way, place, true);
            return None;
        }
        self.drop_stale(filter, line);
        let entry = filter.insert(line, Bits::default(), u32::MAX);
        filter.set_present(entry.set, entry.way, place, true);
        (entry.victim != NO_LINE)
            .then_some(Forgotten { line: entry.victim, sharers: entry.sharers })
    }

    /// Makes room in the full set of `line` by dropping the first entry whose line no inner cache has any more.
    fn drop_stale(&self, filter: &mut CacheNode, line: LineNumber) {
        let set = filter.set_of(line);
        let stale = |&(way, line): &(u32, LineNumber)| {
            let may = places(filter.sharers(set, way));
            !may.map(|place| filter.children[place]).any(|child| self.holds(child, line))
        };
        let stale = filter.full_set(set).find(stale);
        if let Some((way, _)) = stale.filter(|_| !bug!(FilterKeepsStale)) {
            filter.remove(set, way);
        }
    }

    /// Removes a line from the caches inside `outer`, which takes newer data or, if exclusive, the line itself.
    fn leave(&mut self, outer: usize, forgotten: &Forgotten, ongoing: &mut PendingAccess) {
        let &Forgotten { line, sharers } = forgotten;
        let mut answer = SnoopResponse::default();
        let mut last = None;
        for place in places(sharers) {
            let child = self.caches[outer].children[place];
            answer.add(self.ask(child, line, CoherenceRequest::Room));
            last = Some(child);
        }
        let Some(child) = last.filter(|_| answer.copies > 0) else { return };
        let SnoopResponse { alone, dirty, forward, .. } = answer;
        let bits = Bits { alone, dirty: dirty && !bug!(FilterLosesData), forward };
        self.hand_out(child, line, bits, ongoing);
    }
}

/// The indices of the set bits of a mask.
fn places(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |place| mask >> place & 1 == 1)
}
