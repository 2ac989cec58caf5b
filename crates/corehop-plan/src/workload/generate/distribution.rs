// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributions of utilisations, periods and deadlines.

use crate::workload::draw::DrawStream;
use crate::workload::task::{Tick, Time};

/// The distribution of a task's utilisation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Utilisation {
    /// Utilisations are uniform on an interval.
    Uniform(f64, f64),
    /// Utilisations are uniform on [0.001, 0.5) or, with this probability, on [0.5, 0.9].
    Bimodal(f64),
    /// Utilisations are exponential with this mean; values above 1 are drawn again.
    Exponential(f64),
}

impl Utilisation {
    /// The uniform distribution on [0.001, 0.1]. Brandenburg (2011) uses this distribution and all other distributions
    /// with names in this module.
    pub const UNI_LIGHT: Self = Self::Uniform(0.001, 0.1);
    /// The uniform distribution on [0.1, 0.4].
    pub const UNI_MEDIUM: Self = Self::Uniform(0.1, 0.4);
    /// The uniform distribution on [0.5, 0.9].
    pub const UNI_HEAVY: Self = Self::Uniform(0.5, 0.9);
    /// The bimodal distribution with heavy tasks of probability 1/9.
    pub const BIMO_LIGHT: Self = Self::Bimodal(1.0 / 9.0);
    /// The bimodal distribution with heavy tasks of probability 3/9.
    pub const BIMO_MEDIUM: Self = Self::Bimodal(3.0 / 9.0);
    /// The bimodal distribution with heavy tasks of probability 5/9.
    pub const BIMO_HEAVY: Self = Self::Bimodal(5.0 / 9.0);
    /// The exponential distribution with mean 0.1.
    pub const EXP_LIGHT: Self = Self::Exponential(0.1);
    /// The exponential distribution with mean 0.25.
    pub const EXP_MEDIUM: Self = Self::Exponential(0.25);
    /// The exponential distribution with mean 0.5.
    pub const EXP_HEAVY: Self = Self::Exponential(0.5);

    /// The distributions that have a name, with their names.
    pub const NAMED: &'static [(&'static str, Self)] = &[
        ("uni-light", Self::UNI_LIGHT),
        ("uni-medium", Self::UNI_MEDIUM),
        ("uni-heavy", Self::UNI_HEAVY),
        ("bimo-light", Self::BIMO_LIGHT),
        ("bimo-medium", Self::BIMO_MEDIUM),
        ("bimo-heavy", Self::BIMO_HEAVY),
        ("exp-light", Self::EXP_LIGHT),
        ("exp-medium", Self::EXP_MEDIUM),
        ("exp-heavy", Self::EXP_HEAVY),
    ];

    /// Returns the distribution of utilisations with the name `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|&&(other, _)| other == name).map(|&(_, law)| law)
    }

    pub(crate) fn draw(self, stream: &mut DrawStream) -> f64 {
        match self {
            Self::Uniform(low, high) => stream.between(low, high),
            Self::Bimodal(heavy) if stream.unit() < heavy => stream.between(0.5, 0.9),
            Self::Bimodal(_) => stream.between(0.001, 0.5),
            Self::Exponential(mean) => loop {
                let drawn = -mean * (1.0 - stream.unit()).ln();
                if drawn <= 1.0 {
                    return drawn;
                }
            },
        }
    }
}

/// The distribution of a task's period, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Period {
    /// Periods are uniform on the multiples of `granularity` from `low` to `high`.
    Uniform {
        /// The shortest period that can be drawn.
        low: Time,
        /// The longest period that can be drawn.
        high: Time,
        /// The step between periods: 1,000 for whole milliseconds, 1 for almost continuous periods.
        granularity: Time,
    },
    /// The logarithm of periods is uniform, and periods are rounded down to multiples of `granularity`
    /// (Emberson, Stafford and Davis, WATERS 2010).
    LogUniform {
        /// The shortest period that can be drawn.
        low: Time,
        /// The longest period that can be drawn.
        high: Time,
        /// The step to which drawn periods are rounded.
        granularity: Time,
    },
    /// Periods are 1, 2, 5, 10, 20, 50, 100, 200 or 1,000 ms with the shares of Kramer, Ziegenbein and Hamann
    /// (WATERS 2015), without the 15 % of tasks whose period follows the crankshaft's angle.
    Automotive,
}

/// Periods in ms and their shares in percent.
const AUTOMOTIVE: [(u64, u64); 9] =
    [(1, 3), (2, 2), (5, 2), (10, 25), (20, 25), (50, 3), (100, 20), (200, 1), (1_000, 4)];

