// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory mappings: new memory, or the contents of a file.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// The access mode for reading and writing.
pub(crate) const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping of memory, which is unmapped when the value is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory belongs to the value and not to a thread; it is accessed only through `start`, whose users
// answer for how.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps new private memory; `flags` selects the kind of pages.
    pub(crate) fn private(bytes: usize, flags: i32) -> io::Result<Self> {
        Self::map(bytes, WRITABLE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags, -1)
    }

    /// Maps `fd` from its beginning, shared with all its users and immediately present.
    pub(crate) fn shared(fd: BorrowedFd<'_>, bytes: usize, access: i32) -> io::Result<Self> {
        Self::map(bytes, access, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd())
    }

    /// Maps a file from its beginning as the loader maps a library; a file system mounted without execution refuses.
    pub(crate) fn executable(file: &std::fs::File, bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, file.as_raw_fd())
    }

    fn map(bytes: usize, access: i32, flags: i32, fd: i32) -> io::Result<Self> {
        // SAFETY: a fresh mapping that the kernel places; nothing existing is affected.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        match NonNull::new(at.cast()) {
            Some(start) if at != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The address of the first byte, aligned to a page and valid as long as the mapping.
    #[inline]
    pub(crate) const fn start<T>(&self) -> NonNull<T> {
        self.start.cast()
    }

    /// The length of the mapping in bytes.
    #[inline]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the allowed access to the mapping.
    pub(crate) fn protect(&self, access: i32) -> io::Result<()> {
        // SAFETY: our own mapping.
        let answer = unsafe { libc::mprotect(self.start.as_ptr().cast(), self.bytes, access) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives the kernel an advice; returns whether the kernel accepted it.
    pub(crate) fn advise(&self, advice: i32) -> bool {
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) == 0 }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap gave, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
