// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan states the work of a machine as data that a user can print, compare, store and write by hand.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Phase;
use super::kind::{Body, BodyError};
use super::unit::SamplingUnit;
use crate::bounds;
use crate::platform::Platform;
use crate::words::digest;

/// The version of the plan's JSON form.
pub const PLAN_SCHEMA: u32 = 3;

/// A plan: the work of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of the plan's JSON form, [`PLAN_SCHEMA`].
    pub schema: u32,
    /// The name of the experiment that made the plan, or a name chosen by the plan's author.
    pub experiment: String,
    /// The seed of every draw: the order of accesses, release times, and page frames of a simulated machine.
    pub seed: u64,
    /// The work that the plan describes.
    #[serde(flatten)]
    pub body: Body,
}

/// The reason why a plan cannot run; the plan may be written by hand or read from a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The text is not JSON of a plan's form.
    #[error(
        "this is not a plan: {0}; `corehop measure EXPERIMENT --dry-run --json` prints a plan to start from"
    )]
    Form(String),
    /// The plan has another schema than this program reads.
    #[error(
        "this corehop cannot read the plan: the plan has schema {found}, not {PLAN_SCHEMA}; write a new plan (`corehop measure EXPERIMENT --dry-run --json` prints one to start from), or use the corehop that wrote the plan"
    )]
    Schema {
        /// The schema that the plan states.
        found: u64,
    },
    /// The plan has no work and would run nothing.
    #[error("the plan has no {0}: such a plan measures nothing")]
    Empty(&'static str),
    /// The platform cannot run the work of the plan.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A plan that runs only as a whole was interrupted.
    #[error("a plan of {0} runs as a whole and cannot be resumed: omit --resume")]
    Whole(&'static str),
    /// The program that the plan names does not exist.
    #[error("{what}: {why}")]
    NoProgram {
        /// The command, process or cgroup that cannot be recorded.
        what: String,
        /// The error that the kernel returned.
        why: String,
    },
}

impl Plan {
    /// Makes a plan of the current schema.
    pub fn new(experiment: &str, seed: u64, body: impl Into<Body>) -> Self {
        Self { schema: PLAN_SCHEMA, experiment: experiment.to_owned(), seed, body: body.into() }
    }

    /// Reads a plan from its JSON text.
    ///
    /// # Errors
    /// Returns [`PlanError::Form`] if the text is not a plan, or [`PlanError::Schema`] if the plan has another schema;
    /// [`Plan::check`] tests whether the plan fits a platform.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let form = |error: serde_json::Error| PlanError::Form(error.to_string());
        let value: Value = bounds::from_json(text).map_err(form)?;
        let schema = value.get("schema").and_then(Value::as_u64);
        if let Some(found) = schema.filter(|&found| found != u64::from(PLAN_SCHEMA)) {
            return Err(PlanError::Schema { found });
        }
        serde_json::from_value(value).map_err(form)
    }

    /// Returns the plan as JSON with one job per line, so that a diff of two plans is readable.
    pub fn to_json(&self) -> String {
        let mut whole = json!(self);
        let Some(jobs) = self.jobs() else { return format!("{whole:#}") };
        let phases: Vec<String> = jobs.phases.iter().map(phase_json).collect();
        whole["jobs"]["phases"] = json!([]);
        // The empty list is the only one: it was put there above.
        let lines = format!("\"phases\": [\n{}\n    ]", phases.join(",\n"));
        format!("{whole:#}").replacen("\"phases\": []", &lines, 1)
    }

    /// Returns a short digest of the plan (64-bit FNV-1a of its JSON), which distinguishes plans in results.
    pub fn digest(&self) -> String {
        digest(&self.to_json())
    }

    /// Appends the work of another plan of the same kind; a plan of another kind changes nothing, and no experiment
    /// makes such a plan.
    pub fn extend(&mut self, more: Self) {
        self.body.go_on(more.body);
    }

    /// Rejects a plan that cannot continue after an interrupt.
    ///
    /// # Errors
    /// Returns [`PlanError::Whole`] if the plan runs only as a whole.
    pub fn check_resumable(&self) -> Result<(), PlanError> {
        self.body.is_whole().map_or(Ok(()), |noun| Err(PlanError::Whole(noun)))
    }

    /// Returns the plan without its first `done` jobs, or runs of sets, gangs or a program. `jobs` is the number of
    /// jobs that the result already has.
    #[must_use]
    pub fn rest(&self, done: u64, jobs: u64) -> Self {
        let mut rest = self.clone();
        rest.body.leave_out(done, jobs);
        rest
    }

    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`PlanError`] for the first part that does not fit the platform.
    pub fn check(&self, platform: &Platform) -> Result<(), PlanError> {
        Ok(self.body.fits(platform)?)
    }

    /// Rejects a plan that runs nothing.
    ///
    /// # Errors
    /// Returns [`PlanError::Empty`] if the plan runs nothing.
    pub fn check_not_empty(&self) -> Result<(), PlanError> {
        match self.body.amount() {
            Some((noun, 0)) => Err(PlanError::Empty(noun)),
            _ => Ok(()),
        }
    }

    /// Returns a one-line summary of the plan; the caller passes `units` and `replicates` of the experiment, or else of
    /// the plan itself.
    pub fn outline(
        &self,
        units: &[SamplingUnit],
        replicates: Option<usize>,
        platform: &Platform,
    ) -> String {
        let counts = self.body.outline(units, replicates);
        format!("{} on {}{counts}", self.experiment, platform.name)
    }
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
    use super::*;

    #[test]
    fn what_is_not_a_plan_is_refused_with_a_way_to_get_one() {
        for text in ["", "[]", "{\"schema\": 1}", "nonsense"] {
            assert!(Plan::from_json(text).unwrap_err().to_string().contains("--dry-run"));
        }
        assert_eq!(Plan::from_json("{\"schema\": 99}"), Err(PlanError::Schema { found: 99 }));
    }

    #[test]
    fn a_plan_of_another_form_is_refused_with_both_forms_and_the_remedy() {
        let jobs = "\"mover\": \"handover\", \"sets\": [], \"cells\": [], \"phases\": []";
        let earlier =
            format!("{{\"schema\": 2, \"experiment\": \"synthetic\", \"seed\": 7, {jobs}}}");
        let error = Plan::from_json(&earlier).unwrap_err();
        assert_eq!(error, PlanError::Schema { found: 2 });
        let sentence = error.to_string();
        assert!(sentence.contains("schema 2, not 3; write a new plan"), "{sentence}");
        let headless = earlier.replace("\"schema\": 2, ", "");
        let sentence = Plan::from_json(&headless).unwrap_err().to_string();
        assert!(sentence.contains("schema") && sentence.contains("--dry-run"), "{sentence}");
    }

    #[test]
    fn a_plan_that_runs_nothing_is_refused_by_the_word_of_what_is_missing() {
        let text =
            "{\"schema\": 3, \"experiment\": \"mine\", \"seed\": 7, \"gangs\": {\"gangs\": []}}";
        let empty = Plan::from_json(text).unwrap();
        let sentence = empty.check_not_empty().unwrap_err().to_string();
        assert!(sentence.contains("no gangs"), "{sentence}");
    }
}
