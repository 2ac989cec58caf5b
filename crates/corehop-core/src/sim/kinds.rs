// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a miss was one: never had (compulsory), taken by another CPU's write (coherency), too many
//! lines (capacity), or too many for their sets (conflict).
//!
//! Hill's definition: a capacity miss is one that a fully associative cache of the same number of
//! lines, replacing the least recently used one, would have had as well. So beside each cache a list
//! of that many lines is kept in order of use; it costs more than the caches themselves.

use std::collections::BTreeMap;

use super::observer::Observer;
use super::spec::Spec;
use super::tags::Line;

/// Misses of a cache by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Misses {
    /// The cache never had the line.
    pub compulsory: u64,
    /// It lost it to a write of another CPU.
    pub coherency: u64,
    /// A fully associative cache would have lost it too.
    pub capacity: u64,
    /// It would have kept it.
    pub conflict: u64,
}

impl Misses {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.compulsory + self.coherency + self.capacity + self.conflict
    }
}

/// What is remembered of a line.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The time of its last use.
    used: u64,
    /// It was lost to a write.
    taken: bool,
}

/// The fully associative twin of one cache, and all the lines it ever had.
#[derive(Debug, Clone, Default)]
struct Shadow {
    lines: usize,
    time: u64,
    known: BTreeMap<Line, Known>,
    /// Of the lines that the twin has: by time of last use.
    order: BTreeMap<u64, Line>,
    misses: Misses,
}

impl Shadow {
    fn looked_up(&mut self, line: Line, hit: bool) {
        self.time += 1;
        let before = self.known.get(&line).copied();
        let held = before.is_some_and(|known| self.order.remove(&known.used).is_some());
        if !hit {
            let kind = match before {
                None => &mut self.misses.compulsory,
                Some(Known { taken: true, .. }) => &mut self.misses.coherency,
                Some(_) if held => &mut self.misses.conflict,
                Some(_) => &mut self.misses.capacity,
            };
            *kind += 1;
        }
        self.known.insert(line, Known { used: self.time, taken: false });
        self.order.insert(self.time, line);
        if self.order.len() > self.lines {
            self.order.pop_first();
        }
    }

    fn invalidated(&mut self, line: Line) {
        if let Some(known) = self.known.get_mut(&line) {
            known.taken = true;
            self.order.remove(&known.used);
        }
    }
}

/// Tells the misses of every cache apart: an observer for [`super::Hierarchy::observed`].
#[derive(Debug, Clone)]
pub struct MissKinds {
    shadows: Vec<Shadow>,
}

impl MissKinds {
    /// For the caches of `spec`.
    pub fn new(spec: &Spec) -> Self {
        let each = spec.caches.iter().flat_map(|cache| {
            let lines = cache.sets as usize * cache.ways as usize;
            cache.instances.iter().map(move |_| Shadow { lines, ..Shadow::default() })
        });
        Self { shadows: each.collect() }
    }

    /// The misses of a cache, by its number: place in the specification, then instance.
    pub fn misses(&self, cache: usize) -> Misses {
        self.shadows[cache].misses
    }
}

impl Observer for MissKinds {
    const ON: bool = true;
    fn looked_up(&mut self, _cpu: usize, cache: usize, line: Line, hit: bool) {
        self.shadows[cache].looked_up(line, hit);
    }
    fn invalidated(&mut self, cache: usize, line: Line) {
        self.shadows[cache].invalidated(line);
    }
    fn written_back(&mut self, _line: Line) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{CacheKind, Inclusion, Lookup, Protocol};
    use crate::sim::{Access, CacheSpec, Hierarchy};

    /// Two CPUs with caches of two sets of one way.
    fn machine() -> Hierarchy<MissKinds> {
        let mut cache = CacheSpec::new(1, CacheKind::Unified, 2, 1);
        cache.instances = vec![vec![0], vec![1]];
        cache.inclusion = Inclusion::NonInclusive;
        let spec = Spec {
            caches: vec![cache],
            cores: vec![0, 1],
            packages: vec![0, 0],
            protocol: Protocol::Mesi,
            lookup: Lookup::Snooping,
            line: 64,
        };
        Hierarchy::observed(&spec, 0, MissKinds::new(&spec)).unwrap()
    }

    #[test]
    fn each_kind_of_miss_is_told_by_hand() {
        let mut machine = machine();
        let mut kinds = |accesses: &[(usize, Line, Access)]| {
            for &(cpu, line, access) in accesses {
                machine.access(cpu, line, access);
            }
            let Misses { compulsory, coherency, capacity, conflict } = machine.observer().misses(0);
            [compulsory, coherency, capacity, conflict]
        };
        let read = |line| (0, line, Access::Read);
        assert_eq!(kinds(&[read(0), read(2)]), [2, 0, 0, 0]);
        // 0 and 2 share a set of one way; two lines would have had room for both.
        assert_eq!(kinds(&[read(0)]), [2, 0, 0, 1]);
        // Three lines do not fit into two.
        assert_eq!(kinds(&[read(4), read(2), read(0)]), [3, 0, 2, 1]);
        assert_eq!(kinds(&[(1, 0, Access::Write), read(0)]), [3, 1, 2, 1]);
        assert_eq!(kinds(&[read(0)]), [3, 1, 2, 1]);
    }
}
