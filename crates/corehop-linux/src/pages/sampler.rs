// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which pages are protected and when, without system calls and without a clock.
//!
//! Many pages are protected together, at random places: the pages that are written most show up first, and pages that
//! are never written cost nothing. A page that shows up twice is looked at a few more times. If only one thread
//! writes to the page, the sampler drops it. If several threads write to the page, the sampler looks at it
//! repeatedly, each time with a few looks immediately after a write. The fault budget limits all looks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use corehop_plan::workload::draw::DrawStream;

use super::budget::{FaultBudget, Purpose};
use super::page::{HandoverPair, PageHistory, Write};

/// The time from a write to an immediate look.
const QUICK_NS: u64 = 50_000;
/// The number of consecutive immediate looks.
const QUICK: u32 = 4;
/// The average time from a write to the next look at a page that several threads write.
const REST_NS: u64 = 8_000_000;
/// The time from a page's second write to a look at it. The pause before each further look is four times as long.
const FIRST_REST_NS: u64 = 3_000_000;
/// The time without a write after which a page is dropped.
const FORGET_NS: u64 = 5_000_000_000;
/// The largest number of known pages.
const MOST: usize = 4_096;

/// A page whose protection has caused a fault.
#[derive(Debug, Default)]
struct SampledPage {
    page: PageHistory,
    /// The thread whose budget pays for the current protection, and the purpose.
    paid: Option<(u32, Purpose)>,
    /// Whether the page was protected immediately after the last write.
    quick: bool,
    /// Whether the planned look at the page is immediate; `None` if no look is planned.
    planned: Option<bool>,
    /// The number of further immediate looks at the page.
    more: u32,
}

/// The sampler's decision about the protection after a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The protection stays for all pages.
    GoOn,
    /// There were too many faults: remove all protection for exploration.
    Stop,
}

/// The evidence that two threads hand pages over to each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairEvidence {
    pub(super) pair: HandoverPair,
    /// The number of hand-overs since the last report.
    pub(super) seen: u64,
    /// A lower bound on the rate of hand-overs, per second.
    pub(super) per_second: f64,
}

/// The known pages, and when to look at them.
#[derive(Debug)]
pub(super) struct PageSampler {
    draw: DrawStream,
    budget: FaultBudget,
    pages: HashMap<u64, SampledPage>,
    /// The planned times of the next looks, each with its page.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    faults: u64,
}

impl PageSampler {
    /// Creates a sampler that causes at most `faults_per_second` faults for each thread.
    pub(super) fn new(faults_per_second: u32, seed: u64, now_ns: u64) -> Self {
        Self {
            draw: DrawStream::new(seed, 0),
            budget: FaultBudget::new(faults_per_second, now_ns),
            pages: HashMap::new(),
            due: BinaryHeap::new(),
            faults: 0,
        }
    }

    /// Processes the fault of a thread at an address.
    pub(super) fn fault(&mut self, address: u64, tid: u32, now_ns: u64) -> After {
        self.faults += 1;
        let (number, line) = (address & !0xfff, (address >> 6 & 63) as u8);
        let full = self.pages.len() >= MOST;
        if full && !self.pages.contains_key(&number) {
            self.budget.charge(tid, Purpose::Explore, 1.0, now_ns);
            return self.after(tid, now_ns);
        }
        let known = self.pages.entry(number).or_default();
        let shared = known.page.is_shared();
        // Several threads may wait at a page that was protected once.
        let (quick, paid) = (known.quick, known.paid.take());
        known.page.take(Write { tid, line, at_ns: now_ns, quick });
        if let Some((payer, purpose)) = paid {
            self.budget.charge(payer, purpose, -1.0, now_ns);
        }
        let purpose = if shared { Purpose::Watch } else { Purpose::Explore };
        self.budget.charge(tid, purpose, 1.0, now_ns);
        self.plan(number, now_ns);
        self.after(tid, now_ns)
    }

    fn after(&self, tid: u32, now_ns: u64) -> After {
        if self.budget.allows(tid, Purpose::Explore, now_ns) { After::GoOn } else { After::Stop }
    }

