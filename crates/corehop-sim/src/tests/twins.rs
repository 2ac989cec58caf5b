// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast simulator beside the slow one: same accesses, same outcomes, same states.

use std::collections::{BTreeMap, BTreeSet};

use super::dice::{self, Dice};
use super::invariants::{self, Ledger};
use crate::hierarchy::Hierarchy;
use crate::outcome::{Access, AccessOutcome};
use crate::planted::{Bug, with};
use crate::reference::ReferenceMachine;
use crate::spec::Spec;
use crate::timing::PrefetchQueue;
use crate::walk::{Does, RetryBackoff, Visitor};
use corehop_plan::platform::{Found, Supplier};

/// A fast machine and its slow reference model, which receive the same accesses.
struct Twins {
    spec: Spec,
    fast: Hierarchy<Ledger>,
    /// The fast machine without an observer, which uses the quick loops.
    quick: Hierarchy,
    slow: ReferenceMachine,
    dice: Dice,
    lines: u64,
    /// The number of accesses by CPU and by supplier, as the slow machine names the supplier.
    met: BTreeMap<(usize, String), u64>,
}

/// A walk that makes these accesses in their order. The walk pauses after every [`PAUSES`] accesses, and prefetchers then ask for
/// the lines of that pause.
struct Script<'a> {
    accesses: &'a [(u32, bool)],
    at: usize,
    outcomes: Vec<AccessOutcome>,
    asks: &'a [Vec<(u32, u32)>],
    /// The numbers of the accesses after which the walk paused.
    paused: Vec<usize>,
    wanted: PrefetchQueue,
}

/// The outcomes of a walk, the accesses after which the walk paused, and the lines that were brought in the pauses.
type Walked = (Vec<AccessOutcome>, Vec<usize>, Vec<(u32, AccessOutcome)>);

/// The number of accesses between two pauses.
const PAUSES: usize = 7;

impl Visitor for Script<'_> {
    fn next(&mut self) -> Option<(u32, Does)> {
        let &(line, writes) = self.accesses.get(self.at)?;
        let both = self.accesses.get(self.at + 1) == Some(&(line, true));
        let does = match (writes, both) {
            (true, _) => Does::Writes,
            (false, true) => Does::Both,
            (false, false) => Does::Reads,
        };
        Some((line, does))
    }

    fn ahead(&self) -> Option<u32> {
        self.accesses.get(self.at + 2).map(|&(line, _)| line)
    }

    fn met(&mut self, _: Does, outcome: AccessOutcome) -> bool {
        self.at += 1;
        self.outcomes.push(outcome);
        if !self.outcomes.len().is_multiple_of(PAUSES) {
            return true;
        }
        self.paused.push(self.at - 1);
        self.wanted.ask(self.asks.get(self.outcomes.len() / PAUSES - 1).into_iter().flatten());
        false
    }

    fn wrote(&mut self) {
        self.at += 1;
        self.outcomes.push(AccessOutcome::HIT);
    }

    fn wanted(&mut self) -> Option<&mut PrefetchQueue> {
        Some(&mut self.wanted)
    }
}

