// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run executes blocks of plans on a machine until there are enough samples, and writes the samples immediately.

mod outputs;
mod view;
mod provenance;
mod tally;
mod tasks;

pub use provenance::utc_now;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use corehop_decide::run_cost::ChargedRecording;
use corehop_plan::experiment::{Experiment, Plan, RunPosition, SamplingUnit, share};
use corehop_plan::machine::{Machine, MachineError, RunEnd, Sink, SinkError};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Batch, Projector, Provenance, RowCounter, RowObservation, Rows};
use corehop_plan::shown;
use corehop_plan::stop::Stop;
use corehop_plan::units::Nanos;
use corehop_stats::campaign::class_quota::ClassQuota;
use corehop_stats::campaign::sampling::{Campaign, Goal, SamplingRound};
use corehop_stats::classes::{as_declared, switches_as_declared};
use corehop_system::supervisor::interrupt;
use serde_json::json;

use crate::answer::Answer;
use crate::charge::RecordingCharge;
use crate::failure::{Exit, Failure};
use crate::words::counted;
use outputs::{Outputs, RunFiles};
use tally::RunTally;
pub use view::{Opens, RunView, silent};

pub use outputs::stream_of;
pub use tally::of_arms;

/// The share of each CPU that real-time tasks may use on this host.
pub const LIVE_SHARE: f64 = 0.5;

/// The destination of a run's rows.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Rows go to this file; a resumed run continues the rows of an interrupted run. Further kinds of rows go to
    /// separate files beside this file.
    File {
        /// The path of the file.
        path: PathBuf,
        /// Whether to continue an interrupted run.
        resume: bool,
        /// Whether to replace an existing file.
        force: bool,
    },
    /// Rows go to stdout as an Arrow stream: the rows of this kind, or of the plan's first kind.
    Stdout(Option<String>),
}

/// For this many requested replicates, one more replicate may be added in order to reach all classes.
const FURTHER: u32 = 5;

/// The options of a run that do not belong to the experiment.
#[derive(Debug)]
pub struct RunOptions {
    /// The destination of the rows; `None` if only the answer matters.
    pub destination: Option<Destination>,
    /// The folder for the temporary rows of a run without an output file, where they are read again after the run.
    pub spool: Option<PathBuf>,
    /// The number of samples that suffice.
    pub goal: Goal,
    /// The number of replicates in a run of jobs.
    pub replicates: u32,
    /// The time that the run may take.
    pub budget: Option<Duration>,
    /// Creates the view of the run in progress.
    pub view: Opens,
    /// The costs with which the events of a recorded program are charged.
    pub charge: Option<RecordingCharge>,
}

/// The number of replicates in a run that describes a host or validates its description.
const OF_A_HOST: u32 = 20;

impl RunOptions {
    /// Returns the options of a live run that describes this host or validates its description.
    pub fn of_host(path: PathBuf, resume: bool, force: impl Into<bool>, view: Opens) -> Self {
        Self {
            destination: Some(Destination::File { path, resume, force: force.into() }),
            spool: None,
            goal: Goal::Count,
            replicates: OF_A_HOST,
            budget: None,
            view,
            charge: None,
        }
    }
}

/// A run in progress.
struct Underway {
    outputs: Outputs,
    counter: RowCounter,
    campaign: Campaign,
    classes: ClassQuota,
    view: Box<dyn RunView>,
    deadline: Option<Instant>,
    /// The number of rows that count: jobs, or runs of gangs.
    taken: u64,
    valid: u64,
    /// The results so far other than rows, by the kind of the plan.
    tally: RunTally,
}

/// The result of a run that has ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// Whether the run was completed.
    pub exit: Exit,
    /// The written files, in the order of the kinds of rows.
    pub files: Vec<PathBuf>,
    /// The rows of the first kind, if they were requested without an output file.
    pub spool: Option<File>,
    /// The provenance of the rows.
    pub provenance: Provenance,
    /// The results that corehop computed from the rows.
    pub tally: RunTally,
    /// The cost of a recorded program's events, if the run was charged.
    pub charged: Option<ChargedRecording>,
    taken: u64,
    valid: u64,
}

