// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads task sets from files: corehop's own JSON, rt-app workloads, and the files of other programs.
//!
//! # Errors
//! All functions fail with exit code 4 for a file that is not a task set; the error names the format of the file, and
//! the supported formats. Exit code 2 means that an option contradicts the file. In addition, the functions fail with
//! the errors of [all readers](crate::input#errors).

use std::path::Path;

use corehop_plan::samples::seen;
use corehop_plan::workload::foreign::{self, Stated, TaskFileError};
use corehop_plan::workload::rt_app::{self, RtAppError, Workload};
use corehop_plan::workload::set_file;
use corehop_plan::workload::task::TaskSet;

use crate::failure::{Exit, Failure};
use crate::input;
use crate::voice::note;

/// Reads the task set in a file: corehop's JSON, or another program's table or model. Assumptions about a file of
/// another program are reported.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors).
pub fn task_set(path: &Path) -> Result<TaskSet, Failure> {
    let text = input::text(path)?;
    let Some(read) = foreign_set(&text, Stated::default()) else {
        if seen(text.as_bytes()).is_none() && !text.trim().is_empty() {
            let failure = unknown(&format!("a task set (JSON), or {}", convertible()));
            return Err(failure.context(corehop_plan::shown::path(path)));
        }
        return set_file::parse(&text).map_err(|error| {
            let name = input::named_with_format(path, &text, "a task set (JSON)");
            Failure::new(Exit::Damaged, error).context(name)
        });
    };
    let read = read.map_err(|failure| failure.context(corehop_plan::shown::path(path)))?;
    read.notes.iter().for_each(|sentence| note(sentence));
    Ok(read.set)
}

/// Returns the formats that [`converted`] reads, as a clause.
pub fn convertible() -> String {
    let formats: Vec<&str> = foreign::formats().chain(["an rt-app workload (JSON)"]).collect();
    formats.join(", or ")
}

/// Reads the task set in another program's text: an rt-app workload, a table or a model.
///
/// # Errors
/// Fails with the errors of [all readers](self#errors), without the name of the file.
pub fn converted(text: &str, stated: Stated) -> Result<Workload, Failure> {
    if let Some(read) = foreign_set(text, stated) {
        return read;
    }
    if seen(text.as_bytes()).is_none() {
        return Err(unknown(&convertible()));
    }
    if let Some(unit) = stated.unit {
        let what = format!("--unit is {unit}, but times of rt-app are microseconds: omit --unit");
        return Err(Failure::says(Exit::Usage, what));
    }
    rt_app::read(text, stated.cpus).map_err(|error| match error {
        RtAppError::Cpus(_) => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Damaged, error),
    })
}

/// The failure for a text in no known format.
fn unknown(known: &str) -> Failure {
    Failure::says(Exit::Damaged, format!("unknown format: corehop reads {known}"))
}

/// The task set in a text whose format belongs to another program than rt-app; `None` for other texts.
fn foreign_set(text: &str, stated: Stated) -> Option<Result<Workload, Failure>> {
    let format = seen(text.as_bytes())?;
    let read = foreign::read(format.what, text, stated)?;
    Some(read.map_err(|error| match error {
        TaskFileError::Option(_) => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Damaged, error),
    }))
}
