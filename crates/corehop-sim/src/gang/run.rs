// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulation of gang threads: the thread with the earliest clock takes its next step.

use std::collections::{BTreeMap, BTreeSet};

use super::fork_join::{ForkJoinStep, ForkJoinTree};
use super::pages::GangPageSampler;
use super::program::{Act, MemoryLine, ThreadProgram, common_lines, own_lines, parallelism};
use super::seat::{self, CpuRunQueue, counts_of, gained};
use crate::machine_state::MachineState;
use crate::recipe::{Recipe, no_frames};
use crate::tags::LineNumber;
use crate::times::{Picos, picos};
use crate::walker::{Visit, WalkParameters};
use corehop_plan::experiment::{DrawStream, Gang, GangMove};
use corehop_plan::host::DataSharing;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Latency, Platform};
use corehop_plan::samples::{MemberCounts, MemberRecord};
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::Page;
use corehop_plan::workload::gang::{GangProgram, Sharing};

/// The instructions of one look at a taken lock: a pause, a load, a comparison and a jump.
const LOOK: u32 = 4;
/// The number of steps between two checks whether the run has to end.
const STEPS: u64 = 4_096;
/// The length of the pause between two looks at a lock, in cycles.
const LOOK_CYCLES: u64 = 20;

/// One thread of a gang.
pub(super) struct GangThread {
    /// The index of the thread's gang.
    pub(super) gang: usize,
    /// The thread's CPU, by the machine's numbering, and the index of its seat.
    pub(super) cpu: usize,
    pub(super) seat: usize,
    part: ThreadProgram,
    /// The lines of the common memory as this thread maps them, and of the thread's own memory.
    common: Vec<LineNumber>,
    own: Vec<LineNumber>,
    script: Vec<Act>,
    /// The index of the next act in the script.
    step: usize,
    /// The number of rounds that the thread has begun.
    pub(super) rounds: u64,
    pub(super) clock: Picos,
    pub(super) cycle: Picos,
    /// The time for which the thread slept or had no CPU.
    pub(super) away: Picos,
    /// Whether the thread sleeps until another thread wakes it.
    pub(super) asleep: bool,
    /// The thread's accesses before another thread last had the CPU, and the CPU's counters when the thread
    /// returned.
    earlier: MemberCounts,
    came: MemberCounts,
    instructions: u64,
    /// Whether the thread has found a lock taken and polls it.
    looking: bool,
    /// The thread's planned moves, last move first: the round before which the thread moves, and the target CPU.
    moves: Vec<(u64, usize, Picos)>,
    /// The thread's clock and access counts at the end of its warm-up.
    begin: Option<MemberAccount>,
    /// The thread's clock and access counts at its end.
    end: Option<MemberAccount>,
}

/// A reading of a thread's clock and access counts.
#[derive(Clone, Copy)]
struct MemberAccount {
    clock: Picos,
    counts: MemberCounts,
}

/// The state that the threads of a gang share.
pub(super) struct GangState {
    pub(super) gang: Gang,
    /// The index of the gang's first thread.
    first: usize,
    manner: WalkParameters,
    /// The locks that threads hold.
    locks: BTreeSet<u32>,
    /// The thread whose turn it is.
    turn: usize,
    /// The task trees of a fork-join program: one for all threads, or one for each thread.
    trees: Vec<ForkJoinTree>,
    /// For each line of the common memory, the last thread that fetched the line and the arrival time.
    arrivals: Vec<(usize, Picos)>,
    /// The gang's pages, if page sampling is on.
    pages: Vec<LineNumber>,
}

/// The simulation of gangs on one machine.
pub(super) struct GangSimulation {
    state: MachineState,
    pub(super) gangs: Vec<GangState>,
    pub(super) members: Vec<GangThread>,
    /// The CPUs in use, with their queues of threads.
    pub(super) seats: Vec<CpuRunQueue>,
    /// Whether threads share a CPU, so that all threads begin at the same time.
    take_turns: bool,
    /// Whether a thread that waits for its turn sleeps until the other thread wakes it; otherwise the thread polls.
    sleeps: bool,
    /// The number of wake-ups, by waking and woken thread.
    pub(super) wakes: BTreeMap<(usize, usize), u64>,
    /// The page sampler, if page sampling is on.
    sampler: Option<GangPageSampler>,
}

impl GangSimulation {
    /// Creates a simulation without gangs on the machine `state`.
    pub(super) fn new(state: MachineState, sleeps: bool) -> Self {
        Self {
            state,
            gangs: Vec::new(),
            members: Vec::new(),
            seats: Vec::new(),
            take_turns: false,
            sleeps,
            wakes: BTreeMap::new(),
            sampler: None,
        }
    }

