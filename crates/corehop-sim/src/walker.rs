// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a job, a preemptor or a polluter visits the lines of its memory.

use std::sync::Arc;

use corehop_plan::experiment::{DrawStream, MovingWindow};
use corehop_plan::units::Bytes;
use corehop_plan::workload::trace::{self, LINES_OF_PAGE, Trace, TraceError};
use corehop_plan::workload::{LINE, MovingProgram, Page, Pattern, Polluter, WorkingSet, fraction};

use super::generator::CongruentialGenerator;
use super::tags::{LineNumber, expect};

/// The words of a line that a scan visits one by one.
const WORDS: u32 = (LINE / 8) as u32;

/// One visit to a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visit {
    /// The line.
    pub line: LineNumber,
    /// Whether the first access of the visit reads the line.
    pub reads: bool,
    /// Whether any access of the visit writes the line.
    pub writes: bool,
    /// Whether the visit fetches the line as instructions.
    pub fetches: bool,
    /// The number of word accesses in the visit.
    pub words: u32,
    /// The page of the line, in the walker's virtual memory.
    pub page: u32,
}

/// The parameters that all visits of a walk share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkParameters {
    /// The number of accesses in flight at once, in thousandths; None: as many as the core manages.
    pub parallelism: Option<u64>,
    /// Whether the pages are huge.
    pub huge: bool,
    /// Whether the walk visits all lines of a page before the next page.
    pub by_page: bool,
    /// The extra time that the walk spends on each line, in picoseconds, in addition to the access.
    pub pause: u64,
    /// For walks that visit random pages and so miss some pages: the number of pages, in thousandths, that the
    /// first visit to one page represents.
    pub any_page: Option<u64>,
}

impl WalkParameters {
    /// Accesses to lines of small pages in any order, without pauses.
    pub(super) const LINES: Self =
        Self { parallelism: None, huge: false, by_page: false, pause: 0, any_page: None };
}

/// A walk over memory that restarts at the beginning after its last line.
#[derive(Debug, Clone)]
pub struct Walker {
    /// The lines in the order of their visits.
    order: Arc<[LineNumber]>,
    /// The distinct lines, if the walk visits some lines more than once.
    memory: Option<Arc<[LineNumber]>>,
    /// The page of each entry of `order`.
    pages: Arc<[u32]>,
    /// The source of random pages, used if each page has only a few of the simulated lines.
    any_page: Option<AnyPage>,
    manner: WalkParameters,
    at: usize,
    order_of_visits: VisitOrder,
    /// The share of words (scan) or lines (others) that are written, as a fraction of 2^64.
    share: u64,
    accumulator: u64,
}

/// The smallest number of simulated lines per page for which a shuffled walk keeps the real order of pages. With
/// fewer lines, a shuffled walk returns to each page at nearly regular intervals, unlike a walk over all lines of
/// the pages; a TLB that holds most of the pages would then always lack the next page.
const FEW_OF_PAGE: u32 = 4;
/// The ratio of pages in a working set to pages that a walk over random pages visits, by the number of lines per
/// page, in thousandths: 1/(1 − e^−lines).
const PAGES_FOR_ONE_VISITED: [u64; FEW_OF_PAGE as usize] = [1_000, 1_582, 1_157, 1_052];

/// A source of random pages of a working set.
#[derive(Debug, Clone, Copy)]
struct AnyPage {
    first: u32,
    count: u32,
    generator: CongruentialGenerator,
}

impl AnyPage {
    #[inline]
    fn next(&mut self) -> u32 {
        self.first + self.generator.below(self.count)
    }
}

