// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of io_uring that the library needs, by system calls: futex operations in pairs, and a polling kernel
//! thread.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQ_AFF: u32 = 1 << 2;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
const ENTER_GETEVENTS: u32 = 1;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const FEAT_SINGLE_MMAP: u32 = 1;
const SQ_NEED_WAKEUP: u32 = 1;
const OFFSET_RINGS: i64 = 0;
const OFFSET_SQES: i64 = 0x1000_0000;
const REGISTER_PROBE: u32 = 8;
const OP_SUPPORTED: u16 = 1;
const SQE_LINK: u8 = 1 << 2;
const SQE_SKIP_SUCCESS: u8 = 1 << 6;
const OP_NOP: u8 = 0;
const OP_FUTEX_WAIT: u8 = 51;
const OP_FUTEX_WAKE: u8 = 52;
/// The flags of a private 32-bit futex.
const FUTEX2_PRIVATE_U32: i32 = 128 | 2;
const ANY_BIT: u64 = 0xffff_ffff;

/// Offsets of the submission ring in its mapping.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

/// Offsets of the completion ring in its mapping.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Default)]
struct UringParameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: SubmissionOffsets,
    cq: CompletionOffsets,
}

/// A request to the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SubmissionEntry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: i32,
    address2: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    user_data: u64,
    buffer: u16,
    personality: u16,
    file: u32,
    address3: u64,
    padding: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

#[repr(C)]
struct WaitArgument {
    signals: u64,
    signals_size: u32,
    minimum_wait: u32,
    time: u64,
}

/// A memory mapping that is removed when this value is dropped.
#[derive(Debug)]
struct RingMapping {
    start: NonNull<u8>,
    length: usize,
}

impl RingMapping {
    fn of(fd: i32, offset: i64, length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, fd, offset) };
        let start = NonNull::new(start).filter(|start| start.as_ptr() != libc::MAP_FAILED);
        let start = start.ok_or_else(io::Error::last_os_error)?.cast();
        Ok(Self { start, length })
    }

    /// The word at an offset that the kernel returned.
    fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.length);
        // SAFETY: the kernel's offsets lie within the mapping and are aligned to four bytes.
        unsafe { self.start.byte_add(offset as usize).cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A file descriptor that is closed when this value is dropped.
#[derive(Debug)]
struct RingDescriptor(i32);

impl Drop for RingDescriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this one's.
        unsafe { libc::close(self.0) };
    }
}

/// A pair of rings shared with the kernel.
struct UringQueues {
    rings: RingMapping,
    entries: RingMapping,
    parameters: UringParameters,
    fd: RingDescriptor,
}

