// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the verbal claims of the studies on simulated machines: the observations, the trends in figures, and the
//! lengths from which a delay stops growing.
//!
//! A claim that the paper found true must hold in simulation, and a claim that it found false must not.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::sheet::{JudgementRole, Sheet, Tested};
use super::tables::TableStudy;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::experiment::{
    Experiment, ExperimentError, Plan, PolluterSweep, Synthetic, TaskOrigin, TaskSets,
};
use corehop_plan::machine::rows_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Provenance, Rows, Sample};
use corehop_plan::units::Nanos;
use corehop_plan::words::words;
use corehop_plan::workload::Event;
use corehop_stats::compare::order;
use corehop_stats::delay::ALPHA;
use corehop_stats::estimator::Estimator;
use corehop_stats::ordered::{BadInput, Interval};
use corehop_stats::saturation::{RefillTarget, SaturationLength, saturations};
use corehop_stats::summary::{Summaries, summarize};
use corehop_stats::tasks::TaskRuns;
use corehop_stats::verdict::{ClaimVerdict, MachineFacts, Says, TestOutcome};

/// The claims of a study about one machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimStudy {
    /// The name of the study.
    pub id: String,
    /// The authors and their claim.
    pub title: String,
    /// The ID of the platform on which the study was measured.
    pub platform: String,
    /// The table studies whose samples are used to test the observations.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Further experiments that test the paper's observations.
    #[serde(default)]
    pub runs: Vec<Synthetic>,
    /// Task sets whose jobs and samples are used to test the fifth observation.
    #[serde(default)]
    pub task_sets: Vec<TaskSets>,
    /// The paper's finding for each observation, by the stable name of its verdict.
    #[serde(default)]
    pub observations: BTreeMap<String, TestOutcome>,
    /// Figures whose trends the paper describes.
    #[serde(default, rename = "figure")]
    pub figures: Vec<PaperFigure>,
    /// Delays that stop growing beyond a length.
    #[serde(default, rename = "saturation")]
    pub saturations: Vec<Saturates>,
}

/// A printed figure of delays against preemption lengths.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// The place of the figure in print.
    pub source: String,
    /// The experiment behind the figure.
    pub experiment: Synthetic,
    /// The claims about the figure.
    pub course: Vec<FigureClaim>,
}

/// A claim about one part of a figure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureClaim {
    /// The event that the claim is about.
    pub event: Event,
    /// The write ratio of the working sets that the claim is about.
    pub write_ratio: f64,
    /// The shortest preemption length of this part.
    pub from: Nanos,
    /// The longest preemption length of this part.
    pub to: Nanos,
    /// The trend of the delay with the length.
    pub trend: Trend,
    /// Whether the claim judges the simulation.
    #[serde(default)]
    pub role: JudgementRole,
}

words! {
    /// The trend of a delay with the preemption length.
    Trend, "a trend" {
        /// The delay grows with the preemption length.
        Rising = "rising",
        /// Longer preemptions cost less.
        Falling = "falling",
        /// The cost does not depend on the length.
        Level = "level",
    }
}

/// A claim about the preemption length from which a delay stops growing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturates {
    /// The place of the claim in print.
    pub source: String,
    /// The printed preemption length.
    pub printed: Nanos,
    /// Whether the printed length is only an upper bound.
    #[serde(default)]
    pub at_the_latest: bool,
    /// The experiment behind the claim.
    pub experiment: PolluterSweep,
}

/// The simulated samples for a study of claims.
#[derive(Default)]
struct ClaimSamples<'a> {
    /// The samples of each table that the study uses.
    tables: Vec<&'a [Sample]>,
    /// The rows of each of [`ClaimStudy::plans`].
    plans: Vec<Rows>,
}

impl ClaimStudy {
    /// Parses a study from its description.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError::Form`], which says what is wrong.
    pub fn new(description: &str) -> Result<Self, PublishedStudyError> {
        described(description)
    }