/// The order of lines in a walk, and the accesses of each visit.
#[derive(Debug, Clone)]
enum VisitOrder {
    /// Visits the lines in order; reads each line and writes some.
    List,
    /// Visits the lines in order, word by word.
    Scan,
    /// Visits the lines in order and executes the lines.
    Code,
    /// Visits the lines in order with locked instructions, which wait for the line.
    Locks,
    /// Visits the lines in the order of a recorded trace.
    Trace(Arc<[trace::TraceVisit]>),
    /// Visits random lines of a moving window; reads or writes each line.
    Changing {
        window: MovingWindow,
        /// The index of the line of the visit after the next, known early so that the host can prefetch the entry.
        then: usize,
    },
}

impl Walker {
    /// The walk that a job with this working set makes over `lines`, with `of_page` lines in each page.
    pub fn of_set(
        set: &WorkingSet,
        lines: Vec<LineNumber>,
        of_page: u32,
        draw: &mut DrawStream,
    ) -> Self {
        let share =
            if set.pattern == Pattern::Scan { set.write_ratio } else { set.written_lines() };
        let mut walker = Self::new(set.pattern, share, lines, (set.page, of_page), draw);
        walker.manner.parallelism = match set.pattern {
            Pattern::Scan => None,
            _ => Some(u64::from(set.chains) * 1_000),
        };
        walker
    }

    /// The walk that this polluter makes over `lines`, with `of_page` lines in each page.
    pub fn of_polluter(
        polluter: &Polluter,
        lines: Vec<LineNumber>,
        of_page: u32,
        draw: &mut DrawStream,
    ) -> Self {
        let wss = Bytes::new(lines.len() as u64 * LINE);
        let set =
            WorkingSet { pattern: polluter.pattern, ..WorkingSet::list(wss, polluter.write_ratio) };
        Self::of_set(&set, lines, of_page, draw)
    }

    /// The walk of a program whose working set moves through `lines`; `pages` states the kind of page and the
    /// number of lines in each.
    pub fn of_changing(
        changing: &MovingProgram,
        lines: Vec<LineNumber>,
        pages: (Page, u32),
        draw: &mut DrawStream,
    ) -> Self {
        let share = changing.write_ratio;
        let mut walker = Self::new(Pattern::Shuffled, share, lines, pages, draw);
        walker.manner.parallelism = Some(1_000);
        walker.manner.pause = changing.pause.get() * 1_000;
        let draw = DrawStream::new(draw.bits(), 0);
        let mut window = MovingWindow::new(changing, walker.visits() as u64, draw);
        walker.order_of_visits = VisitOrder::Changing { then: window.next_line() as usize, window };
        walker
    }

    /// The walk of a recorded trace through `lines`, which are the lines of `pages`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of the trace was damaged.
    pub fn of_trace(
        trace: &Trace,
        pages: &TracePages,
        lines: &[LineNumber],
        page: Page,
    ) -> Result<Self, TraceError> {
        let visits = trace.visits()?;
        let places: Vec<usize> = visits.iter().map(|visit| pages.place(visit.line)).collect();
        let mut touched = places.clone();
        touched.sort_unstable();
        touched.dedup();
        let of_page = pages.of_page as usize;
        Ok(Self {
            order: places.iter().map(|&place| lines[place]).collect(),
            any_page: None,
            memory: Some(touched.into_iter().map(|place| lines[place]).collect()),
            pages: places.iter().map(|&place| (place / of_page) as u32).collect(),
            manner: WalkParameters {
                parallelism: None,
                huge: page != Page::Base,
                by_page: false,
                pause: 0,
                any_page: None,
            },
            at: 0,
            order_of_visits: VisitOrder::Trace(visits.into()),
            share: 0,
            accumulator: 0,
        })
    }

    /// A walk over `lines` by locked instructions.
    pub fn of_locks(lines: Vec<LineNumber>, of_page: u32) -> Self {
        let unused = &mut DrawStream::new(0, 0);
        let mut walker = Self::new(Pattern::Scan, 1.0, lines, (Page::Base, of_page), unused);
        walker.manner.parallelism = Some(1_000);
        walker.order_of_visits = VisitOrder::Locks;
        walker
    }

