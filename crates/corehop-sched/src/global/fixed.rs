// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global fixed priorities: response times (Bertogna and Cirinei; Guan et al.), deadline analysis with limited
//! carry-in (Davis and Burns), and priority assignment.

use super::bar::largest_sum;
use super::window::{NextWindow, Sweep, WindowRange};
use super::workload::{Grower, Neighbour, WorkloadBound, periods};
use super::{constrained, each_fits};
use crate::divisor::Divisor;
use crate::ranking::Ranking;
use crate::system::System;
use crate::uni::fixed::optimal_assignment;
use corehop_plan::workload::task::{Task, Time};

/// Bounds response times by Bertogna and Cirinei (RTSS 2007): `R = C_k + floor(sum over hp of min(W_i(R), R - C_k + 1)
/// / m)`. The bound of each higher-priority task, which is computed first, limits the task's carry-in. Returns the
/// bounds in the tasks' order, or `None` if a task may miss its deadline.
pub fn bertogna(system: System<'_>) -> Option<Vec<Time>> {
    densest(system, |task, bound| task.deadline - bound)
}

/// Bounds response times like [`bertogna`], but without slacks: a higher-priority task carries in as much as its
/// deadline allows.
pub fn bertogna_plain(system: System<'_>) -> Option<Vec<Time>> {
    densest(system, |_, _| Time::ZERO)
}

fn densest(system: System<'_>, slack: fn(&Task, Time) -> Time) -> Option<Vec<Time>> {
    let ranking = Ranking::of(system.tasks);
    if ranking.tie().is_some() {
        return densest_among_equals(system, &ranking, slack);
    }
    let periods = periods(system.tasks);
    let mut others: Vec<Neighbour> = Vec::with_capacity(periods.len());
    let mut sweep = Sweep::default();
    response_times(system, |system, above, bounds, k, from| {
        others.extend(above[others.len()..].iter().map(|&i| {
            let task = &system.tasks[i];
            Neighbour::densest(task, periods[i], slack(task, bounds[i]))
        }));
        sweep.least_unfilled(system.m(), &mut others, WindowRange::of(&system.tasks[k], from))
    })
}

/// Bounds response times like [`bertogna`] for tasks that share a priority: tasks of equal priority count as tasks of
/// higher priority, and carry in as much as their deadlines allow. If a job were the first late job, all jobs before it
/// would be in time, so no job is late and the bounds hold.
fn densest_among_equals(
    system: System<'_>,
    ranking: &Ranking,
    slack: fn(&Task, Time) -> Time,
) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !each_fits(tasks) || !constrained(tasks) {
        return None;
    }
    let (periods, mut sweep) = (periods(tasks), Sweep::default());
    let mut bounds = vec![Time::ZERO; tasks.len()];
    for (at, &k) in ranking.order().iter().enumerate() {
        let own = &tasks[k];
        // As many as there are CPUs always find one.
        if ranking.down_to(at).len() <= system.cpus as usize {
            bounds[k] = own.wcet;
            continue;
        }
        let higher = ranking.above(at).iter().map(|&i| (i, slack(&tasks[i], bounds[i])));
        let equal = ranking.level(at).iter().filter(|&&i| i != k).map(|&i| (i, Time::ZERO));
        let mut others: Vec<Neighbour> = higher
            .chain(equal)
            .map(|(i, slack)| Neighbour::densest(&tasks[i], periods[i], slack))
            .collect();
        let y = sweep.least_unfilled(system.m(), &mut others, WindowRange::of(own, Time::TICK))?;
        bounds[k] = own.wcet + y - Time::TICK;
    }
    Some(bounds)
}

/// Bounds response times by Guan, Stigge, Yi and Yu (RTSS 2009): only `m - 1` tasks carry work in. The limit of `m - 1`
/// tasks does not hold for tasks that share a priority, because an earlier job of the analysed task may have kept more
/// tasks waiting.
pub fn guan(system: System<'_>) -> Option<Vec<Time>> {
    let periods = periods(system.tasks);
    let mut split = Split::default();
    response_times(system, |system, above, bounds, k, from| {
        let alone = |i: usize| Neighbour::periodic(&system.tasks[i], periods[i]);
        split.alone.extend(above[split.alone.len()..].iter().map(|&i| alone(i)));
        // Before this one all are filled even if none carried work in.
        let among = WindowRange::of(&system.tasks[k], from);
        let mut y = split.sweep.least_unfilled(system.m(), &mut split.alone, among)?;
        let WindowRange { limit, wait, .. } = among;
        while y <= limit {
            split.clear();
            for &i in above {
                let carried = carried(system.tasks[i].wcet, periods[i], bounds[i], y + wait);
                split.add(alone(i), carried, y, wait);
            }
            match split.next(system.m(), y, limit) {
                None => return Some(y),
                Some(later) => y = later,
            }
        }
        None
    })
}

