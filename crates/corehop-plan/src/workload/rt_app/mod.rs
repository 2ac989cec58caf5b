// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets as workloads of rt-app (<https://github.com/scheduler-tools/rt-app>), which runs them on Linux.
//!
//! corehop reads a workload as rt-app does. A key that begins with the name of a kind of event (`run`, `run_decode`,
//! `runtime0`) is an event, a thread without `phases` has one phase, and the policy decides the meaning of
//! `dl-runtime`. Corehop rejects a property that a task set cannot express, and names the property. If a number of the
//! task set is only a bound, a note says so.
//!
//! Each task becomes a thread that runs for its WCET once in a period when corehop writes a workload. The thread runs
//! under SCHED_FIFO if tasks have priorities; otherwise it runs under SCHED_DEADLINE, whose parameters are those of a
//! sporadic task, and the task's `budget_us` becomes the thread's budget. The thread of a task has the CPUs that the
//! set states for the task; Linux accepts them for a thread under SCHED_DEADLINE only if a cpuset with a root domain
//! of its own has exactly these CPUs. Properties that no thread can show (jitter, working sets, …) are in a table that
//! rt-app ignores, so that reading the written file loses nothing.

use super::scheduler::Scheduler;
use super::set_file::SetFileError;
use super::task::{TaskError, TaskSet};

mod fields;
mod plain;
mod thread;
mod policy;
mod write;
mod read;
#[cfg(test)]
mod tests;

pub use read::read;
pub use write::{RtAppWorkload, write};

/// The highest priority that corehop assigns; 99 is for the kernel's own threads.
const HIGHEST: u64 = 98;

/// The key of the table in a workload that holds the original task set.
const OWN: &str = "corehop";

/// The reason why a text is not a workload that can become a task set.
#[derive(Debug, thiserror::Error)]
pub enum RtAppError {
    /// The text is not valid JSON, apart from comments and trailing commas.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A thread does something that no sporadic task does, or lacks a property.
    #[error("thread `{thread}`: {what}")]
    Thread {
        /// The name of the thread with the error.
        thread: String,
        /// The error that the thread has, in words.
        what: String,
    },
    /// The workload has no threads that could be tasks.
    #[error("the table `tasks` of threads is missing or empty")]
    NoTasks,
    /// The workload has another number of CPUs than the user requested.
    #[error("{0}")]
    Cpus(String),
    /// A part of the workload outside the threads is invalid.
    #[error("{0}")]
    Global(String),
    /// The task set in corehop's own table is invalid.
    #[error("the table `corehop`: {0}")]
    Own(Box<SetFileError>),
    /// The parameters of the resulting task set are invalid.
    #[error(transparent)]
    Parameter(#[from] TaskError),
}

/// The reason why rt-app cannot run a task set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// SCHED_FIFO has too few priorities for the tasks.
    #[error(
        "tasks that can meet on a CPU have more than the {HIGHEST} priorities of SCHED_FIFO: expected fewer \
         distinct values of `priority`, or `cpus` of each task"
    )]
    Priorities,
    /// A task runs in pieces, but a thread of rt-app cannot.
    #[error(
        "task {0} runs in pieces or by shares, which rt-app does not support: assign CPUs to the task (check -o with a test that splits no task)"
    )]
    InParts(usize),
    /// The set's scheduler needs a property that the set does not state, or rt-app does not support the scheduler.
    #[error("the scheduler of the set is `{scheduler}`: {why}")]
    Scheduler {
        /// The scheduler that the set names.
        scheduler: Scheduler,
        /// The property that the scheduler needs.
        why: &'static str,
    },
    /// Linux or rt-app would reject threads; each reason is a sentence.
    #[error("{}\n(threads with priorities run under SCHED_FIFO, which accepts any period)", .0.join("\n"))]
    Refused(Vec<String>),
}

/// A task set that corehop read from a workload of rt-app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The task set that was read from the workload.
    pub set: TaskSet,
    /// Sentences about numbers of the set that are only bounds, and about properties that the set leaves out.
    pub notes: Vec<String>,
}
