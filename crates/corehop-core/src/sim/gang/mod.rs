// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gangs on the simulated machine: threads that run together on common data.
//!
//! The earliest thread takes its next step, so loads, stores and locks of all threads reach the
//! caches in the order of simulated time. Threads of one CPU take turns. A run depends on the plan, the seed and its own number
//! alone: runs go side by side, and any number of threads gives the same records.

mod program;
mod seat;

use std::collections::BTreeMap;

use crate::experiment::{Draw, Gang, Gangs};
use crate::machine::{MachineError, RunEnd, Sink};
use crate::platform::{Latency, Platform};
use crate::samples::{Batch, GangRecord, MemberCounts, MemberRecord};
use crate::units::Bytes;
use crate::workload::Page;
use crate::workload::gang::Sharing;

use super::machine_state::MachineState;
use super::parallel::side_by_side;
use super::recipe::{Recipe, no_frames};
use super::tags::Line;
use super::times::{Picos, picos};
use super::walker::{Manner, Visit};
use program::{Act, MemoryLine, Part, common_lines, own_lines, parallelism};
use seat::{Seat, counts_of, gained};

/// The runs that are handed over together.
const AT_A_TIME: usize = 16;
/// One look at a lock that another has: a pause, a load, a comparison and a jump.
const LOOK: u32 = 4;
/// The length of the pause, in cycles.
const LOOK_CYCLES: u64 = 20;
/// The first stream of draws that gangs have for themselves.
const STREAMS: u64 = 1 << 48;

/// One thread.
struct Member {
    cpu: usize,
    part: Part,
    /// The lines of the common memory, as this thread has them, and of its own.
    common: Vec<Line>,
    own: Vec<Line>,
    script: Vec<Act>,
    /// The next step of the script.
    step: usize,
    /// The rounds that are over.
    rounds: u64,
    clock: Picos,
    cycle: Picos,
    /// Its accesses on its CPU before another thread had it last, and what the CPU had when it came back.
    earlier: MemberCounts,
    came: MemberCounts,
    instructions: u64,
    /// Whether it has found a lock taken, and looks at it.
    looking: bool,
    /// The counts at the end of its warm-up.
    begin: Option<Account>,
    /// The counts at its end.
    end: Option<Account>,
}

/// The time of a thread and its accesses.
#[derive(Clone, Copy)]
struct Account {
    clock: Picos,
    counts: MemberCounts,
}

/// A gang under way.
struct Run<'a> {
    gang: &'a Gang,
    state: MachineState,
    members: Vec<Member>,
    /// The CPUs in use.
    seats: Vec<Seat>,
    /// Whether some of them are shared.
    take_turns: bool,
    manner: Manner,
    /// The holder of each lock.
    locks: BTreeMap<u32, usize>,
    /// The thread whose turn it is.
    turn: usize,
    /// For every line of the common memory who fetched it last, and when it has it.
    arrivals: Vec<(usize, Picos)>,
}

