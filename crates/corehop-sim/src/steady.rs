// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes that leave the machine's state unchanged: the next pass then also leaves the state unchanged, with the
//! same duration and counts, and need not be simulated.
//!
//! After a pass the caches on the way of the CPU, its TLB, its prefetchers and the queues are copied. If a pass
//! ends with all of them equal to the copy from before it, and the counters of all other caches show that no line
//! moved there, the machine is in its state from before the pass, except for the time; no other event is due.
//! Because the simulation is deterministic, the next pass repeats the last.
//!
//! Copying large caches costs a noticeable part of a pass. Large copies are therefore made only when the last two
//! passes gave the same results, as passes in a steady state do. Copies that are small compared with the pass are
//! always made.

use super::cache::{CacheCounters, CacheImage};
use super::hierarchy::Hierarchy;
use super::observer::Observer;
use super::outcome::CpuCounters;
use super::pass::PassCounts;
use super::timing::{TimingCounts, TimingImage};

/// The limits on the size of a copy, in bytes per visit of a pass: for copies made always, and for copies made if
/// the last two passes gave the same results.
const ALWAYS: usize = 32;
const AT_REST: usize = 128;

/// Consecutive passes of one job over one working set.
#[derive(Debug, Default)]
pub(super) struct SteadyPasses {
    /// The counts of the last pass.
    last: Option<PassCounts>,
    /// The timing state at the end of the last pass, if copied.
    image: Option<TimingImage>,
    /// The copies of the first caches of the CPU's path to memory, as many as were copied.
    caches: Vec<CacheImage>,
    copied: usize,
    /// The effect of each further pass, once known.
    effect: Option<PassEffect>,
}

/// The effect of a pass that leaves the machine's state unchanged.
#[derive(Debug)]
pub(super) struct PassEffect {
    pub(super) pass: PassCounts,
    pub(super) caches: [CacheCounts; 2],
    pub(super) timing: [TimingCounts; 2],
}

/// The counters of one CPU's accesses, and the counters of all caches.
#[derive(Debug)]
pub(super) struct CacheCounts {
    cpu: CpuCounters,
    /// The line counters of each cache, and the number of lines that the cache holds.
    caches: Vec<(CacheCounters, u32)>,
}

impl SteadyPasses {
    /// Forgets the previous passes, because another event happens before the next pass.
    pub(super) fn forget(&mut self) {
        (self.last, self.image, self.effect, self.copied) = (None, None, None, 0);
    }

    /// The effect of the next pass, if known.
    pub(super) fn effect(&self) -> Option<&PassEffect> {
        self.effect.as_ref()
    }

    /// Records a pass of `visits` visits with its effect, and the state after the pass. Returns whether all further
    /// passes have the same effect.
    pub(super) fn ended<O: Observer>(
        &mut self,
        visits: usize,
        (caches, cpu, fetches): (&Hierarchy<O>, usize, bool),
        effect: PassEffect,
        image: Option<TimingImage>,
    ) {
        let reach = caches.reach(cpu, fetches, &effect.caches);
        let (Some(reach), Some(image)) = (reach, image) else { return self.forget() };
        let way = &caches.path(cpu, fetches).caches;
        let as_before = || {
            let mut pairs = way[..reach].iter().zip(&self.caches);
            pairs.all(|(&x, copy)| caches.caches[x].is_as(copy))
        };
        if reach <= self.copied && self.image.as_ref() == Some(&image) && as_before() {
            self.effect = Some(effect);
            return;
        }
        let at_rest = self.last == Some(effect.pass);
        let most = visits * if at_rest { AT_REST } else { ALWAYS };
        let mut bytes = 0;
        let affordable = |&&x: &&usize| {
            bytes += caches.caches[x].bytes();
            bytes <= most
        };
        self.copied = way[..caches.path(cpu, fetches).len].iter().take_while(affordable).count();
        self.caches.resize_with(self.copied.max(self.caches.len()), CacheImage::default);
        for (&x, copy) in way[..self.copied].iter().zip(&mut self.caches) {
            caches.caches[x].copy_to(copy);
        }
        (self.last, self.image) = (Some(effect.pass), Some(image));
    }
}

impl<O: Observer> Hierarchy<O> {
    /// The counters of the accesses of `cpu`, and the counters of all caches.
    pub(super) fn counts(&self, cpu: usize) -> CacheCounts {
        let caches = self.caches.iter().map(|cache| (cache.counters, cache.filled()));
        CacheCounts { cpu: self.counters[cpu], caches: caches.collect() }
    }

