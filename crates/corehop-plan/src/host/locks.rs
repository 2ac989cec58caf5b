// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds pairs of threads that hand locks over, from the threads' calls at futex words.
//!
//! A thread that finds a lock taken waits at the lock's futex word; a thread that releases a contended lock wakes a
//! waiter there. The counts do not show which thread ended a wait, so corehop attributes each wait to the wakes of the
//! other threads in proportion to their number. Taking a free lock makes no system call, so the counted hand-overs are
//! a lower bound of the lock's uses.
//!
//! Process and address identify a futex word. A lock in memory that processes share therefore counts as one lock for
//! each process.

use std::collections::BTreeMap;

use super::{DataSharing, Evidence};

/// The calls of one thread at one futex word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordUse {
    /// The id of the process to which the thread belongs.
    pub process: u32,
    /// The address of the futex word in the process.
    pub address: u64,
    /// The thread that makes the calls.
    pub tid: u32,
    /// The number of calls that wait for a change of the word.
    pub waits: u64,
    /// The number of calls that wake waiting threads.
    pub wakes: u64,
}

impl WordUse {
    const fn calls(&self) -> u64 {
        self.waits.saturating_add(self.wakes)
    }
}

/// The largest number of threads per futex word that [`handed_over`] pairs with each other: the threads with the most
/// calls. A word that ten thousand threads use would have fifty million pairs, each with little evidence.
pub const MOST: usize = 32;

/// Returns the pairs of threads that handed locks over, from calls counted for `seconds` seconds. Pairs are in
/// ascending order; a pair with less than half a hand-over is left out.
pub fn handed_over(mut uses: Vec<WordUse>, seconds: f64) -> Vec<DataSharing> {
    uses.sort_unstable();
    let mut pairs = BTreeMap::new();
    for word in uses.chunk_by(|x, y| (x.process, x.address) == (y.process, y.address)) {
        if word.len() > 1 {
            pair(&busiest(word), &mut pairs);
        }
    }
    let shared = |((a, b), handed): ((u32, u32), f64)| {
        // Shares that are summed in another order differ in their last bits.
        let (seen, per_second) = ((handed + 1e-6).round() as u64, handed / seconds);
        (seen > 0).then_some(DataSharing { a, b, by: Evidence::Locks, seen, per_second })
    };
    pairs.into_iter().filter_map(shared).collect()
}

/// Returns the threads with the most calls at a word, at most [`MOST`] of them.
fn busiest(word: &[WordUse]) -> Vec<WordUse> {
    let mut word = word.to_vec();
    if word.len() > MOST {
        word.sort_by_key(|it| std::cmp::Reverse(it.calls()));
        word.truncate(MOST);
    }
    word
}

