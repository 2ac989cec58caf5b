// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine in motion: one measured job, the polluters beside it, and time.
//!
//! The thread with the earliest clock acts next, so requests reach the caches and the servers exactly in the order
//! of simulated time. Time is in whole picoseconds.

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

/// The sampling factor from which on the host's own caches hold all simulated sets.
const FITS: Picos = 8;

/// The number of visits by other threads after which the simulation checks again whether any cache still holds a
/// line of the job.
const LOOK_EVERY: u32 = 2_048;
/// The number of visits between two checks whether the run has to end; at most some 10 ms of host time.
const STOP_EVERY: u32 = 16_384;
/// The number of turns of the job and of others between two checks whether the run has to end; each turn has a
/// limited number of visits.
const TURNS: u64 = 64;

/// The caches, servers and threads of a simulated machine. A clone of the state is a snapshot of the machine.
#[derive(Debug, Clone)]
pub struct MachineState {
    caches: Hierarchy,
    timing: VisitTiming,
    shares: WayPartition,
    /// The physical memory of the machine.
    pub frames: Frames,
    actors: Actors,
    /// The CPU on which the job ran last.
    last: Option<usize>,
    now: Picos,
    package_clock: PackageClock,
    /// The lines that prefetchers requested during the current visit; empty between two visits.
    wanted: PrefetchQueue,
    /// Whether the run has to end.
    stop: Stop,
    /// Whether the simulation left something undone because the run had to end.
    is_cut: bool,
}

impl MachineState {
    /// Creates an empty machine; `seed` decides frames and random replacement. The machine simulates one in `every`
    /// of its cache sets (a power of two; 1 simulates all sets), or as few as the platform's caches allow; the time
    /// of one simulated line then counts `every` times. Prefetchers need whole pages, so they are off in a sampled
    /// machine.
    ///
    /// # Errors
    /// Returns [`SpecError`], which names the fact that the platform lacks or that cannot be simulated.
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

