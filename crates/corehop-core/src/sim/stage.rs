// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine in motion: one measured job, the polluters beside it, and time.
//!
//! Whoever is earliest acts next, so that requests reach the caches and the servers in the order of
//! simulated time, exactly. Time is in whole picoseconds.

use crate::machine::Rest;
use crate::platform::{Distance, Home, Platform, Supplier, Traffic};

use super::frames::Frames;
use super::hierarchy::Hierarchy;
use super::outcome::{Access, Outcome};
use super::prefetch::{MOST_AHEAD, Prefetcher};
use super::servers::Servers;
use super::spec::{Spec, SpecError};
use super::tags::Line;
use super::times::{Picos, Times, nodes_of_cpus};
use super::walker::{Visit, Walker};

/// The pages that prefetchers do not leave, in bytes.
const BASE_PAGE: u64 = 4 << 10;
/// How many visits of others pass between two looks whether anything of the job's is left.
const LOOK_EVERY: u32 = 2_048;

/// A thread that walks for ever beside the job.
#[derive(Debug, Clone)]
struct Actor {
    cpu: usize,
    walker: Walker,
    /// When it makes its next visit.
    at: Picos,
    visits: u64,
}

/// The caches, servers and threads of a machine. A clone is a snapshot.
#[derive(Debug, Clone)]
pub struct Stage {
    caches: Hierarchy,
    times: Times,
    servers: Servers,
    /// Those of each CPU.
    prefetchers: Vec<Vec<Prefetcher>>,
    /// The physical memory.
    pub frames: Frames,
    /// For each CPU the place of its node.
    nodes: Vec<usize>,
    actors: Vec<Actor>,
    /// The CPU whose actor waits because the job has it.
    held: Option<usize>,
    now: Picos,
}

/// What a pass over a working set took and met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// The time it took.
    pub picos: Picos,
    /// Accesses that no cache on this side of the last level could serve.
    pub misses: u64,
}

impl Stage {
    /// An empty machine; `seed` decides frames and random replacement.
    ///
    /// # Errors
    /// Names the fact that the platform lacks or that cannot be simulated.
    pub fn new(platform: &Platform, seed: u64) -> Result<Self, SpecError> {
        Ok(Self {
            caches: Hierarchy::new(&Spec::from_platform(platform)?, seed)?,
            times: Times::from_platform(platform)?,
            servers: Servers::from_platform(platform)?,
            prefetchers: vec![Prefetcher::all_of(platform, BASE_PAGE); platform.cpus.value.len()],
            frames: Frames::new(platform, seed)?,
            nodes: nodes_of_cpus(platform),
            actors: Vec::new(),
            held: None,
            now: 0,
        })
    }

    /// The time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// The caches.
    pub fn caches(&self) -> &Hierarchy {
        &self.caches
    }

