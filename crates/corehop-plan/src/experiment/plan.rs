// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan: what a machine is to do, as data that can be printed, diffed, stored and written by hand.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ExperimentError;
use super::gangs::{Gangs, GangsError};
use super::jobs::{Jobs, JobsError, Phase};
use super::overheads::Overheads;
use super::program::{Program, ProgramError, Target};
use super::switches::{Switches, SwitchesError};
use super::tasks::{Tasks, TasksError};
use super::watch::{Watch, WatchError};
use crate::bounds;
use crate::platform::Platform;
use crate::words::digest;
use crate::workload::WorkingSet;

/// The version of the plan's JSON form.
pub const PLAN_SCHEMA: u32 = 3;

/// The work of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this form: [`PLAN_SCHEMA`].
    pub schema: u32,
    /// The experiment that made it, or a name of the author's.
    pub experiment: String,
    /// The seed of every draw: orders of accesses, release times, page frames of a simulated machine.
    pub seed: u64,
    /// The work itself.
    #[serde(flatten)]
    pub body: Body,
}

/// The work, under the name of its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Scripted jobs on working sets.
    Jobs(Jobs),
    /// Task sets under a scheduler.
    Tasks(Tasks),
    /// Threads with common data.
    Gangs(Gangs),
    /// A program to record.
    Program(Program),
    /// A kernel whose scheduling overheads are measured.
    Overheads(Overheads),
    /// Core switches by several mechanisms.
    Switches(Switches),
    /// CPUs whose supply is watched.
    Supply(Watch),
}

impl Body {
    /// The working sets of jobs and of tasks.
    pub fn working_sets(&self) -> Vec<&WorkingSet> {
        match self {
            Self::Jobs(jobs) => jobs.sets.iter().collect(),
            Self::Tasks(tasks) => {
                tasks.runs.iter().flat_map(|run| &run.tasks).map(|task| &task.set).collect()
            }
            Self::Gangs(_)
            | Self::Program(_)
            | Self::Overheads(_)
            | Self::Switches(_)
            | Self::Supply(_) => Vec::new(),
        }
    }
}

