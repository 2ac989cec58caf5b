// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains of tasks: data or events pass from task to task, within an end-to-end deadline.

use super::task::{Task, Time};
use crate::words::words;

words! {
    /// The way in which the tasks of a chain after the first are activated.
    Activation, "an activation" {
        /// Each task of the chain has its own timer, which releases a job once per period. A job reads the newest
        /// data of the preceding task.
        Periodic = "periodic",
        /// The end of a job of the preceding task releases the job.
        Event = "event",
    }
}

/// A chain of tasks with an end-to-end deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The name of the chain in messages and tables.
    pub name: String,
    /// The tasks of the chain, in order.
    pub tasks: Vec<usize>,
    /// The way in which the tasks after the first are activated.
    pub activation: Activation,
    /// The end-to-end deadline: the time from the arrival of the first task's input to the end of the last
    /// task.
    pub deadline: Time,
}

/// The chains of a task set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chains {
    /// All chains of the task set.
    pub all: Vec<Chain>,
    /// The shortest execution time of each task, in the order of the tasks.
    pub least: Vec<Time>,
}

impl Chains {
    /// Returns the task whose end activates task `at`, or `None` if no task does.
    pub fn activator(&self, at: usize) -> Option<usize> {
        let links = self.by_events().flat_map(|chain| chain.tasks.windows(2));
        links.into_iter().find(|link| link[1] == at).map(|link| link[0])
    }

    /// Returns the chains whose tasks activate each other.
    pub fn by_events(&self) -> impl Iterator<Item = &Chain> {
        self.all.iter().filter(|chain| chain.activation == Activation::Event)
    }

    /// Returns the first chain that is invalid for the given tasks, with the reason.
    pub fn wrong(&self, tasks: &[Task]) -> Option<(usize, String)> {
        self.all.iter().enumerate().find_map(|(at, chain)| Some((at, self.refused(chain, tasks)?)))
    }

    fn refused(&self, chain: &Chain, tasks: &[Task]) -> Option<String> {
        let twice = |at: usize| chain.tasks[..at].contains(&chain.tasks[at]);
        if let Some(at) = (0..chain.tasks.len()).find(|&at| twice(at)) {
            return Some(format!("task {} is duplicated", chain.tasks[at]));
        }
        if chain.activation == Activation::Periodic {
            return None;
        }
        chain.tasks.windows(2).find_map(|link| {
            let (before, at) = (link[0], link[1]);
            if tasks[before].period != tasks[at].period {
                let periods = (tasks[before].period, tasks[at].period);
                return Some(format!(
                    "task {before} activates task {at}, but the periods of these tasks are {} and {}: expected equal periods",
                    periods.0, periods.1
                ));
            }
            if tasks[at].jitter > Time::ZERO {
                return Some(format!(
                    "task {at} has jitter_us, but task {before} activates it, so the jitter follows from the chain: remove jitter_us"
                ));
            }
            match self.activator(at) {
                Some(other) if other != before => {
                    Some(format!("both task {before} and task {other} activate task {at}"))
                }
                _ => self.activates_itself(at).then(|| format!("task {at} activates itself")),
            }
        })
    }

    /// Returns whether the activators of a task lead back to the task.
    fn activates_itself(&self, at: usize) -> bool {
        let mut before = self.activator(at);
        for _ in 0..self.least.len() {
            match before {
                Some(task) if task == at => return true,
                Some(task) => before = self.activator(task),
                None => return false,
            }
        }
        true
    }

    /// Returns the chains with their times converted to a unit of time that is `unit` times finer.
    #[must_use]
    pub fn in_finer(&self, unit: u64) -> Self {
        let finer = |chain: &Chain| Chain { deadline: chain.deadline * unit, ..chain.clone() };
        let least = self.least.iter().map(|&it| it * unit).collect();
        Self { all: self.all.iter().map(finer).collect(), least }
    }
}