/// The response-time bounds from the highest priority down; `least` returns the least unfilled window of a task.
fn response_times(
    system: System<'_>,
    mut least: impl FnMut(System<'_>, &[usize], &[Time], usize, Time) -> Option<Time>,
) -> Option<Vec<Time>> {
    if !each_fits(system.tasks) || !constrained(system.tasks) {
        return None;
    }
    let order = Ranking::distinct(system.tasks).ok()?;
    let mut bounds = vec![Time::ZERO; system.tasks.len()];
    for (at, &k) in order.iter().enumerate() {
        let (above, own) = (&order[..at], &system.tasks[k]);
        // The first m always find a CPU.
        if at < system.cpus as usize {
            bounds[k] = own.wcet;
            continue;
        }
        // Below more tasks, and with no less to do, a window is filled that was filled before.
        let before = above.iter().filter(|&&i| system.tasks[i].wcet <= own.wcet);
        let from = before
            .map(|&i| bounds[i] - system.tasks[i].wcet + Time::TICK)
            .max()
            .unwrap_or(Time::TICK);
        bounds[k] = own.wcet + least(system, above, &bounds, k, from)? - Time::TICK;
    }
    Some(bounds)
}

/// The workload of a task that carries work in (Guan et al., equation 7): the carried job is reduced by `alpha`. The
/// equation needs responses within periods.
pub(super) fn carried(c: Time, period: Divisor, response: Time, x: Time) -> WorkloadBound {
    let t = period.by();
    let Some(beyond) = x.checked_sub(c) else {
        return WorkloadBound { value: x, run: c - x };
    };
    let (whole, rest) = period.divide(beyond);
    let wait = t - response;
    let (alpha, run) = match rest.checked_sub(wait) {
        None => (Time::ZERO, Time::ZERO),
        Some(alpha) if alpha < c - Time::TICK => (alpha, c - Time::TICK - alpha),
        Some(_) => (c - Time::TICK, Time::ZERO),
    };
    WorkloadBound { value: whole * c + c + alpha, run }
}

/// The workloads of all tasks, each without and with carry-in; only some tasks get carry-in at a time.
#[derive(Debug, Default)]
pub(super) struct Split {
    alone: Vec<Neighbour>,
    /// For each task, the gain in work through carry-in, and both workloads.
    both: Vec<(Time, Grower, Grower, f64)>,
    sweep: Sweep,
}

impl Split {
    pub(super) fn clear(&mut self) {
        self.both.clear();
    }

    pub(super) fn add(&mut self, without: Neighbour, carried: WorkloadBound, y: Time, wait: Time) {
        let per_unit = without.per_unit();
        let without = without.at(y + wait);
        let gain = carried.value.min(y).saturating_sub(without.value.min(y));
        // What it carries in is only followed until it first stops to grow.
        let WorkloadBound { value, run } = carried;
        let with = Grower { value, run, next: Time::MAX, most: value + run, ..without };
        self.both.push((gain, without, with, per_unit));
    }

    /// Gives carry-in to the `m - 1` tasks that gain the most work. Returns a later window at which the tasks might
    /// not fill the CPUs; `None` if the current window is already unfilled.
    pub(super) fn next(&mut self, m: u64, y: Time, limit: Time) -> Option<Time> {
        let carriers = (m as usize - 1).min(self.both.len());
        if carriers > 0 && carriers < self.both.len() {
            self.both.select_nth_unstable_by(carriers - 1, |a, b| b.0.cmp(&a.0));
        }
        self.sweep.begin(m, y, Time::ZERO);
        for (at, &(gain, without, with, per_unit)) in self.both.iter().enumerate() {
            self.sweep
                .add(if at < carriers && gain > Time::ZERO { with } else { without }, per_unit);
        }
        let excess = self.sweep.excess()?;
        match self.sweep.next(excess, limit) {
            NextWindow::Unfilled(later) | NextWindow::From(later) => Some(later),
        }
    }
}

/// Runs deadline analysis with limited carry-in (Davis and Burns, Real-Time Systems 47(1), 2011). Returns whether task
/// `k` meets its deadline below the tasks `above`, in any order, if the tasks `above` meet their deadlines.
pub fn da_lc(system: System<'_>, k: usize, above: &[usize]) -> bool {
    let own = &system.tasks[k];
    if above.len() < system.cpus as usize {
        return own.wcet <= own.deadline;
    }
    let y = own.deadline - own.wcet + Time::TICK;
    let mut gains = Vec::with_capacity(above.len());
    let mut sum = Time::ZERO;
    for &i in above {
        let task = &system.tasks[i];
        let period = Divisor::new(task.period);
        let without = WorkloadBound::periodic(task.wcet, period, own.deadline).value.min(y);
        let with = WorkloadBound::densest(task, Time::ZERO, own.deadline).value.min(y);
        sum += without;
        gains.push(with.saturating_sub(without));
    }
    sum += largest_sum(&mut gains, system.cpus as usize - 1);
    own.wcet + sum / system.m() <= own.deadline
}

/// Runs deadline analysis with limited carry-in for a given priority order, the highest priority first.
pub fn da_lc_in_order(system: System<'_>, order: &[usize]) -> bool {
    let fits = each_fits(system.tasks) && constrained(system.tasks);
    fits && order.iter().enumerate().all(|(at, &k)| da_lc(system, k, &order[..at]))
}

/// Returns a priority order that passes deadline analysis with limited carry-in, if one exists. Audsley's algorithm
/// finds a passing order, because the analysis is compatible with that algorithm.
pub fn da_lc_assignment(system: System<'_>) -> Option<Vec<usize>> {
    if !each_fits(system.tasks) || !constrained(system.tasks) {
        return None;
    }
    optimal_assignment(system.tasks.len(), |k, above| da_lc(system, k, above))
}

/// Returns the priority order DkC: by `D - k C`, `k = (m - 1 + sqrt(5 m^2 - 6 m + 1)) / (2 m)` (Davis and Burns 2011,
/// after Andersson and Jonsson's TkC). No square root is computed: differences are compared by their squares.
pub fn dkc_order(system: System<'_>) -> Vec<usize> {
    let m = i128::from(system.cpus);
    let square = 5 * m * m - 6 * m + 1;
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&system.tasks[a], &system.tasks[b]);
        let difference = |x: Time, y: Time| i128::from(x) - i128::from(y);
        let c = difference(a.wcet, b.wcet);
        // 2 m (D_a - D_b) - (m - 1) (C_a - C_b) against sqrt(square) (C_a - C_b).
        let left = 2 * m * difference(a.deadline, b.deadline) - (m - 1) * c;
        signed_square(left).cmp(&(c.signum() * square * (c * c)))
    });
    order
}

