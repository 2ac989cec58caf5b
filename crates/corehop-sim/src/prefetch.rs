// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetchers: the lines to fetch after an observed access. A prefetcher only proposes lines;
//! [`super::Hierarchy::prefetch`] brings the lines into the caches. Simulating a core without prefetchers costs
//! nothing.
//!
//! - *Stream*: one tracker per recently used page; after `confirm` accesses in one direction within the page, the
//!   prefetcher proposes the lines ahead in that direction.
//! - *Direction*: as *Stream*, but the accesses may be any distance apart, as long as the direction stays.
//! - *Stride*: as *Stream*, for accesses at equal distances other than one line.
//! - *Load stride*: as *Stride*, for all reads of one load instruction, on any page, hits included. Simulated jobs
//!   have no instructions, so a whole walk counts as one load. A core has one tracker, which every thread that
//!   arrives on the core trains anew. A step to another page neither confirms nor ends a stride, because
//!   consecutive pages can be anywhere in memory. (Intel's optimisation manual, of the prefetcher by instruction
//!   pointer: the next address of each load that has a regular stride of up to 2 KiB.)
//! - *Adjacent line*: the other half of an aligned pair.
//!
//! No prefetcher proposes lines of another page. If accesses visit many pages in random order, the few trackers are
//! replaced before their pages return, so nothing is prefetched.

use wide::u32x8;

use super::tags::{LineNumber, NO_LINE};
use corehop_plan::platform::{self, Platform, PrefetchKind};

/// The state of a tracker for a page.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Tracker {
    last: LineNumber,
    /// The distance in lines between the last two accesses to the page.
    step: i32,
    /// The number of consecutive accesses with this step.
    run: u32,
}

/// A prefetcher of one core.
#[derive(Debug, Clone)]
pub struct PrefetchEngine {
    kind: PrefetchKind,
    /// The cache level that the prefetcher fills and whose misses the prefetcher sees.
    level: u32,
    ahead: u32,
    confirm: u32,
    /// The binary logarithm of the number of lines per page.
    page: u32,
    /// The page of each tracker, in blocks of eight. The trackers form a ring in the order of their last uses,
    /// starting at `newest`.
    pages: Vec<[u32; 8]>,
    known: Vec<Tracker>,
    newest: usize,
}

/// Two prefetchers are equal if their trackers are equal in the order of last use; the position of the newest
/// tracker in the ring does not matter.
impl PartialEq for PrefetchEngine {
    fn eq(&self, other: &Self) -> bool {
        self.known.len() == other.known.len() && self.by_use().eq(other.by_use())
    }
}

/// The page number that marks a tracker without a page.
const NO_PAGE: u32 = u32::MAX;

/// The largest number of lines that one access can make a prefetcher propose.
const MOST_AHEAD: usize = 16;

impl PrefetchEngine {
    /// A prefetcher as a platform describes it, for pages of `page` bytes in lines of `line`. The defaults are 16
    /// trackers, 2 steps to confirm and 2 lines ahead.
    pub fn new(spec: &platform::Prefetcher, page: u64, line: u64) -> Self {
        let or =
            |fact: &Option<platform::Fact<u32>>, value| fact.as_ref().map_or(value, |f| f.value);
        let one = spec.kind == PrefetchKind::LoadStride;
        let trackers = if one { 1 } else { or(&spec.trackers, 16) as usize };
        let none = Tracker { last: NO_LINE, ..Tracker::default() };
        Self {
            kind: spec.kind,
            level: spec.level,
            ahead: or(&spec.ahead, 2).min(MOST_AHEAD as u32),
            confirm: or(&spec.confirm, 2),
            page: (page / line).max(1).ilog2(),
            pages: vec![[NO_PAGE; 8]; trackers.div_ceil(8)],
            known: vec![none; trackers],
            newest: 0,
        }
    }

    /// The trackers, the last used tracker first.
    fn by_use(&self) -> impl Iterator<Item = (u32, Tracker)> {
        let count = self.known.len();
        let places = (self.newest..count).chain(0..self.newest.min(count));
        places.map(|at| (self.pages.as_flattened()[at], self.known[at]))
    }

    /// The prefetchers of `platform` that are enabled.
    pub fn all_of(platform: &Platform, page: u64) -> Vec<Self> {
        let line = platform.line_size().get();
        let on = platform.prefetchers.iter().filter(|prefetcher| prefetcher.on.value);
        on.map(|prefetcher| Self::new(prefetcher, page, line)).collect()
    }

