// SPDX-License-Identifier: MIT OR Apache-2.0
//! The background loads of a phase, on the simulated machine.

use crate::experiment::Draw;
use crate::machine::MachineError;
use crate::platform::{Fact, Latency};
use crate::units::Bytes;
use crate::workload::{Changing, Load, Page, Pattern, Polluter, Transfer};

use super::actors::Role;
use super::background::{Device, SplitLocks};
use super::chunk::no_frames;
use super::machine::SimMachine;
use super::machine_state::MachineState;
use super::tags::Line;
use super::times::{Picos, picos};
use super::walker::Walker;

/// The unit of a device's transfers, as in the live load.
const BLOCK: Bytes = Bytes::from_kib(256);
/// A datagram and its copy, as the live load has them.
const MESSAGES: Bytes = Bytes::from_kib(64);
/// The lines that locked instructions go to, as the live load has them.
const LOCKED: Bytes = Bytes::from_kib(4);

impl SimMachine {
    /// Starts `load` on the CPUs at `places`; what each of its threads goes through before it begins again.
    ///
    /// # Errors
    /// [`MachineError::NotPossible`] where it cannot be simulated, with the remedy.
    pub(super) fn start(
        &self,
        load: &Load,
        places: &[usize],
        state: &mut MachineState,
        draw: &mut Draw,
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
                    state.add(cpu, Role::Locks(locks));
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

    /// A time that a load needs the platform to state.
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
                "state `{key}` in a platform file of your own (`corehop platform {} --help`)",
                self.platform.id
            ),
        };
        let fact = fact.ok_or_else(|| refused(format!("`{key}` is not stated")))?;
        let cpu = self.platform.cpus.value.first().unwrap_or_default();
        picos(&self.platform, cpu, fact.value).map_err(|error| refused(error.to_string()))
    }

    /// One device serves the threads on all these CPUs, each with a buffer of its own.
    fn start_devices(
        &self,
        places: &[usize],
        state: &mut MachineState,
    ) -> Result<Bytes, MachineError> {
        let line =
            self.stated("the load `dma`", "memory.device", self.platform.memory.device.as_ref())?;
        for &cpu in places {
            let (lines, _) = self.memory_of_others(state, cpu, BLOCK, Page::Base)?;
            state.add(cpu, Role::Moves(Device::new(lines, line * places.len() as u64)));
        }
        Ok(BLOCK)
    }

    /// Threads that all write the same lines.
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

    /// The walk of a program with a changing working set. Its memory is in huge pages: in base pages that
    /// lie anywhere it would leave no huge frame whole.
    fn changing_on(
        &self,
        state: &mut MachineState,
        cpu: usize,
        program: &Changing,
        draw: &mut Draw,
    ) -> Result<Walker, MachineError> {
        let page = if self.colours[1].is_some() { Page::Base } else { Page::Transparent };
        let (lines, of_page) = self.memory_of_others(state, cpu, program.memory(), page)?;
        Ok(Walker::of_changing(program, lines, (page, of_page), draw))
    }

    /// The lines of memory of somebody who is not the job, on the node of `cpu`, and how many are in a page.
    pub(super) fn memory_of_others(
        &self,
        state: &mut MachineState,
        cpu: usize,
        size: Bytes,
        page: Page,
    ) -> Result<(Vec<Line>, u32), MachineError> {
        let node = state.node_of(cpu);
        let lines = state.frames.place(size, page, node, self.colours[1].as_ref());
        Ok((lines.map_err(|error| no_frames(&error))?, state.frames.lines_of(page)))
    }
}
