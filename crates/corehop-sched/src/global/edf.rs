// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for global EDF with closed conditions (GFB, BAK, BCL and its iterative form), and conditions that are
//! necessary for every scheduler.

use std::cmp::Ordering;

use super::demand;
use super::workload::periods;
use super::{constrained, each_fits, max_density};
use crate::divisor::Divisor;
use crate::exact::{self, Filter, compare_sum};
use crate::system::System;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Tests conditions that are necessary for every scheduler: `U <= m`, and `C <= D` for each task. If the set
/// restricts tasks to some CPUs, the confined tasks must not demand more than these CPUs supply, in the long run and
/// within any time after a common release. The test never answers yes.
pub fn necessary(system: System<'_>) -> Verdict {
    let refused = !each_fits(system.tasks)
        || overloaded(system).is_some()
        || demand::beyond(system).is_some();
    if refused { Verdict::Unschedulable } else { Verdict::Unknown }
}

/// The smallest set of CPUs whose confined tasks demand more than these CPUs supply, with these tasks.
pub(crate) fn overloaded(system: System<'_>) -> Option<(Vec<usize>, Vec<usize>)> {
    confined_groups(system).into_iter().find(|(cpus, tasks)| {
        let load: Vec<_> = tasks.iter().map(|&at| system.tasks[at].u()).collect();
        compare_sum(load.into_iter(), cpus.len() as u64).is_gt()
    })
}

/// The largest number of CPU sets that are checked for overload.
const MOST_GROUPS: usize = 64;

/// All CPUs, and the sets of CPUs that one task or several tasks together may use, the smallest first; each with the
/// tasks that cannot run elsewhere. Tasks that may migrate within their CPUs (`sched_setaffinity`) fit if and only if
/// no union of these sets is overloaded (Hall 1935; Gonzalez and Sahni 1976). Unions beyond 64 sets are left out.
pub(crate) fn confined_groups(system: System<'_>) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups: Vec<Vec<usize>> = vec![(0..system.cpus as usize).collect()];
    for place in system.placement.into_iter().flatten() {
        let mut cpus = place.cpus();
        cpus.sort_unstable();
        if !groups.contains(&cpus) {
            groups.push(cpus);
        }
    }
    let stated = groups.len();
    for first in 1.. {
        let Some(union) = groups.get(first).cloned() else { break };
        for second in 1..stated {
            let mut both = [&union[..], &groups[second]].concat();
            both.sort_unstable();
            both.dedup();
            if groups.len() < MOST_GROUPS && !groups.contains(&both) {
                groups.push(both);
            }
        }
    }
    groups.sort_by_key(Vec::len);
    let confined = |cpus: &[usize]| -> Vec<usize> {
        let within = |at: &usize| match system.placement {
            Some(places) => places[*at].cpus().iter().all(|cpu| cpus.contains(cpu)),
            None => true,
        };
        (0..system.tasks.len()).filter(within).collect()
    };
    groups.into_iter().map(|cpus| (cpus.clone(), confined(&cpus))).collect()
}

/// Tests whether there are at most as many tasks as CPUs, and `C <= D` for each task.
///
/// *Proof.* At most one job of each task is ready, because jobs of a task run one after the other. So at most m jobs
/// are ready and each of them has a CPU. A job with `C <= D` and `C <= T` therefore ends before its deadline and
/// before the task's next job arrives. The argument holds for every scheduler that never leaves a CPU idle while a
/// job is ready, whatever the priorities are and with or without preemption.
pub fn own_cpu(system: System<'_>) -> Verdict {
    let few = system.tasks.len() as u64 <= system.m();
    let each = system.tasks.iter().all(|task| task.wcet <= task.deadline.min(task.period));
    Verdict::sufficient(few && each)
}

/// Tests `sum of delta <= m - (m - 1) max delta` (Goossens, Funk and Baruah 2003; with densities, Bertogna, Cirinei and
/// Lipari 2005 and Baker and Baruah 2007).
pub fn gfb(system: System<'_>) -> Verdict {
    let m = system.m();
    if !each_fits(system.tasks) {
        return Verdict::Unknown;
    }
    let (c, d) = max_density(system.tasks);
    let all = system.tasks.iter().map(Task::delta).chain([((m - 1) * c, d)]);
    Verdict::sufficient(compare_sum(all, m).is_le())
}