impl Twins {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let spec = dice::machine(&mut dice);
        let fast = Hierarchy::observed(&spec, seed, Ledger::default()).unwrap();
        let quick = Hierarchy::new(&spec, seed).unwrap();
        let slow = ReferenceMachine::new(&spec, seed);
        // From much sharing to much eviction.
        let room = spec.caches.iter().map(|cache| cache.sets * cache.ways).max().unwrap_or(1);
        let lines = 2 + dice.below(3 * u64::from(room));
        let mut twins = Self { spec, fast, quick, slow, dice, lines, met: BTreeMap::new() };
        if twins.dice.in_100(30) {
            twins.partition();
        }
        twins
    }

    fn partition(&mut self) {
        for cpu in 0..self.spec.cpus() {
            for cache in self.spec.caches.clone() {
                let mask = self.dice.below(u64::from(cache.every_way())) as u32 + 1;
                let served = cache.instances.iter().any(|cpus| cpus.contains(&cpu));
                if served && self.dice.in_100(50) {
                    self.fast.set_ways(cpu, cache.level, mask);
                    self.quick.set_ways(cpu, cache.level, mask);
                    self.slow.masks.insert((cpu, cache.level), mask);
                    // Level 1 has two caches: the mask must leave a way in each.
                    let ways = self.spec.caches.iter().filter(|other| other.level == cache.level);
                    if ways.map(|other| other.every_way() & mask).any(|left| left == 0) {
                        self.fast.set_ways(cpu, cache.level, u32::MAX);
                        self.quick.set_ways(cpu, cache.level, u32::MAX);
                        self.slow.masks.remove(&(cpu, cache.level));
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let cpu = self.dice.below(self.spec.cpus() as u64) as usize;
        let line = self.dice.below(self.lines) as u32;
        match self.dice.below(100) {
            0 => {
                let (fast, slow) = (self.fast.flush(line), self.slow.flush(line));
                same("flush", line, &self.quick.flush(line), &slow)?;
                self.fast.observer.owed.remove(&line);
                return same("flush", line, &fast, &slow);
            }
            1..=3 => {
                let level = 1 + self.dice.below(3) as u32;
                let fast = self.fast.prefetch(cpu, line, level);
                let slow = self.slow.prefetch(cpu, line, level);
                same("prefetch", line, &self.quick.prefetch(cpu, line, level), &slow)?;
                return same("prefetch", line, &fast, &slow);
            }
            _ => {}
        }
        let access = *self.dice.one(&[
            Access::Read,
            Access::Read,
            Access::Read,
            Access::Write,
            Access::Write,
            Access::Fetch,
        ]);
        if !self.dice.in_100(15) {
            let quick = self.quick.access(cpu, line, access);
            return self.one(cpu, line, access, quick);
        }
        self.some(cpu, access)
    }

    /// Makes several accesses in one walk; the walk visits some lines twice, and writes some lines.
    fn some(&mut self, cpu: usize, access: Access) -> Result<(), String> {
        let fetches = access == Access::Fetch;
        let writes = if access == Access::Write { 60 } else { 20 };
        let count = 1 + self.dice.below(24);
        let mut accesses = Vec::new();
        for _ in 0..count {
            let line = self.dice.below(self.lines) as u32;
            accesses.push((line, self.dice.in_100(writes)));
            if self.dice.in_100(writes) {
                accesses.push((line, true));
            }
        }
        accesses.push((accesses[0].0, true));
        // Prefetchers see data alone.
        let pauses = if fetches { 0 } else { accesses.len() / PAUSES };
        let asks: Vec<_> =
            (1..=pauses).map(|pause| self.asked_after(accesses[pause * PAUSES - 1].0)).collect();
        let (outcomes, paused, brought) = self.walked(cpu, fetches, &accesses, &asks);
        same("walk", cpu as u32, &outcomes.len(), &accesses.len())?;
        let mut brought = brought.into_iter();
        for (at, (&(line, write), &outcome)) in accesses.iter().zip(&outcomes).enumerate() {
            let read = if fetches { Access::Fetch } else { Access::Read };
            self.one(cpu, line, if write { Access::Write } else { read }, outcome)?;
            if paused.contains(&at) {
                let asked = asks.get((at + 1) / PAUSES - 1);
                self.prefetched(cpu, asked.into_iter().flatten(), &mut brought)?;
            }
        }
        same("lines brought", cpu as u32, &brought.next(), &None)
    }

    /// Lines that prefetchers request after an access; about half of these lines are near the accessed line.
    fn asked_after(&mut self, line: u32) -> Vec<(u32, u32)> {
        let count = self.dice.below(4) as u32;
        let one = |ahead| {
            let is_near = self.dice.in_100(50);
            (if is_near { line + ahead } else { self.dice.below(self.lines) as u32 }, 2)
        };
        (0..count).map(one).collect()
    }

    /// Makes the quick machine walk over `accesses`, and returns the outcomes, the accesses after which the walk paused, and the
    /// lines that were brought in the pauses.
    fn walked(
        &mut self,
        cpu: usize,
        fetches: bool,
        accesses: &[(u32, bool)],
        asks: &[Vec<(u32, u32)>],
    ) -> Walked {
        let (outcomes, paused) = (Vec::new(), Vec::new());
        let mut script =
            Script { accesses, at: 0, outcomes, asks, paused, wanted: PrefetchQueue::default() };
        let mut pace = RetryBackoff::default();
        // Visits keep what they know of the way, from one script to the next.
        let visits = self.dice.in_100(50);
        let mut brought = Vec::new();
        loop {
            let ended = if visits {
                self.quick.visit(cpu, fetches, true, &mut script)
            } else {
                self.quick.walk(cpu, fetches, &mut pace, &mut script)
            };
            if ended {
                return (script.outcomes, script.paused, brought);
            }
            for (line, level) in script.wanted.take() {
                let outcome = self.quick.prefetch(cpu, line, level);
                brought.extend(outcome.map(|outcome| (line, outcome)));
            }
        }
    }

    /// Makes the fast and the slow machine prefetch the requested lines, and compares the outcomes with the lines that the quick
    /// machine brought.
    fn prefetched<'a>(
        &mut self,
        cpu: usize,
        asked: impl Iterator<Item = &'a (u32, u32)>,
        brought: &mut impl Iterator<Item = (u32, AccessOutcome)>,
    ) -> Result<(), String> {
        for &(line, level) in asked {
            let fast = self.fast.prefetch(cpu, line, level);
            let slow = self.slow.prefetch(cpu, line, level);
            same("prefetch", line, &fast, &slow)?;
            if let Some(slow) = slow {
                same("quick prefetch", line, &brought.next(), &Some((line, slow)))?;
            }
        }
        Ok(())
    }

    /// Makes one access on the fast and on the slow machine, and compares the outcomes with `quick`, the outcome on the quick
    /// machine.
    fn one(
        &mut self,
        cpu: usize,
        line: u32,
        access: Access,
        quick: AccessOutcome,
    ) -> Result<(), String> {
        // What is written is owed from now on; what this access writes back of it was older.
        let fast = self.fast.access(cpu, line, access);
        let slow = self.slow.access(cpu, line, access);
        if access == Access::Write {
            self.fast.observer.owed.insert(line);
        }
        let plain = |mut outcome: AccessOutcome| {
            // A hit of the innermost cache does not look at the state of the line.
            if outcome.is_innermost_hit() {
                outcome.state = Found::Clean;
            }
            outcome
        };
        let supplier = if slow.supplier == Supplier::Own {
            format!("own {}", slow.level)
        } else {
            slow.supplier.to_string()
        };
        *self.met.entry((cpu, supplier)).or_default() += 1;
        let what = format!("{access:?} by {cpu}");
        same(&what, line, &plain(fast), &plain(slow))?;
        same(&format!("quick {what}"), line, &plain(quick), &plain(slow))
    }

    fn compare(&self) -> Result<(), String> {
        for (x, (fast, quick)) in self.fast.caches.iter().zip(&self.quick.caches).enumerate() {
            same("counters of cache", x as u32, &quick.counters, &fast.counters)?;
        }
        same("counters of CPUs", 0, &self.quick.counters, &self.fast.counters)?;
        let slows = self.slow.caches.iter();
        let pairs = self.fast.caches.iter().zip(slows.clone());
        let pairs = pairs.chain(self.quick.caches.iter().zip(slows));
        for (x, (fast, slow)) in pairs.enumerate() {
            let fast_lines: BTreeSet<_> = fast
                .lines()
                .into_iter()
                .map(|(line, bits)| {
                    let (set, way) = fast.locate(line).unwrap();
                    let may: Vec<usize> = if fast.includes() {
                        let has = |&place: &usize| fast.may_have(set, way, place);
                        (0..fast.children.len())
                            .filter(has)
                            .map(|place| fast.children[place])
                            .collect()
                    } else {
                        Vec::new()
                    };
                    (line, way, bits.alone, bits.dirty, bits.forward, may)
                })
                .collect();
            let slow_lines: BTreeSet<_> = slow
                .copies
                .iter()
                .map(|copy| {
                    let may = if slow.includes() {
                        copy.may.iter().copied().collect()
                    } else {
                        Vec::new()
                    };
                    (copy.line, copy.way, copy.alone, copy.dirty, copy.forward, may)
                })
                .collect();
            if fast_lines != slow_lines {
                let here: Vec<_> = fast_lines.difference(&slow_lines).collect();
                let there: Vec<_> = slow_lines.difference(&fast_lines).collect();
                return Err(format!("cache {x}: only fast {here:?}, only slow {there:?}"));
            }
        }
        self.compare_filters()?;
        for cpu in 0..self.spec.cpus() {
            let counters = self.fast.counters(cpu);
            let met = |who: &str| self.met.get(&(cpu, who.to_owned())).copied().unwrap_or(0);
            let suppliers = [met("own 1"), met("own 2"), met("own 3"), met("own 4")];
            same("hits of CPU", cpu as u32, &counters.hits, &suppliers)?;
            same("memory of CPU", cpu as u32, &counters.memory, &met("memory"))?;
            let peers = counters.peer.iter().chain(&counters.remote).sum::<u64>();
            same("peers of CPU", cpu as u32, &peers, &met("peer"))?;
        }
        self.slow.stale.first().map_or(Ok(()), |stale| Err(stale.clone()))
    }
}

impl Twins {
    /// Compares the entries of all snoop filters.
    fn compare_filters(&self) -> Result<(), String> {
        for (x, slow) in self.slow.caches.iter().enumerate() {
            let slow = slow.filter.iter().flat_map(|filter| &filter.copies);
            let slow: BTreeSet<_> = slow.map(|entry| (entry.line, entry.way)).collect();
            for caches in [&self.fast.caches, &self.quick.caches] {
                let filter = caches[x].snoop_filter.as_ref();
                let entries = filter.map_or_else(Vec::new, |filter| filter.lines());
                let way = |line| filter.and_then(|filter| filter.locate(line)).unwrap().1;
                let fast = entries.iter().map(|&(line, _)| (line, way(line))).collect();
                same("entries of the filter of cache", x as u32, &fast, &slow)?;
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    of: u32,
    fast: &T,
    slow: &T,
) -> Result<(), String> {
    if fast == slow { Ok(()) } else { Err(format!("{what} {of}: {fast:?}, not {slow:?}")) }
}

/// Makes `steps` random accesses on the random machine of `seed`, and returns the first difference or violated invariant as an
/// error.
fn judge(seed: u64, steps: u32) -> Result<(), String> {
    let mut twins = Twins::new(seed);
    let told = |at: u32, twins: &Twins, why: String| {
        format!("seed {seed}, step {at}: {why}\n{:#?}", twins.spec)
    };
    for at in 0..steps {
        twins.step().map_err(|why| told(at, &twins, why))?;
        if at % 16 == 0 {
            twins.compare().map_err(|why| told(at, &twins, why))?;
            invariants::check(&twins.fast).map_err(|why| told(at, &twins, why))?;
        }
    }
    Ok(())
}

#[test]
fn the_fast_machine_does_what_its_slow_twin_does() {
    for seed in 0..2_000 {
        judge(seed, 400).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn every_planted_bug_is_found() {
    let silent: Vec<_> = Bug::ALL
        .iter()
        .filter(|&&bug| {
            (0..600).all(|seed| {
                let judged = std::panic::catch_unwind(|| with(bug, || judge(seed, 400)));
                matches!(judged, Ok(Ok(())))
            })
        })
        .collect();
    assert!(Bug::ALL.len() >= 30);
    assert!(silent.is_empty(), "no test noticed {silent:?}");
}