    /// The place of the node of a CPU.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.nodes[cpu]
    }

    /// Lets a thread walk on `cpu` from now on, whenever the job does not have that CPU.
    pub fn add_actor(&mut self, cpu: usize, walker: Walker) {
        self.actors.push(Actor { cpu, walker, at: self.now, visits: 0 });
    }

    /// Ends what walks on `cpu`, and hands it back with the lines that it has visited.
    pub fn remove_actor(&mut self, cpu: usize) -> Option<(Walker, u64)> {
        let at = self.actors.iter().rposition(|actor| actor.cpu == cpu)?;
        let actor = self.actors.remove(at);
        Some((actor.walker, actor.visits))
    }

    /// The lines that all actors have visited.
    pub fn visits(&self) -> u64 {
        self.actors.iter().map(|actor| actor.visits).sum()
    }

    /// Lets the job have `cpu`: whoever walks there waits.
    pub fn take_cpu(&mut self, cpu: usize) {
        self.release();
        self.held = Some(cpu);
    }

    /// Takes the lines out of all caches.
    pub fn flush(&mut self, lines: &[Line]) {
        for &line in lines {
            self.caches.flush(line);
        }
    }

    /// The job walks over its working set once on `cpu`, from its beginning.
    pub fn walk(&mut self, cpu: usize, walker: &mut Walker) -> Pass {
        walker.restart();
        let begin = self.now;
        let before = self.caches.counters(cpu).last_level_misses();
        for _ in 0..walker.lines() {
            self.run_others(self.now);
            let visit = walker.visit();
            self.now += self.visit(cpu, visit, walker.parallelism, self.now);
        }
        let misses = self.caches.counters(cpu).last_level_misses() - before;
        Pass { picos: self.now - begin, misses }
    }

    /// A pass over other data, in no time: the operating system's.
    pub fn touch_untimed(&mut self, cpu: usize, walker: &mut Walker) {
        walker.restart();
        for _ in 0..walker.lines() {
            let visit = walker.visit();
            self.visit(cpu, visit, walker.parallelism, self.now);
        }
    }

    /// The job walks until its working set is at rest.
    pub fn settle(&mut self, cpu: usize, walker: &mut Walker) {
        let mut rest = Rest::new();
        for _ in 0..Rest::MOST_PASSES {
            if rest.is_reached_by(self.walk(cpu, walker).picos as f64) {
                break;
            }
        }
    }

    /// The job is off its CPU for `length`; others run. With nothing left of the job's `lines` in
    /// any cache the rest of the time is skipped: nothing more can be lost.
    pub fn pass_time(&mut self, length: Picos, lines: &[Line]) {
        self.release();
        let end = self.now + length;
        let mut left = Left { lines, at: 0 };
        while let Some(at) = self.run_some(end, LOOK_EVERY) {
            if !left.any(&self.caches) {
                self.skip(end.saturating_sub(at));
                break;
            }
        }
        self.now = end;
    }

    /// Lets the machine run by itself for `length`, to the end.
    pub fn warm_up(&mut self, length: Picos) {
        self.release();
        self.now += length;
        self.run_others(self.now);
    }

    /// Whoever waited for the job to leave its CPU goes on.
    fn release(&mut self) {
        let now = self.now;
        let held = self.held.take();
        for actor in self.actors.iter_mut().filter(|actor| Some(actor.cpu) == held) {
            actor.at = actor.at.max(now);
        }
    }

    /// Moves all clocks on, as if so much time had passed.
    fn skip(&mut self, time: Picos) {
        self.actors.iter_mut().for_each(|actor| actor.at += time);
        self.servers.skip(time);
    }

    /// Lets others act until `until`.
    #[inline]
    fn run_others(&mut self, until: Picos) {
        while self.run_some(until, u32::MAX).is_some() {}
    }

    /// Lets others act, at most so many times: the time at which the next one would act, if that is
    /// before `until`.
    fn run_some(&mut self, until: Picos, most: u32) -> Option<Picos> {
        for _ in 0..most {
            let next = self.next().filter(|&next| self.actors[next].at < until)?;
            let actor = &mut self.actors[next];
            actor.visits += 1;
            let (cpu, at, parallelism) = (actor.cpu, actor.at, actor.walker.parallelism);
            let visit = actor.walker.visit();
            let took = self.visit(cpu, visit, parallelism, at);
            self.actors[next].at = at + took.max(1);
        }
        self.next().map(|next| self.actors[next].at).filter(|&at| at < until)
    }

    /// The actor whose turn it is; of several at one time the first.
    #[inline]
    fn next(&self) -> Option<usize> {
        let actors = self.actors.iter().enumerate();
        let free = actors.filter(|(_, actor)| Some(actor.cpu) != self.held);
        free.min_by_key(|(_, actor)| actor.at).map(|(place, _)| place)
    }

    /// One visit at time `at`: how long it keeps the thread.
    #[inline]
    fn visit(&mut self, cpu: usize, visit: Visit, parallelism: Option<u64>, at: Picos) -> Picos {
        let mut latency = 0;
        if visit.reads {
            latency = self.access(cpu, visit.line, Access::Read, at);
        } else if visit.fetches {
            latency = self.access(cpu, visit.line, Access::Fetch, at);
        }
        if visit.writes {
            let time = self.access(cpu, visit.line, Access::Write, at);
            // A write after a read waits in the store buffer, and keeps nobody.
            latency = if visit.reads { latency } else { time };
        }
        let under_way = parallelism.unwrap_or(self.times.parallelism);
        let under_way = under_way.clamp(1, self.times.outstanding * 1_000);
        (self.times.work * Picos::from(visit.words)).max(latency * 1_000 / under_way)
    }

    /// One access at time `at`: its latency, queueing included.
    #[inline]
    fn access(&mut self, cpu: usize, line: Line, access: Access, at: Picos) -> Picos {
        let outcome = self.caches.access(cpu, line, access);
        if outcome.is_innermost_hit() {
            return self.times.of(&outcome, Home::Local);
        }
        let node = self.frames.home(line);
        let home = if node == self.nodes[cpu] { Home::Local } else { Home::Remote };
        let waited = self.queue(cpu, node, outcome, at);
        if access != Access::Fetch {
            self.prefetch(cpu, line, outcome, at + waited);
        }
        self.times.of(&outcome, home) + waited
    }

    /// Shows an access to the prefetchers that see it, and brings what they ask for: in no time of
    /// the job's, but through the servers.
    fn prefetch(&mut self, cpu: usize, line: Line, outcome: Outcome, at: Picos) {
        for place in 0..self.prefetchers[cpu].len() {
            let prefetcher = &mut self.prefetchers[cpu][place];
            let level = prefetcher.level();
            if outcome.supplier == Supplier::Own && u32::from(outcome.level) < level {
                continue;
            }
            let (mut wanted, mut count) = ([line; MOST_AHEAD], 0);
            prefetcher.access(line, |line| {
                wanted[count] = line;
                count += 1;
            });
            for &line in &wanted[..count] {
                if let Some(outcome) = self.caches.prefetch(cpu, line, level) {
                    self.queue(cpu, self.frames.home(line), outcome, at);
                }
            }
        }
    }

    /// Passes what follows from an access through the servers; how long the access itself waits.
    fn queue(&mut self, cpu: usize, node: usize, outcome: Outcome, at: Picos) -> Picos {
        if self.servers.is_empty() {
            return 0;
        }
        let mut waited = 0;
        if outcome.asked > 0 || outcome.farthest == Distance::Machine {
            waited += self.servers.pass(Traffic::Snoop, cpu, node, at);
        }
        match outcome.supplier {
            Supplier::Memory => waited += self.servers.pass(Traffic::MemoryRead, cpu, node, at),
            Supplier::Peer if outcome.distance == Distance::Machine => {
                waited += self.servers.pass(Traffic::Transfer, cpu, node, at);
            }
            _ => {}
        }
        for _ in 0..outcome.written_back {
            // Posted: it keeps the server, and nobody waits for it.
            self.servers.pass(Traffic::WriteBack, cpu, node, at + waited);
        }
        waited
    }
}

impl Hierarchy {
    /// Whether any cache has `line`.
    fn is_held(&self, line: Line) -> bool {
        self.roots.iter().any(|&root| self.holds(root, line))
    }
}

/// Looks for lines of the job that are still in some cache.
struct Left<'a> {
    lines: &'a [Line],
    /// A line that was there at the last look: the first to look for.
    at: usize,
}

impl Left<'_> {
    fn any(&mut self, caches: &Hierarchy) -> bool {
        let count = self.lines.len();
        let found = (0..count)
            .map(|step| (self.at + step) % count)
            .find(|&at| caches.is_held(self.lines[at]));
        self.at = found.unwrap_or(0);
        found.is_some()
    }
}
