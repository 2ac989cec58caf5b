// SPDX-License-Identifier: MIT OR Apache-2.0
//! Validation compares published results of a machine with the simulated machine.
//!
//! The published results are tables of costs, single values, tables of gangs, of core switches and of throughput, the
//! gain of a placer, verbal claims, and a regression. Each published result is a [`PublishedStudy`], and its
//! validation results in a [`Sheet`].

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
    /// Returns the name, title and platform of the study.
    fn head(&self) -> StudyHeading<'_>;

    /// Restricts the study to working sets of these sizes; returns whether any value of the study is left.
    fn narrow(&mut self, wss_kib: &[u64]) -> bool;

    /// Returns the free parameters that were fitted or chosen on rows of the study, with the role of each.
    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        Vec::new()
    }

    /// Whether the study is about one machine, for which another platform description can be substituted.
    fn is_of_one_machine(&self) -> bool {
        true
    }

    /// Simulates the study in `lab` on `platform`, and judges the result.
    ///
    /// # Errors
    /// Returns [`ValidationError`] if the study cannot be simulated on the platform.
    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError>;
}

/// The identification of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyHeading<'a> {
    /// The name of the study.
    pub id: &'a str,
    /// The title of the printed table, with its source.
    pub title: &'a str,
    /// The ID of the platform on which the study was measured.
    pub platform: &'a str,
}

/// The reason why a study cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishedStudyError {
    /// The description of the study is invalid.
    #[error("the study's description is invalid: {0}")]
    Form(String),
    /// The table of the study is invalid.
    #[error("the study's table is invalid in line {line}: {what}")]
    Table {
        /// The number of the line, counted from 1.
        line: usize,
        /// The problem in the table.
        what: String,
    },
}

/// The reason why a study cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// Another study that this study needs cannot be read.
    #[error(transparent)]
    Study(#[from] PublishedStudyError),
    /// The experiment is not possible on the platform.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine cannot be simulated with these settings.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A placer cannot be rehearsed.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The platform lacks the server whose service time drifts in a study.
    #[error(
        "{study} needs a [[server]] named {server}, and {platform} has none: add the server to the platform file"
    )]
    NoServer {
        /// The name of the study.
        study: String,
        /// The name of the server.
        server: String,
        /// The ID of the platform.
        platform: String,
    },
    /// The samples contain values that are not numbers.
    #[error(transparent)]
    Samples(#[from] BadInput),
}

/// Parses the description of a study.
fn described<T: serde::de::DeserializeOwned>(description: &str) -> Result<T, PublishedStudyError> {
    toml::from_str(description).map_err(|error| PublishedStudyError::Form(error.to_string()))
}
