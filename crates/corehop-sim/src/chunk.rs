// SPDX-License-Identifier: MIT OR Apache-2.0
//! Some jobs of a plan, run one after the other on a simulated machine of their own.

use std::collections::BTreeMap;

use corehop_plan::experiment::{Absent, Condition, DrawStream, Job, Jobs, Step};
use corehop_plan::machine::MachineError;
use corehop_plan::samples::{Certificate, JobRecord, Leave, Touch};
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::{Absence, Event, LineState, Load, Page, Polluter, WorkingSet};

use super::machine_state::{MachineState, PassCounts};
use super::recipe::{Recipe, no_frames};
use super::stays::User;
use super::steady::SteadyPasses;
use super::system_data::{SystemData, footprints};
use super::tags::LineNumber;
use super::times::Picos;
use super::walker::Walker;

/// The summed results of jobs and of their timed touches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) jobs: u64,
    /// The total duration of the timed touches.
    pub(super) picos: Picos,
    /// The number of page-table walks during the touches.
    pub(super) walks: u64,
    /// The part of the touches' duration that address translation took.
    pub(super) finding: Picos,
}

impl Sum {
    /// Adds the touch times and walks of another chunk.
    pub(super) fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.picos += other.picos;
        self.walks += other.walks;
        self.finding += other.finding;
    }
}

/// The golden ratio minus one: the fractional parts of its multiples are spread over the unit interval as evenly as
/// possible.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// The state of a chunk: some jobs that run on a machine of their own.
pub(super) struct ChunkRun<'a> {
    recipe: &'a Recipe,
    plan: &'a Jobs,
    seed: u64,
    phase: usize,
    /// See [`super::jobs::turns`].
    turns: &'a [u32],
    state: MachineState,
    draw: DrawStream,
    sets: BTreeMap<usize, Walker>,
    /// The preemptors' walkers, by CPU and by preemptor number in the plan.
    preemptors: BTreeMap<(usize, usize), Walker>,
    /// The time at which each preemptor last ran.
    preempted: BTreeMap<(usize, usize), Picos>,
    system: SystemData,
    eviction: Option<Vec<LineNumber>>,
    /// The passes of the current job since the last event that was not a pass.
    steady: SteadyPasses,
    /// The random stream that the records state if the plan has no replicates.
    stream: u64,
    sum: Sum,
}

/// A user of memory with its own frames and order of visits.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Set(usize),
    FreshSet(usize),
    Preemptor(usize, usize),
    System(usize),
    Eviction,
}

impl Owner {
    /// The random streams of the owner's frames and of the owner's order, separate from the streams of chunks. The
    /// system's data for a thread use the streams of the threads.
    const fn streams(self, drawn: Condition) -> (u64, u64) {
        let (kind, number, frames, order) = match self {
            Self::Set(number) => (1, number, drawn.frames, drawn.order),
            Self::FreshSet(job) => (2, job, drawn.frames, drawn.order),
            Self::Preemptor(cpu, which) => (3, cpu | which << 16, drawn.others, drawn.others),
            Self::System(cpu) => (4, cpu, drawn.threads, drawn.threads),
            Self::Eviction => (5, 0, drawn.others, drawn.others),
        };
        let common = 1 << 63 | kind << 32 | number as u64;
        (common | (frames as u64) << 35, common | (order as u64) << 35)
    }
}

