// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks on files (flock(2)), which a file system or a sandbox may refuse.
//!
//! A host that refuses locks refuses them to every run: the file that one run would lock must not stay behind and block
//! the next run. So the refusal is an answer beside "held" and "busy", and each caller decides what it means.

use std::fs::{File, TryLockError};
use std::io;

/// The answer to the request for a lock.
#[derive(Debug)]
pub enum Locking {
    /// The lock is held now, until the last copy of the open file is closed.
    Held,
    /// Another process holds the lock.
    Busy,
    /// There are no locks on this file: the kernel's answer.
    Refused(io::Error),
}

impl Locking {
    /// Whether another process holds the lock.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// Asks for the lock on a file.
pub fn try_lock(file: &File) -> Locking {
    match file.try_lock() {
        Ok(()) => Locking::Held,
        Err(TryLockError::WouldBlock) => Locking::Busy,
        Err(TryLockError::Error(error)) => Locking::Refused(error),
    }
}

/// Waits for the lock on a file; whether it is held then. Where locks are refused there is none to wait for.
pub(crate) fn wait(file: &File) -> bool {
    loop {
        match file.lock() {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_refused) => return false,
        }
    }
}
