// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache: tags, the states of its lines as masks over the ways, and for an inclusive cache which
//! of the caches inside it may have a line.

use crate::platform::{Distance, Inclusion, Index};

use super::replacement::{Policy, all};
use super::spec::CacheSpec;
use super::tags::{Line, NO_LINE, Tags};

/// The rights and duties of a copy. None of them: the copy is shared and as memory (or the next
/// cache further out) has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// No copy exists but in this cache, inside it, and further out on its way to memory.
    pub(super) alone: bool,
    /// This copy is newer than what is further out.
    pub(super) dirty: bool,
    /// This copy's package answers other packages (MESIF).
    pub(super) forward: bool,
}

/// The state of a set but for its tags: 24 bytes.
#[derive(Debug, Clone, Copy)]
struct Set {
    order: u64,
    taken: u32,
    alone: u32,
    dirty: u32,
    forward: u32,
}

/// How a line finds its set, in the form that is quick to compute.
#[derive(Debug, Clone)]
enum Finder {
    /// A power of two: the mask.
    Mask(u32),
    /// Any number of sets: 2⁶⁴ over it, rounded up (Lemire, Kaser and Kurz 2019).
    Modulo { magic: u64, sets: u32 },
    /// As the definition says.
    Hash { index: Index, sets: u32 },
}

impl Finder {
    fn new(spec: &CacheSpec) -> Self {
        let sets = spec.sets;
        match &spec.index {
            Index::Modulo if bug!(SetsPowerOfTwo) => {
                Self::Mask((sets.next_power_of_two() >> u32::from(!sets.is_power_of_two())) - 1)
            }
            Index::Modulo if sets.is_power_of_two() => Self::Mask(sets - 1),
            Index::Modulo => Self::Modulo { magic: u64::MAX / u64::from(sets) + 1, sets },
            index => Self::Hash { index: index.clone(), sets },
        }
    }

    #[inline(always)]
    fn set(&self, line: Line) -> u32 {
        match self {
            Self::Mask(mask) => line & mask,
            Self::Modulo { magic, sets } => {
                let fraction = magic.wrapping_mul(u64::from(line));
                ((u128::from(fraction) * u128::from(*sets)) >> 64) as u32
            }
            Self::Hash { index, sets } => index.set(line, *sets),
        }
    }
}

/// What happened to a cache's lines by the doing of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Lines that went to make room.
    pub evictions: u64,
    /// Of these, dirty ones.
    pub write_backs: u64,
    /// Lines that went because a cache further out, which includes this one, evicted them.
    pub back_invalidations: u64,
    /// Lines that went because another CPU wrote them.
    pub invalidations: u64,
    /// Questions answered: had it, unmodified.
    pub snoop_hits: u64,
    /// Questions answered: had it modified (HITM).
    pub snoop_hits_modified: u64,
}

/// One cache and its place among the others.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    pub(super) level: u8,
    pub(super) inclusion: Inclusion,
    pub(super) write_through: bool,
    pub(super) write_allocate: bool,
    /// What is between CPUs that have this cache as the first one in common.
    pub(super) distance: Distance,
    /// Of its first CPU.
    pub(super) package: usize,
    pub(super) parent: Option<usize>,
    /// Its place among the children of its parent.
    pub(super) place: usize,
    pub(super) children: Vec<usize>,
    pub(super) counters: CacheCounters,
    ways: u32,
    sets: u32,
    finder: Finder,
    policy: Policy,
    tags: Tags,
    state: Vec<Set>,
    ranks: Vec<u8>,
    /// Inclusive caches: for each set and child a mask of ways, the child may have that line.
    present: Vec<u32>,
    /// How many lines it holds.
    filled: u32,
}

impl Cache {
    pub(super) fn new(spec: &CacheSpec, distance: Distance, package: usize, seed: u64) -> Self {
        Self {
            level: spec.level as u8,
            inclusion: spec.inclusion,
            write_through: spec.write_through,
            write_allocate: spec.write_allocate,
            distance,
            package,
            parent: None,
            place: 0,
            children: Vec::new(),
            counters: CacheCounters::default(),
            ways: spec.ways,
            sets: spec.sets,
            finder: Finder::new(spec),
            policy: Policy::new(spec.replacement, spec.ways, seed),
            tags: Tags::new(spec.sets, spec.ways),
            state: Vec::new(),
            ranks: Vec::new(),
            present: Vec::new(),
            filled: 0,
        }
    }

