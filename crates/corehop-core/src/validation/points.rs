// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published single values against the simulated machine: access times, hit rates. Each is what an
//! undisturbed touch of a warm working set shows, with or without polluters beside it.

use serde::{Deserialize, Serialize};

use super::tables::{Errors, StudyError};
use crate::experiment::{Experiment, ExperimentError, Group, Length, Plan, Synthetic};
use crate::platform::Platform;
use crate::samples::JobRecord;
use crate::units::{Bytes, Cpu, CpuList};
use crate::words::words;
use crate::workload::{Absence, Event, Load, Mover, Page, Pattern, Polluter, WorkingSet};

words! {
    /// What is read from a warm touch.
    Quantity, "a quantity" {
        /// Cycles of the core's clock for each line.
        Cycles = "cycles_per_line",
        /// The share of lines that the last level of cache had, in percent.
        HitRate = "hit_rate_percent",
    }
}

/// A table of single values, and how each came about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointStudy {
    /// What it is called.
    pub id: String,
    /// What was printed, with its source.
    pub title: String,
    /// The platform it was measured on, by id.
    pub platform: String,
    /// How many touches a value is the mean of.
    pub samples: u32,
    /// What is read.
    pub quantity: Quantity,
    /// The pages of the working sets.
    pub page: Page,
    /// The share of accesses that write.
    pub write_ratio: f64,
    /// What runs on the CPUs that a point names.
    #[serde(default)]
    pub polluter: Option<Polluter>,
    /// The median error of the judged points that is aimed at.
    pub limit: f64,
    /// The values.
    #[serde(rename = "point")]
    pub points: Vec<Point>,
}

/// A printed value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// What it is called.
    pub name: String,
    /// The size of the working set in KiB.
    pub wss_kib: u64,
    /// The CPU that touches it.
    pub cpu: Cpu,
    /// The CPUs with a polluter.
    #[serde(default)]
    pub polluters: CpuList,
    /// What was printed.
    pub printed: f64,
    /// Which parameters of the platform were fitted on it, or read from it; nothing if none.
    #[serde(default)]
    pub fitted: String,
}

/// A printed value and what the simulation has for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it is called.
    pub name: String,
    /// What was printed.
    pub printed: f64,
    /// What was simulated.
    pub simulated: f64,
    /// Over how many touches.
    pub n: usize,
    /// Whether a parameter was fitted on it.
    pub fitted: bool,
    /// |difference| over the printed value, or over 1 where less was printed.
    pub error: f64,
}

impl PointStudy {
    /// A study from its description.
    ///
    /// # Errors
    /// [`StudyError::Form`] says what is wrong.
    pub fn new(description: &str) -> Result<Self, StudyError> {
        toml::from_str(description).map_err(|error| StudyError::Form(error.to_string()))
    }

    /// The experiment behind a point.
    fn experiment(&self, point: &Point) -> Synthetic {
        let set = WorkingSet {
            page: self.page,
            ..WorkingSet::list(Bytes::from_kib(point.wss_kib), self.write_ratio)
        };
        let nobody =
            Polluter { wss: Bytes::from_kib(64), pattern: Pattern::Shuffled, write_ratio: 0.0 };
        let load = match &self.polluter {
            Some(polluter) if !point.polluters.is_empty() => {
                Load::Constructed { polluter: polluter.clone(), cpus: point.polluters.clone() }
            }
            _ => Load::Idle,
        };
        Synthetic {
            mover: Mover::Affinity,
            preemptor: nobody,
            preemptor_sizes: Vec::new(),
            groups: vec![Group {
                load,
                sets: vec![set],
                events: vec![Event::None],
                length: Length::ZERO,
                absence: Absence::Nothing,
                samples: self.samples,
            }],
            cpus: CpuList::new([point.cpu]),
        }
    }

    /// The plan of each point, in order.
    ///
    /// # Errors
    /// Where the platform lacks a CPU that a point names.
    pub fn plans(&self, platform: &Platform, seed: u64) -> Result<Vec<Plan>, ExperimentError> {
        self.points.iter().map(|point| self.experiment(point).plan(platform, seed)).collect()
    }

    /// The points beside what `runs` recorded of their plans.
    pub fn compare(&self, platform: &Platform, runs: &[Vec<JobRecord>]) -> Vec<Compared> {
        let hertz = platform.clock.core.as_ref().map_or(0, |fact| fact.value.get());
        let read = |record: &JobRecord| {
            let warm = record.touches.get(1)?;
            let lines = warm.lines as f64;
            Some(match self.quantity {
                Quantity::Cycles => warm.ns * hertz as f64 / 1e9 / lines,
                Quantity::HitRate => (1.0 - warm.misses? as f64 / lines) * 100.0,
            })
        };
        let compared = |(point, records): (&Point, &Vec<JobRecord>)| {
            let values: Vec<f64> = records.iter().filter_map(read).collect();
            let simulated = values.iter().sum::<f64>() / values.len() as f64;
            Compared {
                name: point.name.clone(),
                printed: point.printed,
                simulated,
                n: values.len(),
                fitted: !point.fitted.is_empty(),
                error: (simulated - point.printed).abs() / point.printed.abs().max(1.0),
            }
        };
        self.points.iter().zip(runs).map(compared).collect()
    }
}

impl Compared {
    /// The errors of those fitted on, or of the others. None without any.
    pub fn errors(all: &[Self], fitted: bool) -> Option<Errors> {
        let wanted = all.iter().filter(|one| one.fitted == fitted);
        Errors::over(wanted.map(|one| one.error).collect())
    }
}
