// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference model of a cache: a list of copies, with a replacement policy written like its definition.

use std::collections::{BTreeMap, BTreeSet};

use super::ages::{Ages, age_by_use, age_victim, leaders, quad_age_name};
use crate::spec::CacheSpec;
use crate::tags::LineNumber;
use corehop_plan::platform::{Distance, Inclusion, Replacement};

/// A copy of a line in a cache.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) line: LineNumber,
    pub(crate) way: u32,
    pub(crate) alone: bool,
    pub(crate) dirty: bool,
    pub(crate) forward: bool,
    /// For an inclusive cache: the inner caches that may have the line.
    pub(crate) may: BTreeSet<usize>,
    /// The version number that stands for the copy's data.
    pub(crate) version: u64,
}

/// The state of a replacement policy for one set.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplacementState {
    /// The ways, most recently used (or filled) way first.
    order: Vec<u32>,
    /// For each node of the tree (first way and size), whether the victim is on its right.
    right: BTreeMap<(u32, u32), bool>,
    used: BTreeSet<u32>,
    prediction: BTreeMap<u32, u32>,
    ages: Ages,
}

#[derive(Debug, Clone)]
pub(crate) struct RefCache {
    pub(crate) spec: CacheSpec,
    pub(crate) cpus: Vec<usize>,
    pub(super) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    pub(crate) copies: Vec<Copy>,
    pub(super) memories: BTreeMap<u32, ReplacementState>,
    pub(super) random: u64,
    /// The misses of the SRRIP leaders minus the misses of the BRRIP leaders.
    selector: i32,
    pub(super) distance: Distance,
    /// The entries of the cache's snoop filter.
    pub(crate) filter: Option<Box<Self>>,
}

impl RefCache {
    /// Creates an empty cache that serves these CPUs.
    pub(super) fn new(spec: &CacheSpec, cpus: &[usize], distance: Distance, random: u64) -> Self {
        let filter = spec.snoop_filter.as_ref();
        Self {
            spec: spec.clone(),
            cpus: cpus.to_vec(),
            parent: None,
            children: Vec::new(),
            copies: Vec::new(),
            memories: BTreeMap::new(),
            random,
            selector: 511,
            distance,
            filter: filter.map(|filter| Box::new(Self::new(filter, cpus, distance, !random))),
        }
    }

    pub(super) fn set(&self, line: LineNumber) -> u32 {
        self.spec.index.set(line, self.spec.sets)
    }

    pub(crate) fn copy(&mut self, line: LineNumber) -> Option<&mut Copy> {
        self.copies.iter_mut().find(|copy| copy.line == line)
    }

    pub(crate) fn has(&self, line: LineNumber) -> bool {
        self.copies.iter().any(|copy| copy.line == line)
    }

    pub(super) fn take(&mut self, line: LineNumber) -> Copy {
        let at = self.copies.iter().position(|copy| copy.line == line).unwrap();
        self.copies.remove(at)
    }

    pub(crate) fn includes(&self) -> bool {
        self.children.is_empty() || self.spec.inclusion == Inclusion::Inclusive
    }

