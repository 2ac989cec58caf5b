// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance between two CPUs during a measurement, estimated from exchanges of a line between them.
//!
//! The host of a guest moves the virtual CPUs: a declared last-level cache can be two caches for some
//! seconds. An exchange (the one-way time of a line between two CPUs, in ns) distinguishes the two cases:
//! on an AMD EPYC guest, 30 to 60 ns within one cache and about 210 ns between two. All exchanges of a run
//! are sorted into levels ([`ExchangeLevels::of`]; `number` decides how many levels there are), and each
//! batch of jobs gets the level of the exchanges around it ([`ExchangeLevels::batch`]). [`stays`] reports
//! how long the machine stays at each level.
//!
//! **Assumptions.** A disturbance makes an exchange longer, never shorter. A level has at least the share
//! [`SHARE`] of the exchanges and at least [`FEWEST`] exchanges; rarer values belong to no level. The
//! classification counts two levels whose ratio is below [`RELEVANT`] as one level.

use serde::{Deserialize, Serialize};

use super::ordered::Ordered;
use super::quantile::{median, quantile};
use corehop_plan::workload::Event;

mod number;
mod stays;
#[cfg(test)]
mod tests;

pub use number::{FEWEST, RELEVANT, SHARE};
pub use stays::{LevelResidence, LevelStay, changes_to, stays, stays_of_all};

/// The number of exchanges below which one level cannot be distinguished from several.
const TOO_FEW: usize = 8;

/// The part of the logarithmic distance from a level to its neighbour within which a value still belongs to
/// the level. The middle third of the distance between two levels belongs to neither level.
const NEIGHBOURS_PART: f64 = 1.0 / 3.0;

/// The smallest reach of a level beyond its range, as a ratio to the end of the range, even if the level's
/// own values are closer together.
const SLACK: f64 = 1.25;

/// The levels of the exchanges of a run, from near to far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeLevels {
    /// The levels of the exchanges, nearest first.
    pub levels: Vec<ExchangeLevel>,
    /// The certainty of the number of levels: the share of resamples of the run that have the same number,
    /// 0 to 1. The field is `None` if there are too few exchanges to distinguish several levels.
    pub certainty: Option<f64>,
    /// The number of exchanges from which the levels were found, including exchanges of no level.
    pub exchanges: usize,
}

/// A level of exchange times, which stands for a distance between CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExchangeLevel {
    /// The median exchange time of the level in ns.
    pub median_ns: f64,
    /// The 5 % quantile of the level's exchange times, in ns.
    pub low_ns: f64,
    /// The 95 % quantile of the level's exchange times, in ns.
    pub high_ns: f64,
    /// The number of exchanges at this level.
    pub exchanges: usize,
}

impl ExchangeLevel {
    /// Returns the level with all the given values in ns, or `None` without values.
    fn of(values_ns: &[f64]) -> Option<Self> {
        let values = Ordered::new(values_ns).ok()?;
        Some(Self {
            median_ns: median(&values),
            low_ns: quantile(&values, 0.05).ok()?,
            high_ns: quantile(&values, 0.95).ok()?,
            exchanges: values.len(),
        })
    }

    /// Returns the logarithmic distance of a value from the level's range: negative below the range,
    /// positive above, 0 inside.
    fn outside(&self, exchange_ns: f64) -> f64 {
        let above = (exchange_ns / self.high_ns).ln().max(0.0);
        above + (exchange_ns / self.low_ns).ln().min(0.0)
    }

    /// Returns the logarithmic distance outside its range at which values of the level are still plausible.
    fn slack(&self) -> f64 {
        (self.high_ns / self.low_ns).ln().max(SLACK.ln())
    }
}

/// The class of a batch from its two exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchClass {
    /// The distance is unknown, because neither exchange is known, or because the known exchanges belong to
    /// no level.
    Unknown,
    /// The known exchanges agree on this level, counted from near.
    Level(usize),
    /// The two exchanges belong to different levels.
    Changed,
}

