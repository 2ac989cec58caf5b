// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words that `bpf/control.bpf.c` writes, where this process finds them.

/// Words of a slot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(dead_code, reason = "some are read by the programs alone")]
pub(super) enum SlotWord {
    /// The thread's number, its process's in the upper half.
    Thread,
    /// Times it left its CPU.
    Departures,
    Voluntary,
    Preemptions,
    OutTime,
    InTime,
    OutCpu,
    /// The way it left last: [`PREEMPTED`], [`PINNED`], [`MOVED`], [`AWAY`], [`UNSEEN`].
    How,
    RanNs,
    /// The kernel's count of its migrations.
    Migrations,
    /// By the kernel's account, when it left last: the time it had a CPU, and the time it waited for one.
    CpuNs,
    WaitedNs,
    /// The time it had a CPU that registered threads waited for, for each of them.
    HeldNs,
    /// The time between being preempted and being back, summed up.
    PreemptedNs,
    /// Of the preemptions and of that time, those that are not recorded one by one.
    Brief,
    BriefNs,
    /// Number and name of the thread of the last preemption.
    By,
    Name,
    NameEnd,
    /// The kernel's count of its migrations at the beginning.
    FirstMigrations,
    /// Times it came back to another CPU than it had left.
    CpuChanges,
    /// Times it came back and was not seen to.
    Unseen,
    AffinityMoves,
    /// Times it was seen to come back to a CPU.
    Arrivals,
    InCpu,
    /// The last absence, and the time blocked.
    LastNs,
    BlockedNs,
    /// Its own name when it ended.
    OwnName,
    OwnNameEnd,
    /// Its times before it was registered.
    FirstCpuNs,
    FirstWaitedNs,
    /// Whether it has ended.
    Ended,
    /// The time that each bar kept it off its CPU, in the order of [`Bar`](corehop_plan::samples::Bar).
    BarredByQuota,
    BarredByBudget,
    BarredByRealtime,
    BarredByFreezer,
    BarredByStop,
    /// The bar that it left its CPU behind, and when that one is lifted.
    Bar,
    BarUntil,
    /// The time that its group was throttled on the CPU that it left, until then.
    QuotaNs,
}

impl SlotWord {
    pub(super) const COUNT: usize = Self::QuotaNs as usize + 1;
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
pub(super) const SLOT_WORDS: usize = 40;
/// Words of what is common to all slots.
pub(super) const COMMON_LOST: usize = 0;
pub(super) const COMMON_UNFOLLOWED: usize = 1;
pub(super) const COMMON_NEXT: usize = 2;
/// The first of the places of threads, by the lower bits of their numbers.
pub(super) const COMMON_PLACES: usize = 32;
pub(super) const PLACES: usize = 1 << 15;
/// The thread of a place whose own has ended.
pub(super) const ENDED: u32 = u32::MAX;

/// From one CPU to the next.
pub(super) const CPU_WORDS: usize = 8 + 4 * 64;
/// The time that registered threads waited for a CPU while it was idle.
pub(super) const CPU_IDLE: usize = 1;
/// The time that registered threads had a CPU.
pub(super) const CPU_RAN: usize = 6;
