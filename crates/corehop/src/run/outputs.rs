// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a run: `FILE.part` during the run, `FILE` after its end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use corehop_core::platform::Platform;
use corehop_core::samples::{FileError, Part, Provenance, Reader, RowKind, Rows, write_parquet};

use super::Destination;
use crate::exit::{Exit, Failure};

/// The rows of a run being written: a file for each kind.
pub(super) struct Outputs(Vec<Output>);

impl Outputs {
    /// Opens a file for each of `kinds`; for a resumed run also gives the rows it already has.
    pub(super) fn begin(
        to: &Destination,
        kinds: &[RowKind],
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        let (mut outputs, mut earlier) = (Self(Vec::new()), Rows::default());
        for &kind in &to.kept(kinds)? {
            match Output::begin(to, kind, provenance) {
                Ok((output, rows)) => {
                    outputs.0.push(output);
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

    /// Appends rows and hands them to the system.
    pub(super) fn append(&mut self, rows: &Rows) -> Result<(), FileError> {
        self.0.iter_mut().try_for_each(|output| output.part.append(rows))
    }

    /// Gives up streams that hold nothing.
    pub(super) fn discard(self) {
        self.0.into_iter().for_each(Output::discard);
    }

    /// Ends the streams and turns each into Parquet, with the rows as `finish` leaves them: what only the
    /// whole run can tell. The files, in the order of the kinds.
    pub(super) fn end(
        self,
        provenance: &Provenance,
        finish: impl Fn(&mut Rows),
    ) -> Result<Vec<PathBuf>, Failure> {
        // One that cannot be converted keeps no other from being so.
        let ended: Vec<Result<Option<PathBuf>, Failure>> =
            self.0.into_iter().map(|output| output.end(provenance, &finish)).collect();
        ended.into_iter().filter_map(Result::transpose).collect()
    }
}

/// Rows of one kind being written.
struct Output {
    part: Part<Box<dyn Write>>,
    path: Option<PathBuf>,
}

impl Output {
    fn begin(
        to: &Destination,
        kind: RowKind,
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        match to {
            Destination::Stdout(_) | Destination::Nowhere => {
                let out = Box::new(io::stdout()) as Box<dyn Write>;
                Ok((
                    Self { part: Part::begin(out, kind, provenance)?, path: None },
                    Rows::default(),
                ))
            }
            Destination::File { path, resume } => {
                Self::file(&of_kind(path, kind), *resume, kind, provenance)
            }
        }
    }

    fn file(
        path: &Path,
        resume: bool,
        kind: RowKind,
        provenance: &Provenance,
    ) -> Result<(Self, Rows), Failure> {
        check_target(path)?;
        let part_path = beside(path, "part");
        let earlier = if resume { set_aside(path, &part_path, kind, provenance)? } else { None };
        let file = create(&part_path, resume)?;
        let out = Box::new(BufWriter::new(file)) as Box<dyn Write>;
        let mut part = Part::begin(out, kind, provenance).map_err(|error| {
            Failure::from(error).context(format!("writing {}", part_path.display()))
        })?;
        let rows = match earlier {
            Some((aside, rows)) => {
                part.append(&rows)?;
                remove(&aside)?;
                rows
            }
            None => Rows::default(),
        };
        Ok((Self { part, path: Some(path.to_owned()) }, rows))
    }

    /// Gives up a stream that holds nothing.
    fn discard(self) {
        if let Some(path) = self.path {
            // A file that cannot be removed is empty, and the next run will say that it is there.
            let _ = fs::remove_file(beside(&path, "part"));
        }
    }

    /// Ends the stream and turns it into Parquet, which takes the file's place at once or not at all.
    fn end(
        self,
        provenance: &Provenance,
        finish: &impl Fn(&mut Rows),
    ) -> Result<Option<PathBuf>, Failure> {
        self.part.end()?;
        let Some(path) = self.path else { return Ok(None) };
        let part_path = beside(&path, "part");
        let converting = beside(&path, "converting");
        let convert = || -> Result<(), FileError> {
            let mut rows = Reader::open(File::open(&part_path)?)?;
            let out = File::create(&converting)?;
            write_parquet(&mut rows, provenance, out, finish)?;
            fs::rename(&converting, &path)?;
            Ok(fs::remove_file(&part_path)?)
        };
        convert().map_err(|error| {
            // What could not be finished is not left lying about; the stream has everything.
            let _ = fs::remove_file(&converting);
            Failure::new(Exit::Failed, error).context(format!(
                "turning {} into {}; the former keeps every sample",
                part_path.display(),
                path.display()
            ))
        })?;
        Ok(Some(path))
    }
}

impl Destination {
    /// The kinds of a plan's rows that are kept: all, or the one that is streamed.
    fn kept(&self, kinds: &[RowKind]) -> Result<Vec<RowKind>, Failure> {
        let asked = match self {
            Self::Stdout(asked) => asked,
            Self::File { .. } => return Ok(kinds.to_vec()),
            Self::Nowhere => return Ok(Vec::new()),
        };
        let Some(asked) = asked else { return Ok(kinds[..1].to_vec()) };
        let known = |kind: &&RowKind| kind.word() == asked;
        match kinds.iter().find(known) {
            Some(&kind) => Ok(vec![kind]),
            None => {
                let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
                let what = format!("--stream={asked}: this run has rows of {}", words.join(", "));
                Err(Failure::says(Exit::Usage, what))
            }
        }
    }
}

/// The file of a further kind of rows: `x.jobs.parquet` beside `x.parquet`.
pub(crate) fn of_kind(path: &Path, kind: RowKind) -> PathBuf {
    let Some(suffix) = kind.suffix() else { return path.to_owned() };
    let mut extension = OsString::from(suffix);
    if let Some(usual) = path.extension() {
        extension.push(".");
        extension.push(usual);
    }
    path.with_extension(extension)
}

/// A result takes the place of an earlier one, and of nothing else: a device, a folder or a link stays
/// what it is.
fn check_target(path: &Path) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::says(Exit::Usage, format!("{} {what}", path.display())));
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => refuse("is a folder: name a file in it"),
        Ok(about) if !about.is_file() => refuse(
            "is not an ordinary file, and would be replaced by one: name another, or use --stream",
        ),
        Ok(_) => Ok(()),
        Err(_) if path.file_name().is_none() => refuse("is not the name of a file"),
        Err(_) => match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) if !folder.is_dir() => {
                refuse("cannot be written: its folder does not exist")
            }
            _ => Ok(()),
        },
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// A fresh stream's file. One that an interrupted run left is not overwritten.
fn create(part_path: &Path, resume: bool) -> Result<File, Failure> {
    if part_path.exists() && !resume {
        return Err(Failure::says(
            Exit::Usage,
            format!(
                "{} belongs to an interrupted run: continue it with --resume, read it with `corehop show`, or remove it",
                part_path.display()
            ),
        ));
    }
    File::create(part_path).map_err(|error| {
        Failure::new(Exit::Failed, error).context(format!("creating {}", part_path.display()))
    })
}

fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| {
        Failure::new(Exit::Failed, error).context(format!("removing {}", path.display()))
    })
}