impl ExchangeLevels {
    /// Returns the levels of all exchanges of a run, in ns and in the order of measurement. The order of
    /// the exchanges affects only the certainty of the number of levels.
    ///
    /// Values that are not finite or not positive are ignored. The result has no level if there are no
    /// values, and one level if there are fewer than eight values.
    pub fn of(exchanges_ns: &[f64]) -> Self {
        let values: Vec<f64> = exchanges_ns.iter().copied().filter(|&x| usable(x)).collect();
        let exchanges = values.len();
        if exchanges < TOO_FEW {
            let levels = ExchangeLevel::of(&values).into_iter().collect();
            return Self { levels, certainty: None, exchanges };
        }
        let run = number::ExchangeRun::new(&values);
        let rough = Self { levels: run.levels(), certainty: Some(run.certainty()), exchanges };
        rough.settled(&values)
    }

    /// Returns the same levels, each described again by all values that belong to it.
    fn settled(self, values: &[f64]) -> Self {
        let mut members = vec![Vec::new(); self.count()];
        for &value in values {
            if let Some(level) = self.level_of(value) {
                members[level].push(value);
            }
        }
        Self {
            levels: members.iter().filter_map(|values| ExchangeLevel::of(values)).collect(),
            ..self
        }
    }

    /// Returns the number of levels.
    pub fn count(&self) -> usize {
        self.levels.len()
    }

    /// Returns the level of an exchange in ns, counted from near.
    ///
    /// Returns `None` if there is no level, if the value is not finite and positive, or if the value is
    /// farther outside every level's range (5 to 95 %) than the level reaches. A value outside the reach of
    /// all levels is in the middle between two levels, or beyond all of them.
    pub fn level_of(&self, exchange_ns: f64) -> Option<usize> {
        if !usable(exchange_ns) {
            return None;
        }
        let away = |level: &ExchangeLevel| level.outside(exchange_ns).abs();
        let nearer = |a: &(usize, &ExchangeLevel), b: &(usize, &ExchangeLevel)| {
            away(a.1).total_cmp(&away(b.1))
        };
        let (index, level) = self.levels.iter().enumerate().min_by(nearer)?;
        let outside = level.outside(exchange_ns);
        (outside.abs() <= self.reach(index, outside > 0.0)).then_some(index)
    }

    /// Returns the logarithmic reach of a level outside its range, upward or downward.
    fn reach(&self, index: usize, upward: bool) -> f64 {
        let level = self.levels[index];
        let neighbour = if upward { Some(index + 1) } else { index.checked_sub(1) };
        let gap = neighbour.and_then(|index| self.levels.get(index)).map(|other| {
            let (near, far) = if upward { (&level, other) } else { (other, &level) };
            (far.low_ns / near.high_ns).ln()
        });
        gap.map_or(level.slack(), |gap| level.slack().min(NEIGHBOURS_PART * gap))
    }

    /// Returns the class of a batch from the exchanges before and after the batch, in ns. An exchange that
    /// belongs to no level counts as missing, so the other exchange decides.
    pub fn batch(&self, before_ns: Option<f64>, after_ns: Option<f64>) -> BatchClass {
        let level = |exchange: Option<f64>| self.level_of(exchange?);
        match (level(before_ns), level(after_ns)) {
            (None, None) => BatchClass::Unknown,
            (Some(before), Some(after)) if before != after => BatchClass::Changed,
            (Some(level), _) | (None, Some(level)) => BatchClass::Level(level),
        }
    }
}

fn usable(exchange_ns: f64) -> bool {
    exchange_ns.is_finite() && exchange_ns > 0.0
}

/// The classes of migration, nearest first.
const OUTWARD: [Event; 4] =
    [Event::SmtMigration, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

/// Returns the measured event of a migration: the platform declares `declared`, and the exchanges have
/// level `level`, counted from near, of `levels` levels.
///
/// The measured event is the declared event if there is one level, or if the event is no migration. The
/// nearest of several levels is the declared event, and each farther level is the next class outward, at
/// most memory. If a memory migration is declared, the farthest level is memory, and every nearer level is
/// L3. At a nearer level, CPUs that are declared to share nothing had a common last-level cache, and no
/// exchange shows that they shared more. A level beyond the last counts as the last level.
pub fn measured_event(declared: Event, level: usize, levels: usize) -> Event {
    let Some(class) = OUTWARD.iter().position(|&event| event == declared) else { return declared };
    let farthest = levels.saturating_sub(1);
    let level = level.min(farthest);
    if declared == Event::MemoryMigration {
        return if level < farthest { Event::L3Migration } else { declared };
    }
    OUTWARD[(class + level).min(OUTWARD.len() - 1)]
}
