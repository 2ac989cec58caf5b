// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schedules of a set: the first miss of a set that no test accepts, and the busiest window of a task of one that holds.
//!
//! A `Scene` is a group of CPUs with the tasks that only they serve. [`play`] serves releases that a `Pattern` gives, from
//! event to event; [`search`] looks through patterns. All of it is bounded by a number of jobs, and depends on the set alone.
//!
//! The simulation covers preemptive EDF and fixed priorities among the CPUs of a scene; jobs that execute for their WCET, and on
//! several CPUs also for less; release jitter; and, where delays are asked for, the reload of a job each time it resumes, by
//! whether it resumes on the CPU that it left. Not simulated are blocking, the overheads of the operating system, delays by pair of
//! tasks or by cache blocks, tasks in pieces, and CPUs that differ.

pub mod pattern;
pub mod play;
pub mod scene;
pub mod search;

use serde::Serialize;

use corehop_plan::workload::task::Time;

/// A job of a schedule. Times are in microseconds and count from the beginning of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ScheduledJob {
    /// The task, by its place in the set.
    pub task: usize,
    /// The arrival, from which the deadline counts.
    pub arrival_us: Time,
    /// The release, which jitter puts off.
    pub release_us: Time,
    /// The instant at which the job is due.
    pub due_us: Time,
    /// The time for which it executes, without reloads.
    pub work_us: Time,
    /// Its end; None where the schedule ends before.
    pub ended_us: Option<Time>,
}

/// The activity of a CPU for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuActivity {
    /// It executes the job.
    Work,
    /// It reloads what the job lost while it was preempted.
    Preemption,
    /// It reloads what the job left behind on another CPU.
    Migration,
}

/// A stretch of time in which a CPU has one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// The CPU.
    pub cpu: usize,
    /// The job, by its place in the schedule.
    pub job: usize,
    /// The beginning of the stretch.
    pub from_us: Time,
    /// The end of the stretch.
    pub to_us: Time,
    /// The activity.
    pub doing: CpuActivity,
}

/// The activity of some CPUs since they were idle last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The CPUs.
    pub cpus: Vec<usize>,
    /// The beginning, in microseconds: 0, or later where earlier jobs are left out.
    pub from_us: Time,
    /// The end, in microseconds.
    pub to_us: Time,
    /// The jobs in the order of their releases.
    pub jobs: Vec<ScheduledJob>,
    /// The stretches, in the order in which they began.
    pub stretches: Vec<Stretch>,
    /// The job that the schedule is about: that which misses its deadline first, or that which responds last.
    pub subject: usize,
    /// Whether jobs reload when they resume.
    pub with_delays: bool,
}

impl Schedule {
    /// The job that the schedule is about.
    pub fn subject(&self) -> &ScheduledJob {
        &self.jobs[self.subject]
    }

    /// The time from the deadline of that job to its end: at least, where the job does not end within the schedule.
    pub fn late_us(&self) -> Time {
        let job = self.subject();
        job.ended_us.unwrap_or(self.to_us).saturating_sub(job.due_us)
    }

    /// The response of that job, from its arrival: at least, where it does not end within the schedule.
    pub fn response_us(&self) -> Time {
        let job = self.subject();
        job.ended_us.unwrap_or(self.to_us).saturating_sub(job.arrival_us)
    }

    /// Its end, from the release of the job before which at most so many come before the one that it is about.
    #[must_use]
    pub fn end(&self, jobs: usize) -> Self {
        let first = self.subject.saturating_sub(jobs);
        if first == 0 {
            return self.clone();
        }
        let from_us = self.jobs[first].release_us;
        let lasts = |at: &usize| self.jobs[*at].ended_us.is_none_or(|end| end > from_us);
        let kept: Vec<usize> = (0..self.jobs.len()).filter(lasts).collect();
        let place = |job: usize| kept.binary_search(&job).ok();
        let stretches = self.stretches.iter().filter(|it| it.to_us > from_us);
        let stretch = |it: &Stretch| {
            Some(Stretch { job: place(it.job)?, from_us: it.from_us.max(from_us), ..*it })
        };
        Self {
            cpus: self.cpus.clone(),
            from_us,
            jobs: kept.iter().map(|&at| self.jobs[at]).collect(),
            stretches: stretches.filter_map(stretch).collect(),
            subject: place(self.subject).unwrap_or(0),
            ..*self
        }
    }

    /// The tasks that have jobs in it, ascending.
    pub fn tasks(&self) -> Vec<usize> {
        let mut tasks: Vec<usize> = self.jobs.iter().map(|job| job.task).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// The number of reloads of this kind, and their time.
    pub fn reloads(&self, doing: CpuActivity) -> (usize, Time) {
        let all = self.stretches.iter().filter(|it| it.doing == doing);
        (all.clone().count(), all.map(|it| it.to_us - it.from_us).sum())
    }
}
