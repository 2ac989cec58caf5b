// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pass of the job over its working set, up to the point at which another thread acts.

use super::frames::Frames;
use super::outcome::AccessOutcome;
use super::package_clock::PackageClock;
use super::tags::LineNumber;
use super::times::Picos;
use super::timing::{LatencyScaling, PendingVisit, PrefetchQueue, VisitParameters};
use super::walk::{Does, Visitor};
use super::walker::Walker;

/// The number of visits by which the simulator prefetches lines into the host's caches.
pub(super) const AHEAD: usize = 6;

/// The time and the counts of a pass over a working set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassCounts {
    /// The duration of the pass, in picoseconds.
    pub picos: Picos,
    /// The number of accesses that missed the last level of cache.
    pub misses: u64,
    /// The number of page-table walks.
    pub walks: u64,
    /// The part of the duration that address translation took.
    pub finding: Picos,
}

/// The job while it walks. The job's accesses follow each other, and before each visit the simulator checks whether
/// another thread acts first.
pub(super) struct OnTheWay<'a> {
    pub(super) course: VisitParameters<'a>,
    pub(super) frames: &'a Frames,
    pub(super) package_clock: &'a PackageClock,
    pub(super) walker: &'a mut Walker,
    /// The job's simulated time.
    pub(super) now: Picos,
    /// The time at which another thread acts.
    pub(super) until: Picos,
    /// The number of visits that the pass still has to make.
    pub(super) left: usize,
    /// The core's scaling of latencies: at the usual clock, and while the clock is not yet up to speed.
    pub(super) rates: &'a [LatencyScaling; 2],
    /// The visit that began last.
    pub(super) ongoing: PendingVisit,
    /// The remaining action on the line of the current visit.
    pub(super) next: Option<Does>,
    /// The lines that prefetchers asked for, to be brought before the next access.
    pub(super) wanted: PrefetchQueue,
}

impl OnTheWay<'_> {
    /// Begins the next visit unless another thread acts first. Returns the line and the action on that line.
    #[inline(always)]
    fn begin(&mut self) -> Option<(LineNumber, Does)> {
        if self.left == 0 || self.until < self.now {
            return None;
        }
        self.left -= 1;
        self.course.run_elsewhere(self.now);
        let visit = self.walker.visit();
        let waking = self.package_clock.still(self.now);
        self.ongoing = self.course.begin(visit, self.now, waking);
        let does = Does::of(&visit);
        self.next = does;
        does.map(|does| (visit.line, does))
    }

    #[inline(always)]
    fn end(&mut self) {
        let [usual, slow] = self.rates;
        let rate = if self.ongoing.waking { slow } else { usual };
        let took = self.course.end(&self.ongoing, rate);
        let late = if self.ongoing.waking { self.package_clock.after(self.now + took) } else { 0 };
        // A visit that stands for several may begin with the first of them at the slow clock, and end at the usual one.
        self.now += took - late + usual.at_usual_clock(late, slow);
        self.next = None;
    }
}

impl Visitor for OnTheWay<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(LineNumber, Does)> {
        match self.next {
            Some(does) => Some((self.ongoing.line, does)),
            None => self.begin(),
        }
    }

    #[inline(always)]
    fn ahead(&self) -> Option<LineNumber> {
        self.walker.ahead(AHEAD)
    }

    #[inline(always)]
    fn met(&mut self, does: Does, outcome: AccessOutcome) -> bool {
        let write = does == Does::Writes;
        self.course.met(&mut self.ongoing, write, outcome, self.frames, &mut self.wanted);
        if does == Does::Both {
            self.next = Some(Does::Writes);
        } else {
            self.end();
        }
        self.wanted.is_empty()
    }

    #[inline(always)]
    fn wrote(&mut self) {
        // It waits in the store buffer and delays no one else.
        self.end();
    }

    #[inline(always)]
    fn wanted(&mut self) -> Option<&mut PrefetchQueue> {
        Some(&mut self.wanted)
    }
}

/// One visit of another thread than the job; the visit's accesses follow each other.
pub(super) struct OneVisit<'a> {
    pub(super) course: VisitParameters<'a>,
    pub(super) frames: &'a Frames,
    pub(super) ongoing: PendingVisit,
    /// The remaining action on the line.
    pub(super) next: Option<Does>,
    /// The lines that prefetchers asked for, to be brought before the next access.
    pub(super) wanted: PrefetchQueue,
}

impl Visitor for OneVisit<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(LineNumber, Does)> {
        self.next.map(|does| (self.ongoing.line, does))
    }

    #[inline(always)]
    fn ahead(&self) -> Option<LineNumber> {
        None
    }

    #[inline(always)]
    fn met(&mut self, does: Does, outcome: AccessOutcome) -> bool {
        let write = does == Does::Writes;
        self.course.met(&mut self.ongoing, write, outcome, self.frames, &mut self.wanted);
        self.next = (does == Does::Both).then_some(Does::Writes);
        self.wanted.is_empty()
    }

    #[inline(always)]
    fn wrote(&mut self) {
        self.next = None;
    }

    #[inline(always)]
    fn wanted(&mut self) -> Option<&mut PrefetchQueue> {
        Some(&mut self.wanted)
    }
}
