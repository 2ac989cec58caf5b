// SPDX-License-Identifier: MIT OR Apache-2.0
//! The journal lists what to revert, and is on disk before a change is made.
//!
//! The journal is a file of JSON lines. The first line names the owner. Each further line is an [`Undo`] in the state
//! `live` or `done`. A line is marked as done by overwriting four bytes with four others, which works on a full disk
//! too. The owner holds a lock on the file (flock(2)) for as long as it lives. If locks are refused, only the owner's
//! process ID and start time show whether it lives.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::process::ProcessId;
use super::undo::{Undo, UndoOutcome};
use crate::flock::{self, Locking};
use crate::proc;
use crate::rights;

/// The version of the format. A journal of a later version is not changed.
const VERSION: u32 = 1;

/// The first line of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JournalHeader {
    corehop_journal: u32,
    program_version: String,
    pub(super) owner: ProcessId,
    boot_id: String,
    /// The PID namespace in which the owner's ID is valid: the inode of `/proc/PID/ns/pid`.
    #[serde(default)]
    pid_namespace: Option<u64>,
}

/// A further line of the journal.
#[derive(Serialize, Deserialize)]
struct JournalEntry<U> {
    state: JournalState,
    undo: U,
}

/// The state of a line; both names have four bytes and follow [`STATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JournalState {
    Live,
    Done,
}

/// The beginning of a line.
const STATE: &str = r#"{"state":""#;

/// A line that was read: its content, or its text if the content is not understood.
#[derive(Debug)]
struct UndoEntry {
    offset: u64,
    live: bool,
    undo: Result<Undo, String>,
}

