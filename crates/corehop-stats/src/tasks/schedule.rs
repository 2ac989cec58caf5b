// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries of jobs, deadlines and preemption lengths, and comparisons of two schedulers on equal task
//! sets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{JobSample, TaskRunFiles, TaskSetRun, TaskTiming, Under, millionths};
use crate::delay::ALPHA;
use crate::ordered::{Interval, Ordered};
use crate::quantile::{median, quantile};
use crate::replicates::{
    BetweenDifference, Nested, NoInterval, ReplicateStatistic, median_difference,
};
use corehop_plan::samples::JobOutcome;
use corehop_plan::workload::Event;
use corehop_plan::workload::scheduler::Scheduler;

/// The numbers of jobs by outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobCounts {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The number of all jobs that the runs released.
    pub jobs: u64,
    /// The number of jobs with each outcome.
    pub courses: BTreeMap<JobOutcome, u64>,
}

/// The number and the share of deadlines that jobs missed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeadlineMisses {
    /// The number of all jobs that were counted.
    pub jobs: u64,
    /// The number of jobs that ended after their deadline.
    pub missed: u64,
    /// The share of jobs that missed their deadline.
    pub ratio: f64,
    /// The interval of the share at 95 %, from the differences between runs: the jobs of one run tend to
    /// meet, or to miss, their deadlines together. The field is `None` for fewer than six runs.
    pub interval: Option<Interval>,
    /// The reason why the statistic has no interval.
    pub why_none: Option<NoInterval>,
    /// The largest tardiness, in microseconds; 0 if no job was late.
    pub tardiness_us: f64,
}

/// The response times of jobs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "names in JSON carry their unit")]
pub struct Responses {
    /// The median of the jobs' response times.
    pub median_us: f64,
    /// The 99 % quantile of the response times.
    pub p99_us: f64,
    /// The longest of the jobs' response times.
    pub max_us: f64,
}

/// The summary of a run of a task set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The number of the task set among the sets drawn with equal parameters.
    pub set: u64,
    /// The number of tasks in the set.
    pub task_count: u64,
    /// The working-set size of the set's first task.
    pub wss_bytes: u64,
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The deadlines that the jobs of the run missed.
    pub misses: DeadlineMisses,
    /// The response times of the jobs.
    pub responses: Responses,
}

/// The summary of a task in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskSummary {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The number of the task set among the sets drawn with equal parameters.
    pub set: u64,
    /// The number of tasks in the set.
    pub task_count: u64,
    /// The working-set size of the set's first task.
    pub wss_bytes: u64,
    /// The number of the task in its set, counted from 0.
    pub task: u64,
    /// The missed deadlines of the task.
    pub misses: DeadlineMisses,
    /// The response times of the task's jobs.
    pub responses: Responses,
}

/// The results of a scheduler under a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedulerSummary {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The number of runs under the scheduler.
    pub runs: usize,
    /// The total duration of the runs, in seconds.
    pub seconds: f64,
    /// The deadlines that jobs missed under the scheduler.
    pub misses: DeadlineMisses,
    /// The response times of the jobs.
    pub responses: Responses,
    /// The number of valid samples, or `None` if jobs yielded samples whose file is missing.
    pub samples: Option<usize>,
    /// The number of valid samples per second, or `None` if the file of samples is missing.
    pub samples_per_second: Option<f64>,
    /// The number of absences after which a job resumed on its CPU.
    pub preemptions: u64,
    /// The number of absences after which a job resumed on another CPU.
    pub migrations: u64,
    /// The share of migrations among all absences, or `None` without absences.
    pub migration_share: Option<f64>,
}

/// The quantiles of the actual preemption lengths, from the first absence of each job that had one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthQuantiles {
    /// The machine, the scheduler and the load of the jobs that were counted.
    #[serde(flatten)]
    pub under: Under,
    /// The class of event that the absences have.
    pub event: Event,
    /// The number of absences behind the quantiles.
    pub n: usize,
    /// The quantiles 0.1, 0.5, 0.9 and 0.99 of the lengths, in microseconds.
    pub quantiles_us: [f64; 4],
    /// The length of the longest absence in microseconds.
    pub max_us: f64,
}