    /// The cache level that the prefetcher fills. The caller must report the accesses that missed all levels inside
    /// that level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Whether the caller must report every load, hits included, and no other access.
    #[inline(always)]
    pub fn sees_loads(&self) -> bool {
        self.kind == PrefetchKind::LoadStride
    }

    /// Reports an access to `line`, and calls `fetch` for each line to prefetch, nearest line first.
    #[inline(always)]
    pub fn access(&mut self, line: LineNumber, mut fetch: impl FnMut(LineNumber)) {
        if self.kind == PrefetchKind::AdjacentLine {
            fetch(line ^ 1);
            return;
        }
        let tracked = if self.sees_loads() { self.follow(line) } else { self.track(line) };
        let Some((step, run)) = tracked else { return };
        let follows = match self.kind {
            PrefetchKind::Stream => step.abs() == 1,
            _ => step != 0,
        };
        if !follows || run < self.confirm {
            return;
        }
        let step = if self.kind == PrefetchKind::Direction { step.signum() } else { step };
        for distance in 1..=self.ahead as i32 {
            let Some(next) = line.checked_add_signed(step.wrapping_mul(distance)) else { return };
            if next >> self.page != line >> self.page {
                return;
            }
            fetch(next);
        }
    }

    /// Returns the step from the last load to `line` and the number of times that the step repeated; None if `line`
    /// is the line of the last load.
    fn follow(&mut self, line: LineNumber) -> Option<(i32, u32)> {
        let page = self.page;
        let tracker = self.known.first_mut()?;
        let step = line.wrapping_sub(tracker.last) as i32;
        if step == 0 {
            return None;
        }
        if line >> page == tracker.last >> page {
            tracker.run = if step == tracker.step { tracker.run + 1 } else { 1 };
            tracker.step = step;
        }
        tracker.last = line;
        Some((tracker.step, tracker.run))
    }

    /// Returns the step to `line` within its page and the number of times that the step repeated; None for a new
    /// page.
    #[inline(always)]
    fn track(&mut self, line: LineNumber) -> Option<(i32, u32)> {
        let page = line >> self.page;
        if !is_among(&self.pages, page) {
            self.meet(page, line);
            return None;
        }
        let kind = self.kind;
        let tracker = self.use_again(page);
        let step = line.wrapping_sub(tracker.last) as i32;
        let same = match kind {
            PrefetchKind::Direction => step.signum() == tracker.step.signum(),
            _ => step == tracker.step,
        };
        tracker.run = if same && step != 0 { tracker.run + 1 } else { 1 };
        (tracker.step, tracker.last) = (step, line);
        Some((step, tracker.run))
    }

    /// Assigns `page` to the least recently used tracker.
    #[inline(always)]
    fn meet(&mut self, page: u32, line: LineNumber) {
        let count = self.known.len();
        if count > 0 {
            self.newest = if self.newest == 0 { count - 1 } else { self.newest - 1 };
            self.pages.as_flattened_mut()[self.newest] = page;
            self.known[self.newest] = Tracker { last: line, step: 0, run: 0 };
        }
    }

    /// Marks the tracker of `page`, which must exist, as the most recently used.
    fn use_again(&mut self, page: u32) -> &mut Tracker {
        let count = self.known.len();
        let pages = self.pages.as_flattened_mut();
        let mut at = pages.iter().position(|&other| other == page).unwrap_or(self.newest);
        let tracker = self.known[at];
        while at != self.newest {
            let newer = if at == 0 { count - 1 } else { at - 1 };
            (pages[at], self.known[at]) = (pages[newer], self.known[newer]);
            at = newer;
        }
        pages[at] = page;
        self.known[at] = tracker;
        &mut self.known[at]
    }
}

