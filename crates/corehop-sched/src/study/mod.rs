// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability studies: of so many random task sets, how many does a scheduler carry, as the
//! utilisation and the delay of preemptions and migrations grow (Bastoni, Brandenburg and Anderson 2010,
//! section 5)?
//!
//! A [`SchedulabilityStudy`] is a description; [`run`] draws its sets and counts; [`StudyCounts`] holds whole numbers, so
//! that the outcomes of shards add up to that of the whole. Shares, weighted schedulability,
//! the caller computes crossovers and their intervals from the counts.

pub(crate) mod text;
pub(crate) mod law;
mod family;
mod bins;
mod fast_path;
mod verdicts;
mod breakdown;
pub mod tally;
mod run;
mod shard;
mod counts;
mod crossover;
mod sizes;
mod store;
mod summary;
pub mod cost;
#[cfg(test)]
mod tests;

pub use counts::{StudyCounts, StudyCountsError};
pub use crossover::{DelayCrossing, Preferable};
pub use run::{Progress, StudyRunError, run};
pub use shard::{Shard, ShardError, Shards};
pub use sizes::{PreferenceRange, Sizes};
pub use store::StoreError;
pub use text::StudyError;

use std::ops::Range;

use crate::partition::Fit;
use corehop_plan::workload::Event;
use corehop_plan::workload::generate::{Capped, Deadline, FixedSum};
use corehop_plan::workload::task::Time;

/// A study: what is drawn, who is asked, and what is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulabilityStudy {
    /// A name for tables and files.
    pub id: String,
    /// The question, with its source.
    pub title: String,
    /// The seed of every draw.
    pub seed: u64,
    /// The number of streams of tasks; each gives one set per cap.
    pub sets: u64,
    /// The ways to read it, at least one.
    pub readings: Vec<StudyReading>,
    /// The reading that is held for the source's, and why.
    pub held: Option<PreferredReading>,
    /// The description as it was written.
    pub text: String,
}

impl SchedulabilityStudy {
    /// The flaws in the way its sets are drawn, if any.
    pub fn warnings(&self) -> Vec<&'static str> {
        let of = |reading: &StudyReading| match &reading.generator {
            Generator::FixedSum(fixed) => fixed.method.warning(),
            Generator::Capped(_) => None,
        };
        let mut all: Vec<&'static str> = self.readings.iter().filter_map(of).collect();
        all.dedup();
        all
    }
}

/// The reading that is closest to the paper.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferredReading {
    /// Its name.
    pub reading: String,
    /// The reasons for it.
    pub why: String,
}

/// One way to read a study: every choice made.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyReading {
    /// The options that were chosen, with slashes between; `study` where there was no choice.
    pub name: String,
    /// The measure.
    pub measure: Measure,
    /// The number of CPUs, m.
    pub cpus: u32,
    /// The utilisation caps.
    pub caps: Caps,
    /// The delays `D_c` in microseconds, ascending.
    pub delays: Vec<Time>,
    /// The way to draw task sets.
    pub generator: Generator,
    /// The schedulers, in order.
    pub schedulers: Vec<Scheduler>,
    /// The pairs of them that are compared, and how.
    pub crossovers: Vec<Crossover>,
}

/// The measure of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Whether it is schedulable.
    Schedulability,
    /// The utilisation at which it ceases to be when its execution times grow together, in steps of a
    /// thousandth, as a share of the CPUs in millionths.
    Breakdown,
}

/// Evenly spaced utilisation caps, kept as whole numbers so that weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// The first one, in thousandths.
    from: u64,
    /// The distance of two, in thousandths.
    step: u64,
    /// The number.
    count: usize,
    /// The common divisor of all, in thousandths.
    unit: u64,
}

impl Caps {
    /// The number.
    pub fn len(self) -> usize {
        self.count
    }
    /// Whether there is none; there always is one.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
    /// The cap at this place.
    pub fn at(self, place: usize) -> f64 {
        (self.from + self.step * place as u64) as f64 / 1_000.0
    }
    /// Its weight, in a unit that makes all weights whole.
    pub fn weight(self, place: usize) -> u64 {
        (self.from + self.step * place as u64) / self.unit
    }
    /// The sum of the weights of these places.
    fn weights(self, places: Range<usize>) -> u64 {
        places.map(|place| self.weight(place)).sum()
    }
    /// The sum of all weights.
    pub fn whole(self) -> u64 {
        self.weights(0..self.count)
    }
    /// The first place whose cap is not below `sum`.
    fn admitting(self, sum: f64) -> usize {
        let guess = (sum * 1_000.0 - self.from as f64) / self.step as f64;
        let mut place = (guess.floor().max(0.0) as usize).min(self.count);
        while place > 0 && self.at(place - 1) >= sum {
            place -= 1;
        }
        while place < self.count && self.at(place) < sum {
            place += 1;
        }
        place
    }
}

/// The way to draw task sets; a cap takes the place of the generator's own.
#[derive(Debug, Clone, PartialEq)]
pub enum Generator {
    /// Tasks until the cap is exceeded.
    Capped(Capped),
    /// A fixed number of tasks whose utilisations have the cap as their sum.
    FixedSum(FixedSum),
}

impl Generator {
    fn deadline(&self) -> Deadline {
        match self {
            Self::Capped(capped) => capped.deadline,
            Self::FixedSum(fixed) => fixed.deadline,
        }
    }
}

/// A scheduler of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// As tables and curves have it.
    pub name: String,
    /// The way to ask it.
    pub policy: SchedulerTest,
    /// The events that a job may suffer under it; its delay is the largest of their costs.
    pub suffers: Vec<Event>,
}

/// The way to ask a scheduler: by a test, of the whole set or of each cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchedulerTest {
    /// The name of the test.
    pub test: &'static str,
    /// The way to pack tasks into clusters first, if they are.
    pub clusters: Option<Clusters>,
}

/// Clusters of CPUs into which tasks are packed by utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clusters {
    /// The number of CPUs of each.
    pub cpus: u32,
    /// The cluster that gets a task.
    pub fit: Fit,
    /// Whether tasks are taken by falling utilisation.
    pub decreasing: bool,
}

/// Up to which delay is one scheduler preferable to another that suffers a fixed delay?
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossover {
    /// The scheduler whose delay grows.
    pub of: String,
    /// The scheduler that is compared with it.
    pub against: String,
    /// The delay of the latter, one of those of the study.
    #[serde(default)]
    pub at_us: Time,
    /// Steps of the growing delay, from 0 to the largest of the study.
    pub step_us: Time,
}
