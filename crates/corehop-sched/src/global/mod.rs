// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for several CPUs that share one queue: global EDF and global fixed priorities, preemptive
//! and non-preemptive.

pub mod bar;
pub(crate) mod demand;
pub mod edf;
pub mod ff_dbf;
pub mod fixed;
pub mod load;
pub mod nonpreemptive;
pub mod rta;
pub mod victims;
mod workload;
mod window;

pub(crate) use edf::overloaded;
pub use edf::{bak, bcl, bcl_iterative, gfb, necessary, own_cpu};

use corehop_plan::workload::task::Task;

/// Whether every deadline is within its period, which most global tests assume.
pub(crate) fn constrained(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.deadline <= task.period)
}

/// Whether every job meets its deadline if the job runs alone.
pub(crate) fn each_fits(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.wcet <= task.deadline)
}

/// The largest density of a task, as a fraction.
fn max_density(tasks: &[Task]) -> (u64, u64) {
    let above = |a: (u64, u64), b: (u64, u64)| {
        u128::from(a.0) * u128::from(b.1) > u128::from(b.0) * u128::from(a.1)
    };
    tasks
        .iter()
        .map(Task::delta)
        .fold((0, 1), |most, delta| if above(delta, most) { delta } else { most })
}
