// SPDX-License-Identifier: MIT OR Apache-2.0
//! The positions of the words that `bpf/control.bpf.c` writes.

/// The words of a slot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(dead_code, reason = "some are read by the programs alone")]
pub(super) enum SlotWord {
    /// The thread ID, with the process ID in the upper half.
    Thread,
    /// The number of times the thread left its CPU.
    Departures,
    Voluntary,
    Preemptions,
    OutTime,
    InTime,
    OutCpu,
    /// The way in which the thread last left its CPU: [`PREEMPTED`], [`PINNED`], `MOVED` (used only in the BPF
    /// programs), [`AWAY`], [`UNSEEN`].
    How,
    RanNs,
    /// The kernel's count of the thread's migrations.
    Migrations,
    /// The kernel's accounting at the last departure: the thread's CPU time, and its waiting time.
    CpuNs,
    WaitedNs,
    /// The time that the thread had a CPU for which registered threads waited, counted once per waiting thread.
    HeldNs,
    /// The total time between preemptions and returns.
    PreemptedNs,
    /// The number and the total length of the preemptions that are not recorded individually.
    Brief,
    BriefNs,
    /// The ID and the name of the last preempting thread.
    By,
    Name,
    NameEnd,
    /// The kernel's count of the thread's migrations at registration.
    FirstMigrations,
    /// The number of times the thread resumed on a CPU other than the one that it had left.
    CpuChanges,
    /// The number of times the thread returned without being observed.
    Unseen,
    AffinityMoves,
    /// The number of times the thread's return was observed.
    Arrivals,
    InCpu,
    /// The length of the last absence, and the time spent blocked.
    LastNs,
    BlockedNs,
    /// The thread's own name when it ended.
    OwnName,
    OwnNameEnd,
    /// The thread's times before it was registered.
    FirstCpuNs,
    FirstWaitedNs,
    /// Whether the thread has ended.
    Ended,
    /// The time that each bar kept the thread off its CPU, in the order of [`Bar`](corehop_plan::samples::Bar).
    BarredByQuota,
    BarredByBudget,
    BarredByRealtime,
    BarredByFreezer,
    BarredByStop,
    /// The bar because of which the thread left its CPU, and the time at which that bar is lifted.
    Bar,
    BarUntil,
    /// The time for which the thread's group was throttled on the CPU that the thread left, up to the departure.
    QuotaNs,
}

impl SlotWord {
    pub(super) const COUNT: usize = Self::QuotaNs as usize + 1;
}

/// The thread was preempted; without this flag it blocked.
pub(super) const PREEMPTED: u64 = 1;
/// The thread's affinity required a migration while it was away.
pub(super) const PINNED: u64 = 2;
/// The thread has left, and its return was not observed.
pub(super) const AWAY: u64 = 8;
/// The thread's return was not observed.
pub(super) const UNSEEN: u64 = 16;
/// The initial migration count, before the programs have read the kernel's count.
pub(super) const NOT_YET: u64 = u64::MAX;

/// The number of words from one slot to the next.
pub(super) const SLOT_WORDS: usize = 40;
/// Positions of the words that all slots share.
pub(super) const COMMON_LOST: usize = 0;
pub(super) const COMMON_UNFOLLOWED: usize = 1;
pub(super) const COMMON_NEXT: usize = 2;
/// The position of the first table entry of threads, which are indexed by the lower bits of the thread ID.
pub(super) const COMMON_PLACES: usize = 32;
pub(super) const PLACES: usize = 1 << 15;
/// The thread ID of a table entry whose thread has ended.
pub(super) const ENDED: u32 = u32::MAX;

/// The number of words from one CPU to the next.
pub(super) const CPU_WORDS: usize = 8 + 4 * 64;
/// The time that registered threads waited for a CPU while it was idle.
pub(super) const CPU_IDLE: usize = 1;
/// The time that registered threads had a CPU.
pub(super) const CPU_RAN: usize = 6;