/// Adds the hand-overs at one word. A wake of another thread ends each wait, as long as wakes remain. Each waking
/// thread gets a share of the ended waits in proportion to its wakes.
fn pair(word: &[WordUse], pairs: &mut BTreeMap<(u32, u32), f64>) {
    let all: u64 = word.iter().map(|it| it.wakes).sum();
    for to in word {
        let of_others = all - to.wakes;
        let ended = to.waits.min(of_others);
        if ended == 0 {
            continue;
        }
        for from in word.iter().filter(|it| it.tid != to.tid && it.wakes > 0) {
            let pair = (from.tid.min(to.tid), from.tid.max(to.tid));
            let share = from.wakes as f64 / of_others as f64;
            *pairs.entry(pair).or_insert(0.0) += ended as f64 * share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(address: u64, tid: u32, waits: u64, wakes: u64) -> WordUse {
        WordUse { process: 1, address, tid, waits, wakes }
    }

    fn seen(uses: &[WordUse]) -> Vec<(u32, u32, u64)> {
        let shared = handed_over(uses.to_vec(), 2.0);
        shared.iter().map(|it| (it.a, it.b, it.seen)).collect()
    }

    #[test]
    fn two_locks_of_two_threads_are_two_pairs_with_the_waits_that_wakes_ended() {
        // 7 waits 60 times for 9, which wakes 80 times; 9 waits 50 times, and 7 wakes 40 times.
        let uses = [at(16, 9, 50, 80), at(32, 8, 30, 30), at(16, 7, 60, 40), at(32, 4, 30, 30)];
        assert_eq!(seen(&uses), [(4, 8, 60), (7, 9, 100)]);
        let shared = handed_over(uses.to_vec(), 2.0);
        assert!((shared[1].per_second - 50.0).abs() < 1e-9, "{shared:?}");
        assert!(shared.iter().all(|it| it.by == Evidence::Locks));
    }

    #[test]
    fn a_thread_alone_waits_without_wakes_and_other_processes_make_no_pair() {
        assert_eq!(seen(&[at(16, 7, 9, 9)]), []);
        // Threads that are waited for as they end make no call themselves.
        assert_eq!(seen(&[at(16, 7, 9, 0), at(16, 8, 9, 0)]), []);
        let other = WordUse { process: 2, ..at(16, 8, 9, 9) };
        assert_eq!(seen(&[at(16, 7, 9, 9), other]), []);
        assert_eq!(seen(&[at(16, 7, 9, 9), at(20, 8, 9, 9)]), []);
    }

    #[test]
    fn of_three_threads_each_wait_falls_to_the_others_by_their_wakes() {
        // 1 waits 30 times: 20 ended by 2 and 10 by 3.
        assert_eq!(
            seen(&[at(16, 1, 30, 0), at(16, 2, 0, 40), at(16, 3, 0, 20)]),
            [(1, 2, 20), (1, 3, 10)]
        );
    }

    #[test]
    fn a_lock_of_ten_thousand_threads_pairs_the_busiest() {
        let uses = (0..10_000).map(|tid| at(16, tid, u64::from(tid), u64::from(tid))).collect();
        let shared = handed_over(uses, 1.0);
        assert_eq!(shared.len(), MOST * (MOST - 1) / 2);
        assert!(shared.iter().all(|it| it.a >= 10_000 - MOST as u32));
    }

    /// Computes the hand-overs in a slow and obvious way: every wait in turn, and every wake that may have ended it.
    fn twin(uses: &[WordUse]) -> BTreeMap<(u32, u32), f64> {
        let mut pairs = BTreeMap::new();
        for to in uses {
            let same = |it: &&WordUse| {
                it.process == to.process && it.address == to.address && it.tid != to.tid
            };
            let wakes: Vec<u32> = uses
                .iter()
                .filter(same)
                .flat_map(|it| std::iter::repeat_n(it.tid, it.wakes as usize))
                .collect();
            for _ in 0..to.waits.min(wakes.len() as u64) {
                for from in &wakes {
                    let pair = (to.tid.min(*from), to.tid.max(*from));
                    *pairs.entry(pair).or_insert(0.0) += 1.0 / wakes.len() as f64;
                }
            }
        }
        pairs
    }

    /// Generates uses of three futex words in two processes by six threads each, with at most one use of each word by
    /// each thread.
    fn some() -> impl Strategy<Value = Vec<WordUse>> {
        let word = (0..2_u32, 0..3_u64, 1..7_u32, 0..20_u64, 0..20_u64);
        prop::collection::vec(word, 0..25).prop_map(|all| {
            let use_of = |(process, address, tid, waits, wakes)| {
                let tid = tid + 10 * process;
                ((process, address, tid), WordUse { process, address, tid, waits, wakes })
            };
            all.into_iter().map(use_of).collect::<BTreeMap<_, _>>().into_values().collect()
        })
    }

    proptest! {
        #[test]
        fn it_is_what_its_slow_twin_says(uses in some()) {
            let shared = handed_over(uses.clone(), 3.0);
            let slow = twin(&uses);
            for it in &shared {
                let handed = slow[&(it.a, it.b)];
                prop_assert!((it.per_second * 3.0 - handed).abs() < 1e-6, "{it:?} {handed}");
                prop_assert!(it.a < it.b && (it.seen as f64 - handed).abs() < 0.51);
            }
            prop_assert_eq!(shared.len(), slow.values().filter(|it| **it > 0.5 - 1e-6).count());
        }

        #[test]
        fn no_more_is_handed_over_than_was_waited_for_and_processes_stay_apart(uses in some()) {
            let shared = handed_over(uses.clone(), 1.0);
            let handed: f64 = shared.iter().map(|it| it.per_second).sum();
            prop_assert!(handed <= uses.iter().map(|it| it.waits).sum::<u64>() as f64 + 1e-6);
            prop_assert!(shared.iter().all(|it| it.a / 10 == it.b / 10));
        }

        #[test]
        fn names_of_threads_and_the_order_of_counts_mean_nothing(uses in some(), turn in 0..25_usize) {
            let mut other: Vec<WordUse> =
                uses.iter().map(|it| WordUse { tid: 100 - it.tid, ..*it }).collect();
            let len = other.len().max(1);
            other.rotate_left(turn % len);
            let mut renamed: Vec<_> =
                seen(&other).into_iter().map(|(a, b, seen)| (100 - b, 100 - a, seen)).collect();
            renamed.sort_unstable();
            prop_assert_eq!(renamed, seen(&uses));
        }
    }
}
