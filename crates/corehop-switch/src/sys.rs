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
/// Returns an error if the system has more cores than a [`CoreSet`] can name.
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
/// Returns an error if none of the cores is online and allowed.
pub(crate) fn set_affinity(cores: &CoreSet) -> io::Result<()> {
    let words = cores.words();
    // SAFETY: the kernel reads the given number of bytes.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    checked(outcome).map(drop)
}

fn checked(outcome: i32) -> io::Result<i32> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

/// The current core of the calling thread.
pub(crate) fn current_core() -> Option<usize> {
    // SAFETY: no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Whether [`membarrier`] works in this process from now on. In a process with several threads the first call takes
/// some 10 ms, because the kernel waits until every CPU has noticed the registration.
pub(crate) fn has_membarrier() -> bool {
    // SAFETY: no memory.
    unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)
            == 0
    }
}

/// Makes every running thread of this process execute a full fence. Returns false if the kernel refuses.
pub(crate) fn membarrier() -> bool {
    // SAFETY: no memory.
    unsafe {
        libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0
    }
}

/// Yields the core to other threads.
#[inline]
pub(crate) fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Sleeps for `nanoseconds`, or until a signal; thread cancellation does not end the sleep.
pub(crate) fn pause(nanoseconds: u64) {
    futex_wait(&AtomicU32::new(0), 0, nanoseconds);
}

/// The ID of this process.
pub(crate) fn process() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::getpid() }
}

/// The ID of the calling thread.
pub(crate) fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Whether the kernel no longer has this thread of the process; the kernel keeps a thread for a moment after a join.
pub(crate) fn is_gone(thread: i32) -> bool {
    // SAFETY: numbers alone. Signal 0 is never sent; a thread of another process that has the number now does not count.
    let outcome = unsafe { libc::syscall(libc::SYS_tgkill, process(), thread, 0) };
    if outcome >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
        return false;
    }
    // The kernel takes the number away before the thread leaves the list of the process, both under a lock that this call
    // takes, too.
    // SAFETY: all zeroes are a set; the kernel writes it.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
    }
    true
}

/// Waits until the kernel no longer has this joined thread, for at most a second because another thread may then have
/// the ID.
pub(crate) fn await_end(thread: i32) {
    let deadline = now() + 1_000_000_000;
    while !is_gone(thread) && now() < deadline {
        pause(20_000);
    }
}

/// A thread that runs a function on borrowed memory.
///
/// When the thread ends, it frees nothing and takes no lock that another thread can hold. A signal handler can
/// therefore wait for the end of the thread, whatever the handler interrupted. A thread of the standard library would
/// free memory of its creator.
#[derive(Debug)]
pub(crate) struct PosixThread(libc::pthread_t);

/// The function type of a thread.
pub(crate) type ThreadFunction = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// The size of a thread's stack in bytes, as in the standard library.
const STACK: usize = 2 << 20;

impl PosixThread {
    /// Starts a thread that receives no signals. If the caller has a real-time policy, the thread still gets the
    /// ordinary policy, because polling with the highest priority can block a machine.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no thread or memory left.
    ///
    /// # Safety
    ///
    /// The function must be safe to run with this argument on another thread, until [`Self::join`] has returned.
    pub(crate) unsafe fn start(
        function: ThreadFunction,
        argument: *mut libc::c_void,
    ) -> io::Result<Self> {
        // SAFETY: the attributes are initialised before they are used; the rest is by the caller.
        let (outcome, thread) = without_signals(|| unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            let mut thread = 0;
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
            if is_real_time() {
                libc::pthread_attr_setinheritsched(
                    &raw mut attributes,
                    libc::PTHREAD_EXPLICIT_SCHED,
                );
            }
            let outcome =
                libc::pthread_create(&raw mut thread, &raw const attributes, function, argument);
            libc::pthread_attr_destroy(&raw mut attributes);
            (outcome, thread)
        });
        if outcome == 0 { Ok(Self(thread)) } else { Err(io::Error::from_raw_os_error(outcome)) }
    }

    /// Waits for the end of the thread.
    pub(crate) fn join(self) {
        // SAFETY: a thread that was started, and is joined once.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }
}

/// Whether the calling thread runs under a real-time policy.
fn is_real_time() -> bool {
    // SAFETY: no memory.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE)
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

const PTHREAD_CANCEL_DISABLE: libc::c_int = 1;

/// Runs `work`, which may wait, and defers a cancellation of the thread. A `pthread_cancel` during the work takes
/// effect later, because a thread that ended in the middle of the work would leave other threads with freed memory.
pub(crate) fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: writes one word.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
    let outcome = work();
    // SAFETY: the state as it was.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    outcome
}

/// Ends a child process in which the function of a partner has returned, because no caller is there to take its
/// result. The exit code is 127, which shells use for a child that could not begin.
pub(crate) fn end_child() -> ! {
    // SAFETY: no memory; nothing of the parent's is flushed or destroyed.
    unsafe { libc::_exit(127) }
}

/// Gives the calling thread a name of at most 15 bytes.
pub(crate) fn name(name: &std::ffi::CStr) {
    // SAFETY: this thread, and a string that ends with a zero.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
}

/// Unblocks SIGSYS in the calling thread. A filter answers calls by this signal, and libpsx makes each thread drop
/// privileges in its handler. A partner that blocked the signal would be killed by the filter, or would keep its
/// privileges in the case of libpsx.
pub(crate) fn let_filters_answer() {
    // SAFETY: the set is initialised before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

/// The time of the monotonic clock, in nanoseconds.
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

/// Sleeps while the word has this value: until woken, for at most `nanoseconds`, or until a signal.
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
    futex_wake_at(word.as_ptr() as usize);
}

/// Wakes the thread that sleeps on the word at this address, if there is one. The word need not exist any more.
pub(crate) fn futex_wake_at(address: usize) {
    // SAFETY: the kernel only uses the address.
    unsafe {
        libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
    };
}

/// Blocks signals in the threads that `start` creates, because handlers belong to the program's own threads.
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

/// Detects a fork, because the child has none of the partners.
///
/// The sentinel is a separate page that the kernel clears in a child, however the child was created.
#[derive(Debug)]
pub(crate) struct ForkSentinel {
    page: ptr::NonNull<AtomicU32>,
}

// SAFETY: the page is written once, before it is shared.
unsafe impl Send for ForkSentinel {}
// SAFETY: as above.
unsafe impl Sync for ForkSentinel {}

const PAGE: usize = 4096;

impl ForkSentinel {
    /// # Errors
    ///
    /// Returns an error if there is no memory, or with a kernel before 4.14.
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

    /// Whether this process was forked from the process that created the sentinel.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        // SAFETY: mapped as long as the witness lives.
        unsafe { self.page.as_ref() }.load(std::sync::atomic::Ordering::Relaxed) == 0
    }
}

impl Drop for ForkSentinel {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}