/// The delays under two schedulers, for one class and size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayPair {
    /// The class of event that the absences have.
    pub event: Event,
    /// The working-set size in bytes.
    pub wss_bytes: u64,
    /// The share of word accesses that write.
    pub write_ratio: f64,
    /// The number of valid samples under each scheduler.
    pub n: [usize; 2],
    /// The median delay under the second scheduler minus that under the first, in microseconds; a run is a
    /// replicate.
    pub difference: BetweenDifference,
}

/// A pair of schedulers that ran equal task sets under one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedulerPair {
    /// The id of the platform on which both schedulers ran.
    pub machine: String,
    /// The background load under which both schedulers ran.
    pub load: String,
    /// The two schedulers that the pair compares.
    pub schedulers: [Scheduler; 2],
    /// The number of tasks that both schedulers ran: tasks of equal sets, with equal periods and
    /// deadlines.
    pub tasks: usize,
    /// The median over tasks of the execution time under the second scheduler divided by the execution
    /// time under the first scheduler. The ratio is not 1 if sets were scaled differently to fit their
    /// CPUs, and then responses differ for this reason, too.
    pub execution_ratio: Option<f64>,
    /// The numbers of tasks that missed fewer of their deadlines under the first, and under the second
    /// scheduler.
    pub fewer_misses: [usize; 2],
    /// The longest response of a task under the second scheduler divided by that under the first: the
    /// median of the task sets' medians, because the tasks of a set share their runs.
    pub response_ratio: Option<ReplicateStatistic>,
    /// The delays under both schedulers, for each class of event.
    pub delays: Vec<DelayPair>,
}

/// Returns the watched runs of all files, with their jobs.
fn watched<'a>(
    pairs: &[&'a TaskRunFiles],
) -> Vec<(&'a TaskSetRun, Vec<&'a JobSample>, Option<usize>)> {
    each(pairs).into_iter().filter(|(run, ..)| run.watched).collect()
}

/// Returns the runs of all files, with their jobs and the number of their valid samples, if known.
fn each<'a>(
    pairs: &[&'a TaskRunFiles],
) -> Vec<(&'a TaskSetRun, Vec<&'a JobSample>, Option<usize>)> {
    let mut all = Vec::new();
    for pair in pairs {
        let mut jobs: BTreeMap<u64, Vec<&JobSample>> = BTreeMap::new();
        for job in &pair.jobs {
            jobs.entry(job.run).or_default().push(job);
        }
        let mut samples: BTreeMap<u64, usize> = BTreeMap::new();
        pair.of_runs().for_each(|(run, ..)| *samples.entry(run).or_default() += 1);
        let is_known = pair.has_its_samples();
        for (number, jobs) in jobs {
            let samples = samples.get(&number).copied().unwrap_or(0);
            all.push((&pair.runs[&number], jobs, is_known.then_some(samples)));
        }
    }
    all
}

pub(super) fn courses(pairs: &[&TaskRunFiles]) -> Vec<JobCounts> {
    let mut all: BTreeMap<&Under, BTreeMap<JobOutcome, u64>> = BTreeMap::new();
    for (run, jobs, _) in each(pairs) {
        let counts = all.entry(&run.under).or_default();
        for job in jobs {
            *counts.entry(job.course).or_default() += 1;
        }
    }
    let counts = |(under, courses): (&Under, BTreeMap<JobOutcome, u64>)| JobCounts {
        under: under.clone(),
        jobs: courses.values().sum(),
        courses,
    };
    all.into_iter().map(counts).collect()
}

