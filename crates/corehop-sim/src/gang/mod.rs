// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gangs on the simulated machine: threads that run together on common data.
//!
//! The thread with the earliest clock takes its next step, so loads, stores and locks of all threads reach the
//! caches in the order of simulated time. Threads of one CPU take turns. A run depends only on the plan, the seed
//! and its own number, so that runs can execute in parallel and the records are the same for any number of host
//! threads.

mod fork_join;
mod host;
mod line_times;
mod pages;
mod program;
mod run;
mod seat;

use corehop_plan::experiment::{Gang, Gangs};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, GangRecord};

use super::recipe::Recipe;
use corehop_plan::parallel::side_by_side;
use run::GangSimulation;

pub use host::SimHost;

/// The number of runs whose records are delivered together.
const AT_A_TIME: usize = 16;
/// The first random stream that belongs to gangs alone.
const STREAMS: u64 = 1 << 48;

/// Runs a gang once on a fresh machine; returns None if the run had to end early.
fn run_of(
    recipe: &Recipe,
    gang: &Gang,
    seed: u64,
    (number, run): (usize, u32),
) -> Result<Option<GangRecord>, MachineError> {
    if recipe.stop.is_asked() {
        return Ok(None);
    }
    let stream = STREAMS | (number as u64) << 24 | u64::from(run);
    let mut state = recipe.idle_state(seed ^ stream)?;
    state.redraw(seed, stream);
    let mut gangs = GangSimulation::new(state, false);
    gangs.add(recipe, gang, (seed, stream))?;
    let record =
        |members| GangRecord { gang: number, run, replicate: None, exchange: None, members };
    Ok(gangs.run().map(record))
}

/// Runs every gang, with some runs in parallel.
pub(super) fn run(
    recipe: &Recipe,
    gangs: &Gangs,
    seed: u64,
    sink: &mut dyn Sink,
) -> Result<RunEnd, MachineError> {
    let numbers = |gang: &Gang| gang.first_run..gang.first_run + gang.samples;
    let of_gang = |(at, gang)| numbers(gang).map(move |run| (at, run));
    let runs: Vec<(usize, u32)> = gangs.gangs.iter().enumerate().flat_map(of_gang).collect();
    for some in runs.chunks(AT_A_TIME) {
        let run = |at: usize| run_of(recipe, &gangs.gangs[some[at].0], seed, some[at]);
        for record in side_by_side(0..some.len(), run) {
            let Some(record) = record? else { return Ok(RunEnd::Stopped) };
            if !sink.take(Batch::Gangs(&[record])).map_err(MachineError::Sink)? {
                return Ok(RunEnd::Stopped);
            }
        }
    }
    Ok(RunEnd::Complete)
}
