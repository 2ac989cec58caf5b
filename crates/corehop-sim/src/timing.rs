// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a visit: address translation, the latency of its accesses, queues, and the prefetches that the visit
//! causes. The caches are simulated elsewhere; this module receives the outcomes of their accesses.

use corehop_plan::platform::{Distance, Home, Platform, Supplier, Traffic};

use super::frames::Frames;
use super::hierarchy::Hierarchy;
use super::outcome::AccessOutcome;
use super::prefetch::PrefetchEngine;
use super::remote_polluters::RemotePolluters;
use super::rows::OpenRows;
use super::servers::Servers;
use super::slices::SliceDistances;
use super::spec::SpecError;
use super::stays::{StayLedger, TlbOccupancy, User};
use super::tags::LineNumber;
use super::times::{CoreTimes, MOST_MISSED, MissParallelism, OutcomeTimes, Picos, nodes_of_cpus};
use super::tlb::TlbHierarchy;
use super::translation::{Lookup, MachineTlbs};
use super::walker::{Visit, WalkParameters};

/// The size in bytes of the pages whose boundaries prefetchers do not cross.
const BASE_PAGE: u64 = 4 << 10;

/// All state that the time of a visit depends on, except the caches.
#[derive(Debug, Clone)]
pub(super) struct VisitTiming {
    times: OutcomeTimes,
    pub(super) servers: Servers,
    rows: Option<OpenRows>,
    slices: Option<SliceDistances>,
    /// The prefetchers of each CPU.
    prefetchers: Vec<Vec<PrefetchEngine>>,
    pub(super) translation: MachineTlbs,
    /// The users of the TLBs; None unless a simulated visit represents several visits.
    stays: Option<TlbOccupancy>,
    /// The thread that ran last on each CPU; None if a switch keeps translations.
    threads: Vec<Option<User>>,
    /// The total time for which threads waited for address translation.
    pub(super) finding: Picos,
    /// The index of the node of each CPU.
    pub(super) nodes: Vec<usize>,
    /// The number of real lines that each simulated line represents.
    pub(super) weight: Picos,
    pub(super) remote_polluters: RemotePolluters,
    /// The time until which a locked access blocks all accesses beyond the innermost caches.
    pub(super) locked: Picos,
    /// The level of the outermost caches.
    last_level: u8,
    /// Whether a prefetcher also sees loads that hit.
    sees_loads: bool,
}

/// The state that the times of one CPU's visits with the same walk parameters depend on.
pub(super) struct VisitParameters<'a> {
    lookup: Lookup<'a>,
    /// The account of TLB look-ups, if one look-up represents several look-ups.
    ledger: Option<StayLedger<'a>>,
    /// See [`WalkParameters::any_page`].
    any_page: Option<Picos>,
    /// The times of the core at its usual clock, and while its clock may still be slow.
    core: [&'a CoreTimes; 2],
    servers: &'a mut Servers,
    rows: Option<&'a mut OpenRows>,
    slices: Option<&'a SliceDistances>,
    remote_polluters: &'a mut RemotePolluters,
    prefetchers: &'a mut [PrefetchEngine],
    finding: &'a mut Picos,
    cpu: usize,
    /// The index of the CPU's node.
    node: usize,
    weight: Picos,
    locked: Picos,
    last_level: u8,
    sees_loads: bool,
}

/// A copy of all state, except the caches, that the times of one CPU's visits depend on and change.
#[derive(Debug, PartialEq)]
pub(super) struct TimingImage {
    tlb: Option<TlbHierarchy>,
    prefetchers: Vec<PrefetchEngine>,
    /// The time until each server is free.
    waits: Vec<Picos>,
}

/// The counts of one CPU's visits with the same walk parameters.
#[derive(Debug)]
pub(super) struct TimingCounts {
    walks: u64,
    finding: Picos,
    /// The misses of each level of the CPU's TLB.
    misses: Vec<u64>,
    /// The total time for which each server was busy.
    busy: Vec<Picos>,
}

