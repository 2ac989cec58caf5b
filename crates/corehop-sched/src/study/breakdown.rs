// SPDX-License-Identifier: MIT OR Apache-2.0
//! Breakdown utilisation: execution times grow together until a set is no longer schedulable.

use super::family::{Family, FamilyMember};
use super::verdicts::PolicyQuery;
use corehop_plan::workload::task::{Task, Time};

/// The value that represents 100 % in the answer.
pub(super) const WHOLE: u64 = 1_000_000;
/// The largest factor on execution times that the search tries, in thousandths.
const MOST: u64 = 1 << 30;

/// The set's breakdown utilisation in millionths of all CPUs: its utilisation with the longest schedulable execution
/// times, in steps of a thousandth of the original times. The delay is charged in full, and does not count as
/// utilisation.
///
/// The search by halving assumes that a schedulable set stays schedulable when its execution times shrink, which all
/// tests in this crate are built to satisfy.
pub(super) fn breakdown(
    way: PolicyQuery,
    cpus: u32,
    family: &Family,
    member: &FamilyMember,
    delay: Time,
) -> u64 {
    let tasks = family.charged(member, Time::ZERO);
    let utilisation = |by: u64| {
        let each = |task: &Task| {
            let wcet = (u128::from(task.wcet) * u128::from(by)).div_ceil(1_000);
            wcet as f64 / task.period.as_f64()
        };
        tasks.iter().map(each).sum::<f64>() / f64::from(cpus)
    };
    if tasks.is_empty() {
        return WHOLE;
    }
    // Between a factor that is fine and one that fills more than all CPUs.
    let (mut low, mut high) = (0, 1);
    while utilisation(high) <= 1.0 && high < MOST {
        high *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if way.verdict_scaled(family, member, delay, middle) { low = middle } else { high = middle }
    }
    ((utilisation(low) * WHOLE as f64) as u64).min(WHOLE)
}
