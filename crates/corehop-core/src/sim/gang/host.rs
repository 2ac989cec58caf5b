// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated host: gangs run on it, are observed from window to window, and moved.
//!
//! Of a kernel it has what placing meets: time slices, threads that sleep and are woken, sets of allowed CPUs,
//! and a balance of load that knows nothing of sharing. A thread whose CPUs are taken back returns to the CPU
//! that it had.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run::{Run, cycle};
use crate::experiment::{Gang, Gangs};
use crate::host::{Active, Activity, Contact, Host, HostError, Move, Observation, Receipt};
use crate::machine::MachineError;
use crate::platform::Platform;
use crate::sim::partitioning::Partitioning;
use crate::sim::recipe::Recipe;
use crate::sim::times::Picos;
use crate::units::{Cpu, CpuList};

/// The draws of a simulated host.
const STREAM: u64 = 3 << 48;
/// The number of the process that all threads are of, and of its first thread.
const PID: u32 = 1;

/// A thread, as the host knows it.
#[derive(Debug, Clone)]
struct Thread {
    allowed: CpuList,
    /// The time that it had run before the window.
    busy: Picos,
}

/// A simulated host on which gangs run without an end.
pub struct SimHost {
    recipe: Recipe,
    run: Run,
    threads: Vec<Thread>,
    now: Picos,
    /// The moves that are in force, by receipt: the CPU of each thread before.
    moves: BTreeMap<u64, Vec<(usize, Cpu)>>,
    next: u64,
}

impl std::fmt::Debug for SimHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimHost")
            .field("threads", &self.threads)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl SimHost {
    /// A host on which these gangs run, each thread on its CPU at first, and allowed on all.
    ///
    /// # Errors
    /// As [`SimMachine::new`](crate::sim::SimMachine::new), and where a gang is impossible on it.
    pub fn new(platform: Platform, gangs: &Gangs, seed: u64) -> Result<Self, MachineError> {
        gangs.check(&platform).map_err(crate::experiment::PlanError::from)?;
        let recipe = Recipe::new(platform, Partitioning::default())?;
        let mut state = recipe.idle_state(seed)?;
        state.frames.redraw(seed, STREAM);
        let mut run = Run::new(state, true);
        for (at, gang) in gangs.gangs.iter().enumerate() {
            let endless = Gang { warm_up: 0, rounds: u64::MAX, ..gang.clone() };
            run.add(&recipe, &endless, (seed, STREAM | (at as u64) << 24))?;
        }
        let allowed = recipe.platform.usable();
        let thread = |_: &_| Thread { allowed: allowed.clone(), busy: 0 };
        let threads = run.members.iter().map(thread).collect();
        Ok(Self { recipe, run, threads, now: 0, moves: BTreeMap::new(), next: 0 })
    }

    /// The CPU of every thread.
    pub fn cpus(&self) -> Vec<Cpu> {
        (0..self.threads.len()).map(|at| self.cpu_of(at)).collect()
    }

    fn cpu_of(&self, at: usize) -> Cpu {
        let cpus = &self.recipe.platform.cpus.value;
        cpus.iter().nth(self.run.members[at].cpu).unwrap_or_default()
    }

    /// The threads on a CPU, those that sleep among them.
    fn on(&self, cpu: Cpu) -> usize {
        let place = self.recipe.place(cpu);
        self.run.members.iter().filter(|member| member.cpu == place).count()
    }

    fn take_to(&mut self, at: usize, cpu: Cpu) -> Result<(), HostError> {
        let refused = |why: MachineError| HostError::Move {
            tid: tid(at),
            cpus: CpuList::new([cpu]),
            why: why.to_string(),
        };
        let cycle = cycle(&self.recipe.platform, cpu).map_err(refused)?;
        self.run.take_to(at, self.recipe.place(cpu), cycle);
        Ok(())
    }

    /// Of the CPUs that a thread may use the one with the fewest threads; its own where that is no worse.
    fn least_loaded(&self, at: usize) -> Option<Cpu> {
        let own = self.cpu_of(at);
        let load = |cpu: Cpu| (self.on(cpu) - usize::from(cpu == own), cpu != own, cpu);
        self.threads[at].allowed.iter().min_by_key(|&cpu| load(cpu))
    }

    /// Moves threads from CPUs that have two more than another to that one, as a kernel does.
    fn balance(&mut self) -> Result<(), HostError> {
        for at in 0..self.threads.len() {
            let Some(to) = self.least_loaded(at) else { continue };
            if self.on(self.cpu_of(at)) > self.on(to) + 1 {
                self.take_to(at, to)?;
            }
        }
        Ok(())
    }

    /// Lets a thread run on these CPUs, and takes it to one of them.
    fn allow(&mut self, at: usize, cpus: &CpuList) -> Result<(), HostError> {
        self.threads[at].allowed = cpus.clone();
        match self.least_loaded(at) {
            Some(to) if !cpus.contains(self.cpu_of(at)) => self.take_to(at, to),
            _ => Ok(()),
        }
    }

    fn activity(&mut self, span: Picos) -> Activity {
        let mut threads = Vec::new();
        for (at, member) in self.run.members.iter().enumerate() {
            let thread = &mut self.threads[at];
            // Who sleeps has slept since its own time; who waits for a CPU has waited.
            let busy = member.clock.min(self.now).saturating_sub(member.away);
            threads.push(Active {
                tid: tid(at),
                pid: PID,
                name: format!("{}-{at}", self.run.gangs[member.gang].gang.program.word()),
                busy_ns: busy.saturating_sub(thread.busy) / 1_000,
                allowed: thread.allowed.clone(),
                ..Active::default()
            });
            thread.busy = busy;
        }
        let contact =
            |((waker, woken), count)| Contact { waker: tid(waker), woken: tid(woken), count };
        let contacts = std::mem::take(&mut self.run.wakes).into_iter().map(contact).collect();
        let rounds: u64 = self.run.members.iter().map(|member| member.rounds).sum();
        Activity {
            span_ns: span / 1_000,
            threads,
            contacts,
            progress: Some(rounds as f64),
            ..Activity::default()
        }
    }
}

