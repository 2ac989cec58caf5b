// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel code that a core switch executes (Strong et al. 2009, sections 3 and 6).
//!
//! Instructions are fitted on the row sim_CC of Tables 2(b) and 3, where a complex core executes one instruction in a cycle.
//! The number of code lines of the fast path is fitted on one value of sim_SS (V3, Table 2(b)), and the time of an
//! instruction on a simple core on another (the call that stays); those of the other paths are in proportion to what they
//! do, and assumed. So are the instructions of the flag, but for one row: V5 awake after 250 cycles on sim_CS_slow (Table 6),
//! which says that the flag comes too late there. A 21264 has 16 instructions in a line.

/// A stretch of kernel code.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelPath {
    /// The instructions that it executes.
    pub(super) instructions: u32,
    /// The cache lines that hold them.
    pub(super) lines: u32,
}

/// The system call itself: entry, `gettid`, exit, and the loop of the caller.
pub(super) const CALL: usize = 0;
/// The source core: the thread is handed over, and another one begins.
pub(super) const LEAVE: usize = 1;
/// The target core: the thread is taken over.
pub(super) const ENTER: usize = 2;
/// The target core serves the interrupt that ends its sleep (section 6.1).
pub(super) const INTERRUPT: usize = 3;
/// The scheduler in place of its fast path, on the source core and on the target core (V2).
pub(super) const SCHEDULE_SOURCE: usize = 4;
/// See [`SCHEDULE_SOURCE`].
pub(super) const SCHEDULE_TARGET: usize = 5;
/// The migration thread on the source core (V1).
pub(super) const MIGRATE: usize = 6;
/// The wake-up ahead of need, on the source core (V5).
pub(super) const WAKE: usize = 7;
/// The target core says that it polls (V5).
pub(super) const FLAG: usize = 8;

/// All of them, by the numbers above.
pub(super) const PATHS: [KernelPath; 9] = [
    KernelPath { instructions: 360, lines: 20 },
    KernelPath { instructions: 1_273, lines: 126 },
    KernelPath { instructions: 1_273, lines: 126 },
    KernelPath { instructions: 817, lines: 50 },
    KernelPath { instructions: 523, lines: 50 },
    KernelPath { instructions: 523, lines: 50 },
    KernelPath { instructions: 2_135, lines: 100 },
    KernelPath { instructions: 84, lines: 4 },
    KernelPath { instructions: 84, lines: 4 },
];

/// Consecutive lines of code before a jump elsewhere. Assumed, as is that the code of all paths lies in one stretch of text
/// that nothing else shares: the scheduler and the entries of a kernel are linked side by side.
pub(super) const RUN: u32 = 4;
/// The lines of a kernel stack, with the thread's state at its end, that a switch uses. Assumed.
pub(super) const STACK: u32 = 24;
/// Stacks begin at multiples of so many lines: 16 KiB, as on Alpha.
pub(super) const STACK_ALIGNMENT: u64 = 256;
/// The code lines executed before the next line of a stack is used. Assumed.
pub(super) const CODE_PER_STACK_LINE: u32 = 3;
/// The lines that the source core writes and the target core needs: run queues, locks, flags, the thread's state.
/// Assumed.
pub(super) const HANDED_OVER: u64 = 8;