#[derive(Debug)]
pub(super) struct Journal {
    pub(super) path: PathBuf,
    pub(super) header: JournalHeader,
    file: File,
    /// The length up to the end of the last complete line.
    length: u64,
    entries: Vec<UndoEntry>,
    /// Whether there is an incomplete line; its change was not made.
    pub(super) torn: bool,
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

impl Journal {
    /// Creates a journal of the calling process in `directory`, with the header on disk.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        for _ in 0..10 {
            match Self::create_in(directory) {
                // A run that ended just now has removed the folder, which was empty.
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && directory.parent().is_some_and(Path::exists) => {}
                result => return result,
            }
        }
        Self::create_in(directory)
    }

    fn create_in(directory: &Path) -> io::Result<Self> {
        let directory = private_directory(directory)?;
        let header = JournalHeader {
            corehop_journal: VERSION,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            owner: ProcessId::own()?,
            boot_id: boot_id()?,
            pid_namespace: pid_namespace(),
        };
        let (path, file) = new_file(&directory, header.owner.pid)?;
        let mut journal = Self { path, header, file, length: 0, entries: vec![], torn: false };
        if let Err(error) = journal.begin(&directory) {
            journal.remove()?;
            return Err(error);
        }
        Ok(journal)
    }

    fn begin(&mut self, directory: &Path) -> io::Result<()> {
        flock::wait(&self.file);
        let header = serde_json::to_string(&self.header)?;
        self.append_line(&header)?;
        File::open(directory)?.sync_all()
    }

    /// Opens the journal at `path`, which must be a file of the calling user.
    ///
    /// # Errors
    /// Returns `PermissionDenied` for a symbolic link or another user's file, `InvalidData` for a file that is not a
    /// journal or has a later version.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => refused("is a symbolic link".into()),
            _ => error,
        })?;
        let of = file.metadata()?;
        if !of.is_file() || of.uid() != own_uid() {
            return Err(refused(format!("is not a file of yours (owner: user {})", of.uid())));
        }
        let header = read_header(&whole(&file)?)?;
        let mut journal =
            Self { path: path.into(), header, file, length: 0, entries: vec![], torn: false };
        journal.reload()?;
        Ok(journal)
    }

    /// Reads what the owner has written since the last reading.
    pub(super) fn reload(&mut self) -> io::Result<()> {
        let bytes = whole(&self.file)?;
        self.entries.clear();
        self.length = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.torn = !line.ends_with(b"\n");
            if self.torn {
                break;
            }
            if self.length > 0 {
                self.entries.push(parse(self.length, line));
            }
            self.length += line.len() as u64;
        }
        Ok(())
    }

    /// Writes `undo` to disk; returns its number.
    ///
    /// # Errors
    /// Returns an error if the disk is full; the journal then stays unchanged.
    pub(super) fn append(&mut self, undo: Undo) -> io::Result<usize> {
        let offset = self.length;
        let line = serde_json::to_string(&JournalEntry { state: JournalState::Live, undo: &undo })?;
        self.append_line(&line)?;
        self.entries.push(UndoEntry { offset, live: true, undo: Ok(undo) });
        Ok(self.entries.len() - 1)
    }

    fn append_line(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let written = self.file.write_all_at(line.as_bytes(), self.length);
        if let Err(error) = written.and_then(|()| self.file.sync_all()) {
            // What follows must not be glued to half a line. Making a file shorter needs no space.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Reverts entry `number` and marks the entry as done; `None` if the entry was already done.
    pub(super) fn undo(&mut self, number: usize) -> Option<(String, UndoOutcome)> {
        let (what, outcome) = self.take_back(number)?;
        if outcome.is_settled() {
            self.mark_done(number);
        }
        Some((what, outcome))
    }

    /// Marks entry `number` as done without reverting it.
    pub(super) fn mark_done(&mut self, number: usize) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.live = false;
            // A mark that cannot be made costs a second, idle, taking back.
            let _unmarked = self.file.write_all_at(b"done", entry.offset + STATE.len() as u64);
        }
    }

    /// Reverts all live entries, the last change first.
    pub(super) fn undo_all(&mut self) -> Vec<(String, UndoOutcome)> {
        (0..self.entries.len()).rev().filter_map(|number| self.undo(number)).collect()
    }

    /// Reverts all live entries while the owner still runs and may be about to make a listed change. So no entry is
    /// marked, and all entries are reverted again after the owner has ended.
    pub(super) fn undo_all_under_owner(&self) {
        for number in (0..self.entries.len()).rev() {
            self.take_back(number);
        }
    }

    fn take_back(&self, number: usize) -> Option<(String, UndoOutcome)> {
        let entry = self.entries.get(number).filter(|entry| entry.live)?;
        let undo = match &entry.undo {
            Ok(undo) => undo,
            Err(line) => {
                return Some((format!("the line `{line}`"), UndoOutcome::Unknown(line.clone())));
            }
        };
        let stands = self.of_this_boot() || undo.survives_reboot();
        let outcome = if stands { undo.apply() } else { UndoOutcome::OtherBoot };
        Some((undo.to_string(), outcome))
    }

    /// Whether the journal was written since the host started.
    pub(super) fn of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|now| now == self.header.boot_id)
    }

    /// Whether the owner is dead. In another PID namespace the owner's ID may belong to another process or to none,
    /// so only the lock counts, which the owner holds for as long as it lives. Afterwards this process holds the
    /// lock, if the file system has locks.
    ///
    /// # Errors
    /// Returns an error if neither the ID nor the lock decides.
    pub(super) fn owner_is_dead(&self) -> io::Result<bool> {
        let comparable = self.header.pid_namespace.is_none_or(|it| Some(it) == pid_namespace());
        let alive = comparable && self.of_this_boot() && self.header.owner.is_alive();
        match flock::try_lock(&self.file) {
            Locking::Busy => Ok(false),
            Locking::Held => Ok(!alive),
            Locking::Refused(_) if comparable || !self.of_this_boot() => Ok(!alive),
            Locking::Refused(error) => Err(io::Error::new(
                error.kind(),
                format!(
                    "is of a process in another PID namespace, and only a lock would tell whether that lives \
                     (flock(2): {error})"
                ),
            )),
        }
    }

    /// The changes that still must be reverted, in words.
    pub(super) fn left(&self) -> Vec<String> {
        let live = self.entries.iter().filter(|entry| entry.live);
        live.filter_map(|entry| match &entry.undo {
            Ok(undo) => (self.of_this_boot() || undo.survives_reboot()).then(|| undo.to_string()),
            Err(line) => Some(format!("the line `{line}`")),
        })
        .collect()
    }

    /// Whether no listed change is left to revert.
    pub(super) fn is_settled(&self) -> bool {
        !self.entries.iter().any(|entry| entry.live)
    }

    /// Takes the lock if no other process holds it within `limit`. If locks are refused, the call returns
    /// immediately.
    pub(super) fn lock_within(&self, limit: Duration) {
        let begun = Instant::now();
        while flock::try_lock(&self.file).is_busy() && begun.elapsed() < limit {
            sleep(Duration::from_millis(1));
        }
    }

    /// Removes the file, unless it has already been removed, because its name may then belong to another journal.
    pub(super) fn remove(&self) -> io::Result<()> {
        if self.file.metadata()?.nlink() > 0 { fs::remove_file(&self.path) } else { Ok(()) }
    }
}