pub(super) fn runs(pairs: &[&TaskRunFiles]) -> Vec<RunSummary> {
    let summary = |(run, jobs, _): (&TaskSetRun, Vec<&JobSample>, Option<usize>)| RunSummary {
        under: run.under.clone(),
        set: run.set,
        task_count: run.task_count,
        wss_bytes: run.wss_bytes,
        seconds: run.seconds,
        misses: DeadlineMisses::of(&[&jobs]),
        responses: Responses::of(&jobs),
    };
    watched(pairs).into_iter().map(summary).collect()
}

pub(super) fn tasks(pairs: &[&TaskRunFiles]) -> Vec<TaskSummary> {
    let mut all = Vec::new();
    for (run, jobs, _) in watched(pairs) {
        for (task, jobs) in by_task(&jobs) {
            all.push(TaskSummary {
                under: run.under.clone(),
                set: run.set,
                task_count: run.task_count,
                wss_bytes: run.wss_bytes,
                task,
                misses: DeadlineMisses::of(&[&jobs]),
                responses: Responses::of(&jobs),
            });
        }
    }
    all
}

fn by_task<'a>(jobs: &[&'a JobSample]) -> BTreeMap<u64, Vec<&'a JobSample>> {
    let mut tasks: BTreeMap<u64, Vec<&JobSample>> = BTreeMap::new();
    for job in jobs {
        tasks.entry(job.task).or_default().push(job);
    }
    tasks
}

pub(super) fn schedulers(pairs: &[&TaskRunFiles]) -> Vec<SchedulerSummary> {
    type Sums<'a> = (Vec<Vec<&'a JobSample>>, f64, Option<usize>);
    let mut all: BTreeMap<&Under, Sums<'_>> = BTreeMap::new();
    for (run, jobs, samples) in watched(pairs) {
        let of = all.entry(&run.under).or_insert((Vec::new(), 0.0, Some(0)));
        (of.1, of.2) = (of.1 + run.seconds, of.2.zip(samples).map(|(all, more)| all + more));
        of.0.push(jobs);
    }
    let summary = |(under, (runs, seconds, samples)): (&Under, Sums<'_>)| {
        let jobs = runs.concat();
        let sum = |of: fn(&JobSample) -> u64| jobs.iter().map(|job| of(job)).sum::<u64>();
        let (preemptions, migrations) = (sum(|job| job.preemptions), sum(|job| job.migrations));
        let both = preemptions + migrations;
        SchedulerSummary {
            under: under.clone(),
            runs: runs.len(),
            seconds,
            misses: DeadlineMisses::of(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            responses: Responses::of(&jobs),
            samples,
            samples_per_second: samples.map(|samples| samples as f64 / seconds.max(1e-9)),
            preemptions,
            migrations,
            migration_share: (both > 0).then(|| migrations as f64 / both as f64),
        }
    };
    all.into_iter().map(summary).collect()
}

pub(super) fn lengths(pairs: &[&TaskRunFiles]) -> Vec<LengthQuantiles> {
    let mut all: BTreeMap<(&Under, Event), Vec<f64>> = BTreeMap::new();
    for (run, jobs, _) in watched(pairs) {
        for (event, length) in jobs.iter().filter_map(|job| job.away) {
            all.entry((&run.under, event)).or_default().push(length);
        }
    }
    let quantiles = |((under, event), lengths): ((&Under, Event), Vec<f64>)| {
        let lengths = Ordered::new(&lengths).ok()?;
        let at = |p| quantile(&lengths, p).unwrap_or(f64::NAN);
        Some(LengthQuantiles {
            under: under.clone(),
            event,
            n: lengths.len(),
            quantiles_us: [0.1, 0.5, 0.9, 0.99].map(at),
            max_us: lengths.max(),
        })
    };
    all.into_iter().filter_map(quantiles).collect()
}

/// The identity of a task, whatever scheduler runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    seed: u64,
    set: u64,
    task_count: u64,
    wss_bytes: u64,
    /// The share of written lines in millionths.
    write_ratio: u64,
    task: u64,
    period: u64,
    deadline: u64,
}

