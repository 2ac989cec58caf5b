// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor process waits for the death of the process that makes changes, then reverts what the journal still
//! lists.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::process::{READY, enter_helper, wait_readable};
use super::whole;
use crate::proc::ProcEntry;

/// The command-line argument that starts the program as a supervisor.
pub(super) const ROLE: &str = "__supervise";
/// The message to the supervisor that all changes are reverted and it may end.
pub(super) const DONE: u8 = b'D';
/// The message to the supervisor that requests this byte as an answer, to show that it works.
pub(super) const ALIVE: u8 = b'A';
/// The message to the supervisor that requests an answer and promises the next message within [`LAPSE`].
pub(super) const BEAT: u8 = b'B';
/// The answer to [`BEAT`] if an earlier message did not arrive in time, so that all changes were reverted.
const LAPSED: u8 = b'L';
/// The message to the supervisor to revert all changes immediately, and answer with one byte.
pub(super) const UNDO_NOW: u8 = b'U';

/// The supervisor's `main`, which watches the owner of `journal`.
pub(super) fn supervise(journal: &OsStr) -> io::Result<()> {
    let mut lifeline = enter_helper(c"corehop-guard")?;
    let mut journal = Journal::open(Path::new(journal))?;
    std::env::set_current_dir("/")?;
    let owner = journal.header.owner;
    let death = owner.death_notice();
    lifeline.write_all(READY)?;
    if owner_said_done(&mut lifeline, death.as_ref(), &mut journal)? {
        return Ok(());
    }
    // The lifeline breaks while the owner is still dying. A thread of the owner that does not get a CPU keeps its files
    // open, and so the lock on its journal; the main thread is dead.
    while !owner.wait_gone(Duration::from_mins(1)) {}
    journal.lock_within(RELEASED);
    journal.reload()?;
    journal.undo_all();
    // What could not be taken back stays listed for `corehop doctor restore`.
    if journal.is_settled() {
        journal.remove()?;
    }
    // It ends with this process at the latest.
    let _released = whole::release_stdout();
    journal.path.parent().into_iter().for_each(whole::tidy);
    Ok(())
}

/// The longest time for a supervisor's answer. The time is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which a supervisor that has not answered is checked.
const LOOK: Duration = Duration::from_millis(100);

/// The interval at which the supervisor checks whether the owner's main thread lives, because another thread that
/// cannot end would delay the notice of the owner's death.
const GLANCE: Duration = Duration::from_millis(400);
/// The wait for the lock on the journal of a dead owner.
const RELEASED: Duration = Duration::from_millis(200);
/// The time within which an owner that has sent [`BEAT`] must send it again; otherwise its changes are reverted.
const LAPSE: Duration = Duration::from_secs(5);

/// The answer of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SupervisorReply {
    /// The supervisor is watching the owner.
    Watches,
    /// The supervisor has reverted all changes, because this process was silent for too long.
    TookBack,
    /// The supervisor gave no answer because it is dying.
    Nothing,
}

/// Sends [`ALIVE`] or [`BEAT`] through the lifeline to the supervisor `pid`, a child of this process, and waits for the
/// supervisor's answer.
///
/// # Errors
/// Returns the supervisor's state in words if the supervisor lives and is silent.
pub(super) fn ask(
    mut lifeline: &UnixStream,
    pid: u32,
    word: u8,
) -> Result<SupervisorReply, String> {
    if lifeline.write_all(&[word]).is_err() {
        return Ok(SupervisorReply::Nothing);
    }
    let begun = Instant::now();
    loop {
        let waited = wait_readable([Some(lifeline)], Some(LOOK));
        let [answered] = waited.map_err(|error| format!("cannot be heard ({error})"))?;
        if answered {
            let mut words = [0; 16];
            match lifeline.read(&mut words) {
                // An answer to `UNDO_NOW` for which no wait was left may come first.
                Ok(count) if words[..count].contains(&LAPSED) => {
                    return Ok(SupervisorReply::TookBack);
                }
                Ok(count) if words[..count].contains(&word) => return Ok(SupervisorReply::Watches),
                Ok(count) if count > 0 => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                _ => return Ok(SupervisorReply::Nothing),
            }
        }
        if ProcEntry::process(pid).stat().is_ok_and(|stat| stat.is_stopped()) {
            return Err("is stopped".to_owned());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("has not answered for {} seconds", PATIENCE.as_secs()));
        }
    }
}

/// Answers the owner. If the owner did not wait for the answer, it is dying, which the next check shows.
fn tell(lifeline: &mut UnixStream, word: [u8; 1]) {
    let _gone = lifeline.write_all(&word);
}

/// Whether the owner reverted all changes itself; false if the owner died.
///
/// A forked child of the owner may keep the lifeline open, so the notice of the owner's death counts too. If the
/// owner sends regular messages, its main thread and the length of its silence are checked too.
fn owner_said_done(
    lifeline: &mut UnixStream,
    death: Option<&OwnedFd>,
    journal: &mut Journal,
) -> io::Result<bool> {
    let (mut beats, mut lapsed, mut silence) = (false, false, Duration::ZERO);
    loop {
        let (limit, begun) = (beats.then_some(GLANCE), Instant::now());
        let [spoke, died] = wait_readable([Some(&*lifeline), death.map(|fd| fd as _)], limit)?;
        if !spoke && (died || limit.is_none() || !journal.header.owner.is_alive()) {
            return Ok(false);
        }
        if !spoke {
            // A host that stands still for seconds makes both processes late: a glance counts for its length at most.
            silence += begun.elapsed().min(GLANCE);
            if !lapsed && silence > LAPSE {
                lapsed = true;
                journal.reload()?;
                journal.undo_all_under_owner();
            }
            continue;
        }
        let mut word = [0];
        match lifeline.read(&mut word) {
            Ok(1) if word == [DONE] => return Ok(true),
            Ok(1) if word == [ALIVE] => tell(lifeline, word),
            Ok(1) if word == [BEAT] => {
                (beats, silence) = (true, Duration::ZERO);
                tell(lifeline, [if lapsed { LAPSED } else { BEAT }]);
            }
            Ok(1) if word == [UNDO_NOW] => {
                journal.reload()?;
                journal.undo_all_under_owner();
                tell(lifeline, word);
            }
            _ => return Ok(false),
        }
    }
}
