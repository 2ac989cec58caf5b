// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reverts the changes left by a run whose supervisor died with it.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use corehop_plan::shown;

use super::SupervisorError;
use super::journal::{EXTENSION, Journal, check_private, journal_directories, own_uid};
use super::process::{self, ProcessId};
use super::undo::UndoOutcome;
use super::watch::ROLE;
use super::whole;
use crate::proc::{ProcEntry, Stat};
use crate::rights;

/// A journal that was found, and the action taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The path of the journal.
    pub journal: PathBuf,
    /// The action taken on the journal.
    pub verdict: RestoreOutcome,
}

/// The action taken on a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// No action: the run that owns the journal still lives, or another process is restoring it.
    StillOwned {
        /// The process that owns the journal.
        owner: ProcessId,
    },
    /// No action: another user's file, link or folder has the name of a journal folder. No run of yours has written to
    /// this folder, because runs refuse a folder of another user.
    Foreign {
        /// The reason why the folder is not yours.
        reason: String,
    },
    /// No action: the file is not yours, is not a journal, or has a later version.
    Refused {
        /// The reason why the file is refused.
        reason: String,
    },
    /// The changes were reverted, the last one first. If some changes could not be reverted, the journal stays.
    Restored {
        /// Each change that was still listed, in words, with the result of reverting it.
        entries: Vec<(String, UndoOutcome)>,
        /// Whether the last line was incomplete, so that its change was not made.
        torn: bool,
    },
}

impl Restored {
    /// Returns whether nothing remains to be restored: no change is left, the run still continues, or the folder
    /// belongs to another user.
    pub fn is_settled(&self) -> bool {
        match &self.verdict {
            RestoreOutcome::StillOwned { .. } | RestoreOutcome::Foreign { .. } => true,
            RestoreOutcome::Refused { .. } => false,
            RestoreOutcome::Restored { entries, .. } => entries.iter().all(|(_, o)| o.is_settled()),
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", shown::path(&self.journal))?;
        match &self.verdict {
            RestoreOutcome::StillOwned { owner } => write!(
                f,
                "left alone, process {} still runs (or another restore is at work)",
                owner.pid
            ),
            RestoreOutcome::Foreign { reason } => {
                write!(f, "not read, it {reason}: none of your runs has written there")
            }
            RestoreOutcome::Refused { reason } => {
                write!(f, "not touched, it {reason}; remove it if you know that it is of no use")
            }
            RestoreOutcome::Restored { entries, torn } => {
                let settled = entries.iter().filter(|(_, outcome)| outcome.is_settled()).count();
                write!(f, "{settled} of {} changes taken back", entries.len())?;
                if *torn {
                    write!(f, ", one more was announced but not made")?;
                }
                entries.iter().try_for_each(|(what, outcome)| write!(f, "\n  {what}: {outcome}"))
            }
        }
    }
}

/// Reverts the changes listed in the journals in `directory` if the runs that wrote them are dead.
///
/// A directory that does not exist contains no journals. Journals whose owner lives are left alone. The owner lives if
/// a process with the owner's ID and start time exists, or if a process holds the lock.
///
/// Privileges of the executable file are first dropped permanently.
///
/// # Errors
/// Returns an error if `directory` is yours but other users can write to it, or `/proc` is not mounted.
pub fn restore(directory: &Path) -> Result<Vec<Restored>, SupervisorError> {
    let unusable = |source| SupervisorError::Directory { path: directory.into(), source };
    // Without /proc every owner would look dead.
    ProcessId::own().map_err(|source| SupervisorError::Proc { source })?;
    // The journals are the user's, who can write anything into them.
    rights::give_up_lent().map_err(unusable)?;
    match check_private(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        // Any user can plant that name in /tmp. The other folders are still worked through.
        Err(error) if is_foreign(directory) => {
            let verdict = RestoreOutcome::Foreign { reason: error.to_string() };
            return Ok(vec![Restored { journal: directory.into(), verdict }]);
        }
        checked => checked.map_err(unusable)?,
    }
    let restored = journals(directory).map_err(unusable)?.into_iter().map(restore_one).collect();
    whole::tidy(directory);
    Ok(restored)
}

/// Whether the file, link or folder with this name belongs to another user.
fn is_foreign(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|of| of.uid() != own_uid())
}