impl UringQueues {
    fn open(mut parameters: UringParameters) -> io::Result<Self> {
        // SAFETY: the kernel reads and writes one structure of parameters.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, &raw mut parameters) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = RingDescriptor(fd as i32);
        if parameters.features & FEAT_SINGLE_MMAP == 0 {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let submissions = parameters.sq.array as usize + 4 * parameters.sq_entries as usize;
        let completions =
            parameters.cq.cqes as usize + size_of::<Completion>() * parameters.cq_entries as usize;
        let rings = RingMapping::of(fd.0, OFFSET_RINGS, submissions.max(completions))?;
        let size = size_of::<SubmissionEntry>() * parameters.sq_entries as usize;
        let entries = RingMapping::of(fd.0, OFFSET_SQES, size)?;
        Ok(Self { rings, entries, parameters, fd })
    }

    /// Whether the kernel supports an operation.
    fn knows(&self, operation: u8) -> bool {
        // A head of 16 bytes, then 8 bytes for each operation: its flags are the second half-word.
        let mut probe = [0_u16; 8 + 4 * 256];
        // SAFETY: the kernel writes at most 256 operations.
        let outcome = unsafe {
            let to = probe.as_mut_ptr();
            libc::syscall(libc::SYS_io_uring_register, self.fd.0, REGISTER_PROBE, to, 256)
        };
        outcome >= 0 && probe[8 + 4 * usize::from(operation) + 1] & OP_SUPPORTED != 0
    }

    /// Adds a request to the ring. The callers never use more than two of the four entries.
    fn push(&mut self, entry: SubmissionEntry) {
        let tail = self.rings.word(self.parameters.sq.tail);
        let at = tail.load(Ordering::Relaxed);
        let index = at & (self.parameters.sq_entries - 1);
        // SAFETY: the index is below the number of entries, and the kernel does not read it before the tail moves.
        unsafe { self.entries.start.cast::<SubmissionEntry>().add(index as usize).write(entry) };
        self.rings.word(self.parameters.sq.array + 4 * index).store(index, Ordering::Relaxed);
        tail.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Takes a completion from the ring.
    fn pop(&mut self) -> Option<Completion> {
        let head = self.rings.word(self.parameters.cq.head);
        let at = head.load(Ordering::Relaxed);
        if self.rings.word(self.parameters.cq.tail).load(Ordering::Acquire) == at {
            return None;
        }
        let index = (at & (self.parameters.cq_entries - 1)) as usize;
        let offset = self.parameters.cq.cqes as usize + index * size_of::<Completion>();
        // SAFETY: the kernel has written this completion, as its tail is behind it.
        let completion = unsafe { self.rings.start.byte_add(offset).cast().read() };
        head.store(at.wrapping_add(1), Ordering::Release);
        Some(completion)
    }

    /// Submits requests, and waits for a completion for at most `nanoseconds`.
    fn enter(&self, submit: u32, nanoseconds: u64) -> io::Result<()> {
        let time = sys::timespec(nanoseconds);
        let time = &raw const time as u64;
        let argument = WaitArgument { signals: 0, signals_size: 0, minimum_wait: 0, time };
        let flags = ENTER_GETEVENTS | ENTER_EXT_ARG;
        // SAFETY: the kernel reads one argument and one time.
        let outcome = unsafe {
            let (argument, size) = (&raw const argument, size_of::<WaitArgument>());
            libc::syscall(libc::SYS_io_uring_enter, self.fd.0, submit, 1, flags, argument, size)
        };
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Wakes one thread and sleeps, in a single system call.
pub(crate) struct Exchanger {
    ring: UringQueues,
    /// Whether a wait that timed out is still in the kernel; the next wait on the same word reuses the pending wait.
    armed: bool,
}

impl std::fmt::Debug for Exchanger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchanger").field("armed", &self.armed).finish_non_exhaustive()
    }
}

impl Exchanger {
    /// # Errors
    ///
    /// Returns an error if io_uring is forbidden or missing, or does not support futexes (before Linux 6.7).
    pub(crate) fn open() -> io::Result<Self> {
        let ring = UringQueues::open(UringParameters {
            flags: SETUP_COOP_TASKRUN,
            ..UringParameters::default()
        })?;
        if ring.knows(OP_FUTEX_WAIT) && ring.knows(OP_FUTEX_WAKE) {
            Ok(Self { ring, armed: false })
        } else {
            Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        }
    }

    /// Wakes the thread that sleeps on `wake`, then sleeps while `word` has `value`: until woken, for at most
    /// `nanoseconds`, or until a signal. All waits of one exchanger use one word.
    pub(crate) fn exchange(
        &mut self,
        wake: Option<&AtomicU32>,
        (word, value): (&AtomicU32, u32),
        nanoseconds: u64,
    ) {
        let mut submit = 0;
        if let Some(wake) = wake {
            // The wait follows the wake-up: by a link, so that neither is put off to another thread.
            let link = if self.armed { 0 } else { SQE_LINK };
            let flags = link | SQE_SKIP_SUCCESS;
            self.ring.push(SubmissionEntry { flags, ..futex(OP_FUTEX_WAKE, wake, 1) });
            submit += 1;
        }
        if !self.armed {
            self.ring.push(futex(OP_FUTEX_WAIT, word, value));
            submit += 1;
            self.armed = true;
        }
        // A time that is over and a signal come as errors; the caller looks for itself.
        drop(self.ring.enter(submit, nanoseconds));
        while self.ring.pop().is_some() {
            self.armed = false;
        }
    }
}

fn futex(opcode: u8, word: &AtomicU32, value: u32) -> SubmissionEntry {
    SubmissionEntry {
        opcode,
        fd: FUTEX2_PRIVATE_U32,
        address: word.as_ptr() as u64,
        address2: u64::from(value),
        address3: ANY_BIT,
        ..SubmissionEntry::default()
    }
}

/// A kernel thread that polls for requests on a core (SQPOLL), the counterpart of a polling partner for system calls
/// only.
pub struct KernelPoller {
    ring: UringQueues,
}

impl std::fmt::Debug for KernelPoller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelPoller").finish_non_exhaustive()
    }
}

