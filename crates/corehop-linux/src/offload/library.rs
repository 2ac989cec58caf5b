// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of the library, at a path that leads to this library for as long as a descendant of the program lives.
//!
//! The path is in the environment of all descendants. Each descendant loads the library at its exec, also as another
//! user and after this process has ended. So the path must be permanently trusted, all users that the program can
//! become must be able to read the file, and the file is never removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::trusted::{self, Lasting, Readers, as_the_user, own_user};
use super::{OffloadError, RefusedPath};
use crate::mapped::Mapped;
use corehop_system::folders;

/// The bytes of the library; empty if the library did not exist when this program was built.
#[cfg(carries_shim)]
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/corehop_shim.so"));
#[cfg(not(carries_shim))]
static LIBRARY: &[u8] = &[];

/// The file name of an installed library beside the program.
const INSTALLED: &str = "corehop_shim.so";
/// The folder of root's library, which other users may use too.
const ROOTS: &str = "/var/lib/corehop";
/// The folder for root's library if `/var/lib` cannot be written.
const ROOTS_SECOND: &str = "/run/corehop-library";

/// The path of the library's file, which is created if missing.
pub(super) fn path(readers: Readers) -> Result<PathBuf, OffloadError> {
    if LIBRARY.is_empty() {
        return Err(OffloadError::NotCarried);
    }
    let failed = |source| OffloadError::Failed { what: "giving up lent rights", source };
    as_the_user(|| find(&installed(), &folders(), readers)).map_err(failed)?
}

/// The possible places of an installed library: beside the program, where packages install libraries, and where
/// root's corehop wrote it.
fn installed() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let beside = folder
        .into_iter()
        .flat_map(|folder| [folder.join(INSTALLED), folder.join("../lib/corehop").join(INSTALLED)]);
    beside.chain([Path::new(ROOTS).join(name())]).collect()
}

/// The folders in which this user's library can be written.
fn folders() -> Vec<PathBuf> {
    match own_user() {
        0 => [ROOTS, ROOTS_SECOND].map(PathBuf::from).into(),
        _ => folders::data().into_iter().collect(),
    }
}

fn find(
    installed: &[PathBuf],
    folders: &[PathBuf],
    readers: Readers,
) -> Result<PathBuf, OffloadError> {
    let mut refused = Vec::new();
    for path in installed.iter().filter(|path| fs::symlink_metadata(path).is_ok()) {
        match usable(path, readers) {
            Ok(path) => return Ok(path),
            Err(why) => refused.push(RefusedPath { place: path.clone(), why }),
        }
    }
    for folder in folders {
        match put(folder, readers) {
            Ok(path) => return Ok(path),
            Err(why) => refused.push(RefusedPath { place: folder.clone(), why }),
        }
    }
    Err(OffloadError::NoLibrary(refused))
}

/// The file name, derived from the content (FNV-1a), so that two versions of corehop can coexist; the bytes are
/// compared as well.
fn name() -> String {
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let sum = LIBRARY.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("corehop_shim-{sum:016x}.so")
}

/// The link-free path of a library that the loader can preload from `path`.
fn usable(path: &Path, readers: Readers) -> Result<PathBuf, String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("has no folder".to_owned());
    };
    let path = trusted::check(folder, readers, Lasting::Always)?.join(name);
    if path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return Err("has a space, `:` or `$`, which the loader takes for something else".to_owned());
    }
    trusted::check_file(&path, readers)?;
    let text = |error: io::Error| error.to_string();
    if fs::read(&path).map_err(text)? != LIBRARY {
        return Err("is the library of another version".to_owned());
    }
    let file = File::open(&path).map_err(text)?;
    match Mapped::executable(&file, LIBRARY.len()) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err("is on a file system from which nothing is executed (mounted noexec)".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Writes the library into a folder, unless it is already there.
fn put(folder: &Path, readers: Readers) -> Result<PathBuf, String> {
    let folder = trusted::prepare(folder, 0o755, readers, Lasting::Always)?;
    let path = folder.join(name());
    let made = match fs::symlink_metadata(&path) {
        // What only this user can have put there, but is not the library: half of one, from a full file system.
        Ok(of) if of.is_file() && fs::read(&path).is_ok_and(|bytes| bytes != LIBRARY) => {
            write(&folder, &path)
        }
        Ok(_) => Ok(()),
        Err(_) => write(&folder, &path),
    };
    made.map_err(|error| error.to_string())?;
    usable(&path, readers).map_err(|why| format!("{}: {why}", name()))
}

/// Writes the library under a temporary name, then renames it.
fn write(folder: &Path, path: &Path) -> io::Result<()> {
    let unfinished = folder.join(format!(".{INSTALLED}-{}", trusted::random_name()?));
    let mut how = File::options();
    how.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = how.open(&unfinished)?;
    let mut finish = || {
        file.write_all(LIBRARY)?;
        file.set_permissions(PermissionsExt::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    let finished = finish();
    if finished.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    /// A permanently trusted folder, which excludes folders in `/tmp`; `None` if there is none.
    fn folder() -> Option<tempfile::TempDir> {
        let base = if own_user() == 0 { PathBuf::from("/var/lib") } else { folders::data()? };
        let folder = tempfile::Builder::new().prefix("corehop-test").tempdir_in(base).ok()?;
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).ok()?;
        Some(folder)
    }

    #[test]
    fn the_library_is_put_once_and_found_again_with_nothing_beside_it() {
        let Some(folder) = folder() else { return };
        let place = folder.path().join("new");
        let path = put(&place, Readers::All).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(put(&place, Readers::All), Ok(path.clone()));
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        fs::write(&path, "half of it").unwrap();
        assert_eq!(put(&place, Readers::All), Ok(path.clone()));
        assert!(fs::read(&path).unwrap() == LIBRARY);
    }

    #[test]
    fn a_link_a_foreign_file_and_one_of_another_version_are_not_preloaded() {
        let Some(folder) = folder() else { return };
        let path = put(folder.path(), Readers::All).unwrap();
        let other = folder.path().join(INSTALLED);
        fs::copy(&path, &other).unwrap();
        assert_eq!(usable(&other, Readers::All), Ok(other.clone()));
        fs::write(&other, "another").unwrap();
        assert!(usable(&other, Readers::All).unwrap_err().contains("another version"));
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        assert!(put(folder.path(), Readers::All).unwrap_err().contains("not a regular file"));
        fs::remove_file(&path).unwrap();
        put(folder.path(), Readers::All).unwrap();
        if own_user() == 0 {
            chown(&path, Some(65_534), None).unwrap();
            assert!(put(folder.path(), Readers::All).unwrap_err().contains("user 65534"));
        }
    }

    #[test]
    fn a_place_that_the_loader_would_misread_is_refused_and_the_next_one_is_taken() {
        let Some(folder) = folder() else { return };
        let (odd, good) = (folder.path().join("a:b"), folder.path().join("good"));
        assert!(put(&odd, Readers::All).unwrap_err().contains("loader"));
        let found = find(&[], &[odd, good.clone()], Readers::All).unwrap();
        assert_eq!(found, good.join(name()));
        let temporary = PathBuf::from("/tmp/corehop-test-none");
        let error = find(&[], std::slice::from_ref(&temporary), Readers::Own).unwrap_err();
        assert!(error.to_string().contains("`/tmp` can be written"), "{error}");
        assert!(!temporary.exists());
    }
}
