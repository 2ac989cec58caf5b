// SPDX-License-Identifier: MIT OR Apache-2.0
//! The least window that other tasks do not fill on all CPUs, found by going through the instants at which
//! some workload begins or ceases to grow.
//!
//! Each workload, cut to the window `y`, grows by one or not at all with each unit of the window. Between two
//! such instants what all of them fill is a straight line, on which the first `y` with `sum < m y` is a quotient.

use super::workload::{Grower, Neighbour};
use crate::uni::STEPS;
use corehop_plan::workload::task::{Task, Time};

/// The filling of one window, by workloads that are added one by one.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    m: u64,
    y: Time,
    growers: Vec<Grower>,
    /// The number that are cut to the window, and the work of the others.
    capped: u64,
    below: Time,
    /// Their utilisation, and how often they begin a job: both only guide how far to look.
    drift: f64,
    rate: f64,
    /// Twice the distance to an instant, and one more where a workload begins to grow there.
    instants: Vec<u64>,
    /// The steps taken in all windows so far. Beyond [`STEPS`] every window counts as filled: periods that differ too much would
    /// take for ever, and a test that does not accept decides nothing.
    steps: u64,
}

/// The place of the wanted window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextWindow {
    /// All windows before this one are filled; it itself is not, if nothing was left out.
    Unfilled(Time),
    /// All windows before this one are filled.
    From(Time),
}

/// The windows to look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowRange {
    pub(super) from: Time,
    pub(super) limit: Time,
    /// The work of others beside a window is done in one that is longer by this.
    pub(super) wait: Time,
}

impl WindowRange {
    /// Those in which a job has to begin its last unit, if none before `from` is short enough.
    pub(super) fn of(own: &Task, from: Time) -> Self {
        Self { from, limit: own.deadline - own.wcet + Time::TICK, wait: own.wcet - Time::TICK }
    }
}

impl Sweep {
    /// The least window that `others` do not fill on `m` CPUs; none where there is none. Of `others` those go
    /// that have reached their limit and are below every longer window.
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

    /// Begins at the window `y`, where `done` is what does not grow any more, and is less than `y` each.
    #[inline]
    pub(super) fn begin(&mut self, m: u64, y: Time, done: Time) {
        self.growers.clear();
        (self.m, self.y, self.capped, self.below) = (m, y, 0, done);
        (self.drift, self.rate) = (0.0, 0.0);
    }

    /// Adds one, of this many jobs per unit.
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

    /// By how much the CPUs are over-full, if they are full.
    #[inline]
    pub(super) fn excess(&self) -> Option<Time> {
        (self.capped * self.y + self.below).checked_sub(self.m * self.y)
    }

    /// Goes on from here, where there is this excess, to `limit` at most.
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

    /// Somewhat beyond where the workloads would on average be used up, but not over more instants than
    /// are worth sorting.
    fn how_far(&self, excess: Time, limit: Time) -> Time {
        let few = (self.growers.len() + 4) as f64 / self.rate;
        let closing = self.m as f64 - self.capped as f64 - self.drift;
        let near = if closing > 0.0 { 1.5 * excess.as_f64() / closing + 0.1 * few } else { few };
        Time::new(near.min(few) as u64).clamp(Time::TICK, limit.max(self.y + Time::TICK) - self.y)
    }

    /// Every instant within `far`; how fast the excess grows at first.
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

/// The excess of the workloads over all that the CPUs can do, on a stretch where it is straight.
#[derive(Debug, Clone, Copy)]
struct LinearExcess {
    excess: i64,
    slope: i64,
    at: Time,
}

impl LinearExcess {
    /// Goes on to `at`, unless the CPUs are no longer full before or there: then from where on.
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

    /// A twin that walks: floor(x/T) C + min(C, x mod T), cut to the limit and to the window.
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
