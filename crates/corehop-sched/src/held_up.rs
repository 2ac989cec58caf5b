// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs on one CPU that wait for more than jobs of higher priority: for critical sections of jobs with lower
//! priority, and for devices (suspension).
//!
//! **Ceilings under fixed priorities** (Sha, Rajkumar and Lehoczky, IEEE TC 39(9), 1990; Baker, Real-Time Systems
//! 3(1), 1991). The ceiling of a resource is the priority of the most urgent task that uses the resource. A job waits
//! at most once for a section of a less urgent task, and only for a section whose resource has a ceiling of at least
//! the job's priority. The longest of these sections bounds the wait.
//!
//! **Priority inheritance** (Sha, Rajkumar and Lehoczky 1990). A less urgent job delays a busy window of priority i
//! only with a section that the job had already entered when the window began, because within the window the job runs
//! only while it inherits a priority. So each less urgent job delays the window at most once. A lock has one holder,
//! so each lock also delays the window at most once. The bound is the smaller of both sums. The sum over locks needs
//! that a released lock has no owner until a waiter runs and takes the lock, as rt_mutex of Linux does. If a release
//! handed the lock to the next waiter, that waiter could be less urgent than i, hold the lock within the window, and
//! delay the window a second time by one lock. Sections must not be nested, because a job within a nested section
//! could wait for the holder of another lock.
//!
//! **The stack resource policy under EDF** (Baker 1991; Baruah, RTSS 2006). Jobs that are due within `t` of the
//! beginning of a busy interval wait for at most one section of a job that is due later. `B(t)` is the longest
//! section of a task with `D > t` whose resource some task with `D <= t` uses. A deadline is met if `DBF(t) + B(t) <=
//! t` at all t.
//!
//! **Reloads.** A job that is preempted within a section reloads within that section. The preemption can happen
//! before the busy window that the section delays, so each section is longer by the delay of its task
//! ([`Locks::reloading`]). A preemption within the window costs at least the largest delay of the less urgent tasks
//! with sections.
//!
//! **Suspension** under EDF counts as execution (Liu 2000; Chen et al., Real-Time Systems 55(1), 2019). For fixed
//! priorities see [`suspension`](super::uni::suspension).

use super::ranking::Ranking;
use super::system::System;
use super::uni::edf::{self, Hold};
use super::uni::edf_response::{Preemption, response_times_held_up};
use super::uni::{STEPS, fixed, suspension};
use super::verdict::Verdict;
use corehop_plan::workload::locks::{CriticalSection, Locking, Locks};
use corehop_plan::workload::task::{Task, Time};

/// The longest time for which jobs of the tasks `below` delay jobs of the tasks `upwards`, under fixed priorities.
fn by_sections(locks: &Locks, upwards: &[usize], below: &[usize]) -> Time {
    let used = |resource: usize| {
        upwards.iter().any(|&at| locks.sections[at].iter().any(|it| it.resource == resource))
    };
    let holding = |at: usize| locks.sections[at].iter().filter(|it| used(it.resource));
    let longest = |of: &mut dyn Iterator<Item = &CriticalSection>| of.map(|it| it.longest).max();
    let by_task = below.iter().filter_map(|&at| longest(&mut holding(at)));
    if locks.protocol != Locking::Pi {
        return by_task.max().unwrap_or(Time::ZERO);
    }
    let of_lock = |resource: usize| {
        let all = below.iter().flat_map(|&at| holding(at));
        longest(&mut all.filter(|it| it.resource == resource))
    };
    let by_lock = (0..locks.names.len()).filter_map(of_lock);
    by_task.sum::<Time>().min(by_lock.sum())
}

/// Task `i` of the set with the tasks `above` and `below` it, including the blocking by its locks and by the locks of
/// the tasks `below`.
pub(crate) fn with_blocking(
    system: System<'_>,
    i: usize,
    above: &[usize],
    below: &[usize],
) -> Task {
    let own = system.tasks[i];
    let upwards = [above, &[i]].concat();
    let by_locks = system.locks.map_or(Time::ZERO, |locks| by_sections(locks, &upwards, below));
    Task { blocking: own.blocking + by_locks, ..own }
}

/// The tasks of a CPU under fixed priorities, including the blocking by their locks.
pub(crate) fn by_priority(system: System<'_>, group: &[usize]) -> Vec<Task> {
    let mut own: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
    if system.locks.is_none() {
        return own;
    }
    let ranking = Ranking::of(&own);
    let of_set = |places: &[usize]| -> Vec<usize> { places.iter().map(|&at| group[at]).collect() };
    for (place, &i) in ranking.order().iter().enumerate() {
        let (above, below) = (of_set(ranking.above(place)), of_set(ranking.below(place)));
        own[i].blocking = with_blocking(system, group[i], &above, &below).blocking;
    }
    own
}

