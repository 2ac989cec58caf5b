// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, deadlines and preemption lengths, and what two schedulers made of the same task sets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Job, Pair, Run, Under};
use crate::model::binomial;
use crate::model::compare::{Difference, median_difference};
use crate::model::delay::ALPHA;
use crate::model::ordered::{Interval, Ordered};
use crate::model::quantile::{Quantile, median_interval, quantile};
use crate::samples::Course;
use crate::workload::Event;
use crate::workload::scheduler::Scheduler;

/// How jobs went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobCounts {
    /// Machine, scheduler and load.
    #[serde(flatten)]
    pub under: Under,
    /// All jobs.
    pub jobs: u64,
    /// How many had each course.
    pub courses: BTreeMap<Course, u64>,
}

/// Deadlines that jobs missed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Misses {
    /// All jobs.
    pub jobs: u64,
    /// Those that ended after their deadline.
    pub missed: u64,
    /// The share of them.
    pub ratio: f64,
    /// Its interval at 95 %, as if jobs missed their deadlines independently of each other; jobs of one
    /// run do not quite.
    pub interval: Interval,
    /// The largest tardiness, in microseconds; 0 where none was late.
    pub tardiness_us: f64,
}

/// Response times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "names in JSON carry their unit")]
pub struct Responses {
    /// The median.
    pub median_us: f64,
    /// 99 of 100 are not longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// Machine, scheduler and load.
    #[serde(flatten)]
    pub under: Under,
    /// The number of the task set among those drawn alike.
    pub set: u64,
    /// Its tasks.
    pub task_count: u64,
    /// The working-set size of its first task.
    pub wss_bytes: u64,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// Deadlines.
    pub misses: Misses,
    /// Response times.
    pub responses: Responses,
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskSummary {
    /// Machine, scheduler and load.
    #[serde(flatten)]
    pub under: Under,
    /// The number of the task set among those drawn alike.
    pub set: u64,
    /// Its tasks.
    pub task_count: u64,
    /// The working-set size of its first task.
    pub wss_bytes: u64,
    /// The task, counted from 0.
    pub task: u64,
    /// Deadlines.
    pub misses: Misses,
    /// Response times.
    pub responses: Responses,
}

/// A scheduler under a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedulerSummary {
    /// Machine, scheduler and load.
    #[serde(flatten)]
    pub under: Under,
    /// Its runs.
    pub runs: usize,
    /// How long they lasted together, in seconds.
    pub seconds: f64,
    /// Deadlines.
    pub misses: Misses,
    /// Response times.
    pub responses: Responses,
    /// Valid samples.
    pub samples: usize,
    /// How many a second.
    pub samples_per_second: f64,
    /// Absences after which a job had its CPU again.
    pub preemptions: u64,
    /// Absences after which it had another.
    pub migrations: u64,
    /// The share of migrations among both; none without any.
    pub migration_share: Option<f64>,
}

/// Preemption lengths as they happened: the first absence of each job that had one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthQuantiles {
    /// Machine, scheduler and load.
    #[serde(flatten)]
    pub under: Under,
    /// The class.
    pub event: Event,
    /// How many.
    pub n: usize,
    /// The quantiles 0.1, 0.5, 0.9 and 0.99, in microseconds.
    pub quantiles_us: [f64; 4],
    /// The longest.
    pub max_us: f64,
}

/// The delays of two schedulers in one class and size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DelayPair {
    /// The class.
    pub event: Event,
    /// The working-set size.
    pub wss_bytes: u64,
    /// The valid samples of each.
    pub n: [usize; 2],
    /// The median delay of the second less that of the first, in microseconds.
    pub difference: Difference,
}

/// Two schedulers that had the same task sets under the same load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedulerPair {
    /// The platform and the load.
    pub machine: String,
    /// The load.
    pub load: String,
    /// The two.
    pub schedulers: [Scheduler; 2],
    /// The tasks that both ran.
    pub tasks: usize,
    /// Those that missed fewer of their deadlines under the first, and under the second.
    pub fewer_misses: [usize; 2],
    /// A task's longest response under the second over that under the first: the median of all tasks.
    pub response_ratio: Option<Quantile>,
    /// Delays, class by class.
    pub delays: Vec<DelayPair>,
}