const fn of_ms(ms: u64) -> Time {
    Tick::Micro.of_us(ms * 1_000)
}

impl Period {
    /// The uniform distribution on whole milliseconds from 3 to 33.
    pub const SHORT: Self = Self::whole_ms(3, 33);
    /// The uniform distribution on whole milliseconds from 10 to 100.
    pub const MODERATE: Self = Self::whole_ms(10, 100);
    /// The uniform distribution on whole milliseconds from 50 to 250.
    pub const LONG: Self = Self::whole_ms(50, 250);

    const fn whole_ms(low: u64, high: u64) -> Self {
        Self::Uniform { low: of_ms(low), high: of_ms(high), granularity: of_ms(1) }
    }

    /// The distributions that have a name, with their names.
    pub const NAMED: &'static [(&'static str, Self)] = &[
        ("short", Self::SHORT),
        ("moderate", Self::MODERATE),
        ("long", Self::LONG),
        ("automotive", Self::Automotive),
    ];

    /// Returns the distribution of periods with the name `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|&&(other, _)| other == name).map(|&(_, law)| law)
    }

    pub(crate) fn draw(self, stream: &mut DrawStream) -> Time {
        match self {
            Self::Uniform { low, high, granularity } => {
                low + granularity * stream.below((high - low) / granularity + 1)
            }
            Self::LogUniform { low, high, granularity } => {
                // Up to one step beyond the longest, so that cutting leaves all steps their share.
                let (from, to) = (low.as_f64().ln(), (high + granularity).as_f64().ln());
                let drawn = Time::new(stream.between(from, to).exp() as u64);
                (granularity * (drawn / granularity)).clamp(low, high)
            }
            Self::Automotive => {
                let total = AUTOMOTIVE.iter().map(|&(_, share)| share).sum();
                let mut at = stream.below(total);
                for (millis, share) in AUTOMOTIVE {
                    if at < share {
                        return of_ms(millis);
                    }
                    at -= share;
                }
                of_ms(AUTOMOTIVE[0].0)
            }
        }
    }
}

/// The distribution of a task's relative deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// The deadline D equals the period T.
    Implicit,
    /// Deadlines are uniform from the execution time C to the period T.
    Constrained,
}

impl Deadline {
    pub(super) fn draw(self, wcet: Time, period: Time, stream: &mut DrawStream) -> Time {
        match self {
            Self::Implicit => period,
            Self::Constrained => wcet + Time::new(stream.below((period - wcet).ticks() + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(mut draw: impl FnMut(&mut DrawStream) -> f64) -> f64 {
        let mut stream = DrawStream::of_set(5, 0);
        (0..20_000).map(|_| draw(&mut stream)).sum::<f64>() / 20_000.0
    }

    #[test]
    fn laws_have_the_means_that_they_should() {
        for (law, expected) in [
            (Utilisation::UNI_MEDIUM, 0.25),
            (Utilisation::UNI_HEAVY, 0.7),
            // 2/3 of 0.2505 and 1/3 of 0.7.
            (Utilisation::BIMO_MEDIUM, 0.4),
            // Cut at 1: 0.25 - 1 / (e^4 - 1).
            (Utilisation::EXP_MEDIUM, 0.2313),
        ] {
            let mean = mean(|stream| law.draw(stream));
            assert!((mean - expected).abs() < 0.01, "{law:?}: {mean}");
        }
        let log = Period::LogUniform {
            low: Time::new(10_000),
            high: Time::new(1_000_000),
            granularity: Time::new(1_000),
        };
        let mean = mean(|stream| log.draw(stream).as_f64().ln());
        assert!((mean - 100_000_f64.ln()).abs() < 0.08, "{mean}");
    }

    #[test]
    fn periods_stay_in_their_range_and_on_their_grid() {
        let mut stream = DrawStream::of_set(6, 0);
        let drawn: Vec<Time> = (0..5_000).map(|_| Period::SHORT.draw(&mut stream)).collect();
        assert!(
            drawn.iter().all(|p| p.is_multiple_of(of_ms(1)) && (of_ms(3)..=of_ms(33)).contains(p))
        );
        assert!(drawn.contains(&Time::new(3_000)) && drawn.contains(&Time::new(33_000)));
        let tens = (0..10_000)
            .filter(|_| Period::Automotive.draw(&mut stream) == Time::new(10_000))
            .count();
        // 25 of 85.
        assert!((2_700..3_200).contains(&tens), "{tens}");
    }
}
