// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer of events inside the caches, for tests; the default observer ignores all events and costs nothing.

use super::tags::LineNumber;

/// Observes every look-up in a cache, and every line written to memory.
pub trait Observer {
    /// Whether the observer is active, which makes hits in the innermost caches slower to simulate.
    const ON: bool;
    /// Reports that a line was looked up in a cache, and whether the cache had the line.
    fn looked_up(&mut self, hit: bool);
    /// Reports that a line was written to memory.
    fn written_back(&mut self, line: LineNumber);
}

impl Observer for () {
    const ON: bool = false;
    #[inline(always)]
    fn looked_up(&mut self, _hit: bool) {}
    #[inline(always)]
    fn written_back(&mut self, _line: LineNumber) {}
}
