// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine behind the seam: carries out plans as the live one does.
//!
//! Jobs run in chunks of [`CHUNK`], each from a snapshot of the machine under the phase's load and
//! with frames of its own: what a chunk does depends on the plan and the seed alone, so that chunks
//! may run side by side, and any number of threads gives the same records.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::experiment::{Absent, Draw, Job, Plan, Step};
use crate::machine::{Machine, MachineError, Outcome, Sink};
use crate::platform::Platform;
use crate::samples::{Certificate, JobRecord, Leave, Touch};
use crate::units::{Bytes, Cpu, CpuList};
use crate::workload::{Absence, LineState, Load, Page, Polluter, WorkingSet};

use super::frames::FramesError;
use super::spec::SpecError;
use super::stage::{Pass, Stage};
use super::tags::Line;
use super::times::Picos;
use super::walker::Walker;

/// The jobs that run one after the other from one snapshot.
const CHUNK: usize = 16;
/// The chunks that are handed over together: enough for the cores of a large host.
const AT_A_TIME: usize = 64;
/// The snapshots of a loaded phase, with other frames each.
const SNAPSHOTS: usize = 4;
/// How often polluters go through their memory before a snapshot of a loaded phase is taken.
const LAPS: u64 = 2;
/// The longest that a machine runs under its load before the snapshot, in picoseconds: 100 ms.
const LONGEST_WARM_UP: Picos = 100_000_000_000;

/// A machine in software, as its platform file describes it.
#[derive(Debug)]
pub struct SimMachine {
    platform: Platform,
    empty: Stage,
    jobs: u64,
}

impl SimMachine {
    /// The machine of `platform`.
    ///
    /// # Errors
    /// [`MachineError::NotPossible`] names the fact that its file lacks or that cannot be simulated.
    pub fn new(platform: Platform) -> Result<Self, MachineError> {
        let empty = Stage::new(&platform, 0).map_err(|error| not_possible(&platform, &error))?;
        Ok(Self { platform, empty, jobs: 0 })
    }

    /// The place of a CPU among all of the platform's.
    fn place(&self, cpu: Cpu) -> usize {
        self.platform.cpus.value.iter().position(|other| other == cpu).unwrap_or(0)
    }

    /// The machine with the load of a phase running, at rest.
    fn under(&self, load: &Load, seed: u64, snapshot: usize) -> Result<Stage, MachineError> {
        let (polluter, cpus) = match load {
            Load::Idle => return Ok(self.empty.clone()),
            Load::Constructed { polluter, cpus } => (polluter, cpus),
            other => {
                return Err(MachineError::NotPossible {
                    what: format!("the load `{}`", other.word()),
                    why: "a simulated machine runs no programs of the host's".to_owned(),
                    remedy: "take `--load constructed`, or measure live".to_owned(),
                });
            }
        };
        let stream = 1_000 + snapshot as u64;
        let mut stage = Stage::new(&self.platform, seed ^ stream)
            .map_err(|error| not_possible(&self.platform, &error))?;
        let mut draw = Draw::new(seed, stream);
        let everywhere = self.platform.usable();
        let cpus: &CpuList = if cpus.is_empty() { &everywhere } else { cpus };
        for cpu in cpus.iter() {
            let cpu = self.place(cpu);
            let mut walker = polluter_on(&mut stage, cpu, polluter, &mut draw)?;
            walker.start_anywhere(&mut draw);
            stage.add_actor(cpu, walker);
        }
        let lines = polluter.wss.get() / self.platform.line_size().get();
        warm_up(&mut stage, lines * LAPS * cpus.len() as u64);
        Ok(stage)
    }
}

/// The results of `run` for each number, in order, computed on all cores.
#[cfg(feature = "parallel")]
fn side_by_side<T: Send>(
    numbers: std::ops::Range<usize>,
    run: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    use rayon::prelude::*;
    numbers.into_par_iter().map(run).collect()
}

/// The results of `run` for each number, in order.
#[cfg(not(feature = "parallel"))]
fn side_by_side<T>(numbers: std::ops::Range<usize>, run: impl Fn(usize) -> T) -> Vec<T> {
    numbers.map(run).collect()
}

/// Lets the load run until it has made so many visits, or for [`LONGEST_WARM_UP`].
fn warm_up(stage: &mut Stage, visits: u64) {
    const STEP: Picos = 1_000_000_000;
    while stage.visits() < visits && stage.now() < LONGEST_WARM_UP {
        stage.warm_up(STEP);
    }
}

fn polluter_on(
    stage: &mut Stage,
    cpu: usize,
    polluter: &Polluter,
    draw: &mut Draw,
) -> Result<Walker, MachineError> {
    let node = stage.node_of(cpu);
    let lines = stage.frames.place(polluter.wss, Page::Base, node, None);
    Ok(Walker::of_polluter(polluter, lines.map_err(|error| no_frames(&error))?, draw))
}

