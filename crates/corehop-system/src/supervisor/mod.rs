// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reverts every change to the system, however the run ends.
//!
//! A [`Guard`] writes to a journal how to revert a change before the change is made. Dropping the guard reverts the
//! listed changes. If the process dies before the guard is dropped, by a signal, a crash or SIGKILL, the supervisor
//! reverts the changes. The supervisor is a second, tiny process that starts before the first change. If the process
//! and the supervisor both die, the journal is still on disk, and [`restore`] reverts its changes.
//!
//! The supervisor, the keepers of background loads and the handler of page sampling are instances of this program,
//! started with a hidden first argument. `main` must call [`main_if_asked`] before anything else.
//!
//! Two cases are not covered. After a power loss, kernel settings are gone anyway, and a journal of an earlier boot
//! only reverts regular files. Changes that were not recorded here are not reverted.

mod error;
mod process;
mod undo;
mod journal;
mod whole;
mod watch;
pub mod interrupt;
mod load;
mod restore;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use journal::Journal;
use watch::SupervisorReply;
use whole::{Lock, Waited};

use crate::proc;

pub use error::SupervisorError;
pub use journal::journal_directories;
pub use load::{LoadChild, spawn_load};
pub use process::ProcessId;
pub use process::{READY, enter_helper, nowhere, pidfd, start_helper, wait_readable};
pub use restore::REMEDY;
pub use restore::{
    Leftover, RestoreOutcome, Restored, all_leftovers, leftovers, refuse_leftovers, restore,
};
pub use undo::{Undo, UndoOutcome, has_chosen};

/// The ID of a recorded change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoId {
    /// The index of the journal among the journals that this process has begun.
    journal: usize,
    number: usize,
}

static JOURNALS_BEGUN: AtomicUsize = AtomicUsize::new(0);

/// Keeps the list of changes, and reverts the listed changes when its last clone is dropped.
///
/// Threads can share a guard by reference or by clone. No process is started and no file is written before the first
/// change is recorded.
#[derive(Debug, Clone)]
pub struct Guard {
    shared: Arc<ChangeRegistry>,
}

#[derive(Debug)]
struct ChangeRegistry {
    directory: PathBuf,
    active: Mutex<Option<SupervisorSession>>,
}

/// The journal and the supervisor, which exist from the first change on.
#[derive(Debug)]
struct SupervisorSession {
    serial: usize,
    journal: Journal,
    supervisor: Child,
    lifeline: UnixStream,
    /// The time of the supervisor's last answer.
    answered: Instant,
    /// The message to the supervisor: [`watch::BEAT`] once this process has promised regular messages,
    /// [`watch::ALIVE`] before.
    question: u8,
    /// The lock on the whole host, if this run holds it; the supervisor shares the lock.
    whole: Option<Lock>,
}

/// The age up to which a supervisor's answer counts before a change, so that only the first of many changes in a row
/// needs a message.
const RECENT: Duration = Duration::from_millis(10);
/// The age up to which a supervisor's answer counts between changes. Each answer takes some microseconds of a CPU
/// that may be measured.
const NOW_AND_THEN: Duration = Duration::from_secs(1);

/// The lock on the whole host, held until dropped. Drop this lock after the changes are reverted.
#[derive(Debug)]
pub struct WholeHost(Lock);

impl WholeHost {
    /// Keeps the lock for as long as this process lives, because some changes could not be reverted.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for WholeHost {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The longest time for which a run waits for another run that changes the whole host.
const WHOLE_HOST_WAIT: Duration = Duration::from_secs(10);

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

impl Guard {
    /// Creates a guard with its journal in the user's own folder: see [`journal_directories`].
    pub fn new() -> Self {
        // The last of them does not depend on anything, so there is a first.
        Self::in_directory(&journal_directories()[0])
    }

