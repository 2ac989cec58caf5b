// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that no other user can change the folders and files of the library and the board.
//!
//! A path is trusted if each folder from `/` on belongs to root or to this user and only its owner can write to it.
//! Later processes that open the path then find the file that this process found.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use corehop_plan::shown;

use corehop_system::rights;

/// The number of the capability to become another user, and of the request whether it is inherited.
const CAP_SETUID: libc::c_ulong = 7;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The users who must be able to read a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// All users, because the program may become any of them.
    All,
    /// Only this user, because the program cannot become another user.
    Own,
}

impl Readers {
    /// The users that a program of this process can become. Privileges of the executable file are not inherited.
    pub(super) fn of_programs() -> Self {
        // SAFETY: numbers only.
        let passed_on = unsafe {
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET, CAP_SETUID, 0, 0)
        };
        if own_user() == 0 || passed_on == 1 { Self::All } else { Self::Own }
    }
}

/// The time for which a path must lead to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasting {
    /// Permanently: if a clean-up of a folder like `/tmp` removes the file, any user could create the name again.
    Always,
    /// While this process runs: only the owner of a file can remove it from a sticky folder.
    WhileUsed,
}

/// The user who started this process.
pub(super) fn own_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::getuid() }
}

/// Runs `what` with the privileges of the user who started this process, without privileges of the executable file.
pub(super) fn as_the_user<T: Send>(what: impl FnOnce() -> T + Send) -> io::Result<T> {
    let thread = std::thread::Builder::new();
    std::thread::scope(|scope| {
        let given_up = move || rights::give_up_lent().map(|()| what());
        let done = thread.spawn_scoped(scope, given_up)?.join();
        done.unwrap_or_else(|_| Err(io::Error::from(ErrorKind::Other)))
    })
}

/// Creates a folder with this mode if it is missing, and checks the path; returns the link-free path.
pub(super) fn prepare(
    folder: &Path,
    mode: u32,
    readers: Readers,
    lasting: Lasting,
) -> Result<PathBuf, String> {
    if let Err(error) = fs::symlink_metadata(folder) {
        let exists = folder.ancestors().find(|it| fs::symlink_metadata(it).is_ok());
        if error.kind() != ErrorKind::NotFound {
            return Err(error.to_string());
        }
        // Nothing is made where it could not be used.
        let exists = exists.unwrap_or(Path::new("/")).canonicalize();
        check_parts(&exists.map_err(|error| error.to_string())?, None, Readers::Own, lasting)?;
        make(folder, mode).map_err(|error| error.to_string())?;
    }
    check_last(folder)?;
    check(folder, readers, lasting)
}

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Err(_) => Ok(()),
        // The umask may have denied more.
        Ok(()) => fs::set_permissions(folder, PermissionsExt::from_mode(mode)),
    }
}

/// Rejects a symbolic link in place of a folder that corehop creates, because corehop creates no links.
fn check_last(folder: &Path) -> Result<(), String> {
    let of = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if of.is_symlink() { Err("is a symbolic link".to_owned()) } else { Ok(()) }
}

/// Checks that only root and this user can change a folder and all folders above it, and that `readers` can enter
/// them; returns the link-free path.
pub(super) fn check(folder: &Path, readers: Readers, lasting: Lasting) -> Result<PathBuf, String> {
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    check_parts(&folder, Some(&folder), readers, lasting)?;
    Ok(folder)
}

/// Checks a link-free folder and the folders above it; `used` is the folder in which files are created, which must
/// not be sticky.
fn check_parts(
    folder: &Path,
    used: Option<&Path>,
    readers: Readers,
    lasting: Lasting,
) -> Result<(), String> {
    // From the root on: who cannot change a folder cannot change where its entries lead.
    let parts: Vec<&Path> = folder.ancestors().collect();
    for part in parts.into_iter().rev() {
        let of = fs::symlink_metadata(part).map_err(|error| error.to_string())?;
        let is_used = used == Some(part);
        let name = if is_used { String::new() } else { format!("`{}` ", shown::path(part)) };
        if !of.is_dir() {
            return Err(format!("{name}is not a folder"));
        }
        let sticky = !is_used && lasting == Lasting::WhileUsed && of.mode() & 0o1000 != 0;
        check_owner(&of, sticky).map_err(|why| format!("{name}{why}"))?;
        if readers == Readers::All && of.mode() & 0o011 != 0o011 {
            let mode = of.mode() & 0o7777;
            return Err(format!("{name}cannot be entered by all users (mode {mode:04o})"));
        }
    }
    Ok(())
}

/// Checks that a folder or file belongs to root or this user, and that no other user can write to it.
fn check_owner(of: &Metadata, sticky: bool) -> Result<(), String> {
    if ![0, own_user()].contains(&of.uid()) {
        return Err(format!("belongs to user {}", of.uid()));
    }
    if of.mode() & WRITABLE_BY_OTHERS != 0 && !sticky {
        return Err(format!("can be written by other users (mode {:04o})", of.mode() & 0o7777));
    }
    Ok(())
}

