// SPDX-License-Identifier: MIT OR Apache-2.0
//! The supervisor process: waits for the death of the one that makes changes, then takes back
//! what the journal still lists.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::process::{READY, enter_helper, wait_readable};
use super::whole;
use crate::proc::Task;

/// The argument that makes the program a supervisor.
pub(super) const ROLE: &str = "__supervise";
/// Sent to the supervisor: all is taken back, it may go.
pub(super) const DONE: u8 = b'D';
/// Sent to the supervisor: answer with this byte, to show that it hears.
pub(super) const ALIVE: u8 = b'A';
/// Sent to the supervisor: take everything back at once, and answer with one byte.
pub(super) const UNDO_NOW: u8 = b'U';

/// The supervisor's `main`: watches over the owner of `journal`.
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
    // The lifeline breaks while the owner is still dying.
    if let Some(death) = &death {
        wait_readable([Some(death)], None)?;
    }
    while !owner.wait_gone(Duration::from_mins(1)) {}
    journal.lock();
    journal.reload()?;
    journal.undo_all();
    // What could not be taken back stays listed for `corehop doctor --restore`.
    if journal.is_settled() {
        journal.remove()?;
    }
    // It ends with this process at the latest.
    let _released = whole::release_stdout();
    journal.path.parent().into_iter().for_each(whole::tidy);
    Ok(())
}

/// The longest that a supervisor may take to answer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which a supervisor that has not answered is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the supervisor `pid`, a child of this process, for an answer by its lifeline. Whether it gives one; it does not if
/// it is dying.
///
/// # Errors
/// With its state in words, if it lives and is silent.
pub(super) fn ask(mut lifeline: &UnixStream, pid: u32) -> Result<bool, String> {
    if lifeline.write_all(&[ALIVE]).is_err() {
        return Ok(false);
    }
    let begun = Instant::now();
    loop {
        let waited = wait_readable([Some(lifeline)], Some(LOOK));
        let [answered] = waited.map_err(|error| format!("cannot be heard ({error})"))?;
        if answered {
            let mut words = [0; 16];
            match lifeline.read(&mut words) {
                // An answer to `UNDO_NOW` for which no wait was left may come first.
                Ok(count) if count > 0 && !words[..count].contains(&ALIVE) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                heard => return Ok(heard.is_ok_and(|count| count > 0)),
            }
        }
        if Task::process(pid).stat().is_ok_and(|stat| stat.is_stopped()) {
            return Err("is stopped".to_owned());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("has not answered for {} seconds", PATIENCE.as_secs()));
        }
    }
}

/// Answers the owner. An owner that did not wait for the answer is dying, which the next look at it shows.
fn tell(lifeline: &mut UnixStream, word: [u8; 1]) {
    let _gone = lifeline.write_all(&word);
}

/// Whether the owner took everything back itself; false when it died.
///
/// A child that the owner has forked may keep the lifeline open, so the notice of its death
/// counts as well.
fn owner_said_done(
    lifeline: &mut UnixStream,
    death: Option<&OwnedFd>,
    journal: &mut Journal,
) -> io::Result<bool> {
    loop {
        let [spoke, _died] = wait_readable([Some(&*lifeline), death.map(|fd| fd as _)], None)?;
        if !spoke {
            return Ok(false);
        }
        let mut word = [0];
        match lifeline.read(&mut word) {
            Ok(1) if word == [DONE] => return Ok(true),
            Ok(1) if word == [ALIVE] => tell(lifeline, word),
            Ok(1) if word == [UNDO_NOW] => {
                journal.reload()?;
                journal.undo_all_under_owner();
                tell(lifeline, word);
            }
            _ => return Ok(false),
        }
    }
}
