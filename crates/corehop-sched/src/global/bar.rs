// SPDX-License-Identifier: MIT OR Apache-2.0
//! Baruah's test for global EDF (RTSS 2007), with his correction for integer time.
//!
//! If a job of `k` were the first to miss its deadline, all CPUs would have been busy since some instant `A` before
//! the job's release, with work carried in by at most `m - 1` tasks. With `t = A + D_k`, the test checks for each
//! deadline `t`:
//!
//! `sum of I1_i + (m - 1 largest of I2_i - I1_i) <= m (t - C_k)`
//!
//! Here `I1_i = min(DBF_i(t), t - C_k + 1)`, and `I2_i` is the minimum of `floor(t/T) C + min(C, t mod T)` and that
//! limit. For `k` itself, the last job of `k` is left out and `t - D_k` is the limit.

use super::{constrained, each_fits};
use crate::exact::{compare_sum, relative_error};
use crate::system::System;
use crate::uni::STEPS;
use crate::uni::edf::deadline_before;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// Returns the verdict of Baruah's test, which needs `U < m`.
pub fn bar(system: System<'_>) -> Verdict {
    let (tasks, m) = (system.tasks, system.m());
    let fits = each_fits(tasks) && constrained(tasks);
    if !fits || compare_sum(tasks.iter().map(Task::u), m).is_ge() {
        return Verdict::Unknown;
    }
    let Some(horizon) = horizon(system) else { return Verdict::Unknown };
    let mut test = BarTest::new(system);
    // Most sets that fail do so at some task's first deadline.
    let early = tasks.iter().all(|task| test.holds_at(task.deadline));
    Verdict::sufficient(early && test.holds_up_to(horizon))
}

/// An upper bound on `(C_sum + sum of (T - D) u + m C_max) / (m - U)`, beyond which the condition holds.
fn horizon(system: System<'_>) -> Option<Time> {
    let (mut spare, mut lead, mut longest) = (system.m() as f64, 0.0, 0.0_f64);
    for task in system.tasks {
        let u = task.wcet.as_f64() / task.period.as_f64();
        spare -= u;
        lead += (task.period - task.deadline).as_f64() * u;
        longest = longest.max(task.wcet.as_f64());
    }
    let carried = carried_at_most(system).as_f64() + lead + system.m() as f64 * longest;
    let error = relative_error(system.tasks.len());
    let spare = spare - 2.0 * system.m() as f64 * error;
    let bound = carried * (1.0 + error) / spare * (1.0 + error) + 2.0;
    (spare > 0.0 && bound < (1_u64 << 56) as f64).then_some(Time::new(bound as u64))
}

/// The sum of the `m - 1` largest WCETs.
fn carried_at_most(system: System<'_>) -> Time {
    let mut wcets: Vec<Time> = system.tasks.iter().map(|task| task.wcet).collect();
    largest_sum(&mut wcets, system.cpus as usize - 1)
}

/// The sum of the `count` largest.
#[inline]
pub(super) fn largest_sum(values: &mut [Time], count: usize) -> Time {
    if count == 0 {
        return Time::ZERO;
    }
    if count >= values.len() {
        return values.iter().sum();
    }
    values.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    values[..count].iter().sum()
}

struct BarTest<'a> {
    system: System<'a>,
    carried: Time,
    longest: Time,
    /// The demand of each task at the current `t`, without and with carried-in work.
    without: Vec<Time>,
    with: Vec<Time>,
    scratch: Vec<Time>,
}

impl<'a> BarTest<'a> {
    fn new(system: System<'a>) -> Self {
        let longest = system.tasks.iter().map(|task| task.wcet).max().unwrap_or(Time::ZERO);
        let room = || Vec::with_capacity(system.tasks.len());
        let carried = carried_at_most(system);
        Self { system, carried, longest, without: room(), with: room(), scratch: room() }
    }

    /// Checks the condition for all `t` from the horizon down. If the condition holds at `t` with the largest
    /// possible carry-in, the condition also holds down to the `t` at which the unchanged demand would just fail. The
    /// search skips this range.
    fn holds_up_to(&mut self, horizon: Time) -> bool {
        let (tasks, m) = (self.system.tasks, self.system.m());
        let most = self.carried + (m - 1) * self.longest;
        let mut steps = STEPS;
        let mut next = deadline_before(tasks, horizon + Time::TICK);
        while let Some(t) = next {
            let Some(left) = steps.checked_sub(tasks.len() as u64) else { return false };
            steps = left;
            let needed = tasks.iter().map(|task| task.demand(t)).sum::<Time>() + most;
            if needed <= m * t {
                next = deadline_before(tasks, needed.div_up(m));
            } else if self.holds_at(t) {
                next = deadline_before(tasks, t);
            } else {
                return false;
            }
        }
        true
    }