/// Passes the rows of one plan to the files.
struct PlanRows<'a> {
    underway: &'a mut Underway,
    projector: Projector<'a>,
}

impl Sink for PlanRows<'_> {
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
        let rows = self.projector.rows(batch);
        self.underway.outputs.append(&rows)?;
        self.underway.note(&rows);
        self.underway.view.show(&self.underway.campaign);
        Ok(self.underway.stopped_by().is_none())
    }

    fn stop(&self) -> Stop {
        let deadline = self.underway.deadline;
        Stop::when(move || stopped_by(deadline).is_some())
    }
}

/// The reason why a run with that deadline ends early, if it does.
fn stopped_by(deadline: Option<Instant>) -> Option<&'static str> {
    if interrupt::requested() {
        return Some("interrupt");
    }
    deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some("budget")
}

impl Underway {
    fn note(&mut self, rows: &Rows) {
        for observation in self.counter.take(rows) {
            self.note_one(observation);
        }
        self.tally.take(rows);
        if self.tally.of_jobs() {
            // The schedule decides about the samples of task sets: no class has a quota of them.
            rows.samples.iter().for_each(|sample| self.classes.take(sample));
        }
        rows.switches.iter().for_each(|batch| self.classes.take_switches(batch));
    }

    fn note_one(&mut self, observation: RowObservation) {
        self.campaign.note(observation);
        self.taken += 1;
        self.valid += u64::from(observation.valid);
    }

    /// The number of jobs so far, from which the next block's jobs are numbered.
    fn jobs(&self) -> u64 {
        self.tally.jobs().unwrap_or(self.taken)
    }

    /// The reason why the run ends early, if it does.
    fn stopped_by(&self) -> Option<&'static str> {
        stopped_by(self.deadline)
    }

    /// Reduces the share of each replicate so that all replicates fit into the budget, as far as the projected time
    /// is accurate.
    fn keep_to(&mut self, budget: Option<Duration>, projected: Nanos) {
        if let Some(budget) = budget {
            let share = budget.as_nanos() as f64 / projected.get().max(1) as f64;
            self.campaign = self.campaign.clone().paced(share);
        }
    }

    fn run_block(
        &mut self,
        machine: &mut dyn Machine,
        plan: &Plan,
    ) -> Result<RunEnd, MachineError> {
        self.tally.begin(plan);
        let platform = machine.platform().clone();
        let projector = Projector::new(plan, &platform, self.jobs());
        let outcome = machine.run(plan, &mut PlanRows { underway: self, projector })?;
        if outcome == RunEnd::Complete
            && let Some(last) = self.counter.complete()
        {
            self.note_one(last);
        }
        Ok(outcome)
    }
}

impl Underway {
    /// Converts the streams to files, and gives each sample its class.
    fn keep(
        mut self,
        machine: &dyn Machine,
        provenance: &mut Provenance,
    ) -> Result<(RunFiles, RunTally), Failure> {
        let classes = self.classes.classes();
        if classes.batches > 0 {
            provenance.machine.insert("distance".to_owned(), json!(classes));
        }
        let (platform, of_jobs) = (machine.platform(), self.tally.of_jobs());
        self.tally.classify(&classes, platform);
        let assign = |rows: &mut Rows| {
            let samples = rows.samples.iter_mut().filter(|_| of_jobs);
            samples.for_each(|sample| classes.assign(platform, sample));
            rows.switches.iter_mut().for_each(|it| classes.assign_switches(platform, it));
        };
        Ok((self.outputs.end(provenance, assign)?, self.tally))
    }
}

impl RunOptions {
    /// Runs an experiment, and returns the answer.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::carry_out`] and [`Self::answer`].
    pub fn experiment(
        &self,
        machine: &mut dyn Machine,
        experiment: &dyn Experiment,
        seed: u64,
    ) -> Result<Answer, Failure> {
        self.answer(&self.carry_out(machine, experiment, seed)?)
    }

