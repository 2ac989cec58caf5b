// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers in the inner loops: a 64-bit congruential generator (Knuth's multiplier).

/// A congruential generator; the field is the generator's state.
#[derive(Debug, Clone, Copy)]
pub(super) struct CongruentialGenerator(pub(super) u64);

impl CongruentialGenerator {
    /// The next number below `count`, from the upper half of the state.
    #[inline]
    pub(super) fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (((self.0 >> 32) * u64::from(count)) >> 32) as u32
    }
}
