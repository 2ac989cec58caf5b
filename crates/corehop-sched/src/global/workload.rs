// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workload of other tasks in a window, and the least window that they cannot fill on all CPUs.

use crate::divisor::Divisor;
use crate::uni::STEPS;
use corehop_plan::workload::task::{Task, Time};

/// A workload at the current window, and its further growth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grower {
    pub(super) value: Time,
    /// The number of units for which the workload grows by one per unit.
    pub(super) run: Time,
    /// The number of units until the next job begins; [`Time::MAX`] if further jobs are left out.
    pub(super) next: Time,
    pub(super) wcet: Time,
    pub(super) period: Time,
    /// The limit that the workload never exceeds.
    pub(super) most: Time,
}

/// A workload at some window, and the number of further units for which the workload grows by one per unit before it
/// pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkloadBound {
    pub(super) value: Time,
    pub(super) run: Time,
}

impl WorkloadBound {
    /// The workload of jobs of `wcet` every `period`, aligned with the window's end: `floor(x/T) C + min(C, x mod
    /// T)`.
    #[inline]
    pub(super) fn periodic(wcet: Time, period: Divisor, x: Time) -> Self {
        let (whole, rest) = period.divide(x);
        if rest < wcet {
            Self { value: whole * wcet + rest, run: wcet - rest }
        } else {
            Self { value: (whole + 1) * wcet, run: Time::ZERO }
        }
    }

    /// Bertogna and Cirinei's densest packing in a window of length `x`: the first job is as late as its slack
    /// allows, and all others come as early as possible.
    #[inline]
    pub(super) fn densest(task: &Task, slack: Time, x: Time) -> Self {
        // x + D - C - S is not negative: a slack is at most D - C.
        let period = Divisor::new(task.period);
        Self::periodic(task.wcet, period, x + task.deadline - task.wcet - slack)
    }

    #[inline]
    pub(super) fn at_most(self, limit: Time) -> Self {
        if self.value >= limit {
            Self { value: limit, run: Time::ZERO }
        } else {
            Self { value: self.value, run: self.run.min(limit - self.value) }
        }
    }
}

/// A task's interference with others: its work in a window that is longer by `lead`, up to a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbour {
    wcet: Time,
    period: Divisor,
    lead: Time,
    most: Time,
}

impl Neighbour {
    /// A task whose jobs are aligned with the window's beginning.
    #[inline]
    pub(super) fn periodic(task: &Task, period: Divisor) -> Self {
        Self { wcet: task.wcet, period, lead: Time::ZERO, most: Time::MAX }
    }
    /// A task whose first job comes `lead` earlier.
    #[inline]
    pub(super) fn leading(wcet: Time, period: Divisor, lead: Time) -> Self {
        Self { wcet, period, lead, most: Time::MAX }
    }
    /// A task that runs as densely as its slack allows.
    #[inline]
    pub(super) fn densest(task: &Task, period: Divisor, slack: Time) -> Self {
        let lead = task.deadline - task.wcet - slack;
        Self { lead, ..Self::periodic(task, period) }
    }
    /// Limits the work to at most `most`.
    #[inline]
    pub(super) fn at_most(self, most: Time) -> Self {
        Self { most, ..self }
    }
    /// The number of jobs that begin per unit, rounded.
    #[inline]
    pub(super) fn per_unit(&self) -> f64 {
        self.period.inverse()
    }
    /// The work in a window of `x`, and its growth from there.
    #[inline]
    pub(super) fn at(&self, x: Time) -> Grower {
        let Self { wcet, period, lead, most } = *self;
        let (whole, rest) = period.divide(x + lead);
        let grown = rest.min(wcet);
        let value = (whole * wcet + grown).min(most);
        let run = (wcet - grown).min(most - value);
        Grower { value, run, next: period.by() - rest, wcet, period: period.by(), most }
    }
}

/// The period of each task, prepared for division.
pub(super) fn periods(tasks: &[Task]) -> Vec<Divisor> {
    tasks.iter().map(|task| Divisor::new(task.period)).collect()
}