/// The state of a visit in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingVisit {
    pub(super) line: LineNumber,
    words: u32,
    reads: bool,
    fetches: bool,
    /// Whether the core's clock may still be slow.
    pub(super) waking: bool,
    /// The time at which the visit's accesses begin.
    at: Picos,
    /// The time that address translation took.
    found: Picos,
    latency: Picos,
    /// The number of cache levels that the access missed.
    missed: u8,
}

/// The core's scaling of the latencies of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct LatencyScaling {
    /// The core's own work for each access to a word.
    work: Picos,
    /// The number of misses in flight at once, in thousandths.
    under_way: MissParallelism,
    /// Whether the accesses that could be in flight are on the page under translation, so that all of them wait for
    /// the translation.
    by_page: bool,
    /// The extra time that the walk spends on each line.
    pause: Picos,
    /// The time of a hit in the innermost cache, which takes only cycles of the core.
    hit: Picos,
}

impl LatencyScaling {
    /// Converts `waking`, the duration of a part of a visit at the clock of `slow`, to the duration at the usual
    /// clock.
    #[inline(always)]
    pub(super) fn at_usual_clock(&self, waking: Picos, slow: &Self) -> Picos {
        waking * self.hit / slow.hit.max(1)
    }

    /// The part of a latency that keeps the thread waiting, for an access that missed `missed` levels.
    #[inline(always)]
    fn share(&self, time: Picos, missed: u8) -> Picos {
        let under_way = self.under_way[usize::from(missed) % MOST_MISSED];
        if under_way == 1_000 { time } else { time * 1_000 / under_way }
    }
}

/// The lines that prefetchers requested, each with the cache level to fill.
#[derive(Debug, Clone, Default)]
pub(super) struct PrefetchQueue {
    lines: Vec<(LineNumber, u32)>,
    at: Picos,
}

impl PrefetchQueue {
    /// Whether the prefetchers requested no line.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    #[cfg(test)]
    pub(super) fn ask<'a>(&mut self, lines: impl Iterator<Item = &'a (LineNumber, u32)>) {
        self.lines.extend(lines);
    }

    #[cfg(test)]
    pub(super) fn take(&mut self) -> Vec<(LineNumber, u32)> {
        std::mem::take(&mut self.lines)
    }

    /// Removes lines from the front while a cache of the target level or further in already has the line, because
    /// prefetching such a line has no effect. Returns whether no line is left.
    #[inline(always)]
    pub(super) fn skip_held(&mut self, is_held: impl Fn(LineNumber, u32) -> bool) -> bool {
        let held = self.lines.iter().take_while(|&&(line, level)| is_held(line, level)).count();
        self.lines.drain(..held);
        self.lines.is_empty()
    }
}

impl VisitTiming {
    /// Creates the timing state of a machine in which each line represents `weight` lines; prefetchers exist only
    /// if `weight` is 1.
    ///
    /// # Errors
    /// Returns [`SpecError`], which names the fact that the platform lacks or that cannot be simulated.
    pub(super) fn new(platform: &Platform, weight: Picos) -> Result<Self, SpecError> {
        let cpus = platform.cpus.value.len();
        let whole = weight == 1;
        let flushes = platform.core.switch_flushes_tlb.as_ref().is_some_and(|fact| fact.value);
        let ahead = if whole { PrefetchEngine::all_of(platform, BASE_PAGE) } else { Vec::new() };
        let sees_loads = ahead.iter().any(PrefetchEngine::sees_loads);
        Ok(Self {
            times: OutcomeTimes::from_platform(platform)?,
            servers: Servers::from_platform(platform, weight)?,
            rows: OpenRows::from_platform(platform, weight)?,
            slices: SliceDistances::from_platform(platform)?,
            prefetchers: vec![ahead; cpus],
            translation: MachineTlbs::from_platform(platform)?,
            stays: (!whole).then(|| TlbOccupancy::new(cpus)),
            threads: if flushes { vec![None; cpus] } else { Vec::new() },
            finding: 0,
            nodes: nodes_of_cpus(platform),
            weight,
            remote_polluters: RemotePolluters::new(cpus),
            locked: 0,
            last_level: platform.caches.iter().map(|cache| cache.level).max().unwrap_or(0) as u8,
            sees_loads,
        })
    }

