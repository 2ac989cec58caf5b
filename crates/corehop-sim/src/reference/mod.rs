// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slow twin of [`super::hierarchy`]: caches as lists of entries, every request searches all caches. The model
//! also carries data: each write makes a new version of a line, each copy has a version, and every read must return
//! the newest version.

use std::collections::{BTreeMap, BTreeSet};

use corehop_plan::platform::{Distance, Found, Inclusion, Lookup, Protocol, Supplier};

mod ages;
mod filter;
mod list;
mod movement;

pub(super) use list::{Copy, RefCache};

use super::outcome::{Access, AccessOutcome};
use super::spec::Spec;
use super::tags::LineNumber;

/// The combined answer of the copies inside a cache.
#[derive(Debug, Clone, Default)]
struct InnerCopies {
    copies: u32,
    alone: bool,
    forward: bool,
    level: u32,
    /// The newest data if a copy is dirty, and the outermost cache around the dirty copy that also has a copy.
    dirty: Option<(u64, usize)>,
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SnoopReason {
    Read { away: bool },
    Write,
    Room,
    Flush,
}

/// The reference model of a whole machine.
#[derive(Debug, Clone)]
pub(super) struct ReferenceMachine {
    pub(super) spec: Spec,
    pub(super) caches: Vec<RefCache>,
    pub(super) masks: BTreeMap<(usize, u32), u32>,
    /// The data in memory; version 0 for lines never written.
    pub(super) memory: BTreeMap<LineNumber, u64>,
    /// The newest version of each line.
    pub(super) newest: BTreeMap<LineNumber, u64>,
    /// Descriptions of reads that did not return the newest version.
    pub(super) stale: Vec<String>,
    cpu: usize,
    outcome: AccessOutcome,
}

impl ReferenceMachine {
    pub(super) fn new(spec: &Spec, seed: u64) -> Self {
        let mut caches = Vec::new();
        for cache in &spec.caches {
            for cpus in &cache.instances {
                let number = caches.len() as u64 + 1;
                let random = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                caches.push(RefCache::new(cache, cpus, spec.distance(cpus, cache.level), random));
            }
        }
        // The parent of a cache is the next larger level that serves its CPUs.
        for at in 0..caches.len() {
            let RefCache { spec, cpus, .. } = &caches[at];
            let around = (0..caches.len()).filter(|&other| {
                caches[other].spec.level > spec.level && caches[other].cpus.contains(&cpus[0])
            });
            let parent = around.min_by_key(|&other| caches[other].spec.level);
            caches[at].parent = parent;
            if let Some(parent) = parent {
                caches[parent].children.push(at);
            }
        }
        Self {
            spec: spec.clone(),
            caches,
            masks: BTreeMap::new(),
            memory: BTreeMap::new(),
            newest: BTreeMap::new(),
            stale: Vec::new(),
            cpu: 0,
            outcome: AccessOutcome::own(0),
        }
    }

    pub(super) fn way(&self, cpu: usize, instruction: bool) -> Vec<usize> {
        let chosen = self.spec.way(cpu, instruction);
        let at = |(cache, instance): (usize, usize)| {
            let before: usize =
                self.spec.caches[..cache].iter().map(|cache| cache.instances.len()).sum();
            before + instance
        };
        chosen.into_iter().map(at).collect()
    }

    /// Cache `x` and all caches inside `x`.
    fn family(&self, x: usize) -> Vec<usize> {
        let inside = self.caches[x].children.iter().flat_map(|&child| self.family(child));
        std::iter::once(x).chain(inside).collect()
    }

    fn family_has(&self, x: usize, line: LineNumber) -> bool {
        self.family(x).into_iter().any(|cache| self.caches[cache].has(line))
    }

    fn roots(&self) -> Vec<usize> {
        (0..self.caches.len()).filter(|&cache| self.caches[cache].parent.is_none()).collect()
    }

