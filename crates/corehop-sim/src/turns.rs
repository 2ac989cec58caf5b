// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue of events: numbers in the order of their times.
//!
//! Threads that walk beside each other return to the queue after similar times, so that a search from the end
//! quickly finds the place of a thread that just acted.

use super::times::Picos;

/// Numbers, each with a time; at equal times the smaller number comes first.
///
/// The entries form a ring: when the first entry gets a new time, the last entry can take its place.
#[derive(Debug, Clone, Default)]
pub(super) struct EventQueue {
    ring: Vec<(Picos, usize)>,
    /// The index of the first entry.
    head: usize,
}

impl EventQueue {
    /// Creates a queue of these times and numbers, given in any order.
    pub(super) fn of(times: impl IntoIterator<Item = (Picos, usize)>) -> Self {
        let mut ring: Vec<(Picos, usize)> = times.into_iter().collect();
        ring.sort_unstable();
        Self { ring, head: 0 }
    }

    /// The time and the number of the first entry.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(Picos, usize)> {
        self.ring.get(self.head).copied()
    }

    /// Gives the first entry a new time.
    #[inline(always)]
    pub(super) fn first_again(&mut self, at: Picos) {
        if let Some((_, number)) = self.first() {
            self.instead_of_first(at, number);
        }
    }

    /// Replaces the first entry, which must exist, by this number at this time.
    #[inline(always)]
    pub(super) fn instead_of_first(&mut self, at: Picos, number: usize) {
        let ring = self.ring.as_mut_slice();
        let (mine, count) = ((at, number), ring.len());
        let mut place = self.head;
        self.head = if place + 1 < count { place + 1 } else { 0 };
        for _ in 1..count {
            let before = if place == 0 { count - 1 } else { place - 1 };
            if ring[before] <= mine {
                break;
            }
            ring[place] = ring[before];
            place = before;
        }
        if let Some(slot) = ring.get_mut(place) {
            *slot = mine;
        }
    }

    /// Delays all entries by `time`.
    pub(super) fn skip(&mut self, time: Picos) {
        self.ring.iter_mut().for_each(|(at, _)| *at += time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::DrawStream;

    #[test]
    fn the_first_is_always_the_one_that_a_look_at_all_would_find() {
        let mut draw = DrawStream::new(4, 2);
        let mut times: Vec<Picos> = (0..7).map(|_| draw.below(20)).collect();
        let mut turns = EventQueue::of(times.iter().enumerate().map(|(number, &at)| (at, number)));
        for round in 0..2_000 {
            let first = (0..times.len()).min_by_key(|&number| (times[number], number)).unwrap();
            assert_eq!(turns.first(), Some((times[first], first)), "{round}");
            times[first] += draw.below(30);
            turns.first_again(times[first]);
            if round % 100 == 0 {
                for at in &mut times {
                    *at += 5;
                }
                turns.skip(5);
            }
        }
        assert_eq!(EventQueue::default().first(), None);
    }
}
