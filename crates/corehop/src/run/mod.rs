// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run: blocks of plans on a machine until there are enough samples, written as they are made.

mod gangs;
mod output;
mod progress;
mod provenance;
mod tasks;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corehop_core::decision::class_quota::ClassQuota;
use corehop_core::decision::sampling::{Campaign, Goal, Round};
use corehop_core::experiment::{Experiment, Plan, Turn, share};
use corehop_core::machine::{Machine, MachineError, Outcome, Sink, SinkError};
use corehop_core::model::classes::as_declared;
use corehop_core::platform::Platform;
use corehop_core::samples::{
    AccessTime, JobRecord, Observation, PreemptionLength, Project, Provenance, Row, RunContext,
    Sample,
};
use corehop_core::units::Nanos;
use corehop_linux::supervisor::interrupt;
use serde_json::json;

use crate::answer::print;
use crate::exit::{Exit, Failure};
use output::Output;
use progress::Progress;

pub(crate) use progress::rough;
pub(crate) use tasks::TaskRunner;

/// A row type that a machine's records become.
pub(crate) trait Target: Row + Project + 'static {
    /// The row as a sample, where it is one: its class is told from the whole run.
    fn as_sample(&self) -> Option<&Sample> {
        None
    }
    /// The same, to be changed.
    fn as_sample_mut(&mut self) -> Option<&mut Sample> {
        None
    }
}
impl Target for Sample {
    fn as_sample(&self) -> Option<&Sample> {
        Some(self)
    }
    fn as_sample_mut(&mut self) -> Option<&mut Sample> {
        Some(self)
    }
}
impl Target for AccessTime {}
impl Target for PreemptionLength {}

/// Where the rows go.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// To this file, going on with what an interrupted run left of it, if asked to.
    File { path: PathBuf, resume: bool },
    /// As an Arrow stream to stdout.
    Stdout,
}

/// Of the replicates asked for, one in so many may be added for the sake of classes.
const FURTHER: u32 = 5;

/// What a run is to do, apart from the experiment.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) destination: Destination,
    pub(crate) goal: Goal,
    /// How many replicates a run of jobs consists of.
    pub(crate) replicates: u32,
    pub(crate) budget: Option<Duration>,
    pub(crate) quiet: bool,
    pub(crate) json: bool,
}

/// A run under way.
struct Underway<R: Target> {
    output: Output<R>,
    campaign: Campaign,
    classes: ClassQuota,
    progress: Progress,
    deadline: Option<Instant>,
    jobs: u64,
    valid: u64,
}

/// The rows of one plan on their way to the file.
struct Block<'a, R: Target> {
    underway: &'a mut Underway<R>,
    context: RunContext,
    plan: &'a Plan,
}

impl<R: Target> Sink for Block<'_, R> {
    fn take(&mut self, records: &[JobRecord]) -> Result<(), SinkError> {
        let project = |record| R::project(&self.context, self.plan, record);
        let rows: Vec<R> = records.iter().filter_map(project).collect();
        self.underway.output.append(&rows)?;
        for row in &rows {
            self.underway.note(row);
        }
        self.underway.progress.show(&self.underway.campaign);
        Ok(())
    }

    fn enough(&self) -> bool {
        self.underway.stopped_by().is_some()
    }
}

impl<R: Target> Underway<R> {
    fn note(&mut self, row: &R) {
        let observation = row.observation();
        self.campaign.note(observation);
        if let Some(sample) = row.as_sample() {
            self.classes.take(sample);
        }
        self.jobs += 1;
        self.valid += u64::from(observation.valid);
    }

    /// What ends the run early, if anything does.
    fn stopped_by(&self) -> Option<&'static str> {
        if interrupt::requested() {
            return Some("interrupt");
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some("budget")
    }

    /// Takes so small a share in each replicate that all of them fit into the budget, as far as the
    /// projected time of the whole is to be believed.
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
    ) -> Result<Outcome, MachineError> {
        let context = RunContext::new(plan, machine.platform(), self.jobs);
        machine.run(plan, &mut Block { underway: self, context, plan })
    }
}

impl Run {
    /// Takes the samples of an experiment, block by block, until its goal is reached.
    pub(crate) fn experiment<R: Target>(
        &self,
        machine: &mut dyn Machine,
        experiment: &dyn Experiment,
        seed: u64,
    ) -> Result<Exit, Failure> {
        let asked: Vec<u32> =
            experiment.cells(machine.platform())?.iter().map(|&(_, samples)| samples).collect();
        let nothing = vec![0; asked.len()];
        let first = experiment.block(machine.platform(), seed, Turn::default(), &nothing)?;
        let mut provenance = provenance::begin(machine, &first);
        provenance.parameters = experiment.parameters();
        let mut underway = self.begin::<R>(machine.platform(), &provenance, &first, &asked)?;
        underway.keep_to(self.budget, experiment.projected(machine.platform())?);
        let mut run = || -> Result<(), Failure> {
            let mut further = 0..self.replicates.div_ceil(FURTHER);
            for block in 0.. {
                let next = underway.campaign.next();
                let next = next.or_else(|| further.next().and(self.for_classes(&underway, &asked)));
                let Some(round) = next else { break };
                if underway.stopped_by().is_some() {
                    break;
                }
                // Blocks of a resumed run draw other numbers than those it has had.
                let turn = Turn { block: block + underway.jobs, replicate: Some(round.replicate) };
                let plan = experiment.block(machine.platform(), seed, turn, &round.quota)?;
                underway.progress.block(&underway.campaign, &round.quota);
                provenance.note_plan(&plan);
                underway.run_block(machine, &plan)?;
            }
            Ok(())
        };
        let ended = run();
        self.end(underway, ended, machine, provenance)
    }