    fn new(
        pattern: Pattern,
        share: f64,
        lines: Vec<LineNumber>,
        (page, of_page): (Page, u32),
        draw: &mut DrawStream,
    ) -> Self {
        // Pages follow each other as their user sees them; the first frame tells sets apart.
        let first = lines.first().map_or(0, |line| line / of_page);
        let mut visits: Vec<(LineNumber, u32)> = lines
            .into_iter()
            .enumerate()
            .map(|(at, line)| (line, first + at as u32 / of_page))
            .collect();
        if pattern != Pattern::Scan {
            draw.shuffle(&mut visits);
        }
        let share = fraction(share);
        let few = pattern == Pattern::Shuffled && of_page < FEW_OF_PAGE && !visits.is_empty();
        let any_page = few.then(|| AnyPage {
            first,
            count: (visits.len() as u32).div_ceil(of_page),
            generator: CongruentialGenerator(draw.below(1 << 32)),
        });
        Self {
            memory: None,
            any_page,
            order: visits.iter().map(|&(line, _)| line).collect(),
            pages: visits.iter().map(|&(_, page)| page).collect(),
            manner: WalkParameters {
                parallelism: None,
                huge: page != Page::Base,
                by_page: pattern == Pattern::Scan,
                pause: 0,
                any_page: few.then(|| PAGES_FOR_ONE_VISITED[of_page as usize]),
            },
            at: 0,
            order_of_visits: match pattern {
                Pattern::Shuffled => VisitOrder::List,
                Pattern::Scan => VisitOrder::Scan,
                Pattern::Code => VisitOrder::Code,
            },
            share,
            accumulator: beginning(share),
        }
    }

    /// Returns this walk with an extra `pause` in picoseconds at each line.
    #[must_use]
    pub fn pausing(mut self, pause: u64) -> Self {
        self.manner.pause = pause;
        self
    }

    /// The number of visits before the walk restarts: the number of its lines or, for a trace, of its recorded
    /// visits.
    pub fn visits(&self) -> usize {
        self.order.len()
    }

    /// The parameters that all visits of the walk share.
    #[inline(always)]
    pub fn manner(&self) -> WalkParameters {
        self.manner
    }

    /// The distinct lines of the walk.
    pub fn memory(&self) -> &[LineNumber] {
        self.memory.as_deref().unwrap_or(&self.order)
    }

    /// Restarts the walk, so that every pass writes the same lines.
    pub fn restart(&mut self) {
        self.at = 0;
        self.accumulator = beginning(self.share);
    }

    /// Moves the walk to a random position, so that polluters do not run in step.
    pub fn start_anywhere(&mut self, draw: &mut DrawStream) {
        self.at = draw.below(self.order.len() as u64) as usize;
    }

    /// Whether the next visit is the first of a walk; false for random pages, because such a walk has no first
    /// visit.
    #[inline]
    pub(super) fn is_at_start(&self) -> bool {
        self.at == 0 && !matches!(self.order_of_visits, VisitOrder::Changing { .. })
    }

    /// Whether every walk from its beginning visits the same lines, pages and words in the same order.
    pub(super) fn repeats(&self) -> bool {
        self.any_page.is_none() && !matches!(self.order_of_visits, VisitOrder::Changing { .. })
    }

    /// The line of the next visit.
    #[inline]
    pub fn coming(&self) -> LineNumber {
        self.order[self.at]
    }

    /// The line of the visit that follows the next visit by `visits`, if the order is known that far ahead.
    #[inline(always)]
    pub(super) fn ahead(&self, visits: usize) -> Option<LineNumber> {
        self.order.get(self.at + visits).copied()
    }

    /// Whether the walk fetches lines as instructions.
    pub(super) fn fetches(&self) -> bool {
        matches!(self.order_of_visits, VisitOrder::Code)
    }