fn journals(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let of_name = |path: &PathBuf| path.extension().is_some_and(|it| it == EXTENSION);
    let mut journals: Vec<PathBuf> = paths.filter(of_name).collect();
    journals.sort();
    Ok(journals)
}

/// A journal of a crashed run whose supervisor is dead too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The path of the journal.
    pub journal: PathBuf,
    /// The remaining changes, described by the steps that would revert them, or why the journal cannot be read.
    pub changes: Vec<String>,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown::path(&self.journal), self.changes.join("; "))
    }
}

/// The command that reverts leftover changes.
pub const REMEDY: &str = "corehop doctor restore";

/// Returns the changes that crashed runs have left, according to the journals in `directory`. The call changes
/// nothing.
///
/// The result is empty if the directory does not exist, if the directory is not the caller's own, or if `/proc` is not
/// mounted.
pub fn leftovers(directory: &Path) -> Vec<Leftover> {
    if ProcessId::own().is_err() || check_private(directory).is_err() {
        return vec![];
    }
    journals(directory).unwrap_or_default().into_iter().filter_map(leftover).collect()
}

/// Returns the [`leftovers`] in every folder of the caller's journals.
pub fn all_leftovers() -> Vec<Leftover> {
    journal_directories().iter().flat_map(|directory| leftovers(directory)).collect()
}

fn leftover(path: PathBuf) -> Option<Leftover> {
    let changes = match Journal::open(&path) {
        // The supervisor is about to take it back, unless it is stopped.
        Ok(_) if supervisors(&path).iter().any(|stat| !stat.is_stopped()) => return None,
        Ok(mut journal) => {
            if !journal.owner_is_dead().ok()? {
                return None;
            }
            journal.reload().ok()?;
            journal.left()
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => vec![format!("it {error}")],
        Err(_) => vec![],
    };
    (!changes.is_empty()).then_some(Leftover { journal: path, changes })
}

/// The living supervisors of this journal: processes of this user with the journal's name in their command line.
fn supervisors(journal: &Path) -> Vec<Stat> {
    let wanted = [ROLE.as_bytes(), journal.as_os_str().as_bytes()];
    let supervises = |stat: &Stat| {
        let task = ProcEntry::process(stat.pid);
        let words = task.strings("cmdline").unwrap_or_default();
        words.iter().skip(1).take(2).eq(wanted)
            && task.status().is_ok_and(|it| it.numbers::<u32>("Uid").get(1) == Some(&own_uid()))
    };
    process::all().filter(|stat| !stat.is_dead()).filter(supervises).collect()
}

/// Ends the stopped supervisors of a journal whose owner is dead. These supervisors have nothing left to do, but hold
/// the lock on the whole host.
fn end_stopped(journal: &Path) {
    for stat in supervisors(journal).iter().filter(|stat| stat.is_stopped()) {
        // A supervisor that is gone already is as good.
        let _gone = ProcessId::from(stat).signal(libc::SIGKILL);
    }
}

/// Fails if changes are left.
///
/// # Errors
/// Returns an error that lists the changes that are left, and the command to type.
pub fn refuse_leftovers(left: &[Leftover]) -> Result<(), SupervisorError> {
    if left.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = left.iter().map(ToString::to_string).collect();
    Err(SupervisorError::LeftBehind(format!(
        "a run that was killed together with its supervisor has left changes behind, and the results would be \
         false: still to do: {}; type `{REMEDY}`",
        lines.join("; ")
    )))
}

fn restore_one(journal: PathBuf) -> Restored {
    let verdict = try_restore(&journal)
        .unwrap_or_else(|error| RestoreOutcome::Refused { reason: error.to_string() });
    Restored { journal, verdict }
}

fn try_restore(path: &Path) -> io::Result<RestoreOutcome> {
    let mut journal = Journal::open(path)?;
    let owner = journal.header.owner;
    if !journal.owner_is_dead()? {
        return Ok(RestoreOutcome::StillOwned { owner });
    }
    journal.reload()?;
    let entries = journal.undo_all();
    if journal.is_settled() {
        end_stopped(path);
        journal.remove()?;
    }
    Ok(RestoreOutcome::Restored { entries, torn: journal.torn })
}
