// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that only a system call reveals.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::rseq::Rseq;
use corehop_system::thread::apart;

/// The result of a system call: success, or an error number.
pub type ProbeResult = Result<(), i32>;

/// The results of a few system calls; `None` for calls that were not made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probes {
    /// Whether a thread may run under `SCHED_FIFO`.
    pub real_time: Option<ProbeResult>,
    /// Whether the kernel supports restartable sequences.
    pub rseq: Option<ProbeResult>,
    /// Whether the processor counts instructions for this process.
    pub hardware_counters: Option<ProbeResult>,
    /// The longest wake-up latency that a program currently tolerates, in microseconds
    /// (`/dev/cpu_dma_latency`).
    pub wake_limit_us: Option<u32>,
    /// The path of this program.
    pub program: Option<PathBuf>,
}

impl Probes {
    /// Makes the system calls on this host. The calls take well below a millisecond and change
    /// nothing.
    pub fn ask() -> Self {
        // A thread of its own: what it is given goes with it.
        let asked = apart(|| (real_time(), answer(Rseq::of_this_thread()))).ok();
        Self {
            real_time: asked.map(|(real_time, _)| real_time),
            rseq: asked.map(|(_, rseq)| rseq),
            hardware_counters: Some(hardware_counters()),
            wake_limit_us: wake_limit(),
            program: std::env::current_exe().ok(),
        }
    }
}

fn answer<T>(result: io::Result<T>) -> ProbeResult {
    result.map(|_| ()).map_err(|error| error.raw_os_error().unwrap_or(0))
}

/// Gives the calling thread the lowest real-time priority; the thread must end right afterwards.
fn real_time() -> ProbeResult {
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads `lowest`; 0 is the calling thread, which does not spin.
    let done = unsafe { libc::sched_setscheduler(0, policy, &raw const lowest) };
    answer(if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })
}

/// Opens and closes a counter of the calling thread's user-mode instructions (perf_event_open(2)).
fn hardware_counters() -> ProbeResult {
    /// `PERF_ATTR_SIZE_VER0`: the first version of the structure, which every kernel accepts.
    const SIZE: u64 = 64;
    const TYPE_HARDWARE: u64 = 0;
    const INSTRUCTIONS: u64 = 1;
    const DISABLED: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const CLOSE_ON_EXEC: u64 = 1 << 3;
    let flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    // Type and size are 32 bits each; the fifth word is the read format, the sixth the flags.
    let attributes = [TYPE_HARDWARE | SIZE << 32, INSTRUCTIONS, 0, 0, 0, flags, 0, 0];
    // SAFETY: the structure is 64 bytes long, as it says; 0 and -1 are this thread on any CPU.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return answer::<()>(Err(io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is new and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    Ok(())
}

/// Reads the latency limit. Opening the file requests the default, which is no limit.
fn wake_limit() -> Option<u32> {
    let mut bytes = [0; 4];
    File::open("/dev/cpu_dma_latency").ok()?.read_exact(&mut bytes).ok()?;
    u32::try_from(i32::from_ne_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_leaves_the_asking_thread_as_it_was() {
        let probes = Probes::ask();
        // SAFETY: asks the calling thread's policy.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
        assert!(probes.real_time.is_some() && probes.rseq.is_some());
    }
}
