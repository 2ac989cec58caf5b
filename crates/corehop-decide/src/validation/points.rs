// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares published single values with the simulated machine: access times and hit rates. Each
//! value comes from an undisturbed touch of a warm working set, with or without polluters on other
//! CPUs.

use serde::Deserialize;

use super::aim::ErrorLimits;
use super::printed_number::{ErrorLaw, PrintedNumber};
use super::sheet::{
    JudgementRole, MarkedRows, PrintedQuantity, QuantityErrors, Sheet, ValidationRow, numbers_of,
    role_among,
};
use super::tables::synthetic;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::experiment::{Experiment, Length, SamplingGroup, Synthetic};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::Platform;
use corehop_plan::samples::JobRecord;
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_plan::words::words;
use corehop_plan::workload::{Absence, Event, Load, Page, Polluter, WorkingSet};

words! {
    /// The quantity derived from a warm touch.
    Quantity, "a quantity" {
        /// The number of cycles of the core's clock per cache line.
        Cycles = "cycles_per_line",
        /// The share of lines found in the last cache level, in percent.
        HitRate = "hit_rate_percent",
    }
}

/// A table of single values, and the experiment behind each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The ID of the platform on which the table was measured.
    pub platform: String,
    /// The number of touches averaged in each value.
    pub samples: u32,
    /// The quantity that is printed.
    pub quantity: Quantity,
    /// The pages of the working sets.
    pub page: Page,
    /// The share of accesses that write.
    pub write_ratio: f64,
    /// The work on the CPUs that a point lists as polluters.
    #[serde(default)]
    pub polluter: Option<Polluter>,
    /// The largest errors that the study accepts.
    pub limits: ErrorLimits,
    /// The points that do not judge the simulation, by name, with their roles.
    #[serde(default)]
    pub marked: Vec<MarkedRows<Vec<String>>>,
    /// The printed values, each with its experiment.
    #[serde(rename = "point")]
    pub points: Vec<PrintedPoint>,
}

/// One printed value.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedPoint {
    /// The name of the value.
    pub name: String,
    /// The size of the working set in KiB.
    pub wss_kib: u64,
    /// The CPU that touches the working set.
    pub cpu: Cpu,
    /// The CPUs on which a polluter runs.
    #[serde(default)]
    pub polluters: CpuList,
    /// The number in print.
    pub printed: PrintedNumber,
}

impl PointStudy {
    /// Parses a study from its description.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError::Form`], which says what is wrong.
    pub fn new(description: &str) -> Result<Self, PublishedStudyError> {
        described(description)
    }

    /// The experiment behind a point.
    pub(super) fn experiment(&self, point: &PrintedPoint, samples: u32) -> Synthetic {
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
        let group = SamplingGroup {
            load,
            sets: vec![set],
            events: vec![Event::None],
            length: Length::ZERO,
            absence: Absence::Nothing,
            samples,
        };
        synthetic(vec![group], CpuList::new([point.cpu]))
    }

    /// The study's quantity, computed from the warm touch of a job at a core clock of `hertz`.
    fn read(&self, record: &JobRecord, hertz: u64) -> Option<f64> {
        let warm = record.touches.get(1)?;
        let lines = warm.lines as f64;
        Some(match self.quantity {
            Quantity::Cycles => warm.ns * hertz as f64 / 1e9 / lines,
            Quantity::HitRate => (1.0 - warm.misses? as f64 / lines) * 100.0,
        })
    }

    /// Compares a printed point with the values of its simulated experiment.
    fn beside(&self, point: &PrintedPoint, values: &[f64]) -> ValidationRow {
        let simulated = values.iter().sum::<f64>() / values.len() as f64;
        ValidationRow {
            what: PrintedQuantity::Point { name: point.name.clone() },
            quantity: Some(self.quantity.word()),
            printed: point.printed.value,
            simulated: Some(simulated).filter(|it| it.is_finite()),
            n: Some(values.len()),
            printed_n: None,
            role: role_among(&self.marked, |names| names.contains(&point.name)),
            error: Some(ErrorLaw::Relative.error(point.printed, simulated)),
        }
    }
}