    /// Runs an experiment block by block until its goal is reached.
    ///
    /// # Errors
    /// Fails with the errors of the experiment, of the machine and of the output files.
    pub fn carry_out(
        &self,
        machine: &mut dyn Machine,
        experiment: &dyn Experiment,
        seed: u64,
    ) -> Result<RunOutcome, Failure> {
        let units = experiment.units(machine.platform(), seed)?;
        let asked: Vec<u32> = units.iter().map(|unit| unit.asked).collect();
        let nothing = vec![0; asked.len()];
        let first = experiment.block(machine.platform(), seed, RunPosition::default(), &nothing)?;
        let mut provenance = provenance::begin(machine, &first);
        provenance.parameters = experiment.parameters();
        let mut underway = self.begin(machine.platform(), &provenance, &first, &units)?;
        if experiment.replicates() != Some(1) {
            underway.keep_to(self.budget, SamplingUnit::projected(&units));
        }
        let mut run = || -> Result<(), Failure> {
            let mut further = 0..self.replicates.div_ceil(FURTHER);
            for block in 0.. {
                let next = underway.campaign.next_round();
                let next = next.or_else(|| further.next().and(self.for_classes(&underway, &asked)));
                let Some(round) = next else { break };
                if underway.stopped_by().is_some() {
                    break;
                }
                // Blocks of a resumed run draw other numbers than those it has had.
                let turn = RunPosition {
                    block: block + underway.jobs(),
                    replicate: Some(round.replicate),
                };
                let plan = experiment.block(machine.platform(), seed, turn, &round.quota)?;
                underway.view.block(&underway.campaign, &round.quota);
                provenance.note_plan(&plan);
                underway.run_block(machine, &plan)?;
            }
            Ok(())
        };
        let ended = run();
        self.end(underway, ended, machine, provenance)
    }

    /// One more replicate for the cells that lack samples of a class which the machine has shown.
    fn for_classes(&self, underway: &Underway, asked: &[u32]) -> Option<SamplingRound> {
        if self.goal != Goal::Count {
            return None;
        }
        let lacking = underway.classes.lacking(asked);
        let usual = |(lacks, &asked): (u32, &u32)| lacks.min(share(asked, 1, self.replicates));
        let quota: Vec<u32> = lacking.into_iter().zip(asked).map(usual).collect();
        let replicate = underway.campaign.begun();
        quota.iter().any(|&more| more > 0).then_some(SamplingRound { replicate, quota })
    }

    /// Runs a given plan, or resumes it where it was interrupted.
    ///
    /// # Errors
    /// Fails with the errors of the machine, of the output files and of [`Self::answer`].
    pub fn plan(&self, machine: &mut dyn Machine, plan: &Plan) -> Result<Answer, Failure> {
        let mut provenance = provenance::begin(machine, plan);
        provenance.parameters = json!({"plan": plan.digest()});
        provenance.note_plan(plan);
        let mut underway = self.begin(machine.platform(), &provenance, plan, &plan.units())?;
        let rest = plan.rest(underway.taken, underway.jobs());
        let ended = match rest.check_not_empty() {
            Ok(()) => underway.run_block(machine, &rest).map(|_| ()).map_err(Failure::from),
            // All of it has run.
            Err(_) => Ok(()),
        };
        self.answer(&self.end(underway, ended, machine, provenance)?)
    }

    fn begin(
        &self,
        platform: &Platform,
        provenance: &Provenance,
        plan: &Plan,
        units: &[SamplingUnit],
    ) -> Result<Underway, Failure> {
        interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
        let (to, spool) = (self.destination.as_ref(), self.spool.as_deref());
        let (outputs, mut earlier) = Outputs::begin(to, spool, plan.kinds(), provenance)?;
        earlier.samples.iter_mut().for_each(as_declared);
        earlier.switches.iter_mut().for_each(switches_as_declared);
        let asked: Vec<u32> = units.iter().map(|unit| unit.asked).collect();
        let deadline = self.budget.map(|budget| Instant::now() + budget);
        let mut underway = Underway {
            outputs,
            counter: RowCounter::new(plan, units.len()),
            campaign: Campaign::new(&asked, self.replicates, self.goal),
            classes: ClassQuota::new(platform.clone()),
            view: (self.view)(units, deadline),
            deadline,
            taken: 0,
            valid: 0,
            tally: RunTally::of(plan),
        };
        underway.note(&earlier);
        underway.counter.cut_off();
        underway.view.begin(&underway.campaign);
        Ok(underway)
    }