impl Run<'_> {
    /// Runs to the end.
    fn run(mut self) -> Vec<MemberRecord> {
        self.create();
        while let Some(at) = self.earliest() {
            self.step(at);
            self.hand_over(at);
        }
        self.members.iter().map(|member| member.record(self.gang)).collect()
    }

    /// The last thread writes all data once, as their creator.
    fn create(&mut self) {
        let Some(creator) = self.members.last() else { return };
        let (cpu, common) = (creator.cpu, creator.common.clone());
        let own = self.members.iter().flat_map(|member| member.own.clone());
        for line in own.collect::<Vec<_>>().into_iter().chain(common) {
            self.state.act(cpu, self.visit(line, true), self.manner, 0);
        }
    }

    fn visit(&self, line: Line, written: bool) -> Visit {
        let page = line / self.state.frames.lines_of(Page::Base);
        Visit { line, reads: !written, writes: written, fetches: false, words: 0, page }
    }

    /// Of the threads that have their CPU the one with the earliest next step; of several the first.
    fn earliest(&self) -> Option<usize> {
        let running = self.seats.iter().filter_map(Seat::running);
        running.min_by_key(|&at| (self.members[at].clock, at))
    }

    /// Gives the CPU of a thread to the next one, where it has ended, waits, or has had its slice.
    fn hand_over(&mut self, at: usize) {
        let member = &self.members[at];
        let Some(seat) = self.seats.iter_mut().find(|seat| seat.running() == Some(at)) else {
            return;
        };
        let waits = member.looking;
        let next = seat.next(member.clock, member.end.is_some(), waits);
        let Some((next, begins)) = next else { return };
        let counts = self.counts(at);
        let came = counts_of(self.state.caches().counters(self.members[next].cpu));
        self.members[at].earlier = counts;
        let next = &mut self.members[next];
        next.came = came;
        next.clock = next.clock.max(begins);
    }

    /// The accesses of a thread so far; it has its CPU.
    fn counts(&self, at: usize) -> MemberCounts {
        let member = &self.members[at];
        let now = counts_of(self.state.caches().counters(member.cpu));
        let all = seat::sum(&member.earlier, &gained(&member.came, &now));
        MemberCounts { instructions: member.instructions, ..all }
    }

    /// The next step of a thread.
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
        let alone = self.gang.sharing != Sharing::Write;
        match act {
            Act::Compute(instructions) => member.compute(instructions),
            Act::Load(place) => self.touch(at, place, Touch::Load),
            Act::Store(place) | Act::Unlock(_, place) | Act::Give(place) => {
                self.touch(at, place, Touch::Store);
            }
            Act::Lock(_, place) | Act::Take(place) if alone => {
                self.touch(at, place, Touch::Locked);
            }
            Act::Lock(lock, place) => {
                let free = !self.locks.contains_key(&lock);
                if !self.wait(at, place, free) {
                    // Who waits for a lock looks at it again and again.
                    self.members[at].instructions += u64::from(LOOK);
                    return;
                }
                self.locks.insert(lock, at);
            }
            Act::Take(place) => {
                // Who waits for its turn is put to sleep by the system.
                if !self.wait(at, place, self.turn == at) {
                    return;
                }
            }
        }
        match act {
            Act::Unlock(lock, _) => _ = self.locks.remove(&lock),
            Act::Give(_) => self.turn = (at + 1) % self.members.len(),
            _ => {}
        }
        self.members[at].step += 1;
    }

    /// Until when a line that `act` is for is on its way to another thread: no thread takes it before it
    /// has arrived there.
    fn on_its_way(&self, at: usize, act: Act) -> Option<Picos> {
        let Some(MemoryLine::Common(line)) = act.place() else { return None };
        let (who, arrival) = *self.arrivals.get(line as usize)?;
        (who != at && arrival > self.members[at].clock).then_some(arrival)
    }

    /// Takes what is on a line by a locked instruction if it is free; otherwise looks at it, the first
    /// time by that instruction. Whether it has it now.
    fn wait(&mut self, at: usize, place: MemoryLine, free: bool) -> bool {
        let looked = self.members[at].looking;
        if free || !looked {
            self.touch(at, place, Touch::Locked);
        } else {
            self.touch(at, place, Touch::Load);
        }
        let member = &mut self.members[at];
        member.looking = !free;
        if !free {
            member.clock += LOOK_CYCLES * member.cycle;
        }
        free
    }

    /// One round is over, or the first begins.
    fn next_round(&mut self, at: usize) {
        let counts = self.counts(at);
        let (warm_up, all) = (self.gang.warm_up, self.gang.warm_up + self.gang.rounds);
        let member = &mut self.members[at];
        let account = Account { clock: member.clock, counts };
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
        member.rounds += 1;
        member.step = 0;
        member.part.round(&mut member.script);
    }

    /// Where threads take turns, the time of all begins with the last that arrives: a thread that is over
    /// before another begins had the other's time too.
    fn arrive(&mut self, now: Picos) {
        if self.take_turns && self.members.iter().all(|it| it.begin.is_some()) {
            self.members
                .iter_mut()
                .filter_map(|it| it.begin.as_mut())
                .for_each(|it| it.clock = now);
        }
    }

    /// One access of a thread to a line.
    fn touch(&mut self, at: usize, place: MemoryLine, touch: Touch) {
        let member = &self.members[at];
        let line = match place {
            MemoryLine::Common(line) => member.common[line as usize],
            MemoryLine::Own(line) => member.own[line as usize],
        };
        let written = touch != Touch::Load
            && (self.gang.sharing != Sharing::Read || matches!(place, MemoryLine::Own(_)));
        let (cpu, clock) = (member.cpu, member.clock);
        let took = self.state.act(cpu, self.visit(line, written), self.manner, clock);
        let member = &mut self.members[at];
        if let MemoryLine::Common(line) = place
            && let Some(arrival) = self.arrivals.get_mut(line as usize)
        {
            *arrival = (at, clock + took * parallelism(&self.gang.program));
        }
        // A store waits in the store buffer and delays no thread.
        member.clock += if touch == Touch::Store { 0 } else { took };
    }
}

