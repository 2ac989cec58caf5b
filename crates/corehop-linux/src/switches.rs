// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the records that `perf_event_open(2)` writes whenever a thread leaves its CPU or returns.
//!
//! Any user may record its own threads, and the threads that these start. A record contains the time, the CPU, and
//! whether the thread was preempted, but not which thread had the CPU instead.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use corehop_plan::units::Cpu;

use crate::mapped::{Mapped, WRITABLE};
use crate::perf_event::{EventOwner, PerfEvent, USER_ONLY};
use corehop_system::proc::{cut, shown};

const PAGE: usize = 4096;
/// The positions of the write and read offsets in the first page, in words.
const HEAD: usize = 128;
const TAIL: usize = 129;

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SWITCH: u32 = 14;
const MISC_OUT: u16 = 1 << 13;
const MISC_PREEMPTED: u16 = 1 << 14;

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// The sample fields TID, TIME and CPU, in this order in every record.
const SAMPLED: u64 = 1 << 1 | 1 << 2 | 1 << 7;
/// The flags sample_id_all, use_clockid and context_switch.
const FLAGS: u64 = USER_ONLY | 1 << 18 | 1 << 25 | 1 << 26;
/// The flags inherit, comm and task.
const FOLLOWING: u64 = 1 << 1 | 1 << 9 | 1 << 13;
/// The ioctl `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// The event that a thread left its CPU or returned to a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadSwitch {
    /// The ID of the thread's process.
    pub(crate) pid: u32,
    /// The ID of the thread.
    pub(crate) tid: u32,
    /// Whether the thread left its CPU; otherwise it returned to a CPU.
    pub(crate) out: bool,
    /// Whether the thread was preempted when it left; otherwise it blocked.
    pub(crate) preempted: bool,
    /// The time of the event, in ns of CLOCK_MONOTONIC.
    pub(crate) ns: u64,
    /// The CPU of the event.
    pub(crate) cpu: u32,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SwitchLogRecord {
    /// A thread left a CPU or returned.
    Switch(ThreadSwitch),
    /// A thread has this name from this time on.
    Name(u64, u32, String),
    /// The first thread started the second thread at this time.
    Started(u64, u32, u32),
    /// This number of records was lost because the ring was full.
    Lost(u64),
}

impl SwitchLogRecord {
    /// The time of the record, in ns of CLOCK_MONOTONIC; `None` for lost records.
    pub(crate) const fn ns(&self) -> Option<u64> {
        match *self {
            Self::Switch(ThreadSwitch { ns, .. }) | Self::Name(ns, ..) | Self::Started(ns, ..) => {
                Some(ns)
            }
            Self::Lost(_) => None,
        }
    }
}

/// The memory into which the kernel writes records.
#[derive(Debug)]
pub(crate) struct SwitchRing {
    fd: OwnedFd,
    /// The mapping, accessed by atomic operations.
    memory: Mapped,
    /// The number of bytes without the first page.
    data: usize,
}

impl SwitchRing {
    /// Records only the calling thread, on all CPUs, in `pages` pages (a power of two).
    ///
    /// # Errors
    /// Fails with the error of perf_event_open(2) or mmap(2).
    pub(crate) fn of_this_thread(pages: usize) -> io::Result<Self> {
        Self::map(open(EventOwner::InGroup(None), FLAGS)?, pages)
    }

    /// Records thread `tid` (0 for the calling thread) while it is on `cpu`, and the threads and processes that it
    /// starts from now on.
    ///
    /// # Errors
    /// Fails with the error of perf_event_open(2) or mmap(2).
    pub(crate) fn following(tid: u32, cpu: Cpu, pages: usize) -> io::Result<Self> {
        Self::map(open(EventOwner::ThreadOn(tid, cpu), FLAGS | FOLLOWING)?, pages)
    }

    /// Adds the records of one more thread to this ring until the returned value is dropped.
    ///
    /// # Errors
    /// Fails with the error of perf_event_open(2).
    pub(crate) fn also_following(&self, tid: u32, cpu: Cpu) -> io::Result<OwnedFd> {
        let event = open(EventOwner::ThreadOn(tid, cpu), FLAGS | FOLLOWING)?;
        // SAFETY: both are events, which the call does not close.
        let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, self.fd.as_raw_fd()) };
        if answer == 0 { Ok(event) } else { Err(io::Error::last_os_error()) }
    }

    fn map(fd: OwnedFd, pages: usize) -> io::Result<Self> {
        let data = pages * PAGE;
        let memory = Mapped::shared(fd.as_fd(), PAGE + data, WRITABLE)?;
        Ok(Self { fd, memory, data })
    }

    /// Passes on the records since the last call; without records this is one load.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(SwitchLogRecord)) {
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        let head = self.position(HEAD).load(Ordering::Acquire);
        while tail < head {
            let header = self.word(tail);
            let (kind, misc, size) = (header as u32, (header >> 32) as u16, header >> 48);
            // Whole words, the header at least.
            let words = (size / 8).max(1);
            if let Some(record) = self.record(tail, kind, misc, words) {
                take(record);
            }
            tail += words * 8;
        }
        self.position(TAIL).store(tail, Ordering::Release);
    }

    /// Decodes a record: a header, the content of its kind, and then TID, TIME, CPU.
    fn record(&self, at: u64, kind: u32, misc: u16, words: u64) -> Option<SwitchLogRecord> {
        let word = |number: u64| self.word(at + number * 8);
        let ns = word(words.saturating_sub(2));
        match kind {
            SWITCH => Some(SwitchLogRecord::Switch(ThreadSwitch {
                pid: word(1) as u32,
                tid: (word(1) >> 32) as u32,
                out: misc & MISC_OUT != 0,
                preempted: misc & MISC_PREEMPTED != 0,
                ns,
                cpu: word(3) as u32,
            })),
            COMM => {
                let bytes: Vec<u8> =
                    (2..words.saturating_sub(3)).flat_map(|it| word(it).to_ne_bytes()).collect();
                Some(SwitchLogRecord::Name(ns, (word(1) >> 32) as u32, shown(cut(&bytes))))
            }
            // Process and parent's process, thread and parent's thread.
            FORK => Some(SwitchLogRecord::Started(ns, (word(2) >> 32) as u32, word(2) as u32)),
            LOST => Some(SwitchLogRecord::Lost(word(2))),
            _ => None,
        }
    }

    fn position(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as self; the kernel writes concurrently.
        unsafe { self.memory.start().add(word).as_ref() }
    }

    /// The word at `position` of the ring; records consist of whole words.
    fn word(&self, position: u64) -> u64 {
        let at = PAGE / 8 + (position as usize % self.data) / 8;
        // SAFETY: inside of the mapping; written before the head was moved past it.
        unsafe { self.memory.start::<AtomicU64>().add(at).as_ref() }.load(Ordering::Relaxed)
    }
}

