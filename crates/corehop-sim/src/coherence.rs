// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coherence requests between caches.

use corehop_plan::platform::{Distance, Found, Inclusion, Lookup, Protocol, Supplier};

use super::cache::Bits;
use super::hierarchy::{CachePath, Hierarchy, PendingAccess, between};
use super::observer::Observer;
use super::outcome::AccessOutcome;
use super::tags::LineNumber;

/// A request to a cache, and to all caches inside, about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoherenceRequest {
    /// Share the line with a requester below a common cache: the cache loses the right to write and passes on newer
    /// data.
    Read,
    /// Share the line with a requester below another root: as `Read`, but the cache also loses the duty to forward.
    ReadAway,
    /// Give up the line because another CPU writes the line.
    Invalidate,
    /// Give up the line because of a flush.
    Flush,
    /// Give up the line because a cache further out has to evict the line.
    Room,
}

/// The combined answer of a cache and all caches inside.
#[expect(clippy::struct_excessive_bools, reason = "each is a yes or no of its own")]
#[derive(Debug, Clone, Copy)]
pub(super) struct SnoopResponse {
    /// The number of copies found.
    pub(super) copies: u32,
    /// Whether one of the copies was held alone.
    pub(super) alone: bool,
    /// Whether one of the copies was newer than the copies further out.
    pub(super) dirty: bool,
    /// Whether one of the copies was the forwarder.
    pub(super) forward: bool,
    /// Whether other caches have the line, or may have the line as far as the requester knows.
    pub(super) may_share: bool,
    /// Whether the answering cache supplied the line.
    pub(super) supplied: bool,
    /// The level of the innermost dirty copy or, without a dirty copy, of the outermost copy.
    pub(super) level: u8,
    /// The outermost cache with a copy around the dirty copy.
    pub(super) owner: usize,
    /// The distance of the answering root.
    pub(super) distance: Distance,
}

impl Default for SnoopResponse {
    fn default() -> Self {
        Self {
            copies: 0,
            alone: false,
            dirty: false,
            forward: false,
            may_share: false,
            supplied: false,
            level: 0,
            owner: usize::MAX,
            distance: Distance::Core,
        }
    }
}

impl SnoopResponse {
    /// Merges the answer of another cache into this answer.
    pub(super) fn add(&mut self, other: Self) {
        if other.copies == 0 {
            return;
        }
        let better =
            self.copies == 0 || (!self.dirty && (other.dirty || (other.forward && !self.forward)));
        if better {
            self.level = other.level;
            self.distance = other.distance;
            self.owner = other.owner;
        }
        self.copies += other.copies;
        self.alone |= other.alone;
        self.dirty |= other.dirty;
        self.forward |= other.forward;
    }
}

impl<O: Observer> Hierarchy<O> {
    /// Asks cache `x` and all caches inside. All copies lose newer data, which the caller has to store elsewhere.
    pub(super) fn ask(
        &mut self,
        x: usize,
        line: LineNumber,
        request: CoherenceRequest,
    ) -> SnoopResponse {
        let mut answer = SnoopResponse::default();
        let cache = &self.caches[x];
        let includes = cache.includes();
        if includes && cache.is_empty() {
            return answer;
        }
        let here = cache.locate(line);
        match here {
            None if includes => return answer,
            Some((set, way)) if includes => {
                let reads = matches!(request, CoherenceRequest::Read | CoherenceRequest::ReadAway);
                // Were there two sharers, neither could have newer data or the right to write.
                let quiet =
                    !cache.bits(set, way).alone || cache.sharers(set, way).count_ones() != 1;
                if !(reads && quiet) {
                    for place in 0..self.caches[x].children.len() {
                        if self.caches[x].may_have(set, way, place) {
                            let inside = self.ask(self.caches[x].children[place], line, request);
                            if inside.copies == 0 && !bug!(StalePresenceKept) {
                                self.caches[x].set_present(set, way, place, false);
                            }
                            answer.add(inside);
                        }
                    }
                }
            }
            _ => {
                let may = cache.filtered(line);
                for place in (0..self.caches[x].children.len()).filter(|it| may >> it & 1 == 1) {
                    answer.add(self.ask(self.caches[x].children[place], line, request));
                    if bug!(OneSharerAsked) && answer.copies > 0 {
                        break;
                    }
                }
            }
        }
        if let Some((set, way)) = here {
            self.answer_here(x, (set, way), request, &mut answer);
        }
        answer
    }

