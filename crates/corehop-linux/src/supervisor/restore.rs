// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking back what a run has left behind whose supervisor died with it.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::SupervisorError;
use super::journal::{EXTENSION, Journal, check_private};
use super::process::ProcessId;
use super::undo::UndoOutcome;

/// One journal that was found, and what was done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The journal.
    pub journal: PathBuf,
    /// The action.
    pub verdict: Verdict,
}

/// The action on a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the run that it belongs to still lives, or somebody else is restoring it.
    StillOwned {
        /// The run.
        owner: ProcessId,
    },
    /// Nothing: it is not a file of yours, not a journal, or of a later version.
    Refused {
        /// Why.
        reason: String,
    },
    /// Its changes were taken back, last one first. Where some could not be, the journal stays.
    Restored {
        /// Each change that was still listed, in words, and what came of it.
        entries: Vec<(String, UndoOutcome)>,
        /// The last line ended in the middle: that change had not been made.
        torn: bool,
    },
}

impl Restored {
    /// Whether nothing of that run is left, or nothing is wrong because it still goes on.
    pub fn is_settled(&self) -> bool {
        match &self.verdict {
            Verdict::StillOwned { .. } => true,
            Verdict::Refused { .. } => false,
            Verdict::Restored { entries, .. } => entries.iter().all(|(_, o)| o.is_settled()),
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.journal.display())?;
        match &self.verdict {
            Verdict::StillOwned { owner } => write!(
                f,
                "left alone, process {} still runs (or another restore is at work)",
                owner.pid
            ),
            Verdict::Refused { reason } => {
                write!(f, "not touched, it {reason}; remove it if you know that it is of no use")
            }
            Verdict::Restored { entries, torn } => {
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

/// Takes back what the journals in `directory` list, where the run that wrote them is dead.
///
/// A directory that does not exist holds none. Journals whose owner lives are left alone: it is
/// alive when the process of that number and start time is, or when the lock is held.
///
/// # Errors
/// When `directory` is a symbolic link or belongs to another user, or `/proc` is not mounted.
pub fn restore(directory: &Path) -> Result<Vec<Restored>, SupervisorError> {
    let unusable = |source| SupervisorError::Directory { path: directory.into(), source };
    // Without /proc every owner would look dead.
    ProcessId::own().map_err(|source| SupervisorError::Proc { source })?;
    match check_private(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        checked => checked.map_err(unusable)?,
    }
    let mut journals: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(unusable)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION))
        .collect();
    journals.sort();
    Ok(journals.into_iter().map(restore_one).collect())
}

fn restore_one(journal: PathBuf) -> Restored {
    let verdict = try_restore(&journal)
        .unwrap_or_else(|error| Verdict::Refused { reason: error.to_string() });
    Restored { journal, verdict }
}

fn try_restore(path: &Path) -> io::Result<Verdict> {
    let mut journal = Journal::open(path)?;
    let owner = journal.header.owner;
    if !journal.try_lock()? || (journal.of_this_boot() && owner.is_alive()) {
        return Ok(Verdict::StillOwned { owner });
    }
    journal.reload()?;
    let entries = journal.undo_all();
    if journal.is_settled() {
        journal.remove()?;
    }
    Ok(Verdict::Restored { entries, torn: journal.torn })
}
