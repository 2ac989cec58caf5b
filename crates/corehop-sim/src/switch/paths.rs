// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel code that a core switch executes (Strong et al. 2009, sections 3 and 6).
//!
//! Instructions are fitted on the row sim_CC of Tables 2(b) and 3, where a complex core executes one instruction in
//! a cycle. The number of code lines of the fast path is fitted on one value of sim_SS (V3, Table 2(b)), and the
//! time of an instruction on a simple core on another (the call that stays). The line counts of the other paths are
//! assumed, in proportion to the work of each path. The instructions of the flag are also assumed, but respect one
//! row: V5 awake after 250 cycles on sim_CS_slow (Table 6), where the flag must come too late. A 21264 has 16
//! instructions in a line.

/// A stretch of kernel code.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelPath {
    /// The number of instructions on the path.
    pub(super) instructions: u32,
    /// The number of cache lines that hold the path's instructions.
    pub(super) lines: u32,
}

/// The system call itself: entry, `gettid`, exit, and the loop of the caller.
pub(super) const CALL: usize = 0;
/// The path of the source core, which hands the thread over and starts another thread.
pub(super) const LEAVE: usize = 1;
/// The path of the target core, which takes over the thread.
pub(super) const ENTER: usize = 2;
/// The path of the target core that serves the interrupt that ends its sleep (section 6.1).
pub(super) const INTERRUPT: usize = 3;
/// The scheduler path that V2 takes instead of the fast path, on the source core.
pub(super) const SCHEDULE_SOURCE: usize = 4;
/// The scheduler path that V2 takes instead of the fast path, on the target core.
pub(super) const SCHEDULE_TARGET: usize = 5;
/// The path of the migration thread on the source core (V1).
pub(super) const MIGRATE: usize = 6;
/// The path of the early wake-up, on the source core (V5).
pub(super) const WAKE: usize = 7;
/// The path by which the target core announces that it polls (V5).
pub(super) const FLAG: usize = 8;

/// All paths, indexed by the constants from [`CALL`] to [`FLAG`].
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

/// The number of consecutive code lines before a jump to other code. The number of consecutive lines is assumed.
/// The code of all paths is also assumed to be in one stretch of text of its own, because a kernel links the
/// scheduler and its entry points next to each other.
pub(super) const RUN: u32 = 4;
/// The number of lines of a kernel stack that a switch uses, including the thread's state at its end (assumed).
pub(super) const STACK: u32 = 24;
/// The alignment of stacks in lines: 16 KiB, as on Alpha.
pub(super) const STACK_ALIGNMENT: u64 = 256;
/// The number of code lines executed before the next line of a stack is used (assumed).
pub(super) const CODE_PER_STACK_LINE: u32 = 3;
/// The number of lines that the source core writes and the target core needs: run queues, locks, flags, the
/// thread's state (assumed).
pub(super) const HANDED_OVER: u64 = 8;
