// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a run in addition to the counts of its cells, by the kind of its plan.

use std::collections::BTreeMap;

use corehop_decide::program_runs::{RunComparison, RunFigures, arms};
use corehop_decide::run_cost::{CostBounds, uncosted};
use corehop_plan::experiment::{Body, Overheads, Plan};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{
    OverheadFacts, Provenance, Recording, RecordingFacts, Rows, SwitchBatch,
};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_report::{
    observed, overheads as overhead_table, program_costs, program_runs, supply, switching,
};
use corehop_sched::supply::ObservedSupply;
use corehop_stats::classes::Classes;
use corehop_stats::overheads::{self, OverheadSummary};
use corehop_stats::program_costs::{CausedBlocks, ProgramCostResults};
use corehop_stats::switches::{SwitchSummary, Switchings, not_measured};
use serde_json::{Value, json};

use super::RunOutcome;
use super::tasks::{TaskTally, sentences};
use crate::failure::{Exit, Failure};

/// The results of a run so far.
#[derive(Debug)]
pub enum RunTally {
    /// The results of jobs on working sets, or of gangs, which the cells describe completely.
    Cells {
        /// Whether the samples belong to classes of CPU pairs.
        of_jobs: bool,
    },
    /// The results of task sets.
    Tasks(TaskTally),
    /// The results of a recorded program.
    Program(Box<Recording>),
    /// The batches of core switches, stored because their classes are decided at the end.
    Switches(Vec<SwitchBatch>),
    /// The results of observed CPUs.
    Supply(ObservedSupply),
    /// The results of a program in which events are caused.
    ProgramCosts(CausedBlocks),
    /// The overheads of a kernel.
    Overheads { times: overheads::OverheadCollector, rows: u64, plan: Box<Overheads> },
}

impl RunTally {
    /// An empty tally for plans of this kind.
    pub(super) fn of(plan: &Plan) -> Self {
        match &plan.body {
            Body::Jobs(_) => Self::Cells { of_jobs: true },
            Body::Gangs(_) => Self::Cells { of_jobs: false },
            Body::Tasks(_) => Self::Tasks(TaskTally::default()),
            Body::Program(_) => Self::Program(Box::default()),
            Body::Switches(_) => Self::Switches(Vec::new()),
            Body::Supply(_) => Self::Supply(ObservedSupply::default()),
            Body::ProgramCosts(_) => Self::ProgramCosts(CausedBlocks::default()),
            Body::Overheads(plan) => Self::Overheads {
                times: overheads::OverheadCollector::default(),
                rows: 0,
                plan: Box::new(plan.clone()),
            },
        }
    }

    /// Announces the next plan.
    pub(super) fn begin(&mut self, plan: &Plan) {
        if let (Self::Tasks(tally), Some(tasks)) = (self, plan.tasks()) {
            tally.begin(tasks);
        }
    }

    /// Adds the facts that the machine knows at the end of the run.
    pub(super) fn end(&mut self, provenance: &Provenance) {
        let facts = RecordingFacts::of(&provenance.machine);
        if let (Self::Program(recording), Some(facts)) = (&mut *self, facts) {
            recording.facts = facts;
        }
        if let Self::ProgramCosts(blocks) = self {
            blocks.begin(provenance);
        }
    }

    /// Assigns batches of core switches to classes.
    pub(super) fn classify(&mut self, classes: &Classes, platform: &Platform) {
        if let Self::Switches(batches) = self {
            for batch in batches {
                classes.assign_switches(platform, batch);
            }
        }
    }

    pub(super) fn take(&mut self, rows: &Rows) {
        match self {
            Self::Cells { .. } => {}
            Self::Switches(batches) => batches.extend_from_slice(&rows.switches),
            Self::Supply(observed) => observed.take(&rows.supply),
            Self::ProgramCosts(blocks) => blocks.take(&rows.program_costs),
            Self::Tasks(tally) => tally.take(rows),
            Self::Program(recording) => {
                recording.take_absences(&rows.absences);
                recording.take_threads(&rows.threads);
                recording.take_runs(&rows.runs);
            }
            Self::Overheads { times, rows: count, .. } => {
                *count += rows.overheads.len() as u64;
                times.take(&rows.overheads);
            }
        }
    }

    /// Whether nothing that was requested has an answer, because no mechanism of core switching could be measured.
    pub(super) fn is_unknown(&self) -> bool {
        let Self::Switches(batches) = self else { return false };
        let asked = |it: &&SwitchBatch| it.mechanism != SwitchMechanism::None;
        let mut asked = batches.iter().filter(asked).peekable();
        asked.peek().is_some() && asked.all(|it| it.not_measured.is_some())
    }

