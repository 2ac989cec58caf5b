// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published single values against the simulated machine: access times, hit rates. Each is what an
//! undisturbed touch of a warm working set shows, with or without polluters beside it.

use serde::Deserialize;

use super::sheet::{Judged, Role, Row, Sheet, What};
use super::tables::synthetic;
use super::{Head, Lab, Study, StudyError, ValidationError, described};
use corehop_plan::experiment::{Experiment, Group, Length, Synthetic};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::samples::JobRecord;
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_plan::words::words;
use corehop_plan::workload::{Absence, Event, Load, Page, Polluter, WorkingSet};

words! {
    /// The quantity read from a warm touch.
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
    /// Its name.
    pub id: String,
    /// The printed table, with its source.
    pub title: String,
    /// The platform it was measured on, by id.
    pub platform: String,
    /// The number of touches that a value is the mean of.
    pub samples: u32,
    /// The quantity.
    pub quantity: Quantity,
    /// The pages of the working sets.
    pub page: Page,
    /// The share of accesses that write.
    pub write_ratio: f64,
    /// The work on the CPUs that a point names.
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
    /// Its name.
    pub name: String,
    /// The size of the working set in KiB.
    pub wss_kib: u64,
    /// The CPU that touches it.
    pub cpu: Cpu,
    /// The CPUs with a polluter.
    #[serde(default)]
    pub polluters: CpuList,
    /// The printed value.
    pub printed: f64,
    /// The parameters of the platform that were fitted on it, or read from it; empty if none.
    #[serde(default)]
    pub fitted: String,
}

impl PointStudy {
    /// A study from its description.
    ///
    /// # Errors
    /// [`StudyError::Form`] says what is wrong.
    pub fn new(description: &str) -> Result<Self, StudyError> {
        described(description)
    }

    /// The experiment behind a point.
    pub(super) fn experiment(&self, point: &Point, samples: u32) -> Synthetic {
        let set = WorkingSet {
            page: self.page,
            ..WorkingSet::list(Bytes::from_kib(point.wss_kib), self.write_ratio)
        };
        let load = match &self.polluter {
            Some(polluter) if !point.polluters.is_empty() => {
                Load::Constructed { polluter: polluter.clone(), cpus: point.polluters.clone() }
            }
            _ => Load::Idle,
        };
        let group = Group {
            load,
            sets: vec![set],
            events: vec![Event::None],
            length: Length::ZERO,
            absence: Absence::Nothing,
            samples,
        };
        synthetic(vec![group], CpuList::new([point.cpu]))
    }

    /// The quantity of a touch, with the core's clock at so many hertz.
    fn read(&self, record: &JobRecord, hertz: u64) -> Option<f64> {
        let warm = record.touches.get(1)?;
        let lines = warm.lines as f64;
        Some(match self.quantity {
            Quantity::Cycles => warm.ns * hertz as f64 / 1e9 / lines,
            Quantity::HitRate => (1.0 - warm.misses? as f64 / lines) * 100.0,
        })
    }

    /// A point beside what a run of its experiment recorded.
    fn beside(&self, point: &Point, values: &[f64]) -> Row {
        let simulated = values.iter().sum::<f64>() / values.len() as f64;
        Row {
            what: What::Point { name: point.name.clone() },
            quantity: Some(self.quantity.word()),
            printed: point.printed,
            simulated: Some(simulated),
            n: Some(values.len()),
            role: Role::fitted(!point.fitted.is_empty()),
            error: Some(Row::relative(point.printed, simulated, 1.0)),
        }
    }
}

impl Study for PointStudy {
    fn head(&self) -> Head<'_> {
        Head { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn narrow(&mut self, wss_kib: &[u64]) -> bool {
        self.points.retain(|point| wss_kib.contains(&point.wss_kib));
        !self.points.is_empty()
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let samples = lab.samples(self.samples);
        let hertz = platform.clock.core.as_ref().map_or(0, |fact| fact.value.get());
        let mut rows = Vec::new();
        for point in &self.points {
            let plan = self.experiment(point, samples.have).plan(platform, lab.seed)?;
            let mut records = Records::default();
            lab.machine(platform)?.run(&plan, &mut records)?;
            let values: Vec<f64> =
                records.jobs.iter().filter_map(|record| self.read(record, hertz)).collect();
            rows.push(self.beside(point, &values));
        }
        let quantity = Judged::new(self.quantity.word(), Some(self.limit));
        Ok(Sheet::judged(self.head(), (samples, "samples a value"), rows, vec![quantity]))
    }
}
