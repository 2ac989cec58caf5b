// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a run: `FILE.part` during the run, and `FILE` after its end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use corehop_plan::machine::SinkError;
use corehop_plan::platform::Platform;
use corehop_plan::samples::{
    BatchWriter, FileError, Provenance, Reader, RowKind, Rows, write_parquet,
};
use corehop_plan::shown;
use corehop_system::supervisor::interrupt;

use super::Destination;
use crate::failure::{Exit, Failure};
use crate::file::{Growing, OutputFile, Replaced, failed, lock};
use crate::input;

/// The rows of a run in progress, with one file for each kind.
pub(super) struct Outputs {
    outputs: Vec<Output>,
    spool: Option<Spool>,
}

/// The rows of a plan's first kind in an unnamed file, which disappears with the process in any case.
struct Spool {
    part: BatchWriter<BufWriter<File>>,
    file: File,
}

impl Spool {
    fn begin(folder: &Path, kind: RowKind, provenance: &Provenance) -> Result<Self, Failure> {
        let begin = || -> Result<Self, FileError> {
            let file = tempfile::tempfile_in(folder)?;
            let part = BatchWriter::begin(BufWriter::new(file.try_clone()?), kind, provenance)?;
            Ok(Self { part, file })
        };
        begin().map_err(|error| written(folder, error))
    }

    /// Ends the stream and returns the file, positioned at its beginning.
    fn end(self) -> Result<File, FileError> {
        let Self { part, mut file } = self;
        part.end()?;
        file.rewind()?;
        Ok(file)
    }
}

/// The files of a completed run.
pub(super) struct RunFiles {
    /// The named files, in the order of the kinds.
    pub(super) files: Vec<PathBuf>,
    /// The unnamed file with the rows of the plan's first kind.
    pub(super) spool: Option<File>,
}

impl Outputs {
    /// Opens a file for each of `kinds`, if there is a destination; for a resumed run, also returns the rows it
    /// already has.
    pub(super) fn begin(
        to: Option<&Destination>,
        spool: Option<&Path>,
        kinds: &[RowKind],
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        // Where a file is asked for, the rows are read from there.
        let spool = spool.filter(|_| !matches!(to, Some(Destination::File { .. })));
        let spool = spool.map(|folder| Spool::begin(folder, kinds[0], provenance)).transpose()?;
        let (mut outputs, mut earlier) = (Self { outputs: Vec::new(), spool }, Rows::default());
        let Some(to) = to else { return Ok((outputs, earlier)) };
        for &kind in &to.kept(kinds)? {
            match Output::begin(to, kind, provenance) {
                Ok((output, rows)) => {
                    outputs.outputs.push(output);
                    earlier.append(rows);
                }
                Err(failure) => {
                    outputs.discard();
                    return Err(failure);
                }
            }
        }
        Ok((outputs, earlier))
    }

    /// Appends rows and passes them to the system.
    pub(super) fn append(&mut self, rows: &Rows) -> Result<(), SinkError> {
        if let Some(spool) = &mut self.spool {
            spool.part.append(rows).map_err(|error| format!("the rows for --trace: {error}"))?;
        }
        for output in &mut self.outputs {
            output.part.append(rows).map_err(|error| {
                let stream = output.place.as_ref().map(|place| shown::path(&place.stream));
                format!("{}: {error}", stream.as_deref().unwrap_or("standard output"))
            })?;
        }
        Ok(())
    }

    /// Removes empty streams.
    pub(super) fn discard(self) {
        self.outputs.into_iter().for_each(Output::discard);
    }

    /// Ends the streams and converts each to Parquet. `finish` first changes the rows by information that only the
    /// complete run provides. Returns the files, in the order of the kinds.
    pub(super) fn end(
        self,
        provenance: &Provenance,
        finish: impl Fn(&mut Rows),
    ) -> Result<RunFiles, Failure> {
        // One that cannot be converted keeps no other from being so.
        let ended: Vec<Result<Option<PathBuf>, Failure>> =
            self.outputs.into_iter().map(|output| output.end(provenance, &finish)).collect();
        let spool = self.spool.map(Spool::end).transpose()?;
        let files = ended.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(RunFiles { files, spool })
    }
}

/// The rows of one kind that are being written.
struct Output {
    part: BatchWriter<Box<dyn Write>>,
    place: Option<ResultFile>,
}

