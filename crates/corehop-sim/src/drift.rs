// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service times that change slowly and by chance.
//!
//! A state holds for a time of its own and is then drawn again, whatever was before. The factor is a power of one
//! ratio, its exponent a number of heads among [`COINS`] coins: nearly the log-normal law, with a mean of one, and from
//! arithmetic that every CPU does alike.

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Drift;

use super::times::Picos;

/// The coins whose heads decide a factor.
const COINS: u32 = 16;

/// The service times of one server, and when the present one ends.
#[derive(Debug, Clone)]
pub(super) struct Drifting {
    /// By the number of heads.
    services: [Picos; COINS as usize + 1],
    /// The mean time for which one holds.
    hold: Picos,
    draw: DrawStream,
}

impl Drifting {
    /// Service times around `mean`.
    pub(super) fn new(drift: &Drift, mean: Picos) -> Self {
        let hold = drift.hold.value.get() * 1_000;
        let factors = factors(f64::from(drift.spread.value) / 1e3);
        let services = factors.map(|factor| (mean as f64 * factor).round() as Picos);
        Self { services, hold: hold.max(1), draw: DrawStream::new(0, 0) }
    }

    /// From here on other chances.
    pub(super) fn redraw(&mut self, seed: u64, stream: u64) {
        self.draw = DrawStream::new(seed, stream);
    }

    /// The next service time, and how long it holds: from nothing to twice the mean.
    pub(super) fn next(&mut self) -> (Picos, Picos) {
        let heads = (self.draw.bits() >> (64 - COINS)).count_ones();
        (self.services[heads as usize], 1 + self.draw.below(2 * self.hold))
    }
}

/// The factors by the number of heads, of mean one and this standard deviation.
///
/// With `s²` the ratio of neighbours, `a = (s + 1/s) / 2` and n coins the mean of `s^(2k - n)` is `aⁿ` and that of its
/// square `(2a² - 1)ⁿ`; so `1 + spread² = (2 - 1/a²)ⁿ`.
fn factors(spread: f64) -> [f64; COINS as usize + 1] {
    // The sixteenth root: four square roots, as exact on every CPU.
    let root = (0..COINS.ilog2()).fold(1.0 + spread * spread, |value: f64, _| value.sqrt());
    let square = 1.0 / (2.0 - root);
    let ratio = square.sqrt() + (square - 1.0).max(0.0).sqrt();
    let mean = (0..COINS / 2).fold(1.0, |product, _| product * square);
    let lowest = (0..COINS).fold(1.0 / mean, |factor, _| factor / ratio);
    let mut next = lowest;
    std::array::from_fn(|_| {
        let factor = next;
        next *= ratio * ratio;
        factor
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::Fact;
    use corehop_plan::units::Nanos;

    #[test]
    fn factors_have_the_mean_one_and_the_spread_that_is_asked_for() {
        for spread in [0.0, 0.1, 0.45, 1.0, 2.0] {
            let factors = factors(spread);
            let mut weight = 1.0_f64;
            let (mut mean, mut squares) = (0.0, 0.0);
            for (heads, factor) in factors.iter().enumerate() {
                mean += weight * factor;
                squares += weight * factor * factor;
                weight *= (16 - heads) as f64 / (heads + 1) as f64;
            }
            let (mean, squares) = (mean / 65_536.0, squares / 65_536.0);
            assert!((mean - 1.0).abs() < 1e-9, "{spread}: {mean}");
            let deviation = (squares - mean * mean).max(0.0).sqrt();
            assert!((deviation - spread).abs() < 1e-6, "{spread}: {deviation}");
        }
    }

    #[test]
    fn states_hold_as_long_as_stated_on_average_and_differ_from_draw_to_draw() {
        let drift =
            Drift { spread: Fact::assumed(450, ""), hold: Fact::assumed(Nanos::new(1), "") };
        let mut drifting = Drifting::new(&drift, 3_000);
        let all: Vec<(Picos, Picos)> = (0..4_000).map(|_| drifting.next()).collect();
        let mean = |values: Vec<Picos>| values.iter().sum::<Picos>() / values.len() as Picos;
        let service = mean(all.iter().map(|it| it.0).collect());
        let hold = mean(all.iter().map(|it| it.1).collect());
        assert!(service.abs_diff(3_000) < 100 && hold.abs_diff(1_000) < 50, "{service} {hold}");
        let mut other = Drifting::new(&drift, 3_000);
        other.redraw(1, 7);
        assert_ne!((0..8).map(|_| other.next()).collect::<Vec<_>>(), all[..8]);
    }
}
