// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several CPUs that share one queue: global EDF, global fixed priorities, preemptive and not.

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

/// Whether every deadline is within its period, as most of these tests assume.
pub(crate) fn constrained(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.deadline <= task.period)
}

/// Whether every job could make it alone.
pub(crate) fn each_fits(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.wcet <= task.deadline)
}

/// The largest density, as a fraction.
fn max_density(tasks: &[Task]) -> (u64, u64) {
    let above = |a: (u64, u64), b: (u64, u64)| {
        u128::from(a.0) * u128::from(b.1) > u128::from(b.0) * u128::from(a.1)
    };
    tasks
        .iter()
        .map(Task::delta)
        .fold((0, 1), |most, delta| if above(delta, most) { delta } else { most })
}
