// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of samples, read in process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use corehop_plan::samples::{
    FileError, FileKind, MissingFile, Reader, Row, RowKind, Sample, Verification,
};
use corehop_report::{listing, screen};
use corehop_results::{FileSystem, Results};
use corehop_stats::conditions::Spreads;
use corehop_stats::estimator::Estimator;
use pyo3::prelude::*;
use serde_json::json;

use crate::errors;
use crate::summary::Summary;
use crate::table::Table;

/// A file of rows, whole in memory.
#[pyclass(frozen, module = "corehop")]
#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    kind: FileKind,
    rows: RowKind,
    truncated: bool,
    doubts: FileDoubts,
    table: Py<Table>,
}

/// The doubts about a file.
#[derive(Debug)]
struct FileDoubts {
    verification: Verification,
    /// The files that belong beside it and are not there.
    missing: Vec<MissingFile>,
}

/// A file as it was read.
struct LoadedFile {
    kind: FileKind,
    rows: RowKind,
    truncated: bool,
    doubts: FileDoubts,
    table: Table,
}

/// Reads a corehop file: Parquet, or the `.part` of a running or killed run.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<File> {
    let LoadedFile { kind, rows, truncated, doubts, table } = py.detach(|| read(&path))?;
    Ok(File { path, kind, rows, truncated, doubts, table: Py::new(py, table)? })
}

fn read(path: &Path) -> PyResult<LoadedFile> {
    let about = std::fs::metadata(path).map_err(|error| errors::system(path, &error))?;
    // Opening a pipe would wait for its writer.
    if !about.is_file() && !about.is_dir() {
        return Err(errors::content(path, &"not an ordinary file"));
    }
    let file = std::fs::File::open(path).map_err(|error| errors::system(path, &error))?;
    all(path, file).map_err(|error| errors::file(path, error))
}

fn all(path: &Path, file: std::fs::File) -> Result<LoadedFile, FileError> {
    let mut reader = Reader::open(file)?;
    let kind = reader.kind().clone();
    let rows = reader.rows_kind()?;
    let mut batches = Vec::new();
    let mut schema = None;
    while let Some(batch) = reader.next_batch()? {
        // Batches of Parquet do not carry the metadata, which is to go wherever the rows go.
        let fields = batch.schema().fields().clone();
        let schema = schema.get_or_insert_with(|| of_kind(fields, &kind)).clone();
        batches.push(RecordBatch::try_new(schema, batch.columns().to_vec())?);
    }
    // A file without rows has the columns of its kind all the same.
    let schema = schema.unwrap_or_else(|| of_kind(rows.fields().into(), &kind));
    let mut missing = MissingFile::beside(rows, path, Path::exists);
    // Early files know of no runs.
    let knows_runs = schema.column_with_name("run").is_some();
    missing.retain(|it| it.kind != RowKind::Runs || knows_runs);
    if rows.written_with(&kind.provenance.experiment).contains(&RowKind::TaskJobs) {
        missing.extend(MissingFile::jobs_beside(path, Path::exists));
    }
    let doubts = FileDoubts { verification: reader.verification(), missing };
    let (truncated, table) = (reader.truncated(), Table::new(schema, batches));
    Ok(LoadedFile { kind, rows, truncated, doubts, table })
}

fn of_kind(fields: Fields, kind: &FileKind) -> SchemaRef {
    Arc::new(Schema::new_with_metadata(fields, kind.metadata()))
}

/// The files of this host; doubts about them are attributes of [`File`].
struct LocalFiles;

impl FileSystem for LocalFiles {
    type Content = std::fs::File;
    type Error = PyErr;

    fn open(&self, path: &Path) -> PyResult<Reader<std::fs::File>> {
        let file = std::fs::File::open(path).map_err(|error| errors::system(path, &error))?;
        Reader::open(file).map_err(|error| self.error(path, error))
    }

    fn error(&self, path: &Path, error: FileError) -> PyErr {
        errors::file(path, error)
    }

    fn is_there(&self, path: &Path) -> bool {
        path.exists()
    }

    fn left_out(&self, _: PyErr) {}
}

impl File {
    /// The contents of the file, and of the others of its run, as a report has them.
    pub(crate) fn gathered(&self, estimator: Estimator) -> PyResult<Results> {
        Ok(corehop_results::gathered(&[&self.path], estimator, &LocalFiles)?.finish())
    }

    /// The rows of every batch, as structs of the core.
    pub(crate) fn rows<R: Row>(&self) -> PyResult<Vec<R>> {
        let mut rows = Vec::new();
        for batch in self.table.get().batches() {
            rows.extend(R::rows(batch).map_err(errors::damaged)?);
        }
        Ok(rows)
    }

