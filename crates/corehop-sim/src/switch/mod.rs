// SPDX-License-Identifier: MIT OR Apache-2.0
//! Core switches on the simulated machine: the library's own mechanisms (`library`), and V1 to V5 of the kernel of
//! Strong et al. (2009), `strong-v1` to `strong-v5`, as sequences of events whose code and data go through the simulated
//! caches.
//!
//! A switch of that kernel has three steps. The source core hands the thread over. The target core notices the
//! hand-over by an interrupt that ends its sleep (V1 to V3), by polling (V4), or by an early wake-up (V5). The
//! target core then takes over the thread. A call switches there and back. The two cores never run at the same
//! time, except during the wake-up, which overlaps the hand-over.
//!
//! Every batch begins on a fresh machine, draws a random layout of the kernel's code, and makes some calls before
//! the timed calls.

mod latencies;
mod library;
mod load;
pub mod off_load;
mod paths;
#[cfg(test)]
mod tests;

use corehop_plan::experiment::{DrawStream, SwitchCell, Switches};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::platform::{Latency, Platform};
use corehop_plan::samples::{Batch, CallTimes, SwitchRecord, SwitchTimes};
use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};

use super::machine_state::MachineState;
use super::recipe::Recipe;
use super::tags::LineNumber;
use super::times::{Picos, picos};
use super::walker::{Visit, WalkParameters};
use corehop_plan::parallel::side_by_side;
use paths::{
    CALL, CODE_PER_STACK_LINE, ENTER, FLAG, HANDED_OVER, INTERRUPT, KernelPath, LEAVE, MIGRATE,
    PATHS, RUN, SCHEDULE_SOURCE, SCHEDULE_TARGET, STACK, STACK_ALIGNMENT, WAKE,
};

/// The number of batches whose results are delivered together.
const AT_A_TIME: usize = 16;
/// The number of calls before the timed calls (section 5.2 uses 100; the caches reach a steady state after a few).
const WARM_UP: u32 = 20;
/// The number of calls between two checks whether the run has to end.
const CALLS: u32 = 256;
/// The first random stream that belongs to core switches alone.
const STREAMS: u64 = 3 << 48;
/// The first line numbers of stacks, of handed-over data and of text.
const STACKS: LineNumber = 1 << 20;
const SHARED: LineNumber = (1 << 20) + (1 << 16);
const CODE: LineNumber = 1 << 21;
/// The number of a line that nothing else uses.
const SCRATCH: LineNumber = 1 << 22;

/// The walk parameters for one access at a time, because a kernel thread waits for each line.
const ONE_BY_ONE: WalkParameters =
    WalkParameters { parallelism: Some(1_000), ..WalkParameters::LINES };

/// The indices of the application core and the OS core.
const APPLICATION: usize = 0;
const OS: usize = 1;

/// A core with its timing parameters and stack.
struct SwitchCore {
    cpu: usize,
    /// The time of an instruction, including its hits in the first level.
    instruction: Picos,
    /// The time from the core's wake-up to its first instruction.
    wake_up: Picos,
    /// The time of a first-level hit, for data and for code, which is already part of an instruction's time.
    hit: [Picos; 2],
    /// The stack of the thread that runs on this core while the caller does not.
    other: LineNumber,
}

/// The simulation of switches between two cores.
struct SwitchMachine {
    state: MachineState,
    cores: [SwitchCore; 2],
    /// The code lines of each path.
    code: [Vec<LineNumber>; PATHS.len()],
    now: Picos,
}

impl SwitchMachine {
    fn new(
        recipe: &Recipe,
        [from, to]: [Cpu; 2],
        seed: u64,
        stream: u64,
    ) -> Result<Self, MachineError> {
        let mut state = recipe.idle_state(seed ^ stream)?;
        let mut now = 0;
        let mut core = |place: usize, cpu: Cpu| -> Result<SwitchCore, MachineError> {
            let instruction = instruction(&recipe.platform, cpu)?;
            let cpu_number = recipe.place(cpu);
            let mut hit = |fetches| {
                // The first access fetches the line.
                let first = state.act(cpu_number, visit(SCRATCH, false, fetches), ONE_BY_ONE, now);
                now += first;
                let again = state.act(cpu_number, visit(SCRATCH, false, fetches), ONE_BY_ONE, now);
                now += again;
                again
            };
            let hit = [hit(false), hit(true)];
            let wake_up = wake_up(&recipe.platform, cpu)?;
            let other = STACKS + (place as LineNumber + 1) * STACK_ALIGNMENT as LineNumber;
            Ok(SwitchCore { cpu: cpu_number, instruction, wake_up, hit, other })
        };
        let cores = [core(APPLICATION, from)?, core(OS, to)?];
        let code = laid_out(&mut DrawStream::new(seed, stream));
        Ok(Self { state, cores, code, now })
    }

