// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest delay up to which one scheduler is preferable to another.

use corehop_plan::workload::task::Time;
use serde::Serialize;

use super::tally::SetMoments;
use super::{Crossover, StudyCounts};

/// The result of one comparison: the delay at which a scheduler stops being preferable to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayCrossing {
    /// The scheduler whose delay grows.
    pub of: String,
    /// The scheduler with the fixed delay.
    pub against: String,
    /// The fixed delay of the scheduler `against`, in microseconds.
    pub at_us: Time,
    /// The delays at which the scheduler `of` is preferable.
    #[serde(flatten)]
    pub preferable: Preferable,
}

/// The delays up to which the scheduler `of` is preferable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "preferable")]
pub enum Preferable {
    /// The scheduler is preferable below this delay.
    Below {
        /// The delay in microseconds.
        crossover_us: f64,
        /// The 95 % interval of the crossover: the delays at which chance may explain the difference between both
        /// schedulers. If the interval may extend beyond the study's largest delay, the upper end is that largest
        /// delay.
        interval_us: [f64; 2],
    },
    /// The scheduler is preferable at every delay of the study.
    Throughout,
    /// The scheduler is not preferable even without delay.
    Never,
}

impl StudyCounts {
    /// Returns the delays at which schedulers stop being preferable, in the order of the reading's crossovers.
    ///
    /// Both schedulers are tested on identical sets. So the estimate uses the difference of weights per set, instead
    /// of two means with separate scatter. Between two steps the difference is interpolated linearly.
    pub fn crossings(&self, reading: usize) -> Vec<DelayCrossing> {
        let (Some(about), Some(counts)) =
            (self.study.readings.get(reading), self.readings.get(reading))
        else {
            return Vec::new();
        };
        let mut rest = counts.differences.as_slice();
        let mut found = Vec::new();
        for crossover in &about.crossovers {
            let steps = about.steps(crossover).len().min(rest.len());
            let (own, others) = rest.split_at(steps);
            rest = others;
            if let Some(preferable) = crossing(own, crossover, about.caps.whole()) {
                found.push(DelayCrossing {
                    of: crossover.of.clone(),
                    against: crossover.against.clone(),
                    at_us: crossover.at_us,
                    preferable,
                });
            }
        }
        found
    }
}

fn crossing(differences: &[SetMoments], about: &Crossover, most: u64) -> Option<Preferable> {
    let means: Vec<f64> = differences.iter().map(|tally| tally.mean()).collect::<Option<_>>()?;
    let errors: Vec<f64> =
        differences.iter().map(|tally| tally.errors_above_zero(most)).collect::<Option<_>>()?;
    let step = about.step_us.as_f64();
    let last = (differences.len() - 1) as f64 * step;
    if means[0] <= 0.0 {
        return Some(Preferable::Never);
    }
    let Some(crossover) = falls_below(&means, 0.0) else { return Some(Preferable::Throughout) };
    let low = falls_below(&errors, SetMoments::REACH).unwrap_or(0.0);
    let high = falls_below(&errors, -SetMoments::REACH).map_or(last, |high| high * step);
    let crossover_us = crossover * step;
    // The one added pair of each kind can shift an end by a hair.
    let interval_us = [(low * step).min(crossover_us), high.max(crossover_us)];
    Some(Preferable::Below { crossover_us, interval_us })
}

/// The first position, in steps, at which `values` are no longer above `level`.
fn falls_below(values: &[f64], level: f64) -> Option<f64> {
    let at = values.iter().position(|&value| value <= level)?;
    let Some(before) = at.checked_sub(1) else { return Some(0.0) };
    let (a, b) = (values[before] - level, values[at] - level);
    Some(before as f64 + a / (a - b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::draw::DrawStream;

    fn about() -> Crossover {
        Crossover { of: "g".into(), against: "p".into(), at_us: Time::ZERO, step_us: Time::new(10) }
    }

    fn tallies(means: &[i64]) -> Vec<SetMoments> {
        // So many sets, half a unit above and half below the mean.
        let of = |&mean: &i64| {
            let mut tally = SetMoments::default();
            (0..5_000).for_each(|_| [mean - 1, mean + 1].into_iter().for_each(|v| tally.add(v)));
            tally
        };
        means.iter().map(of).collect()
    }

    #[test]
    fn a_crossover_lies_where_the_straight_line_has_its_zero() {
        let found = crossing(&tallies(&[6, 4, 1, -3]), &about(), 10).unwrap();
        let Preferable::Below { crossover_us, interval_us: [low, high] } = found else { panic!() };
        // From 1 at 20 us to -3 at 30 us.
        assert!((crossover_us - 22.5).abs() < 1e-9);
        assert!((22.0..22.5).contains(&low) && (22.5..23.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn without_a_crossover_it_says_who_is_preferable() {
        assert_eq!(crossing(&tallies(&[6, 4]), &about(), 10), Some(Preferable::Throughout));
        assert_eq!(crossing(&tallies(&[-1, -4]), &about(), 10), Some(Preferable::Never));
        assert_eq!(crossing(&[SetMoments::default()], &about(), 10), None);
    }

    #[test]
    fn intervals_of_crossovers_cover_in_94_of_100_cases_at_least() {
        // A set bears the first scheduler's delays up to a threshold, uniform below 20 steps; the other
        // one carries a share p of the sets, whatever the delay. What is expected of the difference
        // at step k, 1 - k/20 - p, is a straight line with its zero at 20 (1 - p).
        const STEPS: u64 = 20;
        for (seed, (sets, p)) in [(60, 0.5), (200, 0.33), (200, 0.87)].into_iter().enumerate() {
            let truth = 10.0 * STEPS as f64 * (1.0 - p);
            let covers = |index: u64| {
                let mut stream = DrawStream::of_set(300 + seed as u64, index);
                let mut tallies = vec![SetMoments::default(); STEPS as usize + 1];
                for _ in 0..sets {
                    let (threshold, other) = (stream.below(STEPS), i64::from(stream.unit() < p));
                    for (step, tally) in (0..).zip(&mut tallies) {
                        tally.add(i64::from(step <= threshold) - other);
                    }
                }
                match crossing(&tallies, &about(), 1) {
                    Some(Preferable::Below { interval_us: [low, high], .. }) => {
                        low <= truth && truth <= high
                    }
                    _ => false,
                }
            };
            let covered = (0..10_000).filter(|&index| covers(index)).count() as f64 / 10_000.0;
            assert!(covered >= 0.94, "{sets} {p}: {covered}");
        }
    }
}