/// Whether `page` is one of `pages`.
#[inline(always)]
fn is_among(pages: &[[u32; 8]], page: u32) -> bool {
    let mut found = u32x8::splat(0);
    for &eight in pages {
        found |= u32x8::new(eight).simd_eq(u32x8::splat(page));
    }
    found.to_array() != [0; 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::Fact;

    fn prefetcher(kind: PrefetchKind, trackers: u32) -> PrefetchEngine {
        let spec = platform::Prefetcher {
            kind,
            level: 2,
            on: Fact::assumed(true, ""),
            trackers: Some(Fact::assumed(trackers, "")),
            ahead: Some(Fact::assumed(2, "")),
            confirm: Some(Fact::assumed(2, "")),
        };
        PrefetchEngine::new(&spec, 4096, 64)
    }

    fn fetched(prefetcher: &mut PrefetchEngine, lines: &[LineNumber]) -> Vec<Vec<LineNumber>> {
        let one = |&line: &LineNumber| {
            let mut all = Vec::new();
            prefetcher.access(line, |line| all.push(line));
            all
        };
        lines.iter().map(one).collect()
    }

    #[test]
    fn a_stream_is_followed_after_two_steps_and_not_beyond_its_page() {
        let mut stream = prefetcher(PrefetchKind::Stream, 16);
        let none: Vec<LineNumber> = Vec::new();
        let up = fetched(&mut stream, &[8, 9, 10, 11]);
        assert_eq!(up, [none.clone(), none.clone(), vec![11, 12], vec![12, 13]]);
        // Down, and to the first line of the page.
        assert_eq!(fetched(&mut stream, &[3, 2, 1])[2], [0]);
        // Lines two apart are no stream, but a stride.
        assert_eq!(fetched(&mut stream, &[20, 22, 24, 26])[3], none);
        let mut stride = prefetcher(PrefetchKind::Stride, 16);
        assert_eq!(fetched(&mut stride, &[20, 22, 24, 26])[2], [26, 28]);
    }

    #[test]
    fn more_streams_than_trackers_are_forgotten() {
        let pages = |count: u32| -> Vec<LineNumber> {
            (0..6).flat_map(|at| (0..count).map(move |page| page * 64 + at)).collect()
        };
        let useful = |trackers: u32, count: u32| {
            let mut stream = prefetcher(PrefetchKind::Stream, trackers);
            fetched(&mut stream, &pages(count)).concat().len()
        };
        assert_eq!(useful(16, 16), 16 * 4 * 2);
        assert_eq!(useful(16, 17), 0);
        assert_eq!(useful(0, 1), 0);
    }

    /// Returns the proposals of `load_stride` after the last of `loads`, computed from all loads: two lines, after two
    /// equal steps.
    fn proposed_from_all(loads: &[LineNumber]) -> Vec<LineNumber> {
        let mut lines = loads.to_vec();
        lines.dedup();
        let last = loads[loads.len() - 1];
        if loads.len() > 1 && loads[loads.len() - 2] == last {
            return Vec::new();
        }
        let within = |pair: &&[LineNumber]| pair[0] / 64 == pair[1] / 64;
        let steps = lines.windows(2).filter(within);
        let steps: Vec<i64> = steps.map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
        let Some(&step) = steps.last().filter(|_| steps.ends_with(&[steps[steps.len() - 1]; 2]))
        else {
            return Vec::new();
        };
        let next = [1, 2].map(|times| i64::from(last) + times * step);
        let inside = |&&line: &&i64| line >= 0 && line / 64 == i64::from(last) / 64;
        next.iter().take_while(inside).map(|&line| line as LineNumber).collect()
    }

    /// Returns loads of a few pages, with strides that change, repeats, and jumps.
    fn loads(seed: u64) -> Vec<LineNumber> {
        let mut draw = crate::generator::CongruentialGenerator(seed);
        let (mut line, mut step, mut loads) = (draw.below(256), 1, Vec::new());
        for _ in 0..200 {
            match draw.below(8) {
                0 => line = draw.below(256),
                1 => step = draw.below(9) as i32 - 4,
                _ => line = line.wrapping_add_signed(step) & 255,
            }
            loads.push(line);
        }
        loads
    }

    /// The first seed of `loads` on which the prefetcher and its twin differ.
    fn differs_from_its_twin() -> Option<u64> {
        (0..300).find(|&seed| {
            let mut stride = prefetcher(PrefetchKind::LoadStride, 0);
            let loads = loads(seed);
            let proposed = fetched(&mut stride, &loads);
            (0..loads.len()).any(|at| proposed[at] != proposed_from_all(&loads[..=at]))
        })
    }

    #[test]
    fn a_load_with_a_stride_is_followed_over_pages_as_its_slow_twin_does() {
        let mut load = prefetcher(PrefetchKind::LoadStride, 0);
        let none: Vec<LineNumber> = Vec::new();
        // The third of equal steps of 20 lines, and then the first line of a page elsewhere.
        let proposed = fetched(&mut load, &[1, 21, 41, 61, 640, 660]);
        assert_eq!(proposed[2..], [vec![61], none.clone(), vec![660, 680], vec![680, 700]]);
        assert_eq!(fetched(&mut load, &[660, 663]), [none.clone(), none]);
        assert_eq!(differs_from_its_twin(), None);
    }

    #[test]
    fn the_adjacent_line_is_the_other_half_of_the_pair() {
        let mut adjacent = prefetcher(PrefetchKind::AdjacentLine, 0);
        assert_eq!(fetched(&mut adjacent, &[6, 7]), [[7], [6]]);
    }
}