    /// Plans the next look at a page that was written.
    fn plan(&mut self, number: u64, now_ns: u64) {
        let Some(known) = self.pages.get_mut(&number) else { return };
        if known.planned.is_some() {
            return;
        }
        if known.page.is_own() {
            // What it showed before is told in the next report.
            known.more = 0;
            return;
        }
        if known.page.in_a_row() == 1 && !known.page.is_shared() {
            // Shown once: if it is written much, it shows itself again.
            return;
        }
        let rest_ns = if known.page.is_shared() {
            if known.more > 0 {
                known.more -= 1;
                known.planned = Some(true);
                self.due.push(Reverse((now_ns + QUICK_NS, number)));
                return;
            }
            known.more = QUICK;
            REST_NS
        } else {
            FIRST_REST_NS << (2 * known.page.in_a_row().saturating_sub(2))
        };
        known.planned = Some(false);
        let rest_ns = rest_ns / 2 + self.draw.below(rest_ns);
        self.due.push(Reverse((now_ns + rest_ns, number)));
    }

    /// The time of the next planned look at a page.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The pages whose planned look is due, which the caller must protect now.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Vec<u64> {
        let mut pages = Vec::new();
        while let Some(&Reverse((at_ns, number))) = self.due.peek() {
            if at_ns > now_ns {
                break;
            }
            self.due.pop();
            let Some(known) = self.pages.get_mut(&number) else { continue };
            let Some(last) = known.page.last() else { continue };
            let purpose = if known.page.is_shared() { Purpose::Watch } else { Purpose::Explore };
            if self.budget.allows(last.tid, purpose, now_ns) {
                // The thread that wrote last is the likeliest to write next. A fault of another one is settled then.
                self.budget.charge(last.tid, purpose, 1.0, now_ns);
                known.paid = Some((last.tid, purpose));
                known.quick = known.planned.take().unwrap_or(false);
                pages.push(number);
            } else {
                known.planned = Some(false);
                let wait_ns = self.budget.wait_ns();
                self.due.push(Reverse((now_ns + wait_ns + self.draw.below(wait_ns), number)));
            }
        }
        pages
    }

    /// Whether more pages may be protected for exploration.
    pub(super) fn may_explore(&self, now_ns: u64) -> bool {
        self.budget.allows_each(Purpose::Explore, now_ns)
    }

    /// Whether a page has a planned look.
    pub(super) fn plans(&self, number: u64) -> bool {
        self.pages.get(&number).is_some_and(|it| it.planned.is_some() || it.paid.is_some())
    }

    /// A random number below `bound`, for choosing a place.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.draw.below(bound)
    }

    /// Drops a page that can no longer be protected.
    pub(super) fn forget(&mut self, number: u64) {
        self.pages.remove(&number);
    }

    /// The number of faults so far.
    pub(super) fn faults(&self) -> u64 {
        self.faults
    }

    /// The pairs of threads with new hand-overs since the last report. Pages that are private to one thread are
    /// dropped, and so are pages that are no longer written, because they may be unmapped.
    pub(super) fn report(&mut self, now_ns: u64) -> Vec<PairEvidence> {
        let mut pairs: BTreeMap<HandoverPair, (u64, f64)> = BTreeMap::new();
        for known in self.pages.values_mut() {
            for (pair, seen, per_second) in known.page.pairs() {
                let sum = pairs.entry(pair).or_default();
                *sum = (sum.0 + seen, sum.1 + per_second);
            }
        }
        let recent = |it: &Write| now_ns.saturating_sub(it.at_ns) < FORGET_NS;
        self.pages.retain(|_, it| !it.page.is_own() && it.page.last().as_ref().is_some_and(recent));
        self.budget.forget(now_ns);
        let new = pairs.into_iter().filter(|(_, (seen, _))| *seen > 0);
        new.map(|(pair, (seen, per_second))| PairEvidence { pair, seen, per_second }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PAGE: u64 = 4_096;
    const STEP_NS: u64 = 20_000;
    const SECOND: u64 = 1_000_000_000;
    const ROUND_NS: u64 = 20_000_000;

    /// Threads that always write to private pages, and sometimes to a page shared with their partner.
    struct World {
        sampler: PageSampler,
        draw: DrawStream,
        threads: u32,
        private: u64,
        /// One write in this many goes to the shared page.
        shared_one_of: u64,
        protected: HashSet<u64>,
        to_explore: HashSet<u64>,
        faults: BTreeMap<u32, u64>,
        seen: BTreeMap<HandoverPair, u64>,
    }

    impl World {
        fn new(threads: u32, private: u64, shared_one_of: u64) -> Self {
            Self {
                sampler: PageSampler::new(100, 7, 0),
                draw: DrawStream::new(3, 1),
                threads,
                private,
                shared_one_of,
                protected: HashSet::new(),
                to_explore: HashSet::new(),
                faults: BTreeMap::new(),
                seen: BTreeMap::new(),
            }
        }

        /// The page that a thread writes. Threads 1 and 2 share page 0, threads 3 and 4 page 1, and so on; private
        /// pages follow.
        fn page(&mut self, tid: u32) -> u64 {
            if self.shared_one_of > 0 && self.draw.below(self.shared_one_of) == 0 {
                return u64::from((tid - 1) / 2) * PAGE;
            }
            let first = u64::from(self.threads) + u64::from(tid - 1) * self.private;
            (first + self.draw.below(self.private)) * PAGE
        }

        fn step(&mut self, now_ns: u64) {
            for tid in 1..=self.threads {
                let page = self.page(tid);
                let found = self.protected.remove(&page) | self.to_explore.remove(&page);
                if !found {
                    continue;
                }
                *self.faults.entry(tid).or_default() += 1;
                let line = self.draw.below(64) << 6;
                if self.sampler.fault(page + line, tid, now_ns) == After::Stop {
                    self.to_explore.clear();
                }
            }
            self.protected.extend(self.sampler.take_due(now_ns));
        }

        /// Protects the pages of a few random places.
        fn explore(&mut self, now_ns: u64) {
            let all = u64::from(self.threads) * (self.private + 1);
            if self.sampler.may_explore(now_ns) {
                for _ in 0..16 {
                    let place = self.sampler.below(all) / 512 * 512;
                    let pages = (place..(place + 512).min(all)).map(|it| it * PAGE);
                    self.to_explore.extend(pages.filter(|it| !self.sampler.plans(*it)));
                }
            }
        }

        fn run(&mut self, seconds: u64) {
            for now_ns in (0..seconds * SECOND).step_by(STEP_NS as usize) {
                self.step(now_ns);
                if now_ns % ROUND_NS == 0 {
                    self.explore(now_ns);
                    for it in self.sampler.report(now_ns) {
                        *self.seen.entry(it.pair).or_default() += it.seen;
                    }
                }
            }
        }

        fn most_faults_per_second(&self, seconds: u64) -> f64 {
            self.faults.values().copied().max().unwrap_or(0) as f64 / seconds as f64
        }
    }

    #[test]
    fn one_shared_page_among_a_hundred_megabytes_of_private_ones_is_found() {
        let mut world = World::new(8, 3_200, 50);
        world.run(6);
        let pairs: Vec<HandoverPair> = world.seen.keys().copied().collect();
        assert_eq!(pairs, [(1, 2), (3, 4), (5, 6), (7, 8)], "{:?}", world.seen);
        assert!(world.seen.values().all(|seen| *seen >= 20), "{:?}", world.seen);
        let most = world.most_faults_per_second(6);
        assert!(most <= 105.0, "{most}");
    }

    #[test]
    fn threads_with_pages_of_their_own_have_no_ties_and_few_faults() {
        let mut world = World::new(4, 100, 0);
        world.run(3);
        assert_eq!(world.seen, BTreeMap::new());
        let most = world.most_faults_per_second(3);
        assert!((10.0..=105.0).contains(&most), "{most}");
    }

    #[test]
    fn a_budget_of_ten_faults_is_kept_too() {
        let mut world = World::new(4, 100, 10);
        world.sampler = PageSampler::new(10, 7, 0);
        world.run(5);
        let most = world.most_faults_per_second(5);
        assert!(most <= 12.0, "{most}");
    }

    #[test]
    fn pages_that_are_not_written_any_more_are_forgotten() {
        let mut sampler = PageSampler::new(100, 1, 0);
        sampler.fault(PAGE, 1, 0);
        assert!(!sampler.plans(PAGE), "shown once");
        sampler.fault(PAGE, 1, 1);
        sampler.report(SECOND);
        assert!(sampler.plans(PAGE));
        sampler.report(10 * SECOND);
        assert!(!sampler.plans(PAGE));
        assert!(sampler.take_due(10 * SECOND).is_empty());
    }
}
