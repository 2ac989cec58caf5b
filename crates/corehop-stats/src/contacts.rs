// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph of threads that belong together, combined from all sources of evidence: rates that decay with time, and
//! their certainty.
//!
//! Wake-ups are counted only in some windows, but completely within a window. Sources other than wake-ups sample or
//! look periodically, so the time of a source is the time of the windows in which it reported something.

use std::collections::BTreeMap;

use serde::Serialize;

use corehop_plan::host::{Activity, Contact, DataSharing, Evidence};

/// A tie between two threads that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tie {
    /// The thread with the lower number.
    pub a: u32,
    /// The thread with the higher number.
    pub b: u32,
    /// The wake-ups per second in both directions together; older wake-ups have less weight.
    pub per_second: f64,
    /// The lower end of the 95 % interval of the rate, with wake-ups as independent events (square-root transform of a
    /// Poisson count).
    pub at_least: f64,
    /// The lines per second that one thread takes over from the other without a wake-up: the largest of the lower ends
    /// of all sources that see such hand-overs.
    pub lines_at_least: f64,
    /// The certainty that the threads belong together, from 0 to 1: each source errs with the share of its rate above
    /// the lower end, independently of the other sources.
    pub confidence: f64,
}

/// A pair of threads; the thread with the lower number is first.
type ContactPair = (u32, u32);

/// A number of events, reduced by decay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Faded {
    seen: f64,
    /// The number of events that follows from the source's rate, including events that the source did not see.
    all: f64,
}

/// The evidence from a source that sees only some of the events.
#[derive(Debug, Clone, PartialEq, Default)]
struct ContactEvidence {
    pairs: BTreeMap<ContactPair, Faded>,
    /// The decayed time in which the source reported something.
    seconds: f64,
}

/// The contacts between pairs of threads, which decay with time.
#[derive(Debug, Clone, PartialEq)]
pub struct ContactGraph {
    half_life_s: f64,
    /// The decayed counts of wake-ups, by pair in ascending order.
    counts: Vec<(ContactPair, f64)>,
    /// The decayed time in which wake-ups were counted.
    seconds: f64,
    others: BTreeMap<Evidence, ContactEvidence>,
}

/// The decayed count below which a pair is dropped.
const FORGOTTEN: f64 = 0.01;

impl ContactGraph {
    /// Makes a graph without ties; an event has half of its weight after `half_life_s` seconds.
    pub fn new(half_life_s: f64) -> Self {
        let others = BTreeMap::new();
        Self { half_life_s, counts: Vec::new(), seconds: 0.0, others }
    }

    /// Adds a window of activity to the graph. A thread that is missing from the window has ended, so its ties are
    /// dropped.
    pub fn take(&mut self, activity: &Activity) {
        let span = activity.span_ns as f64 * 1e-9;
        let fade = (-std::f64::consts::LN_2 * span / self.half_life_s).exp();
        let alive = Tids::of(activity);
        self.take_wakes(activity, fade, &alive);
        self.seconds = self.seconds * fade + activity.counted_ns() as f64 * 1e-9;
        for it in self.others.values_mut() {
            it.fade(fade, &alive);
        }
        let said: Vec<Evidence> = activity.shared.iter().map(|it| it.by).collect();
        for by in Evidence::ALL.iter().filter(|by| said.contains(by)) {
            let of = activity.shared.iter().filter(|it| it.by == *by);
            self.others.entry(*by).or_default().take(of, span, &alive);
        }
    }