/// A kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touch {
    Load,
    Store,
    /// A locked instruction: a store that is waited for.
    Locked,
}

impl Member {
    fn compute(&mut self, instructions: u32) {
        self.instructions += u64::from(instructions);
        self.clock += u64::from(instructions) * self.cycle;
    }

    /// The counts between its warm-up and its end.
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

/// One run of a gang, from a machine that has done nothing before.
fn run_of(
    recipe: &Recipe,
    gang: &Gang,
    seed: u64,
    (number, run): (usize, u32),
) -> Result<GangRecord, MachineError> {
    let stream = STREAMS | (number as u64) << 24 | u64::from(run);
    let mut state = recipe.idle_state(seed ^ stream)?;
    state.frames.redraw(seed, stream);
    let home = state.node_of(recipe.place(gang.cpus[0]));
    let mut lines = |count: u64| -> Result<Vec<Line>, MachineError> {
        let wss = Bytes::new((count * 64).next_multiple_of(4_096));
        let lines = state.frames.place(wss, Page::Base, home, None);
        let mut lines = lines.map_err(|error| no_frames(&error))?;
        lines.truncate(count as usize);
        Ok(lines)
    };
    let threads = gang.cpus.len() as u64;
    let common = lines(common_lines(&gang.program, threads))?;
    let mut members = Vec::new();
    for (at, &cpu) in gang.cpus.iter().enumerate() {
        let copy = at > 0 && gang.sharing == Sharing::None;
        let draw = Draw::new(seed, stream ^ (at as u64 + 1) << 60);
        members.push(Member {
            cpu: recipe.place(cpu),
            part: Part::new(&gang.program, (at as u64, threads), draw),
            common: if copy {
                lines(common_lines(&gang.program, threads))?
            } else {
                common.clone()
            },
            own: lines(own_lines(&gang.program, threads))?,
            script: Vec::new(),
            step: 0,
            rounds: 0,
            clock: 0,
            cycle: cycle(&recipe.platform, cpu)?,
            earlier: MemberCounts::default(),
            came: MemberCounts::default(),
            instructions: 0,
            looking: false,
            begin: None,
            end: None,
        });
    }
    let manner = Manner {
        parallelism: Some(parallelism(&gang.program) * 1_000),
        huge: false,
        by_page: false,
        pause: 0,
    };
    // Lines that every thread has for itself never go to another thread.
    let contended = if gang.sharing == Sharing::Write { common.len() } else { 0 };
    let seats = Seat::of(members.iter().map(|member| member.cpu));
    let run_of = Run {
        gang,
        state,
        take_turns: seats.len() < members.len(),
        seats,
        members,
        manner,
        locks: BTreeMap::new(),
        turn: 0,
        arrivals: vec![(0, 0); contended],
    };
    Ok(GangRecord { gang: number, run, replicate: None, exchange: None, members: run_of.run() })
}

/// A cycle of a CPU.
fn cycle(platform: &Platform, cpu: crate::units::Cpu) -> Result<Picos, MachineError> {
    picos(platform, cpu, Latency::cycles(1)).map_err(|error| MachineError::NotPossible {
        what: format!("shared-data on {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    })
}

/// Runs every gang, some runs side by side.
pub(super) fn run(
    recipe: &Recipe,
    gangs: &Gangs,
    seed: u64,
    sink: &mut dyn Sink,
) -> Result<RunEnd, MachineError> {
    let numbers = |gang: &Gang| gang.first_run..gang.first_run + gang.samples;
    let of_gang = |(at, gang)| numbers(gang).map(move |run| (at, run));
    let runs: Vec<(usize, u32)> = gangs.gangs.iter().enumerate().flat_map(of_gang).collect();
    for some in runs.chunks(AT_A_TIME) {
        let run = |at: usize| run_of(recipe, &gangs.gangs[some[at].0], seed, some[at]);
        for record in side_by_side(0..some.len(), run) {
            if !sink.take(Batch::Gangs(&[record?])).map_err(MachineError::Sink)? {
                return Ok(RunEnd::Stopped);
            }
        }
    }
    Ok(RunEnd::Complete)
}