    /// Makes all long operations end early once `stop` is requested.
    pub(super) fn heed(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    /// Whether the run has to end. The function marks the state as cut short if the run has to end.
    pub(super) fn is_over(&mut self) -> bool {
        self.is_cut = self.is_cut || self.stop.is_asked();
        self.is_cut
    }

    /// Whether the simulation left something undone because the run had to end; the results are then worthless.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Partitions the caches from now on; `job` lists the ways that the job may fill on its current CPU, and
    /// `others` lists the ways for all other users.
    pub fn share(&mut self, job: &[Ways], others: &[Ways]) {
        self.shares = WayPartition { job: job.to_vec(), others: others.to_vec() };
        for cpu in 0..self.timing.nodes.len() {
            self.shares.to_others(&mut self.caches, cpu);
        }
    }

    /// Draws later frames and drifting service times from the random stream `stream`.
    pub(super) fn redraw(&mut self, seed: u64, stream: u64) {
        self.frames.redraw(seed, stream);
        self.timing.servers.redraw(seed, stream);
    }

    /// The simulated time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// The caches of the machine.
    pub fn caches(&self) -> &Hierarchy {
        &self.caches
    }

    /// The index of the node of `cpu`.
    pub fn node_of(&self, cpu: usize) -> usize {
        self.timing.nodes[cpu]
    }

    /// Starts a thread that walks on `cpu` from now on, whenever the job does not have that CPU.
    pub fn add_actor(&mut self, cpu: usize, walker: Walker) {
        self.add(cpu, ActorRole::Walks(walker));
    }

    /// Starts an actor with this role on `cpu`.
    pub fn add(&mut self, cpu: usize, role: ActorRole) {
        self.actors.add(cpu, self.caches.root_of(cpu), role, self.now);
    }

    /// Gives `cpu` to a preemptor, which runs there alone from now on.
    pub fn preempt(&mut self, cpu: usize, walker: Walker) {
        self.actors.preempt(cpu, self.caches.root_of(cpu), walker, self.now);
    }

    /// Ends the preemptor on `cpu`, and returns its walker with the number of lines visited. The package then
    /// counts as awake until now, because the preemptor has kept it awake.
    pub fn end_preemption(&mut self, cpu: usize) -> Option<(Walker, u64)> {
        let (walker, visits) = self.actors.remove(cpu, self.now)?;
        self.package_clock.leave(cpu, self.now);
        Some((walker, visits * self.timing.weight))
    }

    /// The number of lines that all actors have visited.
    pub fn visits(&self) -> u64 {
        self.actors.visits() * self.timing.weight
    }

    /// Gives `cpu` to the job, so that an actor that walks there waits. The simulation reduces an actor to its
    /// queues if the job shares no cache with the actor, neither now nor before, because the job then notices only
    /// the actor's queues.
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

    /// Gives `cpu` to a new job, as [`MachineState::take_cpu`] does; the CPU of a new job is already awake.
    pub fn begin_on(&mut self, cpu: usize) {
        self.timing.begin_job();
        self.take_cpu(cpu);
        self.package_clock.is_up();
    }

    /// Records that a walk of `user` begins on `cpu`.
    #[inline]
    pub(super) fn begin_walk(&mut self, (cpu, user): (usize, User)) {
        self.timing.begin_walk(cpu, user);
    }

    /// Switches `cpu` to the thread `to`.
    pub(super) fn switch(&mut self, cpu: usize, to: User) {
        self.timing.switch(cpu, to);
    }

    /// Flushes these lines from all caches.
    pub fn flush(&mut self, lines: &[LineNumber]) {
        for (at, &line) in lines.iter().enumerate() {
            if let Some(&later) = lines.get(at + AHEAD) {
                self.caches.expect(0, later);
            }
            self.caches.flush(line);
        }
    }

    /// Removes each of these lines from all caches with probability `share`, as if other users of the host had
    /// evicted the line.
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

    /// Makes the job walk once over its working set on `cpu`, from the beginning of the set.
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

    /// Makes the job walk as [`MachineState::walk`] does, in a pass that directly follows the passes of `steady`. A
    /// pass that must repeat the previous pass exactly is not simulated.
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

    /// Lets the job make at most `left` visits until another thread acts, and returns the number of visits still to
    /// make.
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

    /// Makes one visit of a gang's thread at time `at`; no later call may be earlier. Returns the time for which
    /// the visit keeps the thread.
    pub fn act(&mut self, cpu: usize, visit: Visit, manner: WalkParameters, at: Picos) -> Picos {
        self.act_as((cpu, User::Others), visit, manner, at)
    }

    /// Makes one visit as [`MachineState::act`] does, on behalf of a stated user of the CPU's TLBs.
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

    /// Gives `cpu` to a task from time `at` on, so that an actor that walks there waits. No later call may be
    /// earlier than `at`.
    pub fn occupy(&mut self, cpu: usize, at: Picos) {
        self.run_until(at);
        self.actors.take(cpu, self.now);
        self.shares.to_job(&mut self.caches, cpu);
    }

    /// Takes `cpu` from its task at time `at`. No later call may be earlier than `at`.
    pub fn vacate(&mut self, cpu: usize, at: Picos) {
        self.run_until(at);
        if self.actors.any(|other| other == cpu) {
            self.switch(cpu, User::Others);
        }
        self.actors.give_back(cpu, self.now);
        self.shares.to_others(&mut self.caches, cpu);
    }

    /// Lets all other actors act until the time `at`.
    pub fn run_until(&mut self, at: Picos) {
        self.run_others(at);
        self.now = self.now.max(at);
    }

    /// The number of lines that accesses of `cpu` fetched from beyond the CPU's own last level of cache.
    pub fn misses(&self, cpu: usize) -> u64 {
        self.caches.counters(cpu).last_level_misses() * self.timing.weight
    }

    /// Walks once over the operating system's data, in zero simulated time. The accesses bypass the queues, because
    /// otherwise all lines would be requested at the same instant.
    pub fn touch_untimed(&mut self, cpu: usize, walker: &mut Walker) {
        let servers = std::mem::take(&mut self.timing.servers);
        walker.restart();
        for _ in 0..walker.visits() {
            let visit = walker.visit();
            self.visit((cpu, User::Others), visit, walker.manner(), self.now);
        }
        self.timing.servers = servers;
    }

    /// Makes the job walk until its working set reaches a steady state in the caches.
    pub(super) fn settle(&mut self, cpu: usize, walker: &mut Walker, steady: &mut SteadyPasses) {
        let mut rest = SteadyStateTest::new();
        for _ in 0..SteadyStateTest::MOST_PASSES {
            if rest.is_reached_by(self.walk_on(cpu, walker, steady).picos as f64) || self.is_cut {
                break;
            }
        }
    }

    /// Advances time by `length` while the job is off its CPU and other threads run. Once no cache holds any of the
    /// job's `lines`, the rest of the time is skipped because nothing more can be lost.
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

    /// Runs the machine without the job for the whole of `length`.
    pub fn warm_up(&mut self, length: Picos) {
        self.release();
        self.actors.set(None, None, self.now);
        self.timing.remote_polluters.send([], self.now);
        self.now += length;
        self.run_others(self.now);
    }

    /// Runs the machine without the job for `length`, and records each thread's demand on the servers.
    pub fn learn(&mut self, length: Picos) {
        if !self.timing.servers.is_empty() {
            self.timing.remote_polluters.begin(self.now);
            self.warm_up(length);
            self.timing.remote_polluters.end(self.now);
        }
    }

    /// Resumes the actors that waited for the job to leave its CPU.
    fn release(&mut self) {
        if let Some(cpu) = self.actors.release(self.now) {
            self.package_clock.leave(cpu, self.now);
            self.shares.to_others(&mut self.caches, cpu);
        }
    }

    /// Moves all clocks on by `time` without simulating the time.
    fn skip(&mut self, time: Picos) {
        self.actors.skip(time);
        self.timing.remote_polluters.skip(time);
        self.timing.servers.skip(time);
        self.timing.locked += time;
    }

    /// Lets all other actors act until the time `until`.
    #[inline]
    fn run_others(&mut self, until: Picos) {
        while !self.is_cut && self.run_some(until, STOP_EVERY).is_some() {
            self.is_over();
        }
    }

    /// Lets other threads act at most `most` times. Returns the time at which the next thread would act, if that is
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

    /// Simulates a device that moves a line: a line that the device writes leaves all caches, and modified data of
    /// a line that the device reads goes to memory first.
    fn transfer(&mut self, cpu: usize, transfer: Transfer, at: Picos) -> Picos {
        let node = self.frames.home(transfer.line);
        self.caches.flush(transfer.line);
        let traffic = if transfer.writes { Traffic::WriteBack } else { Traffic::MemoryRead };
        self.timing.servers.pass(traffic, cpu, node, at);
        transfer.takes * self.timing.weight
    }

    /// Makes one visit at time `at`, and returns the time for which the visit keeps the thread.
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

/// The cache ways that the job and the other users may fill.
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

/// Searches for lines of the job that are still in some cache.
struct Left<'a> {
    lines: &'a [LineNumber],
    /// The index of a line that a cache held at the last check; the next check starts there.
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