    /// Makes the next visit.
    #[inline(always)]
    pub fn visit(&mut self) -> Visit {
        let at = self.at;
        let (line, page) = (self.order[at], self.pages[at]);
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
        }
        if matches!(self.order_of_visits, VisitOrder::List) {
            let writes = self.share > 0 && self.carry();
            let words = 1 + u32::from(writes);
            let page = self.any_page.as_mut().map_or(page, AnyPage::next);
            return Visit { line, reads: true, writes, fetches: false, words, page };
        }
        self.visit_of_no_list(at, line, page)
    }

    fn visit_of_no_list(&mut self, at: usize, line: LineNumber, page: u32) -> Visit {
        match &mut self.order_of_visits {
            VisitOrder::Trace(visits) => {
                let trace::TraceVisit { reads, writes, words, .. } = visits[at];
                Visit { line, reads, writes, fetches: false, words, page }
            }
            VisitOrder::Changing { window, then } => {
                self.at = std::mem::replace(then, window.next_line() as usize);
                // Its memory is far larger than the host's caches, and the place in it anywhere.
                expect(&self.order[*then]);
                expect(&self.pages[*then]);
                let writes = self.share > 0 && self.carry();
                Visit { line, reads: !writes, writes, fetches: false, words: 1, page }
            }
            VisitOrder::List | VisitOrder::Scan => self.scan(line, page),
            VisitOrder::Locks => {
                Visit { line, reads: false, writes: true, fetches: false, words: 1, page }
            }
            VisitOrder::Code => {
                Visit { line, reads: false, writes: false, fetches: true, words: 1, page }
            }
        }
    }

    /// Visits all words of a line in order.
    fn scan(&mut self, line: LineNumber, page: u32) -> Visit {
        let first = self.share > 0 && self.carry();
        let mut writes = first;
        if self.share > 0 {
            for _ in 1..WORDS {
                writes |= self.carry();
            }
        }
        Visit { line, reads: !first, writes, fetches: false, words: WORDS, page }
    }

    /// Whether the next access writes. The accumulator overflows with a frequency equal to the share of writes.
    #[inline(always)]
    fn carry(&mut self) -> bool {
        let (sum, carry) = self.accumulator.overflowing_add(self.share);
        self.accumulator = sum;
        carry
    }
}

/// The memory of a trace in pages of one size; the touched pages are contiguous.
#[derive(Debug)]
pub struct TracePages {
    /// The numbers of the touched base pages.
    base: Vec<u64>,
    /// The numbers of the touched pages of this size, ascending.
    own: Vec<u64>,
    /// The number of lines in a page of this size.
    of_page: u64,
}

impl TracePages {
    /// The pages that a trace touches, each with `of_page` lines.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of the trace was damaged.
    pub fn of(trace: &Trace, of_page: u32) -> Result<Self, TraceError> {
        let (base, of_page) = (trace.pages()?, u64::from(of_page));
        let mut own: Vec<u64> =
            base.iter().map(|page| page * u64::from(LINES_OF_PAGE) / of_page).collect();
        own.dedup();
        Ok(Self { base, own, of_page })
    }

    /// The total size of the touched pages.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.own.len() as u64 * self.of_page * LINE)
    }

    /// The index of a visit's line among all lines of the touched pages.
    fn place(&self, line: u32) -> usize {
        let (page, rest) = (line / LINES_OF_PAGE, line % LINES_OF_PAGE);
        let line = self.base[page as usize] * u64::from(LINES_OF_PAGE) + u64::from(rest);
        let rank = self.own.partition_point(|&page| page < line / self.of_page) as u64;
        (rank * self.of_page + line % self.of_page) as usize
    }
}

