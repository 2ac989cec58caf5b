// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs, deadlines and preemption lengths, and what two schedulers made of the same task sets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Job, Pair, Run, Timing, Under, millionths};
use crate::model::binomial;
use crate::model::compare::{Difference, median_difference};
use crate::model::delay::ALPHA;
use crate::model::ordered::{Interval, Ordered};
use crate::model::quantile::{Quantile, median, median_interval, quantile};
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
    /// The share of word accesses that write.
    pub write_ratio: f64,
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
    /// The tasks that both ran: of the same set, with the same period and deadline.
    pub tasks: usize,
    /// A task's execution time under the second over that under the first, the median of all tasks: not 1
    /// where sets were scaled differently to fit their CPUs, and then responses differ for that as well.
    pub execution_ratio: Option<f64>,
    /// Those that missed fewer of their deadlines under the first, and under the second.
    pub fewer_misses: [usize; 2],
    /// A task's longest response under the second over that under the first: the median of all tasks.
    pub response_ratio: Option<Quantile>,
    /// Delays, class by class.
    pub delays: Vec<DelayPair>,
}

/// The runs of all files that were watched, with their jobs.
fn watched<'a>(pairs: &[&'a Pair]) -> Vec<(&'a Run, Vec<&'a Job>, usize)> {
    each(pairs).into_iter().filter(|(run, ..)| run.watched).collect()
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
    watched(pairs).into_iter().map(summary).collect()
}

pub(super) fn tasks(pairs: &[&Pair]) -> Vec<TaskSummary> {
    let mut all = Vec::new();
    for (run, jobs, _) in watched(pairs) {
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
    for (run, jobs, samples) in watched(pairs) {
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

/// A task, wherever it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    seed: u64,
    set: u64,
    task_count: u64,
    wss_bytes: u64,
    /// In millionths.
    write_ratio: u64,
    task: u64,
    period: u64,
    deadline: u64,
}

/// What a scheduler made of a task, in all runs of it.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    jobs: u64,
    missed: u64,
    longest_us: f64,
    wcet: u64,
}

/// What a scheduler made of tasks, and the delays in it by class, size and write ratio in millionths.
#[derive(Default)]
struct Made {
    tasks: BTreeMap<Same, Fate>,
    delays: BTreeMap<(Event, u64, u64), Vec<f64>>,
}

impl Fate {
    fn with(self, jobs: &[&Job], wcet: u64) -> Self {
        let misses = Misses::of(jobs);
        Self {
            jobs: self.jobs + misses.jobs,
            missed: self.missed + misses.missed,
            longest_us: self.longest_us.max(Responses::of(jobs).max_us),
            wcet,
        }
    }

    /// The share of its jobs that missed their deadlines.
    fn missed(self) -> f64 {
        self.missed as f64 / self.jobs.max(1) as f64
    }
}

pub(super) fn compared(pairs: &[&Pair]) -> Vec<SchedulerPair> {
    let mut all: BTreeMap<(String, String), BTreeMap<Scheduler, Made>> = BTreeMap::new();
    let place = |under: &Under| (under.machine.to_string(), under.load.to_string());
    for (run, jobs, _) in watched(pairs) {
        let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
        let made = made.or_default();
        let &Run { seed, set, task_count, wss_bytes, write_ratio, .. } = run;
        let write_ratio = millionths(write_ratio);
        for (task, jobs) in by_task(&jobs) {
            let Timing { period, deadline, wcet } = run.tasks[&task];
            let same =
                Same { seed, set, task_count, wss_bytes, write_ratio, task, period, deadline };
            let fate = made.tasks.entry(same).or_default();
            *fate = fate.with(&jobs, wcet);
        }
    }
    for (_, run, delay) in pairs.iter().flat_map(|pair| pair.of_runs()) {
        let made = all.entry(place(&run.under)).or_default().entry(run.under.scheduler);
        let delays = &mut made.or_default().delays;
        let of = (delay.event, delay.wss_bytes, millionths(delay.write_ratio));
        delays.entry(of).or_default().push(delay.micros);
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
        let both = |(same, one): (&Same, &Fate)| Some((*one, *other.tasks.get(same)?));
        let both: Vec<(Fate, Fate)> = self.tasks.iter().filter_map(both).collect();
        let ratios = |of: fn(&Fate) -> f64| {
            let ratios: Vec<f64> = both.iter().map(|(one, two)| of(two) / of(one)).collect();
            Ordered::new(&ratios).ok()
        };
        let delay = |(&(event, wss_bytes, ratio), one): (&(Event, u64, u64), &Vec<f64>)| {
            let two = other.delays.get(&(event, wss_bytes, ratio))?;
            let difference = median_difference(one, two, ALPHA).ok()?;
            let (n, write_ratio) = ([one.len(), two.len()], ratio as f64 / 1e6);
            Some(DelayPair { event, wss_bytes, write_ratio, n, difference })
        };
        SchedulerPair {
            machine: String::new(),
            load: String::new(),
            schedulers,
            tasks: both.len(),
            fewer_misses: [
                both.iter().filter(|(one, two)| one.missed() < two.missed()).count(),
                both.iter().filter(|(one, two)| two.missed() < one.missed()).count(),
            ],
            execution_ratio: ratios(|fate| fate.wcet as f64).map(|ratios| median(&ratios)),
            response_ratio: ratios(|fate| fate.longest_us)
                .and_then(|ratios| median_interval(&ratios, ALPHA).ok()),
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