/// The delays of the tasks of a CPU if a job that is preempted within a section delays others while it reloads. Each
/// task pays at least for all less urgent tasks with sections.
pub(crate) fn with_reloads_of_holders(
    system: System<'_>,
    group: &[usize],
    delays: Vec<Time>,
) -> Vec<Time> {
    let Some(locks) = system.locks else { return delays };
    let own: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
    let mut charged = delays.clone();
    let mut most = Time::ZERO;
    for &at in Ranking::of(&own).order().iter().rev() {
        charged[at] = delays[at].max(most);
        if !locks.sections[group[at]].is_empty() {
            most = most.max(delays[at]);
        }
    }
    charged
}

/// Returns a priority order in which each task meets its deadline (Audsley 1991). Blocking by locks depends on which
/// tasks are above and below, not on their order. Suspension too depends on which tasks are above, if suspending tasks
/// are counted by their deadlines.
///
/// # Errors
/// Returns the errors of [`fixed::audsley`].
pub(crate) fn assigned(system: System<'_>) -> Result<Vec<usize>, Verdict> {
    if is_plain(system, system.tasks) {
        return fixed::audsley_on(system.tasks, system.supply());
    }
    let mut steps = STEPS;
    let all = system.tasks.len();
    let fits = |i: usize, above: &[usize]| {
        let below: Vec<usize> = (0..all).filter(|at| *at != i && !above.contains(at)).collect();
        let mut tasks = system.tasks.to_vec();
        tasks[i] = with_blocking(system, i, above, &below);
        suspension::meets_below(&tasks, above, i, &mut steps)
    };
    fixed::optimal_assignment(all, fits).ok_or(Verdict::Unknown)
}

/// Verdict and responses of the tasks of a CPU under fixed priorities, including blocking by their locks.
pub(crate) fn responses_by_priority(system: System<'_>, group: &[usize]) -> (Verdict, Vec<Time>) {
    let tasks = by_priority(system, group);
    if tasks.iter().any(|task| task.suspension > Time::ZERO) {
        return suspension::response_times(&tasks);
    }
    let mut responses = vec![Time::ZERO; tasks.len()];
    let verdict = fixed::response_time_analysis_on(&tasks, system.supply(), Some(&mut responses));
    (verdict, responses)
}

/// The sections of later deadline that delay jobs under the stack resource policy. `tasks` are the tasks of `group`.
fn holds(system: System<'_>, group: &[usize], tasks: &[Task]) -> Vec<Hold> {
    let Some(locks) = system.locks else { return Vec::new() };
    let first_user = |resource: usize| {
        let uses = |at: &usize| locks.sections[*at].iter().any(|it| it.resource == resource);
        let users = group.iter().zip(tasks).filter(|(at, _)| uses(at));
        users.map(|(_, task)| task.deadline).min()
    };
    let of_task = |(&at, task): (&usize, &Task)| -> Vec<Hold> {
        let hold = |it: &CriticalSection| {
            let from = first_user(it.resource)?;
            Some(Hold { from, until: task.deadline, longest: it.longest })
        };
        locks.sections[at].iter().filter_map(hold).filter(|it| it.from < it.until).collect()
    };
    group.iter().zip(tasks).flat_map(of_task).collect()
}

/// The tasks with suspension counted as execution.
fn oblivious(tasks: &[Task]) -> Vec<Task> {
    let longer = |task: &Task| Task { suspension: Time::ZERO, ..task.longer(task.suspension) };
    tasks.iter().map(longer).collect()
}

/// Whether nothing but jobs of higher priority delays the tasks.
pub(crate) fn is_plain(system: System<'_>, tasks: &[Task]) -> bool {
    system.locks.is_none() && tasks.iter().all(|task| task.suspension == Time::ZERO)
}

/// Whether an exact analysis stays exact for these tasks: the analysis is not exact if a delay is only bounded, because
/// such a delay need not happen.
pub(crate) fn is_exact(system: System<'_>, tasks: &[Task]) -> bool {
    is_plain(system, tasks) && tasks.iter().all(|task| task.blocking == Time::ZERO)
}

/// Whether EDF meets the deadlines of `tasks`, which are the tasks of `group` including their charges.
pub(crate) fn demand(system: System<'_>, group: &[usize], tasks: &[Task]) -> Verdict {
    if is_plain(system, tasks) {
        return edf::qpa_on(tasks, system.supply());
    }
    let holds = holds(system, group, tasks);
    let verdict = edf::qpa_held_up(&oblivious(tasks), &holds, system.supply());
    match verdict {
        // A job need not suspend itself, nor find a lock taken.
        Verdict::Unschedulable if edf::qpa_on(tasks, system.supply()) != Verdict::Unschedulable => {
            Verdict::Unknown
        }
        verdict => verdict,
    }
}

/// Bounds on the responses of `tasks` under EDF, which are the tasks of `group` including their charges.
pub(crate) fn responses_by_deadline(
    system: System<'_>,
    group: &[usize],
    tasks: &[Task],
) -> Option<Vec<Time>> {
    let holds = holds(system, group, tasks);
    response_times_held_up(&oblivious(tasks), Preemption::Free, &holds, system.supply())
}
