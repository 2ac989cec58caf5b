// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jobs of a plan, phase by phase, in chunks.
//!
//! Jobs run in chunks of [`CHUNK`], each from a snapshot of the machine under the phase's load. The results of a
//! chunk depend only on the plan and the seed, so that chunks can run in parallel and the records are the same for
//! any number of threads. Chunks of one replicate share their frames; if the plan has no replicates, each chunk has
//! its own frames, and its records state the random stream.

use std::collections::BTreeMap;

use corehop_plan::experiment::Jobs;
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::Batch;
use corehop_plan::workload::Load;

use super::chunk::{ChunkRun, Done, Sum};
use super::machine_state::MachineState;
use super::recipe::{Recipe, SNAPSHOTS};
use corehop_plan::parallel::{side_by_side, threads};

/// The number of jobs that run one after the other from one snapshot.
const CHUNK: usize = 16;
/// The number of chunks per thread that are delivered together: few enough that an interrupted run ends soon, and
/// enough that threads seldom wait for each other.
const AT_A_TIME: usize = 2;
/// Some jobs that run one after the other on a machine with one sampling factor.
struct Chunk {
    every: u32,
    jobs: Vec<usize>,
}

/// The chunks of a phase in the order in which they run; jobs with the same sampling factor run together.
fn chunks(recipe: &Recipe, plan: &Jobs, number: usize) -> Vec<Chunk> {
    let mut by_sets: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, job) in plan.phases[number].jobs.iter().enumerate() {
        let set = &plan.sets[plan.cells[job.cell].set];
        by_sets.entry(recipe.every(set, &plan.phases[number].load)).or_default().push(at);
    }
    let chunk = |(every, jobs): (u32, Vec<usize>)| {
        let chunks = jobs.chunks(CHUNK).map(|jobs| Chunk { every, jobs: jobs.to_vec() });
        chunks.collect::<Vec<_>>()
    };
    by_sets.into_iter().flat_map(chunk).collect()
}

/// The number of earlier jobs of the same cell, for each job of a phase; empty if the platform states no losses,
/// because only losses need these numbers.
pub(super) fn turns(recipe: &Recipe, plan: &Jobs, number: usize) -> Vec<u32> {
    if recipe.platform.losses.is_empty() {
        return Vec::new();
    }
    let mut before = vec![0; plan.cells.len()];
    for job in plan.phases[..number].iter().flat_map(|phase| &phase.jobs) {
        before[job.cell] += 1;
    }
    let turn = |cell: usize| {
        before[cell] += 1;
        before[cell] - 1
    };
    plan.phases[number].jobs.iter().map(|job| job.cell).map(turn).collect()
}

/// Runs a phase chunk by chunk, and returns its summed results.
fn phase(
    recipe: &Recipe,
    plan: &Jobs,
    seed: u64,
    number: usize,
    sink: &mut dyn Sink,
) -> Result<(Sum, RunEnd), MachineError> {
    let phase = &plan.phases[number];
    let chunks = chunks(recipe, plan, number);
    let idle = phase.load == Load::Idle;
    let mut bases: BTreeMap<u32, Vec<MachineState>> = BTreeMap::new();
    for chunk in &chunks {
        if bases.contains_key(&chunk.every) {
            continue;
        }
        let same = chunks.iter().filter(|other| other.every == chunk.every).count();
        // In a replicate the load has the same frames throughout.
        let wanted = if idle || phase.replicate.is_some() { 1 } else { SNAPSHOTS.min(same) };
        let drawn = phase.draws().map_or(0, |drawn| SNAPSHOTS + drawn.others as usize);
        let under = |at| recipe.under(&phase.load, chunk.every, seed, drawn + at);
        let states: Result<Vec<MachineState>, MachineError> =
            side_by_side(0..wanted, under).into_iter().collect();
        bases.insert(chunk.every, states?);
    }
    let turns = turns(recipe, plan, number);
    let run = |at: usize| {
        let bases = &bases[&chunks[at].every];
        let base = &bases[at % bases.len()];
        ChunkRun::new(recipe, (plan, seed), (number, &turns), at, base).run(&chunks[at].jobs)
    };
    let mut sum = Sum::default();
    let together = AT_A_TIME * threads();
    for first in (0..chunks.len()).step_by(together) {
        let some = first..(first + together).min(chunks.len());
        let mut goes_on = true;
        for done in side_by_side(some, run) {
            let Done { records, sum: part, is_cut } = done?;
            sum.add(part);
            goes_on &= sink.take(Batch::Jobs(&records)).map_err(MachineError::Sink)?;
            if is_cut {
                // Jobs are handed over in order, and those before the next chunk's are not all there.
                return Ok((sum, RunEnd::Stopped));
            }
        }
        if !goes_on {
            return Ok((sum, RunEnd::Stopped));
        }
    }
    Ok((sum, RunEnd::Complete))
}

/// Runs the jobs of every phase, and adds their results to `total`.
pub(super) fn run(
    recipe: &Recipe,
    plan: &Jobs,
    seed: u64,
    sink: &mut dyn Sink,
    total: &mut Sum,
) -> Result<RunEnd, MachineError> {
    for number in 0..plan.phases.len() {
        let (sum, outcome) = phase(recipe, plan, seed, number, sink)?;
        total.add(sum);
        if outcome == RunEnd::Stopped {
            return Ok(outcome);
        }
    }
    Ok(RunEnd::Complete)
}
