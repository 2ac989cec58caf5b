// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on the CPU share of real-time task sets, and on the memory of all task sets, because the rest of the system
//! needs some of both.

use corehop_plan::experiment::{PlanError, PlannedTask, TaskRun, Tasks, TasksError};
use corehop_plan::machine::MachineError;
use corehop_plan::units::Bytes;
use corehop_plan::workload::scheduler::JobPreference;

use super::worker::MARGIN_NS;

/// The largest average CPU share of real-time tasks.
const MOST: f64 = 0.5;

/// The share that tasks may use beyond [`MOST`] if their execution times are shorter than the time that any job needs.
const TOO_SHORT: f64 = 0.1;

/// Rejects a run whose real-time tasks use more than [`MOST`]. Every job takes at least the time to wake up, check the
/// time and go back to sleep; with these times the tasks may use [`TOO_SHORT`] more.
pub(super) fn fits(plan: &Tasks, run: usize) -> Result<(), PlanError> {
    let it = &plan.runs[run];
    if plan.scheduler.order() == JobPreference::Fair {
        return Ok(());
    }
    for (cluster, cpus) in it.clusters.iter().enumerate() {
        let (said, at_least) = (used(it, cluster, 0.0), used(it, cluster, MARGIN_NS));
        let (used, why, remedy) = if said > MOST * 1.001 {
            (said, String::new(), "scale their execution times (--share)")
        } else if at_least > MOST + TOO_SHORT {
            let why = format!(", because a job takes at least about {:.0} us", MARGIN_NS / 1e3);
            (at_least, why, "run fewer tasks, or with longer periods (--period)")
        } else {
            continue;
        };
        let what = format!(
            "real-time tasks would use {used:.2} of each of the CPUs {cpus}{why}: at most {MOST} is allowed; {remedy}"
        );
        return Err(TasksError::Run { run, what }.into());
    }
    Ok(())
}

/// The share of each CPU of a cluster that its tasks use, if none executes for less than `least_ns`.
fn used(run: &TaskRun, cluster: usize, least_ns: f64) -> f64 {
    let own = run.tasks.iter().filter(|task| task.cluster == cluster);
    let of_task =
        |task: &PlannedTask| (task.wcet.get() as f64).max(least_ns) / task.period.get() as f64;
    own.map(of_task).sum::<f64>() / run.clusters[cluster].len() as f64
}

/// Rejects a run whose working sets need more than nine tenths of the `available` memory, because all threads check
/// the available memory at the same time, each for itself.
pub(super) fn fits_memory(run: &TaskRun, available: Bytes) -> Result<(), MachineError> {
    let all = Bytes::new(run.tasks.iter().map(|task| task.set.wss.get()).sum());
    if all.get() <= available.get() / 10 * 9 {
        return Ok(());
    }
    Err(MachineError::NotPossible {
        what: format!("a set of {} tasks", run.tasks.len()),
        why: format!(
            "the working sets take {all} together, but at most nine tenths of the available {available} may be used"
        ),
        remedy: "run fewer tasks (--tasks), or with smaller working sets (--wss)".to_owned(),
    })
}