    fn take_wakes(&mut self, activity: &Activity, fade: f64, alive: &Tids) {
        self.counts.retain_mut(|((a, b), count)| {
            *count *= fade;
            *count >= FORGOTTEN && alive.has(*a) && alive.has(*b)
        });
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

    /// Returns the ties between threads, ordered by pair.
    pub fn ties(&self) -> Vec<Tie> {
        let tie = |&((a, b), count): &(ContactPair, f64)| {
            let (per_second, at_least) = (count / self.seconds, low(count) / self.seconds);
            Tie { a, b, per_second, at_least, lines_at_least: 0.0, confidence: low(count) / count }
        };
        let mut ties: Vec<Tie> = self.counts.iter().map(tie).collect();
        for source in self.others.values() {
            ties.extend(source.ties());
        }
        if !self.others.is_empty() {
            ties.sort_by_key(|it| (it.a, it.b));
            ties.dedup_by(|later, tie| {
                let same = (later.a, later.b) == (tie.a, tie.b);
                if same {
                    tie.fuse(later);
                }
                same
            });
        }
        ties
    }
}

impl ContactEvidence {
    fn fade(&mut self, fade: f64, alive: &Tids) {
        self.seconds *= fade;
        self.pairs.retain(|(a, b), it| {
            it.seen *= fade;
            it.all *= fade;
            it.seen >= FORGOTTEN && alive.has(*a) && alive.has(*b)
        });
    }

    fn take<'a>(&mut self, of: impl Iterator<Item = &'a DataSharing>, span: f64, alive: &Tids) {
        self.seconds += span;
        let both =
            |it: &&DataSharing| it.a != it.b && it.seen > 0 && alive.has(it.a) && alive.has(it.b);
        for it in of.filter(both) {
            let faded = self.pairs.entry((it.a.min(it.b), it.a.max(it.b))).or_default();
            faded.seen += it.seen as f64;
            faded.all += it.per_second * span;
        }
    }

    fn ties(&self) -> impl Iterator<Item = Tie> {
        self.pairs.iter().map(|(&(a, b), it)| {
            // So much of what was seen is sure, and so much of what it stands for.
            let confidence = low(it.seen) / it.seen;
            let lines_at_least = confidence * it.all / self.seconds;
            Tie { a, b, per_second: 0.0, at_least: 0.0, lines_at_least, confidence }
        })
    }
}

impl Tie {
    /// Returns the rate of a tie: wake-ups, or hand-overs of data if these are more frequent.
    pub const fn rate(&self) -> f64 {
        self.per_second.max(self.lines_at_least)
    }

    /// Combines the tie with the evidence of another source for the same threads.
    fn fuse(&mut self, other: &Self) {
        self.per_second += other.per_second;
        self.at_least += other.at_least;
        // Two sources may see the same line.
        self.lines_at_least = self.lines_at_least.max(other.lines_at_least);
        self.confidence = 1.0 - (1.0 - self.confidence) * (1.0 - other.confidence);
    }
}

/// Returns the lower end of a Poisson count, whose square root has a standard deviation of one half.
fn low(count: f64) -> f64 {
    (count.sqrt() - 0.98).max(0.0).powi(2)
}

fn pair(it: &Contact) -> ContactPair {
    (it.waker.min(it.woken), it.waker.max(it.woken))
}

