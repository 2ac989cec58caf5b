// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU of a gang, and the threads that take turns on it.
//!
//! A thread keeps its CPU for a slice, or until the thread sleeps, for example to wait for a lock. The slice is the
//! usual value of Linux on few CPUs, and the switch time a typical value; both are assumed.

use std::collections::VecDeque;

use crate::outcome::CpuCounters;
use crate::times::Picos;
use corehop_plan::samples::MemberCounts;

/// The time for which a thread keeps its CPU while other threads want the CPU.
const SLICE: Picos = 3_000_000_000;
/// The time of a switch from one thread to the next.
const SWITCH: Picos = 1_500_000;

/// A CPU with its queue of threads.
#[derive(Debug)]
pub(super) struct CpuRunQueue {
    cpu: usize,
    /// The threads that have not ended; the first thread runs.
    threads: VecDeque<usize>,
    /// The time at which the running thread started its slice.
    since: Picos,
}

impl CpuRunQueue {
    /// The index of a CPU in the list `seats`; adds the CPU if missing.
    pub(super) fn of_cpu(seats: &mut Vec<Self>, cpu: usize) -> usize {
        seats.iter().position(|seat| seat.cpu == cpu).unwrap_or_else(|| {
            seats.push(Self { cpu, threads: VecDeque::new(), since: 0 });
            seats.len() - 1
        })
    }

    /// Assigns a thread to a CPU before the simulation starts; returns the index of that CPU in the list.
    pub(super) fn take(seats: &mut Vec<Self>, cpu: usize, thread: usize) -> usize {
        let seat = Self::of_cpu(seats, cpu);
        seats[seat].threads.push_back(thread);
        seat
    }

    /// The thread that runs on the CPU.
    pub(super) fn running(&self) -> Option<usize> {
        self.threads.front().copied()
    }

    /// Whether the slice of the thread that runs is over.
    pub(super) const fn is_over(&self, now: Picos) -> bool {
        now >= self.since + SLICE
    }

    /// The next thread for the CPU and its start time, if the running thread has used its slice or waits; the
    /// running thread continues later.
    pub(super) fn next(&mut self, now: Picos, waits: bool) -> Option<(usize, Picos)> {
        if self.threads.len() < 2 || !(waits || self.is_over(now)) {
            return None;
        }
        self.threads.rotate_left(1);
        self.since = now + SWITCH;
        self.running().map(|next| (next, self.since))
    }

    /// Removes a thread from the CPU; returns the next thread and its start time, if the CPU changes hands.
    pub(super) fn leave(&mut self, thread: usize, now: Picos) -> Option<(usize, Picos)> {
        let ran = self.running() == Some(thread);
        self.threads.retain(|&it| it != thread);
        if !ran {
            return None;
        }
        self.since = now + SWITCH;
        self.running().map(|next| (next, self.since))
    }

    /// Adds a thread to the CPU; returns the thread and its start time if the thread can run at once.
    pub(super) fn join(&mut self, thread: usize, now: Picos) -> Option<(usize, Picos)> {
        self.threads.push_back(thread);
        (self.threads.len() == 1).then(|| {
            // The one before it left later than this one was woken, where they ran side by side.
            self.since = self.since.max(now);
            (thread, self.since)
        })
    }
}

/// Converts a CPU's counters to access counts; instructions are not counted.
pub(super) fn counts_of(counters: &CpuCounters) -> MemberCounts {
    MemberCounts {
        instructions: 0,
        loads: counters.reads,
        stores: counters.writes,
        misses: counters.last_level_misses(),
        snoop_hits: counters.snoop_hits,
        snoop_hits_modified: counters.snoop_hits_modified,
        invalidations: counters.invalidations,
        write_backs: counters.write_backs,
    }
}

/// The difference of two counts.
pub(super) fn gained(from: &MemberCounts, to: &MemberCounts) -> MemberCounts {
    each(from, to, |from, to| to - from)
}

/// The sum of two counts.
pub(super) fn sum(one: &MemberCounts, other: &MemberCounts) -> MemberCounts {
    each(one, other, |one, other| one + other)
}

fn each(a: &MemberCounts, b: &MemberCounts, of: impl Fn(u64, u64) -> u64) -> MemberCounts {
    MemberCounts {
        instructions: of(a.instructions, b.instructions),
        loads: of(a.loads, b.loads),
        stores: of(a.stores, b.stores),
        misses: of(a.misses, b.misses),
        snoop_hits: of(a.snoop_hits, b.snoop_hits),
        snoop_hits_modified: of(a.snoop_hits_modified, b.snoop_hits_modified),
        invalidations: of(a.invalidations, b.invalidations),
        write_backs: of(a.write_backs, b.write_backs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_cpu_take_turns_by_slices_and_when_they_wait() {
        let mut seats = Vec::new();
        let places: Vec<usize> = [3, 3, 5]
            .into_iter()
            .enumerate()
            .map(|(at, cpu)| CpuRunQueue::take(&mut seats, cpu, at))
            .collect();
        assert_eq!((places, seats.len()), (vec![0, 0, 1], 2));
        // Alone, a thread keeps its CPU, even while it waits.
        assert_eq!(seats[1].next(SLICE * 9, true), None);
        let seat = &mut seats[0];
        assert_eq!(seat.next(SLICE - 1, false), None);
        assert_eq!(seat.next(SLICE, false), Some((1, SLICE + SWITCH)));
        assert_eq!(seat.next(SLICE + SWITCH + 5, true), Some((0, SLICE + SWITCH * 2 + 5)));
        assert_eq!(seat.leave(0, SLICE * 2), Some((1, SLICE * 2 + SWITCH)));
        assert_eq!(seat.leave(1, SLICE * 9), None);
        assert_eq!(seat.running(), None);
    }

    #[test]
    fn a_thread_that_is_woken_has_an_empty_cpu_at_once_and_a_taken_one_later() {
        let mut seat = CpuRunQueue { cpu: 0, threads: VecDeque::new(), since: 0 };
        assert_eq!(seat.join(4, 100), Some((4, 100)));
        assert_eq!(seat.join(5, 200), None);
        assert_eq!((seat.leave(5, 300), seat.running()), (None, Some(4)));
        assert_eq!(seat.join(5, 400), None);
        assert_eq!(seat.leave(4, 500), Some((5, 500 + SWITCH)));
    }
}
