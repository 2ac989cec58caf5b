// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service times that change slowly and at random.
//!
//! Each service time is valid for a random period, after which a new service time is drawn independently. A service
//! time is a sum of stages with nearly exponential distributions (Erlang's law), computed by arithmetic that gives
//! equal results on every CPU.

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Drift;

use super::times::Picos;

/// The random sequence of one server's service times, with their periods.
#[derive(Debug, Clone)]
pub(super) struct Drifting {
    mean: Picos,
    /// The number of stages that add up to a service time.
    stages: u32,
    /// The mean period for which a service time is valid.
    hold: Picos,
    draw: DrawStream,
}

impl Drifting {
    /// Creates the sequence of service times with mean `mean`.
    pub(super) fn new(drift: &Drift, mean: Picos) -> Self {
        let hold = (drift.hold.value.get() * 1_000).max(1);
        Self { mean, stages: drift.stages.value.max(1), hold, draw: DrawStream::new(0, 0) }
    }

    /// Continues with the random stream `stream`.
    pub(super) fn redraw(&mut self, seed: u64, stream: u64) {
        self.draw = DrawStream::new(seed, stream);
    }

    /// Draws the next service time and its period; the period is between 0 and twice its mean.
    pub(super) fn next(&mut self) -> (Picos, Picos) {
        let sum: f64 = (0..self.stages).map(|_| exponential(self.draw.bits())).sum();
        let service = self.mean as f64 * sum / f64::from(self.stages);
        (service.round() as Picos, 1 + self.draw.below(2 * self.hold))
    }
}

/// A number with mean 1 and nearly exponential distribution, from 64 random bits.
///
/// The binary logarithm of a uniform number `u = 2^-(z + 1) (1 + f)` equals `f - z - 1` to within 0.09, by a
/// straight line between powers of two; the mean of this approximation is -1.5. The standard deviation of the
/// result is 0.96.
fn exponential(bits: u64) -> f64 {
    let zeros = bits.leading_zeros();
    let fraction = (bits.checked_shl(zeros + 1).unwrap_or(0) >> 12) as f64 / (1_u64 << 52) as f64;
    (f64::from(zeros + 1) - fraction) / 1.5
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::Fact;
    use corehop_plan::units::Nanos;

    fn drifting(stages: u32) -> Drifting {
        let (stages, hold) = (Fact::assumed(stages, ""), Fact::assumed(Nanos::new(1), ""));
        Drifting::new(&Drift { stages, hold }, 3_000_000)
    }

    #[test]
    fn service_times_have_the_mean_and_the_spread_of_a_sum_of_stages() {
        for stages in [1, 2, 4, 16] {
            let mut drifting = drifting(stages);
            let draw = |_| drifting.next().0 as f64 / 3e6;
            let factors: Vec<f64> = (0..40_000).map(draw).collect();
            let mean = factors.iter().sum::<f64>() / factors.len() as f64;
            let squares = factors.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            let spread = (squares / factors.len() as f64).sqrt();
            let expected = 0.96 / f64::from(stages).sqrt();
            assert!((mean - 1.0).abs() < 0.02, "{stages}: {mean}");
            assert!((spread / expected - 1.0).abs() < 0.03, "{stages}: {spread} for {expected}");
        }
    }

    #[test]
    fn one_stage_is_as_often_above_a_value_as_the_exponential_law_says() {
        let mut drifting = drifting(1);
        let factors: Vec<f64> = (0..40_000).map(|_| drifting.next().0 as f64 / 3e6).collect();
        for value in [0.2_f64, 0.5, 1.0, 2.0, 4.0] {
            let above = factors.iter().filter(|&&it| it > value).count() as f64 / 40_000.0;
            assert!((above / (-value).exp() - 1.0).abs() < 0.2, "{value}: {above}");
        }
    }

    #[test]
    fn states_hold_as_long_as_stated_on_average_and_differ_from_draw_to_draw() {
        let mut drifting = drifting(4);
        let all: Vec<(Picos, Picos)> = (0..4_000).map(|_| drifting.next()).collect();
        let hold = all.iter().map(|it| it.1).sum::<Picos>() / all.len() as Picos;
        assert!(hold.abs_diff(1_000) < 50, "{hold}");
        drifting.redraw(1, 7);
        assert_ne!((0..8).map(|_| drifting.next()).collect::<Vec<_>>(), all[..8]);
    }
}
