// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks on files (flock(2)), which a file system or a sandbox may refuse.
//!
//! A host that refuses locks refuses them to every run, so a lock file that cannot be locked must not stay and block
//! the next run. So "refused" is a result beside "held" and "busy", and each caller decides how to treat it.

use std::fs::{File, TryLockError};
use std::io;

/// The result of requesting a lock.
#[derive(Debug)]
pub enum Locking {
    /// This process now holds the lock, until the last copy of the open file is closed.
    Held,
    /// Another process holds the lock.
    Busy,
    /// The file cannot be locked, with the kernel's error.
    Refused(io::Error),
}

impl Locking {
    /// Returns whether another process holds the lock.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// Tries to lock a file.
pub fn try_lock(file: &File) -> Locking {
    match file.try_lock() {
        Ok(()) => Locking::Held,
        Err(TryLockError::WouldBlock) => Locking::Busy,
        Err(TryLockError::Error(error)) => Locking::Refused(error),
    }
}

/// Waits for the lock on a file; returns whether this process then holds the lock. If the file system refuses locks,
/// the call returns immediately.
pub(crate) fn wait(file: &File) -> bool {
    loop {
        match file.lock() {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_refused) => return false,
        }
    }
}
