// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only module that writes files: a file is complete and on disk, or does not exist.
//!
//! The contents go to a file of a random name in the target's folder. The temporary file is created exclusively, so
//! that no planted link is followed. The file is synced and renamed to the target, and then the folder is synced.
//! Inputs are never overwritten, and existing files only with `--force`.
//!
//! A [`Growing`] file has its name from its first byte on, and is locked while it is written. A second writer of that
//! name is rejected, even with `--force`. The test `homes` of the core rejects every other way of creating files.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corehop_plan::shown;
use corehop_system::flock::{Locking, try_lock};
use corehop_system::proc::flock_owner;
use corehop_system::supervisor::interrupt;
use tempfile::NamedTempFile;

use crate::failure::{Exit, Failure};

/// An output file. The file is checked before its contents are computed.
#[derive(Debug, Clone)]
pub struct OutputFile {
    path: PathBuf,
    force: bool,
    /// Whether the target is a device or a pipe, which is written directly.
    is_stream: bool,
}

impl OutputFile {
    /// Creates an output file at `path`. `others` are the inputs and the other outputs of the command.
    ///
    /// # Errors
    /// Fails with exit code 2 for one of `others`, an existing file without `force`, a folder, a link, or a folder that
    /// does not exist, and with exit code 6 if the system does not create a file there.
    pub fn new(path: &Path, others: &[&Path], force: impl Into<bool>) -> Result<Self, Failure> {
        let force: bool = force.into();
        let named =
            |what: &str| Err(Failure::says(Exit::Usage, format!("{}: {what}", shown::path(path))));
        if others.iter().any(|other| are_same(path, other)) {
            return named("this command already reads or writes this file: use another name");
        }
        let file = Self { path: path.to_owned(), force, is_stream: is_stream(path) };
        if file.is_stream {
            return Ok(file);
        }
        match fs::symlink_metadata(path) {
            Ok(about) if about.is_dir() => named("this is a folder: name a file in it"),
            Ok(about) if about.is_symlink() => named(
                "this is a link, not an ordinary file, and corehop does not follow it: use another name",
            ),
            Ok(about) if !about.is_file() => named(
                "this is not an ordinary file, and would be replaced by one: use another name",
            ),
            Ok(about) if !force && about.len() > 0 => {
                named("this file exists: name another, or overwrite it with --force")
            }
            Err(_) if path.file_name().is_none() => named("this is not the name of a file"),
            Err(_) if !folder_of(path).is_dir() => named("its folder does not exist"),
            Ok(_) | Err(_) => file.can_be_created(),
        }
    }

    /// Checks that a file can be created beside the target, so that a full disk or a foreign folder is reported
    /// before a program runs for hours.
    fn can_be_created(self) -> Result<Self, Failure> {
        match beside(&self.path) {
            Ok(_) => Ok(self),
            Err(error) => Err(self.unwritten(error)),
        }
    }

    fn unwritten(&self, error: impl Into<anyhow::Error>) -> Failure {
        Failure::new(Exit::Failed, error).context(format!("writing {}", shown::path(&self.path)))
    }

    /// Creates an output file that cannot be a device or a pipe.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::new`].
    pub fn ordinary(
        path: &Path,
        others: &[&Path],
        force: impl Into<bool>,
    ) -> Result<Self, Failure> {
        let file = Self::new(path, others, force)?;
        if file.is_stream {
            let what = format!("{}: this is not an ordinary file: use --stream", shown::path(path));
            return Err(Failure::says(Exit::Usage, what));
        }
        Ok(file)
    }

