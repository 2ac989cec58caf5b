// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference model of snoop filters, as lists of entries.

use super::{Copy, InnerCopies, ReferenceMachine, SnoopReason, add, blank};
use crate::tags::LineNumber;

impl ReferenceMachine {
    /// Records in the snoop filter of `outer` that a line has entered a cache inside.
    pub(super) fn enter(&mut self, outer: usize, line: LineNumber) {
        let Some(mut filter) = self.caches[outer].filter.take() else { return };
        let mut victim = None;
        if filter.has(line) {
            filter.used(line, true);
        } else {
            let set = filter.set(line);
            let mut entries: Vec<Copy> = filter.copies.clone();
            entries.retain(|entry| filter.set(entry.line) == set);
            entries.sort_by_key(|entry| entry.way);
            let inside =
                |line| self.caches[outer].children.iter().any(|&x| self.family_has(x, line));
            let gone = entries.iter().find(|entry| !inside(entry.line));
            if let (Some(gone), true) = (gone, entries.len() == filter.spec.ways as usize) {
                filter.take(gone.line);
            }
            let way = filter.room(set, u32::MAX);
            victim = entries
                .iter()
                .map(|entry| entry.line)
                .find(|&old| filter.copy(old).is_some_and(|entry| entry.way == way));
            victim.map(|victim| filter.take(victim));
            filter.copies.push(Copy { way, ..blank(line, 0) });
            filter.used(line, false);
        }
        self.caches[outer].filter = Some(filter);
        if let Some(line) = victim {
            self.forget(outer, line);
        }
    }

    /// Removes a line from all caches inside `outer`.
    fn forget(&mut self, outer: usize, line: LineNumber) {
        let mut all = InnerCopies::default();
        let children = self.caches[outer].children.clone();
        for &child in &children {
            add(&mut all, &self.ask(child, line, SnoopReason::Room));
        }
        let version = all.dirty.map_or(all.version, |(version, _)| version);
        let InnerCopies { alone, forward, dirty, .. } = all;
        let copy = Copy { alone, forward, dirty: dirty.is_some(), ..blank(line, version) };
        self.hand_out(children[0], copy);
    }
}