impl KernelPoller {
    /// Starts the kernel thread on a core; it polls until no request has arrived for `idle_ms`.
    ///
    /// # Errors
    ///
    /// Returns an error if io_uring is forbidden or missing, or the core is not allowed.
    pub fn open(core: usize, idle_ms: u32) -> io::Result<Self> {
        let parameters = UringParameters {
            flags: SETUP_SQPOLL | SETUP_SQ_AFF,
            sq_thread_cpu: core as u32,
            sq_thread_idle: idle_ms,
            ..UringParameters::default()
        };
        Ok(Self { ring: UringQueues::open(parameters)? })
    }

    /// Sends an empty request to the kernel thread, and waits for its completion. Returns false if the request was
    /// not completed within `nanoseconds`.
    pub fn nop(&mut self, nanoseconds: u64) -> bool {
        self.ring.push(SubmissionEntry { opcode: OP_NOP, ..SubmissionEntry::default() });
        self.wake_thread();
        let mut polls = 0_u32;
        let begun = sys::now();
        while self.ring.pop().is_none() {
            polls += 1;
            if polls.is_multiple_of(1024) {
                if sys::now() - begun > nanoseconds {
                    return false;
                }
                sys::yield_now();
            }
        }
        true
    }

    /// Wakes the kernel thread if it has stopped polling.
    fn wake_thread(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let flags = self.ring.rings.word(self.ring.parameters.sq.flags);
        if flags.load(Ordering::Relaxed) & SQ_NEED_WAKEUP != 0 {
            let fd = self.ring.fd.0;
            // SAFETY: no memory is passed.
            unsafe {
                libc::syscall(libc::SYS_io_uring_enter, fd, 0, 0, ENTER_SQ_WAKEUP, 0_usize, 0_usize)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Option<UringQueues> {
        UringQueues::open(UringParameters::default()).ok()
    }

    #[test]
    fn a_kernel_knows_to_do_nothing_and_knows_no_operation_255() {
        let Some(ring) = ring() else { return };
        assert!(ring.knows(OP_NOP) && !ring.knows(u8::MAX));
        // What is no ring cannot be asked.
        let mut ring = ring;
        let fd = std::mem::replace(&mut ring.fd, RingDescriptor(-1));
        assert!(!ring.knows(OP_NOP));
        ring.fd = fd;
    }

    #[test]
    fn each_request_comes_back_once_in_order_also_beyond_the_end_of_the_ring() {
        let Some(mut ring) = ring() else { return };
        assert!(ring.pop().is_none());
        // Four entries and eight completions: both go round.
        for turn in 0..11_u64 {
            for user_data in [2 * turn, 2 * turn + 1] {
                ring.push(SubmissionEntry {
                    opcode: OP_NOP,
                    user_data,
                    ..SubmissionEntry::default()
                });
            }
            ring.enter(2, 1_000_000_000).unwrap();
            let back: Vec<(u64, i32)> =
                std::iter::from_fn(|| ring.pop()).map(|it| (it.user_data, it.result)).collect();
            assert_eq!(back, [(2 * turn, 0), (2 * turn + 1, 0)]);
        }
    }

    #[test]
    fn a_wait_that_outlived_its_time_is_the_next_one() {
        let Ok(mut exchanger) = Exchanger::open() else { return };
        let word = AtomicU32::new(1);
        exchanger.exchange(None, (&word, 1), 1_000);
        assert!(exchanger.armed);
        assert_eq!(format!("{exchanger:?}"), "Exchanger { armed: true, .. }");
        // Itself it is woken by: the wake-up goes first, then the wait that is there ends.
        exchanger.exchange(Some(&word), (&word, 1), 1_000_000_000);
        assert!(!exchanger.armed);
        // A word that has another value is not waited for.
        exchanger.exchange(None, (&word, 2), 60_000_000_000);
        assert!(!exchanger.armed);
    }

    #[test]
    fn a_futex_request_has_word_value_and_every_bit() {
        let word = AtomicU32::new(0);
        let entry = futex(OP_FUTEX_WAIT, &word, 7);
        assert_eq!((entry.opcode, entry.fd, entry.flags), (51, 130, 0));
        assert_eq!(entry.address, word.as_ptr() as u64);
        assert_eq!((entry.address2, entry.address3), (7, 0xffff_ffff));
    }
}
