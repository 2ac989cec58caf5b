// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live machine, which runs plans on threads of this host.
//!
//! A coordinator (the calling thread) hands a batch of jobs to the measured thread, waits, and passes the records on.
//! While a batch runs, corehop runs only the activities of the plan, and while records are written, no job runs. With
//! the mover `handover`, a measured thread is parked on every CPU, and the job's state is handed from one thread to
//! the next. Otherwise a single thread changes its own affinity.

mod calibrate;
mod crew;
mod distance;
mod evict;
mod gangs;
mod host;
mod last_level;
mod load;
pub(crate) mod offsets;
mod polluter;
mod program;
mod program_costs;
mod renewal;
mod runner;
mod seat;
mod running;
mod set;
mod supply;
mod switches;
mod tasks;
mod touched;
mod unseen;
mod counters;

use std::sync::Arc;
use std::time::{Duration, Instant};

use corehop_plan::experiment::{
    Body, Condition, DrawStream, Job, Jobs, Overheads, Phase, Plan, Step, Tasks,
};
use corehop_plan::machine::{Machine, MachineError, RunEnd, Sink};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Batch, JobRecord, OverheadFacts};
use corehop_plan::units::{Bytes, CpuList};
use corehop_plan::workload::{LineState, Load, WorkingSet};
use serde_json::{Map, Value, json};

use crate::bpf::events::Events;
use crate::memory::MemoryError;
use crate::overheads::overheads;
use crate::preflight;
use crate::set_memory::SetMemory;
use corehop_system::clock::TickClock;
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::{Guard, all_leftovers, refuse_leftovers};

pub use switches::impossible_mechanisms;

use calibrate::TickCalibration;
use counters::HostCounters;
use crew::Crew;
use distance::{CpuPair, PairExchanges, Partners};
use evict::Eviction;
use last_level::LastLevelProbe;
use load::{Classification, LoadEnvironment, LoadFacts, Probe, RunningLoad};
use offsets::Offsets;
use renewal::{Renewal, memory_of, order_of, seed_of};
use runner::{PhaseSetup, Runner, WallTimeUse};
use running::{Running, park_preemptors, preempts};
use set::SetState;
use unseen::InterruptBaseline;

/// The intended duration of a batch of jobs; the distance of its CPUs is measured before and after the batch.
const BATCH: Duration = Duration::from_millis(100);

/// The options of the live machine that are not part of the plan.
#[derive(Debug, Clone, Default)]
pub struct LiveMachineOptions {
    /// The reason why the measured thread must not be real-time; `None` if it may be.
    pub no_real_time: Option<String>,
    /// Whether settings that affect the whole machine may be changed for some seconds.
    pub allow_system: bool,
    /// Whether the output of a recorded program goes to stderr, because stdout is reserved for the answer.
    pub output_to_stderr: bool,
}

/// This host as a machine that runs plans.
#[derive(Debug)]
pub struct LiveMachine {
    platform: Platform,
    options: LiveMachineOptions,
    clock: TickClock,
    started: Instant,
    /// The working sets kept from run to run, because many blocks use the same sets.
    sets: Vec<(WorkingSet, SetState)>,
    /// The random choices with which the next phase continues.
    draws: Option<Condition>,
    /// The threads that continue from one phase to the next if both phases keep them.
    running: Running,
    last_level: Option<LastLevelProbe>,
    renewal: Renewal,
    partners: Option<Partners>,
    eviction: Option<Eviction>,
    offsets: Option<(CpuList, Offsets)>,
    counters: Arc<HostCounters>,
    unseen: InterruptBaseline,
    calibrations: Vec<(Load, TickCalibration)>,
    loads: Vec<LoadFacts>,
    /// Reverts the changes that a load makes to the system; the guard's helper starts only at the first change.
    guard: Guard,
    /// The changes that a crashed run has left on the system, and the remedy.
    left_behind: Option<String>,
    /// The pages by which threads of task sets notice absences; `None` until requested.
    pages: Option<tasks::ControlPagesResult>,
    /// The recorder of events, from the start of a task set on.
    pub(crate) events: Option<Arc<Events>>,
    facts: Map<String, Value>,
    tally: WallTimeUse,
}