    /// Applies the request to the copy of cache `x` itself.
    fn answer_here(
        &mut self,
        x: usize,
        (set, way): (u32, u32),
        request: CoherenceRequest,
        answer: &mut SnoopResponse,
    ) {
        let cache = &mut self.caches[x];
        let bits = cache.bits(set, way);
        match request {
            CoherenceRequest::Read | CoherenceRequest::ReadAway => {
                let forward =
                    bits.forward && (request == CoherenceRequest::Read || bug!(TwoForwarders));
                let alone = bits.alone && bug!(OwnerKeepsRight);
                cache.set_bits(set, way, Bits { alone, dirty: false, forward });
                cache.counters.snoop_hits += u64::from(!bits.dirty);
                cache.counters.snoop_hits_modified += u64::from(bits.dirty);
            }
            CoherenceRequest::Invalidate => {
                cache.remove(set, way);
                cache.counters.invalidations += 1;
                cache.counters.snoop_hits += u64::from(!bits.dirty);
                cache.counters.snoop_hits_modified += u64::from(bits.dirty);
            }
            CoherenceRequest::Flush => {
                cache.remove(set, way);
            }
            CoherenceRequest::Room => {
                cache.give_up_at(set, way);
            }
        }
        if !answer.dirty {
            answer.level = self.caches[x].level;
        }
        if answer.dirty || bits.dirty {
            answer.dirty = true;
            answer.owner = x;
        }
        answer.copies += 1;
        answer.alone |= bits.alone;
        answer.forward |= bits.forward;
    }

    /// Asks the caches inside `x`, except the cache `but` and its inner caches.
    pub(super) fn ask_beside(
        &mut self,
        x: usize,
        but: usize,
        line: LineNumber,
        request: CoherenceRequest,
        ongoing: &mut PendingAccess,
    ) -> SnoopResponse {
        let mut answer = SnoopResponse::default();
        let may = self.caches[x].filtered(line);
        for place in (0..self.caches[x].children.len()).filter(|it| may >> it & 1 == 1) {
            let child = self.caches[x].children[place];
            if child == but || (bug!(WriteForgetsInstructions) && self.caches[child].level == 1) {
                continue;
            }
            let inside = self.ask(child, line, request);
            if inside.copies > 0 || self.caches[x].snoop_filter.is_none() {
                self.note(inside, self.caches[x].distance, request, ongoing);
            }
            answer.add(inside);
            if bug!(OneSharerAsked) && answer.copies > 0 {
                break;
            }
        }
        answer.may_share = answer.copies > 0;
        answer
    }

    /// Asks the caches inside `x` that may have newer data or must give up the line; `x` has the line. Newer data
    /// moves to `x` unless the line is to be written.
    pub(super) fn ask_inside(
        &mut self,
        x: usize,
        but: usize,
        (set, way): (u32, u32),
        line: LineNumber,
        request: CoherenceRequest,
        ongoing: &mut PendingAccess,
    ) -> SnoopResponse {
        let cache = &self.caches[x];
        let write = request == CoherenceRequest::Invalidate;
        let mut answer = SnoopResponse::default();
        if cache.includes() {
            let children = cache.children.len();
            let own = self.caches[but].place;
            let sharers = cache.sharers(set, way).count_ones();
            let others = sharers - u32::from(cache.may_have(set, way, own));
            let asks = write || (cache.bits(set, way).alone && sharers == 1 && others == 1);
            for place in 0..children {
                if place == own || !asks || !self.caches[x].may_have(set, way, place) {
                    continue;
                }
                if bug!(WriteForgetsInstructions) && self.caches[x].level == 2 && write {
                    continue;
                }
                let inside = self.ask(self.caches[x].children[place], line, request);
                self.note(inside, self.caches[x].distance, request, ongoing);
                if write || (inside.copies == 0 && !bug!(StalePresenceKept)) {
                    self.caches[x].set_present(set, way, place, false);
                }
                answer.add(inside);
                if bug!(OneSharerAsked) && answer.copies > 0 {
                    break;
                }
            }
            answer.may_share =
                if asks { answer.copies > 0 } else { others > 0 && !bug!(OtherSharersUncounted) };
        } else if cache.children.len() > 1 && (write || cache.bits(set, way).alone) {
            answer = self.ask_beside(x, but, line, request, ongoing);
        }
        if answer.dirty && !write {
            self.caches[x].make_dirty(set, way);
        }
        answer
    }

    /// Removes the line from all caches further out than place `at` that may have the line, except the caches on
    /// the requesting CPU's own path.
    pub(super) fn outward(
        &mut self,
        path: CachePath,
        at: usize,
        line: LineNumber,
        ongoing: &mut PendingAccess,
    ) {
        for place in at + 1..path.len {
            let (x, inner) = (path.caches[place], path.caches[place - 1]);
            if let Some(here) = self.caches[x].locate(line) {
                let alone = self.caches[x].bits(here.0, here.1).alone;
                self.ask_inside(x, inner, here, line, CoherenceRequest::Invalidate, ongoing);
                if alone {
                    return;
                }
            } else if !self.caches[x].includes() {
                self.ask_beside(x, inner, line, CoherenceRequest::Invalidate, ongoing);
            }
        }
        let package = self.caches[path.caches[path.len - 1]].package;
        self.others(path, line, CoherenceRequest::Invalidate, package, ongoing);
    }

