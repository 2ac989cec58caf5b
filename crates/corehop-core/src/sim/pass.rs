// SPDX-License-Identifier: MIT OR Apache-2.0
//! A pass of the job over its working set, as far as it gets before somebody else acts.

use super::frames::Frames;
use super::outcome::Outcome;
use super::tags::Line;
use super::times::Picos;
use super::timing::{Ongoing, Timing, Wanted};
use super::wakes::Wakes;
use super::walk::Visitor;
use super::walker::Walker;

/// How many visits ahead the host is told of the lines that will be asked for.
pub(super) const AHEAD: usize = 6;

/// What a pass over a working set took and met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// The time it took.
    pub picos: Picos,
    /// Accesses that no cache on this side of the last level could serve.
    pub misses: u64,
    /// Walks of the page tables.
    pub walks: u64,
    /// The part of the time that finding addresses took.
    pub finding: Picos,
}

/// The job on its way. Its accesses come one after the other; between two visits it looks whether
/// somebody else acts first.
pub(super) struct OnTheWay<'a> {
    pub(super) timing: &'a mut Timing,
    pub(super) frames: &'a Frames,
    pub(super) wakes: &'a Wakes,
    pub(super) walker: &'a mut Walker,
    pub(super) cpu: usize,
    /// The time.
    pub(super) now: Picos,
    /// When somebody else acts.
    pub(super) until: Picos,
    /// The visits that are left.
    pub(super) left: usize,
    /// The visit that has begun, and whether its next access is its write.
    pub(super) ongoing: Option<(Ongoing, bool)>,
    /// What prefetchers asked for, to be brought before the next access.
    pub(super) wanted: Wanted,
}

impl Visitor for OnTheWay<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<(Line, bool)> {
        if let Some((ongoing, write)) = &self.ongoing {
            return Some((ongoing.visit.line, *write));
        }
        if self.left == 0 || self.until < self.now {
            return None;
        }
        self.left -= 1;
        self.timing.run_elsewhere(self.now);
        let visit = self.walker.visit();
        let waking = self.wakes.still(self.now);
        let ongoing = self.timing.begin(self.cpu, visit, self.walker.manner(), self.now, waking);
        let write = !(visit.reads || visit.fetches);
        self.ongoing = Some((ongoing, write));
        Some((visit.line, write))
    }

    #[inline(always)]
    fn ahead(&self) -> Option<Line> {
        self.walker.ahead(AHEAD)
    }

    #[inline(always)]
    fn met(&mut self, outcome: Outcome) -> bool {
        let Some((ongoing, write)) = &mut self.ongoing else { return true };
        self.timing.met(ongoing, *write, outcome, self.frames, &mut self.wanted);
        if *write || !ongoing.visit.writes {
            self.now += self.timing.end(ongoing);
            self.ongoing = None;
        } else {
            *write = true;
        }
        self.wanted.is_empty()
    }
}
