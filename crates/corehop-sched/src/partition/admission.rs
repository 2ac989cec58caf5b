// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether a CPU or a cluster admits tasks, including their charges.

use crate::bill::Payer;
use crate::cache_aware::{Approach, fixed as blocks, pairs};
use crate::exact::compare_sum;
use crate::held_up;
use crate::system::System;
use crate::uni::fixed;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// The condition under which a bin (a CPU or a cluster) admits tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// The total utilisation is at most the number of CPUs of the bin, and each task's utilisation is at most 1.
    Utilisation,
    /// Processor-demand analysis accepts the tasks; for bins of one CPU.
    Demand,
    /// Response-time analysis accepts the tasks under fixed priorities; for bins of one CPU.
    Response,
    /// Response-time analysis with reload costs by cache blocks accepts the tasks; for bins of one CPU.
    Blocks(Approach),
    /// Response-time analysis with measured delays by pair of tasks accepts the tasks; for bins of one CPU.
    Pairs,
}

/// The payer among the tasks of a bin of `cpus` CPUs under EDF.
pub(crate) fn payer(cpus: u32) -> Payer {
    if cpus == 1 { Payer::LaterDeadline } else { Payer::Deadlines }
}

impl Admission {
    /// Whether a bin of `cpus` CPUs admits the tasks `group`, given in ascending order.
    pub(super) fn meets(self, system: System<'_>, cpus: u32, group: &[usize]) -> bool {
        match self {
            Self::Utilisation => fits(&charged(system, cpus, group), cpus),
            Self::Demand => {
                let tasks = charged(system, cpus, group);
                held_up::demand(system, group, &tasks) == Verdict::Schedulable
            }
            Self::Response => responses(system, group).is_some(),
            Self::Blocks(approach) => responses_by_blocks(system, group, approach).is_some(),
            Self::Pairs => responses_by_pairs(system, group).is_some(),
        }
    }
}

/// The tasks of a bin, including their charges under EDF.
pub(crate) fn charged(system: System<'_>, cpus: u32, group: &[usize]) -> Vec<Task> {
    match system.bill {
        None => group.iter().map(|&at| system.tasks[at]).collect(),
        Some(bill) => bill.group(payer(cpus), cpus, system.tasks, group).tasks,
    }
}

/// Whether `U <= m` and each `u <= 1`.
fn fits(tasks: &[Task], cpus: u32) -> bool {
    let each = tasks.iter().all(|task| task.wcet <= task.period);
    each && compare_sum(tasks.iter().map(Task::u), u64::from(cpus)).is_le()
}

/// Responses of the tasks of one CPU under fixed priorities, including their charges; `None` if a task may miss its
/// deadline.
pub(crate) fn responses(system: System<'_>, group: &[usize]) -> Option<Vec<Time>> {
    let (verdict, responses) = analysed(system, group);
    verdict.is_schedulable().then_some(responses)
}

/// Verdict and responses of the tasks of one CPU under fixed priorities, including their charges.
pub(crate) fn analysed(system: System<'_>, group: &[usize]) -> (Verdict, Vec<Time>) {
    let Some(bill) = system.bill else { return held_up::responses_by_priority(system, group) };
    let own = held_up::by_priority(system, group);
    let delays = held_up::with_reloads_of_holders(system, group, bill.of(group));
    let (tasks, delays) = bill.priorities(&own, &delays);
    let mut responses = vec![Time::ZERO; tasks.len()];
    let (supply, all) = (system.supply(), Some(&mut responses[..]));
    let verdict = fixed::response_time_analysis_with_delays(&tasks, &delays, supply, all);
    responses.truncate(group.len());
    (verdict, responses)
}

/// Responses of the tasks of one CPU with reloads by cache blocks; `None` if a task may miss its deadline.
pub(crate) fn responses_by_blocks(
    system: System<'_>,
    group: &[usize],
    approach: Approach,
) -> Option<Vec<Time>> {
    let cache = system.cache?;
    let own: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
    let footprints: Vec<_> = group.iter().map(|&at| cache.footprints[at].clone()).collect();
    blocks::responses(&own, &footprints, cache.reload, approach)
}

/// Responses of the tasks of one CPU with delays by pair; `None` if a task may miss its deadline. Tasks on other CPUs
/// preempt none of these tasks.
pub(crate) fn responses_by_pairs(system: System<'_>, group: &[usize]) -> Option<Vec<Time>> {
    let own: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
    pairs::responses(&own, &system.pairs?.of(group))
}
