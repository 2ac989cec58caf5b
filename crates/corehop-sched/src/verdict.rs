// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict of a test.

use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{Task, Time};

/// Yes, no, or not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every deadline is met (or tardiness is bounded, for a soft test).
    Schedulable,
    /// Some deadline is missed in some legal sequence of jobs.
    Unschedulable,
    /// The test does not tell.
    Unknown,
}

impl Verdict {
    /// Whether it is a yes.
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
    /// The verdict.
    pub verdict: Verdict,
    /// A bound on each task's response time, in the order of the tasks, where the test gives them.
    pub bounds: Option<Vec<Time>>,
    /// Why the test does not tell, or which condition failed.
    pub why: Option<String>,
    /// Of a test that is made of others: which one accepted.
    pub accepted_by: Option<&'static str>,
    /// Of a test that assigns priorities: the tasks, highest priority first.
    pub priorities: Option<Vec<usize>>,
    /// Of a test that assigns CPUs: the tasks of each CPU (or cluster).
    pub partition: Option<Vec<Vec<usize>>>,
    /// Of a test that cuts tasks: where each task runs, in their order. Of one that does not, it follows from `partition`,
    /// and [`ChargedAnswer`](super::charge::ChargedAnswer) has it.
    pub placement: Option<Vec<TaskPlacement>>,
    /// A bound on the latency of each chain of the set, in their order, where it has some.
    pub latencies: Option<Vec<Time>>,
    /// The charges, if there were any: the tasks with them, in their order, and the payment of each job for
    /// delays.
    pub charged: Option<Charges>,
}

/// The beginning of a reason for `unknown` that is a yes under a condition.
pub(super) const CONDITIONAL: &str = "yes, if ";

impl TestAnswer {
    /// Whether it is a yes under a condition that nothing proves.
    pub fn is_conditional(&self) -> bool {
        self.why.as_deref().is_some_and(|why| why.starts_with(CONDITIONAL))
    }

    /// Only a verdict.
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
    /// Not told, and why.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..Self::plain(Verdict::Unknown) }
    }
    /// A verdict with bounds on response times.
    pub(crate) fn bounded(verdict: Verdict, bounds: Vec<Time>) -> Self {
        Self { bounds: Some(bounds), ..Self::plain(verdict) }
    }
}

/// The result of charging: tasks, in the order in which they were given, and the payment of each job for
/// delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charges {
    /// The tasks with what is charged to them.
    pub tasks: Vec<Task>,
    /// The part of it that is for delays.
    pub paid: Vec<Time>,
}

impl Charges {
    /// With no task longer than its bound, or its deadline: a job that responds in time executes for no longer, reloads included.
    pub(super) fn within(mut self, tasks: &[Task], bounds: Option<&[Time]>) -> Self {
        for (at, (charged, task)) in self.tasks.iter_mut().zip(tasks).enumerate() {
            let most = bounds.map_or(task.deadline, |bounds| bounds[at]);
            charged.wcet = charged.wcet.min(most).max(task.wcet);
        }
        self
    }
}
