// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of a board: created under a random name, locked while this process runs, and removed when it ends.
//!
//! If the command is killed, its board stays until the next run, which finds it unlocked and removes it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use corehop_shim::board::{Board, OffloadSettings};
use corehop_shim::tally::{CallTally, TallyLimits, Unknown};

use super::trusted::{self, Lasting, Readers, as_the_user, own_user};
use super::{OffloadError, RefusedPath};
use corehop_system::{folders, rights};

const PREFIX: &str = "board-";
/// The number of attempts, because another run that ends or cleans up may remove a new folder.
const ATTEMPTS: usize = 16;

/// The board on which a running program counts its calls.
#[derive(Debug)]
pub(super) struct OwnBoard {
    folder: PathBuf,
    /// The open folder, locked if the file system supports locks.
    _lock: File,
}

impl OwnBoard {
    /// Creates a board with these settings.
    pub(super) fn create(wishes: &OffloadSettings, readers: Readers) -> Result<Self, OffloadError> {
        let failed = |source| OffloadError::Failed { what: "giving up lent rights", source };
        as_the_user(|| first_of(&bases(), wishes, readers)).map_err(failed)?
    }

    /// The path of the board, which is passed to the program.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// The counts of calls on the board so far.
    pub(super) fn tally(&self, limits: &TallyLimits) -> Result<CallTally, Unknown> {
        CallTally::of(&self.folder, limits)
    }
}

impl Drop for OwnBoard {
    fn drop(&mut self) {
        // Where that fails, the next run cleans up.
        as_the_user(|| remove(&self.folder)).ok();
    }
}

/// The folders in which boards can be created, the best first: a file system in memory writes nothing to disk.
fn bases() -> Vec<PathBuf> {
    let user = own_user();
    if user == 0 {
        return ["/run/corehop-boards", "/var/lib/corehop/boards"].map(PathBuf::from).into();
    }
    // With lent rights the environment is another's.
    let lent = rights::are_lent();
    let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !lent).map(PathBuf::from);
    let session = session.unwrap_or_else(|| format!("/run/user/{user}").into());
    let temporary = if lent { PathBuf::from("/tmp") } else { std::env::temp_dir() };
    let session = Some(session).filter(|it| it.is_absolute() && it.is_dir());
    let named = session.into_iter().map(|it| it.join("corehop-boards"));
    let data = folders::data().into_iter().map(|it| it.join("boards"));
    named.chain(data).chain([temporary.join(format!("corehop-boards-{user}"))]).collect()
}

fn first_of(
    bases: &[PathBuf],
    wishes: &OffloadSettings,
    readers: Readers,
) -> Result<OwnBoard, OffloadError> {
    let mut refused = Vec::new();
    for base in bases {
        match create_in(base, wishes, readers) {
            Ok(board) => return Ok(board),
            Err(why) => refused.push(RefusedPath { place: base.clone(), why }),
        }
    }
    Err(OffloadError::NoBoard(refused))
}

fn create_in(base: &Path, wishes: &OffloadSettings, readers: Readers) -> Result<OwnBoard, String> {
    // This user alone can list the boards; others must know a name.
    let mode = if readers == Readers::All { 0o711 } else { 0o700 };
    for _ in 0..ATTEMPTS {
        let base = trusted::prepare(base, mode, readers, Lasting::WhileUsed)?;
        clean(&base);
        match create_new(&base, wishes, readers) {
            Ok(Some(board)) => return Ok(board),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
            Ok(None) | Err(_) => {}
        }
    }
    Err("is removed again and again by other processes".to_owned())
}

/// Creates and fills one board. Returns `None` or "not found" if another run removed the board as stale before it was
/// locked.
fn create_new(
    base: &Path,
    wishes: &OffloadSettings,
    readers: Readers,
) -> io::Result<Option<OwnBoard>> {
    let folder = base.join(format!("{PREFIX}{}", trusted::random_name()?));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let lock = open_folder(&folder)?;
    if matches!(trusted::lock(&lock), Ok(false)) || !is_at(&lock, &folder) {
        return Ok(None);
    }
    let board = OwnBoard { folder, _lock: lock };
    wishes.write(&board.folder)?;
    // The file of counts of this user; the mapping is given up at once.
    drop(Board::open(&board.folder)?);
    if readers == Readers::All {
        // Users whom the program becomes make files of their own, and see those of no other.
        fs::set_permissions(&board.folder, PermissionsExt::from_mode(0o1733))?;
    }
    Ok(Some(board))
}

