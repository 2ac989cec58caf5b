// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts a program's system calls in the kernel, by call number, for calls of at least some size.
//!
//! One BPF program runs at the entry of every system call on the machine. The program counts calls of processes that
//! this process starts, and of their descendants. Calls of partner threads do not count, because these calls are made
//! for another thread. Every system call on the machine costs two look-ups, and a counted call some tens of
//! nanoseconds more.

use std::io;
use std::sync::atomic::Ordering;

use super::object::{BpfTable, Object};
use super::{ArrayMapping, BpfError, kernel_types};

/// The compiled programs of `bpf/calls.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/calls.bpf.o");

/// System call numbers must be below this limit.
const NUMBERS: usize = 512;
/// The map value for a process whose children are counted, but not the process itself.
const FOLLOWED: u32 = 1;

/// The way in which the size of a call is determined. The order of the variants matches the BPF program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum CallSize {
    /// The call has no size.
    None,
    /// The third argument is the size.
    Third,
    /// The fourth argument is the size.
    Fourth,
    /// The second argument points to a vector, and the third is the vector's length. The size is the sum over the
    /// first 64 elements.
    Vector,
    /// The second argument points to a message.
    Message,
    /// The call has no size, and does not count if its third argument says that there is no path (`AT_EMPTY_PATH`).
    PathFlagsThird,
    /// The call has no size, and does not count if its fourth argument says that there is no path (`AT_EMPTY_PATH`).
    PathFlagsFourth,
}

/// The running counters of system calls. Dropping the value stops the counting.
#[derive(Debug)]
pub struct CallCounts {
    _object: Object,
    wishes: ArrayMapping,
    counts: ArrayMapping,
    processes: BpfTable<u32, u32>,
}

impl CallCounts {
    /// Loads the programs, which initially count nothing.
    ///
    /// # Errors
    /// Fails if the caller lacks a privilege, or the kernel lacks a feature that the programs need.
    pub fn open() -> Result<Self, BpfError> {
        let types = kernel_types()?;
        let mut object = Object::load(OBJECT, types, &[], &[])?;
        let (wishes, counts) = (object.show("corehop_wishes")?, object.show("corehop_calls")?);
        (0..NUMBERS).for_each(|at| wishes.word(2 * at).store(u64::MAX, Ordering::Relaxed));
        let processes = object.take_table("corehop_processes")?;
        let programs = [
            ("hop_process", "sched_process_fork"),
            ("hop_exit", "sched_process_exit"),
            ("hop_call", "sys_enter"),
        ];
        for (program, tracepoint) in programs {
            object.attach(program, tracepoint, types)?;
        }
        Ok(Self { _object: object, wishes, counts, processes })
    }

    /// Starts counting calls with this number whose size is at least `threshold`.
    ///
    /// # Panics
    /// The call panics if a number is 512 or more.
    pub fn count(&self, number: u32, threshold: u64, size: CallSize) {
        let at = 2 * number as usize;
        self.wishes.word(at + 1).store(size as u64, Ordering::Relaxed);
        self.wishes.word(at).store(threshold, Ordering::Relaxed);
    }

    /// Starts counting the calls of processes that this process starts from now on.
    ///
    /// # Errors
    /// Fails with the kernel's error.
    pub fn follow_children(&self) -> io::Result<()> {
        self.processes.put(std::process::id(), FOLLOWED)
    }

    /// Returns the number of calls with this number so far.
    ///
    /// # Panics
    /// The call panics if a number is 512 or more.
    pub fn of(&self, number: u32) -> u64 {
        assert!((number as usize) < NUMBERS, "the system call {number}");
        self.counts.word(number as usize).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn calls_of_started_programs_are_counted_from_their_size_on_and_ours_are_not() {
        let counts = match CallCounts::open() {
            Ok(counts) => counts,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let write = libc::SYS_write as u32;
        counts.count(write, 1000, CallSize::Third);
        counts.count(libc::SYS_openat as u32, 0, CallSize::None);
        counts.count(libc::SYS_newfstatat as u32, 0, CallSize::PathFlagsFourth);
        let dd = |size: &str| {
            let size = format!("bs={size}");
            let arguments = ["if=/dev/zero", "of=/dev/null", "count=7", "status=none", &size];
            assert!(Command::new("dd").args(arguments).status().unwrap().success());
        };
        dd("2000");
        assert_eq!(counts.of(write), 0, "not followed yet");
        counts.follow_children().unwrap();
        dd("999");
        assert_eq!(counts.of(write), 0);
        dd("1000");
        assert_eq!(counts.of(write), 7);
        std::fs::write("/dev/null", vec![0; 5000]).unwrap();
        assert_eq!(counts.of(write), 7);
        // A child of a child.
        let both = "dd if=/dev/zero of=/dev/null bs=4096 count=3 status=none; true";
        assert!(Command::new("sh").args(["-c", both]).status().unwrap().success());
        assert_eq!(counts.of(write), 10);
        assert!(counts.of(libc::SYS_openat as u32) > 3, "the loader opens libraries");
    }

    #[test]
    fn the_size_of_a_vector_is_the_sum_of_its_elements() {
        let counts = match CallCounts::open() {
            Ok(counts) => counts,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let (vector, message) = (libc::SYS_writev as u32, libc::SYS_sendmsg as u32);
        counts.count(vector, 100, CallSize::Vector);
        counts.count(message, 100, CallSize::Message);
        counts.follow_children().unwrap();
        let script = "import os, socket\n\
            n = os.open('/dev/null', os.O_WRONLY)\n\
            a, b = socket.socketpair()\n\
            for parts in ([b'x' * 60, b'y' * 40], [b'x' * 60, b'y' * 39]):\n    \
                os.writev(n, parts)\n    \
                a.sendmsg(parts)\n";
        let status = Command::new("python3").args(["-c", script]).status().unwrap();
        assert!(status.success());
        assert_eq!((counts.of(vector), counts.of(message)), (1, 1));
    }
}
