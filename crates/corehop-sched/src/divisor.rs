// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated integer division by a constant divisor, by means of the divisor's reciprocal.
//!
//! The innermost loops of analyses divide windows by periods, and hardware division takes most of the time there. The
//! floating-point quotient is wrong by far less than one half. Rounding to the nearest whole number therefore gives
//! the quotient or the quotient plus one, and the remainder decides between the two.

use corehop_plan::workload::task::{LONGEST, Time};

/// A divisor, at least 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Divisor {
    by: Time,
    inverse: f64,
}

/// The largest dividend, so that a double holds every dividend with a bit to spare.
pub(crate) const MOST: Time = Time::new(1 << 51);

// Windows are sums of a few spans.
const _: () = assert!(MOST.ticks() >= 64 * LONGEST.ticks());

impl Divisor {
    pub(crate) fn new(by: Time) -> Self {
        Self { by, inverse: 1.0 / by.as_f64() }
    }

    /// The divisor as a time.
    #[inline]
    pub(crate) fn by(self) -> Time {
        self.by
    }

    /// The rounded reciprocal of the divisor.
    #[inline]
    pub(crate) fn inverse(self) -> f64 {
        self.inverse
    }

    /// Returns quotient and remainder of a dividend below [`MOST`].
    #[inline]
    pub(crate) fn divide(self, x: Time) -> (u64, Time) {
        // 2^52: the bits of a double between it and twice that end in the number that is added.
        const ANCHOR: f64 = 4_503_599_627_370_496.0;
        const BITS: u64 = ANCHOR.to_bits();
        debug_assert!(x < MOST);
        let (x, by) = (x.ticks(), self.by.ticks());
        let exact = f64::from_bits(x | BITS) - ANCHOR;
        let nearest = (exact * self.inverse + ANCHOR).to_bits() - BITS;
        let rest = x.wrapping_sub(nearest.wrapping_mul(by));
        // A remainder below zero, of a quotient rounded up, has its highest bit set.
        let over = rest >> 63;
        (nearest - over, Time::new(rest.wrapping_add(over * by)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_as_the_processor_does() {
        let mut state = 11_u64;
        let mut draw = |bits: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 13) >> (51 - bits)
        };
        for by_bits in 1..=40 {
            for x_bits in 1..=51 {
                for _ in 0..50 {
                    let by = draw(by_bits) + 1;
                    let divisor = Divisor::new(Time::new(by));
                    let x = draw(x_bits);
                    let near = (x / by * by).min(MOST.ticks() - 2);
                    for x in [x, near, near + 1, near.saturating_sub(1), MOST.ticks() - 1, 0] {
                        let expected = (x / by, Time::new(x % by));
                        assert_eq!(divisor.divide(Time::new(x)), expected, "{x} / {by}");
                    }
                }
            }
        }
    }
}