    /// Resets the job-dependent timing state, because a new job begins.
    pub(super) fn begin_job(&mut self) {
        self.servers.begin_anew();
        if let Some(stays) = &mut self.stays {
            stays.begin_job();
        }
    }

    /// Gives `cpu` to the thread `to`. If a switch flushes the TLBs and `to` differs from the last thread, `to`
    /// starts with empty TLBs.
    pub(super) fn switch(&mut self, cpu: usize, to: User) {
        let Some(thread) = self.threads.get_mut(cpu) else { return };
        if thread.replace(to) != Some(to) {
            self.translation.flush(cpu);
            if let Some(stays) = &mut self.stays {
                stays.end(cpu);
            }
        }
    }

    /// Records that a walk of `user` on `cpu` begins.
    #[inline(always)]
    pub(super) fn begin_walk(&mut self, cpu: usize, user: User) {
        if let Some(stays) = &mut self.stays {
            stays.begin_walk(cpu, user);
        }
    }

    /// Lets the polluters that are reduced to server requests send their requests until `at`.
    #[inline(always)]
    pub(super) fn run_elsewhere(&mut self, at: Picos) {
        if !self.servers.is_empty() {
            self.remote_polluters.run(at, &mut self.servers);
        }
    }

    /// Returns the timing state for visits of `cpu` with these walk parameters; with `fetches`, visits execute
    /// lines.
    #[inline(always)]
    pub(super) fn course(
        &mut self,
        (cpu, user): (usize, User),
        manner: WalkParameters,
        fetches: bool,
    ) -> VisitParameters<'_> {
        let ledger = self.stays.as_mut().map(|stays| stays.of(cpu, user));
        VisitParameters {
            lookup: self.translation.on(cpu, manner.huge, fetches),
            // A page that is left when it has been walked through is found once, by whichever of its lines.
            ledger: ledger.filter(|_| !manner.by_page),
            any_page: manner.any_page,
            core: [self.times.on(cpu), self.times.waking_on(cpu)],
            servers: &mut self.servers,
            rows: self.rows.as_mut(),
            slices: self.slices.as_ref(),
            remote_polluters: &mut self.remote_polluters,
            prefetchers: &mut self.prefetchers[cpu],
            finding: &mut self.finding,
            cpu,
            node: self.nodes[cpu],
            weight: self.weight,
            locked: self.locked,
            last_level: self.last_level,
            sees_loads: self.sees_loads,
        }
    }

    /// Returns a copy of the state that the times of visits with these parameters depend on; None if that state
    /// changes with time or is too large.
    pub(super) fn image(
        &self,
        cpu: usize,
        manner: WalkParameters,
        fetches: bool,
        now: Picos,
    ) -> Option<TimingImage> {
        let plain = self.rows.is_none() && manner.any_page.is_none();
        let counted = self.stays.is_none() || manner.by_page;
        if !plain || !counted || self.locked > now || self.remote_polluters.act() {
            return None;
        }
        Some(TimingImage {
            tlb: self.translation.tlb(cpu, manner.huge, fetches).cloned(),
            prefetchers: self.prefetchers[cpu].clone(),
            waits: self.servers.waits(now)?,
        })
    }

    /// The counts so far of visits with this page size and use.
    pub(super) fn counts(&self, cpu: usize, huge: bool, fetches: bool) -> TimingCounts {
        let tlb = self.translation.tlb(cpu, huge, fetches);
        TimingCounts {
            walks: self.translation.walks(),
            finding: self.finding,
            misses: tlb.map(TlbHierarchy::misses).unwrap_or_default(),
            busy: self.servers.busy(),
        }
    }

    /// Adds the counts of visits between the two readings once more; the visits take `time`.
    pub(super) fn count_again(
        &mut self,
        way: (usize, bool, bool),
        [before, after]: &[TimingCounts; 2],
        time: Picos,
    ) {
        let walks = after.walks - before.walks;
        self.translation.count_again(way, walks, [&before.misses, &after.misses]);
        self.finding += after.finding - before.finding;
        self.servers.pass_again([&before.busy, &after.busy], time);
    }

    /// The latency scaling of `cpu` for a walk with these parameters.
    #[inline(always)]
    pub(super) fn rate(&self, cpu: usize, manner: WalkParameters, waking: bool) -> LatencyScaling {
        let times = if waking { self.times.waking_on(cpu) } else { self.times.on(cpu) };
        let most = times.outstanding * 1_000;
        let stated = manner.parallelism.map(|under_way| [under_way.clamp(1, most); MOST_MISSED]);
        LatencyScaling {
            work: times.work * self.weight,
            under_way: stated.unwrap_or(times.parallelism),
            by_page: manner.by_page,
            pause: manner.pause * self.weight,
            hit: times.of(&AccessOutcome::HIT, Home::Local),
        }
    }
}

