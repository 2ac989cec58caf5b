// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine in motion: one measured job, the polluters beside it, and time.
//!
//! The earliest thread acts next, so requests reach the caches and the servers in the order of
//! simulated time, exactly. Time is in whole picoseconds.

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::SteadyStateTest;
use corehop_plan::platform::{Platform, Traffic};
use corehop_plan::stop::Stop;

use super::actors::{ActorRole, ActorStep, Actors};
use super::background::Transfer;
use super::frames::Frames;
use super::hierarchy::Hierarchy;
use super::package_clock::PackageClock;
use super::partitioning::Ways;
pub use super::pass::PassCounts;
use super::pass::{AHEAD, OnTheWay, OneVisit};
use super::spec::{Spec, SpecError};
use super::stays::User;
use super::steady::{PassEffect, SteadyPasses};
use super::tags::LineNumber;
use super::times::Picos;
use super::timing::{LatencyScaling, PendingVisit, PrefetchQueue, VisitTiming};
use super::walk::{Does, RetryBackoff};
use super::walker::{Visit, WalkParameters, Walker};

/// With one set in so many the host's own caches hold all of the simulated ones.
const FITS: Picos = 8;

/// The number of visits of others between two looks whether anything of the job's is left.
const LOOK_EVERY: u32 = 2_048;
/// The number of visits between two looks whether the run has to end: at most some 10 ms.
const STOP_EVERY: u32 = 16_384;
/// The turns of job and others between two such looks, each of which has no more than so many visits of both.
const TURNS: u64 = 64;

/// The caches, servers and threads of a machine. A clone is a snapshot.
#[derive(Debug, Clone)]
pub struct MachineState {
    caches: Hierarchy,
    timing: VisitTiming,
    shares: WayPartition,
    /// The physical memory.
    pub frames: Frames,
    actors: Actors,
    /// The CPU that the job had last.
    last: Option<usize>,
    now: Picos,
    package_clock: PackageClock,
    /// The last requests of prefetchers; empty between two visits.
    wanted: PrefetchQueue,
    /// Whether the run has to end.
    stop: Stop,
    /// Whether something was left undone because the run had to end.
    is_cut: bool,
}

impl MachineState {
    /// An empty machine; `seed` decides frames and random replacement. Of its sets one in `every`, a power of
    /// two, is simulated (1: all), or as few as the platform's can be sampled to; the time of a line is then
    /// that of so many. Prefetchers, which need whole pages, are off in it.
    ///
    /// # Errors
    /// Names the fact that the platform lacks or that cannot be simulated.
    pub fn new(platform: &Platform, every: u32, seed: u64) -> Result<Self, SpecError> {
        let spec = Spec::from_platform(platform)?;
        let sparser = (0..=every.ilog2()).rev().map(|power| 1 << power);
        let sampled = sparser.map(|every| (spec.sampled(every), every));
        let mut sampled = sampled.filter_map(|(spec, every)| Some((spec?, every)));
        let (spec, every) = sampled.next().unwrap_or((spec, 1));
        let mut timing = VisitTiming::new(platform, Picos::from(every))?;
        timing.servers.redraw(seed, 0);
        Ok(Self {
            caches: Hierarchy::new(&spec, seed)?,
            timing,
            shares: WayPartition::default(),
            frames: Frames::new(platform, every, seed)?,
            actors: Actors::default(),
            last: None,
            now: 0,
            package_clock: PackageClock::new(platform, &spec.packages)?,
            wanted: PrefetchQueue::default(),
            stop: Stop::never(),
            is_cut: false,
        })
    }

