// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph of threads that wake each other: rates that decay with time, and how sure they are.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::host::Activity;

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

/// Wake-ups between pairs of threads, fading.
#[derive(Debug, Clone, PartialEq)]
pub struct ContactGraph {
    half_life_s: f64,
    /// Faded counts, by pair with the lower number first.
    counts: BTreeMap<(u32, u32), f64>,
    /// The faded time that they were counted in.
    seconds: f64,
}

/// Faded counts below this are forgotten.
const FORGOTTEN: f64 = 0.01;

impl ContactGraph {
    /// A graph without ties; what was seen `half_life_s` seconds ago counts half.
    pub fn new(half_life_s: f64) -> Self {
        Self { half_life_s, counts: BTreeMap::new(), seconds: 0.0 }
    }

    /// Takes a window. Threads that are not in it have ended, and their ties with them.
    pub fn take(&mut self, activity: &Activity) {
        let span = activity.span_ns as f64 * 1e-9;
        let fade = (-std::f64::consts::LN_2 * span / self.half_life_s).exp();
        let alive: BTreeSet<u32> = activity.threads.iter().map(|it| it.tid).collect();
        self.counts.retain(|(a, b), count| {
            *count *= fade;
            *count >= FORGOTTEN && alive.contains(a) && alive.contains(b)
        });
        self.seconds = self.seconds * fade + span;
        for it in &activity.contacts {
            let pair = (it.waker.min(it.woken), it.waker.max(it.woken));
            if pair.0 != pair.1 && alive.contains(&pair.0) && alive.contains(&pair.1) {
                *self.counts.entry(pair).or_default() += it.count as f64;
            }
        }
    }

    /// The ties, by pair.
    pub fn ties(&self) -> Vec<Tie> {
        let rate = |count: f64| count / self.seconds;
        let tie = |(&(a, b), &count): (&(u32, u32), &f64)| {
            // The square root of a Poisson count has a standard deviation of one half.
            let low = (count.sqrt() - 0.98).max(0.0).powi(2);
            Tie { a, b, per_second: rate(count), at_least: rate(low) }
        };
        self.counts.iter().map(tie).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Active, Contact};
    use crate::units::CpuList;

    fn activity(threads: &[u32], contacts: &[(u32, u32, u64)]) -> Activity {
        let active = |&tid: &u32| Active {
            tid,
            pid: 1,
            name: String::new(),
            busy_ns: 0,
            allowed: CpuList::default(),
        };
        let contact = |&(waker, woken, count): &(u32, u32, u64)| Contact { waker, woken, count };
        Activity {
            span_ns: 1_000_000_000,
            threads: threads.iter().map(active).collect(),
            contacts: contacts.iter().map(contact).collect(),
            progress: None,
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
