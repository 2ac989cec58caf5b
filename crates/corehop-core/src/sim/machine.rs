// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine behind the seam: carries out plans as the live one does.
//!
//! Jobs run in chunks of [`CHUNK`], each from a snapshot of the machine under the phase's load: what a
//! chunk does depends on the plan and the seed alone, so that chunks may run side by side, and any
//! number of threads gives the same records. Chunks of one replicate share their frames; where the
//! plan has no replicates each chunk has frames of its own, and its records say which.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::experiment::{Body, Draw, Jobs, Plan};
use crate::machine::{Machine, MachineError, RunEnd, Sink};
use crate::platform::Platform;
use crate::samples::Batch;
use crate::units::{Bytes, Cpu, CpuList};
use crate::workload::{Load, Page, Pattern, Polluter, WorkingSet};

use super::chunk::{ChunkRun, Done, Sum, no_frames};
use super::frames::Colours;
use super::machine_state::MachineState;
use super::partitioning::{Partitioning, PartitioningError, Placement, Share};
use super::spec::SpecError;
use super::times::Picos;
use super::walker::Walker;

/// The jobs that run one after the other from one snapshot.
const CHUNK: usize = 16;
/// The chunks of each thread that are handed over together: few enough that who interrupts a run does not wait long,
/// enough that threads seldom wait for each other.
const AT_A_TIME: usize = 2;
/// Smallest sampled set.
const LEAST_SAMPLE: Bytes = Bytes::from_kib(512);
/// Of the lines of a task's working set at least so many, unless polluters run.
const LEAST_LINES: u64 = 64;
/// Sampled sets are at most so far apart.
const MOST_APART: u32 = 64;
/// Beside polluters they are at least so far apart.
const APART_UNDER_LOAD: u32 = 16;
/// The snapshots of a loaded phase, with other frames each.
pub(super) const SNAPSHOTS: usize = 4;
/// The number of times polluters go through their memory before a snapshot of a loaded phase is taken, or
/// through as much as all caches hold, whichever is less.
const LAPS: u64 = 2;
const FILLS: u64 = 8;
/// The longest that a machine runs under its load before the snapshot, in picoseconds: 100 ms.
const LONGEST_WARM_UP: Picos = 100_000_000_000;

/// The time it runs on to learn each polluter's demand on the servers, in picoseconds: 1 ms.
const LEARNED_IN: Picos = 1_000_000_000;

/// A machine in software, as its platform file describes it.
#[derive(Debug)]
pub struct SimMachine {
    pub(super) platform: Platform,
    partitioning: Partitioning,
    /// The colours of the job's pages and of others', where they are restricted.
    pub(super) colours: [Option<Colours>; 2],
    /// Whether large working sets are simulated in some of the sets only.
    sampled: bool,
    /// The time of polluters and preemptors for a line besides its access.
    pause: Picos,
    pub(super) sum: Sum,
}

impl SimMachine {
    /// The machine of `platform`.
    ///
    /// # Errors
    /// [`MachineError::NotPossible`] names the fact that its file lacks or that cannot be simulated.
    pub fn new(platform: Platform) -> Result<Self, MachineError> {
        Self::partitioned(platform, Partitioning::default())
    }

    /// The machine of `platform`, its memory and caches shared out.
    ///
    /// # Errors
    /// As [`SimMachine::new`], and where the platform cannot be shared out so.
    pub fn partitioned(
        platform: Platform,
        partitioning: Partitioning,
    ) -> Result<Self, MachineError> {
        let refused = |error: PartitioningError| MachineError::NotPossible {
            what: format!("an arrangement on {}", platform.name),
            why: error.to_string(),
            remedy: format!("see `corehop platform {}`", platform.id),
        };
        partitioning.check(&platform).map_err(refused)?;
        let mut colours = [None, None];
        if partitioning.has_colours() {
            let of = partitioning.colour_count(&platform).map_err(refused)?;
            let restricted = |share: &Share| {
                (!share.colours.is_empty()).then(|| Colours { of, mine: share.colours.clone() })
            };
            colours = [restricted(&partitioning.job), restricted(&partitioning.others)];
        }
        machine_state(&platform, &partitioning, 1, 0)?;
        Ok(Self { platform, partitioning, colours, sampled: false, pause: 0, sum: Sum::default() })
    }