    /// Adds a gang with its own random stream.
    ///
    /// # Errors
    /// Returns [`MachineError`] if the gang's data does not fit into memory, or a CPU's clock is not stated.
    pub(super) fn add(
        &mut self,
        recipe: &Recipe,
        gang: &Gang,
        (seed, stream): (u64, u64),
    ) -> Result<(), MachineError> {
        let home = self.state.node_of(recipe.place(gang.cpus[0]));
        let frames = &mut self.state.frames;
        let mut lines = |count: u64| -> Result<Vec<LineNumber>, MachineError> {
            let wss = Bytes::new((count * 64).next_multiple_of(4_096));
            let lines = frames.place(wss, Page::Base, home, None);
            let mut lines = lines.map_err(|error| no_frames(&error))?;
            lines.truncate(count as usize);
            Ok(lines)
        };
        let (number, first) = (self.gangs.len(), self.members.len());
        let threads = gang.cpus.len() as u64;
        let of_common = common_lines(&gang.program, threads);
        let common = lines(of_common)?;
        for (at, &cpu) in gang.cpus.iter().enumerate() {
            let copy = at > 0 && gang.sharing == Sharing::None;
            let draw = DrawStream::new(seed, stream ^ (at as u64 + 1) << 60);
            let common = if copy { lines(of_common)? } else { common.clone() };
            let own = lines(own_lines(&gang.program, threads))?;
            let part = ThreadProgram::new(&gang.program, (at as u64, threads), draw);
            let cpu_place = recipe.place(cpu);
            let seat = CpuRunQueue::take(&mut self.seats, cpu_place, first + at);
            let cycle = cycle(&recipe.platform, cpu)?;
            self.members.push(GangThread {
                gang: number,
                cpu: cpu_place,
                seat,
                part,
                common,
                own,
                script: Vec::new(),
                step: 0,
                rounds: 0,
                clock: 0,
                cycle,
                away: 0,
                asleep: false,
                earlier: MemberCounts::default(),
                came: MemberCounts::default(),
                instructions: 0,
                looking: false,
                moves: moves_of(recipe, gang, at)?,
                begin: None,
                end: None,
            });
        }
        let manner = manner(parallelism(&gang.program));
        // Lines that every thread has for itself never go to another thread.
        let contended = if gang.sharing == Sharing::Write { common.len() } else { 0 };
        self.gangs.push(GangState {
            gang: gang.clone(),
            first,
            manner,
            locks: BTreeSet::new(),
            turn: 0,
            trees: trees_of(gang),
            arrivals: vec![(0, 0); contended],
            pages: self.pages(gang, first),
        });
        self.take_turns = !self.sleeps && self.seats.len() < self.members.len();
        self.create(first);
        Ok(())
    }

    fn lines_of_page(&self) -> LineNumber {
        self.state.frames.lines_of(Page::Base)
    }

