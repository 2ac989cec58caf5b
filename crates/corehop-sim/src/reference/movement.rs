// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies that come into a cache, and those that have to go for them.

use std::collections::BTreeSet;

use corehop_plan::platform::Inclusion;

use super::{Copy, ReferenceMachine, SnoopReason};

impl ReferenceMachine {
    pub(super) fn put(&mut self, x: usize, copy: &Copy) {
        let level = self.caches[x].spec.level;
        let mask = self.masks.get(&(self.cpu, level)).copied().unwrap_or(u32::MAX);
        let set = self.caches[x].set(copy.line);
        let way = self.caches[x].room(set, mask);
        let cache = &self.caches[x];
        let victim =
            cache.copies.iter().find(|other| other.way == way && cache.set(other.line) == set);
        let victim = victim.cloned().map(|victim| self.evict(x, victim));
        let line = copy.line;
        self.caches[x].copies.push(Copy { way, may: BTreeSet::new(), ..copy.clone() });
        self.caches[x].used(line, false);
        // Only now: further out it might displace other copies of the new line.
        if let Some(victim) = victim {
            self.hand_out(x, victim);
        }
        let mut around = self.caches[x].parent;
        while let Some(outer) = around {
            self.enter(outer, line);
            around = self.caches[outer].parent;
        }
    }

    fn evict(&mut self, x: usize, mut victim: Copy) -> Copy {
        if self.caches[x].includes() {
            for &child in &victim.may {
                if let Some((version, _)) = self.ask(child, victim.line, SnoopReason::Room).dirty {
                    (victim.dirty, victim.version) = (true, version);
                }
            }
        }
        self.caches[x].take(victim.line);
        victim
    }

    /// Passes a line that left `x` further out.
    pub(super) fn hand_out(&mut self, x: usize, copy: Copy) {
        let Some(outer) = self.caches[x].parent else {
            if copy.dirty {
                self.write_back(copy.line, copy.version);
            }
            return;
        };
        let line = copy.line;
        let inclusion = self.caches[outer].spec.inclusion;
        if inclusion == Inclusion::MostlyExclusive && self.caches[outer].has(line) {
            if copy.dirty {
                let own = self.caches[outer].copy(line).unwrap();
                (own.dirty, own.version) = (true, copy.version);
            }
        } else if inclusion.takes_victims() {
            let shares = inclusion == Inclusion::MostlyExclusive && !copy.alone;
            if shares || !self.family_has(outer, line) {
                self.put(outer, &copy);
            } else if copy.dirty {
                self.hand_out(outer, copy);
            }
        } else if copy.dirty {
            if self.caches[outer].has(line) {
                let gone = !self.family_has(x, line);
                let own = self.caches[outer].copy(line).unwrap();
                (own.dirty, own.version) = (true, copy.version);
                if gone {
                    own.may.remove(&x);
                }
            } else {
                self.put(outer, &copy);
            }
        }
    }
}