    /// Creates a guard with its journal in `directory`, which is created if its parent exists.
    pub fn in_directory(directory: &Path) -> Self {
        let shared = ChangeRegistry { directory: directory.into(), active: Mutex::new(None) };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a guard and immediately its journal and supervisor, for callers that must know in advance whether
    /// changes are possible.
    ///
    /// # Errors
    /// Returns the errors of [`Guard::record`].
    pub fn start() -> Result<Self, SupervisorError> {
        let guard = Self::new();
        guard.shared.with_active("none yet", |_| Ok(()))?;
        Ok(guard)
    }

    /// Writes to the journal how to revert a change. Call this function before the change; if the call fails, do not
    /// make the change.
    ///
    /// # Errors
    /// Returns an error if the journal or the supervisor is not available. A supervisor that was killed is replaced.
    pub fn record(&self, undo: Undo) -> Result<UndoId, SupervisorError> {
        let change = undo.to_string();
        self.shared.with_active(&change, |active| active.record(undo))
    }

    /// Takes the lock on the whole host, which changes of shared settings require; waits some seconds for another
    /// run.
    ///
    /// # Errors
    /// Returns an error if another run holds the lock, or a crashed run has left changes behind. Also returns the
    /// errors of [`Guard::record`].
    pub fn lock_whole_host(&self) -> Result<WholeHost, SupervisorError> {
        let directory = &self.shared.directory;
        let failed = |source| SupervisorError::Directory { path: directory.clone(), source };
        let lock = match Lock::wait(directory, WHOLE_HOST_WAIT, interrupt::requested) {
            Ok(Waited::Held(lock)) => WholeHost(lock),
            Ok(Waited::Busy(holder)) => {
                // A stopped supervisor of a dead run holds it until it is restored.
                restore::refuse_leftovers(&leftovers(directory))?;
                return Err(in_use(holder));
            }
            Ok(Waited::Refused(source)) => {
                return Err(SupervisorError::NoLocks { path: directory.clone(), source });
            }
            Err(error) => return Err(failed(error)),
        };
        // What the run before has left changed would be recorded as what to restore.
        restore::refuse_leftovers(&leftovers(directory))?;
        let shared = lock.0.share().map_err(failed)?;
        self.shared.with_active("the lock on the whole host", |active| active.share(shared))?;
        Ok(lock)
    }

    /// Checks that the supervisor works, if there is one. A supervisor that was killed is replaced. Runs that make no
    /// change for a long time should call this function regularly.
    ///
    /// # Errors
    /// Returns [`SupervisorError::Silent`] if the supervisor is stopped, and the errors of [`Guard::record`].
    pub fn check(&self) -> Result<(), SupervisorError> {
        let change = "none; the changes so far are taken back";
        self.shared.lock().as_mut().map_or(Ok(()), |active| active.attend(change, NOW_AND_THEN))
    }

    /// Checks the supervisor like [`Guard::check`], and promises another call within some seconds. If this process is
    /// stopped or blocked and does not call, the supervisor reverts its changes.
    ///
    /// # Errors
    /// Returns [`SupervisorError::Lapsed`] if the last call of this function is too long ago, and the errors of
    /// [`Guard::check`].
    pub fn beat(&self) -> Result<(), SupervisorError> {
        let mut slot = self.shared.lock();
        let Some(active) = slot.as_mut() else { return Ok(()) };
        // Answers to changes made meanwhile may be recent all the time: the promise itself waits for none of them.
        let promised = std::mem::replace(&mut active.question, watch::BEAT) == watch::BEAT;
        let recent = if promised { NOW_AND_THEN } else { Duration::ZERO };
        active.attend("none; the changes so far are taken back", recent)
    }

    /// Reverts one change before the end of the run. A second call has no effect, nor has a call for a change of
    /// another guard.
    ///
    /// # Errors
    /// Returns an error if the change cannot be reverted; the change then stays listed.
    pub fn undo(&self, id: UndoId) -> Result<(), SupervisorError> {
        match self.shared.lock().as_mut() {
            Some(active) if active.serial == id.journal => {
                let outcome = active.journal.undo(id.number);
                active.report(outcome.into_iter().collect())
            }
            _ => Ok(()),
        }
    }

    /// Removes a change from the list because its maker has reverted it, or because it no longer belongs to this run.
    pub fn settled(&self, id: UndoId) {
        let mut slot = self.shared.lock();
        if let Some(active) = slot.as_mut().filter(|active| active.serial == id.journal) {
            active.journal.mark_done(id.number);
        }
    }

    /// Sets the file `path` to `value`, until [`Guard::undo`] or the end of the run.
    ///
    /// For a setting that lists its choices (`always [madvise] never`), the choice in brackets is restored.
    ///
    /// # Errors
    /// Returns the errors of [`Guard::record`], and an error if the file cannot be read or written; the setting then
    /// stays unchanged.
    pub fn set(&self, path: &Path, value: &str) -> Result<UndoId, SupervisorError> {
        let failed = |verb: String| {
            move |source| SupervisorError::Setting { path: path.to_owned(), verb, source }
        };
        let path = path.canonicalize().map_err(failed("read".into()))?;
        let shown = proc::text(&path).map_err(failed("read".into()))?;
        let content = chosen(&shown).to_owned();
        let id = self.record(Undo::WriteFile { path: path.clone(), content })?;
        if let Err(source) = undo::write_existing(&path, value) {
            self.settle_failed(id, &path, &shown);
            return Err(failed(format!("changed to `{value}`"))(source));
        }
        Ok(id)
    }

    /// Handles a failed write: if the setting is unchanged, the entry is removed, because restoring would fail as
    /// well.
    fn settle_failed(&self, id: UndoId, path: &Path, shown: &str) {
        if proc::text(path).is_ok_and(|now| now == shown) {
            self.settled(id);
        } else {
            // Where this fails it stays listed, and is reported at the end.
            let _reported_later = self.undo(id);
        }
    }

    /// Reverts all changes, the last one first, and ends the supervisor, like dropping the guard but with a report.
    /// The guard can be used again.
    ///
    /// # Errors
    /// Returns an error if some change could not be reverted. Such a change stays listed for [`restore`].
    pub fn take_all_back(&self) -> Result<(), SupervisorError> {
        self.shared.end()
    }

    /// Returns the process ID of the supervisor, if one was needed so far.
    pub fn supervisor_pid(&self) -> Option<u32> {
        self.shared.lock().as_ref().map(|active| active.supervisor.id())
    }
}

fn in_use(holder: Option<i32>) -> SupervisorError {
    let owner = holder.map_or("whose number is unknown".to_owned(), |pid| format!("process {pid}"));
    if interrupt::requested() {
        return SupervisorError::Interrupted { owner };
    }
    SupervisorError::WholeHostInUse { owner, seconds: WHOLE_HOST_WAIT.as_secs() }
}

/// The text to write in order to restore the setting that reads as `shown`.
fn chosen(shown: &str) -> &str {
    let in_brackets = |word: &&str| word.starts_with('[') && word.ends_with(']') && word.len() > 2;
    let mut words = shown.split_whitespace().filter(in_brackets);
    match (words.next(), words.next()) {
        (Some(word), None) => &word[1..word.len() - 1],
        _ => shown,
    }
}

impl ChangeRegistry {
    fn lock(&self) -> MutexGuard<'_, Option<SupervisorSession>> {
        // A panic elsewhere leaves the list as it was: each of its lines is written in one go.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the journal and the supervisor, which are created for the first `change`.
    fn with_active<T>(
        &self,
        change: &str,
        work: impl FnOnce(&mut SupervisorSession) -> Result<T, SupervisorError>,
    ) -> Result<T, SupervisorError> {
        let mut slot = self.lock();
        let active = match slot.take() {
            Some(active) => active,
            None => SupervisorSession::begin(&self.directory, change)?,
        };
        work(slot.insert(active))
    }

