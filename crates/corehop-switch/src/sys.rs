// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of the library, each behind a safe function.

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::policy::CoreSet;

/// The cores on which the calling thread may run.
///
/// # Errors
///
/// If the system has more cores than a [`CoreSet`] holds.
pub(crate) fn affinity() -> io::Result<CoreSet> {
    let mut words = CoreSet::EMPTY.words();
    // SAFETY: the kernel writes at most the given number of bytes.
    let outcome =
        unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    checked(outcome).map(|_| CoreSet::from_words(words))
}

/// Moves the calling thread to these cores.
///
/// # Errors
///
/// None of them is online and allowed.
pub(crate) fn set_affinity(cores: &CoreSet) -> io::Result<()> {
    let words = cores.words();
    // SAFETY: the kernel reads the given number of bytes.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    checked(outcome).map(drop)
}

fn checked(outcome: i32) -> io::Result<i32> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

/// The core of the calling thread, as of now.
pub(crate) fn current_core() -> Option<usize> {
    // SAFETY: no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Offers the core to other threads.
#[inline]
pub(crate) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Sleeps for so many nanoseconds, or until a signal.
pub(crate) fn nap(nanoseconds: u64) {
    // SAFETY: reads one timespec.
    unsafe { libc::nanosleep(&timespec(nanoseconds), ptr::null_mut()) };
}

/// The monotonic clock, in nanoseconds.
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = timespec(0);
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}

/// Sleeps while the word has this value: until woken, for at most so many nanoseconds, or until a signal.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = timespec(nanoseconds);
    // SAFETY: the word lives as long as the call; the kernel reads one timespec.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
        )
    };
}

/// Wakes the thread that sleeps on the word, if there is one.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel only uses the address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// Keeps signals from the threads that `start` creates: handlers belong to the program's own threads.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let outcome = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        outcome
    }
}

/// Notices a fork: the child has none of the partners.
///
/// A page of its own that the kernel clears in a child, however it was made.
#[derive(Debug)]
pub(crate) struct Witness {
    page: ptr::NonNull<AtomicU32>,
}

// SAFETY: the page is written once, before it is shared.
unsafe impl Send for Witness {}

const PAGE: usize = 4096;

impl Witness {
    /// # Errors
    ///
    /// No memory, or a kernel before 4.14.
    pub(crate) fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, protection, flags, -1, 0) };
        let page = ptr::NonNull::new(page).filter(|page| page.as_ptr() != libc::MAP_FAILED);
        let page = page.ok_or_else(io::Error::last_os_error)?.cast::<AtomicU32>();
        let witness = Self { page };
        // SAFETY: the mapping is this one's, and as large.
        checked(unsafe { libc::madvise(page.as_ptr().cast(), PAGE, libc::MADV_WIPEONFORK) })?;
        // SAFETY: mapped, aligned, and zero, which is a valid atomic.
        unsafe { page.as_ref() }.store(1, std::sync::atomic::Ordering::Relaxed);
        Ok(witness)
    }

    /// Whether this process was forked from the one that made the witness.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        // SAFETY: mapped as long as the witness lives.
        unsafe { self.page.as_ref() }.load(std::sync::atomic::Ordering::Relaxed) == 0
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}