/// The outcome of a task under a scheduler, over all its runs.
#[derive(Debug, Clone, Copy, Default)]
struct TaskOutcome {
    jobs: u64,
    missed: u64,
    longest_us: f64,
    wcet: u64,
}

/// The outcomes of tasks under a scheduler, and the delays by class, size and write ratio in millionths.
#[derive(Default)]
struct Made {
    tasks: BTreeMap<Same, TaskOutcome>,
    delays: BTreeMap<(Event, u64, u64), ByRun>,
}

/// The delays by file and run; a run is a replicate.
type ByRun = BTreeMap<(usize, u64), Vec<f64>>;

fn nested(runs: &ByRun) -> Option<Nested> {
    Nested::new(runs.values().cloned().collect()).ok()
}

impl Same {
    /// Returns the identity of the task's set, which is equal for all its tasks.
    const fn set(self) -> Self {
        Self { task: 0, period: 0, deadline: 0, ..self }
    }
}

impl TaskOutcome {
    fn with(self, jobs: &[&JobSample], wcet: u64) -> Self {
        Self {
            jobs: self.jobs + jobs.len() as u64,
            missed: self.missed + late(jobs) as u64,
            longest_us: self.longest_us.max(Responses::of(jobs).max_us),
            wcet,
        }
    }

    /// Returns the share of the task's jobs that missed their deadlines.
    fn missed(self) -> f64 {
        self.missed as f64 / self.jobs.max(1) as f64
    }
}

pub(super) fn compared(pairs: &[&TaskRunFiles]) -> Vec<SchedulerPair> {
    let mut all: BTreeMap<(String, String), BTreeMap<Scheduler, Made>> = BTreeMap::new();
    let place = |under: &Under| (under.machine.to_string(), under.load.to_string());
    for (run, jobs, _) in watched(pairs) {
        let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
        let made = made.or_default();
        let &TaskSetRun { seed, set, task_count, wss_bytes, write_ratio, .. } = run;
        let write_ratio = millionths(write_ratio);
        for (task, jobs) in by_task(&jobs) {
            let TaskTiming { period, deadline, wcet } = run.tasks[&task];
            let same =
                Same { seed, set, task_count, wss_bytes, write_ratio, task, period, deadline };
            let fate = made.tasks.entry(same).or_default();
            *fate = fate.with(&jobs, wcet);
        }
    }
    for (file, pair) in pairs.iter().enumerate() {
        for (number, run, delay) in pair.of_runs() {
            let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
            let delays = &mut made.or_default().delays;
            let of = (delay.event, delay.wss_bytes, millionths(delay.write_ratio));
            let runs = delays.entry(of).or_default();
            runs.entry((file, number)).or_default().push(delay.micros);
        }
    }
    let mut compared = Vec::new();
    for ((machine, load), made) in &all {
        let made: Vec<(&Scheduler, &Made)> = made.iter().collect();
        for (at, &(&first, one)) in made.iter().enumerate() {
            for &(&second, other) in &made[at + 1..] {
                let schedulers = [first, second];
                compared.push(SchedulerPair {
                    machine: machine.clone(),
                    load: load.clone(),
                    schedulers,
                    ..one.against(other, schedulers)
                });
            }
        }
    }
    compared
}

