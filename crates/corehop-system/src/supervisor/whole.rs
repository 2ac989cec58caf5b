// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock on the whole host: only one run at a time changes settings that all programs share.
//!
//! Two runs that change one setting would each record the other's value as the value to restore. The lock is a file
//! beside the journals (flock(2)). The supervisor holds the open file as its standard output, so the lock lasts until
//! both processes are dead, or until the changes are reverted. The holder may remove the file, so a lock counts only
//! while the file name still leads to the locked file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::journal::{check_private, private_directory};
use crate::flock::{self, Locking};
use crate::proc;

/// The name of the lock file.
const NAME: &str = "whole-host.lock";

/// The largest number of bytes read from the file; a process ID is shorter.
const LONGEST: u64 = 32;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The open lock file.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    pub(super) file: File,
}

/// The result of waiting for the lock.
#[derive(Debug)]
pub(super) enum Waited {
    /// This process now holds the lock.
    Held(Lock),
    /// Another process held the lock all the time. The value is the ID of that process, if the process has written its
    /// ID.
    Busy(Option<i32>),
    /// The file cannot be locked.
    Refused(io::Error),
}

impl Lock {
    /// Waits for the lock in `directory` for at most `limit`, or until `stop`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub(super) fn wait(
        directory: &Path,
        limit: Duration,
        stop: fn() -> bool,
    ) -> io::Result<Waited> {
        let begun = Instant::now();
        loop {
            let tried = Self::try_take(directory)?;
            if !matches!(tried, Waited::Busy(_)) || begun.elapsed() > limit || stop() {
                return Ok(tried);
            }
            sleep(PAUSE);
        }
    }

    /// Makes one attempt to take the lock.
    fn try_take(directory: &Path) -> io::Result<Waited> {
        let directory = private_directory(directory)?;
        let mut lock = match Self::open(&directory, true) {
            // A run that ended just now has removed the folder, which was empty.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Waited::Busy(None)),
            opened => opened?,
        };
        Ok(match lock.take()? {
            Locking::Held => {
                write!(lock.file, "{}", std::process::id())?;
                Waited::Held(lock)
            }
            // The file stays and blocks no run: the lock counts, not the file.
            Locking::Refused(error) => Waited::Refused(error),
            Locking::Busy => Waited::Busy(lock.holder()),
        })
    }

    fn open(directory: &Path, create: bool) -> io::Result<Self> {
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
        Ok(Self { path, file })
    }

    /// Takes the lock if it is free. A lock on a file that has lost its name counts as held by another process.
    fn take(&mut self) -> io::Result<Locking> {
        let answer = flock::try_lock(&self.file);
        if matches!(answer, Locking::Held) {
            if !self.has_its_name()? {
                return Ok(Locking::Busy);
            }
            self.file.set_len(0)?;
            self.file.rewind()?;
        }
        Ok(answer)
    }

    /// Calls [`Self::take`] for callers that do not wait.
    fn is_taken(&mut self) -> bool {
        self.take().is_ok_and(|answer| matches!(answer, Locking::Held))
    }

    fn has_its_name(&self) -> io::Result<bool> {
        let open = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn holder(&mut self) -> Option<i32> {
        let mut text = Vec::new();
        (&self.file).take(LONGEST).read_to_end(&mut text).ok()?;
        proc::number(text.trim_ascii())
    }

    /// Returns another descriptor of the open file, which shares the lock.
    pub(super) fn share(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), file: self.file.try_clone()? })
    }

    /// Removes the file and releases the lock, for every process that shares it.
    pub(super) fn release(&self) {
        if self.has_its_name().unwrap_or(false) {
            // A file that stays does no harm: the lock counts, not the file.
            let _stays = fs::remove_file(&self.path);
        }
        let _ends_with_the_process = self.file.unlock();
    }
}

/// Releases the lock that the calling supervisor may share as its standard output.
pub(super) fn release_stdout() -> io::Result<()> {
    File::from(io::stdout().as_fd().try_clone_to_owned()?).unlock()
}

/// Removes the lock file if no process holds it, and `directory` if it is empty.
pub(super) fn tidy(directory: &Path) {
    if check_private(directory).is_err() {
        return;
    }
    if let Ok(mut lock) = Lock::open(directory, false)
        && lock.is_taken()
    {
        lock.release();
    }
    // It stays where another run has a journal in it.
    let _in_use = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn() -> bool = || false;

    fn wait(directory: &Path) -> Waited {
        Lock::wait(directory, Duration::ZERO, NEVER).unwrap()
    }

    #[test]
    fn the_second_is_told_the_number_of_the_first_and_has_the_lock_after_it() {
        let here = tempfile::tempdir().unwrap();
        let Waited::Held(first) = wait(here.path()) else { panic!("no other process has it") };
        let own = std::process::id() as i32;
        assert!(matches!(wait(here.path()), Waited::Busy(Some(pid)) if pid == own));
        let shared = first.share().unwrap();
        drop(first);
        assert!(matches!(wait(here.path()), Waited::Busy(Some(_))), "the supervisor has it still");
        shared.release();
        assert!(matches!(wait(here.path()), Waited::Held(_)));
    }

    #[test]
    fn a_lock_on_a_file_that_lost_its_name_does_not_count() {
        let here = tempfile::tempdir().unwrap();
        let Waited::Held(first) = wait(here.path()) else { panic!("no other process has it") };
        // Opened before the first lets go, locked afterwards.
        let mut late = Lock::open(here.path(), false).unwrap();
        first.release();
        assert!(late.take().unwrap().is_busy());
    }

    #[test]
    fn a_file_without_a_holder_goes_and_so_does_the_folder_but_not_while_it_is_held() {
        let here = tempfile::tempdir().unwrap();
        let place = here.path().join("run");
        let Waited::Held(lock) = wait(&place) else { panic!("no other process has it") };
        tidy(&place);
        assert!(place.join(NAME).exists());
        drop(lock);
        tidy(&place);
        assert!(!place.exists());
    }
}