/// A set of threads, stored as bits. The kernel's thread numbers end at 2^22, so the set has at most half a mebibyte.
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
    use corehop_plan::host::ActiveThread;

    fn activity(threads: &[u32], contacts: &[(u32, u32, u64)]) -> Activity {
        let active = |&tid: &u32| ActiveThread { tid, pid: 1, ..ActiveThread::default() };
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
    fn a_window_in_which_nothing_was_counted_changes_no_rate() {
        let mut graph = ContactGraph::new(2.0);
        (0..5).for_each(|_| graph.take(&activity(&[1, 2], &[(1, 2, 1000)])));
        let before = graph.ties()[0];
        for _ in 0..5 {
            graph.take(&Activity { counted_ns: Some(0), ..activity(&[1, 2], &[]) });
        }
        let after = graph.ties()[0];
        assert!((after.per_second - before.per_second).abs() < 1e-6, "{after:?}");
        // What is longer ago is less sure.
        assert!(after.at_least < before.at_least && after.at_least > 0.9 * before.at_least);
    }

    #[test]
    fn one_wake_up_says_nothing_for_sure() {
        let mut graph = ContactGraph::new(2.0);
        graph.take(&activity(&[1, 2], &[(1, 2, 1)]));
        assert!(graph.ties()[0].at_least < 0.001);
    }

    /// Returns a window in which a source saw threads at the same data.
    fn seen(by: Evidence, pairs: &[(u32, u32, u64, f64)]) -> Activity {
        let shared = |&(a, b, seen, per_second): &(u32, u32, u64, f64)| DataSharing {
            a,
            b,
            by,
            seen,
            per_second,
        };
        Activity {
            shared: pairs.iter().map(shared).collect(),
            ..activity(&[1, 2, 3, 4], &[(1, 2, 100)])
        }
    }

    #[test]
    fn sources_that_see_the_same_pair_make_it_surer_and_its_lines_are_not_added_up() {
        let (mut one, mut both) = (ContactGraph::new(10.0), ContactGraph::new(10.0));
        one.take(&seen(Evidence::Pages, &[(1, 2, 4, 50.0), (3, 4, 9, 20.0)]));
        let mut window = seen(Evidence::Pages, &[(1, 2, 4, 50.0), (3, 4, 9, 20.0)]);
        window.shared.extend(seen(Evidence::Locks, &[(1, 2, 16, 40.0)]).shared);
        both.take(&window);
        let of = |graph: &ContactGraph| graph.ties().into_iter().next().unwrap();
        let (less, more) = (of(&one), of(&both));
        assert_eq!((more.a, more.b), (1, 2));
        assert!(more.confidence > less.confidence && more.confidence < 1.0, "{less:?} {more:?}");
        assert!(more.lines_at_least >= less.lines_at_least && more.lines_at_least < 50.0);
        assert!((more.per_second - 100.0).abs() < 1e-9, "{more:?}");
        let other = both.ties()[1];
        assert!(other.a == 3 && other.per_second == 0.0 && other.lines_at_least < 20.0);
    }

    #[test]
    fn a_source_that_looks_now_and_then_has_the_rate_of_the_windows_in_which_it_looked() {
        let rate = |every: usize| {
            let mut graph = ContactGraph::new(1e9);
            for at in 0..40 {
                let looked = at % every == 0;
                let pairs = [(3, 4, 10_000, 10_000.0)];
                graph.take(&seen(Evidence::Locks, if looked { &pairs } else { &[] }));
            }
            graph.ties().last().unwrap().lines_at_least
        };
        assert!((rate(1) / rate(10) - 1.0).abs() < 0.02, "{} {}", rate(1), rate(10));
    }

    #[test]
    fn what_a_source_saw_fades_and_goes_with_its_thread() {
        let mut graph = ContactGraph::new(1.0);
        graph.take(&seen(Evidence::Pages, &[(3, 4, 100, 5.0)]));
        (0..3).for_each(|_| graph.take(&activity(&[1, 2, 3, 4], &[])));
        assert!(graph.ties().iter().any(|it| it.a == 3 && it.confidence < 0.8));
        (0..20).for_each(|_| graph.take(&activity(&[1, 2, 3, 4], &[])));
        assert!(graph.ties().is_empty());
        graph.take(&seen(Evidence::Pages, &[(3, 4, 100, 5.0)]));
        graph.take(&activity(&[1, 2, 3], &[]));
        assert!(!graph.ties().iter().any(|it| it.a == 3));
    }

    #[test]
    fn a_page_that_was_handed_over_once_makes_no_tie_that_counts() {
        let mut graph = ContactGraph::new(2.0);
        graph.take(&seen(Evidence::Pages, &[(3, 4, 1, 1_000.0)]));
        let tie = graph.ties().last().copied().unwrap();
        assert!(tie.confidence < 0.01 && tie.lines_at_least < 1.0, "{tie:?}");
    }
}
