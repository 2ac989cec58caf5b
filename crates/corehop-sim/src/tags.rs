// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sets of a cache: the line in each way, its state, and the state of the replacement policy.
//!
//! A set is one block of 8, 16 or 32 lanes, aligned to a line of the host; 8 ways fit into one such line, 16 into
//! two. Tags are compared eight at a time, in vectors that any x86-64 has; no branch depends on a single lane.

use wide::bytemuck::cast;
use wide::{i16x8, u32x8};

/// The number of a memory line: its address divided by the line size. 2³² lines of 64 bytes are 256 GiB.
pub type LineNumber = u32;

/// The line number that marks an empty lane.
pub const NO_LINE: LineNumber = LineNumber::MAX;

/// The number of inner caches that a way's word can name, because the flags leave this many of the word's 16 bits
/// free.
pub(super) const NAMED: usize = 13;

/// Prefetches data into the host's caches that the simulator will soon read.
#[inline(always)]
pub(super) fn expect<T>(it: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(it);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = it;
}

/// A set of up to `N` ways.
#[derive(Debug, Clone, PartialEq)]
#[repr(C, align(64))]
pub(super) struct TagBlock<const N: usize> {
    tags: [LineNumber; N],
    /// The word of each way: three flags and, above the flags, a bit for each inner cache that may have the line.
    pub(super) words: [u16; N],
    /// The state of the replacement policy.
    pub(super) order: u64,
    /// The mask of the ways that hold a line.
    pub(super) taken: u32,
}

impl<const N: usize> TagBlock<N> {
    pub(super) fn empty(order: u64) -> Self {
        Self { tags: [NO_LINE; N], words: [0; N], order, taken: 0 }
    }

    /// The way that holds `line`; at most one way does.
    #[inline(always)]
    pub(super) fn find(&self, line: LineNumber) -> Option<u32> {
        let wanted = u32x8::splat(line);
        let mut found = 0;
        for (place, &tags) in self.tags.as_chunks::<8>().0.iter().enumerate() {
            found |= same(tags, wanted) << (8 * place);
        }
        if found == 0 { None } else { Some(found.trailing_zeros()) }
    }

    /// Prefetches the block into the host's caches.
    #[inline(always)]
    pub(super) fn expect(&self) {
        expect(&self.tags);
        expect(&self.order);
    }

    pub(super) fn tag(&self, way: u32) -> LineNumber {
        self.tags[way as usize & (N - 1)]
    }

    #[inline(always)]
    pub(super) fn word(&mut self, way: u32) -> &mut u16 {
        &mut self.words[way as usize & (N - 1)]
    }

    /// The line in this way, if any of these flags is set in the way's word.
    #[inline(always)]
    pub(super) fn flagged(&self, way: u32, flags: u16) -> Option<LineNumber> {
        let way = way as usize & (N - 1);
        (self.words[way] & flags != 0).then_some(self.tags[way])
    }

    /// Stores a line and its word in a way. Returns the previous line and word.
    #[inline(always)]
    pub(super) fn put(&mut self, way: u32, line: LineNumber, word: u16) -> (LineNumber, u16) {
        let way = way as usize & (N - 1);
        let old = (self.tags[way], self.words[way]);
        self.tags[way] = line;
        self.words[way] = word;
        old
    }
}

/// A mask with a bit for each of the eight `tags` that equals the wanted tag.
#[inline(always)]
fn same(tags: [LineNumber; 8], wanted: u32x8) -> u32 {
    let equal = u32x8::new(tags).simd_eq(wanted);
    i16x8::from_i32x8_saturate(cast(equal)).to_bitmask()
}

/// All sets of a cache. Memory is allocated when the first line enters.
#[derive(Debug, PartialEq)]
pub(super) enum TagArray {
    Eight(Vec<TagBlock<8>>),
    Sixteen(Vec<TagBlock<16>>),
    ThirtyTwo(Vec<TagBlock<32>>),
}

