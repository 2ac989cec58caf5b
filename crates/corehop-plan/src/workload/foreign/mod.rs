// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets in the files of other programs: tables (CSV, YAML) and the XML of simulators and analyses.
//!
//! Each reader turns a text into a `TaskTable`: rows of headings and texts. One place decides what a heading means, which unit a time
//! has, and how a time is rounded. A reader drops nothing silently: an unknown heading is an error, and a part that no task set can
//! express is an error or a note.

use super::rt_app::Workload;
use super::set_file::SetFileError;
use crate::words::words;

pub mod columns;
mod table;
mod csv;
mod yaml;
mod xml;
#[cfg(test)]
mod tests;

use table::TaskTable;

/// A table of tasks as CSV.
pub const CSV: &str = "a table of tasks (CSV)";
/// A task set of SchedCAT.
pub const SCHEDCAT: &str = "a task set of SchedCAT (XML)";
/// A simulation of SimSo.
pub const SIMSO: &str = "a simulation of SimSo (XML)";
/// A model of Cheddar.
pub const CHEDDAR: &str = "a model of Cheddar (XML)";
/// A table of tasks as YAML.
pub const YAML: &str = "a table of tasks (YAML)";

words! {
    /// The unit of times that state no unit.
    TimeUnit, "a unit of time" {
        /// Nanoseconds.
        Nano = "ns",
        /// Microseconds.
        Micro = "us",
        /// Milliseconds.
        Milli = "ms",
        /// Seconds.
        Second = "s",
    }
}

impl TimeUnit {
    /// The nanoseconds in the unit.
    pub const fn nanos(self) -> u64 {
        match self {
            Self::Nano => 1,
            Self::Micro => 1_000,
            Self::Milli => 1_000_000,
            Self::Second => 1_000_000_000,
        }
    }
}

/// The facts that a file does not state, from the user.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stated {
    /// The number of CPUs that serve the set.
    pub cpus: Option<u32>,
    /// The unit of times without a unit.
    pub unit: Option<TimeUnit>,
}

/// Why a file of another program is no task set.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The text breaks the rules of its format.
    #[error("not valid {format}: {what}")]
    Syntax {
        /// The format.
        format: &'static str,
        /// The error, with its line.
        what: String,
    },
    /// A task has a value that makes no sense, or that no task set can express.
    #[error("{place}: {what}")]
    Row {
        /// The place in the file.
        place: String,
        /// The error there, and what is expected.
        what: String,
    },
    /// An option contradicts the file.
    #[error("{0}")]
    Option(String),
    /// The tasks are no task set.
    #[error(transparent)]
    Set(#[from] SetFileError),
}

impl TaskFileError {
    fn row(place: &str, what: impl Into<String>) -> Self {
        Self::Row { place: place.to_owned(), what: what.into() }
    }
}

/// A reader of a format.
type TableReader = fn(&str) -> Result<TaskTable, TaskFileError>;

/// The formats with their readers.
const READERS: [(&str, TableReader); 5] = [
    (CSV, csv::read),
    (YAML, yaml::read),
    (SCHEDCAT, xml::schedcat),
    (SIMSO, xml::simso),
    (CHEDDAR, xml::cheddar),
];

/// The formats that [`read`] knows, as `seen` names them.
pub fn formats() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|(format, _)| *format)
}

/// The task set in a text of this `format`; None where no reader knows the format.
///
/// # Errors
/// [`TaskFileError`], which names the task or line, the value, and what is expected.
pub fn read(format: &str, text: &str, stated: Stated) -> Option<Result<Workload, TaskFileError>> {
    let (_, reader) = READERS.iter().find(|(known, _)| *known == format)?;
    Some(reader(text).and_then(|table| table.workload(stated)))
}