/// The initial value of the accumulator: a walk that writes everything writes from the first access on.
const fn beginning(share: u64) -> u64 {
    if share == u64::MAX { u64::MAX } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(set: &WorkingSet) -> Vec<Visit> {
        let lines = (100..100 + set.lines() as LineNumber).collect();
        let mut walker = Walker::of_set(set, lines, 64, &mut DrawStream::new(3, 0));
        (0..set.lines()).map(|_| walker.visit()).collect()
    }

    #[test]
    fn a_list_visits_every_line_once_in_another_order_and_writes_what_is_asked() {
        for (ratio, written) in [(0.0, 0), (1.0 / 3.0, 32), (0.5, 64)] {
            let visits = pass(&WorkingSet::list(Bytes::from_kib(4), ratio));
            let mut lines: Vec<LineNumber> = visits.iter().map(|visit| visit.line).collect();
            assert!(!lines.is_sorted());
            lines.sort_unstable();
            assert_eq!(lines, (100..164).collect::<Vec<_>>());
            let writes = visits.iter().filter(|visit| visit.writes).count();
            assert!(writes.abs_diff(written) <= 1, "{ratio}: {writes}");
            assert!(visits.iter().all(|visit| visit.reads));
        }
    }

    #[test]
    fn lines_know_their_page_wherever_its_frame_is() {
        let scan =
            WorkingSet { pattern: Pattern::Scan, ..WorkingSet::list(Bytes::from_kib(8), 0.0) };
        let lines = (640..704).chain(64..128).collect();
        let mut walker = Walker::of_set(&scan, lines, 64, &mut DrawStream::new(3, 0));
        let visits: Vec<Visit> = (0..128).map(|_| walker.visit()).collect();
        let page = |at: usize| (visits[at].line, visits[at].page);
        assert_eq!([page(0), page(63), page(64)], [(640, 10), (703, 10), (64, 11)]);
    }

    #[test]
    fn where_few_lines_of_a_page_are_simulated_visits_come_back_to_it_as_those_of_all_lines_do() {
        let set = WorkingSet::list(Bytes::from_mib(4), 0.0);
        // One line of each of 1,024 pages.
        let lines: Vec<LineNumber> = (5_000..6_024).collect();
        let mut walker = Walker::of_set(&set, lines, 1, &mut DrawStream::new(3, 0));
        let mut last = std::collections::BTreeMap::new();
        let mut gaps = Vec::new();
        for at in 0..32 * 1_024 {
            let Visit { page, .. } = walker.visit();
            assert!((5_000..6_024).contains(&page));
            gaps.extend(last.insert(page, at).map(|before| at - before));
        }
        assert_eq!(last.len(), 1_024);
        // Half of all visits come back within ln 2 of the mean, as of random ones; once in a pass would be none.
        let soon = gaps.iter().filter(|&&gap| gap < 710).count() as f64 / gaps.len() as f64;
        assert!((soon - 0.5).abs() < 0.03, "{soon}");
    }

    #[test]
    fn a_scan_goes_up_and_touches_every_word() {
        let scan = |write_ratio| WorkingSet {
            pattern: Pattern::Scan,
            ..WorkingSet { write_ratio, ..WorkingSet::list(Bytes::from_kib(4), 0.0) }
        };
        for (ratio, written) in
            [(0.0, 0), (1.0 / 128.0, 4), (1.0 / 16.0, 32), (0.25, 64), (1.0, 64)]
        {
            let visits = pass(&scan(ratio));
            assert!(visits.is_sorted_by_key(|visit| visit.line));
            assert_eq!(visits.iter().filter(|visit| visit.writes).count(), written, "{ratio}");
            assert!(visits.iter().all(|visit| visit.words == 8));
        }
        assert!(pass(&scan(1.0)).iter().all(|visit| !visit.reads));
    }

    #[test]
    fn every_pass_after_a_restart_is_the_same() {
        let set = WorkingSet::list(Bytes::from_kib(4), 0.3);
        let mut walker = Walker::of_set(&set, (0..64).collect(), 64, &mut DrawStream::new(3, 0));
        let mut pass = || {
            walker.restart();
            (0..64).map(|_| walker.visit()).collect::<Vec<_>>()
        };
        assert_eq!(pass(), pass());
    }
}