    /// Removes the copies in the mostly exclusive caches of a path to memory, from place `at` on, because a cache
    /// inside takes the line for itself.
    pub(super) fn leave_outer(&mut self, path: CachePath, at: usize, line: LineNumber) {
        for &x in &path.caches[at.min(path.len)..path.len] {
            let cache = &mut self.caches[x];
            let shares = cache.inclusion == Inclusion::MostlyExclusive && !bug!(WrittenLineStays);
            if let Some((set, way)) = shares.then(|| cache.locate(line)).flatten() {
                cache.remove(set, way);
            }
        }
    }

    /// Marks every copy in the caches of a path to memory, from place `at` on, as held alone.
    pub(super) fn own_all(&mut self, path: CachePath, at: usize, line: LineNumber) {
        for &x in &path.caches[at..path.len] {
            if let Some((set, way)) = self.caches[x].locate(line) {
                let bits = self.caches[x].bits(set, way);
                self.caches[x].set_bits(set, way, Bits { alone: true, forward: false, ..bits });
            }
        }
    }

    /// Asks every outermost cache except the outermost cache on the requesting CPU's own path. If the line is only
    /// read, newer data stays with its owner (MOESI) or goes to memory.
    pub(super) fn others(
        &mut self,
        path: CachePath,
        line: LineNumber,
        request: CoherenceRequest,
        package: usize,
        ongoing: &mut PendingAccess,
    ) -> SnoopResponse {
        let own = path.caches[path.len - 1];
        let write = request == CoherenceRequest::Invalidate;
        let request = if write { request } else { CoherenceRequest::ReadAway };
        let mut answer = SnoopResponse::default();
        if bug!(WriteMissForgetsPackages) && write {
            return answer;
        }
        for root in 0..self.roots.len() {
            let x = self.roots[root];
            if x == own {
                continue;
            }
            let mut inside = self.ask(x, line, request);
            inside.distance = between(package, self.caches[x].package);
            self.note(inside, inside.distance, request, ongoing);
            answer.add(inside);
        }
        if answer.dirty && !write {
            if self.protocol == Protocol::Moesi {
                self.settle(answer, line);
            } else if !bug!(MesiForgetsWriteBack) {
                ongoing.outcome.written_back = ongoing.outcome.written_back.saturating_add(1);
                if O::ON {
                    self.observer.written_back(line);
                }
            }
        }
        answer
    }

    /// Leaves newer data with its owner (MOESI), by marking the owner's copy as dirty.
    pub(super) fn settle(&mut self, answer: SnoopResponse, line: LineNumber) {
        if bug!(OwnerForgetsData) {
            return;
        }
        if let Some((set, way)) = self.caches[answer.owner].locate(line) {
            self.caches[answer.owner].make_dirty(set, way);
        }
    }

    /// Records that a peer below `x` supplies the line.
    pub(super) fn supplied_by_peer(
        &self,
        answer: SnoopResponse,
        x: usize,
        ongoing: &mut PendingAccess,
    ) {
        ongoing.outcome = AccessOutcome {
            supplier: Supplier::Peer,
            level: answer.level,
            state: if answer.dirty { Found::Dirty } else { Found::Clean },
            distance: self.caches[x].distance,
            ..ongoing.outcome
        };
    }

    /// Counts a request to a cache and the copies that the request removed.
    fn note(
        &self,
        answer: SnoopResponse,
        distance: Distance,
        request: CoherenceRequest,
        ongoing: &mut PendingAccess,
    ) {
        let outcome = &mut ongoing.outcome;
        // Inside a core no cache has to ask.
        let asked =
            distance > Distance::Core && (self.lookup == Lookup::Snooping || answer.copies > 0);
        outcome.asked = outcome.asked.saturating_add(u8::from(asked));
        if request == CoherenceRequest::Invalidate && answer.copies > 0 {
            let copies = answer.copies.min(255) as u8;
            outcome.invalidated = outcome.invalidated.saturating_add(copies);
            outcome.farthest = outcome.farthest.max(distance);
        }
    }

    /// Whether `x` or a cache inside has the line. Snoop filters are not consulted, because a filter may be about
    /// to record the line.
    #[inline(always)]
    pub(super) fn holds(&self, x: usize, line: LineNumber) -> bool {
        let cache = &self.caches[x];
        if cache.includes() {
            return !cache.is_empty() && cache.locate(line).is_some();
        }
        self.holds_somewhere(x, line)
    }

    /// Whether `x`, which does not include its inner caches, or one of the inner caches has the line.
    fn holds_somewhere(&self, x: usize, line: LineNumber) -> bool {
        let cache = &self.caches[x];
        cache.locate(line).is_some() || cache.children.iter().any(|&child| self.holds(child, line))
    }

    /// Whether a cache inside `x` has the line.
    pub(super) fn has_inside(&self, x: usize, line: LineNumber) -> bool {
        let cache = &self.caches[x];
        match cache.locate(line) {
            None if cache.includes() => false,
            _ => cache.children.iter().any(|&child| self.holds(child, line)),
        }
    }
}
