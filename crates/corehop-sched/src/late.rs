// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks that miss their deadlines in a rejected set, and by how much.

use serde::Serialize;

use super::catalogue::Test;
use super::charge::ChargedAnswer;
use super::sentence::{called, charged_tasks, late_tasks, on_cpus};
use super::system::System;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// A task that can miss its deadline. Times are in ticks, written in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Late {
    /// The index of the task in the set.
    pub task: usize,
    /// The task's relative deadline.
    pub deadline_us: Time,
    /// The task's longest response; `None` if a backlog grows without limit or the response is not known.
    pub response_us: Option<Time>,
    /// The time by which the response exceeds the deadline.
    pub late_us: Option<Time>,
    /// Whether the task is late only because of the charges.
    pub by_charges: bool,
}

/// Returns the tasks that are late under `scheduler`: without charges if there are such tasks, otherwise with
/// charges. Responses are known on one CPU, and on several CPUs if the set gives each task its CPU.
pub fn late(set: &TaskSet, test: &Test, scheduler: Scheduler, asked: &ChargedAnswer) -> Vec<Late> {
    if test.is_soft() {
        return Vec::new();
    }
    let of = |tasks: &[Task], by_charges: bool| -> Vec<Late> {
        let supply = on_cpus(set, test, asked);
        let system = System { tasks, supply, ..System::of(set) };
        let mut found = late_tasks(scheduler.order(), system);
        let alone = (0..tasks.len()).filter(|&at| tasks[at].wcet > tasks[at].deadline);
        let alone: Vec<usize> = alone.filter(|at| !found.iter().any(|it| it.0 == *at)).collect();
        found.extend(alone.into_iter().map(|at| (at, Some(tasks[at].wcet))));
        found.into_iter().map(|(at, response)| Late::new(set, at, response, by_charges)).collect()
    };
    let bare = of(set.tasks(), false);
    if !bare.is_empty() || asked.charged.is_none() {
        return bare;
    }
    of(&charged_tasks(set, asked), true)
}

impl Late {
    fn new(set: &TaskSet, task: usize, response_us: Option<Time>, by_charges: bool) -> Self {
        let deadline_us = set.tasks()[task].deadline;
        let late_us = response_us.map(|it| it.saturating_sub(deadline_us));
        Self { task, deadline_us, response_us, late_us, by_charges }
    }

    /// Describes the late task as a clause: `` `b` by 2 ms: it can take 12 ms and has 10 ms ``.
    pub fn sentence(&self, set: &TaskSet) -> String {
        let span = |time| set.tick().span(time);
        let (who, has) = (called(set, self.task), span(self.deadline_us));
        let with = if self.by_charges { " with the charges" } else { "" };
        match self.response_us.zip(self.late_us) {
            Some((response, late)) => {
                format!(
                    "{who} by {}: it can take {}{with} and has {has}",
                    span(late),
                    span(response)
                )
            }
            None => format!(
                "{who} without end{with}: more work arrives than the CPU completes; the deadline is {has}"
            ),
        }
    }
}