/// Runs Baker's test (RTSS 2003; for deadlines beyond periods the case analysis of TPDS 16(8), 2005): for each `k`,
/// `sum of min(1, beta_i) <= m (1 - lambda) + lambda` with `lambda = C_k / D_k`.
pub fn bak(system: System<'_>) -> Verdict {
    if !each_fits(system.tasks) {
        return Verdict::Unknown;
    }
    let fits = |k: &Task| bak_sum(system, k).unwrap_or_else(|| bak_sum_exact(system, k)).is_le();
    Verdict::sufficient(system.tasks.iter().all(fits))
}

/// The sign of the left side of Baker's condition minus the right side, or `None` if floating point cannot decide.
#[expect(clippy::many_single_char_names, reason = "the paper's letters")]
fn bak_sum(system: System<'_>, k: &Task) -> Option<Ordering> {
    let (c, d) = (k.wcet.as_f64(), k.deadline.as_f64());
    let lambda = c / d;
    let m = system.m() as f64;
    let mut filter = Filter::default();
    filter.add_with(-(m * ((d - c) / d) + lambda), m + 1.0);
    for task in system.tasks {
        let (ci, ti, di) = (task.wcet.as_f64(), task.period.as_f64(), task.deadline.as_f64());
        let u = ci / ti;
        // lambda < u adds (C - lambda T)/D_k; where D > T it is (C - lambda D)/D_k between u and C/D.
        let (base, span) = if di <= ti { (u * ((d + ti - di) / d), ti) } else { (u, di) };
        let carried = (ci - lambda * span).max(0.0) / d;
        let carried = if di > ti && u <= lambda { 0.0 } else { carried };
        let beta = base + carried;
        if beta >= 1.0 + 1e-12 {
            filter.add(1.0);
        } else {
            filter.add_with(beta.min(1.0), beta + 2.0 * ci / d);
        }
    }
    filter.sign()
}

/// The sign of the left side of Baker's condition minus the right side, in whole numbers: everything is multiplied by
/// `D_k^2`, and the rest of each quotient is a fraction.
fn bak_sum_exact(system: System<'_>, k: &Task) -> Ordering {
    let (c, d) = (i128::from(k.wcet), i128::from(k.deadline));
    let one = d * d;
    let mut whole = -(i128::from(system.cpus) * (d - c) + c) * d;
    let mut rests = Vec::with_capacity(system.tasks.len() + 1);
    for task in system.tasks {
        let (ci, ti, di) =
            (i128::from(task.wcet), i128::from(task.period), i128::from(task.deadline));
        let carried = |span: i128| (ci * d - c * span).max(0);
        let numerator = if di <= ti {
            ci * (d + ti - di) * d + carried(ti) * ti
        } else if ci * d <= c * ti {
            ci * one
        } else {
            ci * one + carried(di) * ti
        };
        if numerator >= one * ti {
            whole += one;
        } else {
            whole += numerator / ti;
            rests.push((numerator % ti, task.period.ticks()));
        }
    }
    exact::sign_of_sum(rests.into_iter().chain([(whole, 1)]))
}

/// Runs the test of Bertogna, Cirinei and Lipari (ECRTS 2005). For each `k`, the work of the other tasks, each limited
/// to `D_k
/// - C_k`, must be less than `m (D_k - C_k)`, or equal if the work of some task is below its limit.
pub fn bcl(system: System<'_>) -> Verdict {
    let (tasks, m) = (system.tasks, system.m());
    if !each_fits(tasks) || !constrained(tasks) {
        return Verdict::Unknown;
    }
    let fits = |(k, own): (usize, &Task)| {
        let spare = own.deadline - own.wcet;
        let (mut filled, mut uncut) = (Time::ZERO, false);
        for (i, task) in tasks.iter().enumerate() {
            if i != k {
                let work = aligned(task, own.deadline);
                uncut |= work > Time::ZERO && work <= spare;
                filled += work.min(spare);
            }
        }
        filled < m * spare || (filled == m * spare && uncut)
    };
    Verdict::sufficient(tasks.iter().enumerate().all(fits))
}

/// The longest execution of `task` in a window of length `window` by jobs whose deadlines are in the window, if one job
/// is due at the end of the window: `N C + min(C, max(0, window - N T))`.
#[inline]
fn aligned(task: &Task, window: Time) -> Time {
    let jobs = window.checked_sub(task.deadline).map_or(0, |rest| rest / task.period + 1);
    jobs * task.wcet + task.wcet.min(window.saturating_sub(jobs * task.period))
}

