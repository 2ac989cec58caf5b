// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache usage of tasks: sets of cache blocks, and the time to reload blocks.

use std::fmt;
use std::str::FromStr;

use super::time::{LONGEST, Tick, Time};

/// The largest number of a block.
pub const LAST_BLOCK: u32 = 65_535;

/// A set of cache blocks (sets of a direct-mapped cache), by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheBlockSet(Vec<u64>);

impl CacheBlockSet {
    /// Returns whether the set contains a block.
    pub fn contains(&self, block: u32) -> bool {
        let word = self.0.get(block as usize / 64).copied().unwrap_or(0);
        word >> (block % 64) & 1 == 1
    }
    /// Returns the number of blocks in the set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
    /// Returns the blocks that either set contains.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let length = self.0.len().max(other.0.len());
        let word = |set: &Self, at: usize| set.0.get(at).copied().unwrap_or(0);
        Self((0..length).map(|at| word(self, at) | word(other, at)).collect())
    }
    /// Returns the number of blocks that both sets contain.
    pub fn common(&self, other: &Self) -> u64 {
        self.0.iter().zip(&other.0).map(|(a, b)| u64::from((a & b).count_ones())).sum()
    }
    /// Returns the blocks of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.0.len() as u32 * 64).filter(|&block| self.contains(block))
    }
}

impl FromIterator<u32> for CacheBlockSet {
    fn from_iter<I: IntoIterator<Item = u32>>(blocks: I) -> Self {
        let mut words = Vec::new();
        for block in blocks {
            let at = block as usize / 64;
            if at >= words.len() {
                words.resize(at + 1, 0);
            }
            words[at] |= 1 << (block % 64);
        }
        Self(words)
    }
}

impl fmt::Display for CacheBlockSet {
    /// Writes ranges of blocks, as `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<u32> = self.iter().collect();
        for (at, run) in all.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let (first, last) = (run[0], run[run.len() - 1]);
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for CacheBlockSet {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected blocks from 0 to {LAST_BLOCK}, for instance 0-31,64");
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&it| it <= LAST_BLOCK);
        let mut blocks = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
            if first > last {
                return Err(wrong());
            }
            blocks.extend(first..=last);
        }
        Ok(blocks.into_iter().collect())
    }
}

/// The effect of a task on a cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Useful cache blocks: the blocks that the task may use again after a preemption.
    pub ucb: CacheBlockSet,
    /// Evicting cache blocks: all blocks that the task touches.
    pub ecb: CacheBlockSet,
}

/// The time to reload a number of blocks.
///
/// The time per block is a fraction because a block takes less than the unit of time; a resulting
/// time is rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reload {
    /// The time to reload `blocks` blocks.
    pub time: Time,
    /// The number of blocks that `time` reloads, at least one.
    pub blocks: u64,
}

impl Reload {
    /// Makes a reload time of `each` nanoseconds per block, if the unit of time is the microsecond.
    pub fn nanos(each: u64) -> Self {
        Self { time: Tick::Micro.of_us(each), blocks: 1_000 }
    }

    /// Returns the reload time if the unit of time is `tick`.
    pub(crate) fn in_ticks(self, tick: Tick) -> Self {
        Self { blocks: (self.blocks / tick.per_us()).max(1), ..self }
    }

    /// Returns the time to reload `blocks` blocks, limited to a time that is too long for any
    /// analysis.
    pub fn of(self, blocks: u64) -> Time {
        let time = (u128::from(blocks) * u128::from(self.time)).div_ceil(self.blocks.into());
        Time::new(time.min(2 * u128::from(LONGEST)) as u64)
    }
}

/// The effect of a set's tasks on the cache that the tasks share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUse {
    /// The footprint of each task, in the order of the tasks.
    pub footprints: Vec<Footprint>,
    /// The time that a task needs to reload a block.
    pub reload: Reload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_lengths_are_united_and_cut() {
        let a: CacheBlockSet = [1, 2, 70].into_iter().collect();
        let b: CacheBlockSet = [2, 3].into_iter().collect();
        assert_eq!((a.count(), b.count(), a.common(&b), a.union(&b).count()), (3, 2, 1, 4));
        assert!(a.contains(70) && !b.contains(70));
        assert_eq!(a.iter().collect::<Vec<_>>(), [1, 2, 70]);
    }

    #[test]
    fn blocks_are_read_as_ranges_and_written_so() {
        let blocks: CacheBlockSet = "64, 0-3,2,5".parse().unwrap();
        assert_eq!((blocks.to_string().as_str(), blocks.count()), ("0-3,5,64", 6));
        assert_eq!(blocks.to_string().parse::<CacheBlockSet>(), Ok(blocks));
        assert_eq!("".parse::<CacheBlockSet>().unwrap().to_string(), "");
        for text in ["x", "3-1", "-1", "65536", "0-4294967295"] {
            assert!(text.parse::<CacheBlockSet>().unwrap_err().contains("0-31"), "{text}");
        }
    }

    #[test]
    fn reloads_are_rounded_up_together_and_do_not_overflow() {
        let reload = Reload::nanos(150);
        assert_eq!(
            [0, 1, 6, 7, 20].map(|blocks| reload.of(blocks)),
            [0, 1, 1, 2, 3].map(Time::new)
        );
        assert_eq!(Reload::nanos(u64::MAX).of(u64::MAX), 2 * LONGEST);
    }
}
