// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one home of writing a file: complete and on the disk, or not there at all.
//!
//! The contents go to a file of a random name in the target's folder, which is created exclusively, so
//! that no planted link is followed. It is synced, renamed to the target, and the folder is synced. No
//! input and no existing file is ever overwritten, unless `--force` allows the latter.
//!
//! A [`Growing`] file has its name from its first byte on, and is locked for as long as it is written. A second writer of
//! that name is refused, even with `--force`. The test `homes` of the core refuses every other way of making files.

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

/// A file to write. It is checked before the work that its contents take.
#[derive(Debug, Clone)]
pub struct OutputFile {
    path: PathBuf,
    force: bool,
    /// A device or a pipe: it is written as it is.
    is_stream: bool,
}

impl OutputFile {
    /// The file at `path`. `others` are the inputs and the other outputs of the command.
    ///
    /// # Errors
    /// Exit 2 for one of `others`, an existing file without `force`, a folder, a link, or a folder that
    /// does not exist; exit 6 if the system does not create a file there.
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

    /// The file, if a file beside the target can be created now: a full disk or a folder of another user is reported
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

    /// The same for a file that cannot be a device or a pipe.
    ///
    /// # Errors
    /// As [`Self::new`].
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

    /// The same for an option that may be left out.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn if_asked(
        path: Option<&PathBuf>,
        others: &[&Path],
        force: impl Into<bool>,
    ) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::new(path, others, force)).transpose()
    }

    /// The files of a command that may write several: none of them is one of `inputs`, or another of them.
    ///
    /// # Errors
    /// As [`Self::new`].
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

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Exit 6, and nothing is left behind.
    pub fn write(&self, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.fill(|out| out.write_all(contents.as_ref()))
    }

    /// Writes the file by `fill`. If it fails, the target is as it was.
    ///
    /// # Errors
    /// Exit 6, and nothing is left behind.
    pub fn fill<E>(&self, fill: impl FnOnce(&mut File) -> Result<(), E>) -> Result<(), Failure>
    where
        E: Into<anyhow::Error>,
    {
        self.fill_by(|out| fill(out).map_err(|error| self.unwritten(error)))
    }

    /// As [`Self::fill`], with a `fill` whose failures may have another cause than the target: a damaged input.
    ///
    /// # Errors
    /// Those of `fill`; exit 6 if the file cannot be written. Nothing is left behind.
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

    /// Begins a file that grows: a second writer of the same name is refused here. The file has no name until
    /// [`Growing::place`].
    ///
    /// # Errors
    /// Exit 2 where another run writes the file, exit 6 where the file cannot be made.
    pub fn grow(&self) -> Result<Growing, Failure> {
        let path = self.path.clone();
        if self.is_stream {
            let file =
                open_stream(&path, READER_WAIT).map_err(|error| failed("opening", &path, error))?;
            return Ok(Growing { path, replaced: None, state: FilePlacement::Placed(file) });
        }
        Growing::begin(&path, self.earlier()?)
    }

    /// The file that this one may replace. None if there is none, or if nothing may be replaced.
    fn earlier(&self) -> Result<Option<Replaced>, Failure> {
        let replaces = |about: Metadata| about.is_file() && (self.force || about.len() == 0);
        if fs::symlink_metadata(&self.path).is_ok_and(replaces) {
            Replaced::hold(&self.path)
        } else {
            Ok(None)
        }
    }
}

/// A file that is to be replaced, and is locked, so that no other run replaces or writes it meanwhile.
#[derive(Debug)]
pub struct Replaced {
    /// Its device and inode: what has its name by then is replaced only if it is this file.
    id: (u64, u64),
    /// None where this user may not read it, and so not lock it.
    _held: Option<File>,
}

impl Replaced {
    /// A file that is open and locked.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        Ok(Self { id: id(&file.metadata()?), _held: Some(file) })
    }

    /// The ordinary file at `path`, locked against every other writer, or none if there is none.
    ///
    /// # Errors
    /// Exit 2 where another run writes the file, exit 6 for the system's errors.
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

    /// Whether it still has its name.
    fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|there| id(&there) == self.id)
    }
}

fn id(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// A file that is locked for as long as it is written, and that has its name while it grows.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    /// The file to replace; without one nothing is replaced.
    replaced: Option<Replaced>,
    state: FilePlacement,
}

#[derive(Debug)]
enum FilePlacement {
    /// Without its name. It is removed when it is dropped.
    Beside(NamedTempFile),
    Placed(File),
}

impl Growing {
    /// A file that will be at `path`, in place of `replaced`, or where nothing is.
    ///
    /// # Errors
    /// Exit 6.
    pub fn begin(path: &Path, replaced: Option<Replaced>) -> Result<Self, Failure> {
        let file = beside(path).map_err(|error| failed("creating", path, error))?;
        lock(file.as_file(), path)?;
        Ok(Self { path: path.to_owned(), replaced, state: FilePlacement::Beside(file) })
    }

    /// Gives the file its name. It stays locked until it is dropped.
    ///
    /// # Errors
    /// Exit 2 if a file of this name is there that may not be replaced, exit 6 for the system's errors.
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

    /// The file.
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

/// Puts a file in its place, on the disk: over `replaced`, or where nothing is.
fn place(file: NamedTempFile, path: &Path, replaced: Option<&Replaced>) -> io::Result<File> {
    let file = match replaced {
        Some(replaced) if replaced.is_at(path) => file.persist(path)?,
        _ => file.persist_noclobber(path)?,
    };
    sync_folder(path)?;
    Ok(file)
}

/// Makes a folder, and the folders above it.
///
/// # Errors
/// Exit 6.
pub fn folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| failed("creating", path, error))
}

/// Locks a file for as long as it is open: a run owns its output.
///
/// # Errors
/// Exit 2 where another run writes the file, exit 6 for the system's errors.
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

/// A step that the host failed in.
pub fn failed(doing: &str, path: &Path, error: io::Error) -> Failure {
    Failure::new(Exit::Failed, error).context(format!("{doing} {}", shown::path(path)))
}

/// The longest that a pipe waits for its reader.
const READER_WAIT: Duration = Duration::from_secs(10);

/// Opens a device or a pipe. An ordinary file that has taken its name meanwhile is not written.
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

/// A file of a random name in the folder of `path`, removed when it is dropped, and when a signal ends the program.
///
/// # Errors
/// The system's.
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

/// Makes the entry of `path` in its folder survive a crash of the system.
///
/// # Errors
/// The system's.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A device or a pipe, or a link to one, as `/dev/stdout` is.
fn is_stream(path: &Path) -> bool {
    let stream = |about: Metadata| {
        let kind = about.file_type();
        kind.is_char_device() || kind.is_fifo() || kind.is_socket()
    };
    fs::metadata(path).is_ok_and(stream)
}

/// Whether two names are of one file, existing or not.
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