    /// Sets the number of samples of every experiment, and scales the number of task sets by `samples` /
    /// [`USUAL_SAMPLES`].
    fn set_samples(&mut self, samples: u32) {
        for of_tasks in &mut self.task_sets {
            if let TaskOrigin::Drawn(drawn) = &mut of_tasks.source {
                drawn.sets = (drawn.sets.saturating_mul(samples) / USUAL_SAMPLES)
                    .clamp(1, drawn.sets.max(1));
            }
        }
        let figures = self.figures.iter_mut().map(|figure| &mut figure.experiment);
        for experiment in self.runs.iter_mut().chain(figures) {
            experiment.groups.iter_mut().for_each(|group| group.samples = samples);
        }
        self.saturations.iter_mut().for_each(|it| it.experiment.samples = samples);
    }

    /// The plans that no table covers, in the order in which [`ClaimStudy::test`] needs their rows: further runs,
    /// figures, saturations, task sets.
    ///
    /// # Errors
    /// Returns the errors of the experiments.
    pub(super) fn plans(
        &self,
        platform: &Platform,
        seed: u64,
    ) -> Result<Vec<Plan>, ExperimentError> {
        let figures = self.figures.iter().map(|it| &it.experiment as &dyn Experiment);
        let runs = self.runs.iter().map(|it| it as &dyn Experiment);
        let sweeps = self.saturations.iter().map(|it| &it.experiment as &dyn Experiment);
        let task_sets = self.task_sets.iter().map(|it| it as &dyn Experiment);
        let all = runs.chain(figures).chain(sweeps).chain(task_sets);
        all.map(|it| it.plan(platform, seed)).collect()
    }

    /// Tests every claim on its simulated rows.
    ///
    /// # Errors
    /// Returns [`BadInput`] for samples that contain values that are not numbers.
    fn test(
        &self,
        platform: &Platform,
        simulated: &ClaimSamples<'_>,
    ) -> Result<Vec<Tested>, BadInput> {
        let (runs, rest) = simulated.plans.split_at(self.runs.len());
        let (figures, rest) = rest.split_at(self.figures.len());
        let (sweeps, task_sets) = rest.split_at(self.saturations.len());
        let mut summaries = Summaries::new(Estimator::Difference);
        for samples in
            simulated.tables.iter().copied().chain(runs.iter().map(|rows| rows.samples.as_slice()))
        {
            summaries.take(samples);
        }
        let facts = MachineFacts::of(platform);
        let mut verdicts = summaries.verdicts(&platform.id, &facts.view())?;
        if let Some(of_tasks) = of_task_sets(task_sets) {
            verdicts.retain(|it| it.id != of_tasks.id);
            verdicts.push(of_tasks);
        }
        let observed = verdicts.iter().filter_map(|verdict| {
            let expected = *self.observations.get(verdict.id)?;
            Some(observed(verdict, expected))
        });
        let mut tested: Vec<Tested> = observed.collect();
        for (figure, samples) in self.figures.iter().zip(figures) {
            for course in &figure.course {
                tested.push(course.test(&figure.source, &samples.samples)?);
            }
        }
        let targets = RefillTarget::of(platform);
        let saturated = self.saturations.iter().zip(sweeps);
        tested.extend(saturated.map(|(it, samples)| it.test(&targets, &samples.samples)));
        Ok(tested)
    }
}

impl PublishedStudy for ClaimStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    /// Working set sizes do not restrict this study, because a claim is about many cells.
    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let mut study = self.clone();
        if let Some(samples) = lab.samples {
            study.set_samples(samples);
        }
        for id in &study.tables {
            if let Some(table) = TableStudy::named(id) {
                lab.simulate(&table?, platform)?;
            }
        }
        let mut plans = Vec::new();
        for plan in study.plans(platform, lab.seed)? {
            plans.push(rows_of(&mut lab.machine(platform)?, &plan)?);
        }
        let tables = study.tables.iter().map(|id| lab.of_table(id)).collect();
        let claims = study.test(platform, &ClaimSamples { tables, plans })?;
        Ok(Sheet::of_claims(self.head(), claims))
    }
}

