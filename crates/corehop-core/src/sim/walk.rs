// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quick ways: runs of innermost hits, and accesses that concern nobody else.
//!
//! What they do is what the general way does for the same access; they only know earlier that
//! nobody has to be asked. The tests send everything through both.

use super::cache::Bits;
use super::hierarchy::{Hierarchy, Ongoing, Path};
use super::observer::Observer;
use super::outcome::{Access, Outcome};
use super::spec::MAX_LEVELS;
use super::swift::{self, Stop, Tally};
use super::tags::Line;
use super::tags::{Block, Blocks};
use crate::platform::{Distance, Found, Lookup, Supplier};

/// What the quick loop has to know of the caches beside the way.
struct Three {
    masks: [u32; MAX_LEVELS],
    /// For each cache of the way whether the others inside it are empty.
    lonely: [bool; 3],
    /// Whether all other roots are.
    alone: bool,
    /// How many of these are asked, and counted, all the same.
    asked: u8,
    /// Whether all of the way replace the least recently used line.
    lru: bool,
}

fn eight(blocks: &mut Blocks) -> Option<&mut Vec<Block<8>>> {
    if let Blocks::Eight(blocks) = blocks { Some(blocks) } else { None }
}

fn sixteen(blocks: &mut Blocks) -> Option<&mut Vec<Block<16>>> {
    if let Blocks::Sixteen(blocks) = blocks { Some(blocks) } else { None }
}

impl<O: Observer> Hierarchy<O> {
    /// `cpu` reads, writes or executes `lines` one after the other. `beyond` is told of every access
    /// that was more than a quiet hit of the innermost cache, with its place in `lines`; what it is
    /// not told of was an [`Outcome::HIT`].
    pub fn walk(
        &mut self,
        cpu: usize,
        lines: &[Line],
        access: Access,
        mut beyond: impl FnMut(usize, Outcome),
    ) {
        if O::ON || access == Access::Write {
            for (at, &line) in lines.iter().enumerate() {
                let outcome = self.access(cpu, line, access);
                if outcome != Outcome::HIT {
                    beyond(at, outcome);
                }
            }
            return;
        }
        let path = self.path(cpu, access == Access::Fetch);
        let quick = self.way_of_three(cpu, &path);
        let mut done = 0;
        while done < lines.len() {
            let rest = &lines[done..];
            let offset = done;
            if let Some(way) = &quick {
                done +=
                    self.three(cpu, &path, way, rest, |at, outcome| beyond(offset + at, outcome));
            } else {
                let run = self.caches[path.caches[0]].hits(rest);
                self.counters[cpu].hits[0] += run as u64;
                done += run;
            }
            if let Some(&line) = lines.get(done) {
                let outcome = self.miss(cpu, &path, line, access);
                if outcome != Outcome::HIT {
                    beyond(done, outcome);
                }
                done += 1;
            }
        }
        let counters = &mut self.counters[cpu];
        match access {
            Access::Fetch => counters.fetches += lines.len() as u64,
            _ => counters.reads += lines.len() as u64,
        }
    }

    /// Has the host fetch what it needs to find where `line` is, of which `cpu` will ask before long.
    pub(super) fn expect(&self, cpu: usize, line: Line) {
        let path = self.path(cpu, false);
        for &x in &path.caches[1.min(path.len)..path.len] {
            self.caches[x].expect(line);
        }
        for &root in &self.roots {
            if root != path.caches[path.len - 1] {
                self.caches[root].expect(line);
            }
        }
    }

    /// Whether reads on this way can take the loop of [`super::swift`], and what it has to know.
    fn way_of_three(&self, cpu: usize, path: &Path) -> Option<Three> {
        let own = &path.caches[..path.len];
        let fits = |&x: &usize| self.caches[x].width() <= 16 && self.caches[x].names_all();
        if own.len() != 3 || !path.plain || !own.iter().all(fits) {
            return None;
        }
        let widths = [0, 1, 2].map(|place| self.caches[own[place]].width());
        let masked = own[..2].iter().all(|&x| self.caches[x].has_mask());
        if !matches!(widths, [8, 8, 8 | 16] | [8, 16, 16]) || !masked {
            return None;
        }
        let masks = self.masks(cpu);
        let lru = |&x: &usize| {
            let cache = &self.caches[x];
            cache.is_lru(masks[usize::from(cache.level) - 1])
        };
        let lonely = |place: usize| self.is_lonely(own[place], path.places[place - 1]);
        let mut others = self.roots.iter().filter(|&&root| root != own[2]);
        Some(Three {
            masks,
            lru: own.iter().all(lru),
            lonely: [true, lonely(1), lonely(2)],
            alone: others.all(|&root| self.is_deserted(root)),
            asked: self.roots_asked(),
        })
    }

