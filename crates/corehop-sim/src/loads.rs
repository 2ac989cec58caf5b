// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background loads of a phase, on the simulated machine.

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Fact, Latency};
use corehop_plan::units::{Bytes, CpuList};
use corehop_plan::workload::{Load, MovingProgram, Page, Pattern, Polluter, Transfer};

use super::actors::ActorRole;
use super::background::{Device, SplitLocks};
use super::machine_state::MachineState;
use super::recipe::Recipe;
use super::times::{Picos, picos};
use super::walker::Walker;

/// The size of a device's transfer, as in the live load.
const BLOCK: Bytes = Bytes::from_kib(256);
/// The size of a datagram and its copy, as in the live load.
const MESSAGES: Bytes = Bytes::from_kib(64);
/// The size of the memory that locked instructions access, as in the live load.
const LOCKED: Bytes = Bytes::from_kib(4);
/// The number of passes of polluters over their memory, or over as much memory as all caches hold if that is less,
/// before the snapshot of a loaded phase.
const LAPS: u64 = 2;
const FILLS: u64 = 8;
/// The longest time for which a machine runs under its load before the snapshot, in picoseconds: 100 ms.
const LONGEST_WARM_UP: Picos = 100_000_000_000;

/// The additional run time in which the machine measures each polluter's demand on the servers, in picoseconds: 1
/// ms.
const LEARNED_IN: Picos = 1_000_000_000;

impl Recipe {
    /// Returns a machine in a steady state under the load of a phase.
    pub(super) fn under(
        &self,
        load: &Load,
        every: u32,
        seed: u64,
        snapshot: usize,
    ) -> Result<MachineState, MachineError> {
        let Some(cpus) = load.cpus() else {
            return self.state(every, 0);
        };
        let stream = 1_000 + snapshot as u64;
        let mut state = self.state(every, seed ^ stream)?;
        let mut draw = DrawStream::new(seed, stream);
        let everywhere = self.platform.usable();
        let cpus: &CpuList = if cpus.is_empty() { &everywhere } else { cpus };
        let places: Vec<usize> = cpus.iter().map(|cpu| self.place(cpu)).collect();
        let memory = self.start(load, &places, &mut state, &mut draw)?;
        let lines = memory.get() / self.platform.line_size().get();
        let held = state.caches().lines() * u64::from(every);
        warm_up(&mut state, (lines * LAPS * cpus.len() as u64).min(held * FILLS));
        Ok(state)
    }

    /// Starts `load` on the CPUs at `places`. Returns the amount of memory that each thread of the load walks over
    /// before it restarts.
    ///
    /// # Errors
    /// Returns [`MachineError::NotPossible`], with the remedy, if the load cannot be simulated.
    fn start(
        &self,
        load: &Load,
        places: &[usize],
        state: &mut MachineState,
        draw: &mut DrawStream,
    ) -> Result<Bytes, MachineError> {
        match load {
            Load::Idle => Ok(Bytes::new(0)),
            Load::Constructed { polluter, .. } => {
                for &cpu in places {
                    let mut walker = self.polluter_on(state, cpu, polluter, draw)?;
                    walker.start_anywhere(draw);
                    state.add_actor(cpu, walker);
                }
                Ok(polluter.wss)
            }
            Load::Changing { program, .. } => {
                for &cpu in places {
                    let walker = self.changing_on(state, cpu, program, draw)?;
                    state.add_actor(cpu, walker);
                }
                Ok(program.window)
            }
            Load::Dma { transfer: Transfer::Direct, .. } => self.start_devices(places, state),
            Load::Dma { transfer: Transfer::Loopback, .. } => {
                let copying = Polluter { wss: MESSAGES, pattern: Pattern::Scan, write_ratio: 0.5 };
                for &cpu in places {
                    let walker = self.polluter_on(state, cpu, &copying, draw)?;
                    state.add_actor(cpu, walker);
                }
                Ok(MESSAGES)
            }
            Load::Buslock { split: false, .. } => self.start_locks(places, state),
            Load::Buslock { split: true, .. } => {
                let what = "the load `buslock` with split locks";
                let takes =
                    self.stated(what, "core.split_lock", self.platform.core.split_lock.as_ref())?;
                for &cpu in places {
                    let locks = SplitLocks::new(takes, places.len() as u64);
                    state.add(cpu, ActorRole::Locks(locks));
                }
                Ok(Bytes::new(0))
            }
            Load::Realistic { .. } => Err(MachineError::NotPossible {
                what: "the load `realistic`".to_owned(),
                why: "a simulated machine runs no programs of the host's".to_owned(),
                remedy:
                    "take `--load changing`, a program with a changing working set, or measure live"
                        .to_owned(),
            }),
        }
    }

    /// A time that a load needs and that the platform must state.
    fn stated(
        &self,
        what: &str,
        key: &str,
        fact: Option<&Fact<Latency>>,
    ) -> Result<Picos, MachineError> {
        let refused = |why: String| MachineError::NotPossible {
            what: format!("{what} on {}", self.platform.name),
            why,
            remedy: format!(
                "state `{key}` in a platform file of your own (`corehop sim platform {} --help`)",
                self.platform.id
            ),
        };
        let fact = fact.ok_or_else(|| refused(format!("`{key}` is not stated")))?;
        let cpu = self.platform.cpus.value.first().unwrap_or_default();
        picos(&self.platform, cpu, fact.value).map_err(|error| refused(error.to_string()))
    }

    /// Starts a device that serves the threads on all these CPUs; each thread has its own buffer.
    fn start_devices(
        &self,
        places: &[usize],
        state: &mut MachineState,
    ) -> Result<Bytes, MachineError> {
        let line =
            self.stated("the load `dma`", "memory.device", self.platform.memory.device.as_ref())?;
        for &cpu in places {
            let (lines, _) = self.memory_of_others(state, cpu, BLOCK, Page::Base)?;
            state.add(cpu, ActorRole::Moves(Device::new(lines, line * places.len() as u64)));
        }
        Ok(BLOCK)
    }

    /// Starts threads that all write the same lines with locked instructions.
    fn start_locks(
        &self,
        places: &[usize],
        state: &mut MachineState,
    ) -> Result<Bytes, MachineError> {
        let Some(&first) = places.first() else { return Ok(LOCKED) };
        let (lines, of_page) = self.memory_of_others(state, first, LOCKED, Page::Base)?;
        for &cpu in places {
            state.add_actor(cpu, Walker::of_locks(lines.clone(), of_page));
        }
        Ok(LOCKED)
    }

    /// The walk of a program with a changing working set. The program's memory is in huge pages, because randomly
    /// placed base pages would leave no free huge frame.
    fn changing_on(
        &self,
        state: &mut MachineState,
        cpu: usize,
        program: &MovingProgram,
        draw: &mut DrawStream,
    ) -> Result<Walker, MachineError> {
        let page = if self.colours[1].is_some() { Page::Base } else { Page::Transparent };
        let (lines, of_page) = self.memory_of_others(state, cpu, program.memory(), page)?;
        Ok(Walker::of_changing(program, lines, (page, of_page), draw))
    }
}

/// Runs the load until its threads have made `visits` visits, at most for [`LONGEST_WARM_UP`].
fn warm_up(state: &mut MachineState, visits: u64) {
    const STEP: Picos = 1_000_000_000;
    while state.visits() < visits && state.now() < LONGEST_WARM_UP {
        state.warm_up(STEP);
    }
    state.learn(LEARNED_IN);
}
