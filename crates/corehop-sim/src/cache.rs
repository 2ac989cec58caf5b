// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache: tags, the states of its lines as masks over the ways, and for an inclusive cache the set of inner
//! caches that may have each line.

use corehop_plan::platform::{Distance, Inclusion, Index};

use super::fast_path::CacheStage;
use super::replacement::{ReplacementPolicy, ways_of};
use super::spec::CacheSpec;
use super::tags::{LineNumber, NAMED, NO_LINE, TagArray, TagBlock, peek, poke};

/// The state bits of a copy. With no bit set the copy is shared, and equal to the copy in memory or in the next
/// cache further out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bits {
    /// Whether no other copy exists, except inside this cache and further out on this cache's way to memory.
    pub(super) alone: bool,
    /// Whether this copy is newer than the copies further out.
    pub(super) dirty: bool,
    /// Whether this copy's package answers other packages (MESIF).
    pub(super) forward: bool,
}

impl Bits {
    /// Packs the state into the low bits of a way's word.
    #[inline(always)]
    fn packed(self) -> u16 {
        u16::from(self.alone) | u16::from(self.dirty) << 1 | u16::from(self.forward) << 2
    }

    #[inline(always)]
    pub(super) fn unpacked(word: u16) -> Self {
        Self { alone: word & 1 != 0, dirty: word & 2 != 0, forward: word & 4 != 0 }
    }
}

/// The map from lines to sets, prepared for fast evaluation.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    /// The number of sets minus one, if that number is a power of two.
    mask: Option<u32>,
    sets: u32,
    /// The quotient of 2⁶⁴ and the number of sets, rounded up (Lemire, Kaser and Kurz 2019).
    magic: u64,
    /// The hash that chooses the set, if the cache does not use the remainder.
    hash: Option<Box<Index>>,
}

impl Finder {
    fn new(spec: &CacheSpec) -> Self {
        let sets = spec.sets;
        let plain = spec.index == Index::Modulo;
        let lower = sets.next_power_of_two() >> u32::from(!sets.is_power_of_two());
        let power = plain && (sets.is_power_of_two() || bug!(SetsPowerOfTwo));
        Self {
            mask: power.then(|| lower - 1),
            sets,
            magic: (u64::MAX / u64::from(sets)).wrapping_add(1),
            hash: (!plain).then(|| Box::new(spec.index.clone())),
        }
    }

    /// The mask that selects the set from the line number; None if a mask alone cannot select the set.
    #[inline(always)]
    pub(super) fn mask(&self) -> Option<u32> {
        self.mask
    }

    #[inline(always)]
    pub(super) fn set(&self, line: LineNumber) -> u32 {
        self.mask.map_or_else(|| self.remainder().set(line), |mask| line & mask)
    }

    #[inline(always)]
    fn remainder(&self) -> Remainder<'_> {
        Remainder { sets: self.sets, magic: self.magic, hash: self.hash.as_deref() }
    }
}

/// Finds a set as [`Finder::set`] does, for caches without a mask: takes the remainder unless the cache has a
/// hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remainder<'a> {
    sets: u32,
    magic: u64,
    hash: Option<&'a Index>,
}

impl Remainder<'_> {
    #[inline(always)]
    pub(super) fn set(&self, line: LineNumber) -> u32 {
        if let Some(hash) = self.hash {
            return hash.set(line, self.sets);
        }
        let fraction = self.magic.wrapping_mul(u64::from(line));
        ((u128::from(fraction) * u128::from(self.sets)) >> 64) as u32
    }
}

/// The events in which a cache lost lines or answered other caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// The number of lines evicted to make room.
    pub evictions: u64,
    /// The number of dirty lines among the evicted lines.
    pub write_backs: u64,
    /// The number of lines removed because an inclusive cache further out evicted them.
    pub back_invalidations: u64,
    /// The number of lines removed because another CPU wrote them.
    pub invalidations: u64,
    /// The number of snoops for which this cache had the line unmodified.
    pub snoop_hits: u64,
    /// The number of snoops for which this cache had the line modified (HITM).
    pub snoop_hits_modified: u64,
}

