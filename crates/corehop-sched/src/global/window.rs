// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the least window that other tasks do not fill on all CPUs, by visiting the instants at which some workload
//! starts or stops growing.
//!
//! With each unit of the window `y`, each workload (limited to `y`) grows by one or stays constant. Between two
//! neighbouring instants the total work is a straight line, so the first `y` with `sum < m y` is a quotient.

use super::workload::{Grower, Neighbour};
use crate::uni::STEPS;
use corehop_plan::workload::task::{Task, Time};

/// The filling of one window by workloads that are added one after the other.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    m: u64,
    y: Time,
    growers: Vec<Grower>,
    /// The number of workloads that are limited to the window, and the total of the other workloads.
    capped: u64,
    below: Time,
    /// The utilisation of the workloads, and their rate of new jobs. The two rates only decide how far to look ahead.
    drift: f64,
    rate: f64,
    /// Instants, each as twice its distance, plus one if a workload starts to grow there.
    instants: Vec<u64>,
    /// The number of steps in all windows so far. Beyond [`STEPS`] steps every window counts as filled. Periods that
    /// differ too much would take too long, and a test that does not accept decides nothing.
    steps: u64,
}

/// The place of the least unfilled window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextWindow {
    /// All shorter windows are filled. The window of this length is not filled, unless a workload was left out.
    Unfilled(Time),
    /// All windows shorter than this value are filled, so the search continues from this value.
    From(Time),
}

/// The range of windows to search.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowRange {
    pub(super) from: Time,
    pub(super) limit: Time,
    /// The time by which each window is extended when the work of the other tasks is counted.
    pub(super) wait: Time,
}

impl WindowRange {
    /// The windows in which a job must begin its last unit, if no window before `from` is short enough.
    pub(super) fn of(own: &Task, from: Time) -> Self {
        Self { from, limit: own.deadline - own.wcet + Time::TICK, wait: own.wcet - Time::TICK }
    }
}

impl Sweep {
    /// The least window that `others` do not fill on `m` CPUs; `None` if there is no such window. Workloads that have
    /// reached their limit and stay below every longer window are removed from `others`.
    pub(super) fn least_unfilled(
        &mut self,
        m: u64,
        others: &mut Vec<Neighbour>,
        among: WindowRange,
    ) -> Option<Time> {
        let WindowRange { from, limit, wait } = among;
        let (mut y, mut done) = (from, Time::ZERO);
        while y <= limit {
            self.begin(m, y, done);
            others.retain(|other| {
                let grower = other.at(y + wait);
                let over = grower.value == grower.most && grower.most < y;
                if over {
                    self.below += grower.most;
                    done += grower.most;
                } else {
                    self.add(grower, other.per_unit());
                }
                !over
            });
            let Some(excess) = self.excess() else { return Some(y) };
            match self.next(excess, limit) {
                NextWindow::Unfilled(found) => return (found <= limit).then_some(found),
                NextWindow::From(later) => y = later,
            }
        }
        None
    }

    /// Starts at the window `y`. `done` is the total of the workloads that no longer grow and are each less than `y`.
    #[inline]
    pub(super) fn begin(&mut self, m: u64, y: Time, done: Time) {
        self.growers.clear();
        (self.m, self.y, self.capped, self.below) = (m, y, 0, done);
        (self.drift, self.rate) = (0.0, 0.0);
    }

    /// Adds one workload with `per_unit` jobs per unit.
    #[inline]
    pub(super) fn add(&mut self, grower: Grower, per_unit: f64) {
        if grower.value >= self.y {
            self.capped += 1;
        } else {
            self.below += grower.value;
            self.drift += grower.wcet.as_f64() * per_unit;
        }
        self.rate += per_unit;
        self.growers.push(grower);
    }

    /// The excess of work over the capacity of the CPUs, if the CPUs are full.
    #[inline]
    pub(super) fn excess(&self) -> Option<Time> {
        (self.capped * self.y + self.below).checked_sub(self.m * self.y)
    }

    /// Continues from the current window, where the work exceeds the capacity by `excess`, to `limit` at most.
    pub(super) fn next(&mut self, excess: Time, limit: Time) -> NextWindow {
        self.steps += self.growers.len() as u64 + 1;
        if self.steps > STEPS {
            return NextWindow::From(limit + Time::TICK);
        }
        let far = self.how_far(excess, limit);
        let slope = self.list_instants(far);
        self.instants.sort_unstable();
        let Self { y, .. } = *self;
        let mut line = LinearExcess { excess: excess.ticks() as i64, slope, at: Time::ZERO };
        for &instant in self.instants.iter().take_while(|&&instant| instant >> 1 <= far.ticks()) {
            if let Some(found) = line.reach(Time::new(instant >> 1)) {
                return NextWindow::Unfilled(y + found);
            }
            line.slope += if instant & 1 == 1 { 1 } else { -1 };
        }
        line.reach(far)
            .map_or(NextWindow::From(y + far + Time::TICK), |found| NextWindow::Unfilled(y + found))
    }