    fn package(&self, x: usize) -> usize {
        self.spec.packages[self.caches[x].cpus[0]]
    }

    /// Asks `x` and all caches inside.
    fn ask(&mut self, x: usize, line: LineNumber, why: SnoopReason) -> InnerCopies {
        let mut asked = InnerCopies::default();
        if !self.family_has(x, line) {
            return asked;
        }
        let includes = self.caches[x].includes();
        let reads = matches!(why, SnoopReason::Read { .. });
        for child in self.caches[x].children.clone() {
            if includes {
                let copy = self.caches[x].copy(line).unwrap();
                if !copy.may.contains(&child) || (reads && !(copy.alone && copy.may.len() == 1)) {
                    continue;
                }
            }
            let inside = self.ask(child, line, why);
            if includes && inside.copies == 0 {
                self.caches[x].copy(line).unwrap().may.remove(&child);
            }
            add(&mut asked, &inside);
        }
        if self.caches[x].has(line) {
            let level = self.caches[x].spec.level;
            let copy = self.caches[x].copy(line).unwrap();
            asked.copies += 1;
            asked.alone |= copy.alone;
            asked.forward |= copy.forward;
            if asked.dirty.is_none() {
                asked.level = level;
            }
            // The innermost newer data is the newest; it now concerns this cache's copy as well.
            let newer = asked.dirty.map(|(version, _)| version);
            let own = copy.dirty.then_some(copy.version);
            if newer.is_none() {
                asked.version = copy.version;
            }
            asked.dirty = newer.or(own).map(|version| (version, x));
            if let SnoopReason::Read { away } = why {
                if let Some((version, _)) = asked.dirty {
                    copy.version = version;
                    asked.version = version;
                }
                copy.alone = false;
                copy.dirty = false;
                copy.forward &= !away;
            } else {
                self.caches[x].take(line);
            }
        }
        asked
    }

    fn note(&mut self, asked: &InnerCopies, distance: Distance, why: SnoopReason) {
        let counts = self.spec.lookup == Lookup::Snooping || asked.copies > 0;
        if distance > Distance::Core && counts {
            self.outcome.asked += 1;
        }
        if why == SnoopReason::Write && asked.copies > 0 {
            self.outcome.invalidated += asked.copies as u8;
            self.outcome.farthest = self.outcome.farthest.max(distance);
        }
    }

    /// Asks the caches inside `x`, except `but` and the caches that have no copy according to `x`.
    fn ask_siblings(
        &mut self,
        x: usize,
        but: usize,
        line: LineNumber,
        why: SnoopReason,
    ) -> InnerCopies {
        let mut all = InnerCopies::default();
        let knows = self.caches[x].includes() && self.caches[x].has(line);
        for child in self.caches[x].children.clone() {
            if child == but {
                continue;
            }
            if knows && !self.caches[x].copy(line).unwrap().may.contains(&child) {
                continue;
            }
            let asked = self.ask(child, line, why);
            let distance = self.caches[x].distance;
            if asked.copies > 0 || self.caches[x].filter.is_none() {
                self.note(&asked, distance, why);
            }
            if knows && (asked.copies == 0 || why == SnoopReason::Write) {
                self.caches[x].copy(line).unwrap().may.remove(&child);
            }
            add(&mut all, &asked);
        }
        all
    }

    fn write_back(&mut self, line: LineNumber, version: u64) {
        self.memory.insert(line, version);
        self.outcome.written_back += 1;
    }

    pub(super) fn access(&mut self, cpu: usize, line: LineNumber, access: Access) -> AccessOutcome {
        let way = self.way(cpu, access == Access::Fetch);
        let write = access == Access::Write;
        let innermost = &self.caches[way[0]];
        let skips =
            write && !innermost.spec.write_allocate && way.len() > 1 && !innermost.has(line);
        self.bring(cpu, &way, line, write, usize::from(skips))
    }