    /// The kind of the rows.
    pub(crate) const fn rows_kind(&self) -> RowKind {
        self.rows
    }

    /// The machine that the rows are from, where its description can be read.
    pub(crate) fn platform(&self) -> Option<corehop_plan::platform::Platform> {
        corehop_plan::platform::Platform::from_toml(&self.kind.provenance.platform).ok()
    }

    /// Says that rows of another kind would be needed.
    pub(crate) fn lacks(&self, what: &str) -> PyErr {
        let path = self.path.display();
        errors::usage(format!(
            "{path} holds rows of the kind `{}`, which have no {what}",
            self.kind.rows
        ))
    }
}

#[pymethods]
impl File {
    /// The row type, for example `samples` or `switches`.
    #[getter]
    pub(crate) fn kind(&self) -> &str {
        &self.kind.rows
    }

    /// The version of the row types that the file was written with.
    #[getter]
    fn schema_version(&self) -> u32 {
        self.kind.schema
    }

    /// Whether a crash has torn the file off in the middle of a batch.
    #[getter]
    fn truncated(&self) -> bool {
        self.truncated
    }

    /// Whether checksums vouch for the rows.
    #[getter]
    fn verified(&self) -> bool {
        self.doubts.verification.is_verified()
    }

    /// The doubts about the file, as sentences: no checksums, files that are missing beside it.
    #[getter]
    fn doubts(&self) -> Vec<String> {
        let path = self.path.display();
        let checksums = self.doubts.verification.doubt().map(|why| format!("{path}: {why}"));
        let missing = self.doubts.missing.iter().map(ToString::to_string);
        checksums.into_iter().chain(missing).collect()
    }

    /// The rows.
    #[getter]
    fn table(&self, py: Python<'_>) -> Py<Table> {
        self.table.clone_ref(py)
    }

    /// The origin of the rows, as JSON.
    fn provenance(&self) -> String {
        self.kind.provenance.to_json()
    }

    /// Name and meaning of every column; a file of an earlier program may lack some.
    fn docs(&self) -> Vec<(&'static str, &'static str)> {
        let mut docs = self.rows.docs();
        docs.retain(|(name, _)| self.table.get().schema().column_with_name(name).is_some());
        docs
    }

    /// The answer of the file, in one sentence: the first of `corehop report`.
    fn sentence(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| Ok(listing::answer(&self.gathered(Estimator::Difference)?)))
    }

    /// The text that `corehop report` prints below its sentence, for a terminal of `width` columns.
    fn text(&self, py: Python<'_>, width: usize) -> PyResult<String> {
        py.detach(|| Ok(screen::screen(&self.gathered(Estimator::Difference)?, width, true)))
    }

    /// The summary of the file, cell by cell.
    fn summary(&self, py: Python<'_>, estimator: &str) -> PyResult<Summary> {
        py.detach(|| Summary::of(self, estimator))
    }

    /// The causes of the spread of each cell of a run of `conditions`, as JSON.
    fn conditions(&self, py: Python<'_>, estimator: &str) -> PyResult<String> {
        let estimator: Estimator = estimator.parse().map_err(errors::usage)?;
        py.detach(|| {
            let mut spreads = Spreads::new(estimator);
            spreads.take(&self.rows()?);
            Ok(json!(spreads.finish()).to_string())
        })
    }

    /// The rows with one more column, `delay_ns`: the delay by `estimator`.
    fn delays(&self, py: Python<'_>, estimator: &str) -> PyResult<Table> {
        py.detach(|| self.with_delays(estimator))
    }
}

impl File {
    fn with_delays(&self, estimator: &str) -> PyResult<Table> {
        let estimator: Estimator = estimator.parse().map_err(errors::usage)?;
        if self.kind.rows != Sample::KIND {
            return Err(self.lacks("delay"));
        }
        let table = self.table.get();
        let field = Field::new("delay_ns", DataType::Float64, true);
        let fields = table.schema().fields().iter().cloned().chain([Arc::new(field)]);
        let fields: Vec<_> = fields.collect();
        let schema = Schema::new_with_metadata(fields, table.schema().metadata().clone());
        let schema = Arc::new(schema);
        let widen = |batch: &RecordBatch| {
            let samples = Sample::rows(batch).map_err(errors::damaged)?;
            let delays: Float64Array =
                samples.iter().map(|sample| estimator.delay_ns(sample)).collect();
            let mut columns = batch.columns().to_vec();
            columns.push(Arc::new(delays) as ArrayRef);
            RecordBatch::try_new(schema.clone(), columns).map_err(errors::broken)
        };
        let batches = table.batches().iter().map(widen).collect::<PyResult<Vec<_>>>()?;
        Ok(Table::new(schema, batches))
    }
}
