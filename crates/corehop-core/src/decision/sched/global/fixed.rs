// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global fixed priorities: response times (Bertogna and Cirinei; Guan et al.), deadline analysis with
//! limited carry-in (Davis and Burns), and orders of priority.

use super::bar::largest_sum;
use super::workload::{Fill, Neighbour, Work, least_unfilled_from, periods};
use super::{constrained, each_fits};
use crate::decision::sched::divisor::Divisor;
use crate::decision::sched::task::{System, Task, Time};
use crate::decision::sched::uni::fixed::{by_priority, optimal_assignment};

/// Bertogna and Cirinei (RTSS 2007): `R = C_k + floor(sum over hp of min(W_i(R), R - C_k + 1) / m)`, each task
/// above carrying in what its own bound, found before, allows. Bounds in the tasks' order, where all make it.
pub fn bertogna(system: System<'_>) -> Option<Vec<Time>> {
    densest(system, |task, bound| task.deadline - bound)
}

/// The same without slacks: a task above carries in as much as its deadline allows.
pub fn bertogna_plain(system: System<'_>) -> Option<Vec<Time>> {
    densest(system, |_, _| 0)
}

fn densest(system: System<'_>, slack: fn(&Task, Time) -> Time) -> Option<Vec<Time>> {
    let periods = periods(system.tasks);
    let mut others: Vec<Neighbour> = Vec::with_capacity(periods.len());
    response_times(system, |system, above, bounds, k, from| {
        let own = &system.tasks[k];
        others.clear();
        others.extend(above.iter().map(|&i| {
            let task = &system.tasks[i];
            Neighbour::densest(task, periods[i], slack(task, bounds[i]), own.wcet - 1)
        }));
        least_unfilled_from(from, system.m(), own.deadline - own.wcet + 1, |y| {
            let mut fill = Fill::new(y);
            for other in &others {
                fill.add(other.work(y));
            }
            fill
        })
    })
}

/// Guan, Stigge, Yi and Yu (RTSS 2009): only `m - 1` tasks carry work in.
pub fn guan(system: System<'_>) -> Option<Vec<Time>> {
    let periods = periods(system.tasks);
    let mut split = Split::default();
    response_times(system, |system, above, bounds, k, from| {
        let own = &system.tasks[k];
        least_unfilled_from(from, system.m(), own.deadline - own.wcet + 1, |y| {
            let x = y + own.wcet - 1;
            split.clear();
            for &i in above {
                let (task, period) = (&system.tasks[i], periods[i]);
                split.add(
                    Work::periodic(task.wcet, period, x),
                    carried(task, period, bounds[i], x),
                    y,
                );
            }
            split.fill(y, system.cpus as usize - 1)
        })
    })
}