    /// Makes one call, and returns its time.
    fn call(&mut self, mechanism: SwitchMechanism) -> Picos {
        let begun = self.now;
        self.execute(APPLICATION, CALL);
        if mechanism != SwitchMechanism::None {
            self.there_and_back(mechanism);
        }
        self.now - begun
    }

    /// Makes a switch there and a switch back, and returns the time of each.
    fn there_and_back(&mut self, mechanism: SwitchMechanism) -> [Picos; 2] {
        let begun = self.now;
        self.switch(mechanism, APPLICATION, OS);
        let there = self.now;
        self.switch(mechanism, OS, APPLICATION);
        [there - begun, self.now - there]
    }

    /// Makes one switch.
    fn switch(&mut self, mechanism: SwitchMechanism, source: usize, target: usize) {
        let mut awake = Picos::MAX;
        if mechanism == SwitchMechanism::StrongV5 {
            self.execute(source, WAKE);
            awake = self.now + self.cores[target].wake_up + self.meanwhile(target, FLAG);
        }
        self.execute(source, LEAVE);
        match mechanism {
            SwitchMechanism::StrongV1 => {
                self.execute(source, SCHEDULE_SOURCE);
                self.execute(source, MIGRATE);
            }
            SwitchMechanism::StrongV2 => self.execute(source, SCHEDULE_SOURCE),
            _ => {}
        }
        self.hand_over(source);
        match mechanism {
            SwitchMechanism::StrongV4 => {}
            SwitchMechanism::StrongV5 => {
                // A core that does not poll yet is sent an interrupt, which it serves once it is awake.
                let interrupted = awake > self.now;
                self.now = self.now.max(awake);
                if interrupted {
                    self.execute(target, INTERRUPT);
                }
            }
            _ => {
                self.now += self.cores[target].wake_up;
                self.execute(target, INTERRUPT);
            }
        }
        self.hand_over(target);
        self.execute(target, ENTER);
        if matches!(mechanism, SwitchMechanism::StrongV1 | SwitchMechanism::StrongV2) {
            self.execute(target, SCHEDULE_TARGET);
        }
    }

    /// Executes a path: its instructions, its code, and the stacks of the caller and of the other thread.
    fn execute(&mut self, core: usize, path: usize) {
        self.now += u64::from(PATHS[path].instructions) * self.cores[core].instruction;
        // A system call that does not switch uses one stack.
        let stacks = [STACKS, self.cores[core].other];
        let used = if path == CALL { 1 } else { 2 };
        for at in 0..PATHS[path].lines {
            let line = self.code[path][at as usize];
            self.access(core, line, false, true);
            for turn in 0..used {
                let stack = stacks[(at + turn) as usize % used as usize];
                let offset = (at / CODE_PER_STACK_LINE + turn) % STACK;
                self.access(core, stack + LineNumber::from(offset), false, false);
            }
        }
    }

    /// Executes a path while the other core continues, and returns the duration of the path.
    fn meanwhile(&mut self, core: usize, path: usize) -> Picos {
        let begun = self.now;
        self.execute(core, path);
        std::mem::replace(&mut self.now, begun) - begun
    }

    /// Writes the lines that go from core to core.
    fn hand_over(&mut self, core: usize) {
        for line in 0..HANDED_OVER {
            self.access(core, SHARED + 3 * line as LineNumber, true, false);
        }
    }

    /// Makes one access; adds no time for a first-level hit, which is part of its instruction.
    fn access(&mut self, core: usize, line: LineNumber, writes: bool, fetches: bool) {
        let it = &self.cores[core];
        let visit = visit(line, writes, fetches);
        let took = self.state.act(it.cpu, visit, ONE_BY_ONE, self.now);
        self.now += took.saturating_sub(it.hit[usize::from(fetches)]);
    }
}

fn visit(line: LineNumber, writes: bool, fetches: bool) -> Visit {
    Visit { line, reads: true, writes, fetches, words: 0, page: line / 64 }
}

/// The code lines of each path: runs of lines from one stretch of the kernel's text, in random order.
fn laid_out(draw: &mut DrawStream) -> [Vec<LineNumber>; PATHS.len()] {
    let runs_of = |path: &KernelPath| path.lines.div_ceil(RUN);
    let mut runs: Vec<LineNumber> = (0..PATHS.iter().map(runs_of).sum()).collect();
    draw.shuffle(&mut runs);
    let mut runs = runs.into_iter().map(|run| CODE + run * RUN);
    PATHS.map(|path| {
        let begins = runs.by_ref().take(runs_of(&path) as usize);
        begins.flat_map(|begin| begin..begin + RUN).take(path.lines as usize).collect()
    })
}

/// The time of an instruction on a CPU whose caches have all needed lines; one cycle if the platform states no
/// time.
fn instruction(platform: &Platform, cpu: Cpu) -> Result<Picos, MachineError> {
    match library::stated(platform, cpu, |core| core.instruction.as_ref())? {
        Some(stated) => Ok(stated),
        None => time(platform, cpu, Latency::cycles(1)),
    }
}

