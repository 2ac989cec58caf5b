// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random draws that depend only on the seed.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::units::Nanos;

/// A stream of random draws from one seed. A seed gives equal draws on every machine.
#[derive(Debug, Clone)]
pub struct DrawStream(Pcg64Mcg);

impl DrawStream {
    /// Returns the stream number `stream` of `seed`; streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        // Sebastiano Vigna's SplitMix64 increment keeps neighbouring seeds and streams apart.
        Self(Pcg64Mcg::seed_from_u64(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Returns the stream of the set with this index: neighbouring indices, and seeds that differ by an
    /// index, have unrelated streams.
    pub fn of_set(seed: u64, index: u64) -> Self {
        let high = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
        let low = mix(high ^ mix(index));
        let mut state = [0; 16];
        state[..8].copy_from_slice(&low.to_le_bytes());
        state[8..].copy_from_slice(&mix(high.wrapping_add(low)).to_le_bytes());
        Self(Pcg64Mcg::from_seed(state))
    }

    /// Draws a number uniformly from [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Draws a number uniformly from [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a whole number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    /// Draws any 64-bit whole number.
    pub fn bits(&mut self) -> u64 {
        self.0.random()
    }

    /// Draws one of `items`, which must not be empty.
    pub fn from<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Draws a time from `low` to `high`, both included.
    pub fn time(&mut self, low: Nanos, high: Nanos) -> Nanos {
        Nanos::new(low.get() + self.below(high.get() - low.get() + 1))
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Returns a random cyclic permutation of `0..n`, in which `next[i]` follows `i` and all elements form
    /// one cycle (Sattolo 1986).
    pub fn cycle(&mut self, n: usize) -> Vec<u32> {
        let mut next: Vec<u32> = (0..n as u32).collect();
        for last in (1..n).rev() {
            next.swap(last, self.below(last as u64) as usize);
        }
        next
    }
}

/// Returns the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_every_element_once_and_returns() {
        for n in [1, 2, 3, 64, 1000] {
            let next = DrawStream::new(7, 0).cycle(n);
            let mut at = 0;
            let steps = (1..=n).find(|_| {
                at = next[at] as usize;
                at == 0
            });
            assert_eq!(steps, Some(n));
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_stream_does_not() {
        let draw = |seed, stream| {
            let mut draw = DrawStream::new(seed, stream);
            (0..8).map(|_| draw.below(1 << 40)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
