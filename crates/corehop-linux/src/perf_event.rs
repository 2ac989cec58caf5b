// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens counters and records of the kernel by `perf_event_open(2)`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use corehop_plan::units::Cpu;

/// The requested event; the other fields of `struct perf_event_attr` are zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PerfEvent {
    pub(crate) kind: u32,
    pub(crate) config: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) clock: i32,
}

/// The kernel's `struct perf_event_attr` (include/uapi/linux/perf_event.h), version 5. Older kernels accept unknown
/// fields if they are zero.
#[repr(C)]
#[derive(Debug, Default)]
struct PerfAttributes {
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

/// The bits that exclude the kernel (bit 5) and the hypervisor (bit 6).
pub(crate) const USER_ONLY: u64 = 1 << 5 | 1 << 6;

const CLOSE_ON_EXEC: u64 = 8;

/// The thread or CPU that an event belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventOwner {
    /// The calling thread, on every CPU it runs on, in the group of this event.
    InGroup(Option<RawFd>),
    /// A thread, on every CPU it runs on, in the group of this event.
    Thread(u32, Option<RawFd>),
    /// A thread (0 for the calling thread) while it is on this CPU.
    ThreadOn(u32, Cpu),
    /// Everything that runs on this CPU.
    AllOn(Cpu),
}

impl PerfEvent {
    /// Opens the event with perf_event_open(2).
    ///
    /// # Errors
    /// Fails with the kernel's error.
    pub(crate) fn open(self, whose: EventOwner) -> io::Result<OwnedFd> {
        let (thread, cpu, leader) = match whose {
            EventOwner::InGroup(leader) => (0, -1, leader.unwrap_or(-1)),
            EventOwner::Thread(thread, leader) => (thread.cast_signed(), -1, leader.unwrap_or(-1)),
            EventOwner::ThreadOn(thread, cpu) => (thread.cast_signed(), cpu.0.cast_signed(), -1),
            EventOwner::AllOn(cpu) => (-1, cpu.0.cast_signed(), -1),
        };
        let Self { kind, config, sample_type, read_format, flags, clock } = self;
        let size = size_of::<PerfAttributes>() as u32;
        let zero = PerfAttributes::default();
        let attributes =
            PerfAttributes { kind, size, config, sample_type, read_format, flags, clock, ..zero };
        // SAFETY: the attributes outlive the call and have the size they say.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                cpu,
                leader,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, with no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_attributes_are_laid_out_as_the_kernel_reads_them() {
        // Lengths that the kernel has known end at 64 (version 0), 72, 80, 96, 104 and 112 (version 5).
        assert_eq!(size_of::<PerfAttributes>(), 112);
        assert_eq!(offset_of!(PerfAttributes, flags), 40);
        assert_eq!(offset_of!(PerfAttributes, clock), 92);
        assert_eq!(offset_of!(PerfAttributes, registers), 96);
    }
}