    /// The same machine, in which working sets of a mebibyte and more are simulated in some of the
    /// sets of all caches: one in two, and up to one in 64 for the largest; beside polluters smaller
    /// ones too, in one of 16.
    #[must_use]
    pub fn sampled(self) -> Self {
        Self { sampled: true, ..self }
    }

    /// The same machine with other polluters: they need so long for a line besides accessing it.
    #[must_use]
    pub fn pausing(self, pause: Picos) -> Self {
        Self { pause, ..self }
    }

    /// One in how many sets is enough for `set` under `load`. Beside polluters a line is lost or
    /// kept whatever becomes of the others, and most of the work is theirs: few lines are enough.
    fn every(&self, set: &WorkingSet, load: &Load) -> u32 {
        let ahead = self.reads_ahead();
        if !self.sampled || (ahead && set.pattern == Pattern::Scan) {
            return 1;
        }
        let parts = (set.wss.get() / LEAST_SAMPLE.get()).clamp(1, u64::from(MOST_APART));
        let every = 1 << parts.ilog2();
        let few = *load != Load::Idle && (!ahead || set.wss >= LEAST_SAMPLE);
        if few { APART_UNDER_LOAD.max(every) } else { every }
    }

    /// The same for tasks, whose samples are many: for each so few lines are enough with or without
    /// polluters.
    pub(super) fn every_of_tasks(&self, set: &WorkingSet, load: &Load) -> u32 {
        let needs_pages = set.pattern == Pattern::Scan || set.wss < LEAST_SAMPLE;
        if !self.sampled || (self.reads_ahead() && needs_pages) {
            return 1;
        }
        let least = if *load == Load::Idle { 1 } else { APART_UNDER_LOAD };
        let parts = (set.lines() / LEAST_LINES).clamp(1, u64::from(MOST_APART));
        least.max(1 << parts.ilog2())
    }

    fn reads_ahead(&self) -> bool {
        self.platform.prefetchers.iter().any(|prefetcher| prefetcher.on.value)
    }

    /// The place of a CPU among all of the platform's.
    pub(super) fn place(&self, cpu: Cpu) -> usize {
        self.platform.cpus.value.iter().position(|other| other == cpu).unwrap_or(0)
    }

    /// The machine with the load of a phase running, at rest.
    pub(super) fn under(
        &self,
        load: &Load,
        every: u32,
        seed: u64,
        snapshot: usize,
    ) -> Result<MachineState, MachineError> {
        let Some(cpus) = load.cpus() else {
            return machine_state(&self.platform, &self.partitioning, every, 0);
        };
        let stream = 1_000 + snapshot as u64;
        let mut state = machine_state(&self.platform, &self.partitioning, every, seed ^ stream)?;
        let mut draw = Draw::new(seed, stream);
        let everywhere = self.platform.usable();
        let cpus: &CpuList = if cpus.is_empty() { &everywhere } else { cpus };
        let places: Vec<usize> = cpus.iter().map(|cpu| self.place(cpu)).collect();
        let memory = self.start(load, &places, &mut state, &mut draw)?;
        let lines = memory.get() / self.platform.line_size().get();
        let held = state.caches().lines() * u64::from(every);
        warm_up(&mut state, (lines * LAPS * cpus.len() as u64).min(held * FILLS));
        Ok(state)
    }

