// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doubts about the files that a verb reads. Each doubt is printed once on stderr, and is included in the JSON
//! answer.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use corehop_decide::hyperfine::HyperfineCommand;
use corehop_decide::placer::log::PlacementLog;
use corehop_plan::samples::{MissingFile, Reader, Verification};
use corehop_plan::shown;
use corehop_results::incomplete;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::voice::note;

/// The doubts of this command so far.
static DOUBTS: Mutex<EvidenceDoubts> = Mutex::new(EvidenceDoubts {
    not_verified: Vec::new(),
    missing: Vec::new(),
    incomplete: Vec::new(),
    failed_runs: Vec::new(),
});

struct EvidenceDoubts {
    /// The files without checksums.
    not_verified: Vec<String>,
    /// Sentences about companion files that are missing or cannot be read.
    missing: Vec<String>,
    /// Sentences about files that are not complete runs.
    incomplete: Vec<String>,
    /// Sentences about commands of which some timed runs failed.
    failed_runs: Vec<String>,
}

/// Reports once that checksums did not verify a file, if `verification` says so.
pub fn of_checksums(path: &Path, verification: Verification) {
    let Some(why) = verification.doubt() else { return };
    let name = shown::path(path);
    if is_new(|doubts| &mut doubts.not_verified, &name) {
        let remedy = format!("`corehop convert rows {name} -o NEW.parquet` adds checksums");
        note(&format!("{name}: {why}; {remedy}"));
    }
}

/// Reports once that a companion file is missing.
pub fn of_missing(file: &MissingFile) {
    let sentence = file.to_string();
    if is_new(|doubts| &mut doubts.missing, &sentence) {
        note(&sentence);
    }
}

/// Reports once that a companion file cannot be read.
pub fn of_unreadable(failure: &Failure) {
    let sentence = format!("{}; its rows are ignored", failure.sentence());
    if is_new(|doubts| &mut doubts.missing, &sentence) {
        note(&sentence);
    }
}

/// Reports once that a file is not a complete run.
pub fn of_end(path: &Path, reader: &Reader<File>) {
    let name = shown::path(path);
    let Some(why) = incomplete(&name, reader) else { return };
    let sentence = format!("{name}: {why}");
    if is_new(|doubts| &mut doubts.incomplete, &sentence) {
        note(&sentence);
    }
}

/// Reports once that the log of a placer is incomplete.
pub fn of_log(path: &Path, log: &PlacementLog) {
    if log.is_whole {
        return;
    }
    let sentence =
        format!("{}: the log is torn off, because the placer was killed", shown::path(path));
    if is_new(|doubts| &mut doubts.incomplete, &sentence) {
        note(&sentence);
    }
}

/// Reports once that some runs of a timed command failed, if that is so.
pub fn of_failed_runs(path: &Path, command: &HyperfineCommand) {
    let Some(failed) = command.failed.filter(|&failed| failed > 0) else { return };
    let sentence = format!(
        "{}: {failed} of {} runs of `{}` failed (exit code other than 0); their times count",
        shown::path(path),
        command.us.len(),
        command.command
    );
    if is_new(|doubts| &mut doubts.failed_runs, &sentence) {
        note(&sentence);
    }
}

/// Removes the doubts so far, in a process that answers several questions.
pub fn forget() {
    let mut doubts = DOUBTS.lock().unwrap_or_else(PoisonError::into_inner);
    doubts.not_verified.clear();
    doubts.missing.clear();
    doubts.incomplete.clear();
    doubts.failed_runs.clear();
}

/// Records a doubt; returns whether it is new.
fn is_new(list: impl FnOnce(&mut EvidenceDoubts) -> &mut Vec<String>, doubt: &str) -> bool {
    let mut doubts = DOUBTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = list(&mut doubts);
    let is_new = !known.iter().any(|it| it == doubt);
    if is_new {
        known.push(doubt.to_owned());
    }
    is_new
}

/// Returns the answer with the doubts so far, if there are any and the answer is an object. `not_verified` names the
/// files without checksums; `missing_files` contains one sentence for each missing file, `incomplete_files` one for each
/// incomplete file, and `failed_runs` one for each command with failed runs.
pub fn with(mut answer: Value) -> Value {
    let doubts = DOUBTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fields) = answer.as_object_mut() {
        for (name, list) in [
            ("not_verified", &doubts.not_verified),
            ("missing_files", &doubts.missing),
            ("incomplete_files", &doubts.incomplete),
            ("failed_runs", &doubts.failed_runs),
        ] {
            if !list.is_empty() {
                fields.insert(name.to_owned(), json!(list));
            }
        }
    }
    answer
}
