// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compliant-vector analysis for schedulers with priority points: global EDF and G-FL (Erickson, Devi and Baruah,
//! ECRTS 2010; Erickson and Anderson, ECRTS 2012).
//!
//! A job's priority is its priority point, which lies `Y` after the release: the deadline under EDF, `D - floor((m -
//! 1) C / m)` under G-FL. With `Y` counted from the smallest `Y`, `x = s - C/m` and `S = max(0, C (1 - Y/T))`, the
//! analysis finds the least `s >= 0` such that
//!
//! `sum of the ceil(U) - 1 largest of (u x + C - S) + sum of S <= m s`
//!
//! and responses are at most `Y + x + C`. Only differences of priority points matter to a scheduler, so `Y` may be
//! counted from the smallest `Y`. An `x` may be negative.

use std::cmp::Ordering;

use super::{bounded, utilisation_ceil};
use crate::exact::{self, settle};
use crate::system::System;
use crate::verdict::Verdict;
use corehop_plan::workload::task::{Task, Time};

/// The choice of the priority points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// The priority point is the deadline, as in global EDF.
    Edf,
    /// The priority point is `D - floor((m - 1) C / m)`, as in fair lateness.
    FairLateness,
}

/// Returns response-time bounds, rounded up; `None` if tardiness is not bounded.
pub fn responses(system: System<'_>, points: Points) -> Option<Vec<Time>> {
    if bounded(system) != Verdict::Schedulable {
        return None;
    }
    let analysis = TardinessAnalysis::new(system, points);
    let least = analysis.least();
    let bound = |(task, &point): (&Task, &i128)| analysis.response(task, point, least);
    Some(system.tasks.iter().zip(&analysis.points).map(bound).collect())
}

struct TardinessAnalysis<'a> {
    system: System<'a>,
    /// The priority point of each task, counted from the smallest.
    points: Vec<i128>,
    carriers: usize,
}

impl<'a> TardinessAnalysis<'a> {
    fn new(system: System<'a>, points: Points) -> Self {
        let m = i128::from(system.cpus);
        let point = |task: &Task| match points {
            Points::Edf => i128::from(task.deadline),
            Points::FairLateness => i128::from(task.deadline) - (m - 1) * i128::from(task.wcet) / m,
        };
        let mut points: Vec<i128> = system.tasks.iter().map(point).collect();
        let least = points.iter().copied().min().unwrap_or(0);
        for point in &mut points {
            *point -= least;
        }
        let carriers = (utilisation_ceil(system.tasks) - 1) as usize;
        Self { system, points, carriers }
    }

    /// The numerator of `S` as a fraction over the period: `max(0, C (T - Y))`.
    fn supply(task: &Task, point: i128) -> i128 {
        i128::from(task.wcet) * (i128::from(task.period) - point).max(0)
    }

    /// The addition of a task that carries work in at `s = a / m`, times `m T`: `C (a - C) + m (C T - S T)`. The
    /// analysis chooses which tasks carry work in, so the addition is never negative.
    fn gain(&self, task: &Task, point: i128, a: i128) -> i128 {
        let (c, t, m) =
            (i128::from(task.wcet), i128::from(task.period), i128::from(self.system.cpus));
        (c * (a - c) + m * (c * t - Self::supply(task, point))).max(0)
    }

    /// The least `s` in floating point, by Newton's method on a convex, piecewise linear function, from below.
    fn newton(&self) -> f64 {
        let m = self.system.m() as f64;
        let lines: Vec<CarrierTerm> =
            self.each().map(|(task, point)| CarrierTerm::of(task, point, m)).collect();
        let supply: f64 = lines.iter().map(|line| line.supply).sum();
        let mut s = 0.0_f64;
        let mut terms = Vec::with_capacity(lines.len());
        loop {
            terms.clear();
            terms.extend(lines.iter().map(|line| {
                let value = line.slope * s + line.fixed;
                if value > 0.0 { (value, line.slope, line.fixed) } else { (0.0, 0.0, 0.0) }
            }));
            let carriers = self.carriers.min(terms.len());
            if carriers < terms.len() && carriers > 0 {
                terms.select_nth_unstable_by(carriers - 1, |a, b| b.0.total_cmp(&a.0));
            }
            let (slope, fixed) = terms[..carriers]
                .iter()
                .fold((0.0, 0.0), |(slope, fixed), term| (slope + term.1, fixed + term.2));
            let next = (supply + fixed) / (m - slope);
            if next <= s * (1.0 + 1e-13) + 1e-9 {
                return next.max(s);
            }
            s = next;
        }
    }

    /// The least whole `a` such that `s = a / m` satisfies the condition, computed exactly.
    fn least(&self) -> i128 {
        let near = (self.newton() * self.system.m() as f64).ceil();
        settle(near as u128, |a| self.enough(a as i128)) as i128
    }