/// The number of a thread: no thread has 0.
fn tid(at: usize) -> u32 {
    PID + at as u32
}

/// The thread of a number.
fn number(tid: u32, threads: usize) -> Option<usize> {
    let at = tid.checked_sub(PID)? as usize;
    (at < threads).then_some(at)
}

impl Host for SimHost {
    fn observe(&mut self, window: Duration) -> Result<Observation, HostError> {
        self.balance()?;
        let span = Picos::try_from(window.as_nanos() * 1_000).unwrap_or(Picos::MAX);
        self.now = self.now.saturating_add(span);
        self.run.until(self.now);
        Ok(Observation { activity: Some(self.activity(span)), ..Observation::default() })
    }

    fn apply(&mut self, moves: &[Move]) -> Result<Receipt, HostError> {
        let (mut before, mut cpus) = (Vec::new(), Vec::new());
        for it in moves {
            let Some(at) = number(it.tid, self.threads.len()) else { continue };
            before.push(Move { tid: it.tid, cpus: self.threads[at].allowed.clone() });
            cpus.push((at, self.cpu_of(at)));
            self.allow(at, &it.cpus)?;
        }
        self.next += 1;
        self.moves.insert(self.next, cpus);
        Ok(Receipt { number: self.next, before })
    }

    fn revert(&mut self, receipt: Receipt) -> Result<(), HostError> {
        let cpus = self.moves.remove(&receipt.number).unwrap_or_default();
        for (it, (at, cpu)) in receipt.before.iter().zip(cpus) {
            self.threads[at].allowed = it.cpus.clone();
            self.take_to(at, cpu)?;
        }
        Ok(())
    }
}