impl VisitParameters<'_> {
    /// Lets the polluters that are reduced to server requests send their requests until `at`.
    #[inline(always)]
    pub(super) fn run_elsewhere(&mut self, at: Picos) {
        if !self.servers.is_empty() {
            self.remote_polluters.run(at, self.servers);
        }
    }

    /// Begins a visit at time `at`; `waking` means that the core's clock may still be slow.
    #[inline(always)]
    pub(super) fn begin(&mut self, visit: Visit, at: Picos, waking: bool) -> PendingVisit {
        let Visit { line, words, reads, fetches, page, .. } = visit;
        let mut found = self.lookup.of(page);
        if let Some(ledger) = &mut self.ledger {
            found = ledger.of(page, found, self.weight, self.any_page);
        }
        PendingVisit {
            line,
            words,
            reads,
            fetches,
            waking,
            at: at + found,
            found,
            latency: 0,
            missed: 0,
        }
    }

    /// Adds the outcome of one access to the visit. Lines that prefetchers request are added to `wanted`.
    #[inline(always)]
    pub(super) fn met(
        &mut self,
        visit: &mut PendingVisit,
        write: bool,
        outcome: AccessOutcome,
        frames: &Frames,
        wanted: &mut PrefetchQueue,
    ) {
        let core = self.core[usize::from(visit.waking)];
        let (time, waited) = if outcome.is_innermost_hit() {
            if self.sees_loads && !write && !visit.fetches {
                wanted.at = visit.at;
                self.look_ahead(visit.line, outcome, write, wanted);
            }
            (core.of(&outcome, Home::Local), 0)
        } else {
            let line = visit.line;
            let node = frames.home(line);
            let home = if node == self.node { Home::Local } else { Home::Remote };
            let stopped = self.locked.saturating_sub(visit.at);
            let (slice, by) = self.slice_of(line, outcome);
            let waited = stopped + self.queue(node, slice, outcome, visit.at + stopped);
            if write || !visit.fetches {
                wanted.at = visit.at + waited;
                self.look_ahead(line, outcome, write, wanted);
            }
            let sooner = self.sooner_by_its_row(node, line, outcome);
            (core.of(&outcome, home).saturating_add_signed(by).saturating_sub(sooner), waited)
        };
        // A write after a read waits in the store buffer and delays no access.
        if !(write && visit.reads) {
            visit.latency = time * self.weight + waited;
            visit.missed = self.missed(outcome);
        }
    }

    /// The slice of the last level that an access passes, and the deviation of its latency from the mean over all
    /// slices.
    #[inline(always)]
    fn slice_of(&self, line: LineNumber, outcome: AccessOutcome) -> (usize, i64) {
        match self.slices {
            Some(slices) if self.passes_last_level(outcome) => slices.of(self.cpu, line),
            _ => (0, 0),
        }
    }

    /// The number of levels that an access missed.
    #[inline(always)]
    fn missed(&self, outcome: AccessOutcome) -> u8 {
        match (outcome.supplier, outcome.distance) {
            (Supplier::Own, _) => outcome.level - 1,
            (Supplier::Peer, Distance::Core | Distance::L2) => 1,
            (Supplier::Peer, Distance::L3) => self.last_level - 1,
            _ => self.last_level,
        }
    }

    /// Whether the access reached the last level of cache.
    #[inline(always)]
    fn passes_last_level(&self, outcome: AccessOutcome) -> bool {
        outcome.supplier != Supplier::Own || outcome.level == self.last_level
    }

    /// The time that an access saves because its line is in an open row of memory.
    #[inline(always)]
    fn sooner_by_its_row(
        &mut self,
        node: usize,
        line: LineNumber,
        outcome: AccessOutcome,
    ) -> Picos {
        match &mut self.rows {
            Some(rows) if outcome.supplier == Supplier::Memory => rows.read(node, line),
            _ => 0,
        }
    }

    /// Ends the visit, and returns the time for which the visit keeps the thread.
    #[inline(always)]
    pub(super) fn end(&mut self, visit: &PendingVisit, rate: &LatencyScaling) -> Picos {
        let PendingVisit { words, found, latency, missed, .. } = *visit;
        let (walk, overlapped) = if rate.by_page { (found, 0) } else { (0, found) };
        *self.finding += walk + rate.share(overlapped, missed);
        let work = rate.work * Picos::from(words);
        rate.pause + walk + work.max(rate.share(overlapped + latency, missed))
    }

    /// Reports an access to the prefetchers that see such accesses, and collects their requests.
    #[inline(always)]
    fn look_ahead(
        &mut self,
        line: LineNumber,
        outcome: AccessOutcome,
        write: bool,
        wanted: &mut PrefetchQueue,
    ) {
        for prefetcher in &mut *self.prefetchers {
            let level = prefetcher.level();
            let inside = outcome.supplier == Supplier::Own && u32::from(outcome.level) < level;
            let unseen =
                if prefetcher.sees_loads() { write } else { inside || outcome.is_innermost_hit() };
            if unseen {
                continue;
            }
            prefetcher.access(line, |line| wanted.lines.push((line, level)));
        }
    }

    /// Brings the requested lines into the caches. The job spends no time on prefetches, but the prefetches pass
    /// through the servers.
    pub(super) fn bring(
        &mut self,
        wanted: &mut PrefetchQueue,
        caches: &mut Hierarchy,
        frames: &Frames,
    ) {
        for (line, level) in wanted.lines.drain(..) {
            if let Some(outcome) = caches.prefetch(self.cpu, line, level) {
                let (slice, _) = self.slice_of(line, outcome);
                self.queue(frames.home(line), slice, outcome, wanted.at);
            }
        }
    }

    /// Sends the traffic of an access through the servers, and returns the waiting time of the access itself.
    #[inline(always)]
    fn queue(&mut self, node: usize, slice: usize, outcome: AccessOutcome, at: Picos) -> Picos {
        if self.servers.is_empty() {
            return 0;
        }
        let cpu = self.cpu;
        self.remote_polluters.note(cpu, node, outcome);
        // Polluters elsewhere do not come to this one: what they wait there stays part of their pace.
        let port = if self.passes_last_level(outcome) {
            self.servers.pass_slice(slice, cpu, node, at)
        } else {
            0
        };
        port + self.queue_beyond(node, outcome, at + port)
    }

    /// Sends the traffic beyond the last level of cache through the servers, and returns the waiting time of the
    /// access itself.
    #[inline(always)]
    fn queue_beyond(&mut self, node: usize, outcome: AccessOutcome, at: Picos) -> Picos {
        let cpu = self.cpu;
        let mut waited = 0;
        if outcome.asked > 0 || outcome.farthest == Distance::Machine {
            waited += self.servers.pass(Traffic::Snoop, cpu, node, at);
        }
        // As at the port: polluters elsewhere do not come for each other's lines, so that what they wait for those is part
        // of their pace.
        let mut for_peers = 0;
        match outcome.supplier {
            Supplier::Memory => waited += self.servers.pass(Traffic::MemoryRead, cpu, node, at),
            Supplier::Peer => for_peers = self.servers.transfer(outcome.distance, cpu, node, at),
            Supplier::Own => {}
        }
        for _ in 0..outcome.written_back {
            // Posted: it occupies the server, and no access waits for it.
            self.servers.pass(Traffic::WriteBack, cpu, node, at + waited + for_peers);
        }
        self.remote_polluters.note_wait(cpu, waited);
        waited + for_peers
    }
}
