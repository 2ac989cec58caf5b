// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs of a placer, read in process.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use corehop_decide::placer::log::{LogError, PlacementLog};
use corehop_report::placement;
use pyo3::prelude::*;

use crate::errors;

/// The log of a placer.
#[pyclass(frozen, module = "corehop")]
#[derive(Debug)]
pub(crate) struct Placement {
    log: PlacementLog,
}

/// Reads the log of a placer; None for another file.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "that is how Python hands them over")]
pub(crate) fn load_placement(py: Python<'_>, path: PathBuf) -> PyResult<Option<Placement>> {
    match py.detach(|| read(&path)) {
        Ok(log) => Ok(Some(Placement { log })),
        Err(LogError::NotOurs) => Ok(None),
        Err(LogError::Io(error)) => Err(errors::system(&path, &error)),
        Err(error) => Err(errors::content(&path, &error)),
    }
}

fn read(path: &Path) -> Result<PlacementLog, LogError> {
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(LogError::NotOurs);
    }
    PlacementLog::read(BufReader::new(std::fs::File::open(path)?))
}

#[pymethods]
impl Placement {
    /// All of it, as JSON.
    fn json(&self) -> String {
        placement::json(&self.log).to_string()
    }

    /// The result of placing, in one sentence.
    fn sentence(&self) -> String {
        placement::sentence(&self.log.answer)
    }

    /// Its answer, in words.
    fn text(&self) -> String {
        placement::log_text(&self.log)
    }

    /// The page of the report. A table that is too long for the page is cut, and all rows are in Python.
    fn page(&self) -> String {
        placement::page(&self.log, "")
    }
}
