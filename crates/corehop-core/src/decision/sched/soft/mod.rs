// SPDX-License-Identifier: MIT OR Apache-2.0
//! Soft deadlines: tardiness is bounded, and by how much.

pub mod compliant;
pub mod tardiness;

use super::exact::compare_sum;
use super::task::{System, Task};
use super::verdict::Verdict;

/// Whether global EDF bounds the tardiness of each task: `U <= m` and each `u <= 1`. Exact (Devi and
/// Anderson, RTSS 2005; Leontyev and Anderson 2010 for any window-constrained scheduler).
pub fn bounded(system: System<'_>) -> Verdict {
    let each = system.tasks.iter().all(|task| task.wcet <= task.period);
    Verdict::exact(each && compare_sum(system.tasks.iter().map(Task::u), system.m()).is_le())
}

/// The least whole number that is not below the utilisation.
fn utilisation_ceil(tasks: &[Task]) -> u64 {
    let rounded: f64 = tasks.iter().map(|task| task.wcet as f64 / task.period as f64).sum();
    let near = rounded.round() as u64;
    if compare_sum(tasks.iter().map(Task::u), near).is_gt() { near + 1 } else { near.max(1) }
}