/// Runs the iterative form of the BCL test with slacks (Bertogna, Cirinei and Lipari, TPDS 20(4), 2009).
///
/// The slack is `S_k = D_k - C_k - floor(sum of min(W_i, D_k - C_k + 1) / m)`, recomputed until no slack grows.
pub fn bcl_iterative(system: System<'_>) -> Verdict {
    let (tasks, m) = (system.tasks, system.m());
    if !each_fits(tasks) || !constrained(tasks) {
        return Verdict::Unknown;
    }
    let mut due = DueWithin::new(tasks);
    // With more slack less is carried in than can be shown: where even this does not help, no round does. A
    // few tasks tell as well as all.
    let mut tries = 4;
    let most: Vec<Time> = tasks.iter().map(|task| task.deadline - task.wcet).collect();
    let mut slack: Vec<Time> = vec![Time::ZERO; tasks.len()];
    loop {
        let (mut all_fit, mut changed) = (true, false);
        for k in 0..tasks.len() {
            match slack_of(tasks, &mut due, &slack, k, m) {
                None => {
                    if tries > 0 && slack_of(tasks, &mut due, &most, k, m).is_none() {
                        return Verdict::Unknown;
                    }
                    tries = tries.max(1) - 1;
                    all_fit = false;
                }
                Some(now) if now > slack[k] => {
                    slack[k] = now;
                    changed = true;
                }
                Some(_) => {}
            }
        }
        if all_fit {
            return Verdict::Schedulable;
        }
        if !changed {
            return Verdict::Unknown;
        }
    }
}

/// The slack `D - C - floor(interference / m)` of task `k`; `None` if the slack is negative.
#[inline]
fn slack_of(
    tasks: &[Task],
    due: &mut DueWithin<'_>,
    slack: &[Time],
    k: usize,
    m: u64,
) -> Option<Time> {
    let spare = tasks[k].deadline - tasks[k].wcet;
    let (row, _) = due.row(k);
    let mut filled = Time::ZERO;
    for ((task, part), slack) in tasks.iter().zip(row).zip(slack) {
        filled += part.less(task, *slack).min(spare + Time::TICK);
    }
    filled -= row[k].less(&tasks[k], slack[k]).min(spare + Time::TICK);
    spare.checked_sub(filled / m)
}

/// The work of each task within each deadline: `floor(D_k / T) C + min(C, max(0, D_k mod T - S))`. The quotients are
/// computed once because every round needs them.
#[derive(Debug)]
pub(super) struct DueWithin<'a> {
    tasks: &'a [Task],
    periods: Vec<Divisor>,
    parts: Vec<JobQuotient>,
}

/// The number of whole jobs in a window, and the length of the rest of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobQuotient {
    whole: Time,
    rest: Time,
}

/// The largest number of tasks whose quotients are stored. For more tasks the quotients are recomputed, because their
/// number grows with the square of the number of tasks.
const KEPT: usize = 512;

impl<'a> DueWithin<'a> {
    pub(super) fn new(tasks: &'a [Task]) -> Self {
        let room = if tasks.len() <= KEPT { tasks.len() * tasks.len() } else { tasks.len() };
        Self { tasks, periods: periods(tasks), parts: Vec::with_capacity(room) }
    }

    /// The quotients of each task within the deadline of `k`, and the tasks' periods.
    #[inline]
    pub(super) fn row(&mut self, k: usize) -> (&[JobQuotient], &[Divisor]) {
        let n = self.tasks.len();
        if n > KEPT {
            self.parts.clear();
            self.append(k);
            return (&self.parts, &self.periods);
        }
        while self.parts.len() <= k * n {
            self.append(self.parts.len() / n);
        }
        (&self.parts[k * n..(k + 1) * n], &self.periods)
    }

    fn append(&mut self, k: usize) {
        let window = self.tasks[k].deadline;
        let pairs = self.tasks.iter().zip(&self.periods);
        self.parts.extend(pairs.map(|(task, &period)| JobQuotient::of(task, period, window)));
    }
}