    /// How many questions an access costs that no cache of its root can serve.
    fn roots_asked(&self) -> u8 {
        if self.lookup == Lookup::Directory { 0 } else { (self.roots.len() - 1).min(255) as u8 }
    }

    /// Whether nothing can be learnt, and nothing is counted, by asking the caches inside `x` other
    /// than the one in place `own`.
    #[inline(always)]
    fn is_lonely(&self, x: usize, own: usize) -> bool {
        let cache = &self.caches[x];
        let mut others = cache.children.iter().filter(|&&child| self.caches[child].place != own);
        self.beside_asked(x) == 0 && others.all(|&child| self.is_deserted(child))
    }

    /// Whether every root but `own` would answer that nothing inside it has `line`.
    #[inline(always)]
    fn others_lack(&self, own: usize, line: Line) -> bool {
        self.roots.iter().all(|&root| root == own || !self.holds(root, line))
    }

    /// Whether the caches inside `x`, which does not include them, other than the one in place `own`
    /// would answer that they lack `line`.
    #[inline(always)]
    fn beside_lack(&self, x: usize, own: usize, line: Line) -> bool {
        let children = &self.caches[x].children;
        children.iter().enumerate().all(|(place, &child)| place == own || !self.holds(child, line))
    }

    /// How many questions it costs to hear that.
    #[inline(always)]
    fn beside_asked(&self, x: usize) -> u8 {
        let cache = &self.caches[x];
        let free = self.lookup == Lookup::Directory || cache.distance == Distance::Core;
        if free { 0 } else { (cache.children.len() - 1).min(255) as u8 }
    }

    /// Whether `x` and all inside it are empty.
    fn is_deserted(&self, x: usize) -> bool {
        let cache = &self.caches[x];
        cache.is_empty() && cache.children.iter().all(|&child| self.is_deserted(child))
    }

    /// Reads `lines` as far as that is quick, and finishes an access within which it stopped to be;
    /// how many were done.
    fn three(
        &mut self,
        cpu: usize,
        path: &Path,
        way: &Three,
        lines: &[Line],
        mut beyond: impl FnMut(usize, Outcome),
    ) -> usize {
        let mut done = 0;
        let mut tally = Tally { asked: way.asked, ..Tally::default() };
        loop {
            let rest = &lines[done..];
            let offset = done;
            let told = |at, outcome| beyond(offset + at, outcome);
            let (ahead, stop) = self.dispatch(path, way, rest, &mut tally, told);
            done += ahead;
            let Stop::Evicted { place, inserted, alone, mut outcome } = stop else { break };
            let line = lines[done];
            let written = outcome.written_back;
            let mut ongoing = Ongoing { outcome, masks: way.masks };
            self.displaced(path.caches[place], inserted, &mut ongoing);
            let end = place.saturating_sub(usize::from(bug!(SwiftResumesTooLate)));
            self.fill_quietly(path, end, line, (alone, false), &mut ongoing);
            outcome.written_back = ongoing.outcome.written_back.max(written);
            tally.written += u64::from(outcome.written_back);
            beyond(done, outcome);
            done += 1;
        }
        let counters = &mut self.counters[cpu];
        for (count, found) in counters.hits.iter_mut().zip(&tally.found[..3]) {
            *count += found;
        }
        counters.memory += tally.found[3];
        counters.asked += tally.found[3] * u64::from(tally.asked);
        counters.write_backs += tally.written;
        done
    }

    /// The loop for the widths of these three caches.
    fn dispatch(
        &mut self,
        path: &Path,
        way: &Three,
        lines: &[Line],
        tally: &mut Tally,
        beyond: impl FnMut(usize, Outcome),
    ) -> (usize, Stop) {
        let own = [path.caches[0], path.caches[1], path.caches[2]];
        let Ok(caches) = self.caches.get_disjoint_mut(own) else { return (0, Stop::Ask) };
        let widths = caches.each_ref().map(|cache| cache.width());
        macro_rules! three {
            ($a:ident, $b:ident, $c:ident, $lru:literal) => {{
                let [l1, l2, l3] = caches;
                let masks = [&l1, &l2, &l3].map(|cache| way.masks[usize::from(cache.level) - 1]);
                let lanes = (
                    l1.lane($a, masks[0], 0, true),
                    l2.lane($b, masks[1], path.places[0], way.lonely[1]),
                    l3.lane($c, masks[2], path.places[1], way.lonely[2]),
                );
                let (Some(l1), Some(l2), Some(mut l3)) = lanes else { return (0, Stop::Ask) };
                l3.asks |= !way.alone;
                swift::Three::<'_, _, _, _, $lru> { l1, l2, l3 }.read(lines, tally, beyond)
            }};
        }
        match (widths, way.lru) {
            ([8, 8, 8], true) => three!(eight, eight, eight, true),
            ([8, 8, 8], false) => three!(eight, eight, eight, false),
            ([8, 8, 16], true) => three!(eight, eight, sixteen, true),
            ([8, 8, 16], false) => three!(eight, eight, sixteen, false),
            ([8, 16, 16], true) => three!(eight, sixteen, sixteen, true),
            ([8, 16, 16], false) => three!(eight, sixteen, sixteen, false),
            _ => (0, Stop::Ask),
        }
    }

