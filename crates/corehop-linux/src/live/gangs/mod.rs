// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs gangs on this host: threads that run simultaneously on shared data, in bursts.
//!
//! The threads of a gang stay alive from one run to the next. The threads start each run together behind a gate. A
//! run of a burst lasts less than a millisecond. CPU time lost to other threads shows in the run's switch count and
//! in the median over many runs, and the shortest run has lost none. The threads have the ordinary policy, so threads
//! on one CPU take turns as the kernel schedules them.

mod fork_join;
mod gate;
mod memory;
mod work;

use std::io;
use std::sync::Arc;

use corehop_plan::experiment::{Gang, Gangs};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::samples::{Batch, GangRecord, MemberRecord};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Cpu, CpuList};

use super::distance::{CpuPair, PairExchanges};
use super::{LiveMachine, failed};
use crate::memory::available_memory;
use crate::probe::pin;
use corehop_system::clock::TickClock;
use corehop_system::supervisor::interrupt;
use corehop_system::thread::usage;
use gate::GangBarrier;
use memory::{GangMemory, WrongResult};
use work::GangShare;

/// The largest number of runs between two measurements of the CPUs' distance.
const MOST_AT_ONCE: u32 = 64;

/// The reason why a gang was not measured.
#[derive(Debug, thiserror::Error)]
enum GangFailure {
    /// A thread or a channel was not available, or a channel failed.
    #[error("{0}")]
    Resources(#[from] io::Error),
    /// A CPU was not available.
    #[error("{0}")]
    Cpu(String),
    /// The final data differs from what the rounds must produce.
    #[error(transparent)]
    Result(#[from] WrongResult),
    /// A thread of the gang panicked.
    #[error("a thread of the gang panicked")]
    Panicked,
    /// The run was stopped.
    #[error("interrupted")]
    Stopped,
}

impl LiveMachine {
    /// Runs the gangs of a plan one after the other, and measures line exchanges between their CPUs before and after
    /// some runs.
    pub(super) fn run_gangs(
        &mut self,
        plan: &Gangs,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        self.park_partners()?;
        let usable = self.platform.usable();
        let (mut measured, mut before) = (Vec::new(), PairExchanges::default());
        let stop = sink.stop();
        for (number, gang) in plan.gangs.iter().enumerate() {
            enough_memory(gang)?;
            let pairs: Vec<CpuPair> = pair_of(gang, &usable).into_iter().collect();
            let mut first = 0;
            while first < gang.samples {
                if stop.is_asked() {
                    return Ok(RunEnd::Stopped);
                }
                if pairs != measured {
                    (before, measured) = (self.exchanges(&pairs), pairs.clone());
                }
                let some = MOST_AT_ONCE.min(gang.samples - first);
                let runs = match burst(gang, some, seed, (self.clock, &stop)) {
                    Ok(runs) => runs,
                    // What the threads waited for does not come any more.
                    Err(_) if stop.is_asked() => return Ok(RunEnd::Stopped),
                    Err(error) => return Err(failed(&gang.name(), error)),
                };
                let after = self.exchanges(&measured);
                let exchange =
                    pairs.first().map(|&(a, b)| PairExchanges::between(&before, &after, a, b));
                let record = |(run, members): (u32, Vec<MemberRecord>)| GangRecord {
                    gang: number,
                    run: gang.first_run + first + run,
                    replicate: Some(gang.replicate),
                    exchange,
                    members,
                };
                let records: Vec<GangRecord> = (0..some).zip(runs).map(record).collect();
                (before, first) = (after, first + some);
                if !sink.take(Batch::Gangs(&records)).map_err(MachineError::Sink)? {
                    return Ok(RunEnd::Stopped);
                }
            }
        }
        Ok(RunEnd::Complete)
    }
}

/// The two CPUs whose distance matters for a gang; for a gang on a single CPU, that CPU and another CPU.
fn pair_of(gang: &Gang, usable: &CpuList) -> Option<CpuPair> {
    let one = *gang.cpus.first()?;
    let other = gang.cpus.iter().copied().chain(usable.iter()).find(|&cpu| cpu != one)?;
    Some((one.min(other), one.max(other)))
}

/// Rejects data that would need more than half of the available memory.
fn enough_memory(gang: &Gang) -> Result<(), MachineError> {
    let (needs, half) = (GangMemory::bytes(gang), available_memory().get() / 2);
    if needs <= half {
        return Ok(());
    }
    Err(MachineError::NotPossible {
        what: format!("`{}`", gang.name()),
        why: format!(
            "the data of the program takes {} MiB, but may take at most half of the available memory, {} MiB",
            needs >> 20,
            half >> 20
        ),
        remedy: "use fewer --items".to_owned(),
    })
}

/// Executes several runs of a gang; returns the records of its threads for each run.
fn burst(
    gang: &Gang,
    runs: u32,
    seed: u64,
    (clock, stop): (TickClock, &Stop),
) -> Result<Vec<Vec<MemberRecord>>, GangFailure> {
    let memories = GangMemory::of(gang)?;
    let gate = Arc::new(GangBarrier::new(gang.cpus.len(), fewest_cpus(gang)));
    let of_threads = std::thread::scope(|scope| -> Result<Vec<_>, GangFailure> {
        let mut threads = Vec::new();
        for (member, memory) in memories.iter().enumerate() {
            let work = GangShare::new(gang, member, memory.clone(), gate.clone(), seed);
            let work = work.until(stop.clone());
            let name = std::thread::Builder::new().name(format!("gang-{member}"));
            let of = gate.clone();
            match name.spawn_scoped(scope, move || of_thread(gang, member, work, runs, clock)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    of.fail();
                    return Err(error.into());
                }
            }
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or(Err(GangFailure::Panicked))
        };
        threads.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
    })?;
    let rounds = u64::from(runs) * (gang.warm_up + gang.rounds);
    memories[0].check(gang, rounds)?;
    let of_run = |run: usize| of_threads.iter().map(|thread| thread[run]).collect();
    Ok((0..runs as usize).map(of_run).collect())
}

/// The smaller number of CPUs that a gang uses, before or after its threads are moved.
fn fewest_cpus(gang: &Gang) -> usize {
    let last = |thread: usize| gang.moves_of(thread).last().map_or(gang.cpus[thread], |it| it.cpu);
    let first = CpuList::new(gang.cpus.iter().copied());
    first.len().min(CpuList::new((0..gang.cpus.len()).map(last)).len())
}

/// Executes the runs of one thread of a gang.
fn of_thread(
    gang: &Gang,
    member: usize,
    mut work: GangShare,
    runs: u32,
    clock: TickClock,
) -> Result<Vec<MemberRecord>, GangFailure> {
    interrupt::keep_off_this_thread();
    let outcome = go_to(gang.cpus[member])
        .and_then(|()| (0..runs).map(|_| one_run(gang, member, &mut work, clock)).collect());
    if outcome.is_err() {
        work.give_up();
    }
    outcome
}

/// Executes one run: the warm-up, the gate, and the measured rounds.
fn one_run(
    gang: &Gang,
    member: usize,
    work: &mut GangShare,
    clock: TickClock,
) -> Result<MemberRecord, GangFailure> {
    let moves = gang.moves_of(member);
    if !moves.is_empty() {
        go_to(gang.cpus[member])?;
    }
    work.pass_gate()?;
    work.rounds(gang.warm_up)?;
    let before = usage();
    let begun = work.pass_gate()?;
    let mut done = 0;
    for it in moves {
        work.rounds(it.after_rounds - done)?;
        go_to(it.cpu)?;
        done = it.after_rounds;
    }
    work.rounds(gang.rounds - done)?;
    let took = clock.between(begun, corehop_system::clock::now()).max(0.0);
    let preempted = Some(usage().since(before).switches);
    let picos = (took * 1e3) as u64;
    Ok(MemberRecord { cpu: gang.cpus[member], picos, preempted, counts: None })
}

/// Moves the calling thread to a CPU.
fn go_to(cpu: Cpu) -> Result<(), GangFailure> {
    pin(cpu).map_err(|error| GangFailure::Cpu(error.to_string()))
}
