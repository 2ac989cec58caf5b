// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam: the only thing that runs a plan.

use serde_json::{Map, Value};

use crate::experiment::{Plan, PlanError};
use crate::platform::Platform;
use crate::samples::JobRecord;

/// A machine on which plans run. There are two, live and simulated, and nothing above this trait
/// knows which.
pub trait Machine {
    /// What is known of it.
    fn platform(&self) -> &Platform;

    /// Runs every job of `plan`, handing each one's record to `sink` soon after it ends, in order.
    ///
    /// # Errors
    /// [`MachineError`]; the records handed over before it remain good.
    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<Outcome, MachineError>;

    /// What the machine says of itself and of its runs so far, for the provenance.
    fn provenance(&self) -> Map<String, Value>;
}

/// What takes records, and may ask for an end.
pub trait Sink {
    /// Takes the records of some jobs that have ended.
    ///
    /// # Errors
    /// Whatever keeps it from keeping them; the run ends then.
    fn take(&mut self, records: &[JobRecord]) -> Result<(), SinkError>;

    /// Whether the run should end after the current batch of jobs.
    fn enough(&self) -> bool {
        false
    }
}

/// Why a sink could not take records.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All jobs have run.
    Complete,
    /// The sink asked for the end.
    Stopped,
}

/// Why a run ended before its plan did.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The plan does not fit the machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host lacks a privilege or a feature; `remedy` is what to type or to change.
    #[error("{what} is not possible here: {why}; {remedy}")]
    NotPossible {
        /// What was to be done.
        what: String,
        /// Why it cannot be.
        why: String,
        /// What would make it possible.
        remedy: String,
    },
    /// The host failed midway.
    #[error("{what} failed: {why}; what was recorded until then is kept")]
    Failed {
        /// What was being done.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// The sink could not take records.
    #[error("the samples could not be written: {0}; what was recorded until then is kept")]
    Sink(#[source] SinkError),
}
