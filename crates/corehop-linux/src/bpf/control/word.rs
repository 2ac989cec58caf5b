// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words that `bpf/control.bpf.c` writes, where this process finds them.

/// Words of a slot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(dead_code, reason = "some are read by the programs alone")]
pub(super) enum Word {
    /// The thread's number, its process's in the upper half.
    Thread,
    /// Times it left its CPU.
    Departures,
    /// Times it was seen to come back to a CPU.
    Arrivals,
    /// Times it came back and was not seen to.
    Unseen,
    Preemptions,
    Voluntary,
    /// The kernel's count of its migrations, and that at the beginning.
    Migrations,
    FirstMigrations,
    AffinityMoves,
    /// Times it came back to another CPU than it had left.
    CpuChanges,
    OutTime,
    OutCpu,
    InTime,
    InCpu,
    /// Sum and last of the time between being preempted and being back.
    PreemptedNs,
    LastNs,
    BlockedNs,
    /// Number and name of the thread of the last preemption.
    By,
    Name,
    NameEnd,
    /// The way it left last: [`PREEMPTED`], [`PINNED`], [`MOVED`], [`AWAY`], [`UNSEEN`].
    How,
    RanNs,
    /// Its own name when it ended.
    OwnName,
    OwnNameEnd,
}

impl Word {
    pub(super) const COUNT: usize = Self::OwnNameEnd as usize + 1;
}

/// It was taken off its CPU (otherwise it blocked).
pub(super) const PREEMPTED: u64 = 1;
/// Its affinity made it move while it was away.
pub(super) const PINNED: u64 = 2;
/// It has left and was not seen to come back.
pub(super) const AWAY: u64 = 8;
/// That it came back was not seen.
pub(super) const UNSEEN: u64 = 16;
/// The first value of a count of migrations that the programs have yet to see.
pub(super) const NOT_YET: u64 = u64::MAX;

/// From one slot to the next.
pub(super) const SLOT_WORDS: usize = 32;
/// Words of what is common to all slots.
pub(super) const COMMON_LOST: usize = 0;
pub(super) const COMMON_UNFOLLOWED: usize = 1;
pub(super) const COMMON_NEXT: usize = 2;
/// The first byte of the filter.
pub(super) const COMMON_FILTER: usize = 256;
pub(super) const FILTER_BYTES: usize = 1 << 16;