/// The output file, and the locked stream until the run ends.
struct ResultFile {
    file: OutputFile,
    stream: PathBuf,
    /// Whether the stream contains rows of an earlier run.
    resumes: bool,
    _lock: Growing,
}

impl Output {
    fn begin(
        to: &Destination,
        kind: RowKind,
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        match to {
            Destination::Stdout(_) => {
                let out = Box::new(io::stdout()) as Box<dyn Write>;
                Ok((
                    Self { part: BatchWriter::begin(out, kind, provenance)?, place: None },
                    Rows::default(),
                ))
            }
            Destination::File { path, resume, force } => {
                Self::file(&kind.beside(path), (*resume, *force), kind, provenance)
            }
        }
    }

    fn file(
        path: &Path,
        (resume, force): (bool, bool),
        kind: RowKind,
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        // What is resumed is continued, not overwritten.
        let file = OutputFile::ordinary(path, &[], force || resume)?;
        let stream = stream_of(path);
        let earlier = if resume { Some(ResumeSource::find(path, &stream)?) } else { None };
        let rows = earlier.as_ref().map(|earlier| earlier.rows(kind, provenance)).transpose();
        let rows =
            rows.map_err(|failure| failure.context(format!("resuming {}", shown::path(path))))?;
        let rows = rows.unwrap_or_default();
        if earlier.is_none() {
            refuse_existing(&stream)?;
        }
        let replaced = earlier.as_ref().filter(|earlier| earlier.path == stream);
        let replaced = replaced.map(|earlier| Replaced::of(&earlier.file)).transpose();
        let replaced = replaced.map_err(|error| failed("resuming", path, error))?;
        let lock = Growing::begin(&stream, replaced)?;
        let (part, lock) = begin_stream(lock, &stream, kind, provenance, &rows)?;
        interrupt::rows_are_kept();
        let resumes = earlier.is_some();
        if let Some(earlier) = earlier.filter(|earlier| earlier.path == beside(path, "earlier")) {
            // An older corehop left it; the stream has its rows now, and is read before it.
            let _ = fs::remove_file(earlier.path);
        }
        Ok((Self { part, place: Some(ResultFile { file, stream, resumes, _lock: lock }) }, rows))
    }

    /// Removes an empty stream. A stream that an earlier run began is kept.
    fn discard(self) {
        if let Some(place) = self.place.filter(|place| !place.resumes) {
            // A file that cannot be removed is empty, and the next run will say that it is there.
            let _ = fs::remove_file(place.stream);
        }
    }

    /// Ends the stream and converts it to Parquet, which replaces the file atomically or not at all.
    fn end(
        self,
        provenance: &Provenance,
        finish: &impl Fn(&mut Rows),
    ) -> Result<Option<PathBuf>, Failure> {
        let Some(ResultFile { file, stream, .. }) = self.place else {
            self.part.end()?;
            return Ok(None);
        };
        self.part.end().map_err(|error| written(&stream, error))?;
        let convert = |out: &mut File| -> Result<(), FileError> {
            let mut rows = Reader::open(File::open(&stream)?)?;
            write_parquet(&mut rows, provenance, out, finish).map(|_| ())
        };
        file.fill(convert).map_err(|failure| {
            failure.context(format!("{} keeps every sample", shown::path(&stream)))
        })?;
        // The result is complete: what is left of the stream would only look like an interrupted run.
        remove(&stream)?;
        Ok(Some(file.into_path()))
    }
}

impl Destination {
    /// The kinds of a plan's rows that are stored: all, or the kind that is streamed.
    fn kept(&self, kinds: &[RowKind]) -> Result<Vec<RowKind>, Failure> {
        let Self::Stdout(asked) = self else { return Ok(kinds.to_vec()) };
        let Some(asked) = asked else { return Ok(kinds[..1].to_vec()) };
        let known = |kind: &&RowKind| kind.word() == asked;
        if let Some(&kind) = kinds.iter().find(known) {
            return Ok(vec![kind]);
        }
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        let what = format!(
            "--stream={asked}: this run has no such rows; use one of: {}",
            words.join(", ")
        );
        Err(Failure::says(Exit::Usage, what))
    }
}