    /// One more replicate for the cells that lack samples of a class which the machine has shown.
    fn for_classes<R: Target>(&self, underway: &Underway<R>, asked: &[u32]) -> Option<Round> {
        if self.goal != Goal::Count {
            return None;
        }
        let lacking = underway.classes.lacking(asked);
        let usual = |(lacks, &asked): (u32, &u32)| lacks.min(share(asked, 1, self.replicates));
        let quota: Vec<u32> = lacking.into_iter().zip(asked).map(usual).collect();
        let replicate = underway.campaign.begun();
        quota.iter().any(|&more| more > 0).then_some(Round { replicate, quota })
    }

    /// Runs a plan as it stands.
    pub(crate) fn plan<R: Target>(
        &self,
        machine: &mut dyn Machine,
        plan: &Plan,
    ) -> Result<Exit, Failure> {
        let mut provenance = provenance::begin(machine, plan);
        provenance.note_plan(plan);
        let mut asked = vec![0; plan.cells.len()];
        plan.phases.iter().flat_map(|phase| &phase.jobs).for_each(|job| asked[job.cell] += 1);
        let mut underway = self.begin::<R>(machine.platform(), &provenance, plan, &asked)?;
        let ended = underway.run_block(machine, plan).map(|_| ()).map_err(Failure::from);
        self.end(underway, ended, machine, provenance)
    }

    fn begin<R: Target>(
        &self,
        platform: &Platform,
        provenance: &Provenance,
        plan: &Plan,
        asked: &[u32],
    ) -> Result<Underway<R>, Failure> {
        interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
        let (output, mut earlier) = Output::begin(&self.destination, provenance)?;
        earlier.iter_mut().filter_map(R::as_sample_mut).for_each(as_declared);
        let mut campaign = Campaign::new(asked, self.replicates, self.goal);
        let observations: Vec<Observation> = earlier.iter().map(Project::observation).collect();
        for &observation in &observations {
            campaign.note(observation);
        }
        let valid = observations.iter().filter(|observation| observation.valid).count() as u64;
        let mut classes = ClassQuota::new(platform.clone());
        earlier.iter().filter_map(R::as_sample).for_each(|sample| classes.take(sample));
        let deadline = self.budget.map(|budget| Instant::now() + budget);
        let progress = Progress::new(self.quiet, plan, &campaign, deadline);
        let jobs = observations.len() as u64;
        Ok(Underway { output, campaign, classes, progress, deadline, jobs, valid })
    }

    /// Turns the stream into the file, says what is missing, and decides the exit code.
    fn end<R: Target>(
        &self,
        underway: Underway<R>,
        ended: Result<(), Failure>,
        machine: &dyn Machine,
        mut provenance: Provenance,
    ) -> Result<Exit, Failure> {
        let stopped_by = underway.stopped_by();
        underway.progress.end(&underway.campaign, stopped_by);
        provenance.cells_lacking_samples = underway.campaign.lacking() as u64;
        provenance.stopped_by = match (&ended, stopped_by) {
            (Err(_), _) => Some("failure".to_owned()),
            (Ok(()), why) => why.map(str::to_owned),
        };
        provenance.machine.extend(machine.provenance());
        if ended.is_err() && underway.jobs == 0 {
            // Nothing was measured: there is nothing to keep.
            underway.output.discard();
            return ended.map(|()| Exit::Done);
        }
        let campaign = underway.campaign;
        let classes = underway.classes.classes();
        if classes.batches > 0 {
            provenance.machine.insert("distance".to_owned(), json!(classes));
        }
        let platform = machine.platform();
        let assign = |row: &mut R| {
            if let Some(sample) = row.as_sample_mut() {
                classes.assign(platform, sample);
            }
        };
        let written = underway.output.end_with(&provenance, assign);
        ended?;
        let written = written?;
        if self.json {
            let lacking = campaign.lacking();
            answer(written.as_deref(), underway.jobs, underway.valid, stopped_by, lacking)?;
        }
        Ok(if stopped_by == Some("interrupt") { Exit::Interrupted } else { Exit::Done })
    }
}

/// The one machine-readable answer.
fn answer(
    file: Option<&Path>,
    samples: u64,
    valid: u64,
    stopped_by: Option<&str>,
    lacking: usize,
) -> Result<(), Failure> {
    let answer = json!({
        "file": file,
        "samples": samples,
        "valid": valid,
        "stopped_by": stopped_by,
        "cells_lacking_samples": lacking,
    });
    print(&format!("{answer}\n"))
}