/// Checks that a file in a trusted folder is a regular file that `readers` can read and only root or this user can
/// write.
pub(super) fn check_file(path: &Path, readers: Readers) -> Result<(), String> {
    let of = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !of.is_file() {
        return Err("is not a regular file".to_owned());
    }
    check_owner(&of, false)?;
    if readers == Readers::All && of.mode() & 0o444 != 0o444 {
        return Err(format!("cannot be read by all users (mode {:04o})", of.mode() & 0o7777));
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // access(2) answers for the user who started this process.
    // SAFETY: a string that ends with a zero.
    match unsafe { libc::access(name.as_ptr(), libc::R_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().to_string()),
    }
}

/// Locks an open file or folder. Returns false if another process holds the lock. A file system without locks
/// refuses; then this process is assumed to be alone.
pub(super) fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// A name that nobody can guess.
pub(super) fn random_name() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    // SAFETY: a buffer of this length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    /// A folder below `/tmp` that others can enter but not write, whatever the umask is.
    pub(in super::super) fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        mode(home.path(), 0o755);
        home
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn used(folder: &Path, readers: Readers) -> Result<PathBuf, String> {
        check(folder, readers, Lasting::WhileUsed)
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused_at_any_depth() {
        let home = home();
        let (outer, inner) = (home.path().join("outer"), home.path().join("outer/inner"));
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(used(&inner, Readers::Own), Ok(inner.clone()));
        for bits in [0o757, 0o775, 0o1777] {
            mode(&inner, bits);
            assert!(used(&inner, Readers::Own).unwrap_err().starts_with("can be written by other"));
        }
        mode(&inner, 0o755);
        mode(&outer, 0o777);
        let why = used(&inner, Readers::Own).unwrap_err();
        assert!(why.contains("outer` can be written by other users (mode 0777)"), "{why}");
        mode(&outer, 0o1777);
        assert!(used(&inner, Readers::Own).is_ok(), "the owner alone removes from a sticky folder");
        let why = check(&inner, Readers::Own, Lasting::Always).unwrap_err();
        assert!(why.contains("(mode 1777)"), "{why}");
    }

    #[test]
    fn a_folder_that_a_user_cannot_enter_is_refused_if_the_program_may_become_that_user() {
        let home = home();
        mode(home.path(), 0o700);
        assert!(used(home.path(), Readers::Own).is_ok());
        let why = used(home.path(), Readers::All).unwrap_err();
        assert!(why.contains("cannot be entered by all users (mode 0700)"), "{why}");
        mode(home.path(), 0o711);
        assert!(used(home.path(), Readers::All).is_ok());
    }

    #[test]
    fn a_link_and_a_folder_of_another_user_are_refused() {
        let home = home();
        let (folder, link) = (home.path().join("folder"), home.path().join("link"));
        let ready = |path: &Path| prepare(path, 0o700, Readers::Own, Lasting::WhileUsed);
        assert_eq!(ready(&folder.join("a/b")), Ok(folder.join("a/b")));
        let tmp = Path::new("/tmp").join(format!("corehop-test-{}", random_name().unwrap()));
        assert_eq!(ready(&tmp), Ok(tmp.clone()), "a folder in a sticky one");
        fs::remove_dir(&tmp).unwrap();
        let why = prepare(&tmp, 0o700, Readers::Own, Lasting::Always).unwrap_err();
        assert!(why.contains("/tmp` can be written by other users") && !tmp.exists(), "{why}");
        symlink(&folder, &link).unwrap();
        assert_eq!(ready(&link), Err("is a symbolic link".to_owned()));
        // A link above is followed, and where it leads is judged.
        assert_eq!(ready(&link.join("a")), Ok(folder.join("a")));
        if own_user() == 0 {
            chown(&folder, Some(65_534), None).unwrap();
            assert_eq!(ready(&folder), Err("belongs to user 65534".to_owned()));
            let why = ready(&folder.join("new")).unwrap_err();
            assert!(why.contains("belongs to user 65534"), "{why}");
            assert!(!folder.join("new").exists());
        }
    }

    #[test]
    fn a_file_that_is_not_plain_or_that_others_can_write_is_refused() {
        let home = home();
        let (file, link) = (home.path().join("file"), home.path().join("link"));
        fs::write(&file, "x").unwrap();
        mode(&file, 0o600);
        symlink(&file, &link).unwrap();
        assert_eq!(check_file(&file, Readers::Own), Ok(()));
        assert!(check_file(&file, Readers::All).unwrap_err().contains("read by all users"));
        assert!(check_file(&link, Readers::Own).unwrap_err().contains("regular"));
        mode(&file, 0o666);
        assert!(check_file(&file, Readers::All).unwrap_err().contains("written by other"));
    }
}
