// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer of events inside the caches, for tests; the default observes nothing, at no cost.

use super::tags::LineNumber;

/// Hears of every search in a cache, and of every line that goes to memory.
pub trait Observer {
    /// Whether it wants to be told; hits of the innermost caches are then slower.
    const ON: bool;
    /// A line was looked for in a cache, and found there or not.
    fn looked_up(&mut self, hit: bool);
    /// A line was written to memory.
    fn written_back(&mut self, line: LineNumber);
}

impl Observer for () {
    const ON: bool = false;
    #[inline(always)]
    fn looked_up(&mut self, _hit: bool) {}
    #[inline(always)]
    fn written_back(&mut self, _line: LineNumber) {}
}