/// The runs of all files, with their jobs.
fn each<'a>(pairs: &[&'a Pair]) -> Vec<(&'a Run, Vec<&'a Job>, usize)> {
    let mut all = Vec::new();
    for pair in pairs {
        let mut jobs: BTreeMap<u64, Vec<&Job>> = BTreeMap::new();
        for job in &pair.jobs {
            jobs.entry(job.run).or_default().push(job);
        }
        let mut samples: BTreeMap<u64, usize> = BTreeMap::new();
        pair.of_runs().for_each(|(run, ..)| *samples.entry(run).or_default() += 1);
        for (number, jobs) in jobs {
            all.push((&pair.runs[&number], jobs, samples.get(&number).copied().unwrap_or(0)));
        }
    }
    all
}

pub(super) fn courses(pairs: &[&Pair]) -> Vec<JobCounts> {
    let mut all: BTreeMap<&Under, BTreeMap<Course, u64>> = BTreeMap::new();
    for (run, jobs, _) in each(pairs) {
        let counts = all.entry(&run.under).or_default();
        for job in jobs {
            *counts.entry(job.course).or_default() += 1;
        }
    }
    let counts = |(under, courses): (&Under, BTreeMap<Course, u64>)| JobCounts {
        under: under.clone(),
        jobs: courses.values().sum(),
        courses,
    };
    all.into_iter().map(counts).collect()
}

pub(super) fn runs(pairs: &[&Pair]) -> Vec<RunSummary> {
    let summary = |(run, jobs, _): (&Run, Vec<&Job>, usize)| RunSummary {
        under: run.under.clone(),
        set: run.set,
        task_count: run.task_count,
        wss_bytes: run.wss_bytes,
        seconds: run.seconds,
        misses: Misses::of(&jobs),
        responses: Responses::of(&jobs),
    };
    each(pairs).into_iter().map(summary).collect()
}

pub(super) fn tasks(pairs: &[&Pair]) -> Vec<TaskSummary> {
    let mut all = Vec::new();
    for (run, jobs, _) in each(pairs) {
        for (task, jobs) in by_task(&jobs) {
            all.push(TaskSummary {
                under: run.under.clone(),
                set: run.set,
                task_count: run.task_count,
                wss_bytes: run.wss_bytes,
                task,
                misses: Misses::of(&jobs),
                responses: Responses::of(&jobs),
            });
        }
    }
    all
}

fn by_task<'a>(jobs: &[&'a Job]) -> BTreeMap<u64, Vec<&'a Job>> {
    let mut tasks: BTreeMap<u64, Vec<&Job>> = BTreeMap::new();
    for job in jobs {
        tasks.entry(job.task).or_default().push(job);
    }
    tasks
}

pub(super) fn schedulers(pairs: &[&Pair]) -> Vec<SchedulerSummary> {
    let mut all: BTreeMap<&Under, (usize, f64, Vec<&Job>, usize)> = BTreeMap::new();
    for (run, jobs, samples) in each(pairs) {
        let of = all.entry(&run.under).or_default();
        (of.0, of.1, of.3) = (of.0 + 1, of.1 + run.seconds, of.3 + samples);
        of.2.extend(jobs);
    }
    let summary =
        |(under, (runs, seconds, jobs, samples)): (&Under, (_, f64, Vec<&Job>, usize))| {
            let sum = |of: fn(&Job) -> u64| jobs.iter().map(|job| of(job)).sum::<u64>();
            let (preemptions, migrations) = (sum(|job| job.preemptions), sum(|job| job.migrations));
            let both = preemptions + migrations;
            SchedulerSummary {
                under: under.clone(),
                runs,
                seconds,
                misses: Misses::of(&jobs),
                responses: Responses::of(&jobs),
                samples,
                samples_per_second: samples as f64 / seconds.max(1e-9),
                preemptions,
                migrations,
                migration_share: (both > 0).then(|| migrations as f64 / both as f64),
            }
        };
    all.into_iter().map(summary).collect()
}

