// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers of `corehop offload -o`, read in process.

use std::path::{Path, PathBuf};

use corehop_report::off_load::{NotAnAnswer, OffLoadAnswer};
use pyo3::prelude::*;

use crate::errors;

/// An answer of `corehop offload -o`.
#[pyclass(frozen, module = "corehop")]
#[derive(Debug)]
pub(crate) struct OffLoad {
    answer: OffLoadAnswer,
}

/// No answer is larger: it has a row for each system call.
const MOST: u64 = 64 << 20;

/// Reads an answer of `corehop offload -o`; None for another file.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "that is how Python hands them over")]
pub(crate) fn load_off_load(py: Python<'_>, path: PathBuf) -> PyResult<Option<OffLoad>> {
    match py.detach(|| read(&path)).map_err(|error| errors::system(&path, &error))? {
        Ok(answer) => Ok(Some(OffLoad { answer })),
        Err(NotAnAnswer::NotOurs) => Ok(None),
        Err(error) => Err(errors::content(&path, &error)),
    }
}

fn read(path: &Path) -> std::io::Result<Result<OffLoadAnswer, NotAnAnswer>> {
    let about = std::fs::metadata(path)?;
    // Opening a pipe would wait for its writer.
    if !about.is_file() || about.len() > MOST {
        return Ok(Err(NotAnAnswer::NotOurs));
    }
    let text = String::from_utf8(std::fs::read(path)?);
    Ok(text.map_or(Err(NotAnAnswer::NotOurs), |text| OffLoadAnswer::parse(&text)))
}

#[pymethods]
impl OffLoad {
    /// All of it, as JSON.
    fn json(&self) -> String {
        self.answer.json().to_string()
    }

    /// Its main sentence.
    fn sentence(&self) -> String {
        self.answer.sentence()
    }

    /// Its table, and its other sentences.
    fn text(&self) -> String {
        self.answer.text()
    }

    /// The page of the report. A table that is too long for the page is cut, and all rows are in Python.
    fn page(&self) -> String {
        self.answer.page("")
    }
}