/// Response bounds from the highest priority down, by `least`, the least unfilled window of a task.
fn response_times(
    system: System<'_>,
    mut least: impl FnMut(System<'_>, &[usize], &[Time], usize, Time) -> Option<Time>,
) -> Option<Vec<Time>> {
    if !each_fits(system.tasks) || !constrained(system.tasks) {
        return None;
    }
    let order = by_priority(system.tasks);
    let mut bounds = vec![0; system.tasks.len()];
    for (at, &k) in order.iter().enumerate() {
        let (above, own) = (&order[..at], &system.tasks[k]);
        // Below more tasks, and with no less to do, a window is filled that was filled before.
        let before = above.iter().filter(|&&i| system.tasks[i].wcet <= own.wcet);
        let from = before.map(|&i| bounds[i] - system.tasks[i].wcet + 1).max().unwrap_or(1);
        // The first m always find a CPU.
        let free = at < system.cpus as usize;
        let y = if free { 1 } else { least(system, above, &bounds, k, from)? };
        bounds[k] = own.wcet + y - 1;
    }
    Some(bounds)
}

/// The workload of a task that carries work in (Guan et al., equation 7): one job cut by `alpha`.
fn carried(task: &Task, period: Divisor, response: Time, x: Time) -> Work {
    let (c, t) = (task.wcet, task.period);
    let Some(beyond) = x.checked_sub(c) else {
        return Work { value: x, run: c - x };
    };
    let (whole, rest) = period.divide(beyond);
    let wait = t - response;
    let (alpha, run) = match rest.checked_sub(wait) {
        None => (0, 0),
        Some(alpha) if alpha < c - 1 => (alpha, c - 1 - alpha),
        Some(_) => (c - 1, 0),
    };
    Work { value: whole * c + c + alpha, run }
}

/// Workloads without and with what is carried in, of which only some tasks have the latter.
#[derive(Debug, Default)]
struct Split {
    both: Vec<(Time, Work, Work)>,
}

impl Split {
    fn clear(&mut self) {
        self.both.clear();
    }

    fn add(&mut self, without: Work, with: Work, y: Time) {
        let gain = with.value.min(y).saturating_sub(without.value.min(y));
        self.both.push((gain, without, with));
    }

    /// The `carriers` that gain most by it carry in.
    fn fill(&mut self, y: Time, carriers: usize) -> Fill {
        let carriers = carriers.min(self.both.len());
        if carriers > 0 && carriers < self.both.len() {
            self.both.select_nth_unstable_by(carriers - 1, |a, b| b.0.cmp(&a.0));
        }
        let mut fill = Fill::new(y);
        for (at, &(gain, without, with)) in self.both.iter().enumerate() {
            fill.add(if at < carriers && gain > 0 { with } else { without });
        }
        fill
    }
}

/// Deadline analysis with limited carry-in (Davis and Burns, Real-Time Systems 47(1), 2011): a task makes it
/// below `above`, in whatever order those are, if all of them make their deadlines.
pub fn da_lc(system: System<'_>, k: usize, above: &[usize]) -> bool {
    let own = &system.tasks[k];
    if above.len() < system.cpus as usize {
        return own.wcet <= own.deadline;
    }
    let y = own.deadline - own.wcet + 1;
    let mut gains = Vec::with_capacity(above.len());
    let mut sum = 0;
    for &i in above {
        let task = &system.tasks[i];
        let period = Divisor::new(task.period);
        let without = Work::periodic(task.wcet, period, own.deadline).value.min(y);
        let with = Work::densest(task, 0, own.deadline).value.min(y);
        sum += without;
        gains.push(with.saturating_sub(without));
    }
    sum += largest_sum(&mut gains, system.cpus as usize - 1);
    own.wcet + sum / system.m() <= own.deadline
}

/// Deadline analysis with limited carry-in for a given order, the highest priority first.
pub fn da_lc_in_order(system: System<'_>, order: &[usize]) -> bool {
    let fits = each_fits(system.tasks) && constrained(system.tasks);
    fits && order.iter().enumerate().all(|(at, &k)| da_lc(system, k, &order[..at]))
}

/// An order that passes deadline analysis with limited carry-in, if any does (Audsley's algorithm, for which
/// this analysis is compatible).
pub fn da_lc_assignment(system: System<'_>) -> Option<Vec<usize>> {
    if !each_fits(system.tasks) || !constrained(system.tasks) {
        return None;
    }
    optimal_assignment(system.tasks.len(), |k, above| da_lc(system, k, above))
}

/// The order DkC: by `D - k C`, `k = (m - 1 + sqrt(5 m^2 - 6 m + 1)) / (2 m)` (Davis and Burns 2011, after
/// Andersson and Jonsson's TkC). The root is never taken: differences are compared by their squares.
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

/// The square with the sign of what is squared: it orders as that does.
fn signed_square(value: i128) -> i128 {
    value.signum() * value * value
}

/// Deadline-monotonic or as given: the order that the tests above take.
pub fn given_order(system: System<'_>) -> Vec<usize> {
    by_priority(system.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::task::testing::{implicit, set};

    #[test]
    fn the_cap_of_the_paper_is_there() {
        // Without min(W, R - C_k + 1) the last one would respond in 14. At 13 the window is 5, and
        // 4 + 4 + min(7, 5) < 3 * 5; at 12 it is 4, and 4 + 4 + 4 fill it.
        let set = implicit(3, &[(1, 4), (1, 5), (3, 9), (9, 18)]);
        assert_eq!(bertogna_plain(set.system()), Some(vec![1, 1, 3, 13]));
        // Those above respond in 1, 1 and 3, so that 3 + 3 + 4 do not fill the window of 4.
        assert_eq!(bertogna(set.system()), Some(vec![1, 1, 3, 12]));
    }

    #[test]
    fn one_cpu_is_the_textbook_case() {
        let set = implicit(1, &[(5, 20), (10, 40), (40, 80)]);
        assert_eq!(guan(set.system()), Some(vec![5, 15, 80]));
    }

    #[test]
    fn the_highest_as_many_as_cpus_run_at_once() {
        let set = set(2, &[(3, 9, 4), (5, 9, 5), (4, 40, 40)]);
        let bounds = guan(set.system()).unwrap();
        assert_eq!(bounds[..2], [3, 5]);
        assert!(bounds[2] <= bertogna(set.system()).unwrap()[2]);
    }

    #[test]
    fn an_order_by_d_less_kc_is_not_deadline_monotonic() {
        // m = 2: k = (1 + 3) / 4 = 1: D - C is 9, 2, 6.
        let set = set(2, &[(1, 10, 10), (9, 11, 11), (6, 12, 12)]);
        assert_eq!(dkc_order(set.system()), [1, 2, 0]);
        assert_eq!(given_order(set.system()), [0, 1, 2]);
    }

    #[test]
    fn an_assignment_is_found_where_deadline_monotonic_fails() {
        // Dhall's set: the long task has to come first.
        let set = implicit(2, &[(1, 10), (1, 10), (10, 11)]);
        assert!(!da_lc_in_order(set.system(), &given_order(set.system())));
        let order = da_lc_assignment(set.system()).unwrap();
        assert!(da_lc_in_order(set.system(), &order));
    }
}
