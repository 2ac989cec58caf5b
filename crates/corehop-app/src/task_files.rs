// SPDX-License-Identifier: MIT OR Apache-2.0
//! Task sets in files: corehop's own JSON, rt-app workloads, and the files of other programs.
//!
//! # Errors
//! Exit 4 for a file that is no task set: the error names the format of the file, and the formats that are read. Exit 2 for an option that
//! contradicts the file. Further those of [all readers](crate::input#errors).

use std::path::Path;

use corehop_plan::samples::seen;
use corehop_plan::workload::foreign::{self, Stated, TaskFileError};
use corehop_plan::workload::rt_app::{self, RtAppError, Workload};
use corehop_plan::workload::set_file;
use corehop_plan::workload::task::TaskSet;

use crate::failure::{Exit, Failure};
use crate::input;
use crate::voice::note;

/// The task set in a file: JSON of corehop, or a table or model of another program. What was assumed of such a file is said.
///
/// # Errors
/// Those of [all readers](self#errors).
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

/// The formats that [`converted`] reads, as a clause.
pub fn convertible() -> String {
    let formats: Vec<&str> = foreign::formats().chain(["an rt-app workload (JSON)"]).collect();
    formats.join(", or ")
}

/// The task set in a text of another program: an rt-app workload, a table or a model.
///
/// # Errors
/// Those of [all readers](self#errors), without the name of the file.
pub fn converted(text: &str, stated: Stated) -> Result<Workload, Failure> {
    if let Some(read) = foreign_set(text, stated) {
        return read;
    }
    if seen(text.as_bytes()).is_none() {
        return Err(unknown(&convertible()));
    }
    if let Some(unit) = stated.unit {
        let what = format!("--unit is {unit}, and times of rt-app are microseconds: omit --unit");
        return Err(Failure::says(Exit::Usage, what));
    }
    rt_app::read(text, stated.cpus).map_err(|error| match error {
        RtAppError::Cpus(_) => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Damaged, error),
    })
}

/// The format of a text is none of those that are known.
fn unknown(known: &str) -> Failure {
    Failure::says(Exit::Damaged, format!("the format is not known: known are {known}"))
}

/// The task set in a text, if the text has a format of another program than rt-app.
fn foreign_set(text: &str, stated: Stated) -> Option<Result<Workload, Failure>> {
    let format = seen(text.as_bytes())?;
    let read = foreign::read(format.what, text, stated)?;
    Some(read.map_err(|error| match error {
        TaskFileError::Option(_) => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Damaged, error),
    }))
}