    /// The pages of the gang's common memory; `first` is the gang's first thread. Data sent through the operating
    /// system is in pages of the kernel.
    fn pages(&self, gang: &Gang, first: usize) -> Vec<LineNumber> {
        if !(self.sleeps && gang.program.has_own_pages()) {
            return Vec::new();
        }
        let lines = self.members[first..].iter().flat_map(|member| &member.common);
        let mut pages: Vec<LineNumber> = lines.map(|line| line / self.lines_of_page()).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Runs until no thread has a step before time `end`, or until the run has to end.
    pub(super) fn until(&mut self, end: Picos) {
        for step in 0_u64.. {
            let next = self.earliest().filter(|&at| self.members[at].clock < end);
            let Some(at) = next else { break };
            if step.is_multiple_of(STEPS) && self.state.is_over() {
                break;
            }
            self.step(at);
            self.hand_over(at);
        }
    }

    /// Runs all gangs to the end; None if the run had to end early.
    pub(super) fn run(mut self) -> Option<Vec<MemberRecord>> {
        self.until(Picos::MAX);
        let record = |member: &GangThread| member.record(&self.gangs[member.gang].gang);
        (!self.state.is_cut()).then(|| self.members.iter().map(record).collect())
    }

    /// Makes the last thread, as creator, write all data of its gang once; `first` is the gang's first thread.
    fn create(&mut self, first: usize) {
        let Some(creator) = self.members.last() else { return };
        let (cpu, common, gang) = (creator.cpu, creator.common.clone(), creator.gang);
        let own = self.members[first..].iter().flat_map(|member| member.own.clone());
        let manner = self.gangs[gang].manner;
        let lines = own.collect::<Vec<_>>().into_iter().chain(common);
        for (number, line) in (0_u64..).zip(lines) {
            if number.is_multiple_of(STEPS) && self.state.is_over() {
                break;
            }
            self.state.act(cpu, visit(&self.state, line, true), manner, 0);
        }
    }

    /// The running thread with the earliest next step; of several such threads, the thread with the lowest index.
    fn earliest(&self) -> Option<usize> {
        let running = self.seats.iter().filter_map(CpuRunQueue::running);
        running.min_by_key(|&at| (self.members[at].clock, at))
    }

    /// Passes the CPU of a thread to the next thread if the thread has ended, waits, or has used its slice.
    fn hand_over(&mut self, at: usize) {
        let member = &self.members[at];
        let (now, ended, asleep) = (member.clock, member.end.is_some(), member.asleep);
        let seat = &mut self.seats[member.seat];
        // One that was moved waits for its new CPU.
        if seat.running() != Some(at) {
            return;
        }
        if !(seat.is_over(now) || ended || asleep || member.looking) {
            return;
        }
        let next =
            if ended || asleep { seat.leave(at, now) } else { seat.next(now, member.looking) };
        if ended || asleep || next.is_some() {
            self.members[at].earlier = self.counts(at);
        }
        self.begin(next);
    }

    /// Starts the thread that takes over a CPU at the given time.
    fn begin(&mut self, next: Option<(usize, Picos)>) {
        let Some((next, begins)) = next else { return };
        let came = counts_of(self.state.caches().counters(self.members[next].cpu));
        let next = &mut self.members[next];
        next.came = came;
        next.away += begins.saturating_sub(next.clock);
        next.clock = next.clock.max(begins);
    }

    /// Wakes a thread if the thread sleeps.
    fn wake(&mut self, at: usize, by: usize) {
        if !self.members[at].asleep {
            return;
        }
        let now = self.members[by].clock;
        self.members[at].asleep = false;
        *self.wakes.entry((by, at)).or_default() += 1;
        let next = self.seats[self.members[at].seat].join(at, now);
        self.begin(next);
    }

    /// Moves a thread to another CPU.
    pub(super) fn take_to(&mut self, at: usize, cpu: usize, cycle: Picos) {
        let member = &self.members[at];
        let (now, asleep) = (member.clock, member.asleep);
        if !asleep {
            let runs = self.seats[member.seat].running() == Some(at);
            if runs {
                self.members[at].earlier = self.counts(at);
            }
            let next = self.seats[self.members[at].seat].leave(at, now);
            self.begin(next.filter(|_| runs));
        }
        let seat = CpuRunQueue::of_cpu(&mut self.seats, cpu);
        let member = &mut self.members[at];
        (member.cpu, member.seat, member.cycle) = (cpu, seat, cycle);
        if !asleep {
            let next = self.seats[seat].join(at, now);
            self.begin(next);
        }
    }

    /// Chooses new sampled pages for a window.
    pub(super) fn sample(&mut self, window: (Picos, Picos), draw: DrawStream) {
        let mut sampler = GangPageSampler::new(self.lines_of_page(), draw);
        for it in &self.gangs {
            sampler.sample(&it.pages, it.gang.cpus.len(), window);
        }
        self.sampler = Some(sampler);
    }

    /// Ends the window, and returns the sharing that its pages revealed.
    pub(super) fn sampled(&mut self, span: Picos, tid: impl Fn(usize) -> u32) -> Vec<DataSharing> {
        self.sampler.take().map_or_else(Vec::new, |it| it.seen(span, tid))
    }

    /// The working set of a thread in bytes: its own memory, and its share of the common memory.
    pub(super) fn working_set(&self, at: usize) -> u64 {
        let member = &self.members[at];
        let gang = &self.gangs[member.gang].gang;
        let sharers = if gang.sharing == Sharing::None { 1 } else { gang.cpus.len() };
        64 * (member.own.len() + member.common.len() / sharers) as u64
    }

    /// The access counts of a thread so far.
    pub(super) fn counted(&self, at: usize) -> MemberCounts {
        let member = &self.members[at];
        if self.seats[member.seat].running() == Some(at) {
            return self.counts(at);
        }
        MemberCounts { instructions: member.instructions, ..member.earlier }
    }

    /// The access counts so far of a thread that has its CPU.
    fn counts(&self, at: usize) -> MemberCounts {
        let member = &self.members[at];
        let now = counts_of(self.state.caches().counters(member.cpu));
        let all = seat::sum(&member.earlier, &gained(&member.came, &now));
        MemberCounts { instructions: member.instructions, ..all }
    }

    /// Takes the next step of a thread.
    fn step(&mut self, at: usize) {
        let member = &mut self.members[at];
        if member.step == member.script.len() {
            self.next_round(at);
            return;
        }
        let act = member.script[member.step];
        if let Some(arrival) = self.on_its_way(at, act) {
            self.members[at].clock = arrival;
            return;
        }
        let member = &mut self.members[at];
        // No thread locks or waits for data of its own, or for data that is only read.
        let common = &mut self.gangs[member.gang];
        let alone = common.gang.sharing != Sharing::Write;
        let number = at - common.first;
        match act {
            Act::Compute(instructions) => member.compute(instructions),
            Act::Decide(choice) => return self.decide(at, choice),
            Act::Load(place) => self.touch(at, place, AccessKind::Load),
            Act::Store(place) | Act::Unlock(_, place) | Act::Give(place) => {
                self.touch(at, place, AccessKind::Store);
            }
            Act::Update(place) => self.touch(at, place, AccessKind::Locked),
            Act::Lock(_, place) | Act::Take(place) if alone => {
                self.touch(at, place, AccessKind::Locked);
            }
            Act::Lock(lock, place) => {
                let free = !common.locks.contains(&lock);
                if !self.wait(at, place, free) {
                    // Who waits for a lock looks at it again and again.
                    self.members[at].instructions += u64::from(LOOK);
                    return;
                }
                self.gangs[self.members[at].gang].locks.insert(lock);
            }
            Act::Take(place) => {
                let its_turn = common.turn == number;
                if self.sleeps && !its_turn {
                    self.members[at].asleep = true;
                    return;
                }
                // Who waits for its turn is put to sleep by the system.
                if !self.wait(at, place, its_turn) {
                    return;
                }
            }
        }
        self.members[at].step += 1;
        let common = &mut self.gangs[self.members[at].gang];
        match act {
            Act::Unlock(lock, _) => _ = common.locks.remove(&lock),
            Act::Give(_) => {
                common.turn = (number + 1) % common.gang.cpus.len();
                let next = common.first + common.turn;
                self.wake(next, at);
            }
            _ => {}
        }
    }

    /// Replaces a thread's script by its next work; a thread without work looks again later.
    fn decide(&mut self, at: usize, choice: ForkJoinStep) {
        let member = &mut self.members[at];
        let common = &mut self.gangs[member.gang];
        let number = at - common.first;
        let tree = number.min(common.trees.len() - 1);
        let idle = common.trees[tree].decide(number, choice, &mut member.script);
        (member.step, member.looking) = (0, idle);
        if idle {
            member.instructions += u64::from(LOOK);
            member.clock += LOOK_CYCLES * member.cycle;
        }
    }

    /// The time at which the line of `act` arrives at the thread that fetches it; other threads cannot take the
    /// line before.
    fn on_its_way(&self, at: usize, act: Act) -> Option<Picos> {
        let Some(MemoryLine::Common(line)) = act.place() else { return None };
        let common = &self.gangs[self.members[at].gang];
        let (who, arrival) = *common.arrivals.get(line as usize)?;
        (who != at && arrival > self.members[at].clock).then_some(arrival)
    }

    /// Takes a lock or a turn by a locked instruction if the lock or turn is free; otherwise looks at its line,
    /// first by a locked instruction, then by loads. Returns whether the thread now has the lock or the turn.
    fn wait(&mut self, at: usize, place: MemoryLine, free: bool) -> bool {
        let looked = self.members[at].looking;
        if free || !looked {
            self.touch(at, place, AccessKind::Locked);
        } else {
            self.touch(at, place, AccessKind::Load);
        }
        let member = &mut self.members[at];
        member.looking = !free;
        if !free {
            member.clock += LOOK_CYCLES * member.cycle;
        }
        free
    }

    /// Ends a round, if any, and begins the next round.
    fn next_round(&mut self, at: usize) {
        let counts = self.counts(at);
        let member = &mut self.members[at];
        let gang = &self.gangs[member.gang].gang;
        let (warm_up, all) = (gang.warm_up, gang.warm_up.saturating_add(gang.rounds));
        let account = MemberAccount { clock: member.clock, counts };
        if member.rounds == warm_up && member.begin.is_none() {
            member.begin = Some(account);
            self.arrive(account.clock);
        }
        let waits = self.take_turns && self.members.iter().any(|it| it.begin.is_none());
        let member = &mut self.members[at];
        member.looking = waits && member.begin.is_some();
        if member.looking {
            member.clock += LOOK_CYCLES * member.cycle;
            return;
        }
        if member.rounds == all {
            member.end = Some(account);
            return;
        }
        let due = |&mut (after, ..): &mut (u64, usize, Picos)| after <= member.rounds;
        let to = member.moves.pop_if(due);
        member.rounds += 1;
        member.step = 0;
        member.part.round(&mut member.script);
        if let Some((_, cpu, cycle)) = to {
            self.take_to(at, cpu, cycle);
        }
    }

    /// Sets the start of all threads that share CPUs to the arrival of the last thread, because the run time of a
    /// thread that ends before another thread begins includes the other thread's time.
    fn arrive(&mut self, now: Picos) {
        if self.take_turns && self.members.iter().all(|it| it.begin.is_some()) {
            self.members
                .iter_mut()
                .filter_map(|it| it.begin.as_mut())
                .for_each(|it| it.clock = now);
        }
    }

    /// Makes one access of a thread to a line.
    fn touch(&mut self, at: usize, place: MemoryLine, touch: AccessKind) {
        let member = &self.members[at];
        let common = &self.gangs[member.gang];
        let (sharing, manner) = (common.gang.sharing, common.manner);
        let line = match place {
            MemoryLine::Common(line) => member.common[line as usize],
            MemoryLine::Own(line) => member.own[line as usize],
        };
        let written = touch != AccessKind::Load
            && (sharing != Sharing::Read || matches!(place, MemoryLine::Own(_)));
        let (cpu, clock) = (member.cpu, member.clock);
        let took = self.state.act(cpu, visit(&self.state, line, written), manner, clock);
        if let (Some(sampler), MemoryLine::Common(_), true) = (&mut self.sampler, place, written) {
            sampler.write((member.gang, at), line, clock);
        }
        let member = &mut self.members[at];
        if let MemoryLine::Common(line) = place
            && let common = &mut self.gangs[member.gang]
            && let Some(arrival) = common.arrivals.get_mut(line as usize)
        {
            *arrival = (at, clock + took * parallelism(&common.gang.program));
        }
        // A store waits in the store buffer and delays no thread.
        member.clock += if touch == AccessKind::Store { 0 } else { took };
    }
}

/// A kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Load,
    Store,
    /// A locked instruction: a store that the thread waits for.
    Locked,
}

