// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of task sets: samples into one file, jobs into another beside it.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use corehop_core::experiment::TaskPlan;
use corehop_core::machine::{Machine, Outcome, SinkError, TaskMachine};
use corehop_core::model::paired::Paired;
use corehop_core::model::recording::{RecordingEffect, RecordingPairs};
use corehop_core::samples::{Course, Sample, TaskJob, TaskJobRecord, TaskRows};
use corehop_linux::supervisor::interrupt;
use serde_json::{Value, json};

use super::output::Output;
use super::{Destination, Run, provenance};
use crate::answer::print;
use crate::exit::{Exit, Failure};

/// A machine that runs task sets.
pub(crate) trait TaskRunner: Machine + TaskMachine {}
impl<M: Machine + TaskMachine> TaskRunner for M {}

/// What a run has come to so far.
#[derive(Debug, Default)]
struct Tally {
    jobs: u64,
    samples: u64,
    valid: u64,
    missed: u64,
    courses: BTreeMap<&'static str, u64>,
    paired: bool,
    pairs: RecordingPairs,
    run: usize,
}

impl Tally {
    fn note(&mut self, job: &TaskJob, sample: Option<&Sample>) {
        self.jobs += 1;
        self.samples += u64::from(sample.is_some());
        self.valid += u64::from(sample.is_some_and(|sample| sample.valid));
        self.missed += u64::from(job.lateness_ns > 0.0);
        if self.paired {
            self.pairs.take(job);
        }
        *self.courses.entry(job.course.word()).or_default() += 1;
    }

    /// In one line, for people.
    fn line(&self) -> String {
        format!(
            "{} jobs, {} missed their deadline; {} samples, {} of them valid",
            self.jobs, self.missed, self.samples, self.valid
        )
    }
}

impl Run {
    /// Runs a plan of task sets as it stands.
    pub(crate) fn tasks(
        &self,
        machine: &mut dyn TaskRunner,
        plan: &TaskPlan,
        parameters: Value,
    ) -> Result<Exit, Failure> {
        let (to_samples, to_jobs) = self.two_files()?;
        interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
        let platform = machine.platform().clone();
        let mut provenance = provenance::of(&*machine, &plan.experiment, plan.seed);
        provenance.parameters = parameters;
        provenance.note_text(&plan.to_json());
        let (mut samples, _) = Output::<Sample>::begin(&to_samples, &provenance)?;
        let begun = Output::<TaskJob>::begin(&to_jobs, &provenance);
        let (mut jobs, _) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                samples.discard();
                return Err(failure);
            }
        };
        let paired = plan.runs.iter().any(|run| !run.watched);
        let (rows, mut tally) =
            (TaskRows::new(plan, &platform), Tally { paired, ..Tally::default() });
        let deadline = self.budget.map(|budget| Instant::now() + budget);
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let mut take = |records: &[TaskJobRecord]| -> Result<bool, SinkError> {
            let (mut of_jobs, mut of_samples) = (Vec::new(), Vec::new());
            for record in records {
                let (job, sample) = (rows.job(record), rows.sample(record, tally.jobs));
                tally.note(&job, sample.as_ref());
                of_jobs.push(job);
                of_samples.extend(sample);
            }
            samples.append(&of_samples)?;
            jobs.append(&of_jobs)?;
            self.show(plan, &mut tally, records);
            Ok(!interrupt::requested() && !over())
        };
        let ended = machine.run_tasks(plan, &mut take);
        self.say(&tally.line());
        let effect = tally.pairs.effect().map_err(|error| Failure::new(Exit::Failed, error))?;
        let stopped = ended.as_ref().is_ok_and(|outcome| *outcome == Outcome::Stopped);
        let interrupted = stopped && interrupt::requested();
        provenance.machine.extend(machine.provenance());
        provenance.stopped_by = match &ended {
            Err(_) => Some("failure".to_owned()),
            Ok(_) => stopped.then(|| if interrupted { "interrupt" } else { "budget" }.to_owned()),
        };
        if ended.is_err() && tally.jobs == 0 {
            samples.discard();
            jobs.discard();
            return Ok(ended.map(|_| Exit::Done)?);
        }
        let written = (samples.end(&provenance), jobs.end(&provenance));
        ended?;
        let (samples, jobs) = (written.0?, written.1?);
        if self.json {
            let (samples, jobs) = (samples.as_deref(), jobs.as_deref());
            let mut answer = answer(&tally, samples, jobs, provenance.stopped_by.as_deref());
            answer["recording"] = json!(effect);
            print(&format!("{answer}\n"))?;
        } else if let Some(effect) = &effect {
            print(&sentences(effect))?;
        }
        Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
    }

    /// The file of the samples, and that of the jobs: `FILE.jobs.parquet` beside `FILE.parquet`.
    fn two_files(&self) -> Result<(Destination, Destination), Failure> {
        match &self.destination {
            Destination::File { resume: true, .. } => Err(Failure::says(
                Exit::Usage,
                "--resume goes on with runs of scripted jobs: a run of task sets is repeated as a whole",
            )),
            Destination::Stdout => Err(Failure::says(
                Exit::Usage,
                "task sets give two files, samples and jobs: write them with -o FILE.parquet",
            )),
            Destination::File { path, .. } => {
                let jobs = Destination::File { path: jobs_beside(path), resume: false };
                Ok((self.destination.clone(), jobs))
            }
        }
    }

    /// Says that the next run of the plan has begun.
    fn show(&self, plan: &TaskPlan, tally: &mut Tally, records: &[TaskJobRecord]) {
        let Some(run) = records.iter().map(|record| record.run).max() else { return };
        if run > tally.run {
            tally.run = run;
            self.say(&format!("run {} of {}: {}", run + 1, plan.runs.len(), tally.line()));
        }
    }

    #[expect(clippy::print_stderr, reason = "progress goes to stderr")]
    fn say(&self, line: &str) {
        if !self.quiet && std::io::stderr().is_terminal() {
            eprintln!("corehop: {line}");
        }
    }
}