/// The interference of a set of tasks in a window of `y` units, where each task's work is limited to the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowInterference {
    y: Time,
    /// The number of tasks that could fill the window alone, and the least work of one of them.
    capped: u64,
    least_capped: Time,
    /// The work of the other tasks, the number of them that grow, and the shortest time for which they grow.
    below: Time,
    growing: u64,
    shortest_run: Time,
}

impl WindowInterference {
    pub(super) fn new(y: Time) -> Self {
        Self {
            y,
            capped: 0,
            least_capped: Time::MAX,
            below: Time::ZERO,
            growing: 0,
            shortest_run: Time::MAX,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, work: WorkloadBound) {
        if work.value >= self.y {
            self.capped += 1;
            self.least_capped = self.least_capped.min(work.value);
        } else {
            self.below += work.value;
            if work.run > Time::ZERO {
                self.growing += 1;
                self.shortest_run = self.shortest_run.min(work.run);
            }
        }
    }

    /// Returns `None` if the tasks cannot fill the window on `m` CPUs. If the tasks can fill the window, returns a
    /// longer window such that the tasks fill all windows in between.
    #[inline]
    fn next(&self, m: u64) -> Option<Time> {
        let (y, filled) = (self.y, self.capped * self.y + self.below);
        let excess = filled.checked_sub(m * y)?;
        Some(self.if_nothing_grew(m).max(self.while_they_grow(m, excess)))
    }

    /// The window up to which the CPUs stay filled even if no workload grew.
    fn if_nothing_grew(&self, m: u64) -> Time {
        let last = self.least_capped.saturating_add(Time::TICK);
        if self.capped < m { (self.below / (m - self.capped) + Time::TICK).min(last) } else { last }
    }

    /// The window up to which growth is linear: until the first growing workload stops, or a limited workload falls
    /// below its limit.
    fn while_they_grow(&self, m: u64, excess: Time) -> Time {
        let linear = self.shortest_run.min(self.least_capped.saturating_sub(self.y));
        let rising = self.capped + self.growing;
        let until = if rising >= m { linear } else { linear.min(excess / (m - rising)) };
        self.y.saturating_add(until).saturating_add(Time::TICK)
    }
}

/// The least `y` from 1 to `limit` such that `fill(y)` is less than `m y`; `None` if there is no such `y`.
#[inline]
pub(super) fn least_unfilled(
    m: u64,
    limit: Time,
    mut fill: impl FnMut(Time) -> WindowInterference,
) -> Option<Time> {
    let mut y = Time::TICK;
    // A count, not a clock; a window that takes more steps counts as filled.
    for _ in 0..STEPS >> 6 {
        if y > limit {
            break;
        }
        match fill(y).next(m) {
            None => return Some(y),
            Some(longer) => y = longer,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumping_finds_what_walking_finds() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut found = 0;
        for _ in 0..4_000 {
            let m = draw(4) + 1;
            let tasks: Vec<_> = (0..draw(7))
                .map(|_| {
                    let period = draw(30) + 1;
                    (draw(period) + 1, period, draw(20), draw(60) + 1)
                })
                .collect();
            let times = |it: (u64, u64, u64, u64)| [it.0, it.1, it.2, it.3].map(Time::new);
            let tasks: Vec<_> = tasks.into_iter().map(times).collect();
            let fill = |y: Time| {
                let mut fill = WindowInterference::new(y);
                for &[wcet, period, offset, cap] in &tasks {
                    let period = Divisor::new(period);
                    fill.add(WorkloadBound::periodic(wcet, period, y + offset).at_most(cap));
                }
                fill
            };
            let filled = |y: Time| -> Time {
                let of = |&[c, t, offset, cap]: &[Time; 4]| {
                    let x = y + offset;
                    (x / t * c + c.min(x % t)).min(cap).min(y)
                };
                tasks.iter().map(of).sum()
            };
            let walked = (1..=200).map(Time::new).find(|&y| filled(y) < m * y);
            assert_eq!(least_unfilled(m, Time::new(200), fill), walked, "{m} {tasks:?}");
            found += usize::from(walked.is_some_and(|y| y > Time::new(3)));
        }
        assert!(found > 100, "{found}");
    }
}
