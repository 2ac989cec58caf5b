// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a working set that an absence removes from the caches although none of the owner's threads ran, because
//! other guests of the host, firmware or the kernel did.
//!
//! The loss is measured, not modelled: the platform states the quantiles of the lost share over many absences for each
//! length and size. Between and beyond the measured lengths, the hazard `-ln(1 - share)` of a quantile follows a power
//! of the length; between sizes, the hazard is linear in the logarithm of the size.

use serde::{Deserialize, Serialize};

use super::{Fact, Platform};
use crate::units::{Bytes, Nanos};

/// The share of a working set that was lost after absences of one length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// The length of the absence during which the job lost lines.
    pub length: Nanos,
    /// The working-set size of the job that lost lines.
    pub wss: Bytes,
    /// Quantiles of the lost share, in thousandths, ascending and equally spaced: with two quantiles, a quarter and
    /// three quarters of the absences lose less.
    pub share: Fact<Vec<u32>>,
}

/// The smallest and the largest share from which a hazard is computed: a ten-thousandth, and all but a thousandth.
const SHARES: [f64; 2] = [1e-4, 0.999];
/// The smallest and the largest power of the length with which a hazard grows; a power outside this range would be
/// noise of two measured lengths.
const POWERS: [f64; 2] = [0.5, 3.0];

impl Loss {
    /// Returns the hazard at the quantile `at`, from 0 to 1.
    fn hazard(&self, at: f64) -> f64 {
        let all = &self.share.value;
        let place = (at * all.len() as f64 - 0.5).clamp(0.0, all.len() as f64 - 1.0);
        let (low, part) = (place.floor(), place.fract());
        let of = |place: f64| f64::from(all[(place as usize).min(all.len() - 1)]) / 1e3;
        let share = of(low) + part * (of(low + 1.0) - of(low));
        -(-share.clamp(SHARES[0], SHARES[1])).ln_1p()
    }
}

impl Platform {
    /// Returns the share of a working set that an absence of `length` removes from the caches, at the quantile `at` (0
    /// to 1) of absences of this length. The share is 0 if the platform states no loss.
    pub fn lost_share(&self, wss: Bytes, length: Nanos, at: f64) -> f64 {
        if self.losses.is_empty() || length == Nanos::new(0) {
            return 0.0;
        }
        let mut sizes: Vec<Bytes> = self.losses.iter().map(|loss| loss.wss).collect();
        sizes.sort_unstable();
        let wss = wss.clamp(sizes[0], sizes[sizes.len() - 1]);
        let below = sizes.iter().rev().find(|&&size| size <= wss).copied().unwrap_or(wss);
        let above = sizes.iter().find(|&&size| size >= wss).copied().unwrap_or(wss);
        let [low, high] = [below, above].map(|size| self.hazard_of(size, length, at));
        let hazard = if below == above {
            low
        } else {
            low + (high - low) * between(below.get(), wss.get(), above.get())
        };
        let share = -(-hazard).exp_m1();
        // A loss that is too small to be told was measured as none.
        if share <= 2.0 * SHARES[0] { 0.0 } else { share }
    }

    /// Returns the hazard for a size for which losses are stated.
    fn hazard_of(&self, wss: Bytes, length: Nanos, at: f64) -> f64 {
        let mut of_size: Vec<(Nanos, f64)> = self
            .losses
            .iter()
            .filter(|loss| loss.wss == wss)
            .map(|it| (it.length, it.hazard(at)))
            .collect();
        of_size.sort_unstable_by_key(|&(length, _)| length);
        let next = of_size
            .iter()
            .position(|&(other, _)| other >= length)
            .unwrap_or(of_size.len() - 1)
            .max(1);
        match of_size[..] {
            [] => 0.0,
            [(one, hazard)] => hazard * length.get() as f64 / one.get() as f64,
            _ => {
                let [(short, low), (long, high)] = [of_size[next - 1], of_size[next]];
                let power = (high / low).ln() / (long.get() as f64 / short.get() as f64).ln();
                let (from, hazard) = if length >= long { (long, high) } else { (short, low) };
                let within = length > short && length < long;
                let power = if within { power } else { power.clamp(POWERS[0], POWERS[1]) };
                hazard * (length.get() as f64 / from.get() as f64).powf(power)
            }
        }
    }
}

/// Returns the position of `x` between `low` and `high` on a logarithmic scale: 0 at `low`, 1 at `high`.
fn between(low: u64, x: u64, high: u64) -> f64 {
    (x as f64 / low as f64).ln() / (high as f64 / low as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(millis: u64, kib: u64, share: &[u32]) -> Loss {
        let share = Fact::measured(share.to_vec(), "");
        Loss { length: Nanos::from_millis(millis), wss: Bytes::from_kib(kib), share }
    }

    fn platform(losses: Vec<Loss>) -> Platform {
        Platform { losses, ..Platform::named("xeon_x5650").unwrap().unwrap() }
    }

    fn share(of: &Platform, kib: u64, micros: u64, at: f64) -> f64 {
        of.lost_share(Bytes::from_kib(kib), Nanos::from_micros(micros), at)
    }

    #[test]
    fn measured_lengths_and_sizes_have_what_was_measured() {
        let of = platform(vec![
            loss(2, 64, &[100, 500]),
            loss(8, 64, &[400, 900]),
            loss(2, 1024, &[50]),
            loss(8, 1024, &[200]),
        ]);
        for (kib, micros, at, expected) in [
            (64, 2_000, 0.25, 0.1),
            (64, 2_000, 0.75, 0.5),
            (64, 8_000, 0.75, 0.9),
            (1024, 8_000, 0.9, 0.2),
        ] {
            assert!((share(&of, kib, micros, at) - expected).abs() < 1e-9, "{kib} {micros} {at}");
        }
        // Half-way between the quantiles, and between the sizes.
        assert!((share(&of, 64, 2_000, 0.5) - 0.3).abs() < 1e-9);
        let middle = 1.0 - (0.95_f64 * 0.7).sqrt();
        assert!((share(&of, 256, 2_000, 0.5) - middle).abs() < 1e-9);
    }

    #[test]
    fn a_longer_absence_never_keeps_more() {
        let of = platform(vec![loss(2, 64, &[100, 200, 900]), loss(8, 64, &[90, 700, 950])]);
        for at in [0.0, 0.2, 0.5, 0.8, 1.0] {
            let all: Vec<f64> = [1, 100, 1_000, 2_000, 8_000, 20_000, 1_000_000]
                .map(|us| share(&of, 64, us, at))
                .to_vec();
            // The least quantile was measured the other way round, within the noise.
            let sorted = all.windows(2).all(|it| it[0] <= it[1] + 0.02);
            assert!(sorted && all.iter().all(|it| (0.0..=1.0).contains(it)), "{at}: {all:?}");
        }
    }

    #[test]
    fn of_one_length_hazards_go_with_time_and_where_nothing_is_stated_nothing_is_lost() {
        let of = platform(vec![loss(4, 64, &[190])]);
        assert!((share(&of, 4, 8_000, 0.5) - (1.0 - 0.81 * 0.81)).abs() < 1e-9);
        assert!(share(&of, 4, 0, 0.5) < 1e-12);
        assert!(share(&platform(Vec::new()), 64, 8_000, 0.5) < 1e-12);
        assert!(share(&platform(vec![loss(4, 64, &[0])]), 64, 4_000, 0.5) < 1e-12);
    }
}