/// What watching changed, for people.
fn sentences(effect: &RecordingEffect) -> String {
    let RecordingEffect { missed_with, missed_without, misses, response_ns } = effect;
    let told = |it: &Paired, scale: f64, unit: &str| match (it.interval, it.detectable) {
        (Some(interval), Some(least)) => format!(
            "{:+.3} {unit} [{:+.3}, {:+.3}], {}; {:.3} would have shown",
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

/// `results.jobs.parquet` for `results.parquet`.
fn jobs_beside(path: &Path) -> PathBuf {
    let extension = path.extension().map_or_else(
        || "jobs".into(),
        |extension| {
            let mut name = std::ffi::OsString::from("jobs.");
            name.push(extension);
            name
        },
    );
    path.with_extension(extension)
}

/// The one machine-readable answer.
fn answer(
    tally: &Tally,
    samples: Option<&Path>,
    jobs: Option<&Path>,
    stopped_by: Option<&str>,
) -> Value {
    let mut courses = serde_json::Map::new();
    for course in Course::ALL {
        let word = course.word();
        courses.insert(word.to_owned(), json!(tally.courses.get(word).copied().unwrap_or(0)));
    }
    json!({
        "file": samples,
        "jobs_file": jobs,
        "jobs": tally.jobs,
        "missed_deadlines": tally.missed,
        "courses": courses,
        "samples": tally.samples,
        "valid": tally.valid,
        "stopped_by": stopped_by,
    })
}

#[cfg(test)]
mod tests {
    use super::jobs_beside;
    use std::path::Path;

    #[test]
    fn jobs_lie_beside_their_samples() {
        assert_eq!(jobs_beside(Path::new("out/x.parquet")), Path::new("out/x.jobs.parquet"));
        assert_eq!(jobs_beside(Path::new("x")), Path::new("x.jobs"));
    }
}