/// The rows of the run to be resumed, and where they lie until they are copied.
fn set_aside(
    path: &Path,
    part_path: &Path,
    kind: RowKind,
    now: &Provenance,
) -> Result<Option<(PathBuf, Rows)>, Failure> {
    let aside = beside(path, "earlier");
    // An earlier attempt to resume may have ended while it was copying.
    if !aside.exists() {
        let Some(source) = [part_path, path].into_iter().find(|path| path.exists()) else {
            return Ok(None);
        };
        fs::rename(source, &aside).map_err(|error| {
            Failure::new(Exit::Failed, error).context(format!("renaming {}", source.display()))
        })?;
    }
    match earlier_rows(&aside, kind, now) {
        Ok(rows) => Ok(Some((aside, rows))),
        Err(failure) => {
            // Nothing was changed: the file goes back to where it was.
            let _ = fs::rename(&aside, part_path);
            Err(failure.context(format!("resuming {}", path.display())))
        }
    }
}

/// The machine that a run was on: its id; what else is known of it may be told otherwise each time.
fn machine_of(provenance: &Provenance) -> String {
    let platform = Platform::from_toml(&provenance.platform);
    platform.map_or_else(|_| "an unknown machine".to_owned(), |platform| platform.id)
}

fn earlier_rows(aside: &Path, kind: RowKind, now: &Provenance) -> Result<Rows, Failure> {
    let file = File::open(aside).map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut reader = Reader::open(file)?;
    let then = &reader.kind().provenance;
    if machine_of(then) != machine_of(now) {
        let sentence = format!(
            "the run began on {}, and this is {}: use the same --on on the same machine",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_lie_beside_their_samples() {
        let jobs = |path: &str| of_kind(Path::new(path), RowKind::TaskJobs);
        assert_eq!(jobs("out/x.parquet"), Path::new("out/x.jobs.parquet"));
        assert_eq!(jobs("x"), Path::new("x.jobs"));
        assert_eq!(of_kind(Path::new("x.parquet"), RowKind::Samples), Path::new("x.parquet"));
    }
}
