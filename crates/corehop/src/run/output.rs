// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a run: `FILE.part` while it goes on, `FILE` when it has ended.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use corehop_core::platform::Platform;
use corehop_core::samples::{FileError, Part, Provenance, Reader, Row, write_parquet};

use super::Destination;
use crate::exit::{Exit, Failure};

/// Rows being written.
pub(super) struct Output<R: Row> {
    part: Part<R, Box<dyn Write>>,
    path: Option<PathBuf>,
}

impl<R: Row> Output<R> {
    /// Opens the destination; for a resumed run also gives the rows it already has.
    pub(super) fn begin(
        to: &Destination,
        provenance: &Provenance,
    ) -> Result<(Self, Vec<R>), Failure> {
        match to {
            Destination::Stdout => {
                let part = Part::begin(Box::new(io::stdout()) as Box<dyn Write>, provenance)?;
                Ok((Self { part, path: None }, Vec::new()))
            }
            Destination::File { path, resume } => Self::file(path, *resume, provenance),
        }
    }

    fn file(path: &Path, resume: bool, provenance: &Provenance) -> Result<(Self, Vec<R>), Failure> {
        check_target(path)?;
        let part_path = beside(path, "part");
        let earlier = if resume { set_aside::<R>(path, &part_path, provenance)? } else { None };
        let file = create(&part_path, resume)?;
        let begun = Part::begin(Box::new(BufWriter::new(file)) as Box<dyn Write>, provenance);
        let mut part = begun.map_err(|error| {
            Failure::from(error).context(format!("writing {}", part_path.display()))
        })?;
        let rows = match earlier {
            Some((aside, rows)) => {
                part.append(&rows)?;
                remove(&aside)?;
                rows
            }
            None => Vec::new(),
        };
        Ok((Self { part, path: Some(path.to_owned()) }, rows))
    }

    /// Appends rows and hands them to the system.
    pub(super) fn append(&mut self, rows: &[R]) -> Result<(), FileError> {
        self.part.append(rows)
    }

    /// Gives up a stream that holds nothing.
    pub(super) fn discard(self) {
        if let Some(path) = self.path {
            // A file that cannot be removed is empty, and the next run will say that it is there.
            let _ = fs::remove_file(beside(&path, "part"));
        }
    }

    /// Ends the stream and turns it into Parquet, which takes the file's place at once or not at all.
    pub(super) fn end(self, provenance: &Provenance) -> Result<Option<PathBuf>, Failure> {
        self.end_with(provenance, |_| {})
    }

    /// The same, with each row as `finish` leaves it: what only the whole run can tell.
    pub(super) fn end_with(
        self,
        provenance: &Provenance,
        finish: impl Fn(&mut R),
    ) -> Result<Option<PathBuf>, Failure> {
        self.part.end()?;
        let Some(path) = self.path else { return Ok(None) };
        let part_path = beside(&path, "part");
        let converting = beside(&path, "converting");
        let convert = || -> Result<(), FileError> {
            let mut rows = Reader::open(File::open(&part_path)?)?;
            let out = File::create(&converting)?;
            write_parquet::<R, _, _>(&mut rows, provenance, out, finish)?;
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

/// A result takes the place of an earlier one, and of nothing else: a device, a folder or a link stays
/// what it is.
fn check_target(path: &Path) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::says(Exit::Usage, format!("{} {what}", path.display())));
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => refuse("is a folder: name a file in it"),
        Ok(about) if !about.is_file() => refuse(
            "is no ordinary file, and would be replaced by one: name another, or write with --stream",
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
                "{} is what an interrupted run left: go on with --resume, read it with `corehop show`, or remove it",
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
fn set_aside<R: Row>(
    path: &Path,
    part_path: &Path,
    now: &Provenance,
) -> Result<Option<(PathBuf, Vec<R>)>, Failure> {
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
    match earlier_rows(&aside, now) {
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

fn earlier_rows<R: Row>(aside: &Path, now: &Provenance) -> Result<Vec<R>, Failure> {
    let file = File::open(aside).map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut reader = Reader::open(file)?;
    let then = &reader.kind().provenance;
    if machine_of(then) != machine_of(now) {
        let sentence = format!(
            "it was begun on {}, and this is {}: give the same --on, on the same machine",
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
            "it was begun with other parameters; repeat the command that began it, with --resume",
        ));
    }
    Ok(reader.all()?)
}