    /// Converts the streams to files, reports what is missing, and decides the exit code.
    fn end(
        &self,
        mut underway: Underway,
        ended: Result<(), Failure>,
        machine: &dyn Machine,
        mut provenance: Provenance,
    ) -> Result<RunOutcome, Failure> {
        let stopped_by = underway.stopped_by();
        underway.view.end(&underway.campaign, stopped_by);
        if let Some(line) = underway.tally.line() {
            underway.view.say(&line);
        }
        provenance.cells_lacking_samples = underway.campaign.lacking() as u64;
        provenance.stopped_by = match (&ended, stopped_by) {
            (Err(_), _) => Some("failure".to_owned()),
            (Ok(()), why) => why.map(str::to_owned),
        };
        provenance.machine.extend(machine.provenance());
        if let Err(failure) = ended {
            if underway.jobs() == 0 {
                // Nothing was measured: there is nothing to keep.
                underway.outputs.discard();
            } else {
                // If this fails too, the streams keep every row, and the first failure is the cause.
                let _kept = underway.keep(machine, &mut provenance);
            }
            return Err(failure);
        }
        underway.tally.end(&provenance);
        // What was recorded is kept, also where its cost cannot be told.
        let charged = self.charge(&underway.tally, &mut provenance);
        let interrupted = stopped_by == Some("interrupt");
        let exit = if interrupted { Exit::Interrupted } else { Exit::Done };
        let (taken, valid) = (underway.taken, underway.valid);
        let (RunFiles { files, spool }, tally) = underway.keep(machine, &mut provenance)?;
        let charged = charged?;
        Ok(RunOutcome { exit, files, spool, provenance, tally, charged, taken, valid })
    }

    /// The cost of a recorded program's events, which is stored in the file.
    fn charge(
        &self,
        tally: &RunTally,
        provenance: &mut Provenance,
    ) -> Result<Option<ChargedRecording>, Failure> {
        let Some(charge) = &self.charge else { return Ok(None) };
        let (recording, platform) = tally.recording(provenance)?;
        let charged = charge.of_recording(recording, &platform)?;
        provenance.machine.insert(ChargedRecording::FACT.to_owned(), json!(charged));
        Ok(Some(charged))
    }

    /// Returns the answer of a run.
    ///
    /// # Errors
    /// Fails with exit code 6 if the results cannot be computed.
    pub fn answer(&self, ended: &RunOutcome) -> Result<Answer, Failure> {
        let mut json = json!({
            "file": ended.files.first().map(|it| shown::value(it)),
            "samples": ended.taken,
            "valid": ended.valid,
            "stopped_by": ended.provenance.stopped_by,
            "cells_lacking_samples": ended.provenance.cells_lacking_samples,
        });
        ended.tally.answer(&mut json, ended)?;
        let unknown = ended.exit == Exit::Done && ended.tally.is_unknown();
        Ok(Answer {
            sentence: self.sentence(ended),
            json,
            text: ended.tally.text(ended)?.unwrap_or_default(),
            exit: if unknown { Exit::No } else { ended.exit },
        })
    }

    /// Names the output file, the number of valid rows, and the next command.
    fn sentence(&self, ended: &RunOutcome) -> String {
        let (taken, noun) = (ended.taken, ended.tally.noun());
        let lacking = match ended.provenance.cells_lacking_samples {
            0 => String::new(),
            1 => "; 1 cell lacks samples".to_owned(),
            several => format!("; {several} cells lack samples"),
        };
        let rows = format!("{} ({} valid{lacking})", counted(taken, noun), ended.valid);
        match (ended.files.first(), &self.destination) {
            (Some(file), _) => {
                let file = shown::path(file);
                let resumed = match ended.exit {
                    Exit::Interrupted => ", and the same command with --resume continues",
                    _ => "",
                };
                format!("{file} has {rows}: `corehop report {file}` shows them{resumed}.")
            }
            (None, Some(_)) => format!("{rows} went to stdout."),
            (None, None) => format!("{rows} were measured; -o FILE.parquet saves the rows."),
        }
    }
}