impl LiveMachine {
    /// Creates a machine for the host described by `platform`, which `discover` created.
    pub fn new(platform: Platform, options: LiveMachineOptions) -> Self {
        let findings = preflight::doctor(&SysRoot::live(), &platform);
        Self {
            counters: Arc::new(HostCounters::default()),
            unseen: InterruptBaseline::since_now(&platform.usable()),
            platform,
            options,
            clock: TickClock::calibrate(Duration::from_millis(20)),
            started: Instant::now(),
            sets: Vec::new(),
            draws: None,
            running: Running::default(),
            last_level: None,
            renewal: Renewal::default(),
            partners: None,
            eviction: None,
            offsets: None,
            calibrations: Vec::new(),
            loads: Vec::new(),
            guard: Guard::new(),
            left_behind: refuse_leftovers(&all_leftovers()).err().map(|error| error.to_string()),
            pages: None,
            events: None,
            facts: Map::from_iter([
                ("findings".to_owned(), json!(findings)),
                ("host".to_owned(), host::describe()),
            ]),
            tally: WallTimeUse::default(),
        }
    }

    /// Checks whether the measured thread may try the policy FIFO on this host; the error is the reason why not.
    fn real_time(&self) -> Result<(), String> {
        if let Some(why) = &self.options.no_real_time {
            return Err(why.clone());
        }
        match self.platform.usable().len() {
            0 | 1 => Err("corehop uses SCHED_FIFO only if two or more CPUs are usable".to_owned()),
            _ => Ok(()),
        }
    }

    /// Opens the counters when they are first needed. The counters are not opened earlier, because their BPF programs
    /// cost time at each interrupt and switch.
    fn open_counters(&mut self) {
        if !self.counters.is_open() {
            self.counters = Arc::new(HostCounters::open(&self.platform));
        }
    }

    /// The states of the plan's working sets, in the plan's order: states of an earlier run for identical sets,
    /// otherwise new states.
    fn prepare_sets(&mut self, plan: &Jobs, seed: u64) -> Result<Vec<SetState>, MachineError> {
        let mut kept = std::mem::take(&mut self.sets);
        let mut prepare = |(index, set): (usize, &WorkingSet)| {
            if let Some(at) = kept.iter().position(|(known, _)| known == set) {
                return Ok(kept.swap_remove(at).1);
            }
            let memory = SetMemory::new(set, &mut DrawStream::new(seed, 100 + index as u64));
            SetState::new(set, memory.map_err(|error| not_possible(&error))?, seed).map_err(|why| MachineError::NotPossible {
                what: format!("the user's own job {}", set.workload.as_deref().unwrap_or_default()),
                why,
                remedy: "the function needs the form `void f(void *memory, size_t bytes, uint64_t pass)`; see examples/own-job".to_owned(),
            })
        };
        plan.sets.iter().enumerate().map(&mut prepare).collect()
    }

    /// Renews the random choices that a process makes when it starts, as far as the phase requests.
    fn begin_replicate(
        &mut self,
        plan: &Jobs,
        seed: u64,
        phase: &Phase,
        sets: &mut [SetState],
    ) -> Result<(), MachineError> {
        let Some(draws) = phase.draws() else { return Ok(()) };
        let before = self.draws.replace(draws);
        let renews = |of: fn(&Condition) -> u32| before.is_none_or(|it| of(&it) != of(&draws));
        let [frames, order] = [draws.frames, draws.order].map(|it| seed_of(seed, Some(it)));
        if renews(|it| it.frames) {
            let preemptors = plan.preemptors().iter().map(|polluter| polluter.wss.get()).sum();
            let preemptors = Bytes::new(preemptors);
            let given_back = memory_of(&phase.load, preemptors, self.platform.usable().len());
            self.renewal.begin(sets, &plan.sets, [frames, order], given_back)?;
        } else if renews(|it| it.order) {
            for (index, (state, set)) in sets.iter_mut().zip(&plan.sets).enumerate() {
                state.reorder(set, &mut order_of(index, order))?;
            }
        }
        if renews(|it| it.others) && self.eviction.is_some() {
            let fresh = Eviction::new(&self.platform).map_err(|error| not_possible(&error))?;
            // The one before is given back after the new one has its frames.
            self.eviction = Some(fresh);
        }
        Ok(())
    }

    /// Prepares the buffer that fills caches with modified lines, if the plan has touches that need it.
    fn prepare_eviction(&mut self, plan: &Jobs) -> Result<(), MachineError> {
        let steps = plan.phases.iter().flat_map(|phase| &phase.jobs).flat_map(|job| &job.steps);
        let wanted = steps.into_iter().any(|step| *step == Step::Prepare(LineState::Modified));
        if wanted && self.eviction.is_none() {
            let eviction = Eviction::new(&self.platform).map_err(|error| not_possible(&error))?;
            self.facts.insert("eviction_buffer".to_owned(), eviction.describe());
            self.eviction = Some(eviction);
        }
        Ok(())
    }