impl PublishedStudy for PointStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        numbers_of(&self.marked)
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
        let limits = Some(self.limits);
        let quantity = QuantityErrors::new(self.quantity.word(), ErrorLaw::Relative, limits);
        Ok(Sheet::judged(self.head(), (samples, "samples a value"), rows, vec![quantity]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::{Certificate, Touch};

    /// A study of two values; `more` is inserted before the points.
    fn study(quantity: &str, more: &str) -> PointStudy {
        let text = format!(
            "id = \"x\"\ntitle = \"t\"\nplatform = \"xeon_x5650\"\nsamples = 5\nquantity = \"{quantity}\"\n\
             page = \"4k\"\nwrite_ratio = 0.25\nlimits = {{ median = 0.1, p90 = 0.3 }}\n{more}\n\
             [[point]]\nname = \"a\"\nwss_kib = 16\ncpu = 1\nprinted = \"4\"\n\
             [[point]]\nname = \"b\"\nwss_kib = 32\ncpu = 2\npolluters = \"0-1\"\nprinted = \"0.5\"\n[[marked]]\nrole = \"fitted\"\nrows = [\"b\"]\n"
        );
        PointStudy::new(&text).unwrap()
    }

    const POLLUTER: &str =
        "polluter = { wss = \"4 MiB\", pattern = \"shuffled\", write_ratio = 0.5 }";

    /// A job whose warm touch took this long for 100 lines, with this number of misses.
    fn job(ns: f64, misses: Option<u64>) -> JobRecord {
        let touch = |ns| Touch {
            cpu: Cpu(0),
            ended_on: Cpu(0),
            cpu_taken: false,
            ns,
            lines: 100,
            lines_certified: 100,
            uncertified_ns: 0.0,
            holes: 0,
            hole_ns: 0.0,
            aborts: 0,
            switches: 0,
            faults: 0,
            steal_ns: 0,
            interrupts: None,
            misses,
            sibling_busy: None,
            spin_ns: 0.0,
            complete: true,
            certificate: Certificate::Simulated,
        };
        JobRecord {
            phase: 0,
            job: 0,
            draw: None,
            exchange: None,
            llc_share: None,
            start_ns: 0,
            policy: String::new(),
            huge_share: 0.0,
            touches: vec![touch(77_777.0), touch(ns)],
            leaves: Vec::new(),
        }
    }

    #[test]
    fn a_value_is_read_from_the_warm_touch_in_the_unit_of_print() {
        // 1 µs at 2.5 GHz are 2,500 cycles of 100 lines.
        let cycles = study("cycles_per_line", "");
        assert_eq!(cycles.read(&job(1_000.0, None), 2_500_000_000), Some(25.0));
        let rate = study("hit_rate_percent", "");
        let read = |misses| rate.read(&job(1_000.0, misses), 2_500_000_000);
        assert_eq!([read(Some(0)), read(Some(25)), read(Some(100))], [100.0, 75.0, 0.0].map(Some));
        assert_eq!(read(None), None, "misses that nothing counted");
        let cold = JobRecord { touches: vec![job(1.0, None).touches[0]], ..job(1.0, None) };
        assert_eq!(cycles.read(&cold, 1), None);
    }

    #[test]
    fn a_point_is_held_against_the_mean_and_a_fitted_one_judges_nothing() {
        let study = study("cycles_per_line", POLLUTER);
        let row = study.beside(&study.points[0], &[2.0, 3.0, 7.0]);
        assert_eq!(row.what, PrintedQuantity::Point { name: "a".to_owned() });
        assert_eq!((row.printed, row.simulated, row.n), (4.0, Some(4.0), Some(3)));
        assert_eq!(
            (row.role, row.error, row.quantity),
            (JudgementRole::Judged, Some(0.0), Some("cycles_per_line"))
        );
        let row = study.beside(&study.points[1], &[2.55]);
        assert_eq!(row.role, JudgementRole::Fitted);
        assert!((row.error.unwrap() - 4.0).abs() < 1e-9, "{row:?}");
        // 4 is 3.5 to 4.5.
        let row = study.beside(&study.points[0], &[5.5]);
        assert_eq!(row.error, Some(0.25));
        let row = study.beside(&study.points[0], &[]);
        assert!(row.simulated.is_none() && row.error.unwrap().is_infinite());
    }

    #[test]
    fn a_point_is_planned_on_its_cpu_with_its_set_and_with_polluters_where_it_has_some() {
        let study = study("cycles_per_line", POLLUTER);
        let group = |at: usize| study.experiment(&study.points[at], 7).groups.remove(0);
        let (quiet, loud) = (group(0), group(1));
        assert_eq!((&quiet.load, quiet.samples), (&Load::Idle, 7));
        let Load::Constructed { polluter, cpus } = loud.load else { panic!("{:?}", loud.load) };
        assert_eq!((Some(polluter), cpus.to_string()), (study.polluter.clone(), "0-1".to_owned()));
        assert_eq!((loud.sets[0].wss, loud.sets[0].write_ratio), (Bytes::from_kib(32), 0.25));
        assert_eq!((loud.sets[0].page, quiet.events), (Page::Base, vec![Event::None]));
        let bare = self::study("cycles_per_line", "");
        assert_eq!(bare.experiment(&bare.points[1], 7).groups[0].load, Load::Idle);
    }

    #[test]
    fn a_study_keeps_the_sizes_that_are_asked_for_and_is_judged_with_the_clock_of_the_machine() {
        let mut study = study("cycles_per_line", "");
        assert!(!study.clone().narrow(&[64]));
        assert!(study.narrow(&[16, 64]));
        assert_eq!(study.points.len(), 1);
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let sheet = study.judge(&platform, &mut Lab::new(1, Some(2), false)).unwrap();
        assert_eq!((sheet.rows.len(), sheet.rows[0].n), (1, Some(2)));
        assert_eq!((sheet.basis.as_deref(), sheet.samples), (Some("2 samples a value"), Some(2)));
        // 16 KiB are in its L1 cache, which answers within 4 cycles.
        let cycles = sheet.rows[0].simulated.unwrap();
        assert!((3.9..4.6).contains(&cycles), "{cycles}");
        let judged = &sheet.quantities[0];
        assert_eq!((judged.word, judged.limits.unwrap().median), ("cycles_per_line", 0.1));
        assert!(sheet.is_missed(), "fewer samples than the study takes judge nothing");
    }
}
