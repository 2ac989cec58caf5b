// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps errors of the core to exceptions, like the program's exit codes.
#![expect(clippy::needless_pass_by_value, reason = "that is how `map_err` hands errors over")]

use std::fmt::Display;
use std::path::Path;

use arrow_schema::ArrowError;
use corehop_app::failure::{Exit, Failure};
use corehop_plan::samples::FileError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// The exception `class` of `corehop._errors`, with a sentence.
fn exception(class: &str, sentence: &str) -> PyErr {
    Python::attach(|py| {
        let made = || py.import("corehop._errors")?.getattr(class)?.call1((sentence,));
        // Where the package is torn, the error that says so is the one to raise.
        made().map_or_else(|error| error, PyErr::from_value)
    })
}

/// The error of a request that makes no sense.
pub(crate) fn usage(error: impl ToString) -> PyErr {
    exception("Usage", &error.to_string())
}

/// The exception of a failure, by its exit code.
pub(crate) fn failure(failure: Failure) -> PyErr {
    let class = match failure.exit() {
        Exit::Damaged => "Damaged",
        Exit::NotPossible => "NotPossible",
        Exit::Failed | Exit::Of(_) => "HostFailed",
        Exit::Interrupted => "Interrupted",
        Exit::Usage | Exit::No | Exit::Done => "Usage",
    };
    exception(class, &failure.sentence())
}

/// The error of damaged input.
pub(crate) fn damaged(error: impl ToString) -> PyErr {
    exception("Damaged", &error.to_string())
}

/// A file that cannot be read: [`PyOSError`] (and its kin, by the number of the error) where the
/// system says so, `Damaged` otherwise.
pub(crate) fn file(path: &Path, error: FileError) -> PyErr {
    match error {
        FileError::Io(error) => system(path, &error),
        other => content(path, &other),
    }
}

/// The error of a damaged file.
pub(crate) fn content(path: &Path, error: &impl Display) -> PyErr {
    damaged(format!("{}: {error}", path.display()))
}

/// The system's error about a file.
pub(crate) fn system(path: &Path, error: &std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.display().to_string()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// An error that only a table made wrongly can give.
pub(crate) fn broken(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