    /// The noun for the rows that count.
    pub(super) const fn noun(&self) -> &'static str {
        match self {
            Self::Cells { of_jobs: true } => "sample",
            Self::Switches(_) => "batch of switches",
            Self::Supply(_) => "window",
            Self::ProgramCosts(_) => "block",
            Self::Cells { of_jobs: false } | Self::Tasks(_) | Self::Program(_) => "run",
            Self::Overheads { .. } => "observation",
        }
    }

    /// Whether the rows are samples of jobs on working sets.
    pub(super) const fn of_jobs(&self) -> bool {
        matches!(self, Self::Cells { of_jobs: true })
    }

    /// The number of jobs so far, if it differs from the number of samples.
    pub(super) fn jobs(&self) -> Option<u64> {
        match self {
            Self::Tasks(tally) => Some(tally.jobs()),
            Self::Program(recording) => Some(recording.runs_begun()),
            Self::Overheads { rows, .. } => Some(*rows),
            Self::Cells { .. } | Self::Switches(_) | Self::Supply(_) | Self::ProgramCosts(_) => {
                None
            }
        }
    }

    /// A line for readers, printed at the end.
    pub(super) fn line(&self) -> Option<String> {
        if let Self::Tasks(tally) = self { Some(tally.line()) } else { None }
    }

    /// Adds the results to the machine-readable answer.
    pub(super) fn answer(&self, answer: &mut Value, ended: &RunOutcome) -> Result<(), Failure> {
        match self {
            Self::Cells { .. } => {}
            Self::Switches(it) => {
                extend(
                    answer,
                    json!({"switches": summaries(it), "not_measured": not_measured(it)}),
                );
            }
            Self::Supply(it) => extend(answer, json!({"supply": it.summaries()})),
            Self::ProgramCosts(it) => extend(answer, json!({"program_costs": it.results()})),
            Self::Tasks(tally) => tally.answer(answer, ended.files.get(1))?,
            Self::Program(_) => {
                let (recording, platform) = self.recording(&ended.provenance)?;
                extend(answer, observed::json(recording, &uncosted(recording, &platform)));
                if let Some(comparison) = of_arms(recording, &BTreeMap::new())? {
                    extend(answer, json!({"comparison": comparison}));
                }
            }
            Self::Overheads { times, plan, .. } => {
                let (summaries, facts) = (times.summaries(), facts(&ended.provenance));
                extend(answer, overheads_json(&summaries, &facts, plan, ended.provenance.seed));
            }
        }
        Ok(())
    }

    /// The results as text, if there are any.
    pub(super) fn text(&self, ended: &RunOutcome) -> Result<Option<String>, Failure> {
        match self {
            Self::Cells { .. } => Ok(None),
            Self::Switches(it) => Ok(Some(switching::text(&summaries(it), &not_measured(it)))),
            Self::Supply(it) => Ok(Some(supply::text(&it.summaries()))),
            Self::ProgramCosts(it) => Ok(Some(program_costs::text(&it.results()))),
            Self::Tasks(tally) => Ok(tally.effect()?.as_ref().map(sentences)),
            Self::Program(_) => {
                let (recording, platform) = self.recording(&ended.provenance)?;
                let compared = of_arms(recording, &BTreeMap::new())?;
                let compared = compared.as_ref().map_or_else(String::new, program_runs::text);
                let text = observed::text(recording, &uncosted(recording, &platform));
                Ok(Some(compared + &text))
            }
            Self::Overheads { times, plan, .. } => {
                let plan = Some((plan.as_ref(), ended.provenance.seed));
                let notes = overhead_table::notes(&facts(&ended.provenance), plan);
                Ok(Some(overhead_table::text(&times.summaries(), &notes)))
            }
        }
    }

    /// Returns the costs of events, if the plan caused events.
    pub fn program_costs(&self) -> Option<ProgramCostResults> {
        if let Self::ProgramCosts(blocks) = self { Some(blocks.results()) } else { None }
    }

    /// Returns the overheads, if the plan measured any.
    pub fn overheads(&self) -> Vec<OverheadSummary> {
        match self {
            Self::Overheads { times, .. } => times.summaries(),
            _ => Vec::new(),
        }
    }

    /// Returns the recording of a program, and its machine.
    pub fn recording(&self, provenance: &Provenance) -> Result<(&Recording, Platform), Failure> {
        let Self::Program(recording) = self else {
            return Err(Failure::says(Exit::Failed, "this run recorded no program"));
        };
        Ok((recording, Platform::from_toml(&provenance.platform)?))
    }
}

/// Compares the arms of a recording that has several, with the refill costs of each run if known.
///
/// # Errors
/// Fails with exit code 6 if the arms cannot be compared.
pub fn of_arms(
    recording: &Recording,
    refills: &BTreeMap<u64, CostBounds>,
) -> Result<Option<RunComparison>, Failure> {
    let runs = RunFigures::of_recording(recording, refills);
    let comparison = arms(&runs, 0.05).map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok(Some(comparison).filter(|it| !it.arms.is_empty()))
}

fn summaries(batches: &[SwitchBatch]) -> Vec<SwitchSummary> {
    let mut switchings = Switchings::default();
    switchings.take(batches);
    switchings.finish()
}

fn extend(answer: &mut Value, more: Value) {
    if let (Some(answer), Value::Object(more)) = (answer.as_object_mut(), more) {
        answer.extend(more);
    }
}

fn facts(provenance: &Provenance) -> OverheadFacts {
    OverheadFacts::of(&provenance.machine).unwrap_or_default()
}

fn overheads_json(
    summaries: &[OverheadSummary],
    facts: &OverheadFacts,
    plan: &Overheads,
    seed: u64,
) -> Value {
    let tasks = plan.tasks.as_ref().filter(|_| facts.recording.is_some());
    let ratios = facts.control_page.map(|cost| cost.ratios());
    json!({
        "overheads": summaries,
        "scheduler": tasks.map(|tasks| tasks.scheduler),
        "seed": tasks.map(|_| seed),
        "missing": facts.missing,
        "recording": facts.recording,
        "control_page": facts.control_page,
        "control_page_ratios": ratios,
    })
}
