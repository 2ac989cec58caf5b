// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one home of writing a file: complete and on the disk, or not there at all.
//!
//! The contents go to a file of a random name in the target's folder, which is created exclusively, so
//! that no planted link is followed. It is synced, renamed to the target, and the folder is synced. No
//! input and no existing file is ever overwritten, unless `--force` allows the latter.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use corehop_linux::supervisor::interrupt;
use tempfile::NamedTempFile;

use crate::exit::{Exit, Failure};

/// The option of every verb that writes files.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Force {
    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// A file to write. It is checked before the work that its contents take.
#[derive(Debug, Clone)]
pub(crate) struct OutputFile {
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
    pub(crate) fn new(path: &Path, others: &[&Path], force: Force) -> Result<Self, Failure> {
        let named =
            |what: &str| Err(Failure::says(Exit::Usage, format!("{}: {what}", path.display())));
        if others.iter().any(|other| are_same(path, other)) {
            return named("this command reads or writes this file already: name another");
        }
        let file = Self { path: path.to_owned(), force: force.force, is_stream: is_stream(path) };
        if file.is_stream {
            return Ok(file);
        }
        match fs::symlink_metadata(path) {
            Ok(about) if about.is_dir() => named("this is a folder: name a file in it"),
            Ok(about) if about.is_symlink() => named(
                "this is not an ordinary file but a link, which is not followed: name another",
            ),
            Ok(about) if !about.is_file() => {
                named("this is not an ordinary file, and would be replaced by one: name another")
            }
            Ok(about) if !force.force && about.len() > 0 => {
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
        Failure::new(Exit::Failed, error).context(format!("writing {}", self.path.display()))
    }

    /// The same for a file that cannot be a device or a pipe.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn ordinary(path: &Path, others: &[&Path], force: Force) -> Result<Self, Failure> {
        let file = Self::new(path, others, force)?;
        if file.is_stream {
            let what = format!("{}: this is not an ordinary file: use --stream", path.display());
            return Err(Failure::says(Exit::Usage, what));
        }
        Ok(file)
    }

    /// The same for an option that may be left out.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn if_asked(
        path: Option<&PathBuf>,
        others: &[&Path],
        force: Force,
    ) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::new(path, others, force)).transpose()
    }

    /// Its name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name.
    pub(crate) fn into_path(self) -> PathBuf {
        self.path
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Exit 6, and nothing is left behind.
    pub(crate) fn write(&self, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.fill(|out| out.write_all(contents.as_ref()))
    }

    /// Writes the file by `fill`. If it fails, the target is as it was.
    ///
    /// # Errors
    /// Exit 6, and nothing is left behind.
    pub(crate) fn fill<E>(
        &self,
        fill: impl FnOnce(&mut File) -> Result<(), E>,
    ) -> Result<(), Failure>
    where
        E: Into<anyhow::Error>,
    {
        self.fill_by(|out| fill(out).map_err(|error| self.unwritten(error)))
    }

    /// As [`Self::fill`], with a `fill` whose failures may have another cause than the target: a damaged input.
    ///
    /// # Errors
    /// Those of `fill`; exit 6 if the file cannot be written. Nothing is left behind.
    pub(crate) fn fill_by(
        &self,
        fill: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_stream {
            let file = File::options().write(true).open(&self.path);
            return fill(&mut file.map_err(|error| self.unwritten(error))?);
        }
        let mut file = beside(&self.path).map_err(|error| self.unwritten(error))?;
        fill(file.as_file_mut())?;
        self.place(file).map_err(|error| self.unwritten(error))
    }

    /// Puts a complete file in its place.
    fn place(&self, file: NamedTempFile) -> io::Result<()> {
        file.as_file().sync_all()?;
        let replaces = self.force || fs::metadata(&self.path).is_ok_and(|about| about.len() == 0);
        if replaces {
            file.persist(&self.path)?;
        } else {
            file.persist_noclobber(&self.path)?;
        }
        sync_folder(&self.path)
    }
}

/// A file of a random name in the folder of `path`, removed when it is dropped, and when a signal ends the program.
///
/// # Errors
/// The system's.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder_of(path))?;
    interrupt::remove_at_end(file.path());
    Ok(file)
}

/// Makes the entry of `path` in its folder survive a crash of the system.
///
/// # Errors
/// The system's.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
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
mod tests {
    use super::*;

    const KEEP: Force = Force { force: false };
    const OVERWRITE: Force = Force { force: true };

    fn refused(path: &Path, others: &[&Path], force: Force) -> String {
        format!("{:?}", OutputFile::new(path, others, force).unwrap_err())
    }

    #[test]
    fn an_input_is_no_output_under_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let (input, link, hard) =
            (folder.path().join("q"), folder.path().join("l"), folder.path().join("h"));
        fs::write(&input, "samples").unwrap();
        std::os::unix::fs::symlink(&input, &link).unwrap();
        fs::hard_link(&input, &hard).unwrap();
        for name in [&input, &link, &hard, &folder.path().join("./q")] {
            let said = refused(name, &[&input], OVERWRITE);
            assert!(said.contains("already"), "{said}");
        }
        assert_eq!(fs::read_to_string(&input).unwrap(), "samples");
    }

    #[test]
    fn nothing_existing_is_overwritten_without_force_even_if_it_comes_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.json");
        let early = OutputFile::new(&path, &[], KEEP).unwrap();
        fs::write(&path, "another").unwrap();
        assert!(refused(&path, &[], KEEP).contains("--force"));
        assert!(early.write("mine").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
        OutputFile::new(&path, &[], OVERWRITE).unwrap().write("mine").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn links_folders_and_missing_folders_are_refused_and_devices_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, link) = (folder.path().join("secret"), folder.path().join("planted"));
        fs::write(&secret, "").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(refused(&link, &[], OVERWRITE).contains("link"));
        assert!(refused(folder.path(), &[], OVERWRITE).contains("folder"));
        assert!(refused(&folder.path().join("no/x"), &[], KEEP).contains("does not exist"));
        OutputFile::new(Path::new("/dev/null"), &[], KEEP).unwrap().write("x").unwrap();
        assert!(fs::read(&secret).unwrap().is_empty());
    }

    #[test]
    fn a_failure_while_filling_leaves_the_target_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "before").unwrap();
        let file = OutputFile::new(&path, &[], OVERWRITE).unwrap();
        let failed = file.fill(|out| {
            out.write_all(b"half")?;
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        });
        assert!(format!("{:?}", failed.unwrap_err()).contains("No space"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
