// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limited preemption on one CPU: how long a job may run on once something more urgent came, or which tasks may
//! preempt it at all, without a deadline being missed; and how many preemptions, at which cost, then remain.
//!
//! A region *floats*: it begins when a more urgent job arrives, and ends after its length, or with the job
//! (Baruah 2005; the survey of Buttazzo, Bertogna and Yao, IEEE TII 9(1), 2013, calls this deferred preemption).
//! A *preemption threshold* is a second priority that a job has once it began (Wang and Saksena 1999).
//!
//! Tasks are without release jitter and blocking of their own; time is integer.

pub mod edf;
pub mod fixed;
pub mod threshold;
pub mod remedy;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

use crate::ranking::Ranking;
use corehop_plan::workload::task::{Task, Time};

/// Why nothing is known of regions or thresholds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRegions {
    /// Fully preemptive the set is not schedulable, or under no assignment of thresholds.
    #[error("the set misses deadlines under {policy} even without non-preemptive regions")]
    Misses {
        /// The scheduler.
        policy: &'static str,
    },
    /// A parameter that the analysis does not cover.
    #[error(
        "task {task}: {field} is {value}, expected {expected}; non-preemptive regions are not analysed for this value"
    )]
    Beyond {
        /// The task, from 0.
        task: usize,
        /// The field, as files call it.
        field: &'static str,
        /// The present value.
        value: Time,
        /// The expected value.
        expected: &'static str,
    },
    /// Tasks share a priority: neither analysis knows which of them goes first.
    #[error(
        "tasks {0} and {1} have the same priority: non-preemptive regions need distinct priorities"
    )]
    Equals(usize, usize),
    /// It takes more steps than are allowed.
    #[error("too many instants to check (the periods differ too much)")]
    OutOfSteps,
}

/// Refuses release jitter, blocking by others and suspension.
fn plain(tasks: &[Task]) -> Result<(), NoRegions> {
    let refused = tasks.iter().enumerate().find_map(|(at, task)| {
        let of = |field, value| NoRegions::Beyond { task: at, field, value, expected: "0" };
        match (task.jitter, task.blocking, task.suspension) {
            (Time::ZERO, Time::ZERO, Time::ZERO) => None,
            (Time::ZERO, Time::ZERO, suspension) => Some(of("suspension_us", suspension)),
            (Time::ZERO, blocking, _) => Some(of("blocking_us", blocking)),
            (jitter, ..) => Some(of("jitter_us", jitter)),
        }
    });
    refused.map_or(Ok(()), Err)
}

/// The tasks by priority, the highest first; refuses equals.
fn distinct(tasks: &[Task]) -> Result<Vec<usize>, NoRegions> {
    Ranking::distinct(tasks).map_err(|(one, other)| NoRegions::Equals(one, other))
}