    pub(super) fn prefetch(
        &mut self,
        cpu: usize,
        line: LineNumber,
        level: u32,
    ) -> Option<AccessOutcome> {
        let way = self.way(cpu, false);
        let first = way.iter().position(|&x| self.caches[x].spec.level == level)?;
        let exclusive = self.caches[way[first]].spec.inclusion.takes_victims();
        let held = self.caches[way[first]].has(line)
            || (first > 0 && self.family_has(way[first - 1], line));
        if held || (first > 0 && exclusive) {
            return None;
        }
        Some(self.bring(cpu, &way, line, false, first))
    }

    pub(super) fn flush(&mut self, line: LineNumber) -> bool {
        let mut dirty = false;
        for root in self.roots() {
            if let Some((version, _)) = self.ask(root, line, SnoopReason::Flush).dirty {
                self.memory.insert(line, version);
                dirty = true;
            }
        }
        dirty
    }

    fn bring(
        &mut self,
        cpu: usize,
        way: &[usize],
        line: LineNumber,
        write: bool,
        first: usize,
    ) -> AccessOutcome {
        self.cpu = cpu;
        self.outcome = AccessOutcome::own(0);
        let why = if write { SnoopReason::Write } else { SnoopReason::Read { away: false } };
        let mut version = None;
        for at in first..way.len() {
            if self.caches[way[at]].has(line) {
                version = Some(self.own(way, at, line, write, first));
                break;
            }
            if at > 0 && !self.caches[way[at]].includes() && self.caches[way[at]].children.len() > 1
            {
                let asked = self.ask_siblings(way[at], way[at - 1], line, why);
                if asked.copies > 0 {
                    version = Some(self.beside(way, at, &asked, line, write, first));
                    break;
                }
            }
        }
        let version = version.unwrap_or_else(|| self.nowhere(way, line, write, first));
        let newest = self.newest.get(&line).copied().unwrap_or(0);
        if version != newest {
            self.stale.push(format!("CPU {cpu} got version {version} of {line}, not {newest}"));
        }
        if write {
            self.newest.insert(line, newest + 1);
            let copy = self.caches[way[first]].copy(line).unwrap();
            copy.version = newest + 1;
            copy.dirty = true;
            if self.caches[way[first]].spec.write_through {
                let copy = self.caches[way[first]].copy(line).unwrap();
                copy.dirty = false;
                let given = Copy { dirty: true, ..copy.clone() };
                self.hand_out(way[first], given);
            }
        }
        self.outcome
    }

    /// Completes an access whose line is in cache number `at` of the way.
    fn own(
        &mut self,
        way: &[usize],
        at: usize,
        line: LineNumber,
        write: bool,
        first: usize,
    ) -> u64 {
        let x = way[at];
        let why = if write { SnoopReason::Write } else { SnoopReason::Read { away: false } };
        let mut copy = self.caches[x].copy(line).unwrap().clone();
        let asked = self.outcome.asked;
        self.outcome =
            AccessOutcome { asked, ..AccessOutcome::own(self.caches[x].spec.level as u8) };
        self.outcome.state = if copy.dirty { Found::Dirty } else { Found::Clean };
        let mut shared = !copy.alone;
        let mut version = copy.version;
        if at > 0 {
            let others = copy.may.iter().filter(|&&child| child != way[at - 1]).count();
            let one = copy.alone && copy.may.len() == 1 && others == 1;
            let asks = write || if self.caches[x].includes() { one } else { copy.alone };
            let mut answer = InnerCopies::default();
            if asks {
                answer = self.ask_siblings(x, way[at - 1], line, why);
            }
            shared |= answer.copies > 0 || (!asks && others > 0);
            if let Some((newer, _)) = answer.dirty {
                version = newer;
                self.supplied_by_peer(&answer, x);
                if !write {
                    let own = self.caches[x].copy(line).unwrap();
                    (own.dirty, own.version) = (true, newer);
                }
            }
        }
        if write {
            if !copy.alone {
                self.outward(way, at, line);
            }
            self.leave_outer(&way[at + 1..], line);
            self.own_all(&way[at..], line);
        }
        copy = self.caches[x].copy(line).unwrap().clone();
        let mut new =
            Copy { alone: write || !shared, dirty: false, forward: false, ..copy.clone() };
        // A mostly exclusive cache keeps what several cores read.
        let exclusive = at > first
            && match self.caches[x].spec.inclusion {
                Inclusion::Exclusive => true,
                Inclusion::MostlyExclusive => write || copy.alone,
                _ => false,
            };
        if exclusive {
            let moved = self.caches[x].take(line);
            new = Copy { alone: moved.alone, dirty: moved.dirty, forward: moved.forward, ..new };
        } else {
            self.caches[x].used(line, true);
            if at > first && self.caches[x].includes() {
                self.caches[x].copy(line).unwrap().may.insert(way[at - 1]);
            }
        }
        new.version = version;
        self.fill(&way[..at], first, &new);
        version
    }

