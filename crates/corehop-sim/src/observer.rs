// SPDX-License-Identifier: MIT OR Apache-2.0
//! An observer of events inside the caches; the default observes nothing, at no cost.

use super::tags::Line;

/// Is told of every search and of every line lost to others. Caches are numbered as the hierarchy
/// numbers them: by their place in the specification, then by instance.
pub trait Observer {
    /// Whether it wants to be told; hits of the innermost caches are then slower.
    const ON: bool;
    /// `cpu` looked for a line in a cache.
    fn looked_up(&mut self, cpu: usize, cache: usize, line: Line, hit: bool);
    /// A cache lost a line because another CPU wrote it.
    fn invalidated(&mut self, cache: usize, line: Line);
    /// A line was written to memory.
    fn written_back(&mut self, line: Line);
}

impl Observer for () {
    const ON: bool = false;
    #[inline(always)]
    fn looked_up(&mut self, _cpu: usize, _cache: usize, _line: Line, _hit: bool) {}
    #[inline(always)]
    fn invalidated(&mut self, _cache: usize, _line: Line) {}
    #[inline(always)]
    fn written_back(&mut self, _line: Line) {}
}