/// Opens a software event that counts nothing and records switches.
fn open(whose: EventOwner, flags: u64) -> io::Result<OwnedFd> {
    let (kind, config, clock) = (SOFTWARE, DUMMY, libc::CLOCK_MONOTONIC);
    PerfEvent { kind, config, sample_type: SAMPLED, flags, clock, ..PerfEvent::default() }
        .open(whose)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A ring of one page whose records the test writes instead of the kernel.
    fn ring() -> SwitchRing {
        let memory = Mapped::private(2 * PAGE, 0).unwrap();
        SwitchRing { fd: File::open("/dev/null").unwrap().into(), memory, data: PAGE }
    }

    impl SwitchRing {
        /// Appends a record with its kind, its flags, and the words after the header.
        fn write(&self, kind: u32, misc: u16, words: &[u64]) {
            let at = self.position(HEAD).load(Ordering::Relaxed);
            let size = 8 * (words.len() as u64 + 1);
            let header = u64::from(kind) | u64::from(misc) << 32 | size << 48;
            for (number, &word) in [header].iter().chain(words).enumerate() {
                let place = PAGE / 8 + (at as usize % self.data) / 8;
                let place = PAGE / 8 + (place - PAGE / 8 + number) % (self.data / 8);
                // SAFETY: inside of the mapping, which this thread alone has.
                unsafe { self.memory.start::<AtomicU64>().add(place).as_ref() }
                    .store(word, Ordering::Relaxed);
            }
            self.position(HEAD).store(at + size, Ordering::Release);
        }

        fn taken(&mut self) -> Vec<SwitchLogRecord> {
            let mut all = Vec::new();
            self.drain(|it| all.push(it));
            all
        }
    }

    fn switch(out: bool, preempted: bool, ns: u64) -> SwitchLogRecord {
        SwitchLogRecord::Switch(ThreadSwitch { pid: 7, tid: 9, out, preempted, ns, cpu: 3 })
    }

    /// Packs two numbers into one word, the first in the low half.
    const fn pair(low: u32, high: u32) -> u64 {
        low as u64 | (high as u64) << 32
    }

    const TASK: u64 = pair(7, 9);

    #[test]
    fn records_are_read_word_by_word_once_and_kinds_that_are_not_asked_for_are_passed_over() {
        let mut ring = ring();
        assert_eq!(ring.taken(), []);
        ring.write(SWITCH, MISC_OUT | MISC_PREEMPTED, &[TASK, 1_000, 3]);
        ring.write(SWITCH, MISC_OUT, &[TASK, 1_100, 3]);
        ring.write(99, 0, &[1, 2, 3]);
        ring.write(SWITCH, 0, &[TASK, 1_200, 3]);
        let expected =
            [switch(true, true, 1_000), switch(true, false, 1_100), switch(false, false, 1_200)];
        assert_eq!(ring.taken(), expected);
        assert_eq!(ring.taken(), [], "taken once");
        // The parent's process and the process, the parent and the thread it started; then TID, TIME, CPU.
        ring.write(FORK, 0, &[pair(6, 5), pair(10, 8), 77, TASK, 1_300, 3]);
        ring.write(LOST, 0, &[1, 42, TASK, 1_400, 3]);
        let name = u64::from_ne_bytes(*b"make\0old");
        ring.write(COMM, 0, &[pair(7, 11), name, TASK, 1_500, 3]);
        let all = ring.taken();
        let expected = [
            SwitchLogRecord::Started(1_300, 8, 10),
            SwitchLogRecord::Lost(42),
            SwitchLogRecord::Name(1_500, 11, "make".to_owned()),
        ];
        assert_eq!(all, expected);
        assert_eq!(
            all.iter().map(SwitchLogRecord::ns).collect::<Vec<_>>(),
            [Some(1_300), None, Some(1_500)]
        );
    }

    #[test]
    fn records_go_on_at_the_beginning_where_the_ring_ends() {
        let mut ring = ring();
        // Behind three records of five words, one of four begins in the last words of the page.
        (0..3).for_each(|_| ring.write(99, 0, &[0; 4]));
        assert_eq!(ring.taken(), []);
        for round in 0..300 {
            ring.write(SWITCH, MISC_OUT, &[TASK, round, 3]);
            assert_eq!(ring.taken(), [switch(true, false, round)], "{round}");
        }
    }

    #[test]
    fn a_header_without_a_size_does_not_hold_up_the_reader() {
        let mut ring = ring();
        ring.position(HEAD).store(16, Ordering::Release);
        assert_eq!(ring.taken(), []);
        assert_eq!(ring.position(TAIL).load(Ordering::Relaxed), 16);
    }
}