/// The time from the wake-up of a CPU to its first instruction; 0 if the platform states no time.
fn wake_up(platform: &Platform, cpu: Cpu) -> Result<Picos, MachineError> {
    Ok(library::stated(platform, cpu, |core| core.wake_up.as_ref())?.unwrap_or(0))
}

fn time(platform: &Platform, cpu: Cpu, latency: Latency) -> Result<Picos, MachineError> {
    picos(platform, cpu, latency).map_err(|error| MachineError::NotPossible {
        what: format!("core-switch on {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    })
}

/// Rejects a cell that only a real kernel can run.
fn check(cell: &SwitchCell) -> Result<(), MachineError> {
    let simulated =
        cell.call == SwitchCall::Gettid && cell.outstanding == 1 && !cell.mechanism.is_live_only();
    if simulated {
        return Ok(());
    }
    Err(MachineError::NotPossible {
        what: format!("`{}`", cell.name()),
        why: "a simulated machine runs only the call gettid, one call after the other, with the mechanisms none, v1 to v5 and strong-v1 to strong-v5"
            .to_owned(),
        remedy: "omit this cell, or use --on live".to_owned(),
    })
}

/// Runs one batch. Returns its times or the reason for which the times are unknown; None if the run had to end
/// early.
fn run_of(
    recipe: &Recipe,
    cell: &SwitchCell,
    seed: u64,
    batch: u64,
) -> Result<Option<SwitchTimes>, MachineError> {
    let states_call =
        || library::stated(&recipe.platform, cell.from, |core| core.system_call.as_ref());
    let here = cell.mechanism == SwitchMechanism::None && states_call()?.is_none();
    if !here && !cell.mechanism.is_strong() {
        return by_library(recipe, cell).map(Some);
    }
    let mut pair = SwitchMachine::new(recipe, [cell.from, cell.to], seed, STREAMS | batch)?;
    for _ in 0..WARM_UP {
        pair.call(cell.mechanism);
    }
    let mut each = Vec::new();
    for call in 0..cell.calls {
        if call.is_multiple_of(CALLS) && pair.state.is_over() {
            return Ok(None);
        }
        each.push(pair.call(cell.mechanism) as f64 / 1e3);
    }
    times_of(cell, each).map(Some)
}

/// The call times of a batch that uses a mechanism of the library: all calls take the same time.
fn by_library(recipe: &Recipe, cell: &SwitchCell) -> Result<SwitchTimes, MachineError> {
    let parts = library::LibrarySwitchTimes::new(recipe, [cell.from, cell.to])?;
    let back = library::LibrarySwitchTimes::new(recipe, [cell.to, cell.from])?;
    match parts.call(&back, cell.mechanism) {
        None => Ok(Err(library::unknown(&recipe.platform))),
        Some(picos) => times_of(cell, vec![picos as f64 / 1e3; cell.calls as usize]),
    }
}

fn times_of(cell: &SwitchCell, mut each: Vec<f64>) -> Result<SwitchTimes, MachineError> {
    let whole = each.iter().sum();
    CallTimes::of(whole, &mut each).map(Ok).ok_or_else(|| MachineError::Failed {
        what: format!("`{}`", cell.name()),
        why: "a batch has no calls".to_owned(),
    })
}

/// Runs every batch, with some batches in parallel.
pub(super) fn run(
    recipe: &Recipe,
    switches: &Switches,
    seed: u64,
    sink: &mut dyn Sink,
) -> Result<RunEnd, MachineError> {
    switches.cells.iter().try_for_each(check)?;
    let of_round = |round: &corehop_plan::experiment::SwitchRound| {
        let replicate = round.replicate;
        round.order.iter().map(move |&cell| (replicate, cell)).collect::<Vec<_>>()
    };
    let batches: Vec<(u32, usize)> = switches.rounds.iter().flat_map(of_round).collect();
    for (first, some) in (0..).step_by(AT_A_TIME).zip(batches.chunks(AT_A_TIME)) {
        // The mechanisms of a replicate meet the same layout, as they do in one kernel.
        let run = |at: usize| {
            let (replicate, cell) = some[at];
            run_of(recipe, &switches.cells[cell], seed, u64::from(replicate))
        };
        for (at, times) in side_by_side(0..some.len(), run).into_iter().enumerate() {
            let (replicate, cell) = some[at];
            let Some(times) = times? else { return Ok(RunEnd::Stopped) };
            let record = SwitchRecord {
                cell,
                batch: (first + at) as u64,
                replicate,
                start_ns: 0,
                stayed: 0,
                times,
                preempted: None,
                exchange: None,
            };
            if !sink.take(Batch::Switches(&[record])).map_err(MachineError::Sink)? {
                return Ok(RunEnd::Stopped);
            }
        }
    }
    Ok(RunEnd::Complete)
}