    fn each(&self) -> impl Iterator<Item = (&'a Task, i128)> + Clone + '_ {
        self.system.tasks.iter().zip(self.points.iter().copied())
    }

    /// The least whole `r` such that `s = r - Y - C + C/m` satisfies the condition, where `least / m` is the least
    /// quotient that does. The number `r` bounds the response.
    fn response(&self, task: &Task, point: i128, least: i128) -> Time {
        let (c, m) = (i128::from(task.wcet), i128::from(self.system.cpus));
        // s = (m (r - Y - C) + C) / m
        let beyond = least - c;
        let waits = beyond.div_euclid(m) + i128::from(beyond.rem_euclid(m) > 0);
        Time::new((point + c + waits).max(0) as u64)
    }

    /// Whether the condition holds at `s = a / m`.
    fn enough(&self, a: i128) -> bool {
        let m = i128::from(self.system.cpus);
        let mut gains: Vec<Gain> =
            self.each().map(|(task, point)| Gain::of(self.gain(task, point, a), task)).collect();
        let carriers = self.carriers.min(gains.len());
        if carriers < gains.len() && carriers > 0 {
            gains.select_nth_unstable_by(carriers - 1, Gain::larger_first);
        }
        // Everything times m: gains and m S, against m a.
        let supplies =
            self.each().map(|(task, point)| (m * Self::supply(task, point), task.period.ticks()));
        let gains = gains[..carriers].iter().map(|gain| (gain.numerator, gain.period.ticks()));
        let terms = gains.chain(supplies).chain([(-m * a, 1)]);
        exact::sign(terms) != Ordering::Greater
    }
}

/// A task's terms in floating point: `S`, and the task's addition as a carrier, `slope s + fixed`.
#[derive(Debug, Clone, Copy)]
struct CarrierTerm {
    supply: f64,
    slope: f64,
    fixed: f64,
}

impl CarrierTerm {
    fn of(task: &Task, point: i128, m: f64) -> Self {
        let (c, u) = (task.wcet.as_f64(), task.wcet.as_f64() / task.period.as_f64());
        let supply = TardinessAnalysis::supply(task, point) as f64 / task.period.as_f64();
        Self { supply, slope: u, fixed: c - supply - u * c / m }
    }
}

/// The addition of a carrier, as an exact fraction and rounded.
#[derive(Debug, Clone, Copy)]
struct Gain {
    numerator: i128,
    period: Time,
    near: f64,
}

impl Gain {
    fn of(numerator: i128, task: &Task) -> Self {
        Self { numerator, period: task.period, near: numerator as f64 / task.period.as_f64() }
    }

    /// Orders the larger addition first: rounded values decide if they differ by more than the rounding error,
    /// otherwise exact fractions decide.
    fn larger_first(a: &Self, b: &Self) -> Ordering {
        if (a.near - b.near).abs() > 1e-14 * (a.near + b.near) {
            return b.near.total_cmp(&a.near);
        }
        larger_first(&(a.numerator, a.period.ticks()), &(b.numerator, b.period.ticks()))
    }
}

/// Orders the larger of two non-negative fractions first: by their whole parts, then by their remainders.
fn larger_first(a: &(i128, u64), b: &(i128, u64)) -> Ordering {
    let parts = |&(n, d): &(i128, u64)| (n / i128::from(d), n % i128::from(d));
    let ((whole_a, rest_a), (whole_b, rest_b)) = (parts(a), parts(b));
    let rests = || (rest_b * i128::from(a.1)).cmp(&(rest_a * i128::from(b.1)));
    whole_b.cmp(&whole_a).then_with(rests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn a_negative_x_lowers_the_bound() {
        // No carrier, as U < 1; S = 2 + 16 * 11/25 = 9.04, so s = 4.52 and x = 3.52, -3.48. A peer takes the
        // magnitude of the negative one and answers 33 for the second task.
        let set = set(2, &[(2, 14, 13), (16, 25, 27)]);
        assert_eq!(responses(System::of(&set), Points::Edf), Some([6, 27].map(Time::new).to_vec()));
    }

    #[test]
    fn what_is_found_is_the_least_that_is_enough() {
        let set = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)]);
        for points in [Points::Edf, Points::FairLateness] {
            let analysis = TardinessAnalysis::new(System::of(&set), points);
            let s = analysis.newton();
            let a = (s * 3.0).ceil() as i128;
            assert!(analysis.enough(a + 1) && !analysis.enough(a - 2), "{s}");
        }
    }

    #[test]
    fn beyond_the_platform_there_is_no_bound() {
        assert_eq!(responses(System::of(&implicit(1, &[(2, 3), (2, 3)])), Points::Edf), None);
    }
}