/// Why a plan, written by hand or read back, cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not JSON of this form.
    #[error(
        "not a plan: {0}; `corehop measure EXPERIMENT --dry-run --json` prints one to start from"
    )]
    Form(String),
    /// A later form than this program knows.
    #[error("the plan has schema {found}, this program knows {PLAN_SCHEMA}: use a newer corehop")]
    Schema {
        /// The version found.
        found: u32,
    },
    /// Nothing to run.
    #[error("the plan has no {0}: such a plan measures nothing")]
    Empty(&'static str),
    /// Jobs that cannot run.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// Task sets that cannot run.
    #[error(transparent)]
    Tasks(#[from] TasksError),
    /// Gangs that cannot run.
    #[error(transparent)]
    Gangs(#[from] GangsError),
    /// Core switches that cannot be measured.
    #[error(transparent)]
    Switches(#[from] SwitchesError),
    /// CPUs that cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// Overheads that cannot be measured.
    #[error(transparent)]
    Overheads(#[from] Box<ExperimentError>),
    /// Runs of a program that cannot be compared.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It runs as a whole, and one was interrupted.
    #[error("a plan of {0} runs as a whole and cannot be resumed: leave --resume out")]
    Whole(&'static str),
    /// A program that does not exist.
    #[error("{what}: {why}")]
    NoProgram {
        /// The command, process or cgroup.
        what: String,
        /// The error of the kernel.
        why: String,
    },
}

impl Plan {
    /// A plan in today's form.
    pub fn new(experiment: &str, seed: u64, body: impl Into<Body>) -> Self {
        Self { schema: PLAN_SCHEMA, experiment: experiment.to_owned(), seed, body: body.into() }
    }

    /// Reads a plan from JSON; earlier forms too.
    ///
    /// # Errors
    /// [`PlanError::Form`] or [`PlanError::Schema`]; whether it fits a platform, [`Plan::check`] says.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let form = |error: serde_json::Error| PlanError::Form(error.to_string());
        let mut value: Value = bounds::from_json(text).map_err(form)?;
        let found = value.get("schema").and_then(Value::as_u64).unwrap_or(0);
        if found > u64::from(PLAN_SCHEMA) {
            return Err(PlanError::Schema { found: found as u32 });
        }
        if let Some(map) = value.as_object_mut().filter(|_| found < u64::from(PLAN_SCHEMA)) {
            nest(map);
        }
        serde_json::from_value(value).map_err(form)
    }

    /// The plan as JSON, a job a line, so that two plans can be diffed.
    pub fn to_json(&self) -> String {
        let mut whole = json!(self);
        let Some(jobs) = self.jobs() else { return format!("{whole:#}") };
        let phases: Vec<String> = jobs.phases.iter().map(phase_json).collect();
        whole["jobs"]["phases"] = json!([]);
        // The empty list is the only one: it was put there above.
        let lines = format!("\"phases\": [\n{}\n    ]", phases.join(",\n"));
        format!("{whole:#}").replacen("\"phases\": []", &lines, 1)
    }

    /// A short digest of the plan (64-bit FNV-1a of its JSON), to tell plans apart in results.
    pub fn digest(&self) -> String {
        digest(&self.to_json())
    }

    /// Its jobs, if it is a plan of jobs.
    pub const fn jobs(&self) -> Option<&Jobs> {
        if let Body::Jobs(jobs) = &self.body { Some(jobs) } else { None }
    }

    /// Its task sets, if it is a plan of task sets.
    pub const fn tasks(&self) -> Option<&Tasks> {
        if let Body::Tasks(tasks) = &self.body { Some(tasks) } else { None }
    }

    /// Its gangs, if it is a plan of gangs.
    pub const fn gangs(&self) -> Option<&Gangs> {
        if let Body::Gangs(gangs) = &self.body { Some(gangs) } else { None }
    }

    /// Its program, if it is a plan to record one.
    pub const fn program(&self) -> Option<&Program> {
        if let Body::Program(program) = &self.body { Some(program) } else { None }
    }

    /// Its core switches, if it is a plan of those.
    pub const fn switches(&self) -> Option<&Switches> {
        if let Body::Switches(switches) = &self.body { Some(switches) } else { None }
    }

    /// Its windows, if it is a plan to watch the supply of CPUs.
    pub const fn supply(&self) -> Option<&Watch> {
        if let Body::Supply(watch) = &self.body { Some(watch) } else { None }
    }

    /// Goes on with what another plan of the same kind runs.
    pub fn extend(&mut self, more: Self) {
        match (&mut self.body, more.body) {
            (Body::Jobs(jobs), Body::Jobs(more)) => jobs.phases.extend(more.phases),
            (Body::Tasks(tasks), Body::Tasks(more)) => tasks.runs.extend(more.runs),
            (Body::Gangs(gangs), Body::Gangs(more)) => {
                let pairs = gangs.gangs.iter_mut().zip(more.gangs);
                pairs.for_each(|(gang, more)| gang.samples += more.samples);
            }
            (Body::Program(program), Body::Program(more)) => program.runs.extend(more.runs),
            (Body::Switches(switches), Body::Switches(more)) => switches.rounds.extend(more.rounds),
            (Body::Supply(watch), Body::Supply(more)) => watch.windows.extend(more.windows),
            // An experiment's plans are of one kind, and this one runs once.
            _ => {}
        }
    }

    /// Refuses a plan that cannot go on where it was interrupted.
    ///
    /// # Errors
    /// [`PlanError::Whole`].
    pub fn check_resumable(&self) -> Result<(), PlanError> {
        match &self.body {
            Body::Jobs(_)
            | Body::Tasks(_)
            | Body::Gangs(_)
            | Body::Switches(_)
            | Body::Supply(_) => Ok(()),
            Body::Program(it) if !it.arms.is_empty() => Ok(()),
            Body::Program(_) => Err(PlanError::Whole("a program")),
            Body::Overheads(_) => Err(PlanError::Whole("scheduling overheads")),
        }
    }

    /// The plan without the `done` jobs, or runs of sets, gangs or a program that it begins with. `jobs` is the
    /// number of jobs in the result: a run of a set that was cut off is repeated under another number.
    #[must_use]
    pub fn rest(&self, done: u64, jobs: u64) -> Self {
        let mut rest = self.clone();
        match &mut rest.body {
            Body::Jobs(it) => it.skip(done),
            Body::Gangs(it) => it.skip(done),
            Body::Switches(it) => it.skip(done),
            Body::Supply(it) => it.skip(done),
            Body::Tasks(it) => {
                it.renumber(jobs);
                it.runs.drain(..it.runs.len().min(done as usize));
            }
            Body::Program(it) => {
                it.runs.drain(..it.runs.len().min(done as usize));
            }
            Body::Overheads(_) => {}
        }
        rest
    }

    /// Whether `platform` can run it.
    ///
    /// # Errors
    /// [`PlanError`] names the first thing that does not fit.
    pub fn check(&self, platform: &Platform) -> Result<(), PlanError> {
        match &self.body {
            Body::Jobs(jobs) => jobs.check(platform)?,
            Body::Tasks(tasks) => tasks.check(platform)?,
            Body::Gangs(gangs) => gangs.check(platform)?,
            Body::Overheads(it) => it.check(platform).map_err(Box::new)?,
            Body::Program(it) => it.check()?,
            Body::Switches(it) => it.check(platform)?,
            Body::Supply(it) => it.check(platform)?,
        }
        Ok(())
    }

    /// Refuses a plan that runs nothing.
    ///
    /// # Errors
    /// [`PlanError::Empty`].
    pub fn check_not_empty(&self) -> Result<(), PlanError> {
        let (what, count) = match &self.body {
            Body::Jobs(jobs) => ("jobs", jobs.count() as u64),
            Body::Tasks(tasks) => ("runs", tasks.runs.len() as u64),
            Body::Gangs(gangs) => ("gangs that run", gangs.runs()),
            Body::Overheads(it) => ("CPUs", it.cpus.len() as u64),
            Body::Switches(it) => ("batches", it.batches()),
            Body::Supply(it) => ("windows", it.windows.len() as u64),
            Body::Program(program) if !program.arms.is_empty() => {
                ("runs", program.runs.len() as u64)
            }
            Body::Program(program) => match &program.target {
                Target::Command(words) => ("command", words.len() as u64),
                Target::Process(_) | Target::Cgroup(_) => return Ok(()),
            },
        };
        if count == 0 { Err(PlanError::Empty(what)) } else { Ok(()) }
    }
}

impl From<Jobs> for Body {
    fn from(jobs: Jobs) -> Self {
        Self::Jobs(jobs)
    }
}

impl From<Tasks> for Body {
    fn from(tasks: Tasks) -> Self {
        Self::Tasks(tasks)
    }
}

impl From<Program> for Body {
    fn from(program: Program) -> Self {
        Self::Program(program)
    }
}

impl From<Overheads> for Body {
    fn from(overheads: Overheads) -> Self {
        Self::Overheads(overheads)
    }
}

impl From<Switches> for Body {
    fn from(switches: Switches) -> Self {
        Self::Switches(switches)
    }
}

impl From<Watch> for Body {
    fn from(watch: Watch) -> Self {
        Self::Supply(watch)
    }
}

impl From<Gangs> for Body {
    fn from(gangs: Gangs) -> Self {
        Self::Gangs(gangs)
    }
}

/// Before schema 3 the fields of a plan's body stood beside its head, and the name of the experiment
/// alone told what rows jobs became.
fn nest(plan: &mut Map<String, Value>) {
    let kinds = [("phases", "jobs"), ("runs", "tasks"), ("gangs", "gangs")];
    let Some((_, kind)) = kinds.into_iter().find(|(field, _)| plan.contains_key(*field)) else {
        return;
    };
    plan.insert("schema".to_owned(), json!(PLAN_SCHEMA));
    let is_head = |name: &str| ["schema", "experiment", "seed"].contains(&name);
    let (head, mut body): (Map<_, _>, Map<_, _>) =
        std::mem::take(plan).into_iter().partition(|(name, _)| is_head(name));
    *plan = head;
    let rows = match plan.get("experiment").and_then(Value::as_str) {
        Some("access-time") => Some("access_times"),
        Some("preemption-length") => Some("preemption_lengths"),
        _ => None,
    };
    if let Some(rows) = rows.filter(|_| kind == "jobs") {
        body.insert("rows".to_owned(), json!(rows));
    }
    plan.insert(kind.to_owned(), Value::Object(body));
}

fn phase_json(phase: &Phase) -> String {
    let jobs: Vec<String> =
        phase.jobs.iter().map(|job| format!("        {}", serde_json::json!(job))).collect();
    let replicate =
        phase.replicate.map_or_else(String::new, |number| format!("\"replicate\": {number}, "));
    let of = |condition| format!("\"condition\": {}, ", serde_json::json!(condition));
    let condition = phase.condition.map_or_else(String::new, of);
    format!(
        "      {{{replicate}{condition}\"load\": {}, \"jobs\": [\n{}\n      ]}}",
        serde_json::json!(phase.load),
        jobs.join(",\n")
    )
}

#[cfg(test)]
mod tests {
    use super::super::jobs::JobRows;
    use super::*;

    #[test]
    fn what_is_not_a_plan_is_refused_with_a_way_to_get_one() {
        for text in ["", "[]", "{\"schema\": 1}", "nonsense"] {
            assert!(Plan::from_json(text).unwrap_err().to_string().contains("--dry-run"));
        }
        assert_eq!(Plan::from_json("{\"schema\": 99}"), Err(PlanError::Schema { found: 99 }));
    }

    /// The head of a plan before schema 3, with this body.
    fn earlier(experiment: &str, body: &str) -> Plan {
        let head = format!("\"schema\": 2, \"experiment\": \"{experiment}\", \"seed\": 7");
        Plan::from_json(&format!("{{{head}, {body}}}")).unwrap()
    }

    #[test]
    fn plans_of_earlier_forms_are_read_as_what_they_were() {
        let jobs = "\"mover\": \"handover\", \"sets\": [], \"cells\": [], \"phases\": []";
        for (name, rows) in [
            ("synthetic", JobRows::Samples),
            ("mine", JobRows::Samples),
            ("access-time", JobRows::AccessTimes),
            ("preemption-length", JobRows::PreemptionLengths),
        ] {
            let plan = earlier(name, jobs);
            assert_eq!((plan.experiment.as_str(), plan.seed), (name, 7));
            let body = plan.jobs().unwrap();
            assert_eq!((body.rows, body.mover), (rows, crate::workload::Mover::Handover));
            assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan));
        }
        let tasks = earlier("schedule-sensitive", "\"scheduler\": \"g-edf\", \"runs\": []");
        assert!(tasks.tasks().unwrap().runs.is_empty());
        assert!(earlier("shared-data", "\"gangs\": []").gangs().unwrap().gangs.is_empty());
    }

    #[test]
    fn a_plan_that_runs_nothing_is_refused_by_the_word_of_what_is_missing() {
        let empty = earlier("shared-data", "\"gangs\": []");
        let sentence = empty.check_not_empty().unwrap_err().to_string();
        assert!(sentence.contains("no gangs"), "{sentence}");
    }
}