    /// The number of caches on the path of `cpu`, from the innermost on, that its accesses between two readings may
    /// have changed; None if other caches or snoop filters may have changed.
    fn reach(
        &self,
        cpu: usize,
        fetches: bool,
        [before, after]: &[CacheCounts; 2],
    ) -> Option<usize> {
        let path = self.path(cpu, fetches);
        let way = &path.caches[..path.len];
        let same = |x: usize| before.caches[x] == after.caches[x];
        let others_same = (0..self.caches.len()).all(|x| way.contains(&x) || same(x));
        if self.filtered || !others_same {
            return None;
        }
        let inside = |cpu: &CpuCounters| cpu.hits.iter().sum::<u64>();
        let [all, hits] =
            [CpuCounters::supplied, inside].map(|of| of(&after.cpu) - of(&before.cpu));
        let far = |cpu: &CpuCounters| (cpu.prefetches, cpu.upgrades, cpu.invalidations);
        if all > hits || far(&before.cpu) != far(&after.cpu) {
            return Some(path.len);
        }
        // Where caches are exclusive or written through, lines move without a count.
        let innermost = &self.caches[way[0]];
        let inside = !innermost.write_through && before.cpu.hits[1..] == after.cpu.hits[1..];
        if !path.plain {
            return Some(if inside { 1 } else { path.len });
        }
        let found = |level: usize| before.cpu.hits[level] != after.cpu.hits[level];
        let wrote = |x: usize| before.caches[x].0.write_backs != after.caches[x].0.write_backs;
        let touched = |place: usize| {
            let x = way[place];
            found(usize::from(self.caches[x].level) - 1) || (place > 0 && wrote(way[place - 1]))
        };
        Some((0..path.len).rev().find(|&place| touched(place)).map_or(1, |place| place + 1))
    }

    /// Adds the counts between two readings for `cpu` once more.
    pub(super) fn count_again(&mut self, cpu: usize, [before, after]: &[CacheCounts; 2]) {
        self.counters[cpu].count_again(before.cpu, after.cpu);
        let both = before.caches.iter().zip(&after.caches);
        for (cache, (&(before, _), &(after, _))) in self.caches.iter_mut().zip(both) {
            cache.counters.count_again(before, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine_state::MachineState;
    use super::super::walker::Walker;
    use super::*;
    use corehop_plan::experiment::DrawStream;
    use corehop_plan::platform::Platform;
    use corehop_plan::units::Bytes;
    use corehop_plan::workload::{Page, Pattern, WorkingSet};

    /// A machine, and a walk over `set` on its first CPU.
    fn machine(platform: &str, set: &WorkingSet) -> (MachineState, Walker) {
        let platform = Platform::named(platform).unwrap().unwrap();
        let mut state = MachineState::new(&platform, 1, 1).unwrap();
        let lines = state.frames.place(set.wss, Page::Base, 0, None).unwrap();
        let of_page = state.frames.lines_of(Page::Base);
        let walker = Walker::of_set(set, lines, of_page, &mut DrawStream::new(3, 0));
        state.begin_on(0);
        (state, walker)
    }

    fn sets() -> impl Iterator<Item = WorkingSet> {
        let sizes = [8, 48, 128, 512].map(Bytes::from_kib).into_iter();
        sizes.flat_map(|wss| {
            let list = WorkingSet::list(wss, 0.3);
            [WorkingSet { pattern: Pattern::Scan, ..list.clone() }, list]
        })
    }

    #[test]
    fn passes_that_are_not_simulated_come_to_what_simulated_ones_come_to() {
        let mut known = 0;
        for platform in ["xeon_x5650", "xeon_l7455", "opteron_2x4"] {
            for set in sets() {
                let ((mut all, mut walker), (mut some, mut other)) =
                    (machine(platform, &set), machine(platform, &set));
                let mut steady = SteadyPasses::default();
                for pass in 0..12 {
                    let counts = all.walk(0, &mut walker);
                    assert_eq!(
                        some.walk_on(0, &mut other, &mut steady),
                        counts,
                        "{platform}, {}: {pass}",
                        set.wss
                    );
                    assert_eq!(some.now(), all.now());
                    assert_eq!(some.caches().counters(0), all.caches().counters(0));
                }
                known += u32::from(steady.effect().is_some());
                // What comes after them finds the same machine.
                let (mut walker, mut other) = (walker, other);
                for lines in [&mut walker, &mut other] {
                    lines.start_anywhere(&mut DrawStream::new(5, 0));
                }
                all.flush(&walker.memory()[..20]);
                some.flush(&other.memory()[..20]);
                for _ in 0..3 {
                    assert_eq!(some.walk(0, &mut other), all.walk(0, &mut walker), "{platform}");
                }
            }
        }
        assert!(known >= 6, "{known} sets came to rest");
    }

    #[test]
    fn what_happens_between_two_passes_is_not_overlooked_if_it_is_said() {
        let (mut state, mut walker) =
            machine("xeon_x5650", &WorkingSet::list(Bytes::from_kib(8), 0.0));
        let mut steady = SteadyPasses::default();
        let warm: Vec<PassCounts> =
            (0..6).map(|_| state.walk_on(0, &mut walker, &mut steady)).collect();
        assert!(steady.effect().is_some());
        assert_eq!((warm[2], warm[5].misses), (warm[5], 0));
        state.flush(walker.memory());
        steady.forget();
        assert!(state.walk_on(0, &mut walker, &mut steady).misses > 0);
    }
}
