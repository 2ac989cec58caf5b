// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel interfaces for sampling: write protection that reports the writer (userfaultfd(2)), and the list of
//! present pages (`PAGEMAP_SCAN`, Linux 6.7).
//!
//! <https://docs.kernel.org/admin-guide/mm/userfaultfd.html>, <https://docs.kernel.org/admin-guide/mm/pagemap.html>

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::areas::Range;

const API: u64 = 0xAA;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WAKE: libc::c_ulong = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const REGISTER_WRITE_PROTECTION: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;
/// The features `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `_THREAD_ID`, `_EXACT_ADDRESS`, `_WP_HUGETLBFS_SHMEM`.
const FEATURES: u64 = 1 << 0 | 1 << 8 | 1 << 11 | 1 << 12;
const EVENT_FAULT: u8 = 0x12;
/// The length of a page.
pub(super) const PAGE: u64 = 4_096;

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

/// The kernel's message about a write to a protected page. The thread waits until the page is unprotected.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed)]
struct Message {
    event: u8,
    _reserved: [u8; 7],
    _flags: u64,
    address: u64,
    tid: u32,
    _unused: u32,
}

/// A fault: its address, and the thread ID in the thread's own namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageFault {
    pub(super) address: u64,
    pub(super) tid: u32,
}

/// A userfaultfd descriptor. The registered memory is released when the last copy of the descriptor is closed.
#[derive(Debug)]
pub(super) struct Uffd(OwnedFd);

impl Uffd {
    /// Prepares a descriptor that was obtained from a process. The call requests the features that sampling needs.
    ///
    /// # Errors
    /// Fails with `EINVAL` if the kernel lacks a feature.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        let mut words = [API, FEATURES, 0];
        call(&fd, UFFDIO_API, words.as_mut_ptr())?;
        Ok(Self(fd))
    }

    /// Opens a descriptor of this process, to test whether that is possible.
    ///
    /// # Errors
    /// Fails with `EPERM` without the privilege, or with `EINVAL` or `ENOSYS` if the kernel lacks support.
    pub(super) fn own() -> io::Result<Self> {
        // SAFETY: takes an integer.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, FLAGS) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the kernel has just made, with this one owner.
        Self::new(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Allows pages in this range to be protected.
    ///
    /// # Errors
    /// Fails with `EINVAL` if the kernel cannot protect the range, or it is no longer mapped.
    pub(super) fn register(&self, (start, end): Range) -> io::Result<()> {
        let mut words = [start, end - start, REGISTER_WRITE_PROTECTION, 0];
        call(&self.0, UFFDIO_REGISTER, words.as_mut_ptr())
    }

    /// Protects the present pages of a range.
    ///
    /// # Errors
    /// Fails with `ENOENT` if the range is no longer mapped, or with `ESRCH` if the process has ended or runs another
    /// program.
    pub(super) fn protect(&self, range: Range) -> io::Result<()> {
        self.set(range, PROTECT)
    }

    /// Removes the protection, and wakes the waiting threads.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended or runs another program. After any other error no thread waits.
    pub(super) fn release(&self, range: Range) -> io::Result<()> {
        match self.set(range, 0) {
            // It was unmapped meanwhile: who waits has to find out.
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => self.wake(range),
            done => done,
        }
    }

    /// Checks that the process still runs the program to which the descriptor belongs.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended or runs another program.
    pub(super) fn check(&self) -> io::Result<()> {
        // Only calls that protect and release tell that the memory is gone. This address is the lowest that may be mapped.
        match self.set((1 << 16, (1 << 16) + PAGE), 0) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    fn set(&self, (start, end): Range, mode: u64) -> io::Result<()> {
        loop {
            let mut words = [start, end - start, mode];
            match call(&self.0, UFFDIO_WRITEPROTECT, words.as_mut_ptr()) {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                done => return done,
            }
        }
    }

    fn wake(&self, (start, end): Range) -> io::Result<()> {
        let mut words = [start, end - start];
        call(&self.0, UFFDIO_WAKE, words.as_mut_ptr())
    }

    /// Returns the page faults that wait for handling.
    ///
    /// # Errors
    /// Fails with the errors of read(2).
    pub(super) fn faults(&self) -> io::Result<Vec<PageFault>> {
        let mut messages = [Message::default(); 32];
        let bytes = size_of_val(&messages);
        // SAFETY: the kernel writes at most so many bytes to a live local, whose every pattern of bits is valid.
        let length = unsafe { libc::read(self.0.as_raw_fd(), messages.as_mut_ptr().cast(), bytes) };
        if length < 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
                error => Err(error),
            };
        }
        let messages = &messages[..length as usize / size_of::<Message>()];
        let faults = messages.iter().filter(|it| it.event == EVENT_FAULT);
        Ok(faults.map(|it| PageFault { address: it.address, tid: it.tid }).collect())
    }
}

impl AsRawFd for Uffd {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// The flags of the descriptor. Faults in kernel code are reported too; otherwise read(2) into a protected page would
/// fail.
pub(super) const FLAGS: i32 = libc::O_CLOEXEC | libc::O_NONBLOCK;

/// Executes one of the ioctl calls above.
fn call<T>(fd: &impl AsRawFd, number: libc::c_ulong, argument: *mut T) -> io::Result<()> {
    // SAFETY: each caller gives a live local of the size that the call's number holds.
    match unsafe { libc::ioctl(fd.as_raw_fd(), number, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The argument of `PAGEMAP_SCAN`.
#[derive(Default)]
#[repr(C)]
struct PagemapScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    told: u64,
}

/// A range of adjacent pages.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct PageRange {
    start: u64,
    end: u64,
    _categories: u64,
}

/// The present pages of a range as runs, without huge pages; only the first 64 runs.
///
/// # Errors
/// Fails with `ENOTTY` before Linux 6.7. If the process has ended, fails with `ESRCH` or returns an empty list.
pub(super) fn populated(pagemap: &File, (start, end): Range) -> io::Result<Vec<Range>> {
    let mut regions = [PageRange::default(); 64];
    let mut scan = PagemapScan {
        size: size_of::<PagemapScan>() as u64,
        start,
        end,
        regions: regions.as_mut_ptr() as u64,
        regions_len: regions.len() as u64,
        inverted: HUGE | ZERO,
        all_of: PRESENT | HUGE | ZERO,
        told: PRESENT,
        ..PagemapScan::default()
    };
    // SAFETY: the kernel reads and writes the argument and writes to `regions`; both outlive the call.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(regions[..found as usize].iter().map(|it| (it.start, it.end)).collect())
}