/// Evaluates an expression over the block of a set of any width; yields a default if no blocks are allocated.
macro_rules! peek {
    ($blocks:expr, $set:expr, $none:expr, $block:ident => $body:expr) => {
        match $blocks {
            $crate::tags::TagArray::Eight(sets) => match sets.get($set as usize) {
                Some($block) => $body,
                None => $none,
            },
            $crate::tags::TagArray::Sixteen(sets) => match sets.get($set as usize) {
                Some($block) => $body,
                None => $none,
            },
            $crate::tags::TagArray::ThirtyTwo(sets) => match sets.get($set as usize) {
                Some($block) => $body,
                None => $none,
            },
        }
    };
}

/// Evaluates an expression over a mutable, allocated block of any width.
macro_rules! poke {
    ($blocks:expr, $set:expr, $block:ident => $body:expr) => {
        match $blocks {
            $crate::tags::TagArray::Eight(sets) => {
                let $block = &mut sets[$set as usize];
                $body
            }
            $crate::tags::TagArray::Sixteen(sets) => {
                let $block = &mut sets[$set as usize];
                $body
            }
            $crate::tags::TagArray::ThirtyTwo(sets) => {
                let $block = &mut sets[$set as usize];
                $body
            }
        }
    };
}
pub(super) use {peek, poke};

impl Default for TagArray {
    fn default() -> Self {
        Self::Eight(Vec::new())
    }
}

impl Clone for TagArray {
    fn clone(&self) -> Self {
        match self {
            Self::Eight(blocks) => Self::Eight(blocks.clone()),
            Self::Sixteen(blocks) => Self::Sixteen(blocks.clone()),
            Self::ThirtyTwo(blocks) => Self::ThirtyTwo(blocks.clone()),
        }
    }

    /// Reuses the memory of the previous copy if both are equally large.
    fn clone_from(&mut self, source: &Self) {
        match (&mut *self, source) {
            (Self::Eight(copy), Self::Eight(blocks)) => copy.clone_from(blocks),
            (Self::Sixteen(copy), Self::Sixteen(blocks)) => copy.clone_from(blocks),
            _ => *self = source.clone(),
        }
    }
}

impl TagArray {
    /// The size of all sets in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Eight(blocks) => size_of_val(blocks.as_slice()),
            Self::Sixteen(blocks) => size_of_val(blocks.as_slice()),
            Self::ThirtyTwo(blocks) => size_of_val(blocks.as_slice()),
        }
    }

    /// Creates the array for sets of `ways` ways (1 to 32), without allocating memory.
    pub(super) fn new(ways: u32) -> Self {
        match ways {
            0..=8 => Self::Eight(Vec::new()),
            9..=16 => Self::Sixteen(Vec::new()),
            _ => Self::ThirtyTwo(Vec::new()),
        }
    }

    /// Whether memory for the sets is allocated.
    #[inline(always)]
    pub(super) fn is_allocated(&self) -> bool {
        peek!(self, 0, false, _block => true)
    }

    /// Allocates `sets` sets.
    pub(super) fn allocate(&mut self, sets: usize, order: u64) {
        match self {
            Self::Eight(blocks) => blocks.resize(sets, TagBlock::empty(order)),
            Self::Sixteen(blocks) => blocks.resize(sets, TagBlock::empty(order)),
            Self::ThirtyTwo(blocks) => blocks.resize(sets, TagBlock::empty(order)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_the_way_it_was_put_into_and_nowhere_else() {
        for ways in [1, 2, 7, 8, 9, 12, 16, 20, 32] {
            let mut blocks = TagArray::new(ways);
            let find = |blocks: &TagArray, set: u32, line| peek!(blocks, set, None, block => block.find(line));
            assert_eq!(find(&blocks, 1, 5), None);
            blocks.allocate(3, 0);
            for way in 0..ways {
                poke!(&mut blocks, 1, block => block.put(way, 100 + way, 0));
            }
            for way in 0..ways {
                assert_eq!(find(&blocks, 1, 100 + way), Some(way));
                assert_eq!(find(&blocks, 0, 100 + way), None);
                assert_eq!(find(&blocks, 2, 100 + way), None);
            }
            assert_eq!(find(&blocks, 1, 99), None);
        }
        assert_eq!((size_of::<TagBlock<8>>(), size_of::<TagBlock<16>>()), (64, 128));
    }
}