fn new_file(directory: &Path, pid: i32) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    // A dead process of this number may have left journals that were not restored yet.
    let names = (0..1_000).map(|n| directory.join(format!("{pid}-{n}.{EXTENSION}")));
    for path in names {
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => return result.map(|file| (path, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The file extension of journals.
pub(super) const EXTENSION: &str = "journal";

/// The size above which a file is not read, because journals have some kilobytes.
const LARGEST: u64 = 16 << 20;

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > LARGEST {
        return Err(invalid(format!(
            "is not a journal of corehop, because {length} bytes are too many"
        )));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn read_header(bytes: &[u8]) -> io::Result<JournalHeader> {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or_else(|| {
        let problem = "ends within its first line: nothing was changed yet";
        io::Error::new(ErrorKind::UnexpectedEof, problem)
    })?;
    let value: serde_json::Value = serde_json::from_slice(&bytes[..end])
        .map_err(|_| invalid("is no journal of corehop: its first line is not JSON".into()))?;
    match value["corehop_journal"].as_u64() {
        Some(version) if version > u64::from(VERSION) => Err(invalid(format!(
            "has format {version}, but this corehop reads format {VERSION}: restore the journal with corehop {}",
            value["program_version"].as_str().unwrap_or("of a later version")
        ))),
        Some(_) => serde_json::from_value(value).map_err(|error| invalid(error.to_string())),
        None => Err(invalid("is no journal of corehop: its first line says so".into())),
    }
}

/// Parses a line such that damage to one line neither hides nor shifts other lines.
fn parse(offset: u64, line: &[u8]) -> UndoEntry {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    match serde_json::from_str::<JournalEntry<serde_json::Value>>(&text) {
        Ok(JournalEntry { state, undo }) if text.starts_with(STATE) => UndoEntry {
            offset,
            live: state == JournalState::Live,
            undo: serde_json::from_value(undo).map_err(|error| format!("{text}: {error}")),
        },
        _ => UndoEntry { offset, live: true, undo: Err(text) },
    }
}

fn boot_id() -> io::Result<String> {
    Ok(proc::text("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The inode of this process's PID namespace; `None` if the kernel does not show it.
fn pid_namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

pub(super) fn own_uid() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn refused(problem: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, problem)
}

/// Creates `directory` if missing, and ensures that no other user can put files into it or redirect it, because its
/// contents are executed with the privileges of the user who restores.
///
/// # Errors
/// Returns `PermissionDenied` for a symbolic link, another user's directory, or a directory that other users may write
/// to.
pub(super) fn private_directory(directory: &Path) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(directory)?;
    directory.canonicalize()
}

/// Makes only the checks of [`private_directory`].
pub(super) fn check_private(directory: &Path) -> io::Result<()> {
    let of = fs::symlink_metadata(directory)?;
    let problem = if of.is_symlink() {
        "is a symbolic link".to_owned()
    } else if !of.is_dir() {
        "is not a directory".to_owned()
    } else if of.uid() != own_uid() {
        format!("belongs to user {}, not to you (user {})", of.uid(), own_uid())
    } else if of.mode() & 0o022 != 0 {
        format!(
            "can be written by other users (mode {:04o}): set its mode to 0700 with chmod",
            of.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    Err(refused(problem))
}

/// Returns the possible folders of the calling user's journals, with the folder for new journals first:
/// `/run/corehop` (root), `$XDG_RUNTIME_DIR/corehop`, `/tmp/corehop-UID`.
pub fn journal_directories() -> Vec<PathBuf> {
    let uid = own_uid();
    let root = (uid == 0).then(|| PathBuf::from("/run"));
    // With lent rights the environment is another's.
    let session = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rights::are_lent());
    let session = session.map(PathBuf::from);
    let bases = root.into_iter().chain(session).filter(|base| is_usable(base));
    let named = bases.map(|base| base.join("corehop"));
    named.chain([PathBuf::from(format!("/tmp/corehop-{uid}"))]).collect()
}

/// Whether a folder can be used. After su, `$XDG_RUNTIME_DIR` may name another user's folder, and `/run` may be missing
/// or read-only.
fn is_usable(base: &Path) -> bool {
    let Ok(name) = CString::new(base.as_os_str().as_bytes()) else { return false };
    // SAFETY: access reads a C string, which `name` is.
    let writable = unsafe { libc::access(name.as_ptr(), libc::W_OK) } == 0;
    writable && fs::metadata(base).is_ok_and(|of| of.is_dir() && of.uid() == own_uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(path: &Path) -> Undo {
        Undo::RemoveFile { path: path.into() }
    }

    #[test]
    fn an_entry_is_marked_done_in_place_and_the_rest_stays_live() {
        let here = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| here.path().join(name));
        let mut journal = Journal::create(&here.path().join("run")).unwrap();
        for path in &paths {
            fs::write(path, "").unwrap();
            journal.append(remove(path)).unwrap();
        }
        let length = fs::metadata(&journal.path).unwrap().len();
        assert_eq!(journal.undo(1).unwrap().1, UndoOutcome::Undone);
        assert!(journal.undo(1).is_none() && journal.undo(3).is_none());
        assert_eq!(fs::metadata(&journal.path).unwrap().len(), length);

        let mut read = Journal::open(&journal.path).unwrap();
        let live: Vec<bool> = read.entries.iter().map(|entry| entry.live).collect();
        assert_eq!(live, [true, false, true]);
        let order: Vec<String> = read.undo_all().into_iter().map(|(what, _)| what).collect();
        assert_eq!(order, [remove(&paths[2]).to_string(), remove(&paths[0]).to_string()]);
        assert!(read.is_settled() && paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn a_line_that_ends_in_the_middle_is_a_change_that_was_not_made() {
        let here = tempfile::tempdir().unwrap();
        let (kept, gone) = (here.path().join("kept"), here.path().join("gone"));
        let mut journal = Journal::create(here.path()).unwrap();
        for path in [&gone, &kept] {
            fs::write(path, "").unwrap();
            journal.append(remove(path)).unwrap();
        }
        journal.file.set_len(journal.length - 1).unwrap();
        let mut read = Journal::open(&journal.path).unwrap();
        read.undo_all();
        assert!(read.torn && read.is_settled() && kept.exists() && !gone.exists());
    }

    #[test]
    fn a_line_that_is_not_understood_is_told_and_keeps_the_journal_unsettled() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("a");
        fs::write(&path, "").unwrap();
        let mut journal = Journal::create(here.path()).unwrap();
        journal.append_line(r#"{"state":"live","undo":{"kind":"unmount","path":"/x"}}"#).unwrap();
        journal.append_line(r#"{"state":"done","undo":{"kind":"unmount","path":"/y"}}"#).unwrap();
        journal.append_line("garbage").unwrap();
        // What is read in place of bytes that are no text has another length.
        journal.file.write_all_at(&[0xff; 4], journal.length - 6).unwrap();
        let last = journal.append(remove(&path)).unwrap();
        let mut read = Journal::open(&journal.path).unwrap();
        let outcomes: Vec<UndoOutcome> = read.undo_all().into_iter().map(|(_, o)| o).collect();
        assert!(
            matches!(
                &outcomes[..],
                [UndoOutcome::Undone, UndoOutcome::Unknown(_), UndoOutcome::Unknown(newer)]
                    if newer.contains("unmount")
            ),
            "{outcomes:?}"
        );
        assert!(!read.is_settled());
        let marked = &fs::read(&journal.path).unwrap()[journal.entries[last].offset as usize..];
        assert!(marked.starts_with(br#"{"state":"done","undo":"#));
    }

    #[test]
    fn what_an_earlier_boot_changed_in_the_kernel_is_left_alone() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("a");
        fs::write(&path, "").unwrap();
        let mut journal = Journal::create(here.path()).unwrap();
        journal.header.boot_id = "another".into();
        let group = Undo::KillProcessGroup { leader: ProcessId::own().unwrap() };
        let group = journal.append(group).unwrap();
        let file = journal.append(remove(&path)).unwrap();
        assert_eq!(journal.undo(group).unwrap().1, UndoOutcome::OtherBoot);
        assert_eq!(journal.undo(file).unwrap().1, UndoOutcome::Undone);
    }

    #[test]
    fn two_journals_of_one_process_have_two_names() {
        let here = tempfile::tempdir().unwrap();
        let (a, b) = (Journal::create(here.path()).unwrap(), Journal::create(here.path()).unwrap());
        assert_ne!(a.path, b.path);
        assert_eq!(fs::metadata(&a.path).unwrap().mode() & 0o777, 0o600);
    }
}
