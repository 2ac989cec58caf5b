// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance between two CPUs during a measurement, from exchanges of a line between them.
//!
//! On a guest the host moves the virtual CPUs: what is declared as one last-level cache may be two
//! for some seconds. An exchange (the time in ns that a line takes one way between two CPUs) tells
//! the two apart: 30 to 60 ns below one cache and about 210 ns across two on an AMD EPYC guest. All
//! exchanges of a run are sorted into levels ([`ExchangeLevels::of`]; how many there are is decided in
//! `number`), each batch of jobs gets the level of the exchanges around it ([`ExchangeLevels::batch`]), and
//! [`stays`] says how long the machine is in which.
//!
//! **Assumptions.** A disturbed exchange is longer than an undisturbed one, never shorter. A level
//! shows in at least [`SHARE`] of the exchanges and in at least [`FEWEST`] of them; what is rarer is
//! of no level. Levels closer than [`RELEVANT`] are one.

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

/// Fewer exchanges than this do not tell one level from several.
const TOO_FEW: usize = 8;

/// The share of the way from a level to its neighbour, in log, that still belongs to it. The last
/// third, in the middle, belongs to neither.
const NEIGHBOURS_PART: f64 = 1.0 / 3.0;

/// The least distance, as a ratio, of a value outside a level whose own values are closer together.
const SLACK: f64 = 1.25;

/// The levels that exchanges of a run fall into, from near to far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeLevels {
    /// The levels, nearest first.
    pub levels: Vec<ExchangeLevel>,
    /// The certainty of this number: the share, 0 to 1, of resamples of the run with the same number. None
    /// where there were too few exchanges to tell several levels apart.
    pub certainty: Option<f64>,
    /// Number of exchanges they were told from, those of no level included.
    pub exchanges: usize,
}

/// One level of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExchangeLevel {
    /// Median in ns.
    pub median_ns: f64,
    /// 5 % quantile in ns.
    pub low_ns: f64,
    /// 95 % quantile in ns.
    pub high_ns: f64,
    /// Number of exchanges of this level.
    pub exchanges: usize,
}

impl ExchangeLevel {
    /// The level of all these values in ns; None if there is none.
    fn of(values_ns: &[f64]) -> Option<Self> {
        let values = Ordered::new(values_ns).ok()?;
        Some(Self {
            median_ns: median(&values),
            low_ns: quantile(&values, 0.05).ok()?,
            high_ns: quantile(&values, 0.95).ok()?,
            exchanges: values.len(),
        })
    }

    /// The distance, in log, of a value below the level's own range (negative) or above it (positive).
    fn outside(&self, exchange_ns: f64) -> f64 {
        let above = (exchange_ns / self.high_ns).ln().max(0.0);
        above + (exchange_ns / self.low_ns).ln().min(0.0)
    }

    /// The distance outside its own range, in log, at which values of the level can be expected.
    fn slack(&self) -> f64 {
        (self.high_ns / self.low_ns).ln().max(SLACK.ln())
    }
}

/// The class of a batch from its two exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchClass {
    /// Neither exchange is known, or those that are known are of no level.
    Unknown,
    /// The level that the known exchanges agree on, by index from near.
    Level(usize),
    /// The two disagree.
    Changed,
}

impl ExchangeLevels {
    /// The levels of all exchanges of a run, in ns and in the order in which they were taken. The
    /// order matters to the certainty only.
    ///
    /// Values that are not finite or not positive are left out. There is no level without values,
    /// and one level where there are fewer than eight.
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

    /// The same levels, described by all values of theirs.
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

    /// The number of levels.
    pub fn count(&self) -> usize {
        self.levels.len()
    }

    /// The level of an exchange in ns, by index from near.
    ///
    /// None where there is no level, for a value that is not finite and positive, and for one that is
    /// farther outside every level's own range (5 to 95 %) than its values reach: in the middle
    /// between two levels, or beyond all of them.
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

    /// The reach of a level outside its own range, in log, upward or downward.
    fn reach(&self, index: usize, upward: bool) -> f64 {
        let level = self.levels[index];
        let neighbour = if upward { Some(index + 1) } else { index.checked_sub(1) };
        let gap = neighbour.and_then(|index| self.levels.get(index)).map(|other| {
            let (near, far) = if upward { (&level, other) } else { (other, &level) };
            (far.low_ns / near.high_ns).ln()
        });
        gap.map_or(level.slack(), |gap| level.slack().min(NEIGHBOURS_PART * gap))
    }

    /// The class of a batch from the exchanges before and after it, in ns. An exchange that is of no
    /// level says as little as none: the other decides.
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

/// Migrations, nearest first.
const OUTWARD: [Event; 4] =
    [Event::SmtMigration, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];

/// The event that was measured where `declared` is what the platform says and the exchanges were of
/// this level (by index from near) of so many.
///
/// With one level, or for what is no migration, it is the declared one. With several, the nearest is
/// the declared one and each farther one the next class outward, at most memory. Where memory is
/// declared, the farthest is memory and every nearer one is L3: CPUs declared to share nothing were
/// then below one last-level cache, and no exchange says that they shared more. A level beyond the
/// last counts as the last.
pub fn measured_event(declared: Event, level: usize, levels: usize) -> Event {
    let Some(class) = OUTWARD.iter().position(|&event| event == declared) else { return declared };
    let farthest = levels.saturating_sub(1);
    let level = level.min(farthest);
    if declared == Event::MemoryMigration {
        return if level < farthest { Event::L3Migration } else { declared };
    }
    OUTWARD[(class + level).min(OUTWARD.len() - 1)]
}
