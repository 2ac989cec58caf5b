// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares bounds on response times with recorded jobs: which jobs took longer than their bounds, and why.
//!
//! The cause is derived from the recording alone. While a job waits or runs, its CPU executes the job, other jobs of
//! the set, or no job of the set. Three times may exceed what a bound has charged: the job's work beyond its WCET,
//! other jobs' work beyond their WCETs, and the time in which no job of the set executed. No job executes during a
//! gap in the supply of a guest, an interrupt, or the work of another thread. The largest of the three is reported as
//! the cause.

use std::collections::BTreeMap;

use serde::Serialize;

use corehop_plan::samples::TaskJob;

/// The response-time bound of one task. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The bound on the response time.
    pub response_ns: u64,
    /// The longest execution time of a job.
    pub wcet_ns: u64,
    /// The CPU on which the task's jobs run.
    pub cpu: usize,
}

/// The reason why a job took longer than its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Excess {
    /// The job executed for longer than its WCET.
    OwnWork,
    /// Other jobs executed for longer than their WCETs.
    OthersWork,
    /// No job of the set executed on the CPU.
    NoJob,
    /// None of the other causes applies: the bound is below what the jobs need together.
    Unexplained,
}

/// A job that took longer than its bound. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exceeding {
    /// The number of the run in the recording.
    pub run: u64,
    /// The background load during the job's run.
    pub load: String,
    /// The index of the task, from 0.
    pub task: usize,
    /// The index of the job in its task, from 0.
    pub job: u64,
    /// The response time of the job.
    pub response_us: f64,
    /// The time by which the job took longer than its bound.
    pub beyond_us: f64,
    /// The cause of the excess.
    pub cause: Excess,
    /// The duration that this cause accounts for.
    pub cause_us: f64,
}

/// One task compared with its bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptTask {
    /// The bound on the response time in microseconds.
    pub bound_us: f64,
    /// The longest observed response in microseconds; `None` without a job.
    pub longest_us: Option<f64>,
    /// The bound divided by the longest response.
    pub ratio: Option<f64>,
    /// The number of jobs that ended.
    pub jobs: u64,
    /// The number of ended jobs that took longer than the bound.
    pub above: u64,
}

/// The bounds of a set compared with its recorded jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundCheck {
    /// The result for each task.
    pub tasks: Vec<KeptTask>,
    /// The jobs that took longer than their bounds, in the order of the recording.
    pub exceeding: Vec<Exceeding>,
}

impl Excess {
    /// Returns the cause as a clause that follows "for" and the duration.
    pub const fn clause(self) -> &'static str {
        match self {
            Self::OwnWork => {
                "the job executed beyond its WCET: a delay above the charged delay, or a gap that the kernel counts as execution"
            }
            Self::OthersWork => {
                "other jobs executed beyond their WCETs: delays above the charged delays, or gaps that the kernel counts as execution"
            }
            Self::NoJob => {
                "no job of the set executed: a gap in the supply, an interrupt, or another thread"
            }
            Self::Unexplained => "the recording shows no cause",
        }
    }
}

impl BoundCheck {
    /// Compares bounds with recorded jobs. Jobs of tasks without a bound are left out.
    pub fn of(bounds: &[Bound], jobs: &[TaskJob]) -> Self {
        let mut runs: BTreeMap<u64, Vec<&TaskJob>> = BTreeMap::new();
        for job in jobs.iter().filter(|job| (job.task as usize) < bounds.len()) {
            runs.entry(job.run).or_default().push(job);
        }
        let mut exceeding = Vec::new();
        for all in runs.values() {
            let late = |job: &&&TaskJob| job.response_ns > bound(bounds, job).response_ns as f64;
            exceeding.extend(all.iter().filter(late).map(|job| exceeds(bounds, job, all)));
        }
        let task = |(at, it): (usize, &Bound)| {
            let own = || jobs.iter().filter(move |job| job.task as usize == at);
            let longest = own().map(|job| job.response_ns).reduce(f64::max);
            let bound_us = us(it.response_ns as f64);
            KeptTask {
                bound_us,
                longest_us: longest.map(us),
                ratio: longest.map(|ns| bound_us / us(ns)),
                jobs: own().count() as u64,
                above: exceeding.iter().filter(|it: &&Exceeding| it.task == at).count() as u64,
            }
        };
        let tasks = bounds.iter().enumerate().map(task).collect();
        Self { tasks, exceeding }
    }

    /// Returns the number of jobs that ended.
    pub fn jobs(&self) -> u64 {
        self.tasks.iter().map(|it| it.jobs).sum()
    }
}

fn us(ns: f64) -> f64 {
    ns / 1e3
}

fn bound<'a>(bounds: &'a [Bound], job: &TaskJob) -> &'a Bound {
    &bounds[job.task as usize]
}

