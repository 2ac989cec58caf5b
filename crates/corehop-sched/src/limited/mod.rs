// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limited preemption on one CPU: how long a job may continue after a more urgent job arrives, or which tasks may
//! preempt the job at all, without a missed deadline. The analyses also give the number and the cost of the remaining
//! preemptions.
//!
//! A non-preemptive region *floats*: the region begins when a more urgent job arrives, and ends after its length or
//! with the job (Baruah 2005). The survey of Buttazzo, Bertogna and Yao, IEEE TII 9(1), 2013, calls such regions
//! deferred preemption. A *preemption threshold* is a second priority that a job has after it began (Wang and Saksena
//! 1999).
//!
//! The analyses need tasks without release jitter and without blocking of their own; time is integer.

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

/// The reason why regions or thresholds are unknown for a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRegions {
    /// The set is not schedulable with full preemption, or under no assignment of thresholds.
    #[error("the set misses deadlines under {policy} even without non-preemptive regions")]
    Misses {
        /// The scheduler under which the set misses.
        policy: &'static str,
    },
    /// A parameter is outside the analysis.
    #[error(
        "task {task}: {field} is {value}, expected {expected}; non-preemptive regions are not analysed for this value"
    )]
    Beyond {
        /// The index of the task, from 0.
        task: usize,
        /// The name of the field in files.
        field: &'static str,
        /// The field's current value.
        value: Time,
        /// The value that the analysis needs.
        expected: &'static str,
    },
    /// Two tasks share a priority, and the analyses do not know which of them runs first.
    #[error(
        "tasks {0} and {1} have the same priority: non-preemptive regions need distinct priorities"
    )]
    Equals(usize, usize),
    /// The analysis needs more steps than are allowed.
    #[error("the test would have to check too many instants, because the periods differ too much")]
    OutOfSteps,
}

/// Rejects release jitter, blocking by other tasks and suspension.
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

/// The tasks by priority, the highest first. Rejects tasks of equal priority.
fn distinct(tasks: &[Task]) -> Result<Vec<usize>, NoRegions> {
    Ranking::distinct(tasks).map_err(|(one, other)| NoRegions::Equals(one, other))
}