    /// Creates the output file of an optional option.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::new`].
    pub fn if_asked(
        path: Option<&PathBuf>,
        others: &[&Path],
        force: impl Into<bool>,
    ) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::new(path, others, force)).transpose()
    }

    /// Creates the output files of a command that may write several; each must differ from all `inputs` and from the
    /// other outputs.
    ///
    /// # Errors
    /// Fails with the errors of [`Self::new`].
    pub fn all_asked<const N: usize>(
        paths: [Option<&PathBuf>; N],
        inputs: &[&Path],
        force: impl Into<bool>,
    ) -> Result<[Option<Self>; N], Failure> {
        let (force, mut others) = (force.into(), inputs.to_vec());
        let mut files = [const { None }; N];
        for (file, path) in files.iter_mut().zip(paths) {
            *file = Self::if_asked(path, &others, force)?;
            others.extend(path.map(PathBuf::as_path));
        }
        Ok(files)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Fails with exit code 6; in that case no file is left.
    pub fn write(&self, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.fill(|out| out.write_all(contents.as_ref()))
    }

    /// Writes the file by calling `fill`. If `fill` fails, the target is unchanged.
    ///
    /// # Errors
    /// Fails with exit code 6; in that case no file is left.
    pub fn fill<E>(&self, fill: impl FnOnce(&mut File) -> Result<(), E>) -> Result<(), Failure>
    where
        E: Into<anyhow::Error>,
    {
        self.fill_by(|out| fill(out).map_err(|error| self.unwritten(error)))
    }

    /// Writes the file like [`Self::fill`], with a `fill` whose errors may have a cause other than the target, such as
    /// a damaged input.
    ///
    /// # Errors
    /// Fails with the errors of `fill`, or with exit code 6 if the file cannot be written. In either case no file is
    /// left.
    pub fn fill_by(
        &self,
        fill: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_stream {
            let file = open_stream(&self.path, READER_WAIT);
            return fill(&mut file.map_err(|error| self.unwritten(error))?);
        }
        let mut file = beside(&self.path).map_err(|error| self.unwritten(error))?;
        fill(file.as_file_mut())?;
        let earlier = self.earlier()?;
        file.as_file().sync_all().map_err(|error| self.unwritten(error))?;
        place(file, &self.path, earlier.as_ref()).map_err(|error| self.unwritten(error)).map(drop)
    }

    /// Begins a growing file. A second writer of this name is rejected. The file has no name until
    /// [`Growing::place`].
    ///
    /// # Errors
    /// Fails with exit code 2 if another run writes the file, and with exit code 6 if the file cannot be created.
    pub fn grow(&self) -> Result<Growing, Failure> {
        let path = self.path.clone();
        if self.is_stream {
            let file =
                open_stream(&path, READER_WAIT).map_err(|error| failed("opening", &path, error))?;
            return Ok(Growing { path, replaced: None, state: FilePlacement::Placed(file) });
        }
        Growing::begin(&path, self.earlier()?)
    }

    /// The existing file that this file may replace. Returns `None` if no file exists, or no file may be replaced.
    fn earlier(&self) -> Result<Option<Replaced>, Failure> {
        let replaces = |about: Metadata| about.is_file() && (self.force || about.len() == 0);
        if fs::symlink_metadata(&self.path).is_ok_and(replaces) {
            Replaced::hold(&self.path)
        } else {
            Ok(None)
        }
    }
}

/// An existing file that will be replaced. The file is locked, so that no other run replaces or writes it meanwhile.
#[derive(Debug)]
pub struct Replaced {
    /// The device and inode numbers of the file, so that a different file with its name is not replaced.
    id: (u64, u64),
    /// The open file that holds the lock; `None` if this user may not read the file.
    _held: Option<File>,
}

impl Replaced {
    /// Describes an open and locked file.
    ///
    /// # Errors
    /// Fails with the system's errors.
    pub fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        Ok(Self { id: id(&file.metadata()?), _held: Some(file) })
    }

    /// Locks the regular file at `path` against all other writers; `None` if `path` names no regular file.
    ///
    /// # Errors
    /// Fails with exit code 2 if another run writes the file, and with exit code 6 for the system's errors.
    fn hold(path: &Path) -> Result<Option<Self>, Failure> {
        let opening = |error| failed("opening", path, error);
        let there = match fs::symlink_metadata(path) {
            Ok(about) => id(&about),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(opening(error)),
        };
        let unfollowed = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match File::options().read(true).custom_flags(unfollowed).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Some(Self { id: there, _held: None }));
            }
            Err(error) => return Err(opening(error)),
        };
        lock(&file, path)?;
        let held = Self { id: id(&file.metadata().map_err(opening)?), _held: Some(file) };
        // The owner of the lock may have replaced the file meanwhile.
        if held.is_at(path) { Ok(Some(held)) } else { Err(busy(path, None)) }
    }

    /// Whether the file still has its name.
    fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|there| id(&there) == self.id)
    }
}

fn id(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// A file that is locked while it is written, and has its final name while it grows.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    /// The file to replace; `None` if nothing may be replaced.
    replaced: Option<Replaced>,
    state: FilePlacement,
}

#[derive(Debug)]
enum FilePlacement {
    /// The file before it gets its name. Dropping the value removes the file.
    Beside(NamedTempFile),
    Placed(File),
}