    /// Completes an access whose line is inside cache number `at` of the way, but neither in that cache nor on the
    /// way.
    fn beside(
        &mut self,
        way: &[usize],
        at: usize,
        asked: &InnerCopies,
        line: LineNumber,
        write: bool,
        first: usize,
    ) -> u64 {
        let x = way[at];
        self.supplied_by_peer(asked, x);
        let filled = self.caches[x].spec.inclusion == Inclusion::NonInclusive;
        let version = asked.dirty.map_or(asked.version, |(version, _)| version);
        let mut copy = blank(line, version);
        let mut carried = false;
        if write {
            if !asked.alone {
                self.outward(way, at, line);
            }
            self.leave_outer(&way[at + 1..], line);
            self.own_all(&way[at + 1..], line);
        } else if let Some((_, owner)) = asked.dirty {
            if self.spec.protocol == Protocol::Moesi {
                self.caches[owner].copy(line).unwrap().dirty = true;
            } else if filled {
                carried = true;
            } else {
                let given = Copy { alone: asked.alone, dirty: true, ..copy.clone() };
                self.hand_out(x, given);
            }
        }
        if filled {
            self.put(x, &Copy { alone: write || asked.alone, dirty: carried, ..copy.clone() });
        }
        copy.alone = write;
        self.fill(&way[..at], first, &copy);
        version
    }

    /// Completes an access whose line is in no cache below this root.
    fn nowhere(&mut self, way: &[usize], line: LineNumber, write: bool, first: usize) -> u64 {
        let remote = self.others(way, line, write);
        let mesif = self.spec.protocol == Protocol::Mesif;
        let supplied =
            remote.asked.dirty.is_some() || (mesif && (remote.asked.forward || remote.asked.alone));
        let memory = self.memory.get(&line).copied().unwrap_or(0);
        let mut version = memory;
        self.outcome.supplier = Supplier::Memory;
        if supplied {
            version = remote.asked.dirty.map_or(remote.asked.version, |(version, _)| version);
            self.outcome.supplier = Supplier::Peer;
            self.outcome.level = remote.asked.level as u8;
            self.outcome.distance = remote.distance;
            if remote.asked.dirty.is_some() {
                self.outcome.state = Found::Dirty;
            }
        }
        let shared = remote.asked.copies > 0 && !write;
        let mut copy = blank(line, version);
        copy.alone = !shared;
        copy.forward = shared && mesif;
        self.fill(way, first, &copy);
        version
    }

