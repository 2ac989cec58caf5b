// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for preemptive EDF on one CPU.

use std::cmp::Ordering;

use super::{STEPS, busy_period, busy_period_on};
use crate::exact::{compare_sum, relative_error};
use crate::supply::{FULL, Supply};
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Compares the sum of `u` with 1. The test is exact if no deadline is before the end of its period (Liu and Layland
/// 1973; Baruah, Mok and Rosier 1990), and necessary otherwise.
pub fn utilisation(tasks: &[Task]) -> Verdict {
    match compare_sum(tasks.iter().map(Task::u), 1) {
        Ordering::Greater => Verdict::Unschedulable,
        _ if tasks.iter().all(|task| task.deadline >= task.period) => Verdict::Schedulable,
        _ => Verdict::Unknown,
    }
}

/// Tests that the sum of `C / min(D, T)` is at most 1, which is sufficient.
pub fn density(tasks: &[Task]) -> Verdict {
    Verdict::sufficient(compare_sum(tasks.iter().map(Task::delta), 1).is_le())
}

/// Runs quick processor-demand analysis (Zhang and Burns, IEEE TC 58(9), 2009), which is exact for any deadlines.
///
/// `DBF(t) <= t` must hold at each deadline before some horizon. From the horizon down, the demand by `t` also covers
/// every instant between `DBF(t)` and `t`, so the analysis skips these.
///
/// With release jitter, a job that arrives at `a` is due at `a + D` and can be released at `a + J`. So the demand with
/// release jitter equals the demand of tasks with deadlines `D - J` (Baruah, Chen and Mok, RTSS 1997). For blocking see
/// `qpa_held_up`.
pub fn qpa(tasks: &[Task]) -> Verdict {
    qpa_on(tasks, &FULL)
}

/// Runs [`qpa`] on a CPU with this supply: `DBF(t) <= sbf(t)`.
pub fn qpa_on(tasks: &[Task], supply: &Supply) -> Verdict {
    let plain = |task: &Task| task.jitter == Time::ZERO && task.blocking == Time::ZERO;
    if tasks.iter().all(plain) {
        demanded_on(tasks, supply)
    } else {
        qpa_held_up(tasks, &[], supply)
    }
}

/// The longest section of a job that is due `until` after its release, if jobs that are due within `from` use the
/// section's resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub from: Time,
    pub until: Time,
    pub longest: Time,
}

/// Tests `DBF(t) + B(t) <= t` at each deadline (Baker 1991; Baruah, RTSS 2006). `B(t)` is the longest section of
/// later jobs that delays a job due within `t`, beside the stated blocking of tasks. A no comes only from the demand
/// without `B(t)`.
pub(crate) fn qpa_held_up(tasks: &[Task], holds: &[Hold], supply: &Supply) -> Verdict {
    if tasks.iter().any(|task| task.jitter >= task.deadline) {
        return Verdict::Unschedulable;
    }
    let tasks: Vec<Task> = tasks.iter().map(released).collect();
    let verdict = demanded_on(&tasks, supply);
    let blocked = !holds.is_empty() || tasks.iter().any(|task| task.blocking > Time::ZERO);
    if blocked && verdict == Verdict::Schedulable {
        return Verdict::sufficient(blocked_demand_fits(&tasks, holds, supply));
    }
    verdict
}

/// A task whose deadlines count from the latest possible release.
pub(crate) fn released(task: &Task) -> Task {
    Task { deadline: task.deadline - task.jitter, jitter: Time::ZERO, ..*task }
}

/// The blocking term `B(t)` of tasks whose deadlines count from their releases.
pub(crate) fn blocking_within(tasks: &[Task], holds: &[Hold], t: Time) -> Time {
    let stated = tasks.iter().filter(|task| task.deadline <= t).map(|task| task.blocking);
    let held = holds.iter().filter(|it| it.from <= t && t < it.until).map(|it| it.longest);
    stated.max().unwrap_or(Time::ZERO) + held.max().unwrap_or(Time::ZERO)
}

/// Whether `DBF(t) + B(t) <= t` at each deadline. Between two instants at which `B` changes, the sum grows with `t`,
/// so the demand by `t` also covers earlier instants, as in [`qpa`].
fn blocked_demand_fits(tasks: &[Task], holds: &[Hold], supply: &Supply) -> bool {
    let mut changes: Vec<Time> = tasks.iter().map(|task| task.deadline).collect();
    changes.extend(holds.iter().flat_map(|it| [it.from, it.until]));
    changes.sort_unstable();
    changes.dedup();
    let most =
        changes.iter().map(|&t| blocking_within(tasks, holds, t)).max().unwrap_or(Time::ZERO);
    let Some(mut until) = horizon_on(tasks, most, supply) else { return false };
    let mut steps = STEPS / tasks.len() as u64;
    let end = until;
    for &from in changes.iter().rev().filter(|&&from| from < end) {
        let blocking = blocking_within(tasks, holds, from);
        let mut at = deadline_before(tasks, until);
        while let Some(t) = at.filter(|&t| t >= from) {
            let work = blocking + tasks.iter().map(|task| task.demand(t)).sum::<Time>();
            let demand = supply.time_for(work);
            let Some(left) = steps.checked_sub(1).filter(|_| demand <= t) else { return false };
            steps = left;
            at = if demand < t { Some(demand) } else { deadline_before(tasks, t) };
        }
        until = from;
    }
    true
}