impl Growing {
    /// Begins a file that will be at `path`, replacing `replaced`, or nothing.
    ///
    /// # Errors
    /// Fails with exit code 6 if the file cannot be created.
    pub fn begin(path: &Path, replaced: Option<Replaced>) -> Result<Self, Failure> {
        let file = beside(path).map_err(|error| failed("creating", path, error))?;
        lock(file.as_file(), path)?;
        Ok(Self { path: path.to_owned(), replaced, state: FilePlacement::Beside(file) })
    }

    /// Gives the file its name. The file stays locked until it is dropped.
    ///
    /// # Errors
    /// Fails with exit code 2 if a file with this name exists that may not be replaced, and with exit code 6 for the
    /// system's errors.
    pub fn place(self) -> Result<Self, Failure> {
        let Self { path, replaced, state } = self;
        let file = match state {
            FilePlacement::Placed(file) => file,
            FilePlacement::Beside(file) => match place(file, &path, replaced.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let what = "another program has just created this file: use another name";
                    return Err(Failure::says(
                        Exit::Usage,
                        format!("{}: {what}", shown::path(&path)),
                    ));
                }
                placed => placed.map_err(|error| failed("placing", &path, error))?,
            },
        };
        Ok(Self { path, replaced: None, state: FilePlacement::Placed(file) })
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        match &self.state {
            FilePlacement::Beside(file) => file.as_file(),
            FilePlacement::Placed(file) => file,
        }
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Moves a file to its final name and to disk, replacing `replaced`, or nothing.
fn place(file: NamedTempFile, path: &Path, replaced: Option<&Replaced>) -> io::Result<File> {
    let file = match replaced {
        Some(replaced) if replaced.is_at(path) => file.persist(path)?,
        _ => file.persist_noclobber(path)?,
    };
    sync_folder(path)?;
    Ok(file)
}

/// Creates a folder with all missing parent folders.
///
/// # Errors
/// Fails with exit code 6 if the folder cannot be created.
pub fn folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| failed("creating", path, error))
}

/// Locks a file while it is open, because a run owns its output.
///
/// # Errors
/// Fails with exit code 2 if another run writes the file, and with exit code 6 for the system's errors.
pub fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    match try_lock(file) {
        Locking::Busy => Err(busy(path, flock_owner(file))),
        // Without locks two runs at once are not noticed. A stream that stayed behind, empty, would block the next run.
        Locking::Held | Locking::Refused(_) => Ok(()),
    }
}

fn busy(path: &Path, owner: Option<u32>) -> Failure {
    let owner = owner.map_or_else(String::new, |pid| format!(", process {pid}"));
    let what = format!(
        "another run is writing {}{owner}: wait until it ends, or name another file",
        shown::path(path)
    );
    Failure::says(Exit::Usage, what)
}

/// Creates the failure of a step that the host caused.
pub fn failed(doing: &str, path: &Path, error: io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context(format!("{doing} {}", shown::path(path)))
}

/// The longest time for which a pipe waits for its reader.
const READER_WAIT: Duration = Duration::from_secs(10);

/// Opens a device or a pipe. The call fails if a regular file has taken the name meanwhile, and does not write this
/// file.
fn open_stream(path: &Path, patience: Duration) -> io::Result<File> {
    let begun = Instant::now();
    let file = loop {
        let tried = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path);
        match tried {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if begun.elapsed() > patience || interrupt::requested() {
                    return Err(io::Error::other("no process reads this pipe"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => break opened?,
        }
    };
    if file.metadata()?.is_file() {
        return Err(io::Error::other("this was a device or a pipe, and is now an ordinary file"));
    }
    // A reader may be slow.
    // SAFETY: sets the flags of an open descriptor; the access mode is not among those that change.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// A file with a random name in the folder of `path`, which is removed when it is dropped, and when a signal ends the
/// program.
///
/// # Errors
/// Fails with the system's errors.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".tmp").make_in(
        folder_of(path),
        |path| {
            // Before the file is there: a signal may come between the two.
            interrupt::remove_at_end(path);
            File::options().read(true).write(true).create_new(true).mode(0o666).open(path)
        },
    )?;
    Ok(file)
}

/// Syncs the folder of `path`, so that the entry survives a system crash.
///
/// # Errors
/// Fails with the system's errors.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether the path is a device or a pipe, or a link to one, like `/dev/stdout`.
fn is_stream(path: &Path) -> bool {
    let stream = |about: Metadata| {
        let kind = about.file_type();
        kind.is_char_device() || kind.is_fifo() || kind.is_socket()
    };
    fs::metadata(path).is_ok_and(stream)
}

/// Whether two paths name one file, existing or not.
fn are_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    match (inode(one), inode(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => std::path::absolute(one).ok() == std::path::absolute(other).ok(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
