// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that belong beside a file of rows: their names, and the facts that are unknown if a file is missing.

use std::ffi::OsString;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

use crate::kinds::RowKind;
use crate::shown;

/// The extension of a file whose run is in progress or was killed.
const PART: &str = "part";

/// A missing file that belongs beside an existing file; its contents are unknown, not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    /// The name of the existing file.
    pub beside: String,
    /// The name of the missing file.
    pub name: String,
    /// The kind of the missing rows.
    pub kind: RowKind,
}

/// The experiment that writes samples and jobs in two files.
const TASK_SETS: &str = "schedule-sensitive";

/// The facts that are unknown without the file of each kind of rows.
const UNKNOWN: [(RowKind, &str); 5] = [
    (RowKind::Samples, "the samples of the task sets"),
    (RowKind::TaskJobs, "the jobs of the task sets: deadlines and response times"),
    (RowKind::Absences, "the absences of the recording: lengths, classes and costs"),
    (
        RowKind::Threads,
        "the threads of the recording, their CPU times, waits and numbers of preemptions, and preemptions \
         shorter than 10 µs",
    ),
    (RowKind::Runs, "the runs of the recording, their arms, wall times and exit codes"),
];

impl MissingFile {
    /// Returns the missing files of a recorded program that belong beside `path`, a file with rows of this kind.
    pub fn beside(kind: RowKind, path: &Path, is_there: impl Fn(&Path) -> bool) -> Vec<Self> {
        let is_recording = RowKind::OF_RECORDING.contains(&kind);
        let Some(first) = kind.first_of(path).filter(|_| is_recording) else { return Vec::new() };
        let lacks = RowKind::OF_RECORDING.into_iter().filter(|&it| it != kind);
        let lacks = lacks.filter(|it| !is_there(&it.beside(&first)));
        let missing = |kind: RowKind| Self {
            beside: shown::path(path),
            name: shown::path(&kind.beside(&first)),
            kind,
        };
        lacks.map(missing).collect()
    }

    /// Returns the file with the jobs of the task sets whose samples are in `path`, if that file is missing.
    pub fn jobs_beside(path: &Path, is_there: impl Fn(&Path) -> bool) -> Option<Self> {
        let jobs = RowKind::TaskJobs.beside(path);
        let (beside, name) = (shown::path(path), shown::path(&jobs));
        (!is_there(&jobs)).then_some(Self { beside, name, kind: RowKind::TaskJobs })
    }

    /// Returns the facts that are unknown without the missing file.
    fn unknown(&self) -> &'static str {
        let known = UNKNOWN.iter().find(|(kind, _)| *kind == self.kind);
        known.map_or("its rows", |(_, unknown)| unknown)
    }
}

impl Display for MissingFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { beside, name, .. } = self;
        let unknown = self.unknown();
        write!(
            f,
            "{name} is missing beside {beside}, so these values are unknown: {unknown}; copy {name} from the folder of the run"
        )
    }
}

impl RowKind {
    /// Returns the kinds of rows that a run of `experiment` writes into separate files beside a file of rows of
    /// this kind.
    pub fn written_with(self, experiment: &str) -> Vec<Self> {
        if Self::OF_RECORDING.contains(&self) {
            return Self::OF_RECORDING.into_iter().filter(|&kind| kind != self).collect();
        }
        let of_task_sets = self == Self::Samples && experiment == TASK_SETS;
        of_task_sets.then_some(Self::TaskJobs).into_iter().collect()
    }

    /// Returns the file for rows of this kind that belongs to `first`, the main file of a run, such as
    /// `x.jobs.parquet` for `x.parquet`, and `x.jobs.parquet.part` for `x.parquet.part`.
    pub fn beside(self, first: &Path) -> PathBuf {
        let Some(suffix) = self.suffix() else { return first.to_owned() };
        let (whole, is_part) = without_part(first);
        let mut extension = OsString::from(suffix);
        if let Some(usual) = whole.extension() {
            extension.push(".");
            extension.push(usual);
        }
        with_part(whole.with_extension(extension), is_part)
    }

    /// Returns the main file of the run to which the file `path` with rows of this kind belongs, or `None` if the name
    /// of `path` has another form.
    pub fn first_of(self, path: &Path) -> Option<PathBuf> {
        let Some(suffix) = self.suffix() else { return Some(path.to_owned()) };
        let (whole, is_part) = without_part(path);
        let usual = whole.extension()?.to_owned();
        let stem = whole.with_extension("");
        if usual == suffix {
            return Some(with_part(stem, is_part));
        }
        let is_beside = stem.extension().is_some_and(|it| it == suffix);
        is_beside.then(|| with_part(stem.with_extension(usual), is_part))
    }
}

fn without_part(path: &Path) -> (PathBuf, bool) {
    let is_part = path.extension().is_some_and(|it| it == PART);
    (if is_part { path.with_extension("") } else { path.to_owned() }, is_part)
}

fn with_part(path: PathBuf, is_part: bool) -> PathBuf {
    if !is_part {
        return path;
    }
    let mut name = path.into_os_string();
    name.push(".");
    name.push(PART);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_found_from_each_other() {
        let pairs = [
            ("out/x.parquet", "out/x.threads.parquet"),
            ("x", "x.threads"),
            ("a.b.parquet", "a.b.threads.parquet"),
            ("x.parquet.part", "x.threads.parquet.part"),
        ];
        for (first, threads) in pairs.map(|(one, other)| (Path::new(one), Path::new(other))) {
            assert_eq!(RowKind::Threads.beside(first), threads);
            assert_eq!(RowKind::Threads.first_of(threads).as_deref(), Some(first));
        }
        let first = Path::new("x.parquet");
        assert_eq!(RowKind::Samples.beside(first), first);
        assert_eq!(RowKind::Threads.first_of(Path::new("renamed.parquet")), None);
    }
}
