// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second rung: `perf_event_open(2)` writes a record whenever the thread leaves its CPU and
//! whenever it is back. Any user may watch its own threads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use corehop_core::units::Cpu;

use super::Away;
use crate::thread::current_cpu;

const PAGE: usize = 4096;
/// 64 KiB hold 1,600 records: as many as come between two looks.
const DATA: usize = 16 * PAGE;
/// Positions of the writer and the reader in the first page, in words.
const HEAD: usize = 128;
const TAIL: usize = 129;
const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_OUT: u16 = 1 << 13;
const MISC_PREEMPTED: u16 = 1 << 14;

/// `struct perf_event_attr` (include/uapi/linux/perf_event.h), version 5.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wake_up: u32,
    breakpoint: u32,
    unused: [u64; 4],
    stack_user: u32,
    clock: i32,
    registers: u64,
    watermark: u32,
    stack: u32,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// TID, TIME and CPU, in this order in every record.
const SAMPLED: u64 = 1 << 1 | 1 << 2 | 1 << 7;
/// exclude_kernel, exclude_hv, sample_id_all, use_clockid, context_switch.
const FLAGS: u64 = 1 << 5 | 1 << 6 | 1 << 18 | 1 << 25 | 1 << 26;

/// A record that concerns us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switch {
    out: bool,
    preempted: bool,
    ns: u64,
    cpu: u32,
}

/// The calling thread's records, from when they were asked for.
#[derive(Debug)]
pub struct Records {
    _fd: OwnedFd,
    memory: NonNull<AtomicU64>,
    cpu: Cpu,
    left: Option<Switch>,
    lost: u64,
}

impl Records {
    /// Begins to record.
    ///
    /// # Errors
    /// Why the kernel refuses, with the remedy.
    pub fn of_this_thread() -> Result<Self, String> {
        let refused = |error: io::Error| {
            format!(
                "perf_event_open(2): {error}; it needs Linux 4.3 and \
                 `sysctl kernel.perf_event_paranoid=2` or lower"
            )
        };
        let fd = open().map_err(refused)?;
        let memory =
            map(&fd).map_err(|error| format!("mmap of its records: {error} (ulimit -l)"))?;
        Ok(Self { _fd: fd, memory, cpu: current_cpu(), left: None, lost: 0 })
    }

    /// What happened since the last look: a load where nothing did.
    pub fn away(&mut self) -> Option<Away> {
        // SAFETY: the first page is mapped as long as self; the kernel writes concurrently.
        let position = |word: usize| unsafe { &*self.memory.as_ptr().add(word) };
        let head = position(HEAD).load(Ordering::Acquire);
        let mut tail = position(TAIL).load(Ordering::Relaxed);
        let (mut times, mut last, from) = (0, None, self.cpu);
        while tail < head {
            let (kind, misc, size) = self.header(tail);
            if kind == RECORD_SWITCH {
                let switch = self.switch(tail, misc);
                if switch.out {
                    self.left = Some(switch);
                } else if let Some(left) = self.left.take() {
                    (times, last) = (times + 1, Some((left, switch)));
                    self.cpu = Cpu(switch.cpu);
                }
            } else if kind == RECORD_LOST {
                self.lost += self.word(tail + 16);
            }
            tail += u64::from(size.max(8));
        }
        position(TAIL).store(tail, Ordering::Release);
        let (left, back) = last?;
        Some(Away {
            times,
            from,
            to: self.cpu,
            length_ns: back.ns.saturating_sub(left.ns),
            exact: true,
            preempted: Some(left.preempted),
            by: None,
        })
    }

    /// Records that found no room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The word at `position` of the ring; records are whole words.
    fn word(&self, position: u64) -> u64 {
        let at = PAGE / 8 + (position as usize % DATA) / 8;
        // SAFETY: inside of the mapping; written before the head was moved past it.
        unsafe { (*self.memory.as_ptr().add(at)).load(Ordering::Relaxed) }
    }

    fn header(&self, position: u64) -> (u32, u16, u16) {
        let word = self.word(position);
        (word as u32, (word >> 32) as u16, (word >> 48) as u16)
    }

    /// A header, TID, TIME, CPU.
    fn switch(&self, position: u64, misc: u16) -> Switch {
        Switch {
            out: misc & MISC_OUT != 0,
            preempted: misc & MISC_PREEMPTED != 0,
            ns: self.word(position + 16),
            cpu: self.word(position + 24) as u32,
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap gave; nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), PAGE + DATA) };
    }
}

/// A software event of the calling thread that counts nothing and records switches.
fn open() -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: DUMMY,
        sample_type: SAMPLED,
        flags: FLAGS,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the attributes outlive the call and have the size they say; 8 is close-on-exec.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 8) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn map(fd: &OwnedFd) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a fresh mapping that the kernel places.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE + DATA,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)
}
