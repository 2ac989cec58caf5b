// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets in the files of other programs: tables (CSV, YAML), the XML of simulators and
//! analyses, and the text of MAST.
//!
//! A reader turns the text of one format into a `TaskTable`: rows of headings and texts. A single place decides the
//! meaning of a heading, the unit of a time, and the rounding of a time. A reader drops nothing silently: an unknown
//! heading is an error, and a property that no task set can express is an error or a note.

use super::rt_app::Workload;
use super::set_file::SetFileError;
use crate::words::words;

pub mod columns;
mod table;
mod csv;
mod yaml;
mod xml;
mod mast;
#[cfg(test)]
mod tests;

use table::TaskTable;

/// The name of the format of a CSV table of tasks.
pub const CSV: &str = "a table of tasks (CSV)";
/// The name of the format of a SchedCAT task set.
pub const SCHEDCAT: &str = "a task set of SchedCAT (XML)";
/// The name of the format of a SimSo simulation.
pub const SIMSO: &str = "a simulation of SimSo (XML)";
/// The name of the format of a Cheddar model.
pub const CHEDDAR: &str = "a model of Cheddar (XML)";
/// The name of the format of a MAST model.
pub const MAST: &str = "a model of MAST (text)";
/// The name of the format of a YAML table of tasks.
pub const YAML: &str = "a table of tasks (YAML)";

words! {
    /// The unit for times that state no unit.
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
    /// Returns the number of nanoseconds in the unit.
    pub const fn nanos(self) -> u64 {
        match self {
            Self::Nano => 1,
            Self::Micro => 1_000,
            Self::Milli => 1_000_000,
            Self::Second => 1_000_000_000,
        }
    }
}

/// Facts that the user states because a file does not state them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stated {
    /// The number of CPUs that serve the task set.
    pub cpus: Option<u32>,
    /// The unit for times that state no unit.
    pub unit: Option<TimeUnit>,
}

/// The reason why a file of another program does not yield a task set.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// The text breaks the rules of its format.
    #[error("not valid {format}: {what}")]
    Syntax {
        /// The format in which the text should be.
        format: &'static str,
        /// The error in the text, with its line.
        what: String,
    },
    /// A task has a value that makes no sense, or that no task set can express.
    #[error("{place}: {what}")]
    Row {
        /// The place of the value in the file.
        place: String,
        /// The error in the value, with the expected form.
        what: String,
    },
    /// An option of the user contradicts the file.
    #[error("{0}")]
    Option(String),
    /// The tasks of the file do not form a valid task set.
    #[error(transparent)]
    Set(#[from] SetFileError),
}

impl TaskFileError {
    fn row(place: &str, what: impl Into<String>) -> Self {
        Self::Row { place: place.to_owned(), what: what.into() }
    }
}

/// A function that reads a text of one format.
type TableReader = fn(&str) -> Result<TaskTable, TaskFileError>;

/// The known formats, each with its reader.
const READERS: [(&str, TableReader); 6] = [
    (CSV, csv::read),
    (YAML, yaml::read),
    (SCHEDCAT, xml::schedcat),
    (SIMSO, xml::simso),
    (CHEDDAR, xml::cheddar),
    (MAST, mast::read),
];

/// Returns the names of the formats that [`read`] knows; `seen` uses the same names.
pub fn formats() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|(format, _)| *format)
}

/// Returns the task set in a text of this `format`, or `None` if no reader knows the format.
///
/// # Errors
/// Returns [`TaskFileError`] if the text yields no task set; the error names the task or line, the
/// value, and the expected form.
pub fn read(format: &str, text: &str, stated: Stated) -> Option<Result<Workload, TaskFileError>> {
    let (_, reader) = READERS.iter().find(|(known, _)| *known == format)?;
    Some(reader(text).and_then(|table| table.workload(stated)))
}