    /// Whether it has no cache inside.
    #[inline(always)]
    pub(super) fn is_innermost(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether the lines inside are all in it too.
    #[inline(always)]
    pub(super) fn includes(&self) -> bool {
        self.inclusion == Inclusion::Inclusive || self.is_innermost()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether it takes room.
    #[cfg(test)]
    pub(super) fn is_allocated(&self) -> bool {
        self.tags.is_allocated()
    }

    #[inline(always)]
    pub(super) fn set_of(&self, line: Line) -> u32 {
        self.finder.set(line)
    }

    #[inline(always)]
    pub(super) fn find(&self, set: u32, line: Line) -> Option<u32> {
        self.tags.find(set, line)
    }

    /// The line in this way.
    pub(super) fn line_at(&self, set: u32, way: u32) -> Line {
        self.tags.get(set, way)
    }

    /// Set and way of a line.
    #[inline(always)]
    pub(super) fn locate(&self, line: Line) -> Option<(u32, u32)> {
        let set = self.set_of(line);
        Some((set, self.find(set, line)?))
    }

    #[inline(always)]
    fn ranks_of(ranks: &mut [u8], each: usize, set: u32) -> &mut [u8] {
        if each == 0 { &mut [] } else { &mut ranks[set as usize * each..][..each] }
    }

    /// The line in this way was used.
    #[inline(always)]
    pub(super) fn touch(&mut self, set: u32, way: u32) {
        let ranks = Self::ranks_of(&mut self.ranks, self.policy.ranks(), set);
        self.policy.hit(&mut self.state[set as usize].order, ranks, way);
    }

    #[inline(always)]
    pub(super) fn bits(&self, set: u32, way: u32) -> Bits {
        let state = &self.state[set as usize];
        let bit = |mask: u32| mask >> way & 1 == 1;
        Bits { alone: bit(state.alone), dirty: bit(state.dirty), forward: bit(state.forward) }
    }

    #[inline(always)]
    pub(super) fn set_bits(&mut self, set: u32, way: u32, bits: Bits) {
        let state = &mut self.state[set as usize];
        let put = |mask: &mut u32, on: bool| *mask = *mask & !(1 << way) | u32::from(on) << way;
        put(&mut state.alone, bits.alone);
        put(&mut state.dirty, bits.dirty);
        put(&mut state.forward, bits.forward);
    }

    /// A write hit in a line that is held alone: makes it dirty. Says whether it was held alone.
    #[inline(always)]
    pub(super) fn write_alone(&mut self, set: u32, way: u32) -> bool {
        let state = &mut self.state[set as usize];
        let alone = state.alone >> way & 1;
        if !bug!(SilentWriteStaysClean) {
            state.dirty |= alone << way;
        }
        alone == 1
    }

    /// Makes a copy dirty that is here.
    pub(super) fn make_dirty(&mut self, set: u32, way: u32) {
        self.state[set as usize].dirty |= 1 << way;
    }

    /// The way to put a new line of `set` into, of those `allowed`, and whether it is taken.
    #[inline(always)]
    pub(super) fn room(&mut self, set: u32, allowed: u32) -> (u32, bool) {
        if !self.tags.is_allocated() {
            self.allocate();
        }
        let every = all(self.ways);
        let allowed = if bug!(MaskIgnored) { every } else { allowed & every };
        let state = &mut self.state[set as usize];
        let empty = if bug!(EmptyWaysIgnored) && state.taken & allowed != 0 {
            0
        } else {
            !state.taken & allowed
        };
        if empty != 0 {
            return (empty.trailing_zeros(), false);
        }
        let ranks = Self::ranks_of(&mut self.ranks, self.policy.ranks(), set);
        let way = self.policy.victim(&mut state.order, ranks, allowed);
        (way, state.taken >> way & 1 == 1)
    }

    #[cold]
    fn allocate(&mut self) {
        let sets = self.sets as usize;
        self.tags.allocate();
        let empty = Set { order: self.policy.empty(), taken: 0, alone: 0, dirty: 0, forward: 0 };
        self.state = vec![empty; sets];
        self.ranks =
            (0..self.policy.ranks() as u8).cycle().take(sets * self.policy.ranks()).collect();
        if self.includes() {
            self.present = vec![0; sets * self.children.len()];
        }
    }

    /// Puts a line into an empty way.
    #[inline(always)]
    pub(super) fn insert(&mut self, set: u32, way: u32, line: Line, bits: Bits) {
        self.tags.put(set, way, line);
        self.filled += 1;
        self.state[set as usize].taken |= 1 << way;
        self.set_bits(set, way, bits);
        let ranks = Self::ranks_of(&mut self.ranks, self.policy.ranks(), set);
        self.policy.fill(&mut self.state[set as usize].order, ranks, way);
    }

    /// Takes a line out. Who inside may have it is forgotten.
    #[inline(always)]
    pub(super) fn remove(&mut self, set: u32, way: u32) -> (Line, Bits) {
        let (line, bits) = (self.tags.get(set, way), self.bits(set, way));
        self.tags.put(set, way, NO_LINE);
        self.filled -= 1;
        let keep = !(1_u32 << way);
        let state = &mut self.state[set as usize];
        state.taken &= keep;
        state.alone &= keep;
        state.dirty &= keep;
        state.forward &= keep;
        let children = self.children.len();
        if !self.present.is_empty() {
            for mask in &mut self.present[set as usize * children..][..children] {
                *mask &= keep;
            }
        }
        (line, bits)
    }

    /// Whether the child in this place may have the line.
    #[inline(always)]
    pub(super) fn may_have(&self, set: u32, way: u32, child: usize) -> bool {
        let at = set as usize * self.children.len() + child;
        self.present[at] >> way & 1 == 1
    }

    #[inline(always)]
    pub(super) fn set_present(&mut self, set: u32, way: u32, child: usize, on: bool) {
        let at = set as usize * self.children.len() + child;
        let mask = &mut self.present[at];
        *mask = *mask & !(1 << way) | u32::from(on) << way;
    }

    /// How many children may have the line.
    pub(super) fn sharers(&self, set: u32, way: u32) -> usize {
        (0..self.children.len()).filter(|&child| self.may_have(set, way, child)).count()
    }

    /// Every line that is here.
    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(Line, Bits)> {
        let mut lines = Vec::new();
        for (set, state) in self.state.iter().enumerate() {
            for way in super::replacement::ways_of(state.taken) {
                lines.push((self.tags.get(set as u32, way), self.bits(set as u32, way)));
            }
        }
        lines
    }
}
