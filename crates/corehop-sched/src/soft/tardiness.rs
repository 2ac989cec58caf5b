// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devi and Anderson's tardiness bound for global EDF with implicit deadlines (RTSS 2005; Real-Time Systems 38(2),
//! 2008).
//!
//! The bound is `x = (E_L - e_min) / (m - U_{L-1})`, with `L = ceil(U) - 1`, `E_L` the sum of the `L` largest WCETs
//! and `U_{L-1}` the sum of the `L - 1` largest utilisations. The tardiness of a task is at most `x + C`.

use std::cmp::Ordering;

use crate::exact::{self, ceil_near};
use crate::partition::packing::by_utilisation;
use crate::system::System;
use corehop_plan::workload::task::{Task, Time};

/// Returns response-time bounds `T + C + ceil(x)`; `None` if tardiness is not bounded, or a deadline differs from its
/// period.
pub fn devi_anderson(system: System<'_>) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if tasks.iter().any(|task| task.deadline != task.period || task.wcet > task.period) {
        return None;
    }
    let mut each: Vec<f64> = tasks.iter().map(rounded_utilisation).collect();
    let ceiling = ceil_near(each.iter().sum(), tasks.len(), tasks.iter().map(Task::u)).max(1);
    if ceiling > system.m() {
        return None;
    }
    let last = ceiling as usize - 1;
    let x = ceil_x(system, last, &mut each).unwrap_or_else(|| ceil_x_exact(system, last));
    Some(tasks.iter().map(|task| task.period + task.wcet + x).collect())
}

/// The utilisation in floating point, from signed numbers because these convert in one instruction.
#[inline]
fn rounded_utilisation(task: &Task) -> f64 {
    task.wcet.ticks().cast_signed() as f64 / task.period.ticks().cast_signed() as f64
}

/// The term `x` of the bounds, rounded up, with `last` tasks that carry work; `None` if floating point cannot decide.
/// `each` contains the utilisations before the call; its content is undefined after the call.
fn ceil_x(system: System<'_>, last: usize, each: &mut Vec<f64>) -> Option<Time> {
    let used = sum_of_largest(each, last.saturating_sub(1));
    // Whole numbers of this size are exact.
    each.clear();
    each.extend(system.tasks.iter().map(|task| task.wcet.ticks().cast_signed() as f64));
    let shortest = each.iter().fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
    let longest = sum_of_largest(each, last);
    let m = system.m() as f64;
    let near = (longest - shortest).max(0.0) / (m - used);
    // No u is beyond 1, so at least 1 is spare: what is rounded in the sum is small beside it.
    let error = near * 2.0 * m * exact::relative_error(last);
    let (low, high) = ((near - error).ceil(), (near + error).ceil());
    (low >= high).then_some(Time::new(high as u64))
}

/// The term `x` of the bounds, rounded up and computed in whole numbers.
fn ceil_x_exact(system: System<'_>, last: usize) -> Time {
    let mut wcets: Vec<Time> = system.tasks.iter().map(|task| task.wcet).collect();
    wcets.sort_unstable_by(|a, b| b.cmp(a));
    let largest: Time = wcets.iter().take(last).sum();
    let numerator = largest.saturating_sub(wcets.last().copied().unwrap_or(Time::ZERO));
    let mut heavy: Vec<&Task> = system.tasks.iter().collect();
    heavy.sort_by(|a, b| by_utilisation(b, a));
    heavy.truncate(last.saturating_sub(1));
    // x <= y is numerator <= y (m - sum of u).
    let enough = |y: u128| {
        let least = y as i128 * i128::from(system.cpus) - i128::from(numerator);
        let used =
            heavy.iter().map(|task| (-i128::from(task.wcet) * y as i128, task.period.ticks()));
        exact::sign(used.chain([(least, 1)])) != Ordering::Less
    };
    // At least 1 CPU is spare.
    Time::new(exact::settle(u128::from(numerator / system.m()), enough) as u64)
}

/// The sum of the `count` largest values; the rest of `values` is undefined afterwards.
fn sum_of_largest(values: &mut Vec<f64>, count: usize) -> f64 {
    const GROUPS: usize = 16;
    if count == 0 {
        return 0.0;
    }
    if count < GROUPS && values.len() > 4 * count {
        // As many as are wanted are no less than this one among the greatest of each group: few others are.
        let mut greatest = [0.0_f64; GROUPS];
        for some in values.chunks(GROUPS) {
            for (most, &value) in greatest.iter_mut().zip(some) {
                *most = if value > *most { value } else { *most };
            }
        }
        greatest.sort_unstable_by(f64::total_cmp);
        let least = greatest[GROUPS - count];
        let mut kept = 0;
        for at in 0..values.len() {
            values[kept] = values[at];
            kept += usize::from(values[kept] >= least);
        }
        values.truncate(kept);
    }
    if count < values.len() {
        values.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    }
    values.iter().take(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soft::bounded;
    use crate::verdict::Verdict;
    use corehop_fixtures::task_sets::implicit;

    #[test]
    fn a_bound_by_hand() {
        // U = 3 * 2/3 = 2, L = 1: E_1 = 2, U_0 = 0: x = (2 - 2) / 2 = 0.
        let set = implicit(2, &[(2, 3), (2, 3), (2, 3)]);
        assert_eq!(devi_anderson(System::of(&set)), Some([5, 5, 5].map(Time::new).to_vec()));
        // U = 3, L = 2: E_2 = 41 + 15, e_min 4, U_1 = 7/8: x = 52 / (3 - 7/8) = 24.47.
        let full = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)]);
        let bounds = devi_anderson(System::of(&full)).unwrap();
        assert_eq!(bounds[0], Time::new(7 + 5 + 25));
    }

    #[test]
    fn floating_point_and_whole_numbers_agree_on_x() {
        let mut state = 9_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut told = 0;
        for _ in 0..5_000 {
            let span = [8, 100, 1 << 30][draw(3) as usize];
            let tasks: Vec<_> = (0..=draw(120))
                .map(|_| {
                    let period = draw(span) + 1;
                    (draw(period) + 1, period)
                })
                .collect();
            let set = implicit(draw(40) as u32 + 1, &tasks);
            let last = draw(u64::from(set.cpus())) as usize;
            let mut each = set.tasks().iter().map(rounded_utilisation).collect();
            if let Some(x) = ceil_x(System::of(&set), last, &mut each) {
                assert_eq!(x, ceil_x_exact(System::of(&set), last), "{tasks:?}");
                told += 1;
            }
        }
        assert!(told > 3_000, "{told}");
    }

    #[test]
    fn a_full_platform_is_bounded_though_floats_sum_to_more() {
        let full = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (41, 168)]);
        assert_eq!(bounded(System::of(&full)), Verdict::Schedulable);
        let more = implicit(3, &[(5, 7), (7, 8), (15, 18), (4, 12), (42, 168)]);
        assert_eq!(bounded(System::of(&more)), Verdict::Unschedulable);
        assert_eq!(devi_anderson(System::of(&more)), None);
    }
}