impl JobQuotient {
    #[inline]
    pub(super) fn of(task: &Task, period: Divisor, window: Time) -> Self {
        let (jobs, rest) = period.divide(window);
        Self { whole: jobs * task.wcet, rest }
    }
    /// The work of the task within the window if the task is known to have this slack.
    #[inline]
    pub(super) fn less(self, task: &Task, slack: Time) -> Time {
        self.whole + task.wcet.min(self.rest.saturating_sub(slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Schedulable, Unknown, Unschedulable};
    use corehop_fixtures::task_sets::{implicit, set};
    use corehop_plan::workload::placement::TaskPlacement;

    #[test]
    fn dhalls_effect_is_not_accepted() {
        // Dhall and Liu 1978: m short tasks and a long one of utilisation 1 miss, with U near 1.
        let dhall = implicit(2, &[(1, 10), (1, 10), (11, 11)]);
        for test in [gfb, bak, bcl, bcl_iterative] {
            assert_eq!(test(System::of(&dhall)), Unknown);
        }
        assert_eq!(necessary(System::of(&dhall)), Unknown);
    }

    #[test]
    fn gfb_is_met_exactly() {
        // U = 3 * 1/2 = 1.5 = 2 - 1/2.
        assert_eq!(gfb(System::of(&implicit(2, &[(1, 2), (2, 4), (3, 6)]))), Schedulable);
        let hair = implicit(2, &[(1, 2), (2, 4), (500_001, 1_000_000)]);
        assert_eq!(gfb(System::of(&hair)), Unknown);
    }

    #[test]
    fn what_no_scheduler_can_do_is_refused() {
        assert_eq!(necessary(System::of(&implicit(1, &[(2, 3), (2, 3)]))), Unschedulable);
        assert_eq!(necessary(System::of(&set(4, &[(3, 9, 2)]))), Unschedulable);
    }

    #[test]
    fn masks_that_overlap_are_asked_for_together() {
        // Five tasks of 0.65 on two of three CPUs each: 3.25 on three, while no two CPUs have more than 1.3 of their own, and four
        // CPUs have room.
        let masks = [[0, 1], [1, 2], [0, 2], [0, 1], [1, 2]];
        let place = |cpus: &[usize; 2]| TaskPlacement::Cpus(cpus.to_vec());
        let of = |wcet| {
            let set = implicit(4, &[(wcet, 100); 5]);
            set.placed(masks.iter().map(place).collect()).unwrap()
        };
        assert_eq!(overloaded(System::of(&of(65))), Some((vec![0, 1, 2], vec![0, 1, 2, 3, 4])));
        assert_eq!(necessary(System::of(&of(65))), Unschedulable);
        assert_eq!(overloaded(System::of(&of(60))), None);
    }

    #[test]
    fn unions_of_masks_tell_what_a_flow_tells() {
        // The slow twin: every set of CPUs.
        let mut refused = 0;
        for index in 0..300 {
            let mut stream = corehop_plan::workload::draw::DrawStream::of_set(13, index);
            let tasks: Vec<(u64, u64)> = (0..6).map(|_| (10 + stream.below(80), 100)).collect();
            let masks: Vec<Vec<usize>> = (0..6)
                .map(|_| {
                    let bits = 1 + stream.below(15);
                    (0..4).filter(|cpu| bits >> cpu & 1 == 1).collect()
                })
                .collect();
            let places = masks.iter().cloned().map(TaskPlacement::Cpus).collect();
            let set = implicit(4, &tasks).placed(places).unwrap();
            let slow = (1..16_u32).any(|bits| {
                let has = |cpu: &usize| bits >> cpu & 1 == 1;
                let within = masks.iter().zip(&tasks).filter(|(mask, _)| mask.iter().all(has));
                within.map(|(_, task)| task.0).sum::<u64>() > 100 * u64::from(bits.count_ones())
            });
            refused += u32::from(slow);
            assert_eq!(overloaded(System::of(&set)).is_some(), slow, "{tasks:?} {masks:?}");
        }
        assert!((50..250).contains(&refused), "{refused}");
    }

    #[test]
    fn deadlines_beyond_periods_do_not_make_beta_negative() {
        // A peer accepts this set, and its own simulator finds a miss.
        let set = set(
            3,
            &[
                (2, 7, 4),
                (3, 23, 32),
                (2, 8, 15),
                (1, 14, 3),
                (6, 13, 22),
                (1, 20, 3),
                (4, 13, 4),
                (6, 28, 45),
            ],
        );
        for test in [gfb, bak, bcl, bcl_iterative] {
            assert_eq!(test(System::of(&set)), Unknown);
        }
    }

    #[test]
    fn whole_numbers_and_floating_point_agree_on_bak() {
        let mut state = 3_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let (mut told, mut equal) = (0, 0);
        for _ in 0..3_000 {
            let tasks: Vec<_> = (0..=draw(5))
                .map(|_| {
                    let period = draw(12) + 1;
                    let deadline = draw(16) + 1;
                    (draw(period.min(deadline)) + 1, period, deadline)
                })
                .collect();
            let set = set(draw(3) as u32 + 1, &tasks);
            for k in set.tasks() {
                let exact = bak_sum_exact(System::of(&set), k);
                if let Some(sign) = bak_sum(System::of(&set), k) {
                    assert_eq!(sign, exact, "{tasks:?}");
                    told += 1;
                }
                equal += usize::from(exact == Ordering::Equal);
            }
        }
        assert!(told > 5_000 && equal > 20, "{told} {equal}");
    }
}
