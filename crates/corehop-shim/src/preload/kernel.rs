// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls without libc, which leave `errno` unchanged.

use std::arch::asm;

/// Executes a system call; an error is returned as its negative number.
///
/// # Safety
/// The conditions of that system call.
#[inline]
pub(super) unsafe fn call(number: libc::c_long, a: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the convention of x86-64; the kernel changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// The value in the unused sixth argument of a call that is not the program's, so that the kernel's count leaves the
/// call out.
pub(super) const OWN: usize = 0x63_6f72_6568_6f70;

/// The ID of the thread.
pub(super) fn tid() -> u64 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u64 }
}

/// A set of signals in the kernel's format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Signals(u64);

impl Signals {
    pub(super) const NONE: Self = Self(0);

    /// All signals that can wait: neither those of faults nor the signal by which glibc changes credentials in all
    /// threads (33).
    const HELD: Self = {
        let mut bits = u64::MAX;
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
        let others = [libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT, 33];
        let mut at = 0;
        while at < 4 {
            bits &= !(1 << (faults[at] - 1) | 1 << (others[at] - 1));
            at += 1;
        }
        Self(bits)
    };

    /// Blocks signals and returns the signals that were blocked before.
    pub(super) fn hold() -> Self {
        Self::HELD.block()
    }

    /// Blocks signals including the signal by which libpsx makes each thread drop privileges; returns the signals
    /// that were blocked before.
    pub(super) fn hold_filters() -> Self {
        Self(Self::HELD.0 | 1 << (libc::SIGSYS - 1)).block()
    }

    fn block(self) -> Self {
        let mut before = 0;
        mask(libc::SIG_BLOCK, &raw const self.0, &raw mut before);
        Self(before)
    }

    /// Blocks exactly these signals.
    pub(super) fn restore(self) {
        mask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
    }
}

fn mask(how: i32, set: *const u64, before: *mut u64) {
    let a = [how as usize, set as usize, before as usize, 8, 0, 0];
    // SAFETY: both point to 8 bytes or nowhere.
    unsafe { call(libc::SYS_rt_sigprocmask, a) };
}

/// Whether the stack for signal handlers is in use.
pub(super) fn on_signal_stack() -> bool {
    // SAFETY: all zeroes are one; the kernel writes it.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        call(libc::SYS_sigaltstack, [0, &raw mut stack as usize, 0, 0, 0, 0]);
        stack.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// Whether the thread has the ordinary scheduling policy, because a partner would inherit a real-time policy.
pub(super) fn is_ordinary() -> bool {
    // SAFETY: no pointers.
    let policy = unsafe { call(libc::SYS_sched_getscheduler, [0; 6]) };
    [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&(policy as i32))
}

/// The value of the time-stamp counter.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}