/// A job that exceeded its bound, with the cause; `all` are the jobs of its run.
fn exceeds(bounds: &[Bound], job: &TaskJob, all: &[&TaskJob]) -> Exceeding {
    let own = bound(bounds, job);
    let end = job.release_ns as f64 + job.response_ns;
    let beyond = job.response_ns - own.response_ns as f64;
    let excess = |it: &TaskJob| (it.executed_ns as f64 - bound(bounds, it).wcet_ns as f64).max(0.0);
    let (mut others, mut others_excess) = (0.0, 0.0);
    for other in all {
        let same = (other.task, other.job) == (job.task, job.job);
        if same || bound(bounds, other).cpu != own.cpu {
            continue;
        }
        let begin = (other.release_ns as f64 + other.latency_ns).max(job.release_ns as f64);
        let overlap = end.min(other.release_ns as f64 + other.response_ns) - begin;
        if overlap > 0.0 {
            // Jobs that overlap an end may have executed there, or outside.
            others += overlap.min(other.executed_ns as f64);
            others_excess += excess(other).min(overlap);
        }
    }
    let idle = (job.response_ns - job.executed_ns as f64 - others).max(0.0);
    let causes = [
        (Excess::OwnWork, excess(job)),
        (Excess::OthersWork, others_excess),
        (Excess::NoJob, idle),
    ];
    let largest = causes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (cause, ns) = largest.filter(|it| it.1 > 0.0).unwrap_or((Excess::Unexplained, beyond));
    Exceeding {
        run: job.run,
        load: job.load.to_string(),
        task: job.task as usize,
        job: job.job,
        response_us: us(job.response_ns),
        beyond_us: us(beyond),
        cause,
        cause_us: us(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example;

    /// A job of `task` with its release, start, end and execution time, in microseconds.
    fn job(task: u64, [release, begun, ended, executed]: [u64; 4]) -> TaskJob {
        TaskJob {
            run: 0,
            task,
            job: release,
            release_ns: release * 1_000,
            latency_ns: (begun - release) as f64 * 1e3,
            response_ns: (ended - release) as f64 * 1e3,
            executed_ns: executed * 1_000,
            ..example::task_job()
        }
    }

    fn bounds() -> [Bound; 2] {
        let of = |response: u64, wcet: u64| Bound {
            response_ns: response * 1_000,
            wcet_ns: wcet * 1_000,
            cpu: 0,
        };
        [of(100, 100), of(300, 200)]
    }

    fn cause(jobs: &[TaskJob]) -> (Excess, f64) {
        let kept = BoundCheck::of(&bounds(), jobs);
        assert_eq!((kept.exceeding.len(), kept.tasks[1].above), (1, 1), "{kept:?}");
        (kept.exceeding[0].cause, kept.exceeding[0].cause_us)
    }

    #[test]
    fn a_gap_in_which_no_job_executed_is_what_is_left() {
        // 350 us: 200 of its own work, 100 of the other task, and 50 of none.
        let jobs = [job(0, [0, 0, 100, 100]), job(1, [0, 100, 350, 200])];
        assert_eq!(cause(&jobs), (Excess::NoJob, 50.0));
    }

    #[test]
    fn work_beyond_a_wcet_is_its_own_or_that_of_others() {
        let own = [job(0, [0, 0, 100, 100]), job(1, [0, 100, 360, 260])];
        assert_eq!(cause(&own), (Excess::OwnWork, 60.0));
        let mut others = [job(0, [0, 0, 100, 170]), job(1, [0, 170, 370, 200])];
        others[0].response_ns = 170e3;
        let kept = BoundCheck::of(&bounds(), &others);
        let of_second = kept.exceeding.iter().find(|it| it.task == 1).unwrap();
        assert_eq!((of_second.cause, of_second.cause_us), (Excess::OthersWork, 70.0));
    }

    #[test]
    fn a_bound_below_the_sum_of_all_work_is_not_explained() {
        let jobs =
            [job(0, [0, 0, 100, 100]), job(0, [100, 100, 200, 100]), job(1, [0, 200, 400, 200])];
        assert_eq!(cause(&jobs), (Excess::Unexplained, 100.0));
    }

    #[test]
    fn jobs_within_their_bounds_are_counted_with_the_longest_of_each_task() {
        let jobs = [job(0, [0, 0, 80, 80]), job(0, [500, 500, 550, 50]), job(1, [0, 80, 250, 170])];
        let kept = BoundCheck::of(&bounds(), &jobs);
        assert_eq!((kept.jobs(), kept.exceeding.len()), (3, 0));
        assert_eq!((kept.tasks[0].longest_us, kept.tasks[0].ratio), (Some(80.0), Some(1.25)));
        let none = BoundCheck::of(&bounds(), &[]);
        assert_eq!((none.tasks[0].longest_us, none.jobs()), (None, 0));
    }
}
