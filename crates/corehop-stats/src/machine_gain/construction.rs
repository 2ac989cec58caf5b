// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the lines that a gang hands from thread to thread, and the memory that it visits, from the construction
//! of its program.
//!
//! The numbers of the construction are not measured. The numbers of the construction are all that is known about the
//! misses on a machine that counts none.

use corehop_plan::workload::gang::{Channel, GangProgram, Sharing};

/// The sizes in bytes of a line, of an item or lock, of a mutex, and of a point (Kamali 2010, section 4.3).
const LINE: u64 = 64;
const WORD: u64 = 4;
const MUTEX: u64 = 40;
const POINT: u64 = 2;
/// The size of a record of sums, in bytes.
const RECORD: u64 = 64;

/// A gang, as its rows describe it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Built<'a> {
    /// The word for the program; size and parameters are written as in rows.
    pub program: &'a str,
    pub items: u64,
    pub parameters: &'a str,
    pub sharing: Sharing,
    pub threads: u64,
}

/// The numbers that follow from the construction of a gang's program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Construction {
    /// The number of modified lines that another thread had last, for each round of a thread, as long as all lines
    /// stay in caches.
    pub handed_over: f64,
    /// Whether each thread waits for its turn, so that a round takes the time of all threads' turns.
    pub in_turn: bool,
    /// The number of bytes that all threads visit, and the number that each thread visits alone.
    pub common: u64,
    pub own: u64,
}

impl Built<'_> {
    /// Returns `None` for messages through the system, whose cost is the wake-up, and for unknown parameters.
    pub(super) fn construction(&self) -> Option<Construction> {
        let (visited, in_turn, common, own) = match self.program {
            word if word == GangProgram::WORDS[0] && self.parameters.is_empty() => {
                (self.swapped(), false, 2 * self.items * WORD, 0)
            }
            word if word == GangProgram::WORDS[1] => {
                let buckets: u64 = self.parameters.strip_prefix("buckets=")?.parse().ok()?;
                // The line of a mutex, and that of its counter.
                (2.0, false, buckets * (MUTEX + WORD), self.items.div_ceil(self.threads) * WORD)
            }
            word if word == GangProgram::WORDS[2] => {
                // Each record begins in the middle of a line, which the thread next to it uses too.
                let records = self.threads * RECORD;
                (1.0, false, records, self.items.div_ceil(self.threads) * POINT)
            }
            word if word == GangProgram::WORDS[3] && !self.through_the_system() => {
                // The lines of the message, and the one that says whose turn it is.
                ((self.items + 1) as f64, true, (self.threads * self.items + 1) * LINE, 0)
            }
            _ => return None,
        };
        // Of data that all threads visit at random the last visitor is another one so often; of a message always.
        let of_another = if in_turn { 1.0 } else { 1.0 - 1.0 / self.threads as f64 };
        Some(match self.sharing {
            Sharing::Write => {
                Construction { handed_over: visited * of_another, in_turn, common, own }
            }
            // Copies of a line that is read stay in all caches.
            Sharing::Read => Construction { handed_over: 0.0, in_turn: false, common, own },
            Sharing::None => {
                Construction { handed_over: 0.0, in_turn: false, common: 0, own: own + common }
            }
        })
    }

    fn through_the_system(&self) -> bool {
        let other = |channel: &&Channel| **channel != Channel::Memory;
        let is = |channel: &Channel| self.parameters == format!("through={channel}");
        Channel::ALL.iter().filter(other).any(is)
    }

    /// Returns the number of lines of a swap: two items and their locks, minus the lines of items that share a line.
    fn swapped(&self) -> f64 {
        let of_line = (LINE / WORD).min(self.items) as f64;
        let on_one_line = (of_line - 1.0) / (self.items as f64 - 1.0).max(1.0);
        2.0 * (2.0 - on_one_line)
    }
}

impl Construction {
    /// Returns the number of lines per round that come from another thread's cache if each cache has this capacity
    /// in bytes; evicted lines do not.
    pub(super) fn handed_over_within(&self, capacity: Option<u64>) -> f64 {
        let bytes = (self.common + self.own) as f64;
        let kept = capacity.map_or(1.0, |it| (it as f64 / bytes.max(1.0)).min(1.0));
        self.handed_over * kept
    }

    /// Returns the share of the bytes that do not fit into one cache of this capacity with all threads below it.
    pub(super) fn too_many(&self, capacity: u64, threads: u64) -> f64 {
        overflow(self.common + threads * self.own, capacity)
    }
}

/// Returns the share of `bytes` that do not fit into `capacity`.
pub(crate) fn overflow(bytes: u64, capacity: u64) -> f64 {
    if bytes == 0 { 0.0 } else { (1.0 - capacity as f64 / bytes as f64).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built<'a>(program: &'a str, items: u64, parameters: &'a str, threads: u64) -> Built<'a> {
        Built { program, items, parameters, sharing: Sharing::Write, threads }
    }

    #[test]
    fn the_lines_of_a_round_are_those_that_another_thread_visited_last() {
        let lines = |it: Built<'_>| it.construction().unwrap().handed_over;
        // Four lines; two items of a line are met in 15 of 99,999 draws, and that hardly counts.
        assert!((lines(built("swap", 100_000, "", 2)) - 2.0).abs() < 1e-3);
        // Ten items lie on one line, their locks on another.
        assert!((lines(built("swap", 10, "", 2)) - 1.0).abs() < 1e-12);
        assert!((lines(built("bucket-sort", 100, "buckets=8", 4)) - 1.5).abs() < 1e-12);
        assert!((lines(built("linear-regression", 100, "", 2)) - 0.5).abs() < 1e-12);
        let exchange = built("exchange", 66, "instructions=10000", 2).construction().unwrap();
        assert!((exchange.handed_over - 67.0).abs() < 1e-12 && exchange.in_turn);
    }

    #[test]
    fn twins_hand_over_nothing_and_messages_through_the_system_are_not_lines() {
        let swap = built("swap", 100, "", 2);
        for sharing in [Sharing::Read, Sharing::None] {
            let it = Built { sharing, ..swap }.construction().unwrap();
            assert!(it.handed_over.abs() < 1e-12, "{it:?}");
        }
        assert_eq!(built("exchange", 1, "through=pipe", 2).construction(), None);
        assert_eq!(built("swap", 100, "fixed_low_bits", 2).construction(), None);
    }

    #[test]
    fn private_copies_fill_a_shared_cache_twice() {
        let swap = Built { sharing: Sharing::None, ..built("swap", 1_000, "", 2) };
        let it = swap.construction().unwrap();
        assert_eq!((it.common, it.own), (0, 8_000));
        assert!((it.too_many(8_000, 2) - 0.5).abs() < 1e-12);
        assert!(it.too_many(8_000, 1).abs() < 1e-12);
    }
}