/// The square of a value with the sign of the value, so that squares compare in the order of the values.
fn signed_square(value: i128) -> i128 {
    value.signum() * value * value
}

/// Returns the tests' priority order: the stated priorities, or else deadline-monotonic priorities. Returns `None` if
/// tasks share a priority.
pub fn given_order(system: System<'_>) -> Option<Vec<usize>> {
    Ranking::distinct(system.tasks).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn the_cap_of_the_paper_is_there() {
        // Without min(W, R - C_k + 1) the last one would respond in 14. At 13 the window is 5, and
        // 4 + 4 + min(7, 5) < 3 * 5; at 12 it is 4, and 4 + 4 + 4 fill it.
        let set = implicit(3, &[(1, 4), (1, 5), (3, 9), (9, 18)]);
        assert_eq!(bertogna_plain(System::of(&set)), Some([1, 1, 3, 13].map(Time::new).to_vec()));
        // Those above respond in 1, 1 and 3, so that 3 + 3 + 4 do not fill the window of 4.
        assert_eq!(bertogna(System::of(&set)), Some([1, 1, 3, 12].map(Time::new).to_vec()));
    }

    #[test]
    fn one_cpu_is_the_textbook_case() {
        let set = implicit(1, &[(5, 20), (10, 40), (40, 80)]);
        assert_eq!(guan(System::of(&set)), Some([5, 15, 80].map(Time::new).to_vec()));
    }

    #[test]
    fn the_highest_as_many_as_cpus_run_at_once() {
        let set = set(2, &[(3, 9, 4), (5, 9, 5), (4, 40, 40)]);
        let bounds = guan(System::of(&set)).unwrap();
        assert_eq!(bounds[..2], [3, 5].map(Time::new));
        assert!(bounds[2] <= bertogna(System::of(&set)).unwrap()[2]);
    }

    #[test]
    fn an_order_by_d_less_kc_is_not_deadline_monotonic() {
        // m = 2: k = (1 + 3) / 4 = 1: D - C is 9, 2, 6.
        let set = set(2, &[(1, 10, 10), (9, 11, 11), (6, 12, 12)]);
        assert_eq!(dkc_order(System::of(&set)), [1, 2, 0]);
        assert_eq!(given_order(System::of(&set)), Some(vec![0, 1, 2]));
    }

    #[test]
    fn an_assignment_is_found_where_deadline_monotonic_fails() {
        // Dhall's set: the long task has to come first.
        let set = implicit(2, &[(1, 10), (1, 10), (10, 11)]);
        assert!(!da_lc_in_order(System::of(&set), &given_order(System::of(&set)).unwrap()));
        let order = da_lc_assignment(System::of(&set)).unwrap();
        assert!(da_lc_in_order(System::of(&set), &order));
    }
}
