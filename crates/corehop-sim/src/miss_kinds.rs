// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a miss was one: never had (compulsory), taken by another CPU's write (coherency), too many
//! lines (capacity), or too many for their sets (conflict).
//!
//! Hill's definition: a capacity miss is one that a fully associative cache of the same number of
//! lines, replacing the least recently used one, would have had as well. So beside each cache a list
//! of that many lines is kept in order of use; it costs more than the caches themselves.

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

/// No place in a list.
const NONE: u32 = u32::MAX;
/// Lines of neighbouring numbers whose places are kept together.
const TOGETHER: usize = 4_096;

/// The memory of a line that a cache ever had.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The twin has it: then it is in the list of these.
    held: bool,
    /// It was lost to a write.
    taken: bool,
    /// The lines used next after it, and last before it, by their places.
    newer: u32,
    older: u32,
}

/// The place of the memory of a line.
#[derive(Debug, Clone, Default)]
struct Places(Vec<Option<Box<[u32; TOGETHER]>>>);

impl Places {
    /// The place of a line; [`NONE`] at first.
    fn of(&mut self, line: Line) -> &mut u32 {
        let group = line as usize / TOGETHER;
        if group >= self.0.len() {
            self.0.resize_with(group + 1, || None);
        }
        let places = self.0[group].get_or_insert_with(|| Box::new([NONE; TOGETHER]));
        &mut places[line as usize % TOGETHER]
    }
}

/// The fully associative twin of one cache, and all the lines it ever had.
#[derive(Debug, Clone)]
struct Shadow {
    /// The number of lines that the twin has room for, and of those it has.
    room: usize,
    held: usize,
    places: Places,
    known: Vec<Known>,
    newest: u32,
    oldest: u32,
    misses: Misses,
}

impl Shadow {
    fn new(room: usize) -> Self {
        Self {
            room,
            held: 0,
            places: Places::default(),
            known: Vec::new(),
            newest: NONE,
            oldest: NONE,
            misses: Misses::default(),
        }
    }

    fn looked_up(&mut self, line: Line, hit: bool) {
        let place = *self.places.of(line);
        let before = self.known.get(place as usize).copied();
        if !hit {
            let kind = match before {
                None => &mut self.misses.compulsory,
                Some(Known { taken: true, .. }) => &mut self.misses.coherency,
                Some(Known { held: true, .. }) => &mut self.misses.conflict,
                Some(_) => &mut self.misses.capacity,
            };
            *kind += 1;
        }
        let place = if before.is_some() { place } else { self.meet(line) };
        self.known[place as usize].taken = false;
        self.leave(place);
        self.enter(place);
        if self.held > self.room {
            self.leave(self.oldest);
        }
    }

    /// Remembers a line from now on; its place.
    fn meet(&mut self, line: Line) -> u32 {
        let place = self.known.len() as u32;
        *self.places.of(line) = place;
        self.known.push(Known { held: false, taken: false, newer: NONE, older: NONE });
        place
    }

    /// The twin uses the line in this place, which it does not have.
    fn enter(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        let known = &mut self.known[place as usize];
        (known.held, known.newer, known.older) = (true, NONE, older);
        match self.known.get_mut(older as usize) {
            Some(next) => next.newer = place,
            None => self.oldest = place,
        }
        self.held += 1;
    }

    /// The twin does not have the line in this place any more.
    fn leave(&mut self, place: u32) {
        let Known { held, newer, older, .. } = self.known[place as usize];
        if !held {
            return;
        }
        self.known[place as usize].held = false;
        match self.known.get_mut(newer as usize) {
            Some(next) => next.older = older,
            None => self.newest = older,
        }
        match self.known.get_mut(older as usize) {
            Some(next) => next.newer = newer,
            None => self.oldest = newer,
        }
        self.held -= 1;
    }

    fn invalidated(&mut self, line: Line) {
        let place = *self.places.of(line);
        if place != NONE {
            self.known[place as usize].taken = true;
            self.leave(place);
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
            let room = cache.sets as usize * cache.ways as usize;
            cache.instances.iter().map(move |_| Shadow::new(room))
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
    use crate::{Access, CacheSpec, Hierarchy};
    use corehop_plan::platform::{CacheKind, Inclusion, Lookup, Protocol};

    /// The obvious twin of [`Shadow`]: a list in order of use.
    #[derive(Default)]
    struct Plain {
        room: usize,
        ever: Vec<Line>,
        taken: Vec<Line>,
        order: Vec<Line>,
        misses: Misses,
    }

    impl Plain {
        fn looked_up(&mut self, line: Line, hit: bool) {
            if !hit {
                let kind = if !self.ever.contains(&line) {
                    &mut self.misses.compulsory
                } else if self.taken.contains(&line) {
                    &mut self.misses.coherency
                } else if self.order.contains(&line) {
                    &mut self.misses.conflict
                } else {
                    &mut self.misses.capacity
                };
                *kind += 1;
            }
            self.ever.push(line);
            self.taken.retain(|&other| other != line);
            self.order.retain(|&other| other != line);
            self.order.insert(0, line);
            self.order.truncate(self.room);
        }

        fn invalidated(&mut self, line: Line) {
            if self.ever.contains(&line) {
                self.taken.push(line);
                self.order.retain(|&other| other != line);
            }
        }
    }

    #[test]
    fn the_quick_list_tells_misses_apart_as_the_obvious_one_does() {
        let mut draw = corehop_plan::experiment::Draw::new(11, 0);
        for room in 1..12 {
            let mut quick = Shadow::new(room);
            let mut plain = Plain { room, ..Plain::default() };
            for _ in 0..600 {
                let line = draw.below(20) as Line * 1_000;
                if draw.below(5) == 0 {
                    quick.invalidated(line);
                    plain.invalidated(line);
                } else {
                    let hit = draw.below(3) == 0;
                    quick.looked_up(line, hit);
                    plain.looked_up(line, hit);
                }
                assert_eq!(quick.misses, plain.misses, "{room} lines");
            }
        }
    }

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