    fn end(&self) -> Result<(), SupervisorError> {
        self.lock().take().map_or(Ok(()), SupervisorSession::end)
    }
}

impl Drop for ChangeRegistry {
    fn drop(&mut self) {
        // What could not be taken back stays in the journal, where `restore` reports it.
        let _reported_later = self.end();
    }
}

impl SupervisorSession {
    fn begin(directory: &Path, change: &str) -> Result<Self, SupervisorError> {
        ProcessId::own().map_err(|source| SupervisorError::Proc { source })?;
        let journal = Journal::create(directory).map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                SupervisorError::Journal { path: directory.into(), change: change.into(), source }
            }
            _ => SupervisorError::Directory { path: directory.into(), source },
        })?;
        match start_supervisor(&journal, None) {
            Ok((supervisor, lifeline)) => Ok(Self {
                serial: JOURNALS_BEGUN.fetch_add(1, Ordering::Relaxed),
                journal,
                supervisor,
                lifeline,
                answered: Instant::now(),
                question: watch::ALIVE,
                whole: None,
            }),
            Err(error) => {
                // It lists nothing; a file left over would be reported as such, and do no harm.
                let _left_over = journal.remove();
                Err(error)
            }
        }
    }

    /// Replaces a supervisor that was killed. If the supervisor was not killed, requests an answer from the supervisor,
    /// unless the last answer is `recent`.
    fn attend(&mut self, change: &str, recent: Duration) -> Result<(), SupervisorError> {
        if matches!(self.supervisor.try_wait(), Ok(None)) {
            if self.answered.elapsed() < recent {
                return Ok(());
            }
            let pid = self.supervisor.id();
            let silent = |state| SupervisorError::Silent { pid, state, change: change.to_owned() };
            match watch::ask(&self.lifeline, pid, self.question).map_err(silent)? {
                SupervisorReply::Watches => {
                    self.answered = Instant::now();
                    return Ok(());
                }
                SupervisorReply::TookBack => return Err(SupervisorError::Lapsed),
                SupervisorReply::Nothing => {}
            }
            // It is dying: its number stays its own until it is waited for.
            let _dead = self.supervisor.kill().and_then(|()| self.supervisor.wait());
        }
        interrupt::clear_lifeline(self.lifeline.as_raw_fd());
        (self.supervisor, self.lifeline) = start_supervisor(&self.journal, self.whole.as_ref())?;
        self.answered = Instant::now();
        Ok(())
    }

    fn record(&mut self, undo: Undo) -> Result<UndoId, SupervisorError> {
        let change = undo.to_string();
        self.attend(&change, RECENT)?;
        match self.journal.append(undo) {
            Ok(number) => Ok(UndoId { journal: self.serial, number }),
            Err(source) => {
                Err(SupervisorError::Journal { path: self.journal.path.clone(), change, source })
            }
        }
    }

    /// Replaces the supervisor by one that shares `lock`.
    fn share(&mut self, lock: Lock) -> Result<(), SupervisorError> {
        let (supervisor, lifeline) = start_supervisor(&self.journal, Some(&lock))?;
        dismiss(&mut self.supervisor, &mut self.lifeline);
        (self.supervisor, self.lifeline, self.whole) = (supervisor, lifeline, Some(lock));
        Ok(())
    }

    fn end(mut self) -> Result<(), SupervisorError> {
        let outcomes = self.journal.undo_all();
        let result = self.report(outcomes);
        if self.journal.is_settled() {
            // A journal without a live line does no harm.
            let _left_over = self.journal.remove();
        }
        dismiss(&mut self.supervisor, &mut self.lifeline);
        if let Some(directory) = self.journal.path.parent() {
            whole::tidy(directory);
        }
        result
    }

    fn report(&self, outcomes: Vec<(String, UndoOutcome)>) -> Result<(), SupervisorError> {
        let left: Vec<String> = outcomes
            .into_iter()
            .filter(|(_, outcome)| !outcome.is_settled())
            .map(|(what, outcome)| format!("{what}: {outcome}"))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(SupervisorError::Left { left: left.join("; "), journal: self.journal.path.clone() })
    }
}

