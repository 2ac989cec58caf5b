// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU of a gang, and the threads that take turns on it.
//!
//! A thread keeps its CPU for a slice, or until it waits for another thread, as one does that sleeps for
//! a lock. The slice is the usual one of Linux on few CPUs, the switch a usual one; both are assumed.

use std::collections::VecDeque;

use crate::outcome::CpuCounters;
use crate::times::Picos;
use corehop_plan::samples::MemberCounts;

/// The time that a thread has its CPU while others want it.
const SLICE: Picos = 3_000_000_000;
/// The time from one thread to the next.
const SWITCH: Picos = 1_500_000;

/// A CPU.
#[derive(Debug)]
pub(super) struct CpuRunQueue {
    cpu: usize,
    /// The threads that are not over; the first one runs.
    threads: VecDeque<usize>,
    /// The time from which it does.
    since: Picos,
}

impl CpuRunQueue {
    /// The place of a CPU in a list; it is added where it is not there.
    pub(super) fn of_cpu(seats: &mut Vec<Self>, cpu: usize) -> usize {
        seats.iter().position(|seat| seat.cpu == cpu).unwrap_or_else(|| {
            seats.push(Self { cpu, threads: VecDeque::new(), since: 0 });
            seats.len() - 1
        })
    }

    /// Seats a thread on a CPU before anything runs; the place of that CPU in the list.
    pub(super) fn take(seats: &mut Vec<Self>, cpu: usize, thread: usize) -> usize {
        let seat = Self::of_cpu(seats, cpu);
        seats[seat].threads.push_back(thread);
        seat
    }

    /// The thread that has it.
    pub(super) fn running(&self) -> Option<usize> {
        self.threads.front().copied()
    }

    /// Whether the slice of the thread that runs is over.
    pub(super) const fn is_over(&self, now: Picos) -> bool {
        now >= self.since + SLICE
    }

    /// The thread that takes it over from one that goes on later, because its slice is over or it waits.
    pub(super) fn next(&mut self, now: Picos, waits: bool) -> Option<(usize, Picos)> {
        if self.threads.len() < 2 || !(waits || self.is_over(now)) {
            return None;
        }
        self.threads.rotate_left(1);
        self.since = now + SWITCH;
        self.running().map(|next| (next, self.since))
    }

    /// A thread leaves it; the thread that takes it over, if there is one.
    pub(super) fn leave(&mut self, thread: usize, now: Picos) -> Option<(usize, Picos)> {
        let ran = self.running() == Some(thread);
        self.threads.retain(|&it| it != thread);
        if !ran {
            return None;
        }
        self.since = now + SWITCH;
        self.running().map(|next| (next, self.since))
    }

    /// A thread wants it; the thread and the time, where it can have it at once.
    pub(super) fn join(&mut self, thread: usize, now: Picos) -> Option<(usize, Picos)> {
        self.threads.push_back(thread);
        (self.threads.len() == 1).then(|| {
            // The one before it left later than this one was woken, where they ran side by side.
            self.since = self.since.max(now);
            (thread, self.since)
        })
    }
}

/// The accesses in a CPU's counters; it counts no instructions.
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

/// Both together.
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
