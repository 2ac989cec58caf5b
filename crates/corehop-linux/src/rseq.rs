// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences, by which the kernel shows any user, at no cost, that the scheduler interrupted a thread.
//!
//! glibc registers every thread from version 2.35 on. Otherwise this module registers the thread. See rseq(2) in the
//! kernel's documentation.

use std::arch::{asm, global_asm};
use std::cell::UnsafeCell;
use std::io;

use corehop_plan::units::Cpu;

// A sequence of one instruction that is never run, and its descriptor.
global_asm!(
    ".pushsection .text",
    ".long 0x53053053",
    "corehop_nowhere_abort: ud2",
    "corehop_nowhere: nop",
    "ud2",
    ".popsection",
    ".pushsection .data.rel.ro, \"aw\"",
    ".balign 32",
    ".globl corehop_nowhere_cs",
    "corehop_nowhere_cs:",
    ".long 0, 0",
    ".quad corehop_nowhere, 1, corehop_nowhere_abort",
    ".popsection",
);

unsafe extern "C" {
    static corehop_nowhere_cs: [u64; 4];
}

/// The used part of the kernel's `struct rseq`.
#[repr(C, align(32))]
#[derive(Debug)]
struct RseqArea {
    cpu_id_start: u32,
    cpu_id: u32,
    rseq_cs: u64,
    flags: u32,
    rest: [u32; 3],
}

/// The CPU number in an area that the kernel has not yet filled; after a failed registration by glibc, the area
/// contains this number minus one.
const UNREGISTERED: u32 = u32::MAX;
/// The size of the area in its first version, which every kernel accepts.
const AREA_SIZE: u32 = 32;
const UNREGISTER: i32 = 1;
/// The signature before every abort address.
pub(crate) const SIGNATURE: u32 = 0x5305_3053;

/// The calling thread's registration for restartable sequences.
#[derive(Debug)]
pub struct Rseq {
    area: *mut RseqArea,
    /// The area that this module registered and must unregister; `None` if glibc registered the thread.
    own: Option<Box<UnsafeCell<RseqArea>>>,
}

impl Rseq {
    /// Returns the registration of the calling thread: glibc's, or a new one.
    ///
    /// # Errors
    /// Fails with the error of rseq(2), such as `ENOSYS` if the kernel lacks the call, or `EBUSY` if another library
    /// has registered the thread at an unknown address.
    pub fn of_this_thread() -> io::Result<Self> {
        match glibc_area() {
            Some(area) if is_registered(area) => Ok(Self { area, own: None }),
            _ => Self::register(),
        }
    }

    fn register() -> io::Result<Self> {
        let own = Box::new(UnsafeCell::new(RseqArea {
            cpu_id_start: 0,
            cpu_id: UNREGISTERED,
            rseq_cs: 0,
            flags: 0,
            rest: [0; 3],
        }));
        let area = own.get();
        // SAFETY: the area is zeroed, aligned to 32 bytes, and stays where it is until unregistered.
        let answer = unsafe { libc::syscall(libc::SYS_rseq, area, AREA_SIZE, 0, SIGNATURE) };
        if answer == 0 {
            Ok(Self { area, own: Some(own) })
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Arms a sequence that the thread never enters, so that the kernel disarms it when it returns the CPU.
    pub(crate) fn arm_elsewhere(&self) {
        // SAFETY: the area is this thread's and lives as long as self; the descriptor is static, and
        // its addresses are code of this program with the signature before the abort address.
        unsafe {
            let descriptor = &raw const corehop_nowhere_cs as u64;
            std::ptr::addr_of_mut!((*self.area).rseq_cs).write_volatile(descriptor);
        }
    }

    /// Whether a sequence is armed.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        // SAFETY: as above.
        unsafe { std::ptr::addr_of!((*self.area).rseq_cs).read_volatile() != 0 }
    }

    /// Disarms the sequence of [`Rseq::arm_elsewhere`].
    pub(crate) fn disarm(&self) {
        // SAFETY: as above.
        unsafe { std::ptr::addr_of_mut!((*self.area).rseq_cs).write_volatile(0) };
    }

    /// The CPU on which the thread runs.
    pub(crate) fn cpu(&self) -> Cpu {
        // SAFETY: as above; the kernel keeps it up to date.
        Cpu(unsafe { std::ptr::addr_of!((*self.area).cpu_id).read_volatile() })
    }

    /// The address to which walks write the descriptor of their sequence.
    pub(crate) fn address(&self) -> u64 {
        self.area as u64
    }
}

impl Drop for Rseq {
    fn drop(&mut self) {
        if self.own.is_some() {
            // SAFETY: this thread registered exactly this area. (A `Rseq` cannot leave its thread.)
            unsafe { libc::syscall(libc::SYS_rseq, self.area, AREA_SIZE, UNREGISTER, SIGNATURE) };
        }
    }
}

/// Whether the kernel updates glibc's area, which then contains a CPU number.
fn is_registered(area: *mut RseqArea) -> bool {
    // SAFETY: glibc keeps its area mapped for the life of the thread.
    let cpu = unsafe { std::ptr::addr_of!((*area).cpu_id).read_volatile() };
    cpu.cast_signed() >= 0
}

/// glibc's area of this thread, if glibc is new enough to have one.
fn glibc_area() -> Option<*mut RseqArea> {
    let (offset, thread): (*const isize, *mut u8);
    // SAFETY: reads one word that the linker fills, and the thread pointer. The symbol is weak, so
    // that the program also links and starts with a libc that lacks it.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {thread}, qword ptr fs:0",
            offset = out(reg) offset,
            thread = out(reg) thread,
            options(nostack, preserves_flags),
        );
    }
    if offset.is_null() {
        return None;
    }
    // SAFETY: the symbol is an integer constant of libc's; the area lies that far from the thread
    // pointer, by glibc's manual ("Restartable Sequences").
    Some(unsafe { thread.offset(*offset) }.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn the_area_says_which_cpu_the_thread_is_on() {
        match Rseq::of_this_thread() {
            Ok(rseq) => {
                // SAFETY: the registration lives until the end of this block.
                let cpu = unsafe { std::ptr::addr_of!((*rseq.area).cpu_id).read_volatile() };
                // SAFETY: asks a number of the kernel.
                let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
                assert!(i64::from(cpu) < cpus, "{cpu} of {cpus}");
            }
            Err(error) => eprintln!("skipped: no restartable sequences here ({error})"),
        }
    }
}