impl GangThread {
    fn compute(&mut self, instructions: u32) {
        self.instructions += u64::from(instructions);
        self.clock += u64::from(instructions) * self.cycle;
    }

    /// The record of the thread between the end of its warm-up and its own end.
    fn record(&self, gang: &Gang) -> MemberRecord {
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return MemberRecord::default();
        };
        let member = gang.cpus.get(self.part.member() as usize);
        MemberRecord {
            cpu: member.copied().unwrap_or_default(),
            picos: end.clock - begin.clock,
            preempted: None,
            counts: Some(gained(&begin.counts, &end.counts)),
        }
    }
}

/// The planned moves of a thread, last move first.
fn moves_of(
    recipe: &Recipe,
    gang: &Gang,
    thread: usize,
) -> Result<Vec<(u64, usize, Picos)>, MachineError> {
    let to = |it: GangMove| -> Result<_, MachineError> {
        let after = gang.warm_up.saturating_add(it.after_rounds);
        Ok((after, recipe.place(it.cpu), cycle(&recipe.platform, it.cpu)?))
    };
    gang.moves_of(thread).into_iter().rev().map(to).collect()
}

/// The task trees of a gang: one for all threads, or one for each thread.
fn trees_of(gang: &Gang) -> Vec<ForkJoinTree> {
    let GangProgram::ForkJoin { number } = gang.program else { return Vec::new() };
    let (threads, alone) = (gang.cpus.len(), gang.sharing != Sharing::Write);
    let trees = if alone { threads } else { 1 };
    vec![ForkJoinTree::new(number, threads, alone); trees]
}

/// The walk parameters for accesses to small pages with this parallelism.
pub(super) const fn manner(parallelism: u64) -> WalkParameters {
    WalkParameters { parallelism: Some(parallelism * 1_000), ..WalkParameters::LINES }
}

/// A visit that loads a line or, if `written`, stores to the line.
pub(super) fn visit(state: &MachineState, line: LineNumber, written: bool) -> Visit {
    let page = line / state.frames.lines_of(Page::Base);
    Visit { line, reads: !written, writes: written, fetches: false, words: 0, page }
}

/// The duration of a clock cycle of a CPU.
pub(super) fn cycle(platform: &Platform, cpu: Cpu) -> Result<Picos, MachineError> {
    picos(platform, cpu, Latency::cycles(1)).map_err(|error| MachineError::NotPossible {
        what: format!("shared-data on {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    })
}
