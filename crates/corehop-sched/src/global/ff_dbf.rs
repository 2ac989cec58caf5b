// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forced-forward demand test for global EDF (Baruah, Bonifaci, Marchetti-Spaccamela and Stiller, Real-Time
//! Systems 46(1), 2010).
//!
//! A set is schedulable if for some `sigma`, at least the largest density, `sum of ffdbf(t, sigma) <= (m - (m - 1)
//! sigma) t` at all `t`. This implementation tries `sigma` at the largest density, then at each multiple of 1/50
//! above that, up to `(m - U) / (m - 1) - 1/10`.

use super::{constrained, each_fits, max_density};
use crate::exact::compare_sum;
use crate::system::System;
use crate::uni::STEPS;
use crate::uni::edf::deadline_before;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// The number of steps of sigma per unit.
const GRID: u64 = 50;

/// The reciprocal of the distance that sigma keeps from its limit.
const MARGIN: u64 = 10;

/// Returns the verdict of the forced-forward demand test, for two CPUs or more.
pub fn ff_dbf(system: System<'_>) -> Verdict {
    let fits = system.cpus > 1 && each_fits(system.tasks) && constrained(system.tasks);
    if !fits {
        return Verdict::Unknown;
    }
    let first = max_density(system.tasks);
    let next = first.0 * GRID / first.1 + 1;
    let candidates = std::iter::once(first).chain((next..=GRID).map(|step| (step, GRID)));
    let mut allowed = candidates.take_while(|&sigma| within_limit(system, sigma));
    Verdict::sufficient(allowed.any(|sigma| holds(system, sigma)))
}

/// Whether `sigma <= (m - U) / (m - 1) - 1/10`.
fn within_limit(system: System<'_>, (a, b): (u64, u64)) -> bool {
    let others = system.m() - 1;
    let all = system.tasks.iter().map(Task::u).chain([(others * a, b), (others, MARGIN)]);
    compare_sum(all, system.m()).is_le()
}

/// Whether the condition holds at every `t`, for `sigma = a / b`. The condition is tightest at deadlines, where the
/// demand stops growing.
fn holds(system: System<'_>, (a, b): (u64, u64)) -> bool {
    let (tasks, m) = (system.tasks, system.m());
    let speed = u128::from(m) * u128::from(b) - u128::from(m - 1) * u128::from(a);
    // ffdbf <= (t / T + 1) C, and the speed is above U by (m - 1) / 10.
    let horizon = tasks.iter().map(|task| task.wcet).sum::<Time>() * MARGIN / (m - 1) + Time::TICK;
    let mut next = deadline_before(tasks, horizon + Time::TICK);
    for _ in 0..STEPS / tasks.len() as u64 {
        let Some(t) = next else { return true };
        let demand: u128 = tasks.iter().map(|task| forced_forward(task, t, a, b)).sum();
        if demand > speed * u128::from(t) {
            return false;
        }
        // Demand only falls towards 0: down to `demand / speed` there is time for it.
        next = deadline_before(tasks, Time::new(demand.div_ceil(speed) as u64));
    }
    false
}

/// The product `b ffdbf(t, a/b)`: all whole jobs, and the part of one more job that does not fit before the window at
/// speed sigma.
#[inline]
fn forced_forward(task: &Task, t: Time, a: u64, b: u64) -> u128 {
    let (whole, rest) = (t / task.period, t % task.period);
    let full = u128::from(task.wcet) * u128::from(b);
    let before = u128::from(task.deadline.saturating_sub(rest)) * u128::from(a);
    u128::from(whole) * full + full.saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn forced_forward_demand_rises_before_the_deadline_and_then_stays() {
        let set = set(2, &[(2, 10, 6)]);
        let at = |t| forced_forward(&set.tasks()[0], Time::new(t), 1, 2);
        // sigma 1/2: 2 units take 4 of time: from 2 to 6 it rises, times b = 2.
        assert_eq!([0, 2, 4, 6, 9, 12, 16].map(at), [0, 0, 2, 4, 4, 4, 8]);
    }

    #[test]
    fn light_sets_pass_and_dhalls_does_not() {
        let light = implicit(2, &[(1, 10), (1, 10), (1, 10), (1, 10)]);
        assert_eq!(ff_dbf(System::of(&light)), Verdict::Schedulable);
        let dhall = implicit(2, &[(1, 10), (1, 10), (11, 11)]);
        assert_eq!(ff_dbf(System::of(&dhall)), Verdict::Unknown);
        assert_eq!(ff_dbf(System::of(&implicit(1, &[(1, 10)]))), Verdict::Unknown);
    }
}
