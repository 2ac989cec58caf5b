// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of cache blocks.

/// A set of cache blocks (sets of a direct-mapped cache), by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blocks(Vec<u64>);

impl Blocks {
    /// Whether a block is in it.
    pub fn contains(&self, block: u32) -> bool {
        let word = self.0.get(block as usize / 64).copied().unwrap_or(0);
        word >> (block % 64) & 1 == 1
    }
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
    /// Those that are in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let length = self.0.len().max(other.0.len());
        let word = |set: &Self, at: usize| set.0.get(at).copied().unwrap_or(0);
        Self((0..length).map(|at| word(self, at) | word(other, at)).collect())
    }
    /// How many are in both.
    pub fn common(&self, other: &Self) -> u64 {
        self.0.iter().zip(&other.0).map(|(a, b)| u64::from((a & b).count_ones())).sum()
    }
    /// The blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.0.len() as u32 * 64).filter(|&block| self.contains(block))
    }
}

impl FromIterator<u32> for Blocks {
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

/// What a task does to a cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    /// Useful cache blocks: those it may use again after a preemption.
    pub ucb: Blocks,
    /// Evicting cache blocks: all that it touches.
    pub ecb: Blocks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_lengths_are_united_and_cut() {
        let a: Blocks = [1, 2, 70].into_iter().collect();
        let b: Blocks = [2, 3].into_iter().collect();
        assert_eq!((a.count(), b.count(), a.common(&b), a.union(&b).count()), (3, 2, 1, 4));
        assert!(a.contains(70) && !b.contains(70));
        assert_eq!(a.iter().collect::<Vec<_>>(), [1, 2, 70]);
    }
}
