// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedulability studies: how many random task sets are schedulable under each scheduler, as the utilisation and the
//! delay of preemptions and migrations grow (Bastoni, Brandenburg and Anderson 2010, section 5)?
//!
//! A [`SchedulabilityStudy`] describes a study, and [`run`] draws its sets and counts. [`StudyCounts`] contains whole
//! numbers, so the counts of shards add up to the counts of the whole study. The caller computes shares, weighted
//! schedulability, crossovers and their intervals from the counts.

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

/// A study: the sets that are drawn, the schedulers that are tested, and the schedulers that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulabilityStudy {
    /// The name of the study in tables and files.
    pub id: String,
    /// The question of the study, with its source.
    pub title: String,
    /// The seed of every draw.
    pub seed: u64,
    /// The number of streams of tasks; each stream gives one set per utilisation cap.
    pub sets: u64,
    /// The readings of the study, at least one.
    pub readings: Vec<StudyReading>,
    /// The reading that is considered closest to the source, and why.
    pub held: Option<PreferredReading>,
    /// The original text of the description.
    pub text: String,
}

impl SchedulabilityStudy {
    /// Returns warnings about flaws in how the study draws sets.
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

/// The reading of a study that is closest to the paper.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferredReading {
    /// The name of the reading.
    pub reading: String,
    /// The reasons for choosing this reading.
    pub why: String,
}

/// One reading of a study, with every choice made.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyReading {
    /// The chosen options, separated by slashes; `study` if there was no choice.
    pub name: String,
    /// The quantity measured for each set.
    pub measure: Measure,
    /// The number of CPUs, m.
    pub cpus: u32,
    /// The utilisation caps of the reading's sets.
    pub caps: Caps,
    /// The delays `D_c` in microseconds, ascending.
    pub delays: Vec<Time>,
    /// The generator of task sets.
    pub generator: Generator,
    /// The tested schedulers, in order.
    pub schedulers: Vec<Scheduler>,
    /// The pairs of schedulers that are compared, and how.
    pub crossovers: Vec<Crossover>,
}

/// The quantity that a study measures for each set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Whether the set is schedulable.
    Schedulability,
    /// The largest utilisation at which the set is schedulable when all execution times grow together, in steps of a
    /// thousandth, as a share of the CPUs in millionths.
    Breakdown,
}

/// Evenly spaced utilisation caps, stored as whole numbers so that weights are whole too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// The first cap, in thousandths.
    from: u64,
    /// The distance between two caps, in thousandths.
    step: u64,
    /// The number of caps.
    count: usize,
    /// The common divisor of all caps, in thousandths.
    unit: u64,
}

impl Caps {
    /// The number of caps.
    pub fn len(self) -> usize {
        self.count
    }
    /// Whether there is no cap; always false.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
    /// The cap at index `place`.
    pub fn at(self, place: usize) -> f64 {
        (self.from + self.step * place as u64) as f64 / 1_000.0
    }
    /// The weight of the cap at index `place`, in a unit that makes all weights whole.
    pub fn weight(self, place: usize) -> u64 {
        (self.from + self.step * place as u64) / self.unit
    }
    /// The sum of the weights of the caps at these indexes.
    fn weights(self, places: Range<usize>) -> u64 {
        places.map(|place| self.weight(place)).sum()
    }
    /// The sum of all weights.
    pub fn whole(self) -> u64 {
        self.weights(0..self.count)
    }
    /// The index of the first cap that is at least `sum`.
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

/// The generator of task sets. The study's cap replaces the generator's own cap.
#[derive(Debug, Clone, PartialEq)]
pub enum Generator {
    /// Adds tasks until the cap is exceeded.
    Capped(Capped),
    /// Draws a fixed number of tasks whose utilisations add up to the cap.
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

/// One scheduler of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// The name of the scheduler in tables and curves.
    pub name: String,
    /// The test that decides for this scheduler.
    pub policy: SchedulerTest,
    /// The events that a job may suffer under this scheduler. A job's delay is the largest of their costs.
    pub suffers: Vec<Event>,
}

/// The test that decides for a scheduler, applied to the whole set or to each cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchedulerTest {
    /// The name of the test.
    pub test: &'static str,
    /// The way in which tasks are packed into clusters first; `None` without clusters.
    pub clusters: Option<Clusters>,
}

/// Clusters of CPUs into which tasks are packed by utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clusters {
    /// The number of CPUs in each cluster.
    pub cpus: u32,
    /// The cluster that gets a task.
    pub fit: Fit,
    /// Whether tasks are taken by falling utilisation.
    pub decreasing: bool,
}

/// A comparison that finds up to which delay one scheduler is preferable to another scheduler with a fixed delay.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossover {
    /// The scheduler whose delay grows.
    pub of: String,
    /// The scheduler with the fixed delay.
    pub against: String,
    /// The fixed delay in microseconds; the value must be one of the study's delays.
    #[serde(default)]
    pub at_us: Time,
    /// The step of the growing delay, from 0 to the largest delay of the study.
    pub step_us: Time,
}
