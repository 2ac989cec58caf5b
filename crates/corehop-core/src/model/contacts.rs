// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph of threads that wake each other: rates that decay with time, and how sure they are.

use serde::Serialize;

use crate::host::{Activity, Contact};

/// Two threads that wake each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tie {
    /// The thread with the lower number.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// Wake-ups per second, both ways together, with less weight for what is longer ago.
    pub per_second: f64,
    /// The lower end of its 95 % interval, with wake-ups as independent events (square-root transform of a Poisson
    /// count).
    pub at_least: f64,
}

/// Two threads, the one with the lower number first.
type Pair = (u32, u32);

/// Wake-ups between pairs of threads, fading.
#[derive(Debug, Clone, PartialEq)]
pub struct ContactGraph {
    half_life_s: f64,
    /// Faded counts, by pair, ascending.
    counts: Vec<(Pair, f64)>,
    /// The faded time that they were counted in.
    seconds: f64,
}

/// Faded counts below this are forgotten.
const FORGOTTEN: f64 = 0.01;

impl ContactGraph {
    /// A graph without ties; what was seen `half_life_s` seconds ago counts half.
    pub fn new(half_life_s: f64) -> Self {
        Self { half_life_s, counts: Vec::new(), seconds: 0.0 }
    }

    /// Takes a window. Threads that are not in it have ended, and their ties with them.
    pub fn take(&mut self, activity: &Activity) {
        let span = activity.span_ns as f64 * 1e-9;
        let fade = (-std::f64::consts::LN_2 * span / self.half_life_s).exp();
        let alive = Tids::of(activity);
        self.counts.retain_mut(|((a, b), count)| {
            *count *= fade;
            *count >= FORGOTTEN && alive.has(*a) && alive.has(*b)
        });
        self.seconds = self.seconds * fade + span;
        let contacts = activity.contacts.iter();
        let counted = contacts.map(|it| (pair(it), it.count as f64));
        self.counts.extend(counted.filter(|((a, b), _)| a != b && alive.has(*a) && alive.has(*b)));
        // Two sorted runs, or nearly so: the stable sort merges them in linear time.
        self.counts.sort_by_key(|&(pair, _)| pair);
        self.counts.dedup_by(|(later, count), (pair, sum)| {
            let same = later == pair;
            if same {
                *sum += *count;
            }
            same
        });
    }

    /// The ties, by pair.
    pub fn ties(&self) -> Vec<Tie> {
        let rate = |count: f64| count / self.seconds;
        let tie = |&((a, b), count): &(Pair, f64)| {
            // The square root of a Poisson count has a standard deviation of one half.
            let low = (count.sqrt() - 0.98).max(0.0).powi(2);
            Tie { a, b, per_second: rate(count), at_least: rate(low) }
        };
        self.counts.iter().map(tie).collect()
    }
}

fn pair(it: &Contact) -> Pair {
    (it.waker.min(it.woken), it.waker.max(it.woken))
}

/// Threads as bits. The kernel's numbers end at 2^22, so that this is half a mebibyte at most.
struct Tids(Vec<u64>);

impl Tids {
    fn of(activity: &Activity) -> Self {
        let most = activity.threads.iter().map(|it| it.tid).max().unwrap_or(0);
        let mut bits = vec![0; most as usize / 64 + 1];
        for it in &activity.threads {
            bits[it.tid as usize / 64] |= 1 << (it.tid % 64);
        }
        Self(bits)
    }

    fn has(&self, tid: u32) -> bool {
        self.0.get(tid as usize / 64).is_some_and(|bits| bits >> (tid % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Active;

    fn activity(threads: &[u32], contacts: &[(u32, u32, u64)]) -> Activity {
        let active = |&tid: &u32| Active { tid, pid: 1, ..Active::default() };
        let contact = |&(waker, woken, count): &(u32, u32, u64)| Contact { waker, woken, count };
        Activity {
            span_ns: 1_000_000_000,
            threads: threads.iter().map(active).collect(),
            contacts: contacts.iter().map(contact).collect(),
            ..Activity::default()
        }
    }

    #[test]
    fn both_directions_are_one_tie_and_its_rate_is_that_of_the_windows() {
        let mut graph = ContactGraph::new(10.0);
        for _ in 0..5 {
            graph.take(&activity(&[1, 2, 3], &[(1, 2, 60), (2, 1, 40), (3, 3, 9)]));
        }
        let [tie] = graph.ties().try_into().unwrap();
        assert_eq!((tie.a, tie.b), (1, 2));
        assert!((tie.per_second - 100.0).abs() < 1e-9, "{tie:?}");
        assert!((85.0..100.0).contains(&tie.at_least), "{tie:?}");
    }

    #[test]
    fn a_tie_fades_by_half_in_its_half_life_and_goes_with_its_thread() {
        let mut graph = ContactGraph::new(2.0);
        let busy = activity(&[1, 2], &[(1, 2, 1000)]);
        (0..20).for_each(|_| graph.take(&busy));
        let before = graph.ties()[0].per_second;
        let idle = activity(&[1, 2], &[]);
        (0..2).for_each(|_| graph.take(&idle));
        let share = graph.ties()[0].per_second / before;
        assert!((share - 0.5).abs() < 0.01, "{share}");
        (0..60).for_each(|_| graph.take(&idle));
        assert!(graph.ties().is_empty());
        (0..2).for_each(|_| graph.take(&busy));
        graph.take(&activity(&[1], &[]));
        assert!(graph.ties().is_empty());
    }

    #[test]
    fn one_wake_up_says_nothing_for_sure() {
        let mut graph = ContactGraph::new(2.0);
        graph.take(&activity(&[1, 2], &[(1, 2, 1)]));
        assert!(graph.ties()[0].at_least < 0.001);
    }
}