    fn run_phase(
        &mut self,
        (plan, seed): (&Jobs, u64),
        at: usize,
        mut sets: Vec<SetState>,
        sink: &mut dyn Sink,
    ) -> Result<(RunEnd, Vec<SetState>), MachineError> {
        let phase = &plan.phases[at];
        let cpus = cpus_of(phase);
        self.running.end_what_is_renewed(phase, self.draws);
        self.begin_replicate(plan, seed, phase, &mut sets)?;
        let seed = seed_of(seed, phase.draws().map(|draws| draws.others));
        let load = match self.running.load.take() {
            Some((_, load)) => load,
            None => self.start_load((&phase.load, preempts(phase)), &cpus, seed)?,
        };
        let kept = std::mem::take(&mut self.running.preemptors);
        let preemptors = park_preemptors(plan, phase, seed, kept)?;
        self.park_partners()?;
        let offsets = self.offsets(&cpus)?;
        let llc_share = self.probe_last_level(phase, &cpus)?;
        let runner = Box::new(Runner::new(PhaseSetup {
            plan: plan.clone(),
            phase: at,
            clock: self.clock,
            started: self.started,
            sets,
            preemptors,
            load,
            offsets,
            calibration: self.calibration(&phase.load),
            eviction: self.eviction.take(),
            counters: self.counters.clone(),
            llc_share,
            stop: sink.stop(),
        }));
        let crew =
            match self.running.crew.take().filter(|(of, _)| *of == (plan.mover, cpus.clone())) {
                Some((_, crew)) => crew,
                None => Crew::start(plan.mover, &cpus, &self.real_time())
                    .map_err(|error| failed("starting the measured thread", error))?,
            };
        let (runner, outcome) = self.run_batches(runner, &crew, phase, sink)?;
        self.note(&phase.load, &crew, &runner);
        let PhaseSetup { sets, eviction, mut load, preemptors, .. } = runner.into_setup();
        self.note_load(&phase.load, load.progress());
        self.eviction = eviction;
        if phase.condition.is_some() {
            self.running = Running {
                load: Some((phase.load.clone(), load)),
                preemptors,
                crew: Some(((plan.mover, cpus), crew)),
            };
        }
        outcome.map(|outcome| (outcome, sets))
    }

    /// Measures the available share of the last cache level before a phase that states what it renews.
    fn probe_last_level(
        &mut self,
        phase: &Phase,
        cpus: &CpuList,
    ) -> Result<Option<f64>, MachineError> {
        let (Some(_), Some(cpu)) = (phase.condition, cpus.first()) else { return Ok(None) };
        if self.last_level.is_none() {
            let probe = LastLevelProbe::new(&self.platform, self.clock);
            self.last_level = probe.map_err(|error| not_possible(&error))?;
        }
        let kept = self.last_level.as_mut().and_then(|probe| probe.probe(cpu));
        if let Some(kept) = kept {
            self.facts.insert(
                "last_level".to_owned(),
                json!({"line_ns": kept.near_ns, "memory_line_ns": kept.far_ns}),
            );
        }
        Ok(kept.map(|kept| kept.share))
    }

    /// Starts the background load of a phase. A new load is classified by its effect on a probe on the first of
    /// `cpus`.
    fn start_load(
        &mut self,
        (load, is_preempted): (&Load, bool),
        cpus: &CpuList,
        seed: u64,
    ) -> Result<RunningLoad, MachineError> {
        let (platform, clock) = (&self.platform, self.clock);
        let new = *load != Load::Idle && self.loads.iter().all(|known| known.load != *load);
        let probe = cpus.first().filter(|_| new).map(|cpu| Probe::new(platform, cpu, clock));
        let alone = probe.map(|probe| (probe, probe.read()));
        let host = LoadEnvironment { platform, clock, guard: &self.guard, is_preempted };
        let running = RunningLoad::start(load, host, seed)?;
        if let Some((probe, alone)) = alone {
            let classification = Classification::of(platform, probe, alone, || running.bytes());
            let progress = load::LoadProgress::default();
            self.loads.push(LoadFacts { load: load.clone(), classification, progress });
        }
        Ok(running)
    }

