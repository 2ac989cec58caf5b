// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict of a test.

use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{Task, Time};

/// The decision of a test: yes, no, or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every deadline is met (or tardiness is bounded, for a soft test).
    Schedulable,
    /// Some deadline is missed in some legal sequence of jobs.
    Unschedulable,
    /// The test cannot decide.
    Unknown,
}

impl Verdict {
    /// Whether the verdict is yes.
    pub fn is_schedulable(self) -> bool {
        self == Self::Schedulable
    }
    /// The verdict of an exact test that found `fits`.
    pub(crate) fn exact(fits: bool) -> Self {
        if fits { Self::Schedulable } else { Self::Unschedulable }
    }
    /// The verdict of a sufficient test that found `fits`.
    pub(crate) fn sufficient(fits: bool) -> Self {
        if fits { Self::Schedulable } else { Self::Unknown }
    }
}

/// The answer of a test for a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestAnswer {
    /// The verdict of the test.
    pub verdict: Verdict,
    /// A bound on each task's response time, in the order of the tasks, if the test computes bounds.
    pub bounds: Option<Vec<Time>>,
    /// The reason why the test cannot decide, or which condition failed.
    pub why: Option<String>,
    /// The test that accepted, if the test combines several tests.
    pub accepted_by: Option<&'static str>,
    /// The tasks by priority, the highest first, if the test assigns priorities.
    pub priorities: Option<Vec<usize>>,
    /// The tasks of each CPU (or cluster), if the test assigns CPUs.
    pub partition: Option<Vec<Vec<usize>>>,
    /// The CPUs, pieces or shares of each task, in the order of the tasks, if the test splits tasks. For other tests
    /// the placement follows from `partition`, and [`ChargedAnswer`](super::charge::ChargedAnswer) contains it.
    pub placement: Option<Vec<TaskPlacement>>,
    /// A bound on the latency of each chain of the set, in the order of the chains, if the set has chains.
    pub latencies: Option<Vec<Time>>,
    /// The charges, if anything was charged: the charged tasks, in their order, and the payment of each job for
    /// delays.
    pub charged: Option<Charges>,
}

/// The beginning of the reason of an `unknown` if the answer is a yes under a condition.
pub(super) const CONDITIONAL: &str = "yes, if ";

impl TestAnswer {
    /// Whether the answer is a yes under a condition that nothing proves.
    pub fn is_conditional(&self) -> bool {
        self.why.as_deref().is_some_and(|why| why.starts_with(CONDITIONAL))
    }

    /// An answer with only a verdict.
    pub(crate) fn plain(verdict: Verdict) -> Self {
        Self {
            verdict,
            bounds: None,
            why: None,
            accepted_by: None,
            priorities: None,
            partition: None,
            placement: None,
            latencies: None,
            charged: None,
        }
    }
    /// An undecided answer with its reason.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..Self::plain(Verdict::Unknown) }
    }
    /// A verdict with bounds on response times.
    pub(crate) fn bounded(verdict: Verdict, bounds: Vec<Time>) -> Self {
        Self { bounds: Some(bounds), ..Self::plain(verdict) }
    }
}

/// The charged tasks, in their original order, and the payment of each job for delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charges {
    /// The tasks including their charges.
    pub tasks: Vec<Task>,
    /// The part of each task's charge that pays for delays.
    pub paid: Vec<Time>,
}

impl Charges {
    /// Limits each charged execution time to the task's bound or deadline, because a job that responds in time
    /// executes for no longer, reloads included.
    pub(super) fn within(mut self, tasks: &[Task], bounds: Option<&[Time]>) -> Self {
        for (at, (charged, task)) in self.tasks.iter_mut().zip(tasks).enumerate() {
            let most = bounds.map_or(task.deadline, |bounds| bounds[at]);
            charged.wcet = charged.wcet.min(most).max(task.wcet);
        }
        self
    }
}
