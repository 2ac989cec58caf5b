// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of task sets under a scheduler: the course of their jobs, missed deadlines, and whether delays
//! depend on the number of tasks (Bastoni et al. 2010, section 3.1 and observation 5).
//!
//! The jobs and the samples of a run are in two files. The two files have the same provenance, which links
//! them, and a sample refers to its job by the job's index in the file of jobs.
//!
//! Unobserved runs count only among the courses, for comparison with observed runs ([`crate::recording`]).

mod schedule;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub use schedule::{
    DelayPair, JobCounts, LengthQuantiles, RunSummary, SchedulerPair, SchedulerSummary, TaskSummary,
};
pub use size::{LEAST_SAMPLES, SizeEffect, SizePoint};

use super::cell::text;
use super::estimator::Estimator;
use super::summarise::{FromFile, Summarise};
use super::verdict::{ClaimVerdict, bastoni_5};

pub use self::TaskSummaries as Summary;

use corehop_plan::samples::{JobOutcome, Provenance, RowKind, Rows, Sample, TaskJob, Text};
use corehop_plan::workload::Event;
use corehop_plan::workload::scheduler::Scheduler;

/// The common properties of jobs that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Under {
    /// The id of the platform on which the task sets ran.
    #[serde(serialize_with = "text")]
    pub machine: Text,
    /// The scheduler under which the jobs ran.
    pub scheduler: Scheduler,
    /// The background load under which the task sets ran.
    #[serde(serialize_with = "text")]
    pub load: Text,
}

/// The kept values of a job.
#[derive(Debug, Clone, Copy)]
struct JobSample {
    run: u64,
    task: u64,
    response_us: f64,
    lateness_us: f64,
    course: JobOutcome,
    away: Option<(Event, f64)>,
    preemptions: u64,
    migrations: u64,
}

/// The kept values of a valid sample.
#[derive(Debug, Clone, Copy)]
struct JobDelay {
    job: u64,
    event: Event,
    wss_bytes: u64,
    write_ratio: f64,
    micros: f64,
}

/// A run of a plan of task sets.
#[derive(Debug, Clone)]
struct TaskSetRun {
    under: Under,
    seed: u64,
    set: u64,
    task_count: u64,
    wss_bytes: u64,
    write_ratio: f64,
    /// Whether the run took samples; otherwise its jobs only ran.
    watched: bool,
    /// The end of the run's last job, in seconds after the run's start.
    seconds: f64,
    tasks: BTreeMap<u64, TaskTiming>,
}

/// The timing requirements of a task, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct TaskTiming {
    period: u64,
    deadline: u64,
    wcet: u64,
}

/// The two files of one run of a plan.
#[derive(Debug, Clone, Default)]
struct TaskRunFiles {
    runs: BTreeMap<u64, TaskSetRun>,
    jobs: Vec<JobSample>,
    delays: Vec<JobDelay>,
    /// Whether the file of samples has samples, valid or not.
    sampled: bool,
}

impl TaskRunFiles {
    /// Returns the number of jobs that yielded a sample, valid or not.
    fn gave(&self) -> usize {
        self.jobs.iter().filter(|job| job.course == JobOutcome::Sample).count()
    }

    /// Returns whether the file of samples is present, or would be empty.
    fn has_its_samples(&self) -> bool {
        self.sampled || self.gave() == 0
    }

    /// Returns the valid samples, each with its run; a sample whose job is missing has no run.
    fn of_runs(&self) -> impl Iterator<Item = (u64, &TaskSetRun, &JobDelay)> {
        self.delays.iter().filter_map(|delay| {
            let run = self.jobs.get(delay.job as usize)?.run;
            Some((run, self.runs.get(&run)?, delay))
        })
    }
}

/// Collects jobs and samples of task sets, file by file.
#[derive(Debug, Clone, Default)]
pub struct TaskRuns {
    pairs: BTreeMap<String, TaskRunFiles>,
}

/// The results of the task sets of all files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskReport {
    /// The numbers of jobs by outcome, for each scheduler and load.
    pub courses: Vec<JobCounts>,
    /// The results of each scheduler under each load.
    pub schedulers: Vec<SchedulerSummary>,
    /// Pairs of schedulers that ran equal task sets.
    pub pairs: Vec<SchedulerPair>,
    /// The quantiles of the actual preemption lengths.
    pub lengths: Vec<LengthQuantiles>,
    /// The delays by the number of tasks; the maxima use equal numbers of samples.
    pub sizes: Vec<SizePoint>,
    /// The effects of the number of tasks.
    pub effects: Vec<SizeEffect>,
    /// The summaries of the runs of task sets.
    pub runs: Vec<RunSummary>,
    /// The summaries of each run's tasks.
    pub tasks: Vec<TaskSummary>,
    /// The verdict on observation 5 of Bastoni et al., by machine.
    pub verdicts: BTreeMap<String, ClaimVerdict>,
    /// The number of samples whose jobs are missing from the files.
    pub samples_without_jobs: usize,
    /// The number of jobs that yielded samples which are missing from the files.
    pub jobs_without_samples: usize,
}

/// Collects the jobs and the samples of task sets.
#[derive(Debug)]
pub struct TaskSummaries {
    runs: TaskRuns,
    estimator: Estimator,
}