impl CacheCounters {
    /// Adds the difference of the readings `before` and `after` once more.
    pub(super) fn count_again(&mut self, before: Self, after: Self) {
        let Self {
            evictions,
            write_backs,
            back_invalidations,
            invalidations,
            snoop_hits,
            snoop_hits_modified,
        } = self;
        *evictions += after.evictions - before.evictions;
        *write_backs += after.write_backs - before.write_backs;
        *back_invalidations += after.back_invalidations - before.back_invalidations;
        *invalidations += after.invalidations - before.invalidations;
        *snoop_hits += after.snoop_hits - before.snoop_hits;
        *snoop_hits_modified += after.snoop_hits_modified - before.snoop_hits_modified;
    }
}

/// A copy of the lines of a cache, of their states, and of the state of the replacement policy.
#[derive(Debug, Default)]
pub(super) struct CacheImage {
    blocks: TagArray,
    ranks: Vec<u8>,
    many: Vec<u64>,
    drawn: (u64, u16),
}

/// One cache, with its links to the caches around and inside.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
#[derive(Debug, Clone)]
pub(super) struct CacheNode {
    pub(super) level: u8,
    pub(super) inclusion: Inclusion,
    pub(super) write_through: bool,
    pub(super) write_allocate: bool,
    /// The distance between CPUs whose innermost common cache is this cache.
    pub(super) distance: Distance,
    /// The package of the cache's first CPU.
    pub(super) package: usize,
    pub(super) parent: Option<usize>,
    /// The cache's index among the children of its parent.
    pub(super) place: usize,
    pub(super) children: Vec<usize>,
    pub(super) counters: CacheCounters,
    /// The snoop filter: a directory of the lines that the caches inside hold.
    pub(super) snoop_filter: Option<Box<Self>>,
    includes: bool,
    drops_clean: bool,
    ways: u32,
    sets: u32,
    finder: Finder,
    policy: ReplacementPolicy,
    blocks: TagArray,
    ranks: Vec<u8>,
    /// The inner caches that may have the line of each way, for an inclusive cache with more than [`NAMED`]
    /// caches inside. With fewer inner caches, the way's word has this information.
    many: Vec<u64>,
    /// The number of lines that the cache holds.
    filled: u32,
}