fn open_folder(folder: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

/// Whether an open folder still has this path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |of: io::Result<fs::Metadata>| of.map(|it| (it.dev(), it.ino())).ok();
    let now = place(fs::symlink_metadata(path));
    now.is_some() && now == place(file.metadata())
}

/// Removes the boards whose commands have ended. Programs that still count on a removed board continue, but nobody
/// reads their counts.
fn clean(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_board = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_board
            && let Ok(folder) = open_folder(&entry.path())
            && matches!(trusted::lock(&folder), Ok(true))
        {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Removes a board, and the parent folder of all boards if it is empty then.
fn remove(folder: &Path) {
    fs::remove_dir_all(folder).ok();
    if let Some(base) = folder.parent() {
        fs::remove_dir(base).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::trusted::tests::home;
    use super::*;
    use corehop_shim::board::{CallFate, PlaceRule};
    use corehop_shim::call::{CALLS, Call};
    use std::os::unix::fs::chown;

    fn wishes() -> OffloadSettings {
        OffloadSettings {
            mechanism: 5,
            flags: 2,
            os_cores: [0; 16],
            free_cpus: [0; 16],
            spin_limit_ns: u64::MAX,
            decision: PlaceRule::Always,
            thresholds: [0; CALLS],
            ticks_per_microsecond: 1000,
        }
    }

    const LIMITS: TallyLimits = TallyLimits { calls: 1000, ticks: 1000 };

    fn create(base: &Path) -> Result<OwnBoard, OffloadError> {
        first_of(&[base.to_owned()], &wishes(), Readers::Own)
    }

    #[test]
    fn a_board_is_there_while_the_command_is_and_takes_its_folder_with_it() {
        let home = home();
        let base = home.path().join("boards");
        let board = create(&base).unwrap();
        let second = create(&base).unwrap();
        assert_ne!(board.path(), second.path());
        assert_eq!(OffloadSettings::read(board.path()).unwrap(), wishes());
        // The wishes, and the file of counts of this user, before any program has counted.
        assert_eq!(fs::read_dir(board.path()).unwrap().count(), 2);
        Board::open(board.path()).unwrap().claim(1).unwrap().add(Call::Read, CallFate::There, 3);
        assert_eq!(board.tally(&LIMITS).unwrap().total(Call::Read, CallFate::There), 3);
        drop(second);
        assert!(board.path().exists(), "a board that is in use was removed");
        drop(board);
        assert!(!base.exists());
    }

    #[test]
    fn the_board_of_a_killed_command_is_removed_by_the_next_and_one_in_use_is_not() {
        let home = home();
        let stale = home.path().join("boards/board-1");
        fs::create_dir_all(&stale).unwrap();
        wishes().write(&stale).unwrap();
        let other = home.path().join("boards/kept");
        fs::create_dir(&other).unwrap();
        let used = create(&home.path().join("boards")).unwrap();
        let next = create(&home.path().join("boards")).unwrap();
        assert!(!stale.exists() && other.exists());
        assert!(used.path().exists() && next.path().exists());
    }

    #[test]
    fn a_planted_folder_is_refused_and_the_next_one_is_taken() {
        let home = home();
        let (planted, good) = (home.path().join("planted"), home.path().join("good"));
        fs::create_dir(&planted).unwrap();
        fs::set_permissions(&planted, PermissionsExt::from_mode(0o777)).unwrap();
        let error = create(&planted).unwrap_err().to_string();
        assert!(error.contains("planted: can be written by other users (mode 0777)"), "{error}");
        let board = first_of(&[planted.clone(), good.clone()], &wishes(), Readers::Own).unwrap();
        assert!(board.path().starts_with(&good));
        fs::set_permissions(&planted, PermissionsExt::from_mode(0o700)).unwrap();
        if own_user() == 0 {
            chown(&planted, Some(65_534), None).unwrap();
            assert!(create(&planted).unwrap_err().to_string().contains("user 65534"));
        }
    }
}