    /// The offsets between the CPUs' clocks, measured once unless other CPUs are used.
    fn offsets(&mut self, cpus: &CpuList) -> Result<Offsets, MachineError> {
        if let Some((_, offsets)) = self.offsets.as_ref().filter(|(of, _)| of == cpus) {
            return Ok(offsets.clone());
        }
        let measured = Offsets::measure(cpus, &self.clock);
        let offsets = measured.map_err(|error| failed("comparing the CPUs' clocks", error))?;
        self.facts.insert("clock_offsets".to_owned(), offsets.describe());
        self.offsets = Some((cpus.clone(), offsets.clone()));
        Ok(offsets)
    }

    /// The calibration of an earlier block under the same load.
    fn calibration(&self, load: &Load) -> Option<TickCalibration> {
        self.calibrations.iter().find(|(of, _)| of == load).map(|&(_, calibration)| calibration)
    }

    /// Starts the threads that measure the distance of CPUs, if there is more than one CPU.
    fn park_partners(&mut self) -> Result<(), MachineError> {
        let usable = self.platform.usable();
        if self.partners.is_none() && usable.len() > 1 {
            let parked = Partners::park(&usable, self.clock, self.real_time().is_ok());
            self.partners =
                Some(parked.map_err(|error| failed("starting the process of exchanges", error))?);
        }
        Ok(())
    }

    /// The line exchange times of these pairs; empty if there is only one CPU.
    fn exchanges(&self, pairs: &[CpuPair]) -> PairExchanges {
        self.partners.as_ref().map_or_else(PairExchanges::default, |it| it.all(pairs))
    }

    fn run_batches(
        &self,
        mut runner: Box<Runner>,
        crew: &Crew,
        phase: &Phase,
        sink: &mut dyn Sink,
    ) -> Result<(Box<Runner>, Result<RunEnd, MachineError>), MachineError> {
        let mut next = 0;
        let usable = self.platform.usable();
        let (mut measured, mut before) = (Vec::new(), PairExchanges::default());
        while next < phase.jobs.len() {
            let end = batch_end(&phase.jobs, next, &runner);
            let pairs = distance::pairs(&phase.jobs[next..end], &usable);
            if pairs != measured {
                (before, measured) = (self.exchanges(&pairs), pairs);
            }
            runner.order(next..end);
            runner = crew.run(runner, phase.jobs[next].start)?;
            let after = self.exchanges(&measured);
            let mut records = runner.take_records();
            for record in &mut records {
                record.exchange = PairExchanges::around(&before, &after, &phase.jobs[record.job]);
            }
            before = after;
            match hand_in(&mut runner, &records, sink) {
                Ok(RunEnd::Complete) => next = end,
                ended => return Ok((runner, ended)),
            }
        }
        Ok((runner, Ok(RunEnd::Complete)))
    }

    /// Stores what the provenance says about a phase.
    fn note(&mut self, load: &Load, crew: &Crew, runner: &Runner) {
        if let Some(calibration) = runner.setup.calibration {
            self.calibrations.retain(|(of, _)| of != load);
            self.calibrations.push((load.clone(), calibration));
        }
        self.tally.add(runner.tally());
        let policy = crew.policy();
        self.facts.insert(
            "policy".to_owned(),
            json!({"best": policy.0.to_string(), "why_no_better": policy.1}),
        );
        self.facts.insert("calibration".to_owned(), runner.describe_calibration());
    }

    /// Stores what a load did during a phase.
    fn note_load(&mut self, load: &Load, progress: load::LoadProgress) {
        if let Some(known) = self.loads.iter_mut().find(|known| known.load == *load) {
            known.progress.add(progress);
            self.facts
                .insert("load".to_owned(), self.loads.iter().map(LoadFacts::describe).collect());
        }
    }
}