impl Made {
    fn against(&self, other: &Self, schedulers: [Scheduler; 2]) -> SchedulerPair {
        let both =
            |(same, one): (&Same, &TaskOutcome)| Some((*same, *one, *other.tasks.get(same)?));
        let both: Vec<(Same, TaskOutcome, TaskOutcome)> =
            self.tasks.iter().filter_map(both).collect();
        let ratios = |of: fn(&TaskOutcome) -> f64| {
            let mut sets: BTreeMap<Same, Vec<f64>> = BTreeMap::new();
            for (same, one, two) in &both {
                sets.entry(same.set()).or_default().push(of(two) / of(one));
            }
            Nested::new(sets.into_values().collect()).ok()
        };
        let delay = |(&(event, wss_bytes, ratio), one): (&(Event, u64, u64), &ByRun)| {
            let (one, two) = (nested(one)?, nested(other.delays.get(&(event, wss_bytes, ratio))?)?);
            let difference = median_difference(&one, &two, ALPHA).ok()?;
            let (n, write_ratio) = ([one.samples(), two.samples()], ratio as f64 / 1e6);
            Some(DelayPair { event, wss_bytes, write_ratio, n, difference })
        };
        SchedulerPair {
            machine: String::new(),
            load: String::new(),
            schedulers,
            tasks: both.len(),
            fewer_misses: [
                both.iter().filter(|(_, one, two)| one.missed() < two.missed()).count(),
                both.iter().filter(|(_, one, two)| two.missed() < one.missed()).count(),
            ],
            execution_ratio: execution_ratio(&both),
            response_ratio: ratios(|fate| fate.longest_us)
                .and_then(|ratios| ratios.median(ALPHA).ok()),
            delays: self.delays.iter().filter_map(delay).collect(),
        }
    }
}

/// Returns the execution time of a task under the second scheduler divided by that under the first, as a
/// median over all tasks.
fn execution_ratio(both: &[(Same, TaskOutcome, TaskOutcome)]) -> Option<f64> {
    let ratio =
        |(_, one, two): &(Same, TaskOutcome, TaskOutcome)| two.wcet as f64 / one.wcet as f64;
    let ratios: Vec<f64> = both.iter().map(ratio).collect();
    Ordered::new(&ratios).ok().map(|ratios| median(&ratios))
}

/// Returns the number of the given jobs that ended after their deadline.
fn late(jobs: &[&JobSample]) -> usize {
    jobs.iter().filter(|job| job.lateness_us > 0.0).count()
}

impl DeadlineMisses {
    /// Returns the missed deadlines among the jobs of all runs.
    fn of(runs: &[&[&JobSample]]) -> Self {
        let jobs: usize = runs.iter().map(|run| run.len()).sum();
        let missed: usize = runs.iter().map(|run| late(run)).sum();
        let (interval, why_none) = share(runs);
        let lateness = runs.iter().copied().flatten().map(|job| job.lateness_us);
        Self {
            jobs: jobs as u64,
            missed: missed as u64,
            ratio: missed as f64 / jobs.max(1) as f64,
            interval,
            why_none,
            tardiness_us: lateness.fold(0.0, f64::max),
        }
    }
}

/// Returns the interval of the share of late jobs, or the reason why there is none. The interval is the
/// interval of a mean over runs: each run contributes the share itself plus its surplus of late jobs (the
/// ratio estimator of Cochran, Sampling Techniques, 1977, chapter 6).
fn share(runs: &[&[&JobSample]]) -> (Option<Interval>, Option<NoInterval>) {
    let counts: Vec<(f64, f64)> =
        runs.iter().map(|run| (late(run) as f64, run.len() as f64)).collect();
    let (missed, jobs) = counts.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    let (ratio, mean) = (missed / f64::max(jobs, 1.0), jobs / runs.len().max(1) as f64);
    let added = counts.iter().map(|(late, of)| vec![ratio + (late - ratio * of) / mean.max(1.0)]);
    let Ok(between) = Nested::new(added.collect()).and_then(|it| it.mean(ALPHA)) else {
        return (None, Some(NoInterval::TooFewReplicates { have: runs.len() }));
    };
    let within = |it: Interval| Interval { low: it.low.max(0.0), high: it.high.min(1.0), ..it };
    (between.interval.map(within), between.why_none)
}

impl Responses {
    fn of(jobs: &[&JobSample]) -> Self {
        let responses: Vec<f64> = jobs.iter().map(|job| job.response_us).collect();
        let Ok(responses) = Ordered::new(&responses) else {
            return Self { median_us: f64::NAN, p99_us: f64::NAN, max_us: f64::NAN };
        };
        let at = |p| quantile(&responses, p).unwrap_or(f64::NAN);
        Self { median_us: at(0.5), p99_us: at(0.99), max_us: responses.max() }
    }
}
