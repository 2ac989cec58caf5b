// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page sampling of gangs: finds the threads that write to the same page one after the other.
//!
//! In every window some pages of each gang are write-protected. The first write to such a page faults and reveals
//! its thread; the page then stays writable until it is protected again. A page therefore shows a few writes of a
//! window, and no reads.

use std::collections::BTreeMap;

use crate::tags::LineNumber;
use crate::times::Picos;
use corehop_plan::experiment::DrawStream;
use corehop_plan::host::{DataSharing, Evidence};

/// The number of pages of a gang that are sampled in a window.
const PAGES: usize = 4;
/// The number of faults per window for each thread of a gang: 100 faults per second, in a window of 100 ms.
const FAULTS: usize = 10;

/// A sampled page.
#[derive(Debug, Clone)]
struct ProtectedPage {
    page: LineNumber,
    /// The time from which the page is protected.
    protected: Picos,
    /// The last thread seen writing to the page.
    last: Option<usize>,
}

/// The sampled pages of one gang.
#[derive(Debug, Clone, Default)]
struct OfGang {
    pages: Vec<ProtectedPage>,
    /// The mean time after which a page is protected again.
    every: Picos,
}

/// The sampled pages of all gangs in a window.
#[derive(Debug, Clone)]
pub(super) struct GangPageSampler {
    lines_of_page: LineNumber,
    draw: DrawStream,
    gangs: Vec<OfGang>,
    /// The number of times that two threads of a pair wrote to the same page one after the other; the lower thread
    /// number is first.
    seen: BTreeMap<(usize, usize), u64>,
}

impl GangPageSampler {
    /// Creates a sampler without pages, for pages of `lines_of_page` lines.
    pub(super) const fn new(lines_of_page: LineNumber, draw: DrawStream) -> Self {
        Self { lines_of_page, draw, gangs: Vec::new(), seen: BTreeMap::new() }
    }

    /// Chooses sampled pages of the next gang for a window that begins now.
    pub(super) fn sample(
        &mut self,
        all: &[LineNumber],
        threads: usize,
        (now, span): (Picos, Picos),
    ) {
        let draw = &mut self.draw;
        let mut pages = all.to_vec();
        if all.len() > PAGES {
            // A page that is drawn twice is one.
            pages = (0..PAGES).map(|_| *draw.from(all)).collect();
            pages.sort_unstable();
            pages.dedup();
        }
        let faults = (FAULTS * threads / pages.len().max(1)).max(1);
        let every = (span / faults as u64).max(1);
        let page = |page| ProtectedPage { page, protected: now + draw.below(every), last: None };
        self.gangs.push(OfGang { pages: pages.into_iter().map(page).collect(), every });
    }

    /// Records that a thread of a gang writes to a line.
    #[inline]
    pub(super) fn write(&mut self, (gang, thread): (usize, usize), line: LineNumber, now: Picos) {
        let page = line / self.lines_of_page;
        let Some(of_gang) = self.gangs.get_mut(gang) else { return };
        let protected = |it: &&mut ProtectedPage| it.page == page && it.protected <= now;
        let Some(sampled) = of_gang.pages.iter_mut().find(protected) else { return };
        let before = sampled.last.replace(thread);
        // At regular times it might always be the same of two threads that take turns.
        sampled.protected = now + of_gang.every / 2 + self.draw.below(of_gang.every);
        if let Some(before) = before.filter(|&it| it != thread) {
            *self.seen.entry((before.min(thread), before.max(thread))).or_default() += 1;
        }
    }

    /// The sharing pairs seen in a window of length `span`. Other threads may have written to a page between two
    /// faults, so each rate is a lower bound.
    pub(super) fn seen(&self, span: Picos, tid: impl Fn(usize) -> u32) -> Vec<DataSharing> {
        let shared = |(&(a, b), &seen): (&(usize, usize), &u64)| DataSharing {
            a: tid(a),
            b: tid(b),
            by: Evidence::Pages,
            seen,
            per_second: seen as f64 * 1e12 / span.max(1) as f64,
        };
        self.seen.iter().map(shared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sampler for one gang of two threads with one page, which is protected again after 25 to 75 (mean 50) of
    /// 1,000 time units.
    fn sampler() -> GangPageSampler {
        let mut sampler = GangPageSampler::new(64, DrawStream::new(1, 1));
        sampler.sample(&[2], 2, (0, 1_000));
        assert_eq!((sampler.gangs[0].pages.len(), sampler.gangs[0].every), (1, 50));
        sampler.gangs[0].pages[0].protected = 20;
        sampler
    }

    #[test]
    fn only_the_first_write_after_each_protection_is_seen() {
        let mut sampler = sampler();
        // Before it is protected; the fault; three on the open page; and two faults, of which one is handed over.
        for (thread, now) in [(1, 10), (0, 25), (1, 30), (0, 31), (1, 49), (1, 100), (1, 200)] {
            sampler.write((0, thread), 129, now);
        }
        let shared = sampler.seen(1_000, |at| at as u32 + 1);
        assert_eq!(shared.len(), 1);
        assert_eq!((shared[0].a, shared[0].b, shared[0].seen), (1, 2, 1));
        assert!((225..275).contains(&sampler.gangs[0].pages[0].protected));
        // One in a nanosecond.
        assert!((shared[0].per_second / 1e9 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn other_pages_and_other_gangs_tell_nothing() {
        let mut sampler = sampler();
        for now in 0..200 {
            sampler.write((0, now as usize % 2), 127, now);
            sampler.write((1, now as usize % 2), 129, now);
        }
        assert_eq!(sampler.seen(1_000, |at| at as u32), []);
    }

    #[test]
    fn of_many_pages_four_are_sampled_at_random() {
        let all: Vec<LineNumber> = (0..1_000_000).collect();
        let pages = |seed| {
            let mut sampler = GangPageSampler::new(64, DrawStream::new(seed, 1));
            sampler.sample(&all, 8, (0, 1_000_000));
            // Twenty faults for each of four pages: ten for each of eight threads.
            assert_eq!(sampler.gangs[0].every, 50_000);
            sampler.gangs[0].pages.iter().map(|it| it.page).collect::<Vec<_>>()
        };
        assert_eq!(pages(1).len(), 4);
        assert_ne!(pages(1), pages(2));
        assert_eq!(pages(1), pages(1));
    }
}