impl Machine for LiveMachine {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        plan.check(&self.platform)?;
        if let Some(why) = &self.left_behind {
            return Err(MachineError::Refused(why.clone()));
        }
        if let Some(trace) = plan.body.working_sets().iter().find_map(|set| set.trace.as_ref()) {
            return Err(MachineError::NotPossible {
                what: format!("the trace {}", trace.name),
                why: "on this host, the list of addresses would pass through the measured caches"
                    .to_owned(),
                remedy: "name a simulated machine, for example `--on xeon_x5650`".to_owned(),
            });
        }
        let ended = match &plan.body {
            Body::Jobs(jobs) => self.run_phases(jobs, plan.seed, sink),
            Body::Tasks(tasks) => self.run_tasks(tasks, plan.seed, sink),
            Body::Gangs(gangs) => self.run_gangs(gangs, plan.seed, sink),
            Body::Switches(switches) => self.run_switches(switches, sink),
            Body::Supply(watch) => self.run_supply(watch, sink),
            Body::Program(program) => self.record(program, sink),
            Body::ProgramCosts(costs) => self.cause_events(costs, plan.seed, sink),
            Body::Overheads(overheads) => self.measure_overheads(overheads, plan.seed, sink),
        };
        // No thread outlives a run, however it ends, but what the next plan may go on with.
        self.partners = None;
        if ended.is_err() {
            self.running = Running::default();
        }
        ended
    }

    fn provenance(&self) -> Map<String, Value> {
        self.describe()
    }
}

impl LiveMachine {
    fn measure_overheads(
        &mut self,
        plan: &Overheads,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let stop = sink.stop();
        let mut take = |records: &[_]| sink.take(Batch::Overheads(records));
        let mut run = |tasks: &Tasks, events: &Arc<Events>, sink: &mut dyn Sink| {
            self.events = Some(events.clone());
            let ran = self.run_tasks(tasks, seed, sink);
            self.events = None;
            ran
        };
        let (facts, end) = overheads(plan, &mut run, (&mut take, &stop))?;
        self.facts.insert(OverheadFacts::KEY.to_owned(), json!(facts));
        Ok(end)
    }

    fn run_phases(
        &mut self,
        plan: &Jobs,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        self.open_counters();
        let mut sets = self.prepare_sets(plan, seed)?;
        self.prepare_eviction(plan)?;
        let stop = sink.stop();
        for at in 0..plan.phases.len() {
            if stop.is_asked() {
                return Ok(RunEnd::Stopped);
            }
            let (outcome, back) = self.run_phase((plan, seed), at, sets, sink)?;
            sets = back;
            if outcome == RunEnd::Stopped {
                return Ok(outcome);
            }
        }
        self.sets = plan.sets.iter().cloned().zip(sets).collect();
        Ok(RunEnd::Complete)
    }

    /// The machine's description of itself and of its runs so far.
    fn describe(&self) -> Map<String, Value> {
        let mut facts = self.facts.clone();
        facts.insert("kind".to_owned(), json!("live"));
        facts.insert("renewal".to_owned(), self.renewal.describe());
        if self.platform.usable().len() < 2 {
            facts.insert("no_exchange".to_owned(), json!("only one CPU is usable"));
        }
        facts.insert("tsc_hz".to_owned(), json!(self.clock.hertz()));
        facts.insert("tsc_relative_error".to_owned(), json!(self.clock.error));
        facts.insert("counters".to_owned(), self.counters.describe());
        facts.insert("unseen_interrupts".to_owned(), self.unseen.describe());
        facts.insert("wall".to_owned(), self.tally.describe(self.started.elapsed()));
        facts
    }
}

fn cpus_of(phase: &Phase) -> CpuList {
    let to = |step: &Step| if let Step::Leave(away) = step { Some(away.to) } else { None };
    CpuList::new(
        phase.jobs.iter().flat_map(|job| job.steps.iter().filter_map(to).chain([job.start])),
    )
}

/// Passes the records of a batch to the sink, and returns whether the phase continues.
fn hand_in(
    runner: &mut Runner,
    records: &[JobRecord],
    sink: &mut dyn Sink,
) -> Result<RunEnd, MachineError> {
    let goes_on = sink.take(Batch::Jobs(records)).map_err(MachineError::Sink)?;
    if let Some(error) = runner.take_error() {
        return Err(error);
    }
    runner.load().check()?;
    Ok(if goes_on { RunEnd::Complete } else { RunEnd::Stopped })
}

/// The end of the batch that starts with job `first`, after about [`BATCH`] of expected time.
fn batch_end(jobs: &[Job], first: usize, runner: &Runner) -> usize {
    let mut expected = 0.0;
    let fits = |job: &&Job| {
        expected += runner.expected_ns(job);
        expected < BATCH.as_nanos() as f64
    };
    first + jobs[first..].iter().take_while(fits).count().max(1)
}

fn not_possible(error: &MemoryError) -> MachineError {
    MachineError::NotPossible {
        what: "this plan".to_owned(),
        why: error.to_string(),
        remedy: "see `corehop doctor`".to_owned(),
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> MachineError {
    MachineError::Failed { what: what.to_owned(), why: error.to_string() }
}
