// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load test for global EDF with any deadlines (Baker and Baruah, Real-Time Systems 43(1), 2009, Corollary 2).
//!
//! With `delta` the largest `C/D` and `mu = m - (m - 1) delta`, a set whose load (the largest `DBF(t)/t`) is at most
//! `max(mu - (ceil mu - 1) delta, (ceil mu - 1) - (ceil mu - 2) delta)` is schedulable.

use std::cmp::Ordering;

use super::each_fits;
use crate::exact::{self, relative_error};
use crate::system::System;
use crate::uni::STEPS;
use crate::uni::edf::deadline_before;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Returns the verdict of the load test, with the load compared as a fraction.
pub fn load(system: System<'_>) -> Verdict {
    if !each_fits(system.tasks) {
        return Verdict::Unknown;
    }
    let (bound, over) = bound(system);
    Verdict::sufficient(bound > 0 && load_at_most(system.tasks, bound as u128, over))
}

/// The bound on the load as a fraction.
fn bound(system: System<'_>) -> (i128, u64) {
    let above = |a: &Task, b: &Task| {
        u128::from(a.wcet) * u128::from(b.deadline) > u128::from(b.wcet) * u128::from(a.deadline)
    };
    let densest = system.tasks.iter().reduce(|a, b| if above(b, a) { b } else { a });
    let (p, q) = densest.map_or((0, 1), |task| (i128::from(task.wcet), i128::from(task.deadline)));
    let m = i128::from(system.cpus);
    let mu = m * q - (m - 1) * p;
    let ceil = mu.div_euclid(q) + i128::from(mu.rem_euclid(q) != 0);
    let bound = (mu - (ceil - 1) * p).max((ceil - 1) * q - (ceil - 2) * p);
    (bound, q as u64)
}

/// Whether `DBF(t) <= (bound / over) t` at every `t`. If the utilisation equals the bound and a deadline is shorter
/// than its period, the answer is not known, which counts as no.
fn load_at_most(tasks: &[Task], bound: u128, over: u64) -> bool {
    let sum = tasks.iter().map(|task| (i128::from(task.wcet), task.period.ticks()));
    let against_u = exact::sign(sum.chain([(-(bound as i128), over)]));
    let implicit = tasks.iter().all(|task| task.deadline >= task.period);
    match against_u {
        Ordering::Greater => return false,
        _ if implicit => return true,
        Ordering::Equal => return false,
        Ordering::Less => {}
    }
    let Some(horizon) = horizon(tasks, bound as f64 / over as f64) else { return false };
    let mut next = deadline_before(tasks, horizon + Time::TICK);
    for _ in 0..STEPS / tasks.len() as u64 {
        let Some(t) = next else { return true };
        let demand =
            u128::from(tasks.iter().map(|task| task.demand(t)).sum::<Time>()) * u128::from(over);
        if demand > bound * u128::from(t) {
            return false;
        }
        // As long as the bound allows for this demand, it allows for what is due earlier.
        next = deadline_before(tasks, Time::new(demand.div_ceil(bound) as u64));
    }
    false
}

/// An upper bound on `K / (bound - U)`, where `K = sum of u max(0, T - D)`.
fn horizon(tasks: &[Task], bound: f64) -> Option<Time> {
    let (mut spare, mut lead) = (bound, 0.0);
    for task in tasks {
        let u = task.wcet.as_f64() / task.period.as_f64();
        spare -= u;
        lead += task.period.saturating_sub(task.deadline).as_f64() * u;
    }
    let error = relative_error(tasks.len());
    let spare = spare - 2.0 * (bound + 1.0) * error;
    let horizon = lead * (1.0 + error) / spare * (1.0 + error) + 2.0;
    (spare > 0.0 && horizon < (1_u64 << 56) as f64).then_some(Time::new(horizon as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn the_bound_by_hand() {
        // m = 2, delta 1/2: mu = 3/2, ceil 2: max(3/2 - 1/2, 1 - 0) = 1.
        let set = implicit(2, &[(1, 2), (1, 4)]);
        assert_eq!(bound(System::of(&set)), (2, 2));
        assert_eq!(load(System::of(&set)), Verdict::Schedulable);
        assert_eq!(load(System::of(&implicit(2, &[(1, 2), (2, 4), (1, 100)]))), Verdict::Unknown);
    }

    #[test]
    fn a_crowded_instant_is_seen() {
        // Three units due by 3 and little else: load 1 at t = 3; delta = 1/3, mu = 5/3, bound 4/3.
        let tasks = [(1, 90, 3), (1, 90, 3), (1, 90, 3)];
        assert_eq!(load(System::of(&set(2, &tasks))), Verdict::Schedulable);
        let more = [tasks[0], tasks[1], tasks[2], (1, 90, 3), (1, 90, 3)];
        assert_eq!(load(System::of(&set(2, &more))), Verdict::Unknown);
    }
}