    /// Whether the condition holds at `t` for each task that can have its deadline at `t`.
    fn holds_at(&mut self, t: Time) -> bool {
        let (tasks, m) = (self.system.tasks, self.system.m());
        self.without.clear();
        self.with.clear();
        self.without.extend(tasks.iter().map(|task| task.demand(t)));
        self.with.extend(
            tasks.iter().map(|task| t / task.period * task.wcet + task.wcet.min(t % task.period)),
        );
        self.scratch.clear();
        self.scratch.extend(self.with.iter().zip(&self.without).map(|(b, a)| b.saturating_sub(*a)));
        let carried = largest_sum(&mut self.scratch, self.system.cpus as usize - 1);
        let most = self.without.iter().sum::<Time>() + carried;
        (0..tasks.len()).all(|k| {
            let task = &tasks[k];
            // Without the cuts the left side is larger: often that is enough.
            t < task.deadline || most + (m - 1) * task.wcet <= m * t || self.holds_for(k, t)
        })
    }

    fn holds_for(&mut self, k: usize, t: Time) -> bool {
        let own = &self.system.tasks[k];
        let cut = t - own.wcet + Time::TICK;
        let own_limit = t - own.deadline;
        self.scratch.clear();
        let mut sum = Time::ZERO;
        for (i, (&without, &with)) in self.without.iter().zip(&self.with).enumerate() {
            let (first, second) = if i == k {
                let less = |demand: Time| demand.saturating_sub(own.wcet).min(own_limit);
                (less(without), less(with))
            } else {
                (without.min(cut), with.min(cut))
            };
            sum += first;
            self.scratch.push(second.saturating_sub(first));
        }
        sum += largest_sum(&mut self.scratch, self.system.cpus as usize - 1);
        sum <= self.system.m() * (t - own.wcet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn what_density_cannot_show_demand_does() {
        // Densities 1/2 each, four of them on two CPUs: GFB asks for 2 <= 1.5. Demand by 2 is 1 each.
        let set = set(2, &[(1, 20, 2), (1, 20, 4), (1, 20, 4), (1, 20, 6)]);
        assert_eq!(bar(System::of(&set)), Verdict::Schedulable);
    }

    #[test]
    fn dhalls_effect_is_not_accepted() {
        assert_eq!(bar(System::of(&implicit(2, &[(1, 10), (1, 10), (11, 11)]))), Verdict::Unknown);
    }

    #[test]
    fn skipping_tests_no_less_than_looking_everywhere() {
        let mut state = 11_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut accepted = 0;
        for _ in 0..3_000 {
            let tasks: Vec<_> = (0..draw(5) + 2)
                .map(|_| {
                    let period = draw(20) + 2;
                    let wcet = draw(period / 2) + 1;
                    (wcet, period, wcet + draw(period - wcet + 1))
                })
                .collect();
            let set = set(draw(3) as u32 + 1, &tasks);
            let system = System::of(&set);
            if compare_sum(set.tasks().iter().map(Task::u), system.m()).is_ge() {
                continue;
            }
            let mut test = BarTest::new(system);
            let every = (1..=horizon(system).unwrap().ticks()).map(Time::new).all(|t| {
                let deadline = deadline_before(set.tasks(), t + Time::TICK) == Some(t);
                !deadline
                    || (0..tasks.len()).all(|k| {
                        t < set.tasks()[k].deadline || {
                            test.without = tasks_at(set.tasks(), t, Task::demand);
                            test.with = tasks_at(set.tasks(), t, |task, t| {
                                t / task.period * task.wcet + task.wcet.min(t % task.period)
                            });
                            test.holds_for(k, t)
                        }
                    })
            });
            assert_eq!(bar(system) == Verdict::Schedulable, every, "{tasks:?}");
            accepted += usize::from(every);
        }
        assert!(accepted > 500, "{accepted}");
    }

    fn tasks_at(tasks: &[Task], t: Time, of: fn(&Task, Time) -> Time) -> Vec<Time> {
        tasks.iter().map(|task| of(task, t)).collect()
    }
}
