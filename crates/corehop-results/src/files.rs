// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the files that belong to the files that a user names: if a run wrote several files, all existing ones.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use corehop_plan::samples::{FileError, MissingFile, Reader, RowKind};
use corehop_stats::estimator::Estimator;
use parquet::file::reader::ChunkReader;

use crate::Gather;

/// The file system as results need it: the caller opens files and judges them.
pub trait FileSystem {
    /// The content of an open file.
    type Content: ChunkReader + Read + Seek + 'static;
    /// An error that names its file.
    type Error;
    /// Opens a file of rows for reading.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read.
    fn open(&self, path: &Path) -> Result<Reader<Self::Content>, Self::Error>;
    /// Returns the error for a problem with the rows of `path`.
    fn error(&self, path: &Path, error: FileError) -> Self::Error;
    /// Returns whether the file exists.
    fn is_there(&self, path: &Path) -> bool;
    /// Notes that a file which the user did not name cannot be read; the named files are evaluated without it.
    fn left_out(&self, error: Self::Error);
}

/// Gathers all rows of the `named` files, and of the files of the same runs beside them.
///
/// # Errors
/// Returns an error of a named file. A file beside a named file that cannot be read is left out, and a missing file is
/// reported as missing.
pub fn gathered<F: FileSystem>(
    named: &[&Path],
    estimator: Estimator,
    files: &F,
) -> Result<Gather, F::Error> {
    let mut gather = Gather::new(estimator);
    let mut beside: Vec<(RowKind, PathBuf)> = Vec::new();
    for path in named {
        let mut reader = files.open(path)?;
        for (kind, other) in companions(path, &reader) {
            if !named.contains(&&*other) && !beside.iter().any(|(_, known)| *known == other) {
                beside.push((kind, other));
            }
        }
        if expects_jobs(&reader) {
            gather.missing.extend(MissingFile::jobs_beside(path, |it| files.is_there(it)));
        }
        take(&mut gather, path, &mut reader).map_err(|error| files.error(path, error))?;
    }
    for (kind, path) in beside.iter().filter(|(_, path)| files.is_there(path)) {
        match files.open(path) {
            Ok(mut reader) if reader.rows_kind().is_ok_and(|found| found == *kind) => {
                take(&mut gather, path, &mut reader).map_err(|error| files.error(path, error))?;
            }
            // Another file has the name by chance.
            Ok(_) => {}
            Err(error) => files.left_out(error),
        }
    }
    Ok(gather)
}

fn take<S>(gather: &mut Gather, path: &Path, reader: &mut Reader<S>) -> Result<(), FileError>
where
    S: ChunkReader + Read + Seek + 'static,
{
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    gather.file(&name, reader)
}

/// Returns the other files that the run of this file wrote.
fn companions<S>(path: &Path, reader: &Reader<S>) -> Vec<(RowKind, PathBuf)>
where
    S: ChunkReader + Read + Seek + 'static,
{
    let Ok(kind) = reader.rows_kind() else { return Vec::new() };
    let Some(first) = kind.first_of(path) else { return Vec::new() };
    let others = kind.written_with(&reader.kind().provenance.experiment).into_iter();
    others.map(|kind| (kind, kind.beside(&first))).collect()
}

/// Returns whether the rows belong to a recorded program.
pub fn is_recording<S>(reader: &Reader<S>) -> bool
where
    S: ChunkReader + Read + Seek + 'static,
{
    reader.rows_kind().is_ok_and(|kind| RowKind::OF_RECORDING.contains(&kind))
}

/// Returns whether the rows are samples of task sets, whose jobs are in a file beside them.
pub fn expects_jobs<S>(reader: &Reader<S>) -> bool
where
    S: ChunkReader + Read + Seek + 'static,
{
    let experiment = &reader.kind().provenance.experiment;
    reader.rows_kind().is_ok_and(|kind| kind.written_with(experiment) == [RowKind::TaskJobs])
}