    pub(super) fn used(&mut self, line: LineNumber, hit: bool) {
        let set = self.set(line);
        let way = self.copy(line).unwrap().way;
        let ways = self.spec.ways;
        let last = !hit && self.spec.replacement == Replacement::Drrip && self.expects_last(set);
        let memory = self.memories.entry(set).or_default();
        match self.spec.replacement {
            Replacement::Fifo if hit => {}
            Replacement::Lru | Replacement::Fifo => {
                memory.order.retain(|&other| other != way);
                memory.order.insert(0, way);
            }
            Replacement::TreePlru => {
                let (mut low, mut size) = (0, ways.next_power_of_two());
                while size > 1 {
                    size /= 2;
                    let on_left = way < low + size;
                    memory.right.insert((low, size), on_left);
                    low += if on_left { 0 } else { size };
                }
            }
            Replacement::BitPlru => {
                memory.used.insert(way);
                if memory.used.len() == ways as usize {
                    memory.used = BTreeSet::from([way]);
                }
            }
            Replacement::Nru => {
                memory.used.insert(way);
            }
            Replacement::Random => {}
            Replacement::Srrip => {
                memory.prediction.insert(way, if hit { 0 } else { 2 });
            }
            Replacement::Drrip => {
                memory.prediction.insert(way, if hit { 0 } else { 2 + u32::from(last) });
            }
            Replacement::QuadAge
            | Replacement::QlruH11M1R0U0
            | Replacement::QlruH11M1R1U2
            | Replacement::QlruH00M1R0U1 => {
                let name = quad_age_name(self.spec.replacement).unwrap();
                age_by_use(name, &mut memory.ages, way, ways, hit);
            }
        }
    }

    /// Whether DRRIP gives a new line of `set` the last age.
    fn expects_last(&mut self, set: u32) -> bool {
        let [near, far] = leaders(self.spec.sets).map(|leaders| leaders.contains(&set));
        self.selector += i32::from(near) - i32::from(far);
        self.selector = self.selector.clamp(0, 1_023);
        (far || (!near && self.selector > 511)) && self.drawn(32) != 0
    }

    fn drawn(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.random >> 32) * below) >> 32
    }

    /// The way in which a new line of `set` is stored, among the ways `allowed`.
    pub(super) fn room(&mut self, set: u32, allowed: u32) -> u32 {
        let (sets, index) = (self.spec.sets, self.spec.index.clone());
        let of_set = self.copies.iter().filter(|copy| index.set(copy.line, sets) == set);
        let taken: BTreeSet<u32> = of_set.map(|copy| copy.way).collect();
        let allowed: Vec<u32> = (0..self.spec.ways).filter(|way| allowed >> way & 1 == 1).collect();
        if let Some(&empty) = allowed.iter().find(|&way| !taken.contains(way)) {
            return empty;
        }
        let memory = self.memories.entry(set).or_default();
        match self.spec.replacement {
            Replacement::Lru | Replacement::Fifo => {
                *memory.order.iter().rev().find(|way| allowed.contains(way)).unwrap()
            }
            Replacement::TreePlru => {
                let (mut low, mut size) = (0, self.spec.ways.next_power_of_two());
                while size > 1 {
                    size /= 2;
                    let any = |low: u32| (low..low + size).any(|way| allowed.contains(&way));
                    let wanted = memory.right.get(&(low, size)).copied().unwrap_or(false);
                    let right = if wanted { any(low + size) } else { !any(low) };
                    low += if right { size } else { 0 };
                }
                low
            }
            Replacement::BitPlru => {
                let unused = allowed.iter().find(|&way| !memory.used.contains(way));
                *unused.unwrap_or(&allowed[0])
            }
            Replacement::Nru => {
                if allowed.iter().all(|way| memory.used.contains(way)) {
                    memory.used.retain(|way| !allowed.contains(way));
                }
                *allowed.iter().find(|&way| !memory.used.contains(way)).unwrap()
            }
            Replacement::Random => allowed[self.drawn(allowed.len() as u64) as usize],
            Replacement::QuadAge
            | Replacement::QlruH11M1R0U0
            | Replacement::QlruH11M1R1U2
            | Replacement::QlruH00M1R0U1 => {
                let name = quad_age_name(self.spec.replacement).unwrap();
                age_victim(name, &mut memory.ages, &allowed)
            }
            Replacement::Srrip | Replacement::Drrip => loop {
                let last = allowed.iter().find(|&way| memory.prediction[way] == 3);
                if let Some(&way) = last {
                    return way;
                }
                for way in &allowed {
                    *memory.prediction.get_mut(way).unwrap() += 1;
                }
            },
        }
    }
}