pub(super) fn lengths(pairs: &[&Pair]) -> Vec<LengthQuantiles> {
    let mut all: BTreeMap<(&Under, Event), Vec<f64>> = BTreeMap::new();
    for (run, jobs, _) in each(pairs) {
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

/// A task, wherever it runs: set, number of tasks, size, write ratio in millionths, and task.
type Same = (u64, u64, u64, u64, u64);

/// What a scheduler made of tasks, and the delays in it by class and size.
#[derive(Default)]
struct Made {
    tasks: BTreeMap<Same, (f64, f64)>,
    delays: BTreeMap<(Event, u64), Vec<f64>>,
}

pub(super) fn compared(pairs: &[&Pair]) -> Vec<SchedulerPair> {
    let mut all: BTreeMap<(String, String), BTreeMap<Scheduler, Made>> = BTreeMap::new();
    let place = |under: &Under| (under.machine.to_string(), under.load.to_string());
    for (run, jobs, _) in each(pairs) {
        let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
        let made = made.or_default();
        let ratio = (run.write_ratio * 1e6).round() as u64;
        for (task, jobs) in by_task(&jobs) {
            let same = (run.set, run.task_count, run.wss_bytes, ratio, task);
            let of = (Misses::of(&jobs).ratio, Responses::of(&jobs).max_us);
            made.tasks.insert(same, of);
        }
    }
    for (_, run, delay) in pairs.iter().flat_map(|pair| pair.of_runs()) {
        let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
        let delays = &mut made.or_default().delays;
        delays.entry((delay.event, delay.wss_bytes)).or_default().push(delay.micros);
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
        let both = |(same, one): (&Same, &(f64, f64))| Some((*one, *other.tasks.get(same)?));
        let both: Vec<((f64, f64), (f64, f64))> = self.tasks.iter().filter_map(both).collect();
        let ratios: Vec<f64> = both.iter().map(|(one, two)| two.1 / one.1).collect();
        let ratios = Ordered::new(&ratios).ok();
        let delay = |(&(event, wss_bytes), one): (&(Event, u64), &Vec<f64>)| {
            let two = other.delays.get(&(event, wss_bytes))?;
            let difference = median_difference(one, two, ALPHA).ok()?;
            Some(DelayPair { event, wss_bytes, n: [one.len(), two.len()], difference })
        };
        SchedulerPair {
            machine: String::new(),
            load: String::new(),
            schedulers,
            tasks: both.len(),
            fewer_misses: [
                both.iter().filter(|(one, two)| one.0 < two.0).count(),
                both.iter().filter(|(one, two)| two.0 < one.0).count(),
            ],
            response_ratio: ratios.and_then(|ratios| median_interval(&ratios, ALPHA).ok()),
            delays: self.delays.iter().filter_map(delay).collect(),
        }
    }
}

impl Misses {
    fn of(jobs: &[&Job]) -> Self {
        let missed = jobs.iter().filter(|job| job.lateness_us > 0.0).count();
        Self {
            jobs: jobs.len() as u64,
            missed: missed as u64,
            ratio: missed as f64 / jobs.len().max(1) as f64,
            interval: share(missed, jobs.len()),
            tardiness_us: jobs.iter().map(|job| job.lateness_us).fold(0.0, f64::max),
        }
    }
}

/// The interval of a share of `n` (Clopper and Pearson 1934).
pub(super) fn share(k: usize, n: usize) -> Interval {
    let halved = |too_low: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if too_low(middle) { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    let half = ALPHA / 2.0;
    let low = if k == 0 { 0.0 } else { halved(&|p| binomial::at_least(n, p, k) < half) };
    let high = if k == n { 1.0 } else { halved(&|p| binomial::at_most(n, p, k) > half) };
    Interval { low, high, level: 1.0 - ALPHA }
}

impl Responses {
    fn of(jobs: &[&Job]) -> Self {
        let responses: Vec<f64> = jobs.iter().map(|job| job.response_us).collect();
        let Ok(responses) = Ordered::new(&responses) else {
            return Self { median_us: f64::NAN, p99_us: f64::NAN, max_us: f64::NAN };
        };
        let at = |p| quantile(&responses, p).unwrap_or(f64::NAN);
        Self { median_us: at(0.5), p99_us: at(0.99), max_us: responses.max() }
    }
}