/// The time after which a supervisor that has not ended is killed.
const DEAF: Duration = Duration::from_secs(1);
/// The time after which a killed supervisor that has not ended is left alone.
const LEFT: Duration = Duration::from_secs(3);

/// Ends a supervisor. A stopped supervisor does not receive messages and is killed. The supervisor is a child of this
/// process, so its ID cannot belong to another process. If the supervisor cannot end, nothing waits for it.
fn dismiss(supervisor: &mut Child, lifeline: &mut UnixStream) {
    interrupt::clear_lifeline(lifeline.as_raw_fd());
    let _dead_already = lifeline.write_all(&[watch::DONE]);
    let begun = Instant::now();
    while matches!(supervisor.try_wait(), Ok(None)) && begun.elapsed() < LEFT {
        if begun.elapsed() > DEAF {
            let _ends_it = supervisor.kill();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn start_supervisor(
    journal: &Journal,
    whole: Option<&Lock>,
) -> Result<(Child, UnixStream), SupervisorError> {
    let arguments = [journal.path.as_os_str()];
    let shared = whole.map(|lock| lock.file.try_clone()).transpose();
    let shared = shared.map_err(|source| SupervisorError::Start { source })?;
    let stdout = shared.map_or_else(Stdio::null, Stdio::from);
    let (child, lifeline) = process::start_helper(watch::ROLE, &arguments, stdout, Stdio::null())
        .map_err(|source| match source.kind() {
        io::ErrorKind::NotConnected => SupervisorError::NotPrepared,
        _ => SupervisorError::Start { source },
    })?;
    interrupt::set_lifeline(lifeline.as_raw_fd());
    Ok((child, lifeline))
}

/// Runs a helper process with this role and these arguments; returns `None` for an unknown role.
pub type RoleFunction = fn(&str, &[OsString]) -> Option<io::Result<()>>;

/// Runs a helper's work if this process was started as a helper, and returns its exit code. Call this function first
/// in `main`. `others` handles the roles of the caller's own helpers.
pub fn main_if_asked(others: RoleFunction) -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let role = arguments.next()?;
    let rest: Vec<_> = arguments.collect();
    let done = match (role.to_str()?, &rest[..]) {
        (watch::ROLE, [journal]) => watch::supervise(journal),
        (load::ROLE, [cpus, command]) => load::keep(cpus, command),
        (role, rest) => others(role, rest)?,
    };
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn of_a_setting_that_shows_its_choices_the_chosen_one_is_restored() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("950000\n"), "950000\n");
        assert_eq!(chosen("[a] [b]\n"), "[a] [b]\n");
        assert_eq!(chosen("[]"), "[]");
    }

    #[test]
    fn a_guard_that_guards_nothing_writes_nothing_and_starts_no_process() {
        let here = tempfile::tempdir().unwrap();
        let guard = Guard::in_directory(&here.path().join("run"));
        guard.undo(UndoId { journal: 0, number: 0 }).unwrap();
        guard.take_all_back().unwrap();
        assert_eq!(guard.supervisor_pid(), None);
        assert!(!here.path().join("run").exists());
    }

    #[test]
    fn a_program_that_cannot_be_a_supervisor_is_told_so_and_leaves_no_journal() {
        // This very test program does not call `main_if_asked`.
        let here = tempfile::tempdir().unwrap();
        let guard = Guard::in_directory(&here.path().join("run"));
        let error = guard.record(Undo::RemoveFile { path: "/none".into() }).unwrap_err();
        assert!(matches!(error, SupervisorError::NotPrepared), "{error}");
        assert_eq!(fs::read_dir(here.path().join("run")).unwrap().count(), 0);
    }
}