    /// From now on everything that takes long ends early when `stop` is asked.
    pub(super) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// Whether the run has to end; from then on the state is cut short.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_cut = self.is_cut || self.stop.is_asked();
        self.is_cut
    }

    /// Whether something was left undone because the run had to end: what came of it is worthless.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Shares caches out from now on: what the job may fill on the CPU it has, and what all others.
    pub fn share(&mut self, job: &[Ways], others: &[Ways]) {
        self.shares = WayPartition { job: job.to_vec(), others: others.to_vec() };
        for cpu in 0..self.timing.nodes.len() {
            self.shares.to_others(&mut self.caches, cpu);
        }
    }

    /// From here on frames, and service times that drift, are drawn anew.
    pub(super) fn redraw(&mut self, seed: u64, stream: u64) {
        self.frames.redraw(seed, stream);
        self.timing.servers.redraw(seed, stream);
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
        self.timing.nodes[cpu]
    }

    /// Lets a thread walk on `cpu` from now on, whenever the job does not have that CPU.
    pub fn add_actor(&mut self, cpu: usize, walker: Walker) {
        self.add(cpu, ActorRole::Walks(walker));
    }

    /// Lets somebody act on `cpu` from now on.
    pub fn add(&mut self, cpu: usize, role: ActorRole) {
        self.actors.add(cpu, self.caches.root_of(cpu), role, self.now);
    }

    /// Lets a preemptor have `cpu` from now on, alone.
    pub fn preempt(&mut self, cpu: usize, walker: Walker) {
        self.actors.preempt(cpu, self.caches.root_of(cpu), walker, self.now);
    }

    /// Ends the preemptor on `cpu`, and hands it back with the lines that it has visited. It has kept the
    /// package awake until now.
    pub fn end_preemption(&mut self, cpu: usize) -> Option<(Walker, u64)> {
        let (walker, visits) = self.actors.remove(cpu, self.now)?;
        self.package_clock.leave(cpu, self.now);
        Some((walker, visits * self.timing.weight))
    }

    /// The lines that all actors have visited.
    pub fn visits(&self) -> u64 {
        self.actors.visits() * self.timing.weight
    }

    /// Lets the job have `cpu`: an actor that walks there waits. Of those who share no cache with it now or
    /// before it could notice nothing but the queues, and no more of them is simulated.
    pub fn take_cpu(&mut self, cpu: usize) {
        self.release();
        let alone = |package| !self.actors.any(|cpu| self.package_clock.package(cpu) == package);
        self.package_clock.resume(cpu, self.now, alone(self.package_clock.package(cpu)));
        let root = |cpu| self.caches.root_of(cpu);
        let near = [root(self.last.unwrap_or(cpu)), root(cpu)];
        self.actors.set(Some(cpu), Some(near), self.now);
        if !self.timing.servers.is_empty() {
            self.timing.remote_polluters.send(self.actors.outside(near), self.now);
        }
        self.last = Some(cpu);
        self.shares.to_job(&mut self.caches, cpu);
    }

    /// As [`MachineState::take_cpu`], for a job that begins: its CPU is awake.
    pub fn begin_on(&mut self, cpu: usize) {
        self.timing.begin_job();
        self.take_cpu(cpu);
        self.package_clock.is_up();
    }

    /// A walk of a user begins on a CPU.
    #[inline]
    pub(super) fn begin_walk(&mut self, (cpu, user): (usize, User)) {
        self.timing.begin_walk(cpu, user);
    }

    /// `cpu` is switched to the thread `to`.
    pub(super) fn switch(&mut self, cpu: usize, to: User) {
        self.timing.switch(cpu, to);
    }

    /// Takes the lines out of all caches.
    pub fn flush(&mut self, lines: &[LineNumber]) {
        for (at, &line) in lines.iter().enumerate() {
            if let Some(&later) = lines.get(at + AHEAD) {
                self.caches.expect(0, later);
            }
            self.caches.flush(line);
        }
    }

    /// Takes a share of the lines out of all caches, each with that probability: others of the host had them.
    pub(super) fn lose(&mut self, lines: &[LineNumber], share: f64, draw: &mut DrawStream) {
        if share <= 0.0 {
            return;
        }
        for &line in lines {
            if draw.unit() < share {
                self.caches.flush(line);
            }
        }
    }

    /// The job walks over its working set once on `cpu`, from its beginning.
    pub fn walk(&mut self, cpu: usize, walker: &mut Walker) -> PassCounts {
        walker.restart();
        self.begin_walk((cpu, User::Job));
        let begin = self.now;
        let before = self.misses(cpu);
        let mut pass = PassCounts::default();
        let mut left = walker.visits();
        let mut pace = RetryBackoff::default();
        let rates = [false, true].map(|waking| self.timing.rate(cpu, walker.manner(), waking));
        for turn in 1_u64.. {
            if left == 0 || self.is_cut || (turn.is_multiple_of(TURNS) && self.is_over()) {
                break;
            }
            self.run_others(self.now);
            let (walks, finding) = (self.timing.translation.walks(), self.timing.finding);
            let some = left.min(STOP_EVERY as usize);
            left -= some - self.go_on(cpu, walker, some, &rates, &mut pace);
            pass.walks += self.timing.translation.walks() - walks;
            pass.finding += self.timing.finding - finding;
        }
        pass.misses = self.misses(cpu) - before;
        pass.picos = self.now - begin;
        pass
    }

    /// The same for a pass that follows those of `steady` with nothing between them. A pass that must come to the same as the
    /// one before is not simulated.
    pub(super) fn walk_on(
        &mut self,
        cpu: usize,
        walker: &mut Walker,
        steady: &mut SteadyPasses,
    ) -> PassCounts {
        let (manner, fetches) = (walker.manner(), walker.fetches());
        if let Some(PassEffect { pass, caches, timing }) = steady.effect() {
            self.begin_walk((cpu, User::Job));
            self.caches.count_again(cpu, caches);
            self.timing.count_again((cpu, manner.huge, fetches), timing, pass.picos);
            self.now += pass.picos;
            return *pass;
        }
        let alone = self.actors.next().is_none() && !self.package_clock.still(self.now);
        if !alone || !walker.repeats() {
            steady.forget();
            return self.walk(cpu, walker);
        }
        let caches = self.caches.counts(cpu);
        let timing = self.timing.counts(cpu, manner.huge, fetches);
        let pass = self.walk(cpu, walker);
        let caches = [caches, self.caches.counts(cpu)];
        let timing = [timing, self.timing.counts(cpu, manner.huge, fetches)];
        let image = self.timing.image(cpu, manner, fetches, self.now).filter(|_| !self.is_cut);
        let effect = PassEffect { pass, caches, timing };
        steady.ended(walker.visits(), (&self.caches, cpu, fetches), effect, image);
        pass
    }

    /// The job makes at most `left` visits until somebody else acts; how many it leaves.
    fn go_on(
        &mut self,
        cpu: usize,
        walker: &mut Walker,
        left: usize,
        rates: &[LatencyScaling; 2],
        pace: &mut RetryBackoff,
    ) -> usize {
        let fetches = walker.fetches();
        let mut job = OnTheWay {
            course: self.timing.course((cpu, User::Job), walker.manner(), fetches),
            frames: &self.frames,
            package_clock: &self.package_clock,
            walker,
            now: self.now,
            until: self.actors.next().map_or(Picos::MAX, |(_, at)| at),
            left,
            rates,
            ongoing: PendingVisit::default(),
            next: None,
            wanted: std::mem::take(&mut self.wanted),
        };
        while !self.caches.walk(cpu, fetches, pace, &mut job) {
            job.course.bring(&mut job.wanted, &mut self.caches, &self.frames);
        }
        self.now = job.now;
        self.wanted = job.wanted;
        job.left
    }

    /// One visit of a thread of a gang at time `at`, which no later call may precede: how long it
    /// keeps the thread.
    pub fn act(&mut self, cpu: usize, visit: Visit, manner: WalkParameters, at: Picos) -> Picos {
        self.act_as((cpu, User::Others), visit, manner, at)
    }

    /// The same by a user of the CPU's TLBs.
    pub(super) fn act_as(
        &mut self,
        by: (usize, User),
        visit: Visit,
        manner: WalkParameters,
        at: Picos,
    ) -> Picos {
        self.run_until(at);
        self.visit(by, visit, manner, at)
    }

    /// A task has `cpu` from the time `at` on, which no later call may precede: an actor that walks
    /// there waits.
    pub fn occupy(&mut self, cpu: usize, at: Picos) {
        self.run_until(at);
        self.actors.take(cpu, self.now);
        self.shares.to_job(&mut self.caches, cpu);
    }

    /// No task has `cpu` from the time `at` on, which no later call may precede.
    pub fn vacate(&mut self, cpu: usize, at: Picos) {
        self.run_until(at);
        if self.actors.any(|other| other == cpu) {
            self.switch(cpu, User::Others);
        }
        self.actors.give_back(cpu, self.now);
        self.shares.to_others(&mut self.caches, cpu);
    }

    /// Lets others act until the time `at`.
    pub fn run_until(&mut self, at: Picos) {
        self.run_others(at);
        self.now = self.now.max(at);
    }

    /// The lines that accesses of a CPU have had from beyond its own last level of cache.
    pub fn misses(&self, cpu: usize) -> u64 {
        self.caches.counters(cpu).last_level_misses() * self.timing.weight
    }

    /// A pass over other data, in no time: the operating system's. It does not queue, or all of
    /// its lines would be asked for at once.
    pub fn touch_untimed(&mut self, cpu: usize, walker: &mut Walker) {
        let servers = std::mem::take(&mut self.timing.servers);
        walker.restart();
        for _ in 0..walker.visits() {
            let visit = walker.visit();
            self.visit((cpu, User::Others), visit, walker.manner(), self.now);
        }
        self.timing.servers = servers;
    }

    /// The job walks until its working set is at rest.
    pub(super) fn settle(&mut self, cpu: usize, walker: &mut Walker, steady: &mut SteadyPasses) {
        let mut rest = SteadyStateTest::new();
        for _ in 0..SteadyStateTest::MOST_PASSES {
            if rest.is_reached_by(self.walk_on(cpu, walker, steady).picos as f64) || self.is_cut {
                break;
            }
        }
    }

    /// The job is off its CPU for `length`; others run. With nothing left of the job's `lines` in
    /// any cache the rest of the time is skipped: nothing more can be lost.
    pub fn pass_time(&mut self, length: Picos, lines: &[LineNumber]) {
        self.release();
        let end = self.now + length;
        let mut left = Left { lines, at: 0 };
        while !self.is_over()
            && let Some(at) = self.run_some(end, LOOK_EVERY)
        {
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
        self.actors.set(None, None, self.now);
        self.timing.remote_polluters.send([], self.now);
        self.now += length;
        self.run_others(self.now);
    }

    /// Lets the machine run by itself for `length`, and sees what everybody asks of the servers.
    pub fn learn(&mut self, length: Picos) {
        if !self.timing.servers.is_empty() {
            self.timing.remote_polluters.begin(self.now);
            self.warm_up(length);
            self.timing.remote_polluters.end(self.now);
        }
    }

    /// The actors that waited for the job to leave its CPU go on.
    fn release(&mut self) {
        if let Some(cpu) = self.actors.release(self.now) {
            self.package_clock.leave(cpu, self.now);
            self.shares.to_others(&mut self.caches, cpu);
        }
    }

    /// Moves all clocks on, as if so much time had passed.
    fn skip(&mut self, time: Picos) {
        self.actors.skip(time);
        self.timing.remote_polluters.skip(time);
        self.timing.servers.skip(time);
        self.timing.locked += time;
    }

    /// Lets others act until `until`.
    #[inline]
    fn run_others(&mut self, until: Picos) {
        while !self.is_cut && self.run_some(until, STOP_EVERY).is_some() {
            self.is_over();
        }
    }

    /// Lets others act, at most so many times: the time at which the next one would act, if that is
    /// before `until`.
    fn run_some(&mut self, until: Picos, most: u32) -> Option<Picos> {
        for _ in 0..most {
            let (place, at) = self.actors.next().filter(|&(_, at)| at < until)?;
            self.timing.run_elsewhere(at);
            let (cpu, turn) = self.actors.turn(place);
            let took = match turn {
                ActorStep::Visit(visit, manner, begins) => {
                    let by = (cpu, User::Actor(place));
                    if begins {
                        self.begin_walk(by);
                    }
                    self.visit(by, visit, manner, at)
                }
                ActorStep::Transfer(transfer) => self.transfer(cpu, transfer, at),
                ActorStep::Lock(stops, until) => {
                    self.timing.locked = self.timing.locked.max(at) + stops;
                    until
                }
            };
            let resumes = self.actors.resumes(place, at + took.max(1));
            if let Some(line) = resumes.filter(|_| self.timing.weight < FITS) {
                self.caches.expect_outermost(cpu, line);
            }
        }
        self.actors.next().map(|(_, at)| at).filter(|&at| at < until)
    }

    /// A device moves a line: what it writes is in no cache any more, what it reads is in memory again.
    fn transfer(&mut self, cpu: usize, transfer: Transfer, at: Picos) -> Picos {
        let node = self.frames.home(transfer.line);
        self.caches.flush(transfer.line);
        let traffic = if transfer.writes { Traffic::WriteBack } else { Traffic::MemoryRead };
        self.timing.servers.pass(traffic, cpu, node, at);
        transfer.takes * self.timing.weight
    }

    /// One visit at time `at`: how long it keeps the thread.
    #[inline]
    fn visit(
        &mut self,
        (cpu, user): (usize, User),
        visit: Visit,
        manner: WalkParameters,
        at: Picos,
    ) -> Picos {
        let large = self.timing.weight < FITS;
        let rate = self.timing.rate(cpu, manner, false);
        let mut course = self.timing.course((cpu, user), manner, visit.fetches);
        let ongoing = course.begin(visit, at, false);
        let wanted = std::mem::take(&mut self.wanted);
        let mut turn =
            OneVisit { course, frames: &self.frames, ongoing, next: Does::of(&visit), wanted };
        while !self.caches.visit(cpu, visit.fetches, large, &mut turn) {
            turn.course.bring(&mut turn.wanted, &mut self.caches, &self.frames);
        }
        self.wanted = turn.wanted;
        turn.course.end(&turn.ongoing, &rate)
    }
}

/// The ways that each user may fill.
#[derive(Debug, Clone, Default)]
struct WayPartition {
    job: Vec<Ways>,
    others: Vec<Ways>,
}

impl WayPartition {
    fn to_job(&self, caches: &mut Hierarchy, cpu: usize) {
        Self::set(caches, cpu, &self.others, &self.job);
    }

    fn to_others(&self, caches: &mut Hierarchy, cpu: usize) {
        Self::set(caches, cpu, &self.job, &self.others);
    }

    fn set(caches: &mut Hierarchy, cpu: usize, before: &[Ways], after: &[Ways]) {
        for ways in before {
            caches.set_ways(cpu, ways.level, u32::MAX);
        }
        for ways in after {
            caches.set_ways(cpu, ways.level, ways.mask);
        }
    }
}

impl Hierarchy {
    /// Whether any cache has `line`.
    fn is_held(&self, line: LineNumber) -> bool {
        self.roots.iter().any(|&root| self.holds(root, line))
    }
}

/// Looks for lines of the job that are still in some cache.
struct Left<'a> {
    lines: &'a [LineNumber],
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