    /// A distance somewhat beyond the point where the excess would on average be used up, limited to a number of
    /// instants that is worth sorting.
    fn how_far(&self, excess: Time, limit: Time) -> Time {
        let few = (self.growers.len() + 4) as f64 / self.rate;
        let closing = self.m as f64 - self.capped as f64 - self.drift;
        let near = if closing > 0.0 { 1.5 * excess.as_f64() / closing + 0.1 * few } else { few };
        Time::new(near.min(few) as u64).clamp(Time::TICK, limit.max(self.y + Time::TICK) - self.y)
    }

    /// Lists every instant within `far`, and returns the growth rate of the excess at the start.
    fn list_instants(&mut self, far: Time) -> i64 {
        self.instants.clear();
        self.instants.reserve(4 * self.growers.len());
        let mut slope = -(self.m as i64);
        for grower in &self.growers {
            let Grower { value, run, next: mut start, wcet, period, most } = *grower;
            let mut level = value + run;
            if value >= self.y {
                // It is as long as the window, until the window is longer than all its jobs so far.
                while start <= far && level < most && start < level - self.y {
                    level = most.min(level + wcet);
                    start += period;
                }
                slope += 1;
                self.instants.push((level - self.y).ticks() << 1);
            } else if run > Time::ZERO {
                slope += 1;
                self.instants.push(run.ticks() << 1);
            }
            while start <= far && level < most {
                let grows = wcet.min(most - level);
                self.instants.push(start.ticks() << 1 | 1);
                self.instants.push((start + grows).ticks() << 1);
                level += grows;
                start += period;
            }
        }
        slope
    }
}

/// The excess of the workloads over the capacity of the CPUs, on a stretch where it grows linearly.
#[derive(Debug, Clone, Copy)]
struct LinearExcess {
    excess: i64,
    slope: i64,
    at: Time,
}

impl LinearExcess {
    /// Advances to the window `at`. If the CPUs stop being full at or before `at`, returns the window at which they do.
    #[inline]
    fn reach(&mut self, at: Time) -> Option<Time> {
        let end = self.excess + self.slope * (at - self.at).ticks() as i64;
        if end < 0 {
            return Some(self.at + Time::new((self.excess / -self.slope) as u64) + Time::TICK);
        }
        (self.excess, self.at) = (end, at);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::divisor::Divisor;
    use corehop_fixtures::task_sets::set;

    /// A slow check of the filled work: floor(x/T) C + min(C, x mod T), limited to the task's limit and to the
    /// window.
    fn filled(tasks: &[Task], slacks: &[Time], limits: &[Time], y: Time, wait: Time) -> Time {
        let of = |((task, &slack), limit): ((&Task, &Time), &Time)| {
            let x = y + wait + task.deadline - task.wcet - slack;
            (x / task.period * task.wcet + task.wcet.min(x % task.period)).min(*limit).min(y)
        };
        tasks.iter().zip(slacks).zip(limits).map(of).sum()
    }

    #[test]
    fn going_from_instant_to_instant_finds_what_walking_finds() {
        let mut state = 5_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let (mut found, mut sweep) = (0, Sweep::default());
        for _ in 0..20_000 {
            let m = draw(4) + 1;
            let span = [6, 30, 90][draw(3) as usize];
            let given: Vec<_> = (0..=draw(9))
                .map(|_| {
                    let period = draw(span) + 1;
                    let wcet = if draw(5) == 0 { period } else { draw(period) + 1 };
                    (wcet, period, wcet + draw(period - wcet + 1))
                })
                .collect();
            let set = set(1, &given);
            let tasks = set.tasks();
            let slacks: Vec<_> =
                tasks.iter().map(|t| Time::new(draw((t.deadline - t.wcet).ticks() + 1))).collect();
            let limits: Vec<_> = tasks
                .iter()
                .map(|_| if draw(2) == 0 { Time::MAX } else { Time::new(draw(3 * span)) })
                .collect();
            let [wait, limit] = [draw(20), draw(300) + 1].map(Time::new);
            let walked = |from: Time| {
                (from.ticks()..=limit.ticks())
                    .map(Time::new)
                    .find(|&y| filled(tasks, &slacks, &limits, y, wait) < m * y)
            };
            let from = walked(Time::TICK).map_or(Time::TICK, |y| Time::new(draw(y.ticks()) + 1));
            let each = tasks.iter().zip(&slacks).zip(&limits).map(|((task, &slack), &limit)| {
                Neighbour::densest(task, Divisor::new(task.period), slack).at_most(limit)
            });
            let mut others: Vec<_> = each.collect();
            let least = sweep.least_unfilled(m, &mut others, WindowRange { from, limit, wait });
            assert_eq!(least, walked(from), "{m} {given:?} {slacks:?} {limits:?} {wait} {from}");
            found += usize::from(least.is_some_and(|y| y > Time::new(3)));
        }
        assert!(found > 2_000, "{found}");
    }
}
