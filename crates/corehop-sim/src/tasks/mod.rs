// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets on the simulated machine, under a simulated scheduler: the measurements of the schedule-sensitive
//! method of Bastoni et al., in software.
//!
//! # The schedule
//!
//! The simulation always processes the earliest event: a release, the end of a job, or a visit of a job or polluter
//! to a line. Visits therefore reach the caches in the order of simulated time. Jobs are preempted at the instant
//! at which a more urgent one is released, also within a visit, whose remaining time the job spends after its
//! return. At one instant, jobs end first, then other jobs are released, then all CPUs are assigned together
//! ([`dispatch`] has the rules). A job of a task waits until the task's previous job has ended. Loads run as best
//! effort, on CPUs without a task. Releases, decisions and switches take no time. If the platform states the size
//! of the operating system's data, a switch also touches that data.
//!
//! # A job
//!
//! A job makes a cold touch and a warm touch, then touches single words until it has lost its CPU once; then it
//! makes the resumed touch, and touches single words again until its execution time is over. A job always ends when
//! its execution time is over, even within a touch, so that no cache changes the schedule. A job that returns with
//! less time left than one and a half times its cold touch took does not begin the resumed touch, as on a live
//! machine: the job was too short.
//!
//! # What is approximate
//!
//! - A waiting live job touches words as fast as it can. A waiting simulated job goes through its working set once
//!   in [`KEEP_WARM`], and at most at a rate of one line (or one line that represents several) in [`LEAST_PAUSE`].
//! - When a package wakes, its clock is at full speed at once.
//! - Sampling of working sets ([`super::SimMachine::sampled`]) uses one factor for all tasks of a run: the factor
//!   of the task that tolerates the least sampling.
//!
//! A run depends only on the plan, the seed and its number, so that runs can execute in parallel and the records
//! are the same for any number of threads.

mod dispatch;
mod job;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use corehop_plan::experiment::{TaskRun, Tasks};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, TaskJobRecord};
use corehop_plan::workload::Load;
use corehop_plan::workload::scheduler::Scheduler;

use super::chunk::Sum;
use super::machine_state::MachineState;
use super::recipe::{Recipe, SNAPSHOTS};
use super::times::Picos;
use corehop_plan::parallel::{side_by_side, threads, together};
use run::TaskSimulation;

/// The time in which a waiting job goes through its working set once: 1.5 ms. A polluter on the other core of a
/// shared cache needs some 3 ms to replace the contents of that cache.
const KEEP_WARM: Picos = 1_500_000_000;
/// The shortest time between two touches of a waiting job: a microsecond.
const LEAST_PAUSE: Picos = 1_000_000;
/// The simulated time between two checks whether the run has to end: a tenth of a second.
const SLICE: Picos = 100_000_000_000;
/// The first random stream that belongs to task sets alone.
const STREAMS: u64 = 1 << 52;

/// Machines in a steady state under a load, by the index of the load, the sampling factor and the snapshot's
/// number.
type Bases = BTreeMap<(usize, u32, usize), MachineState>;

/// The steady-state machines from which these runs begin.
fn bases(recipe: &Recipe, plan: &Tasks, seed: u64, runs: &[usize]) -> Result<Bases, MachineError> {
    let mut keys: Vec<_> = runs.iter().map(|&run| base_of(recipe, plan, run)).collect();
    keys.sort_unstable();
    keys.dedup();
    let base = |at: usize| {
        let (first, every, snapshot) = keys[at];
        recipe.under(&plan.runs[first].load, every, seed, snapshot)
    };
    let states: Result<Vec<MachineState>, _> =
        side_by_side(0..keys.len(), base).into_iter().collect();
    Ok(keys.iter().copied().zip(states?).collect())
}

