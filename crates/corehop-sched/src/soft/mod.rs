// SPDX-License-Identifier: MIT OR Apache-2.0
//! Soft deadlines: whether tardiness is bounded, and the bound.

pub mod compliant;
pub mod tardiness;

use super::exact::{ceil_of_sum, compare_sum};
use super::verdict::Verdict;
use crate::system::System;
use corehop_plan::workload::task::Task;

/// Whether global EDF bounds the tardiness of each task: `U <= m` and each `u <= 1`. The test is
/// exact (Devi and Anderson, RTSS 2005; Leontyev and Anderson 2010 for any window-constrained
/// scheduler).
pub fn bounded(system: System<'_>) -> Verdict {
    let each = system.tasks.iter().all(|task| task.wcet <= task.period);
    Verdict::exact(each && compare_sum(system.tasks.iter().map(Task::u), system.m()).is_le())
}

/// The utilisation rounded up to a whole number, at least 1.
fn utilisation_ceil(tasks: &[Task]) -> u64 {
    ceil_of_sum(tasks.iter().map(Task::u)).max(1)
}
