// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sets of a cache: which line is in which way, in which state, and what replacement remembers.
//!
//! A set is one block of 8, 16 or 32 lanes, aligned to a line of the host; 8 ways fit into one such
//! line, 16 into two. Tags are compared eight at a time, in vectors that any x86-64 has; no lane is
//! looked at with a branch.

use wide::bytemuck::cast;
use wide::{i16x8, u32x8};

/// A line of memory: its address over the size of a line. 2³² lines of 64 bytes are 256 GiB.
pub type LineNumber = u32;

/// No line: what empty lanes hold.
pub const NO_LINE: LineNumber = LineNumber::MAX;

/// The number of caches inside that a way's word can name: the bits of 16 that the flags leave.
pub(super) const NAMED: usize = 13;

/// Has the host fetch something that will be looked at before long.
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
    /// For each way three flags and, above them, a bit for each cache inside that may have the line.
    pub(super) words: [u16; N],
    /// The memory of the replacement policy.
    pub(super) order: u64,
    /// The ways with a line.
    pub(super) taken: u32,
}

impl<const N: usize> TagBlock<N> {
    pub(super) fn empty(order: u64) -> Self {
        Self { tags: [NO_LINE; N], words: [0; N], order, taken: 0 }
    }

    /// The way that holds `line`. At most one does.
    #[inline(always)]
    pub(super) fn find(&self, line: LineNumber) -> Option<u32> {
        let wanted = u32x8::splat(line);
        let mut found = 0;
        for (place, &tags) in self.tags.as_chunks::<8>().0.iter().enumerate() {
            found |= same(tags, wanted) << (8 * place);
        }
        if found == 0 { None } else { Some(found.trailing_zeros()) }
    }

    /// Has the host fetch it.
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

    /// The line in this way, if one of these flags is on in its word.
    #[inline(always)]
    pub(super) fn flagged(&self, way: u32, flags: u16) -> Option<LineNumber> {
        let way = way as usize & (N - 1);
        (self.words[way] & flags != 0).then_some(self.tags[way])
    }

    /// Puts a line with its word into a way; what was there.
    #[inline(always)]
    pub(super) fn put(&mut self, way: u32, line: LineNumber, word: u16) -> (LineNumber, u16) {
        let way = way as usize & (N - 1);
        let old = (self.tags[way], self.words[way]);
        self.tags[way] = line;
        self.words[way] = word;
        old
    }
}

/// A bit for each of eight tags that is the wanted one.
#[inline(always)]
fn same(tags: [LineNumber; 8], wanted: u32x8) -> u32 {
    let equal = u32x8::new(tags).simd_eq(wanted);
    i16x8::from_i32x8_saturate(cast(equal)).to_bitmask()
}

/// All sets of a cache. Nothing is allocated before the first line comes.
#[derive(Debug, PartialEq)]
pub(super) enum TagArray {
    Eight(Vec<TagBlock<8>>),
    Sixteen(Vec<TagBlock<16>>),
    ThirtyTwo(Vec<TagBlock<32>>),
}

/// An expression over the block of a set, whatever its width; a default where there are none yet.
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

/// The same for blocks that are there, to be changed.
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

    /// In the memory of the copy before, if that was as large.
    fn clone_from(&mut self, source: &Self) {
        match (&mut *self, source) {
            (Self::Eight(copy), Self::Eight(blocks)) => copy.clone_from(blocks),
            (Self::Sixteen(copy), Self::Sixteen(blocks)) => copy.clone_from(blocks),
            _ => *self = source.clone(),
        }
    }
}

impl TagArray {
    /// The bytes of all sets.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Eight(blocks) => size_of_val(blocks.as_slice()),
            Self::Sixteen(blocks) => size_of_val(blocks.as_slice()),
            Self::ThirtyTwo(blocks) => size_of_val(blocks.as_slice()),
        }
    }

    /// For sets of `ways` ways, 1 to 32.
    pub(super) fn new(ways: u32) -> Self {
        match ways {
            0..=8 => Self::Eight(Vec::new()),
            9..=16 => Self::Sixteen(Vec::new()),
            _ => Self::ThirtyTwo(Vec::new()),
        }
    }

    /// Whether there is room for lines yet.
    #[inline(always)]
    pub(super) fn is_allocated(&self) -> bool {
        peek!(self, 0, false, _block => true)
    }

    /// Makes room for `sets` sets.
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