/// The key of the machine from which a run begins: the first run under the same load, the sampling factor, and the
/// number of the snapshot.
fn base_of(recipe: &Recipe, plan: &Tasks, run: usize) -> (usize, u32, usize) {
    let TaskRun { load, tasks, index, .. } = &plan.runs[run];
    let first = plan.runs.iter().position(|other| other.load == *load).unwrap_or(run);
    let every = tasks.iter().map(|task| recipe.every_of_tasks(&task.set, load)).min().unwrap_or(1);
    let snapshot = if *load == Load::Idle { 0 } else { *index as usize % SNAPSHOTS };
    (first, every, snapshot)
}

/// Runs some task sets in parallel, and delivers their jobs in order.
fn sets(
    recipe: &Recipe,
    plan: &Tasks,
    seed: u64,
    numbers: &[usize],
    sink: &mut dyn Sink,
) -> Result<(u64, RunEnd), MachineError> {
    let bases = bases(recipe, plan, seed, numbers)?;
    let start = |&number: &usize| {
        TaskSimulation::new(recipe, plan, seed, number, &bases[&base_of(recipe, plan, number)])
    };
    let mut runs: Vec<TaskSimulation<'_>> = numbers.iter().map(start).collect();
    drop(bases);
    let mut done: Vec<Vec<TaskJobRecord>> = vec![Vec::new(); runs.len()];
    let mut jobs = 0;
    for slice in 1.. {
        let more = together(&mut runs, |run| run.advance(slice * SLICE));
        for (run, done) in runs.iter_mut().zip(&mut done) {
            done.extend(run.take_done());
        }
        let more = more.into_iter().collect::<Result<Vec<bool>, _>>()?;
        // Those of a run are handed over when all earlier ones are.
        let under_way = more.iter().position(|&more| more);
        for done in &mut done[..under_way.map_or(numbers.len(), |at| at + 1)] {
            jobs += done.len() as u64;
            let batch = std::mem::take(done);
            if !sink.take(Batch::Tasks(&batch)).map_err(MachineError::Sink)? {
                return Ok((jobs, RunEnd::Stopped));
            }
        }
        if under_way.is_none() {
            break;
        }
        if recipe.stop.is_asked() {
            return Ok((jobs, RunEnd::Stopped));
        }
    }
    Ok((jobs, RunEnd::Complete))
}

/// The error for a plan that measures the cost of observation, which only a live machine has.
fn watching_costs_nothing() -> MachineError {
    MachineError::NotPossible {
        what: "a run without observation, on a simulated machine".to_owned(),
        why: "there watching costs nothing".to_owned(),
        remedy: "omit --paired, or measure live".to_owned(),
    }
}

fn not_simulated(scheduler: Scheduler) -> MachineError {
    let simulated = Scheduler::ALL.iter().filter(|it| it.is_simulated());
    let simulated: Vec<String> = simulated.map(ToString::to_string).collect();
    MachineError::NotPossible {
        what: format!("the scheduler {scheduler} on a simulated machine"),
        why: "its choice is unspecified".to_owned(),
        remedy: format!("take {}, or measure live", simulated.join(", ")),
    }
}

/// Runs every task set, as many in parallel as there are threads, and adds their results to `total`.
pub(super) fn run(
    recipe: &Recipe,
    plan: &Tasks,
    seed: u64,
    sink: &mut dyn Sink,
    total: &mut Sum,
) -> Result<RunEnd, MachineError> {
    if !plan.scheduler.is_simulated() {
        return Err(not_simulated(plan.scheduler));
    }
    if plan.runs.iter().any(|run| !run.watched) {
        return Err(watching_costs_nothing());
    }
    let numbers: Vec<usize> = (0..plan.runs.len()).collect();
    for some in numbers.chunks(threads()) {
        let (jobs, outcome) = sets(recipe, plan, seed, some, sink)?;
        total.add(Sum { jobs, ..Sum::default() });
        if outcome == RunEnd::Stopped {
            return Ok(outcome);
        }
    }
    Ok(RunEnd::Complete)
}
