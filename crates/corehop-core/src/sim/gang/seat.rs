// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CPU of a gang, and the threads that take turns on it.
//!
//! A thread keeps its CPU for a slice, or until it waits for another thread, as one does that sleeps for
//! a lock. The slice is the usual one of Linux on few CPUs, the switch a usual one; both are assumed.

use std::collections::VecDeque;

use crate::samples::MemberCounts;
use crate::sim::outcome::CpuCounters;
use crate::sim::times::Picos;

/// The time that a thread has its CPU while others want it.
const SLICE: Picos = 3_000_000_000;
/// The time from one thread to the next.
const SWITCH: Picos = 1_500_000;

/// A CPU.
#[derive(Debug)]
pub(super) struct Seat {
    cpu: usize,
    /// The threads that are not over; the first one runs.
    threads: VecDeque<usize>,
    /// When it began to.
    since: Picos,
}

impl Seat {
    /// The CPUs of threads, which are given in the order of their numbers.
    pub(super) fn of(cpus: impl Iterator<Item = usize>) -> Vec<Self> {
        let mut seats: Vec<Self> = Vec::new();
        for (at, cpu) in cpus.enumerate() {
            match seats.iter_mut().find(|seat| seat.cpu == cpu) {
                Some(seat) => seat.threads.push_back(at),
                None => seats.push(Self { cpu, threads: VecDeque::from([at]), since: 0 }),
            }
        }
        seats
    }

    /// The thread that has it.
    pub(super) fn running(&self) -> Option<usize> {
        self.threads.front().copied()
    }

    /// The thread that takes it over, and when, if the one that has it leaves it now.
    pub(super) fn next(&mut self, now: Picos, ended: bool, waits: bool) -> Option<(usize, Picos)> {
        let leaves = ended || self.threads.len() > 1 && (waits || now >= self.since + SLICE);
        if !leaves {
            return None;
        }
        let left = self.threads.pop_front()?;
        if !ended {
            self.threads.push_back(left);
        }
        self.since = now + SWITCH;
        self.running().map(|next| (next, self.since))
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

/// What came from one count to the next.
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
        let mut seats = Seat::of([3, 3, 5].into_iter());
        assert_eq!(seats.len(), 2);
        // Alone, a thread keeps its CPU, even while it waits.
        assert_eq!(seats[1].next(SLICE * 9, false, true), None);
        let seat = &mut seats[0];
        assert_eq!(seat.next(SLICE - 1, false, false), None);
        assert_eq!(seat.next(SLICE, false, false), Some((1, SLICE + SWITCH)));
        assert_eq!(seat.next(SLICE + SWITCH + 5, false, true), Some((0, SLICE + SWITCH * 2 + 5)));
        assert_eq!(seat.next(SLICE * 2, true, false), Some((1, SLICE * 2 + SWITCH)));
        assert_eq!(seat.next(SLICE * 9, true, false), None);
        assert_eq!(seat.running(), None);
    }
}
