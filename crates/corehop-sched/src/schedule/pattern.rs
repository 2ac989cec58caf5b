// SPDX-License-Identifier: MIT OR Apache-2.0
//! Release patterns: the release and the execution time of each job, and which of several equally urgent jobs runs
//! first.

use corehop_plan::workload::draw::DrawStream;
use corehop_plan::workload::task::{Task, Time};

/// The seed of all random release patterns.
pub const SEED: u64 = 42;

/// A pattern of releases for the tasks of a scene.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The first release of each task. A job that is released at this time has arrived earlier, by its jitter.
    pub(super) begins: Vec<Time>,
    /// The task that loses when the scheduler may choose between two jobs.
    pub(super) last: Option<usize>,
    /// Whether a job that resumes prefers a CPU other than its last CPU.
    pub(super) restless: bool,
    /// Random gaps, jitter and execution times.
    draws: Option<ReleaseDraws>,
}

/// The random part of a pattern.
#[derive(Debug, Clone)]
struct ReleaseDraws {
    draw: DrawStream,
    /// Whether jobs are released later than at the earliest time that the task allows.
    sporadic: bool,
    /// Whether jobs execute for less than their WCET.
    shorter: bool,
}

impl Pattern {
    /// Returns the pattern in which all tasks release their first job at one instant, and further jobs as early as
    /// possible.
    pub fn at_once(tasks: usize) -> Self {
        Self { begins: vec![Time::ZERO; tasks], last: None, restless: false, draws: None }
    }

    /// Returns the pattern of [`Pattern::at_once`], but with task `one` starting `offset` later and running last
    /// among equals.
    pub fn but_one(tasks: usize, one: usize, offset: Time) -> Self {
        let mut begins = vec![Time::ZERO; tasks];
        begins[one] = offset;
        Self { begins, last: Some(one), restless: false, draws: None }
    }

    /// Returns a random pattern: random offsets, for a few patterns also random gaps, and execution times below the
    /// WCET if shorter execution times can matter.
    pub fn random(tasks: &[Task], number: u64, several_cpus: bool) -> Self {
        let mut draw = DrawStream::of_set(SEED, number);
        let begins = tasks.iter().map(|task| match draw.below(3) {
            0 => Time::ZERO,
            _ => Time::new(draw.below(task.period.ticks())),
        });
        let begins = begins.collect();
        let last = Some(draw.below(tasks.len() as u64) as usize);
        let (sporadic, shorter) = (number % 3 == 2, several_cpus && number % 4 == 3);
        let restless = number % 2 == 1;
        Self { begins, last, restless, draws: Some(ReleaseDraws { draw, sporadic, shorter }) }
    }

    /// The time by which a job comes later than at the earliest time that the task allows.
    pub(super) fn gap(&mut self, task: &Task) -> Time {
        match &mut self.draws {
            Some(ReleaseDraws { draw, sporadic: true, .. }) => match draw.below(2) {
                0 => Time::new(draw.below(task.period.ticks() / 2 + 1)),
                _ => Time::ZERO,
            },
            _ => Time::ZERO,
        }
    }

    /// The time from the arrival of a job to its release. `first` jobs have their full jitter and later jobs none,
    /// which brings releases closest to each other.
    pub(super) fn jitter(&mut self, task: &Task, first: bool) -> Time {
        match &mut self.draws {
            None if first => task.jitter,
            None => Time::ZERO,
            Some(it) => match it.draw.below(3) {
                0 => Time::ZERO,
                1 => task.jitter,
                _ => Time::new(it.draw.below(task.jitter.ticks() + 1)),
            },
        }
    }

    /// The time for which a job executes.
    pub(super) fn work(&mut self, task: &Task) -> Time {
        match &mut self.draws {
            Some(ReleaseDraws { draw, shorter: true, .. }) => match draw.below(3) {
                0 => Time::new(1 + draw.below(task.wcet.ticks())),
                _ => task.wcet,
            },
            _ => task.wcet,
        }
    }
}