/// Returns the file that contains the rows of `path` until the run is complete.
pub fn stream_of(path: &Path) -> PathBuf {
    beside(path, "part")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Rejects the stream of an interrupted run, or of a run in progress.
fn refuse_existing(stream: &Path) -> Result<(), Failure> {
    let Ok(about) = fs::symlink_metadata(stream) else { return Ok(()) };
    if about.is_file()
        && let Ok(file) = File::open(stream)
    {
        lock(&file, stream)?;
    }
    let what = format!(
        "{} belongs to an interrupted run: continue it with --resume, read it with `corehop report contents`, or remove it",
        shown::path(stream)
    );
    Err(Failure::says(Exit::Usage, what))
}

/// Writes the header of a stream and the rows it continues, and moves the file to its name.
fn begin_stream(
    file: Growing,
    stream: &Path,
    kind: RowKind,
    provenance: &Provenance,
    rows: &Rows,
) -> Result<(BatchWriter<Box<dyn Write>>, Growing), Failure> {
    let handle = file.file().try_clone().map_err(|error| failed("writing", stream, error))?;
    let out = Box::new(BufWriter::new(handle)) as Box<dyn Write>;
    let written = |error: FileError| written(stream, error);
    let mut part = BatchWriter::begin(out, kind, provenance).map_err(written)?;
    part.append(rows).map_err(written)?;
    // The rows of an earlier run are on the disk before they take the place of the earlier file.
    file.file().sync_all().map_err(|error| failed("writing", stream, error))?;
    Ok((part, file.place()?))
}

/// The rows of the run to resume: its stream, or its result.
struct ResumeSource {
    path: PathBuf,
    file: File,
}

impl ResumeSource {
    /// Prefers the stream over the result, and either over files of an older corehop that was resuming.
    fn find(path: &Path, stream: &Path) -> Result<Self, Failure> {
        let aside = beside(path, "earlier");
        let found = [stream, path, &aside].into_iter().find(|path| path.exists());
        let Some(found) = found else {
            let what = format!(
                "there is nothing to resume, because neither {} nor {} exists: omit --resume",
                shown::path(stream),
                shown::path(path)
            );
            return Err(Failure::says(Exit::Usage, what));
        };
        let named = |error: io::Error| failed("resuming", found, error);
        let file = File::open(found).map_err(named)?;
        lock(&file, found)?;
        // The owner of the lock may have replaced the file meanwhile.
        let now = fs::metadata(found).map_err(named)?;
        if file.metadata().map_err(named)?.ino() != now.ino() {
            let what = format!("another run is writing {}", shown::path(found));
            return Err(Failure::says(Exit::Usage, what));
        }
        Ok(Self { path: found.to_owned(), file })
    }

    fn rows(&self, kind: RowKind, now: &Provenance) -> Result<Rows, Failure> {
        let file = self.file.try_clone().map_err(|error| Failure::new(Exit::Failed, error))?;
        earlier_rows(input::opened(&self.path, file)?, kind, now)
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| failed("removing", path, error))
}

fn written(stream: &Path, error: FileError) -> Failure {
    Failure::from(error).context(format!("writing {}", shown::path(stream)))
}

/// The ID of the machine of a run; other known properties may differ between runs.
fn machine_of(provenance: &Provenance) -> String {
    let platform = Platform::from_toml(&provenance.platform);
    platform.map_or_else(|_| "an unknown machine".to_owned(), |platform| platform.id)
}

fn earlier_rows(
    mut reader: Reader<File>,
    kind: RowKind,
    now: &Provenance,
) -> Result<Rows, Failure> {
    let then = &reader.kind().provenance;
    if machine_of(then) != machine_of(now) {
        let sentence = format!(
            "the run began on {}, but this machine is {}: use the same --on on the same machine",
            machine_of(then),
            machine_of(now)
        );
        return Err(Failure::says(Exit::Usage, sentence));
    }
    if (&then.experiment, &then.parameters, then.seed)
        != (&now.experiment, &now.parameters, now.seed)
    {
        return Err(Failure::says(
            Exit::Usage,
            "the run began with other parameters; repeat its command with --resume",
        ));
    }
    let found = reader.kind().rows.clone();
    if found != kind.word() {
        return Err(FileError::Kind { found, expected: kind.word() }.into());
    }
    let mut rows = Rows::default();
    while let Some(batch) = reader.next_batch()? {
        rows.append(Rows::read(kind, &batch).map_err(FileError::from)?);
    }
    Ok(rows)
}