    /// An access to a line that the innermost cache lacks.
    #[inline(always)]
    pub(super) fn miss(&mut self, cpu: usize, path: &Path, line: Line, access: Access) -> Outcome {
        if path.plain && !O::ON {
            let write = access == Access::Write;
            if let Some(outcome) = self.quiet(cpu, path, line, write) {
                let counters = &mut self.counters[cpu];
                counters.write_backs += u64::from(outcome.written_back);
                counters.asked += u64::from(outcome.asked);
                match outcome.supplier {
                    Supplier::Memory => counters.memory += 1,
                    _ => counters.hits[usize::from(outcome.level) - 1] += 1,
                }
                return outcome;
            }
        }
        self.beyond(cpu, line, access)
    }

    /// The line is further out on a way without exclusive caches, or in memory, and no other cache
    /// has to give up or hand over anything; or nothing has been done.
    #[inline(always)]
    fn quiet(&mut self, cpu: usize, path: &Path, line: Line, write: bool) -> Option<Outcome> {
        let spotted = self.spot(path, line, write)?;
        let mut ongoing = Ongoing { outcome: Outcome::own(0), masks: self.masks(cpu) };
        ongoing.outcome.asked = spotted.asked;
        let end = if let Some((at, set, way)) = spotted.place {
            let cache = &mut self.caches[path.caches[at]];
            cache.touch(set, way);
            if cache.includes() && !bug!(PresenceNotSet) {
                cache.set_present(set, way, path.places[at - 1], true);
            }
            ongoing.outcome.level = cache.level;
            ongoing.outcome.state = if spotted.dirty { Found::Dirty } else { Found::Clean };
            at
        } else {
            ongoing.outcome.supplier = Supplier::Memory;
            path.len
        };
        self.fill_quietly(path, end, line, (spotted.alone, write), &mut ongoing);
        Some(ongoing.outcome)
    }

    /// Fills the caches of the way before place `end`, outermost first, with a line that is held
    /// `alone` or not, and in the innermost one written or not.
    #[inline(always)]
    fn fill_quietly(
        &mut self,
        path: &Path,
        end: usize,
        line: Line,
        (alone, write): (bool, bool),
        ongoing: &mut Ongoing,
    ) {
        for at in (0..end).rev() {
            let x = path.caches[at];
            let dirty = write && at == 0 && !bug!(SilentWriteStaysClean);
            let (set, way) = self.put(x, line, Bits { alone, dirty, forward: false }, ongoing);
            if at > 0 && self.caches[x].includes() && !bug!(PresenceNotSet) {
                self.caches[x].set_present(set, way, path.places[at - 1], true);
            }
        }
    }

    /// Looks for a line that the innermost cache lacks; nothing where another cache has to do
    /// something about it.
    #[inline(always)]
    fn spot(&self, path: &Path, line: Line, write: bool) -> Option<Spotted> {
        let mut asked = 0_u8;
        for at in 1..path.len {
            let (x, own) = (path.caches[at], path.places[at - 1]);
            let cache = &self.caches[x];
            let set = cache.set_of(line);
            let found = cache.find(set, line);
            let bits = found.map_or(Bits::default(), |way| cache.bits(set, way));
            if found.is_some() && write && !bits.alone {
                return None;
            }
            let mut shared = false;
            if cache.includes() {
                let sharers = found.map_or(0, |way| cache.sharers(set, way));
                shared = sharers & !(1 << own) != 0;
                // The only one who may have it might have newer data.
                if shared && (write || (bits.alone && sharers.is_power_of_two())) {
                    return None;
                }
            } else if cache.children.len() > 1 && (found.is_none() || bits.alone) {
                if !self.beside_lack(x, own, line) {
                    return None;
                }
                asked = asked.saturating_add(self.beside_asked(x));
            }
            if let Some(way) = found {
                let alone = bits.alone && !shared;
                return Some(Spotted {
                    place: Some((at, set, way)),
                    alone,
                    dirty: bits.dirty,
                    asked,
                });
            }
        }
        if !self.others_lack(path.caches[path.len - 1], line) {
            return None;
        }
        asked = asked.saturating_add(self.roots_asked());
        Some(Spotted { place: None, alone: true, dirty: false, asked })
    }
}

/// Where a line is that nobody else has to do anything about.
struct Spotted {
    /// The place on the way, set and way; memory otherwise.
    place: Option<(usize, u32, u32)>,
    /// Nobody else has it.
    alone: bool,
    /// It is newer there than in memory.
    dirty: bool,
    /// The questions that it took.
    asked: u8,
}
