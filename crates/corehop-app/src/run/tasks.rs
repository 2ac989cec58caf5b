// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summarises a run of task sets: jobs, deadlines, outcomes, and the effect of observation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use corehop_plan::experiment::Tasks;
use corehop_plan::samples::{JobOutcome, Rows};
use corehop_plan::shown;
use corehop_stats::paired::Paired;
use corehop_stats::recording::{RecordingEffect, RecordingPairs};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};

/// The results of a run of task sets so far.
#[derive(Debug, Default)]
pub struct TaskTally {
    jobs: u64,
    samples: u64,
    valid: u64,
    missed: u64,
    courses: BTreeMap<&'static str, u64>,
    /// The counts of observed and unobserved runs of each set.
    pairs: Option<RecordingPairs>,
}

impl TaskTally {
    /// Announces the task sets that run next.
    pub(super) fn begin(&mut self, tasks: &Tasks) {
        if tasks.runs.iter().any(|run| !run.watched) {
            self.pairs.get_or_insert_default();
        }
    }

    pub(super) fn take(&mut self, rows: &Rows) {
        self.samples += rows.samples.len() as u64;
        self.valid += rows.samples.iter().filter(|sample| sample.valid).count() as u64;
        for job in &rows.task_jobs {
            self.jobs += 1;
            self.missed += u64::from(job.lateness_ns > 0.0);
            self.pairs.iter_mut().for_each(|pairs| pairs.take(job));
            *self.courses.entry(job.course.word()).or_default() += 1;
        }
    }

    pub(super) const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The summary of the task sets in one line.
    pub(super) fn line(&self) -> String {
        format!(
            "{} jobs, {} missed their deadline; {} samples, {} of them valid",
            self.jobs, self.missed, self.samples, self.valid
        )
    }

    /// The effect of observation, if sets also ran unobserved.
    pub(super) fn effect(&self) -> Result<Option<RecordingEffect>, Failure> {
        let effect = self.pairs.as_ref().map(RecordingPairs::effect).transpose();
        Ok(effect.map_err(|error| Failure::new(Exit::Failed, error))?.flatten())
    }

    /// Adds the summary to the machine-readable answer.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::effect`].
    pub(super) fn answer(&self, answer: &mut Value, jobs: Option<&PathBuf>) -> Result<(), Failure> {
        let count = |course: &JobOutcome| self.courses.get(course.word()).copied().unwrap_or(0);
        let courses = JobOutcome::ALL.iter().map(|it| (it.word().to_owned(), json!(count(it))));
        answer["jobs_file"] = json!(jobs.map(|it| shown::value(it)));
        answer["jobs"] = json!(self.jobs);
        answer["missed_deadlines"] = json!(self.missed);
        answer["courses"] = Value::Object(courses.collect::<Map<_, _>>());
        answer["samples"] = json!(self.samples);
        answer["valid"] = json!(self.valid);
        answer["recording"] = json!(self.effect()?);
        Ok(())
    }
}

/// The effect of observation, as text.
pub(super) fn sentences(effect: &RecordingEffect) -> String {
    let RecordingEffect { missed_with, missed_without, misses, response_ns } = effect;
    let told = |it: &Paired, scale: f64, unit: &str| match (it.interval, it.detectable) {
        (Some(interval), Some(least)) => format!(
            "{:+.3} {unit} [{:+.3}, {:+.3}], {}; an effect of {:.3} would have been detected",
            it.mean / scale,
            interval.low / scale,
            interval.high / scale,
            it.verdict(),
            least / scale
        ),
        _ => format!("{:+.3} {unit}, {}", it.mean / scale, it.verdict()),
    };
    format!(
        "watched against unwatched, {} jobs in pairs:\n  deadlines missed: {missed_with} against \
         {missed_without}; per 100 jobs {}\n  response times: {}\n",
        misses.pairs,
        told(misses, 0.01, "misses"),
        told(response_ns, 1e3, "us"),
    )
}