/// Runs [`qpa`] for tasks without jitter, ignoring their blocking.
fn demanded(tasks: &[Task]) -> Verdict {
    if tasks.iter().any(|task| task.wcet > task.deadline) {
        return Verdict::Unschedulable;
    }
    match utilisation(tasks) {
        Verdict::Unknown => {}
        told => return told,
    }
    demanded_before(tasks, horizon(tasks, Time::ZERO), &FULL)
}

/// Tests, for tasks without jitter on a CPU with this supply, `DBF(t) <= sbf(t)` at each deadline within the
/// synchronous busy period. The period ends when the CPU has supplied all released work. Demand by `t` that the CPU
/// supplies by `s <= t` is also supplied at all instants in between.
fn demanded_on(tasks: &[Task], supply: &Supply) -> Verdict {
    if tasks.is_empty() || supply.is_full() || utilisation(tasks) == Verdict::Unschedulable {
        return demanded(tasks);
    }
    if tasks.iter().any(|task| supply.time_for(task.wcet) > task.deadline) {
        return Verdict::Unschedulable;
    }
    demanded_before(tasks, horizon_on(tasks, Time::ZERO, supply), supply)
}

/// [`horizon`] on a CPU with this supply: the end of the busy period.
fn horizon_on(tasks: &[Task], blocking: Time, supply: &Supply) -> Option<Time> {
    if supply.is_full() {
        return horizon(tasks, blocking);
    }
    busy_period_on(tasks, blocking, supply).map(|busy| busy + Time::TICK)
}

fn demanded_before(tasks: &[Task], horizon: Option<Time>, supply: &Supply) -> Verdict {
    match horizon {
        Some(horizon) => demand_fits_before(tasks, horizon, supply),
        None => Verdict::Unknown,
    }
}

/// An instant before which the first missed deadline must lie, if one exists. The bound is the smaller of the length
/// that follows from the slack `1 - U` and the synchronous busy period, with `blocking` by later jobs.
fn horizon(tasks: &[Task], blocking: Time) -> Option<Time> {
    let by_slack = slack_bound(tasks, blocking);
    let longest = tasks.iter().map(|task| task.deadline).max().unwrap_or(Time::ZERO);
    match by_slack {
        // A busy period costs more to find; it pays only against a far horizon.
        Some(bound) if bound / 64 < longest => Some(bound),
        _ => match (busy_period(tasks, blocking), by_slack) {
            (Some(busy), Some(slack)) => Some(busy.min(slack)),
            (busy, slack) => busy.or(slack),
        },
    }
}

/// An upper bound on `max(max(D - T), (B + sum of (T - D) u) / (1 - U))`, including the rounding error; `None` if the
/// utilisation is 1 or too close to 1.
fn slack_bound(tasks: &[Task], blocking: Time) -> Option<Time> {
    let blocking = blocking.as_f64();
    let (mut spare, mut weighted, mut magnitude) = (1.0, blocking, blocking);
    let mut lead = Time::ZERO;
    for task in tasks {
        let u = task.wcet.as_f64() / task.period.as_f64();
        spare -= u;
        weighted += (task.period.as_f64() - task.deadline.as_f64()) * u;
        magnitude += (task.period + task.deadline).as_f64() * u;
        lead = lead.max(task.deadline.saturating_sub(task.period));
    }
    let error = relative_error(tasks.len());
    let spare = spare - 2.0 * error;
    if spare <= 0.0 {
        return None;
    }
    let bound = (weighted + magnitude * error).max(0.0) / spare * (1.0 + error) + 2.0;
    (bound < (1_u64 << 60) as f64).then_some(Time::new(bound as u64).max(lead + Time::TICK))
}