    /// The jobs of a phase in the order in which they run: those together that need as many sets.
    fn chunks(&self, plan: &Jobs, number: usize) -> Vec<Chunk> {
        let mut by_sets: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, job) in plan.phases[number].jobs.iter().enumerate() {
            let set = &plan.sets[plan.cells[job.cell].set];
            by_sets.entry(self.every(set, &plan.phases[number].load)).or_default().push(at);
        }
        let chunk = |(every, jobs): (u32, Vec<usize>)| {
            let chunks = jobs.chunks(CHUNK).map(|jobs| Chunk { every, jobs: jobs.to_vec() });
            chunks.collect::<Vec<_>>()
        };
        by_sets.into_iter().flat_map(chunk).collect()
    }

    /// Runs a phase, chunk by chunk; what it came to.
    fn phase(
        &self,
        plan: &Jobs,
        seed: u64,
        number: usize,
        sink: &mut dyn Sink,
    ) -> Result<(Sum, RunEnd), MachineError> {
        let phase = &plan.phases[number];
        let chunks = self.chunks(plan, number);
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
            let under = |at| self.under(&phase.load, chunk.every, seed, drawn + at);
            let states: Result<Vec<MachineState>, MachineError> =
                side_by_side(0..wanted, under).into_iter().collect();
            bases.insert(chunk.every, states?);
        }
        let run = |at: usize| {
            let bases = &bases[&chunks[at].every];
            let base = &bases[at % bases.len()];
            ChunkRun::new(self, (plan, seed), number, at, base).run(&chunks[at].jobs)
        };
        let mut sum = Sum::default();
        let together = AT_A_TIME * threads();
        for first in (0..chunks.len()).step_by(together) {
            let some = first..(first + together).min(chunks.len());
            let mut goes_on = true;
            for done in side_by_side(some, run) {
                let Done { records, sum: part } = done?;
                sum.add(part);
                goes_on &= sink.take(Batch::Jobs(&records)).map_err(MachineError::Sink)?;
            }
            if !goes_on {
                return Ok((sum, RunEnd::Stopped));
            }
        }
        Ok((sum, RunEnd::Complete))
    }

    /// Runs the jobs of every phase.
    fn run_jobs(
        &mut self,
        plan: &Jobs,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        no_programs(&plan.sets)?;
        for number in 0..plan.phases.len() {
            let (sum, outcome) = self.phase(plan, seed, number, sink)?;
            self.sum.add(sum);
            if outcome == RunEnd::Stopped {
                return Ok(outcome);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// An empty machine of its own.
    pub(super) fn idle_state(&self, seed: u64) -> Result<MachineState, MachineError> {
        machine_state(&self.platform, &self.partitioning, 1, seed)
    }

    /// The walk of a job that begins on the CPU at place `here`, over memory of its own.
    pub(super) fn set_on(
        &self,
        state: &mut MachineState,
        here: usize,
        set: &WorkingSet,
        draw: &mut Draw,
    ) -> Result<Walker, MachineError> {
        let node = match set.node {
            Some(number) => state.frames.node(number).map_err(|error| no_frames(&error))?,
            None => state.node_of(here),
        };
        let colours = self.colours[0].as_ref();
        if colours.is_some() && set.page != Page::Base {
            return Err(MachineError::NotPossible {
                what: format!("a working set of {} on huge pages of some colours", set.wss),
                why: "a huge page has every colour".to_owned(),
                remedy: "take base pages (`--page 4k`), or leave the job's colours out".to_owned(),
            });
        }
        let lines = state.frames.place(set.wss, set.page, node, colours);
        let lines = lines.map_err(|error| no_frames(&error))?;
        let of_page = state.frames.lines_of(set.page);
        Ok(Walker::of_set(set, lines, of_page, draw))
    }

    /// The walk of somebody who is not the job.
    pub(super) fn polluter_on(
        &self,
        state: &mut MachineState,
        cpu: usize,
        polluter: &Polluter,
        draw: &mut Draw,
    ) -> Result<Walker, MachineError> {
        let (lines, of_page) = self.memory_of_others(state, cpu, polluter.wss, Page::Base)?;
        Ok(Walker::of_polluter(polluter, lines, of_page, draw).pausing(self.pause))
    }
}

/// Some jobs that run one after the other, in one of so many sets.
struct Chunk {
    every: u32,
    jobs: Vec<usize>,
}

/// An empty machine, shared out.
fn machine_state(
    platform: &Platform,
    partitioning: &Partitioning,
    every: u32,
    seed: u64,
) -> Result<MachineState, MachineError> {
    let state = MachineState::new(platform, every, seed);
    let mut state = state.map_err(|error| not_possible(platform, &error))?;
    state.frames.set_contiguous(partitioning.placement == Placement::Contiguous);
    state.share(&partitioning.job.ways, &partitioning.others.ways);
    Ok(state)
}

/// The results of `run` for each number, in order, computed on all cores.
#[cfg(feature = "parallel")]
pub(super) fn side_by_side<T: Send>(
    numbers: std::ops::Range<usize>,
    run: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    use rayon::prelude::*;
    numbers.into_par_iter().map(run).collect()
}

/// The number that is computed at a time.
#[cfg(feature = "parallel")]
pub(super) fn threads() -> usize {
    rayon::current_num_threads()
}

/// The number that is computed at a time.
#[cfg(not(feature = "parallel"))]
pub(super) const fn threads() -> usize {
    1
}

/// The results of `run` for each number, in order.
#[cfg(not(feature = "parallel"))]
pub(super) fn side_by_side<T>(numbers: std::ops::Range<usize>, run: impl Fn(usize) -> T) -> Vec<T> {
    numbers.map(run).collect()
}

/// Lets the load run until it has made so many visits, or for [`LONGEST_WARM_UP`].
fn warm_up(state: &mut MachineState, visits: u64) {
    const STEP: Picos = 1_000_000_000;
    while state.visits() < visits && state.now() < LONGEST_WARM_UP {
        state.warm_up(STEP);
    }
    state.learn(LEARNED_IN);
}

fn not_possible(platform: &Platform, error: &SpecError) -> MachineError {
    MachineError::NotPossible {
        what: format!("simulating {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    }
}

/// Whether all of these working sets are touched by jobs of corehop.
pub(super) fn no_programs<'a>(
    sets: impl IntoIterator<Item = &'a WorkingSet>,
) -> Result<(), MachineError> {
    match sets.into_iter().find_map(|set| set.workload.as_ref()) {
        None => Ok(()),
        Some(job) => Err(MachineError::NotPossible {
            what: format!("the user's own job {job}"),
            why: "a simulated machine runs no programs of the host's".to_owned(),
            remedy: "measure live".to_owned(),
        }),
    }
}

fn only_live(what: &str) -> MachineError {
    MachineError::NotPossible {
        what: what.to_owned(),
        why: "a simulated machine has no kernel and runs no programs".to_owned(),
        remedy: "use --on live".to_owned(),
    }
}

impl Machine for SimMachine {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        plan.check(&self.platform)?;
        match &plan.body {
            Body::Jobs(jobs) => self.run_jobs(jobs, plan.seed, sink),
            Body::Tasks(tasks) => self.run_tasks(tasks, plan.seed, sink),
            Body::Gangs(gangs) => self.run_gangs(gangs, plan.seed, sink),
            Body::Program(_) => Err(only_live("recording a program")),
            Body::Overheads(_) => Err(only_live("measuring a kernel's overheads")),
        }
    }

    fn provenance(&self) -> Map<String, Value> {
        let mut map = Map::from_iter([
            ("kind".to_owned(), json!("simulated")),
            ("jobs".to_owned(), json!(self.sum.jobs)),
        ]);
        if self.sampled {
            map.insert("sampled_sets".to_owned(), json!(true));
        }
        if !self.partitioning.is_usual() {
            map.insert("arrangement".to_owned(), json!(self.partitioning));
        }
        if !self.platform.tlbs.is_empty() && self.sum.picos > 0 {
            let Sum { picos, walks, finding, .. } = self.sum;
            let share = finding as f64 / picos.max(1) as f64;
            map.insert("translation".to_owned(), json!({ "walks": walks, "share": share }));
        }
        map
    }
}