impl Summarise for TaskSummaries {
    /// The report, or `None` if no file had data of a task set.
    type Said = Option<TaskReport>;

    fn new(estimator: Estimator) -> Self {
        Self { runs: TaskRuns::default(), estimator }
    }

    fn take(&mut self, rows: &Rows, from: &FromFile<'_>) {
        // A file of jobs counts as one without a row, too.
        if from.kind == RowKind::TaskJobs {
            self.runs.jobs(from.provenance, &rows.task_jobs);
        }
        self.runs.samples(from.provenance, self.estimator, &rows.samples);
    }

    fn finish(&mut self) -> Option<TaskReport> {
        self.runs.finish()
    }
}

impl TaskRuns {
    /// Adds jobs from a file with this provenance.
    pub fn jobs(&mut self, from: &Provenance, jobs: &[TaskJob]) {
        let pair = self.pairs.entry(key(from)).or_default();
        for job in jobs {
            let run = pair.runs.entry(job.run).or_insert_with(|| TaskSetRun {
                under: Under {
                    machine: job.machine.clone(),
                    scheduler: job.scheduler,
                    load: job.load.clone(),
                },
                seed: job.seed,
                set: job.set,
                task_count: job.task_count,
                wss_bytes: job.wss_bytes,
                write_ratio: job.write_ratio,
                watched: job.course != JobOutcome::Unwatched,
                seconds: 0.0,
                tasks: BTreeMap::new(),
            });
            run.tasks.entry(job.task).or_insert(TaskTiming {
                period: job.period_ns,
                deadline: job.deadline_ns,
                wcet: job.wcet_ns,
            });
            let ended = (job.release_ns as f64 + job.response_ns) / 1e9;
            run.seconds = run.seconds.max(ended);
            pair.jobs.push(JobSample {
                run: job.run,
                task: job.task,
                response_us: job.response_ns / 1e3,
                lateness_us: job.lateness_ns / 1e3,
                course: job.course,
                away: job.length_ns.map(|length| (job.event, length / 1e3)),
                preemptions: job.preemptions,
                migrations: job.migrations,
            });
        }
    }

    /// Adds samples from a file with this provenance; samples that belong to no task are ignored.
    pub fn samples(&mut self, from: &Provenance, estimator: Estimator, samples: &[Sample]) {
        let mut of_tasks = samples.iter().filter(|it| it.task_count.is_some()).peekable();
        if of_tasks.peek().is_none() {
            return;
        }
        let delay = |sample: &Sample| {
            let (_, micros) = estimator.delays_us(std::slice::from_ref(sample)).next()?;
            Some(JobDelay {
                job: sample.job,
                event: sample.event,
                wss_bytes: sample.wss_bytes,
                write_ratio: sample.write_ratio,
                micros,
            })
        };
        let pair = self.pairs.entry(key(from)).or_default();
        pair.sampled = true;
        pair.delays.extend(of_tasks.filter(|it| it.valid).filter_map(delay));
    }

    /// Returns the report, or `None` if no file had data of a task set.
    pub fn finish(&self) -> Option<TaskReport> {
        let pairs: Vec<&TaskRunFiles> = self.pairs.values().collect();
        if pairs.is_empty() {
            return None;
        }
        let (sizes, effects) = size::sizes(&pairs);
        let lost = |pair: &&TaskRunFiles| pair.delays.len() - pair.of_runs().count();
        let unseen = |pair: &&&TaskRunFiles| !pair.sampled;
        Some(TaskReport {
            courses: schedule::courses(&pairs),
            schedulers: schedule::schedulers(&pairs),
            pairs: schedule::compared(&pairs),
            lengths: schedule::lengths(&pairs),
            runs: schedule::runs(&pairs),
            tasks: schedule::tasks(&pairs),
            samples_without_jobs: pairs.iter().map(lost).sum(),
            jobs_without_samples: pairs.iter().filter(unseen).map(|pair| pair.gave()).sum(),
            verdicts: verdicts(&pairs, &effects),
            sizes,
            effects,
        })
    }
}

/// Returns the verdict on observation 5 for each machine, from the machine's own runs.
fn verdicts(pairs: &[&TaskRunFiles], effects: &[SizeEffect]) -> BTreeMap<String, ClaimVerdict> {
    let of_machine = |run: &TaskSetRun| {
        let told = effects.iter().filter(|it| it.under.machine == run.under.machine);
        let told = told.filter(|it| size::counts(&it.under));
        let comparisons = told.map(|it| it.comparison.clone()).collect();
        (run.under.machine.to_string(), bastoni_5(comparisons))
    };
    pairs.iter().flat_map(|pair| pair.runs.values()).map(of_machine).collect()
}

/// Returns a write ratio as a whole number of millionths, for grouping.
fn millionths(ratio: f64) -> u64 {
    (ratio * 1e6).round() as u64
}

/// Returns a key that only the two files of a run have in common. Two commands can run one plan within a
/// second on two machines, but hardly with the same output file.
fn key(from: &Provenance) -> String {
    let Provenance { plan_digest, date, seed, command, .. } = from;
    format!("{plan_digest} {date} {seed} {}", command.join(" "))
}
