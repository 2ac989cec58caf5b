// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemptive EDF on one CPU: is every deadline met?

use std::cmp::Ordering;

use super::{STEPS, busy_period, busy_period_on};
use crate::sched::exact::{compare_sum, relative_error};
use crate::sched::supply::{FULL, Supply};
use crate::sched::verdict::Verdict;
use crate::workload::task::{Task, Time};

/// The sum of `u` against 1. Exact where no deadline is before the end of its period (Liu and Layland
/// 1973; Baruah, Mok and Rosier 1990), necessary otherwise.
pub fn utilisation(tasks: &[Task]) -> Verdict {
    match compare_sum(tasks.iter().map(Task::u), 1) {
        Ordering::Greater => Verdict::Unschedulable,
        _ if tasks.iter().all(|task| task.deadline >= task.period) => Verdict::Schedulable,
        _ => Verdict::Unknown,
    }
}

/// The sum of `C / min(D, T)` is at most 1: sufficient.
pub fn density(tasks: &[Task]) -> Verdict {
    Verdict::sufficient(compare_sum(tasks.iter().map(Task::delta), 1).is_le())
}

/// Quick processor-demand analysis (Zhang and Burns, IEEE TC 58(9), 2009): exact for any deadlines.
///
/// `DBF(t) <= t` has to hold at each deadline before some horizon. From the horizon down, what is
/// demanded by `t` also covers every instant between `DBF(t)` and `t`, so these are skipped.
pub fn qpa(tasks: &[Task]) -> Verdict {
    if tasks.iter().any(|task| task.wcet > task.deadline) {
        return Verdict::Unschedulable;
    }
    match utilisation(tasks) {
        Verdict::Unknown => {}
        told => return told,
    }
    match horizon(tasks) {
        Some(horizon) => demand_fits_before(tasks, horizon, &FULL),
        None => Verdict::Unknown,
    }
}

/// The same on a CPU with this supply: `DBF(t) <= sbf(t)` at each deadline within the synchronous busy period, which ends when
/// all that came is supplied. What is demanded by `t` and supplied by `s <= t` is supplied at all instants between.
pub fn qpa_on(tasks: &[Task], supply: &Supply) -> Verdict {
    if supply.is_full() || utilisation(tasks) == Verdict::Unschedulable {
        return qpa(tasks);
    }
    if tasks.iter().any(|task| supply.time_for(task.wcet) > task.deadline) {
        return Verdict::Unschedulable;
    }
    match busy_period_on(tasks, 0, supply) {
        Some(busy) => demand_fits_before(tasks, busy + 1, supply),
        None => Verdict::Unknown,
    }
}

/// An instant before which a first miss must lie, if there is one: the smaller of the length that
/// follows from the slack `1 - U`, and of the synchronous busy period.
fn horizon(tasks: &[Task]) -> Option<Time> {
    let by_slack = slack_bound(tasks);
    let longest = tasks.iter().map(|task| task.deadline).max().unwrap_or(0);
    match by_slack {
        // A busy period costs more to find; it pays only against a far horizon.
        Some(bound) if bound / 64 < longest => Some(bound),
        _ => match (busy_period(tasks, 0), by_slack) {
            (Some(busy), Some(slack)) => Some(busy.min(slack)),
            (busy, slack) => busy.or(slack),
        },
    }
}

/// No less than `max(max(D - T), sum of (T - D) u / (1 - U))`, and more by a rounding error; none where
/// the utilisation is 1, or too close to it.
fn slack_bound(tasks: &[Task]) -> Option<Time> {
    let (mut spare, mut weighted, mut magnitude) = (1.0, 0.0, 0.0);
    let mut lead = 0;
    for task in tasks {
        let u = task.wcet as f64 / task.period as f64;
        spare -= u;
        weighted += (task.period as f64 - task.deadline as f64) * u;
        magnitude += (task.period + task.deadline) as f64 * u;
        lead = lead.max(task.deadline.saturating_sub(task.period));
    }
    let error = relative_error(tasks.len());
    let spare = spare - 2.0 * error;
    if spare <= 0.0 {
        return None;
    }
    let bound = (weighted + magnitude * error).max(0.0) / spare * (1.0 + error) + 2.0;
    (bound < (1_u64 << 60) as f64).then_some((bound as Time).max(lead + 1))
}

/// The latest deadline before `t` when all tasks release at 0 and as often as they may.
#[inline]
pub(crate) fn deadline_before(tasks: &[Task], t: Time) -> Option<Time> {
    let of = |task: &Task| {
        let since = t.checked_sub(task.deadline + 1)?;
        Some(since - since % task.period + task.deadline)
    };
    tasks.iter().filter_map(of).max()
}

fn demand_fits_before(tasks: &[Task], horizon: Time, supply: &Supply) -> Verdict {
    let Some(mut t) = deadline_before(tasks, horizon) else { return Verdict::Schedulable };
    for _ in 0..STEPS / tasks.len() as u64 {
        let demand = supply.time_for(tasks.iter().map(|task| task.demand(t)).sum());
        if demand > t {
            return Verdict::Unschedulable;
        }
        // Where all is demanded that there is time for, the next instant to look at is a deadline.
        let next = if demand < t { Some(demand) } else { deadline_before(tasks, t) };
        match next {
            Some(earlier) if earlier > 0 => t = earlier,
            _ => return Verdict::Schedulable,
        }
    }
    Verdict::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::uni::busy_period;
    use crate::workload::task::testing::{implicit, set};
    use Verdict::{Schedulable, Unknown, Unschedulable};

    #[test]
    fn a_full_cpu_is_schedulable_and_one_unit_more_is_not() {
        let full = implicit(1, &[(1, 3), (1, 3), (1, 3)]);
        assert_eq!(utilisation(full.tasks()), Schedulable);
        assert_eq!(qpa(full.tasks()), Schedulable);
        let more = implicit(1, &[(1, 3), (1, 3), (333_334, 1_000_000)]);
        assert_eq!(utilisation(more.tasks()), Unschedulable);
        assert_eq!(qpa(more.tasks()), Unschedulable);
    }

    #[test]
    fn short_deadlines_are_told_by_demand_not_by_density() {
        // Demand by 2: 1; by 4: 3; by 6: 4: fits, though the densities make 1/2 + 2/4 + 1/6 > 1.
        let fits = set(1, &[(1, 8, 2), (2, 8, 4), (1, 8, 6)]);
        assert_eq!(density(fits.tasks()), Unknown);
        assert_eq!(qpa(fits.tasks()), Schedulable);
        // Three units are due by 2.
        let misses = set(1, &[(1, 8, 2), (2, 8, 2)]);
        assert_eq!(qpa(misses.tasks()), Unschedulable);
    }

    #[test]
    fn the_busy_period_ends_when_all_that_came_is_done() {
        // 2 + 3 = 5, by when the first came again: 7; by then both did: 10; and the first: 12.
        let tasks = implicit(1, &[(2, 4), (3, 6)]);
        assert_eq!(busy_period(tasks.tasks(), 0), Some(12));
    }

    #[test]
    fn a_deadline_is_found_before_an_instant_and_not_at_it() {
        let tasks = set(1, &[(1, 10, 3), (1, 7, 7)]);
        assert_eq!(deadline_before(tasks.tasks(), 3), None);
        assert_eq!(deadline_before(tasks.tasks(), 4), Some(3));
        assert_eq!(deadline_before(tasks.tasks(), 14), Some(13));
        assert_eq!(deadline_before(tasks.tasks(), 15), Some(14));
    }
}
