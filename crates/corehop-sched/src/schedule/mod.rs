// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated schedules of a set: the first missed deadline of a set that no test accepts, and the busiest window of a
//! task in an accepted set.
//!
//! A `Scene` is a group of CPUs with the tasks that only these CPUs run. [`play`] simulates the releases of a
//! `Pattern` event by event, and [`search`] tries patterns. The number of jobs bounds the simulation, and its result
//! depends on the set alone.
//!
//! The simulation covers preemptive EDF and fixed priorities on the CPUs of a scene. Jobs execute for their WCET, and
//! on several CPUs also for less. Release jitter is included. If delays are requested, a job reloads each time it
//! resumes, for a time that depends on whether it resumes on the CPU that it left. The simulation does not cover
//! blocking, operating-system overheads, delays by pair of tasks or by cache blocks, tasks in pieces, and CPUs that
//! differ.

pub mod pattern;
pub mod play;
pub mod scene;
pub mod search;

use serde::Serialize;

use corehop_plan::workload::task::Time;

/// A job of a schedule. Times are in microseconds from the beginning of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ScheduledJob {
    /// The index of the task in the set.
    pub task: usize,
    /// The arrival of the job, from which its deadline counts.
    pub arrival_us: Time,
    /// The release of the job, which jitter can delay after the arrival.
    pub release_us: Time,
    /// The absolute deadline of the job.
    pub due_us: Time,
    /// The job's execution time without reloads.
    pub work_us: Time,
    /// The end of the job; `None` if the schedule ends earlier.
    pub ended_us: Option<Time>,
}

/// The work of a CPU for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuActivity {
    /// The CPU executes the job.
    Work,
    /// The CPU reloads the cache contents that the job lost while it was preempted.
    Preemption,
    /// The CPU reloads the cache contents that the job left on another CPU.
    Migration,
}

/// An interval in which a CPU runs one job without a change of activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// The index of the CPU that runs the job.
    pub cpu: usize,
    /// The index of the job in the schedule.
    pub job: usize,
    /// The beginning of the stretch.
    pub from_us: Time,
    /// The end of the stretch.
    pub to_us: Time,
    /// The work of the CPU in the interval.
    pub doing: CpuActivity,
}

/// The work of some CPUs since they were last idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// The CPUs of the schedule.
    pub cpus: Vec<usize>,
    /// The beginning, in microseconds: 0, or later if earlier jobs are left out.
    pub from_us: Time,
    /// The end, in microseconds.
    pub to_us: Time,
    /// The jobs in the order of their releases.
    pub jobs: Vec<ScheduledJob>,
    /// The stretches, in the order in which they began.
    pub stretches: Vec<Stretch>,
    /// The index of the job that the schedule is about: the first job that misses its deadline, or the job with the
    /// longest response.
    pub subject: usize,
    /// Whether jobs reload when they resume.
    pub with_delays: bool,
}

impl Schedule {
    /// Returns the job that the schedule is about.
    pub fn subject(&self) -> &ScheduledJob {
        &self.jobs[self.subject]
    }

    /// Returns the time from the deadline of the subject job to its end. The value is a lower bound if the job does
    /// not end within the schedule.
    pub fn late_us(&self) -> Time {
        let job = self.subject();
        job.ended_us.unwrap_or(self.to_us).saturating_sub(job.due_us)
    }

    /// Returns the response time of the subject job, from its arrival. The value is a lower bound if the job does not
    /// end within the schedule.
    pub fn response_us(&self) -> Time {
        let job = self.subject();
        job.ended_us.unwrap_or(self.to_us).saturating_sub(job.arrival_us)
    }

    /// Returns the end of the schedule, which starts at a release such that at most `jobs` jobs come before the
    /// subject job.
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

    /// Returns the tasks that have jobs in the schedule, ascending.
    pub fn tasks(&self) -> Vec<usize> {
        let mut tasks: Vec<usize> = self.jobs.iter().map(|job| job.task).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// Returns the number of reloads of this kind, and their total time.
    pub fn reloads(&self, doing: CpuActivity) -> (usize, Time) {
        let all = self.stretches.iter().filter(|it| it.doing == doing);
        (all.clone().count(), all.map(|it| it.to_us - it.from_us).sum())
    }
}
