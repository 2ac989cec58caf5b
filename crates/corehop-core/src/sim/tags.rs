// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which line is in which way of a set: the array that every access searches.
//!
//! A set is 8, 16 or 32 lanes of 32 bits, aligned to its size, so that it lies in one or two lines
//! of the host and is compared in a few vector instructions. These are written as plain sums over
//! the lanes, which the compiler turns into four-lane compares on any x86-64 (and on other CPUs
//! with vectors); no lane is looked at with a branch.

/// A line of memory: its address over the size of a line. 2³² lines of 64 bytes are 256 GiB.
pub type Line = u32;

/// No line: what empty lanes hold.
pub const NO_LINE: Line = Line::MAX;

/// What a found way is marked with; its number is in the low five bits. Two bits, or the compiler
/// would see a shift in the first lane and not vectorise.
const FOUND: u32 = 0x300;

#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Eight([Line; 8]);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Sixteen([Line; 16]);

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct ThirtyTwo([Line; 32]);

/// The lanes of all sets of a cache. Nothing is allocated before the first line comes.
#[derive(Debug, Clone)]
enum Lanes {
    Eight(Vec<Eight>),
    Sixteen(Vec<Sixteen>),
    ThirtyTwo(Vec<ThirtyTwo>),
}

/// The tags of a cache.
#[derive(Debug, Clone)]
pub(super) struct Tags {
    sets: usize,
    lanes: Lanes,
}

/// `FOUND | way` for the lane that holds `line`, or 0. At most one lane does.
#[inline(always)]
fn search<const N: usize>(lanes: &[Line; N], line: Line) -> u32 {
    let mut sum = 0_u32;
    for (way, &held) in lanes.iter().enumerate() {
        // Additions, and not `|`, which the compiler would turn into a chain of selections.
        sum = sum.wrapping_add(if held == line { FOUND + way as u32 } else { 0 });
    }
    sum
}

impl Tags {
    /// Empty tags of `sets` sets of `ways` ways, 1 to 32.
    pub(super) fn new(sets: u32, ways: u32) -> Self {
        let lanes = match ways {
            0..=8 => Lanes::Eight(Vec::new()),
            9..=16 => Lanes::Sixteen(Vec::new()),
            _ => Lanes::ThirtyTwo(Vec::new()),
        };
        Self { sets: sets as usize, lanes }
    }

    /// The way of `set` that holds `line`.
    #[inline(always)]
    pub(super) fn find(&self, set: u32, line: Line) -> Option<u32> {
        let set = set as usize;
        let found = match &self.lanes {
            Lanes::Eight(sets) => sets.get(set).map_or(0, |lanes| search(&lanes.0, line)),
            Lanes::Sixteen(sets) => sets.get(set).map_or(0, |lanes| search(&lanes.0, line)),
            Lanes::ThirtyTwo(sets) => sets.get(set).map_or(0, |lanes| search(&lanes.0, line)),
        };
        if found == 0 { None } else { Some(found & 31) }
    }

    /// The line in a way.
    #[inline(always)]
    pub(super) fn get(&self, set: u32, way: u32) -> Line {
        let (set, way) = (set as usize, way as usize);
        match &self.lanes {
            Lanes::Eight(sets) => sets[set].0[way & 7],
            Lanes::Sixteen(sets) => sets[set].0[way & 15],
            Lanes::ThirtyTwo(sets) => sets[set].0[way & 31],
        }
    }

    /// Puts `line` into a way.
    #[inline(always)]
    pub(super) fn put(&mut self, set: u32, way: u32, line: Line) {
        let (set, way) = (set as usize, way as usize);
        match &mut self.lanes {
            Lanes::Eight(sets) => sets[set].0[way & 7] = line,
            Lanes::Sixteen(sets) => sets[set].0[way & 15] = line,
            Lanes::ThirtyTwo(sets) => sets[set].0[way & 31] = line,
        }
    }

    /// Whether there is room for lines at all yet.
    #[inline(always)]
    pub(super) fn is_allocated(&self) -> bool {
        match &self.lanes {
            Lanes::Eight(sets) => !sets.is_empty(),
            Lanes::Sixteen(sets) => !sets.is_empty(),
            Lanes::ThirtyTwo(sets) => !sets.is_empty(),
        }
    }

    /// Makes room.
    #[cold]
    pub(super) fn allocate(&mut self) {
        match &mut self.lanes {
            Lanes::Eight(sets) => sets.resize(self.sets, Eight([NO_LINE; 8])),
            Lanes::Sixteen(sets) => sets.resize(self.sets, Sixteen([NO_LINE; 16])),
            Lanes::ThirtyTwo(sets) => sets.resize(self.sets, ThirtyTwo([NO_LINE; 32])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_the_way_it_was_put_into_and_nowhere_else() {
        for ways in [1, 2, 7, 8, 9, 12, 16, 20, 32] {
            let mut tags = Tags::new(3, ways);
            assert_eq!(tags.find(1, 5), None);
            tags.allocate();
            for way in 0..ways {
                tags.put(1, way, 100 + way);
            }
            for way in 0..ways {
                assert_eq!(tags.find(1, 100 + way), Some(way));
                assert_eq!(tags.get(1, way), 100 + way);
                assert_eq!(tags.find(0, 100 + way), None);
                assert_eq!(tags.find(2, 100 + way), None);
            }
            assert_eq!(tags.find(1, 99), None);
        }
    }
}