/// The verdict about the size of task sets, which only samples of task sets allow. Returns `None` if there are no task
/// sets.
fn of_task_sets(task_sets: &[Rows]) -> Option<ClaimVerdict> {
    let mut runs = TaskRuns::default();
    for (number, rows) in task_sets.iter().enumerate() {
        // Each is a run of its own.
        let from = Provenance { plan_digest: number.to_string(), ..Provenance::default() };
        runs.jobs(&from, &rows.task_jobs);
        runs.samples(&from, Estimator::Difference, &rows.samples);
    }
    runs.finish()?.verdicts.into_values().next()
}

fn observed(verdict: &ClaimVerdict, expected: TestOutcome) -> Tested {
    let against: Vec<&str> = verdict
        .comparisons
        .iter()
        .filter(|it| it.says == Says::Contradicts)
        .map(|it| it.what.as_str())
        .collect();
    let also =
        if against.len() > 1 { format!("; {} in all", against.len()) } else { String::new() };
    Tested {
        claim: format!("{}: {}", verdict.id, verdict.claim),
        expected: Some(expected),
        found: verdict.outcome,
        evidence: format!("{}{also}", verdict.evidence),
    }
}

impl FigureClaim {
    /// The delays after the shorter and after the longer half of this part's lengths.
    fn halves(&self, samples: &[Sample]) -> [Vec<f64>; 2] {
        let mut halves = [Vec::new(), Vec::new()];
        let middle = u64::midpoint(self.from.get(), self.to.get()) as f64;
        let part = self.from.get() as f64..self.to.get() as f64;
        for (sample, delay) in Estimator::Difference.delays_us(samples) {
            let of_it = sample.event == self.event
                && (sample.write_ratio - self.write_ratio).abs() < 1e-9
                && part.contains(&sample.length_ns);
            if of_it {
                halves[usize::from(sample.length_ns >= middle)].push(delay);
            }
        }
        halves
    }