impl<'a> ChunkRun<'a> {
    pub(super) fn new(
        recipe: &'a Recipe,
        (plan, seed): (&'a Jobs, u64),
        (phase, turns): (usize, &'a [u32]),
        chunk: usize,
        base: &MachineState,
    ) -> Self {
        let stream = (phase as u64 + 1) << 32 | chunk as u64;
        let mut state = base.clone();
        state.redraw(seed, stream);
        let draw = DrawStream::new(seed, stream);
        Self {
            recipe,
            plan,
            seed,
            phase,
            turns,
            state,
            draw,
            sets: BTreeMap::new(),
            preemptors: BTreeMap::new(),
            preempted: BTreeMap::new(),
            system: SystemData::default(),
            eviction: None,
            steady: SteadyPasses::default(),
            stream,
            sum: Sum::default(),
        }
    }

    /// Draws later frames and orders from the streams of `owner`; all chunks of a replicate use the same streams.
    fn draw_for(&mut self, owner: Owner) {
        if let Some(drawn) = self.plan.phases[self.phase].draws() {
            let (frames, order) = owner.streams(drawn);
            self.state.frames.redraw(self.seed, frames);
            self.draw = DrawStream::new(self.seed, order);
        }
    }

    /// The random stream for the evictions by other users of the host while a job is away; each job has its own
    /// stream.
    fn draw_of_others(&self, job: usize) -> DrawStream {
        let replicate =
            self.plan.phases[self.phase].replicate.map_or(0, |number| u64::from(number) + 1);
        DrawStream::new(
            self.seed,
            3 << 62 | replicate << 40 | (self.phase as u64) << 32 | job as u64,
        )
    }

    /// The quantile of the loss that a job suffers while away. The golden ratio spreads the quantiles of a cell's
    /// jobs evenly (an additive recurrence), from a start that belongs to the cell, so that the median of few
    /// samples is near the median of many samples.
    fn quantile(&self, job: usize) -> f64 {
        let Some(&turn) = self.turns.get(job) else { return 0.5 };
        let cell = self.plan.phases[self.phase].jobs[job].cell as u64;
        let from = DrawStream::new(self.seed, 3 << 62 | 1 << 61 | cell).unit();
        (from + f64::from(turn) * GOLDEN).fract()
    }

    /// Runs the jobs. If the run has to end early, the function discards the incomplete record.
    pub(super) fn run(mut self, jobs: &[usize]) -> Result<Done, MachineError> {
        let mut records = Vec::with_capacity(jobs.len());
        let mut sum = self.sum;
        for &job in jobs {
            if self.state.is_over() {
                break;
            }
            let record = self.job(job)?;
            if self.state.is_cut() {
                break;
            }
            records.push(record);
            sum = self.sum;
        }
        Ok(Done { records, sum, is_cut: self.state.is_cut() })
    }

    fn job(&mut self, number: usize) -> Result<JobRecord, MachineError> {
        let job: &Job = &self.plan.phases[self.phase].jobs[number];
        let set_number = self.plan.cells[job.cell].set;
        let set = &self.plan.sets[set_number];
        let mut here = self.recipe.place(job.start);
        let mut memory = match self.sets.remove(&set_number) {
            Some(memory) if !set.fresh_frames => memory,
            _ => {
                let fresh = set.fresh_frames;
                self.draw_for(if fresh { Owner::FreshSet(number) } else { Owner::Set(set_number) });
                self.recipe.set_on(&mut self.state, here, set, &mut self.draw)?
            }
        };
        let mut record = JobRecord {
            phase: self.phase,
            job: number,
            draw: Some(self.stream),
            exchange: None,
            llc_share: None,
            start_ns: self.state.now() / 1_000,
            policy: "simulated".to_owned(),
            huge_share: if set.page == Page::Base { 0.0 } else { 1.0 },
            touches: Vec::new(),
            leaves: Vec::new(),
        };
        self.state.begin_on(here);
        self.steady.forget();
        let mut others = self.draw_of_others(number);
        for step in &job.steps {
            match step {
                Step::Prepare(state) => self.prepare(*state, here, &mut memory)?,
                Step::Passes(passes) => {
                    for _ in 0..*passes {
                        self.state.walk_on(here, &mut memory, &mut self.steady);
                        if self.state.is_over() {
                            break;
                        }
                    }
                }
                Step::Touch => {
                    let pass = self.state.walk_on(here, &mut memory, &mut self.steady);
                    let PassCounts { picos, walks, finding, .. } = pass;
                    self.sum.add(Sum { jobs: 0, picos, walks, finding });
                    record.touches.push(touch(self.cpu(here), set, pass));
                }
                Step::Leave(away) => {
                    self.steady.forget();
                    record.leaves.push(self.leave(job, *away, here, &memory, &mut others)?);
                    let away_for = away.length.get() * 1_000;
                    let share = self.recipe.lost(set.wss, away_for, self.quantile(number));
                    self.state.lose(memory.memory(), share, &mut others);
                    here = self.recipe.place(away.to);
                    self.state.take_cpu(here);
                }
            }
        }
        self.sum.jobs += 1;
        // The job's lines in the caches hinder others no more than those of a new set would.
        self.sets.insert(set_number, memory);
        Ok(record)
    }

    fn cpu(&self, place: usize) -> Cpu {
        self.recipe.platform.cpus.value.iter().nth(place).unwrap_or_default()
    }

    fn prepare(
        &mut self,
        state: LineState,
        here: usize,
        walker: &mut Walker,
    ) -> Result<(), MachineError> {
        match state {
            LineState::Invalid => {
                self.steady.forget();
                self.state.flush(walker.memory());
            }
            LineState::Valid => self.state.settle(here, walker, &mut self.steady),
            LineState::Modified => {
                self.steady.forget();
                self.state.flush(walker.memory());
                self.fill_with_modified(here)?;
            }
        }
        Ok(())
    }

    /// Fills the caches with modified lines of other data, one and a half times as many as the last level holds.
    fn fill_with_modified(&mut self, here: usize) -> Result<(), MachineError> {
        let llc = self.recipe.platform.llc_size().map_or(16 << 20, Bytes::get);
        let wss = Bytes::new((llc * 3 / 2).next_multiple_of(4_096));
        let polluter =
            Polluter { wss, pattern: corehop_plan::workload::Pattern::Scan, write_ratio: 1.0 };
        let lines = if let Some(lines) = self.eviction.take() {
            lines
        } else {
            let node = self.state.node_of(here);
            self.draw_for(Owner::Eviction);
            let lines = self.state.frames.place(wss, Page::Base, node, None);
            lines.map_err(|error| no_frames(&error))?
        };
        let of_page = self.state.frames.lines_of(Page::Base);
        let mut walker = Walker::of_polluter(&polluter, lines.clone(), of_page, &mut self.draw);
        self.state.walk(here, &mut walker);
        self.eviction = Some(lines);
        Ok(())
    }

    fn touch_system(&mut self, cpu: usize, footprint: Option<Bytes>) -> Result<(), MachineError> {
        self.draw_for(Owner::System(cpu));
        self.system.touch(self.recipe, &mut self.state, &mut self.draw, cpu, footprint)
    }

    /// Advances time by the length of an absence, during which another actor has the CPU.
    fn leave(
        &mut self,
        job: &Job,
        away: Absent,
        here: usize,
        walker: &Walker,
        others: &mut DrawStream,
    ) -> Result<Leave, MachineError> {
        let preempts = away.to_whom == Absence::Preemptor;
        let preemptor = self.plan.preemptor_of(job).filter(|_| preempts);
        let which = preemptor.and_then(|_| self.plan.which_preemptor(job)).unwrap_or_default();
        if let Some(polluter) = preemptor {
            let walker = if let Some(walker) = self.preemptors.remove(&(here, which)) {
                walker
            } else {
                self.draw_for(Owner::Preemptor(here, which));
                self.recipe.polluter_on(&mut self.state, here, polluter, &mut self.draw)?
            };
            // It was off the CPU too, since it ran last.
            let away = self.state.now()
                - self.preempted.insert((here, which), self.state.now()).unwrap_or(0);
            let share = self.recipe.lost(polluter.wss, away, others.unit());
            self.state.lose(walker.memory(), share, others);
            self.state.preempt(here, walker);
        }
        let before = self.state.visits();
        let to = self.recipe.place(away.to);
        let [left, resumed] = footprints(&self.recipe.platform);
        // A CPU that no other thread gets keeps the translations of the last one.
        let is_switched = self.plan.cells[job.cell].event != Event::IdleLeave;
        if is_switched {
            self.state.switch(here, User::Others);
        }
        if to != here {
            self.touch_system(here, left)?;
        }
        self.state.pass_time(away.length.get() * 1_000, walker.memory());
        if is_switched {
            self.state.switch(to, User::Job);
        }
        self.touch_system(to, resumed)?;
        let visits = self.state.visits() - before;
        let ran = preemptor.and_then(|_| self.state.end_preemption(here));
        let lines = ran.map(|(walker, lines)| {
            self.preemptors.insert((here, which), walker);
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
            load_bytes: self.moved_by_load(job, away, visits - lines.unwrap_or(0)),
            switches: None,
        })
    }

    /// The bytes that the load moved during an absence in `visits` visits to lines; None unless the load had the
    /// CPU or ran beside a preemptor.
    fn moved_by_load(&self, job: &Job, away: Absent, visits: u64) -> Option<u64> {
        let has_load = match away.to_whom {
            Absence::Load => true,
            Absence::Preemptor => self.plan.cells[job.cell].load != Load::Idle,
            Absence::Nothing => false,
        };
        has_load.then(|| visits * self.recipe.platform.line_size().get())
    }
}

/// The results of a chunk.
pub(super) struct Done {
    pub(super) records: Vec<JobRecord>,
    pub(super) sum: Sum,
    /// Whether the run had to end before the last job.
    pub(super) is_cut: bool,
}

/// The record of an undisturbed pass.
pub(super) fn touch(cpu: Cpu, set: &WorkingSet, pass: PassCounts) -> Touch {
    Touch {
        cpu,
        ended_on: cpu,
        cpu_taken: false,
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
