// SPDX-License-Identifier: MIT OR Apache-2.0
//! Validation: what was published of a machine, against the simulated one.
//!
//! There are tables of costs, single values, tables of gangs, of core switches and of throughput, what a placer gains, claims in
//! words, and a regression. Each is a [`PublishedStudy`]; all of them come to a [`Sheet`].

mod numa_home;
pub mod sheet;
pub mod aim;
mod extreme;
pub mod printed_number;
mod table_text;
mod lab;
pub mod tables;
pub mod points;
pub mod gangs;
pub mod placements;
pub mod switches;
pub mod throughput;
pub mod regression;
pub mod claims;
pub mod host;
mod studies;
#[cfg(test)]
mod tests;

pub use lab::Lab;
pub use sheet::{JudgementRole, Sheet, ValidationRow};
pub use studies::{all, task_set_studies, task_set_study};

use crate::placer::rehearsal::RehearsalError;
use corehop_plan::experiment::ExperimentError;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Platform;
use corehop_stats::ordered::BadInput;

/// A published result that can be simulated again.
pub trait PublishedStudy {
    /// Its name, title and platform.
    fn head(&self) -> StudyHeading<'_>;

    /// Keeps what is about working sets of these sizes, and tells whether anything is left.
    fn narrow(&mut self, wss_kib: &[u64]) -> bool;

    /// The free numbers that were fitted or chosen on its rows, with which of both.
    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        Vec::new()
    }

    /// Whether it is about one machine, which another description can stand for.
    fn is_of_one_machine(&self) -> bool {
        true
    }

    /// Simulates it in `lab` on `platform`, and judges what comes out.
    ///
    /// # Errors
    /// [`ValidationError`] where it cannot be simulated there.
    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError>;
}

/// The name of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyHeading<'a> {
    /// Its name.
    pub id: &'a str,
    /// The printed table, with its source.
    pub title: &'a str,
    /// The platform it was measured on, by id.
    pub platform: &'a str,
}

/// Why a study cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishedStudyError {
    /// Its description is wrong.
    #[error("the study's description: {0}")]
    Form(String),
    /// Its table is wrong.
    #[error("the study's table, line {line}: {what}")]
    Table {
        /// The line, counted from 1.
        line: usize,
        /// The problem.
        what: String,
    },
}

/// Why a study cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// A study that it needs cannot be read.
    #[error(transparent)]
    Study(#[from] PublishedStudyError),
    /// The experiment is not possible on the platform.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine cannot be simulated so.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A placer cannot be rehearsed.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The platform lacks the server that a study lets drift.
    #[error(
        "{study} needs a [[server]] named {server}, and {platform} has none: add the server to the platform file"
    )]
    NoServer {
        /// The study.
        study: String,
        /// The server.
        server: String,
        /// The platform.
        platform: String,
    },
    /// Samples hold no numbers.
    #[error(transparent)]
    Samples(#[from] BadInput),
}

/// A study as its description has it.
fn described<T: serde::de::DeserializeOwned>(description: &str) -> Result<T, PublishedStudyError> {
    toml::from_str(description).map_err(|error| PublishedStudyError::Form(error.to_string()))
}