    /// Tests the claim. A level part may have a weak trend: see [`MEDIUM`].
    fn test(&self, source: &str, samples: &[Sample]) -> Result<Tested, BadInput> {
        let [short, long] = self.halves(samples);
        let mark = Some(self.role.mark()).filter(|it| !it.is_empty());
        let mark = mark.map_or_else(String::new, |it| format!(" ({it})"));
        let claim = format!(
            "{source}: {} at write ratio {} is {} from {} to {}{mark}",
            self.event, self.write_ratio, self.trend, self.from, self.to,
        );
        let expected = self.role.judges().then_some(TestOutcome::Holds);
        let counts = (short.len(), long.len());
        if counts.0.min(counts.1) < 2 {
            let found = TestOutcome::CannotTell;
            let evidence = format!(
                "the shorter half of the absences has {} samples, and the longer half has {}: a comparison needs two in each half",
                counts.0, counts.1
            );
            return Ok(Tested { claim, expected, found, evidence });
        }
        let order = order(&short, &long, ALPHA)?;
        let Interval { low, high, .. } = order.interval;
        let found = match self.trend {
            Trend::Rising => of(low > 0.5, high < MEDIUM),
            Trend::Falling => of(high < 0.5, low > 1.0 - MEDIUM),
            Trend::Level => of(low > 1.0 - MEDIUM && high < MEDIUM, low > 0.5 || high < 0.5),
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        Ok(Tested {
            claim,
            expected,
            found,
            evidence: format!(
                "{:.1} us after the shorter half ({} samples), {:.1} us after the longer ({}); \
                 the longer cost more with probability {:.2} [{low:.2}, {high:.2}]",
                mean(&short),
                short.len(),
                mean(&long),
                long.len(),
                order.theta,
            ),
        })
    }
}

/// The number of samples of a cell in most studies.
const USUAL_SAMPLES: u32 = 64;

/// The largest probability that the later of two values is greater which still counts as at most a medium relation
/// (as in observation 4).
const MEDIUM: f64 = 0.64;

fn of(holds: bool, contradicts: bool) -> TestOutcome {
    match (holds, contradicts) {
        (true, _) => TestOutcome::Holds,
        (false, true) => TestOutcome::DoesNot,
        (false, false) => TestOutcome::CannotTell,
    }
}

impl Saturates {
    fn test(&self, targets: &[RefillTarget], samples: &[Sample]) -> Tested {
        let reached = saturations(&summarize(samples, Estimator::Difference), targets, &[]);
        let printed_ms = self.printed.get() as f64 / 1e6;
        let (found, evidence) = match reached.first().map(|it| (it, it.reached)) {
            Some((it, SaturationLength::At { length_us, earliest_us, latest_us })) => {
                let ms = |us: Option<f64>| {
                    us.map_or_else(|| "?".to_owned(), |us| format!("{:.1}", us / 1e3))
                };
                let late = earliest_us.is_some_and(|us| us / 1e3 > printed_ms);
                let early = latest_us.is_some_and(|us| us / 1e3 < printed_ms);
                let near = !late && (self.at_the_latest || !early);
                let evidence = format!(
                    "{:.1} ms [{}, {}], {:.0} us there",
                    length_us / 1e3,
                    ms(earliest_us),
                    ms(latest_us),
                    it.final_us
                );
                (of(near, !near), evidence)
            }
            Some((_, SaturationLength::NotBy { longest_us })) => {
                (TestOutcome::DoesNot, format!("it still grows at {:.1} ms", longest_us / 1e3))
            }
            Some((_, SaturationLength::NoDelay)) => {
                (TestOutcome::DoesNot, "there is no delay".to_owned())
            }
            None => (TestOutcome::CannotTell, "fewer than two lengths have samples".to_owned()),
        };
        Tested {
            claim: format!(
                "{}: the delay stops growing after {printed_ms} ms{}",
                self.source,
                if self.at_the_latest { " at the latest" } else { "" }
            ),
            expected: None,
            found,
            evidence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::sample;
    use corehop_sim::SimMachine;

    /// Preemptions of 0 to 10 ms; `delay` returns the delay in nanoseconds for a length in milliseconds.
    fn samples(delay: impl Fn(f64) -> f64) -> Vec<Sample> {
        let one = |at: u32| {
            let ms = f64::from(at) / 10.0;
            // A little that has nothing to do with the length.
            let noise = f64::from(at * 37 % 11);
            Sample {
                event: Event::Preemption,
                write_ratio: 0.25,
                length_ns: ms * 1e6,
                warm_ns: 1_000.0,
                resumed_ns: 1_000.0 + delay(ms) + noise,
                ..sample()
            }
        };
        (0..100).map(one).collect()
    }

    fn course(trend: Trend) -> FigureClaim {
        let ms = Nanos::from_millis;
        FigureClaim {
            event: Event::Preemption,
            write_ratio: 0.25,
            from: ms(0),
            to: ms(10),
            trend,
            role: JudgementRole::Judged,
        }
    }

    #[test]
    fn a_course_is_told_by_whether_longer_preemptions_cost_more() {
        let rising = samples(|ms| 100.0 * ms);
        let falling = samples(|ms| 1_000.0 - 100.0 * ms);
        let level = samples(|_| 500.0);
        for (trend, holds, others) in [
            (Trend::Rising, &rising, [&falling, &level]),
            (Trend::Falling, &falling, [&rising, &level]),
            (Trend::Level, &level, [&rising, &falling]),
        ] {
            let found = |samples| course(trend).test("a figure", samples).unwrap();
            let tested = found(holds);
            assert_eq!(tested.found, TestOutcome::Holds, "{trend}");
            assert!(!tested.is_missed() && tested.claim.contains("a figure"));
            for samples in others {
                assert_eq!(found(samples).found, TestOutcome::DoesNot, "{trend}");
                assert!(found(samples).is_missed());
            }
        }
    }

    #[test]
    fn other_events_ratios_and_lengths_are_not_of_the_course() {
        let mut samples = samples(|ms| 100.0 * ms);
        samples[1].event = Event::L3Migration;
        samples[2].write_ratio = 0.0;
        samples[3].length_ns = 10e6;
        let [short, long] = course(Trend::Rising).halves(&samples);
        assert_eq!((short.len(), long.len()), (47, 50));
    }

    #[test]
    fn a_trend_too_weak_to_be_told_is_neither() {
        let few: Vec<Sample> = samples(|ms| 3.0 * ms).into_iter().step_by(12).collect();
        let tested = course(Trend::Rising).test("a figure", &few).unwrap();
        assert_eq!(tested.found, TestOutcome::CannotTell);
        assert!(tested.is_missed());
    }

    #[test]
    fn a_course_of_which_a_half_has_one_sample_cannot_be_told_and_says_why() {
        let few: Vec<Sample> = samples(|ms| 100.0 * ms).into_iter().step_by(33).take(3).collect();
        let tested = course(Trend::Rising).test("a figure", &few).unwrap();
        assert_eq!(tested.found, TestOutcome::CannotTell);
        assert!(tested.evidence.contains("needs two in each half"), "{}", tested.evidence);
    }

    /// A description of task sets of one task and of four tasks, on two CPUs.
    const TASK_SETS: &str = r#"
        id = "few-or-many"
        title = ""
        platform = "xeon_x5650"
        observations = { bastoni-5 = "cannot_tell" }
        [[task_sets]]
        scheduler = "g-edf"
        duration = "100 ms"
        loads = [{ kind = "idle" }]
        share = 1.0
        cpus = "0-1"
        [task_sets.source.drawn]
        task_counts = [1, 4]
        sets = 16
        utilisation = [0.2, 0.4]
        period = ["10 ms", "20 ms"]
        sporadic = 0.0
        working_sets = [{ wss = "4 KiB", pattern = "scan", page = "4k", write_ratio = 0.5 }]
    "#;

    #[test]
    fn task_sets_are_simulated_and_the_verdict_on_their_size_is_tested() {
        let mut study = ClaimStudy::new(TASK_SETS).unwrap();
        study.set_samples(8);
        let platform = Platform::named(&study.platform).unwrap().unwrap();
        let plans = study.plans(&platform, 1).unwrap();
        assert_eq!(
            plans[0].tasks().unwrap().runs.len(),
            2 * 16 / 8,
            "an eighth of the usual samples"
        );
        let mut machine = SimMachine::new(platform.clone()).unwrap();
        let rows = |plan| rows_of(&mut machine, plan).unwrap();
        let plans: Vec<_> = plans.iter().map(rows).collect();
        let samples = &plans[0].samples;
        assert!(plans[0].task_jobs.len() > 2 * 5);
        assert!(samples.iter().all(|it| it.task_count == Some(4)));
        let tested =
            study.test(&platform, &ClaimSamples { plans, ..ClaimSamples::default() }).unwrap();
        assert_eq!(tested.len(), 1, "the synthetic method's word on it is not asked");
        assert!(tested[0].claim.contains("bastoni-5") && !tested[0].is_missed());
    }

    #[test]
    fn what_a_study_of_task_sets_does_not_know_is_refused() {
        let error = ClaimStudy::new(&TASK_SETS.replace("sporadic", "sporadicity")).unwrap_err();
        assert!(error.to_string().contains("sporadicity"), "{error}");
    }

    #[test]
    fn observations_are_expected_as_they_were_found() {
        let verdict = corehop_stats::verdict::bastoni_5(Vec::new());
        assert_eq!(verdict.outcome, TestOutcome::CannotTell);
        assert!(observed(&verdict, TestOutcome::Holds).is_missed());
        assert!(!observed(&verdict, TestOutcome::CannotTell).is_missed());
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod lengths;