/// The latest deadline before `t` if all tasks release jobs at 0 and then as often as possible.
#[inline]
pub(crate) fn deadline_before(tasks: &[Task], t: Time) -> Option<Time> {
    let of = |task: &Task| {
        let since = t.checked_sub(task.deadline + Time::TICK)?;
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
            Some(earlier) if earlier > Time::ZERO => t = earlier,
            _ => return Verdict::Schedulable,
        }
    }
    Verdict::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uni::busy_period;
    use Verdict::{Schedulable, Unknown, Unschedulable};
    use corehop_fixtures::task_sets::{implicit, set};

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
    fn demand_with_blocking_is_that_of_its_slow_twin() {
        // Every instant up to 400: far beyond each busy period of these sets.
        let slow = |tasks: &[Task], holds: &[Hold]| {
            (1..400).map(Time::new).filter(|&t| tasks.iter().any(|task| task.deadline <= t)).all(
                |t| {
                    let stated =
                        tasks.iter().filter(|task| task.deadline <= t).map(|it| it.blocking);
                    let held = holds.iter().filter(|it| (it.from..it.until).contains(&t));
                    let blocking = stated.max().unwrap()
                        + held.map(|it| it.longest).max().unwrap_or(Time::ZERO);
                    tasks.iter().map(|task| task.demand(t)).sum::<Time>() + blocking <= t
                },
            )
        };
        let mut accepted = 0;
        for index in 0..2_000 {
            let mut stream = corehop_plan::workload::draw::DrawStream::of_set(9, index);
            let mut task = || {
                let period = 5 + stream.below(20);
                let wcet = 1 + stream.below(period / 4);
                let given = (wcet, period, wcet + stream.below(2 * period));
                (given, stream.below(2) * stream.below(5))
            };
            let drawn: Vec<_> = (0..3).map(|_| task()).collect();
            let mut tasks =
                set(1, &drawn.iter().map(|it| it.0).collect::<Vec<_>>()).tasks().to_vec();
            tasks.iter_mut().zip(&drawn).for_each(|(task, it)| task.blocking = Time::new(it.1));
            let (from, until) = (tasks[0].deadline, tasks[1].deadline.max(tasks[2].deadline));
            let longest = Time::new(1 + stream.below(4));
            let holds = if from < until { vec![Hold { from, until, longest }] } else { Vec::new() };
            let load: f64 = tasks.iter().map(|it| it.wcet.as_f64() / it.period.as_f64()).sum();
            if load > 0.9 {
                continue;
            }
            let expected = slow(&tasks, &holds);
            accepted += u32::from(expected);
            assert_eq!(
                qpa_held_up(&tasks, &holds, &FULL) == Schedulable,
                expected,
                "{tasks:?} {holds:?}"
            );
        }
        assert!((400..1_500).contains(&accepted), "{accepted}");
    }

    #[test]
    fn blocking_is_a_bound_and_jitter_is_not() {
        // 2 due within 5 and 6 within 12 of 20: 8 by 12. A section of 3 holds up the first: 5 by 5; one of 4 is too long.
        let tasks = |blocking, jitter| {
            let mut tasks = set(1, &[(2, 20, 5), (6, 20, 12)]).tasks().to_vec();
            (tasks[0].blocking, tasks[1].jitter) = (blocking, jitter);
            tasks
        };
        assert_eq!(qpa(&tasks(Time::new(3), Time::ZERO)), Schedulable);
        assert_eq!(qpa(&tasks(Time::new(4), Time::ZERO)), Unknown);
        // Released 4 late the second leaves 8 of 12, and 5 late 7.
        assert_eq!(qpa(&tasks(Time::ZERO, Time::new(4))), Schedulable);
        assert_eq!(qpa(&tasks(Time::ZERO, Time::new(5))), Unschedulable);
        // Released after its deadline a job is late whatever runs.
        let late = tasks(Time::ZERO, Time::new(12));
        assert_eq!(qpa(&late), Unschedulable);
        let rta = crate::catalogue::test("edf-rta").unwrap();
        let answer = rta.run(crate::system::System::plain(1, &late));
        assert_eq!(answer.verdict, Unschedulable);
        // The section belongs to the second: by 12 it holds nothing up.
        let hold = |longest| [Hold { from: Time::new(5), until: Time::new(12), longest }];
        assert_eq!(qpa_held_up(&tasks(Time::ZERO, Time::new(4)), &[], &FULL), Schedulable);
        assert_eq!(
            qpa_held_up(&tasks(Time::ZERO, Time::ZERO), &hold(Time::new(3)), &FULL),
            Schedulable
        );
        assert_eq!(
            qpa_held_up(&tasks(Time::ZERO, Time::ZERO), &hold(Time::new(4)), &FULL),
            Unknown
        );
    }

    #[test]
    fn the_busy_period_ends_when_all_that_came_is_done() {
        // 2 + 3 = 5, by when the first came again: 7; by then both did: 10; and the first: 12.
        let tasks = implicit(1, &[(2, 4), (3, 6)]);
        assert_eq!(busy_period(tasks.tasks(), Time::ZERO), Some(Time::new(12)));
    }

    #[test]
    fn a_deadline_is_found_before_an_instant_and_not_at_it() {
        let tasks = set(1, &[(1, 10, 3), (1, 7, 7)]);
        assert_eq!(deadline_before(tasks.tasks(), Time::new(3)), None);
        assert_eq!(deadline_before(tasks.tasks(), Time::new(4)), Some(Time::new(3)));
        assert_eq!(deadline_before(tasks.tasks(), Time::new(14)), Some(Time::new(13)));
        assert_eq!(deadline_before(tasks.tasks(), Time::new(15)), Some(Time::new(14)));
    }
}
