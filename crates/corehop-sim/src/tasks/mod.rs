// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets on the simulated machine, under a scheduler of its own: what the schedule-sensitive
//! method of Bastoni et al. measures, in software.
//!
//! # The schedule
//!
//! The earliest event happens next: a release, the end of a job, a visit of a job or of a polluter
//! to a line; so that all of them reach the caches in the order of simulated time. Jobs are preempted
//! at the instant at which a more urgent one is released, also within a visit, the rest of which is
//! made up for later. At one instant jobs end first, then others are released, then the CPUs are
//! given out, all together ([`dispatch`] has the rules). A job of a task waits for the one before it.
//! Loads run as best effort, on CPUs that no task has. Releases, decisions and switches take no time;
//! what the operating system touches meanwhile is touched, where the platform states how much it is.
//!
//! # A job
//!
//! Cold touch, warm touch, then single words until it has been away; then the resumed touch, and
//! single words again until it has executed for its time. That ends every job, within a touch as well,
//! so that no cache changes the schedule. A job that comes back with less time left than one and a
//! half times its cold touch took does not begin to touch its working set again, as live jobs do not:
//! it was too short.
//!
//! # What is approximate
//!
//! - A live job that waits touches words as fast as it can. Here it goes through its working set once
//!   in [`KEEP_WARM`], and not faster than a line (or what stands for several) in [`LEAST_PAUSE`].
//! - Clocks are up to speed at once when a package wakes.
//! - Working sets that are sampled ([`super::SimMachine::sampled`]) are so for all tasks of a run alike, as
//!   the one that can least afford it.
//!
//! A run depends on the plan, the seed and its number alone: runs go side by side, and any number of
//! threads gives the same records.

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

/// In this time a job that waits goes through its working set once: a millisecond and a half. A polluter
/// that has the other core of a shared cache needs some three to replace what that holds.
const KEEP_WARM: Picos = 1_500_000_000;
/// The least time between two touches of a job that waits: a microsecond.
const LEAST_PAUSE: Picos = 1_000_000;
/// Runs go on by so much simulated time, a tenth of a second, before somebody may end them.
const SLICE: Picos = 100_000_000_000;
/// The first stream of draws that task sets have for themselves.
const STREAMS: u64 = 1 << 52;

/// A machine at rest under a load, by what it depends on: the load, one in how many sets is
/// simulated, and its number.
type Bases = BTreeMap<(usize, u32, usize), MachineState>;

/// The machines at rest that these runs begin with.
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

/// The machine that a run begins with: the first run under the same load, one in how many sets,
/// and the number of the snapshot.
fn base_of(recipe: &Recipe, plan: &Tasks, run: usize) -> (usize, u32, usize) {
    let TaskRun { load, tasks, index, .. } = &plan.runs[run];
    let first = plan.runs.iter().position(|other| other.load == *load).unwrap_or(run);
    let every = tasks.iter().map(|task| recipe.every_of_tasks(&task.set, load)).min().unwrap_or(1);
    let snapshot = if *load == Load::Idle { 0 } else { *index as usize % SNAPSHOTS };
    (first, every, snapshot)
}

/// Runs some task sets side by side, and hands their jobs over in order.
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

/// The effect of watching is a question to a live machine.
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

/// Runs every task set, as many side by side as there are threads, and adds what they come to to `total`.
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