    /// Asks the other roots.
    fn others(&mut self, way: &[usize], line: LineNumber, write: bool) -> Remote {
        let own = *way.last().unwrap();
        let why = if write { SnoopReason::Write } else { SnoopReason::Read { away: true } };
        let mut answers = Vec::new();
        for root in self.roots() {
            if root == own {
                continue;
            }
            let asked = self.ask(root, line, why);
            let same = self.package(own) == self.package(root);
            let distance = if same { Distance::Package } else { Distance::Machine };
            self.note(&asked, distance, why);
            answers.push((asked, distance));
        }
        let rank = |(asked, _): &&(InnerCopies, Distance)| {
            (asked.dirty.is_none(), !asked.forward, asked.copies == 0)
        };
        let best = answers.iter().filter(|(asked, _)| asked.copies > 0).min_by_key(rank).cloned();
        let mut remote = Remote { asked: InnerCopies::default(), distance: Distance::Core };
        if let Some((asked, distance)) = best {
            remote = Remote { asked, distance };
        }
        remote.asked.copies = answers.iter().map(|(asked, _)| asked.copies).sum();
        remote.asked.alone = answers.iter().any(|(asked, _)| asked.alone);
        if let (Some((version, owner)), false) = (remote.asked.dirty, write) {
            if self.spec.protocol == Protocol::Moesi {
                self.caches[owner].copy(line).unwrap().dirty = true;
            } else {
                self.write_back(line, version);
            }
        }
        remote
    }

    fn supplied_by_peer(&mut self, asked: &InnerCopies, x: usize) {
        self.outcome.supplier = Supplier::Peer;
        self.outcome.level = asked.level as u8;
        self.outcome.state = if asked.dirty.is_some() { Found::Dirty } else { Found::Clean };
        self.outcome.distance = self.caches[x].distance;
    }

    /// Invalidates all copies further out than number `at` of the way, except the copies on the way.
    fn outward(&mut self, way: &[usize], at: usize, line: LineNumber) {
        for place in at + 1..way.len() {
            let alone = self.caches[way[place]].copy(line).is_some_and(|copy| copy.alone);
            self.ask_siblings(way[place], way[place - 1], line, SnoopReason::Write);
            if alone {
                return;
            }
        }
        self.others(way, line, true);
    }

    fn leave_outer(&mut self, way: &[usize], line: LineNumber) {
        for &x in way {
            let shared = self.caches[x].spec.inclusion == Inclusion::MostlyExclusive;
            if shared && self.caches[x].has(line) {
                self.caches[x].take(line);
            }
        }
    }

    fn own_all(&mut self, way: &[usize], line: LineNumber) {
        for &x in way {
            if let Some(copy) = self.caches[x].copy(line) {
                (copy.alone, copy.forward) = (true, false);
            }
        }
    }

    /// Puts copies into the caches of `way` from number `first` on, outermost first; newer data and
    /// the duty to forward go with the first copy.
    fn fill(&mut self, way: &[usize], first: usize, copy: &Copy) {
        let mut copy = copy.clone();
        for at in (first..way.len()).rev() {
            if at > 0 && self.caches[way[at]].spec.inclusion.takes_victims() {
                continue;
            }
            self.put(way[at], &copy);
            if at > first && self.caches[way[at]].includes() {
                self.caches[way[at]].copy(copy.line).unwrap().may.insert(way[at - 1]);
            }
            (copy.dirty, copy.forward) = (false, false);
        }
    }
}

struct Remote {
    asked: InnerCopies,
    distance: Distance,
}

fn add(all: &mut InnerCopies, one: &InnerCopies) {
    if one.copies == 0 {
        return;
    }
    let better = all.copies == 0
        || (all.dirty.is_none() && (one.dirty.is_some() || (one.forward && !all.forward)));
    if better {
        (all.level, all.dirty, all.version) = (one.level, one.dirty, one.version);
    }
    all.copies += one.copies;
    all.alone |= one.alone;
    all.forward |= one.forward;
}

fn blank(line: LineNumber, version: u64) -> Copy {
    Copy { line, way: 0, alone: false, dirty: false, forward: false, may: BTreeSet::new(), version }
}