impl CacheNode {
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
            snoop_filter: spec
                .snoop_filter
                .as_ref()
                .map(|filter| Box::new(Self::new(filter, distance, package, !seed))),
            includes: false,
            drops_clean: false,
            ways: spec.ways,
            sets: spec.sets,
            finder: Finder::new(spec),
            policy: ReplacementPolicy::new(spec.replacement, (spec.sets, spec.ways), seed),
            blocks: TagArray::new(spec.ways),
            ranks: Vec::new(),
            many: Vec::new(),
            filled: 0,
        }
    }

    /// Whether the cache has no caches inside.
    #[inline(always)]
    pub(super) fn is_innermost(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether the cache includes all lines of the caches inside.
    #[inline(always)]
    pub(super) fn includes(&self) -> bool {
        self.includes
    }

    /// Whether the cache drops clean lines silently, without informing another cache.
    #[inline(always)]
    pub(super) fn drops_clean(&self) -> bool {
        self.drops_clean
    }

    /// Whether the cache is filled when a line moves inwards, is write-back and write-allocate, and has no snoop
    /// filter.
    pub(super) fn is_plain(&self) -> bool {
        let filled = self.is_innermost() || !self.inclusion.takes_victims();
        filled && !self.write_through && self.write_allocate && self.snoop_filter.is_none()
    }

    /// Computes the properties that depend on the caches around and inside.
    pub(super) fn settle(&mut self, outer: Option<Inclusion>) {
        self.includes = self.inclusion == Inclusion::Inclusive || self.is_innermost();
        self.drops_clean = !outer.is_some_and(Inclusion::takes_victims);
        if let Some(filter) = &mut self.snoop_filter {
            filter.children.clone_from(&self.children);
            filter.includes = true;
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The number of lines that the cache holds.
    pub(super) fn filled(&self) -> u32 {
        self.filled
    }

    /// The size of a copy in bytes, without the extra state of rare policies and of many inner caches.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.bytes()
    }

    /// Copies the lines and states of the cache to `image`.
    pub(super) fn copy_to(&self, image: &mut CacheImage) {
        image.blocks.clone_from(&self.blocks);
        image.ranks.clone_from(&self.ranks);
        image.many.clone_from(&self.many);
        image.drawn = self.policy.drawn();
    }

    /// Whether the cache is unchanged since `image` was copied.
    pub(super) fn is_as(&self, image: &CacheImage) -> bool {
        let same = image.drawn == self.policy.drawn() && image.blocks == self.blocks;
        same && image.ranks == self.ranks && image.many == self.many
    }

    /// The number of lines that the cache can hold.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.ways)
    }

    /// Whether the cache has allocated memory for lines.
    #[cfg(test)]
    pub(super) fn is_allocated(&self) -> bool {
        self.blocks.is_allocated()
    }

    #[inline(always)]
    pub(super) fn set_of(&self, line: LineNumber) -> u32 {
        self.finder.set(line)
    }

    #[inline(always)]
    pub(super) fn find(&self, set: u32, line: LineNumber) -> Option<u32> {
        peek!(&self.blocks, set, None, block => block.find(line))
    }

    /// Prefetches the set of `line` into the host's caches.
    #[inline(always)]
    pub(super) fn expect(&self, line: LineNumber) {
        peek!(&self.blocks, self.set_of(line), (), block => block.expect());
    }

    /// The victim that `line` will displace from a full set, if the victim is dirty and the policy can name the
    /// victim quickly.
    #[inline(always)]
    pub(super) fn newer_to_go(&self, line: LineNumber) -> Option<LineNumber> {
        let set = self.set_of(line);
        peek!(&self.blocks, set, None, block => {
            let way = self.policy.next_victim_of(block.order)?;
            block.flagged(way, 2)
        })
    }

    /// The set and the way of a line; None if the cache lacks the line.
    #[inline(always)]
    pub(super) fn locate(&self, line: LineNumber) -> Option<(u32, u32)> {
        let set = self.set_of(line);
        Some((set, self.find(set, line)?))
    }

    #[inline(always)]
    fn ranks_of(ranks: &mut [u8], each: usize, set: u32) -> &mut [u8] {
        if each == 0 { &mut [] } else { &mut ranks[set as usize * each..][..each] }
    }

    /// Informs the policy of a hit in this way.
    #[inline(always)]
    pub(super) fn touch(&mut self, set: u32, way: u32) {
        let ranks = Self::ranks_of(&mut self.ranks, self.policy.ranks(), set);
        poke!(&mut self.blocks, set, block => self.policy.hit(&mut block.order, ranks, way));
    }

    #[inline(always)]
    fn word(&mut self, set: u32, way: u32) -> &mut u16 {
        poke!(&mut self.blocks, set, block => block.word(way))
    }

    #[inline(always)]
    fn word_at(&self, set: u32, way: u32) -> u16 {
        peek!(&self.blocks, set, 0, block => block.words[way as usize])
    }

    #[inline(always)]
    pub(super) fn bits(&self, set: u32, way: u32) -> Bits {
        Bits::unpacked(self.word_at(set, way))
    }

    #[inline(always)]
    pub(super) fn set_bits(&mut self, set: u32, way: u32, bits: Bits) {
        let word = self.word(set, way);
        *word = *word & !7 | bits.packed();
    }

    /// Makes a line dirty on a write hit if the line is held alone. Returns whether the line was held alone.
    #[inline(always)]
    pub(super) fn write_alone(&mut self, set: u32, way: u32) -> bool {
        let word = self.word(set, way);
        let alone = *word & 1;
        if !bug!(SilentWriteStaysClean) {
            *word |= alone << 1;
        }
        alone == 1
    }

    /// Makes the copy in this way dirty.
    pub(super) fn make_dirty(&mut self, set: u32, way: u32) {
        *self.word(set, way) |= 2;
    }

    #[cold]
    fn allocate(&mut self) {
        let sets = self.sets as usize;
        self.blocks.allocate(sets, self.policy.empty());
        let ranks = self.policy.ranks();
        self.ranks = (0..ranks as u8).cycle().take(sets * ranks).collect();
        if self.includes && self.children.len() > NAMED {
            self.many = vec![0; sets * self.ways as usize];
        }
    }

    /// Inserts a line that the cache lacks into one of the `allowed` ways. Returns the place of the line and the
    /// displaced line.
    #[inline(always)]
    pub(super) fn insert(&mut self, line: LineNumber, bits: Bits, allowed: u32) -> Inserted {
        if !self.blocks.is_allocated() {
            self.allocate();
        }
        let set = self.finder.set(line);
        let every = self.policy.every();
        let allowed = if bug!(MaskIgnored) { every } else { allowed & every };
        let policy = &mut self.policy;
        let ranks = Self::ranks_of(&mut self.ranks, policy.ranks(), set);
        let (way, old) = poke!(&mut self.blocks, set, block => {
            let empty = !block.taken & allowed;
            let ignored = bug!(EmptyWaysIgnored) && block.taken & allowed != 0;
            let way = if empty == 0 || ignored {
                policy.victim(&mut block.order, ranks, allowed)
            } else {
                empty.trailing_zeros()
            };
            policy.fill(&mut block.order, ranks, set, way);
            block.taken |= 1 << way;
            (way, block.put(way, line, bits.packed()))
        });
        let mut inserted = Inserted {
            set,
            way,
            victim: old.0,
            bits: Bits::unpacked(old.1),
            sharers: u64::from(old.1 >> 3),
        };
        if !self.many.is_empty() {
            inserted.sharers = std::mem::take(self.sharer_word(set, way));
        }
        if inserted.victim == NO_LINE {
            self.filled += 1;
        } else {
            self.counters.evictions += 1;
        }
        inserted
    }

    /// Removes the line in this way, together with the record of inner caches that may have the line.
    pub(super) fn remove(&mut self, set: u32, way: u32) -> (LineNumber, Bits) {
        self.filled -= 1;
        let (line, word) = poke!(&mut self.blocks, set, block => {
            block.taken &= !(1 << way);
            block.put(way, NO_LINE, 0)
        });
        if !self.many.is_empty() {
            *self.sharer_word(set, way) = 0;
        }
        (line, Bits::unpacked(word))
    }

    /// Removes a line that a cache further out evicts, if this innermost cache has the line. Returns whether the
    /// copy was dirty.
    pub(super) fn give_up(&mut self, line: LineNumber) -> bool {
        self.locate(line).is_some_and(|(set, way)| self.give_up_at(set, way))
    }

    /// Removes the line in this set and way; returns whether the copy was dirty.
    pub(super) fn give_up_at(&mut self, set: u32, way: u32) -> bool {
        self.counters.back_invalidations += 1;
        self.remove(set, way).1.dirty
    }

    /// The parts of the cache that [`super::fast_path`] needs; None if the sets do not have the width `N`.
    #[inline(always)]
    pub(super) fn lane<const N: usize, const KNOWN: u8, const POWER: bool>(
        &mut self,
        blocks: impl Fn(&mut TagArray) -> Option<&mut Vec<TagBlock<N>>>,
        allowed: u32,
        own: usize,
        lonely: bool,
    ) -> Option<CacheStage<'_, N, KNOWN, POWER>> {
        if !self.blocks.is_allocated() {
            self.allocate();
        }
        Some(CacheStage {
            blocks: blocks(&mut self.blocks)?,
            finder: self.finder.remainder(),
            mask: if POWER { self.finder.mask()? } else { 0 },
            allowed: if bug!(MaskIgnored) { u32::MAX } else { allowed } & self.policy.every(),
            policy: &mut self.policy,
            counters: &mut self.counters,
            filled: &mut self.filled,
            level: self.level,
            includes: self.includes,
            lonely,
            asks: !self.includes && !lonely,
            own: if self.children.is_empty() { 0 } else { 1 << own },
        })
    }

    /// The key of the cache's policy if only the `allowed` ways may be filled.
    pub(super) fn known(&self, allowed: u32) -> u8 {
        self.policy.known(allowed & self.policy.every())
    }

    /// Whether a mask finds the set of a line.
    pub(super) fn has_mask(&self) -> bool {
        self.finder.mask().is_some()
    }

    /// The number of ways for which each set has space.
    pub(super) fn width(&self) -> usize {
        match self.blocks {
            TagArray::Eight(_) => 8,
            TagArray::Sixteen(_) => 16,
            TagArray::ThirtyTwo(_) => 32,
        }
    }

    /// Whether way words name all caches inside.
    pub(super) fn names_all(&self) -> bool {
        self.children.len() <= NAMED
    }

    #[inline]
    fn sharer_word(&mut self, set: u32, way: u32) -> &mut u64 {
        &mut self.many[set as usize * self.ways as usize + way as usize]
    }

    /// The children that may have the line in this way of an inclusive cache, as a mask of their indices.
    #[inline(always)]
    pub(super) fn sharers(&self, set: u32, way: u32) -> u64 {
        if self.many.is_empty() {
            u64::from(self.word_at(set, way) >> 3)
        } else {
            self.many[set as usize * self.ways as usize + way as usize]
        }
    }

    /// Whether the child at index `child` may have the line.
    #[inline(always)]
    pub(super) fn may_have(&self, set: u32, way: u32, child: usize) -> bool {
        self.sharers(set, way) >> child & 1 == 1
    }

    /// The children that may have a line according to the snoop filter.
    #[inline(always)]
    pub(super) fn filtered(&self, line: LineNumber) -> u64 {
        let Some(filter) = &self.snoop_filter else { return u64::MAX };
        filter.locate(line).map_or(0, |(set, way)| filter.sharers(set, way))
    }

    #[inline(always)]
    pub(super) fn set_present(&mut self, set: u32, way: u32, child: usize, on: bool) {
        if self.many.is_empty() {
            let word = self.word(set, way);
            *word = *word & !(8 << child) | u16::from(on) << (3 + child);
        } else {
            let word = self.sharer_word(set, way);
            *word = *word & !(1 << child) | u64::from(on) << child;
        }
    }

    /// The lines of a full set, with their ways; no lines if the set has an empty way.
    pub(super) fn full_set(&self, set: u32) -> impl Iterator<Item = (u32, LineNumber)> {
        let every = self.policy.every();
        let taken = peek!(&self.blocks, set, 0, block => block.taken);
        let ways = if taken == every { every } else { 0 };
        ways_of(ways)
            .map(move |way| (way, peek!(&self.blocks, set, NO_LINE, block => block.tag(way))))
    }

    /// All lines of the cache, with their states.
    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(LineNumber, Bits)> {
        let mut lines = Vec::new();
        for set in 0..self.sets {
            let taken = peek!(&self.blocks, set, 0, block => block.taken);
            for way in ways_of(taken) {
                let line = peek!(&self.blocks, set, NO_LINE, block => block.tag(way));
                lines.push((line, self.bits(set, way)));
            }
        }
        lines
    }
}

/// The place of a new line, and the line that was there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inserted {
    pub(super) set: u32,
    pub(super) way: u32,
    /// The displaced line; [`NO_LINE`] if the way was empty.
    pub(super) victim: LineNumber,
    pub(super) bits: Bits,
    /// The children that may have the displaced line.
    pub(super) sharers: u64,
}