fn not_possible(platform: &Platform, error: &SpecError) -> MachineError {
    MachineError::NotPossible {
        what: format!("simulating {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    }
}

fn no_frames(error: &FramesError) -> MachineError {
    MachineError::NotPossible {
        what: "this plan".to_owned(),
        why: error.to_string(),
        remedy: "see the platform file".to_owned(),
    }
}

/// A working set in the frames of a chunk.
#[derive(Debug)]
struct SetInFrames {
    walker: Walker,
}

/// Some jobs on their way through a machine of their own.
struct ChunkRun<'a> {
    machine: &'a SimMachine,
    plan: &'a Plan,
    phase: usize,
    stage: Stage,
    draw: Draw,
    sets: BTreeMap<usize, SetInFrames>,
    preemptors: BTreeMap<usize, Walker>,
    /// The operating system's data and code, by CPU.
    kernels: BTreeMap<usize, Walker>,
    eviction: Option<Vec<Line>>,
}

impl<'a> ChunkRun<'a> {
    fn new(
        machine: &'a SimMachine,
        plan: &'a Plan,
        phase: usize,
        chunk: usize,
        base: &Stage,
    ) -> Self {
        let stream = (phase as u64 + 1) << 32 | chunk as u64;
        let mut stage = base.clone();
        stage.frames.redraw(plan.seed, stream);
        let draw = Draw::new(plan.seed, stream);
        Self {
            machine,
            plan,
            phase,
            stage,
            draw,
            sets: BTreeMap::new(),
            preemptors: BTreeMap::new(),
            kernels: BTreeMap::new(),
            eviction: None,
        }
    }

    fn run(mut self, jobs: std::ops::Range<usize>) -> Result<Vec<JobRecord>, MachineError> {
        jobs.map(|job| self.job(job)).collect()
    }

    fn job(&mut self, number: usize) -> Result<JobRecord, MachineError> {
        let job: &Job = &self.plan.phases[self.phase].jobs[number];
        let set_number = self.plan.cells[job.cell].set;
        let set = &self.plan.sets[set_number];
        let mut here = self.machine.place(job.start);
        let mut memory = match self.sets.remove(&set_number) {
            Some(memory) if !set.fresh_frames => memory,
            _ => self.place_set(set, here)?,
        };
        let mut record = JobRecord {
            phase: self.phase,
            job: number,
            start_ns: self.stage.now() / 1_000,
            policy: "simulated".to_owned(),
            huge_share: if set.page == Page::Base { 0.0 } else { 1.0 },
            touches: Vec::new(),
            leaves: Vec::new(),
        };
        self.stage.take_cpu(here);
        for step in &job.steps {
            match step {
                Step::Prepare(state) => self.prepare(*state, here, &mut memory.walker)?,
                Step::Touch => {
                    let pass = self.stage.walk(here, &mut memory.walker);
                    record.touches.push(touch(self.cpu(here), set, pass));
                }
                Step::Leave(away) => {
                    record.leaves.push(self.leave(*away, here, &memory.walker)?);
                    here = self.machine.place(away.to);
                    self.stage.take_cpu(here);
                }
            }
        }
        // What the job leaves in the caches is in nobody's way that a new set would not be in.
        self.sets.insert(set_number, memory);
        Ok(record)
    }

    fn cpu(&self, place: usize) -> Cpu {
        self.machine.platform.cpus.value.iter().nth(place).unwrap_or_default()
    }

    fn place_set(&mut self, set: &WorkingSet, here: usize) -> Result<SetInFrames, MachineError> {
        let frames = &mut self.stage.frames;
        let node = match set.node {
            Some(number) => frames.node(number).map_err(|error| no_frames(&error))?,
            None => self.stage.node_of(here),
        };
        let lines = self.stage.frames.place(set.wss, set.page, node, None);
        let lines = lines.map_err(|error| no_frames(&error))?;
        Ok(SetInFrames { walker: Walker::of_set(set, lines, &mut self.draw) })
    }

    fn prepare(
        &mut self,
        state: LineState,
        here: usize,
        walker: &mut Walker,
    ) -> Result<(), MachineError> {
        match state {
            LineState::Invalid => self.stage.flush(walker.order()),
            LineState::Valid => self.stage.settle(here, walker),
            LineState::Modified => {
                self.stage.flush(walker.order());
                self.fill_with_modified(here)?;
            }
        }
        Ok(())
    }

    /// Fills the caches with modified lines of other data: one and a half times the last level.
    fn fill_with_modified(&mut self, here: usize) -> Result<(), MachineError> {
        let llc = self.machine.platform.llc_size().map_or(16 << 20, Bytes::get);
        let wss = Bytes::new((llc * 3 / 2).next_multiple_of(4_096));
        let polluter = Polluter { wss, pattern: crate::workload::Pattern::Scan, write_ratio: 1.0 };
        let lines = if let Some(lines) = self.eviction.take() {
            lines
        } else {
            let node = self.stage.node_of(here);
            let lines = self.stage.frames.place(wss, Page::Base, node, None);
            lines.map_err(|error| no_frames(&error))?
        };
        let mut walker = Walker::of_polluter(&polluter, lines.clone(), &mut self.draw);
        self.stage.walk(here, &mut walker);
        self.eviction = Some(lines);
        Ok(())
    }

    /// The operating system does its part of a switch on `cpu`, in the caches; its time is not the
    /// job's.
    fn switch_threads(&mut self, cpu: usize) -> Result<(), MachineError> {
        let footprint = self.machine.platform.core.switch_footprint.as_ref();
        let Some(footprint) = footprint.map(|fact| fact.value) else { return Ok(()) };
        let kernel = Polluter {
            wss: footprint,
            pattern: crate::workload::Pattern::Shuffled,
            write_ratio: 0.25,
        };
        let mut walker = match self.kernels.remove(&cpu) {
            Some(walker) => walker,
            None => polluter_on(&mut self.stage, cpu, &kernel, &mut self.draw)?,
        };
        self.stage.touch_untimed(cpu, &mut walker);
        self.kernels.insert(cpu, walker);
        Ok(())
    }

    /// Lets the time of an absence pass, with whoever then has the CPU.
    fn leave(&mut self, away: Absent, here: usize, walker: &Walker) -> Result<Leave, MachineError> {
        let preempts = away.to_whom == Absence::Preemptor;
        let preemptor = self.plan.preemptor.as_ref().filter(|_| preempts);
        if let Some(polluter) = preemptor {
            let walker = match self.preemptors.remove(&here) {
                Some(walker) => walker,
                None => polluter_on(&mut self.stage, here, polluter, &mut self.draw)?,
            };
            self.stage.add_actor(here, walker);
        }
        let before = self.stage.visits();
        let to = self.machine.place(away.to);
        self.switch_threads(here)?;
        self.stage.pass_time(away.length.get() * 1_000, walker.order());
        self.switch_threads(to)?;
        let moved = (self.stage.visits() - before) * self.machine.platform.line_size().get();
        let ran = preemptor.and_then(|_| self.stage.remove_actor(here));
        let lines = ran.map(|(walker, lines)| {
            self.preemptors.insert(here, walker);
            lines
        });
        Ok(Leave {
            from: self.cpu(here),
            to: away.to,
            requested_ns: away.length.get(),
            length_ns: away.length.get() as f64,
            bound_ns: 0.0,
            switch_ns: None,
            preemptor_lines: lines,
            load_bytes: (away.to_whom == Absence::Load).then_some(moved),
        })
    }
}

fn touch(cpu: Cpu, set: &WorkingSet, pass: Pass) -> Touch {
    Touch {
        cpu,
        ended_on: cpu,
        ns: pass.picos as f64 / 1e3,
        lines: set.lines(),
        lines_certified: set.lines(),
        uncertified_ns: 0.0,
        holes: 0,
        hole_ns: 0.0,
        aborts: 0,
        switches: 0,
        faults: 0,
        steal_ns: 0,
        interrupts: None,
        misses: Some(pass.misses),
        sibling_busy: None,
        spin_ns: 1.0,
        complete: true,
        certificate: Certificate::Simulated,
    }
}

impl Machine for SimMachine {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<Outcome, MachineError> {
        plan.check(&self.platform)?;
        if let Some(job) = plan.sets.iter().find_map(|set| set.workload.as_ref()) {
            return Err(MachineError::NotPossible {
                what: format!("the user's own job {job}"),
                why: "a simulated machine runs no programs of the host's".to_owned(),
                remedy: "measure live".to_owned(),
            });
        }
        for (number, phase) in plan.phases.iter().enumerate() {
            let chunks = phase.jobs.len().div_ceil(CHUNK);
            let wanted = if phase.load == Load::Idle { 1 } else { SNAPSHOTS.min(chunks) };
            let bases: Result<Vec<Stage>, MachineError> =
                (0..wanted).map(|at| self.under(&phase.load, plan.seed, at)).collect();
            let bases = bases?;
            let run_chunk = |chunk: usize| {
                let jobs = chunk * CHUNK..((chunk + 1) * CHUNK).min(phase.jobs.len());
                ChunkRun::new(self, plan, number, chunk, &bases[chunk % wanted]).run(jobs)
            };
            let mut done = 0;
            for first in (0..chunks).step_by(AT_A_TIME) {
                let some = first..(first + AT_A_TIME).min(chunks);
                for records in side_by_side(some, run_chunk) {
                    let records = records?;
                    done += records.len() as u64;
                    sink.take(&records).map_err(MachineError::Sink)?;
                }
                if sink.enough() {
                    self.jobs += done;
                    return Ok(Outcome::Stopped);
                }
            }
            self.jobs += done;
        }
        Ok(Outcome::Complete)
    }

    fn provenance(&self) -> Map<String, Value> {
        Map::from_iter([
            ("kind".to_owned(), json!("simulated")),
            ("jobs".to_owned(), json!(self.jobs)),
        ])
    }
}
