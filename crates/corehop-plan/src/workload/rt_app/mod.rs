// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets as workloads of rt-app (<https://github.com/scheduler-tools/rt-app>), which runs them on Linux.
//!
//! A workload is read as rt-app reads it: an event is a key that begins with the name of a kind of event (`run`,
//! `run_decode`, `runtime0`), a thread without `phases` is a thread of one phase, and the policy decides what `dl-runtime`
//! means. What a task set cannot express is refused by its name. Where a number of the set is a bound, a note says so.
//!
//! Written, a task is a thread that runs for its WCET once in a period. With priorities the thread runs under SCHED_FIFO,
//! without under SCHED_DEADLINE, whose parameters are those of a sporadic task, and whose budget is `budget_us` of the task.
//! If the set says which CPUs a task has, so does the thread; Linux takes that from a thread under SCHED_DEADLINE only
//! where a cpuset with a root domain of its own has just these CPUs. What no thread can show (jitter, working sets, …) stands
//! in a table that rt-app ignores, so that the way back loses nothing.

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

/// The highest priority that is given away: 99 is the kernel's own threads'.
const HIGHEST: u64 = 98;

/// The table of a workload that holds the task set from which the workload was written.
const OWN: &str = "corehop";

/// Why a text is no workload that can be read as a task set.
#[derive(Debug, thiserror::Error)]
pub enum RtAppError {
    /// It is not valid JSON, apart from comments and trailing commas.
    #[error("not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A thread does something that is no sporadic task, or lacks something.
    #[error("thread `{thread}`: {what}")]
    Thread {
        /// The thread.
        thread: String,
        /// The error in it.
        what: String,
    },
    /// There are no threads.
    #[error("the table `tasks` of threads is missing or empty")]
    NoTasks,
    /// The number of CPUs that was asked for is not that of the workload.
    #[error("{0}")]
    Cpus(String),
    /// Something is wrong beside the threads.
    #[error("{0}")]
    Global(String),
    /// The set beside the threads makes no sense.
    #[error("the table `corehop`: {0}")]
    Own(Box<SetFileError>),
    /// The resulting parameters make no sense.
    #[error(transparent)]
    Parameter(#[from] TaskError),
}

/// Why a set cannot be run by rt-app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// There are too few priorities.
    #[error(
        "tasks that can meet on a CPU have more than the {HIGHEST} priorities of SCHED_FIFO: expected fewer \
         distinct values of `priority`, or `cpus` of each task"
    )]
    Priorities,
    /// A thread has no pieces.
    #[error(
        "task {0} runs in pieces or by shares, which rt-app does not support: assign CPUs to the task (check -o with a test that splits no task)"
    )]
    InParts(usize),
    /// The scheduler of the set needs what the set does not state, or is none of rt-app's.
    #[error("the scheduler of the set is `{scheduler}`: {why}")]
    Scheduler {
        /// The scheduler.
        scheduler: Scheduler,
        /// The missing part.
        why: &'static str,
    },
    /// Linux or rt-app refuses threads: a sentence for each reason.
    #[error("{}\n(priorities make threads run under SCHED_FIFO, which takes any period)", .0.join("\n"))]
    Refused(Vec<String>),
}

/// A workload, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The task set.
    pub set: TaskSet,
    /// Sentences about what in the set is a bound, and about what the set leaves out.
    pub notes: Vec<String>,
}
