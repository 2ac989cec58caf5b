// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devi and Anderson's tardiness bound for global EDF with implicit deadlines (RTSS 2005; Real-Time
//! Systems 38(2), 2008).
//!
//! `x = (E_L - e_min) / (m - U_{L-1})`, with `L = ceil(U) - 1`, `E_L` the sum of the `L` largest WCETs and `U_{L-1}`
//! that of the `L - 1` largest utilisations. No task is later than `x + C`.

use std::cmp::Ordering;

use super::{bounded, utilisation_ceil};
use crate::decision::sched::exact;
use crate::decision::sched::partition::packing::by_utilisation;
use crate::decision::sched::task::{System, Task, Time};
use crate::decision::sched::verdict::Verdict;

/// Response-time bounds `T + C + ceil(x)`; nothing where tardiness is not bounded.
pub fn devi_anderson(system: System<'_>) -> Option<Vec<Time>> {
    if bounded(system) != Verdict::Schedulable {
        return None;
    }
    let x = ceil_x(system);
    Some(system.tasks.iter().map(|task| task.period + task.wcet + x).collect())
}

fn ceil_x(system: System<'_>) -> Time {
    let tasks = system.tasks;
    let last = (utilisation_ceil(tasks) - 1) as usize;
    let mut wcets: Vec<Time> = tasks.iter().map(|task| task.wcet).collect();
    wcets.sort_unstable_by(|a, b| b.cmp(a));
    let largest: Time = wcets.iter().take(last).sum();
    let numerator = largest.saturating_sub(wcets.last().copied().unwrap_or(0));
    let mut heavy: Vec<&Task> = tasks.iter().collect();
    heavy.sort_by(|a, b| by_utilisation(b, a));
    heavy.truncate(last.saturating_sub(1));
    let spare: f64 =
        system.m() as f64 - heavy.iter().map(|t| t.wcet as f64 / t.period as f64).sum::<f64>();
    // The estimate is off by at most a few units; x <= y is numerator <= y (m - sum of u), exact.
    let enough = |y: Time| {
        let least = i128::from(y) * i128::from(system.cpus) - i128::from(numerator);
        let used = heavy.iter().map(|task| (-i128::from(task.wcet) * i128::from(y), task.period));
        exact::sign(used.chain([(least, 1)])) != Ordering::Less
    };
    exact::settle((numerator as f64 / spare).ceil() as Time, enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::task::testing::implicit;

    #[test]
    fn a_bound_by_hand() {
        // U = 3 * 2/3 = 2, L = 1: E_1 = 2, U_0 = 0: x = (2 - 2) / 2 = 0.
        let set = implicit(2, &[(2, 3), (2, 3), (2, 3)]);
        assert_eq!(devi_anderson(set.system()), Some(vec![5, 5, 5]));
        // U = 3, L = 2: E_2 = 41 + 15, e_min 4, U_1 = 7/8: x = 52 / (3 - 7/8) = 24.47.
        let full = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)]);
        let bounds = devi_anderson(full.system()).unwrap();
        assert_eq!(bounds[0], 7 + 5 + 25);
    }

    #[test]
    fn a_full_platform_is_bounded_though_floats_sum_to_more() {
        let full = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)]);
        assert_eq!(bounded(full.system()), Verdict::Schedulable);
        let more = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (42, 168)]);
        assert_eq!(bounded(more.system()), Verdict::Unschedulable);
        assert_eq!(devi_anderson(more.system()), None);
    }
}
