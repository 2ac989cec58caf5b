// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's own mechanisms, V1 to V5 of `corehop-switch`, on a simulated machine.
//!
//! A switch to a polling partner (V4, and V5 while it polls) costs a line exchange and the instructions around the
//! exchange, each way. A switch to a sleeping partner (V2, V3, and V5 after polling) costs a wake-up by futex: the
//! call that wakes, the interrupt, the end of the idle state, and the switch to the woken thread. V1 moves the
//! thread: a system call, the migration thread, and the same wake-up.
//!
//! The exchange time of a pair is the shortest measured time that the platform states, because a busy host
//! lengthens the others; without a measurement the time comes from the simulated caches. The wake-up time is
//! `core.futex_wake`, or else `core.wake_up` plus the kernel's instructions around the wake-up. If the platform
//! states neither, the time of a mechanism that wakes a thread is unknown.

use crate::recipe::Recipe;
use crate::times::Picos;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Core as Stated, Fact, Latency, Platform};
use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::SwitchMechanism;

use super::paths::{CALL, PATHS};
use super::{ONE_BY_ONE, SHARED, instruction, time, visit};

/// The number of instructions around a line exchange: writing the request, finding the request by polling, and
/// executing the request (assumed).
const HAND_OFF: u64 = 60;
/// The number of instructions that V5 needs to account for the benefit of polling (assumed).
const ACCOUNT: u64 = 20;
/// The number of kernel instructions around the wake-up of a core: the futex, the interrupt, the scheduler
/// (assumed).
const WAKE: u64 = 6_000;
/// The number of instructions of the migration thread, which V1 runs on the core that the thread leaves (assumed).
const MIGRATE: u64 = 3_000;
/// The number of line exchanges of which the last counts.
const ROUNDS: u32 = 8;

/// The components of the time of the library's switches from one CPU to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct LibrarySwitchTimes {
    /// The time of an instruction.
    instruction: Picos,
    /// The time of a line exchange, one way.
    pub(super) exchange: Picos,
    /// The time of a system call without a switch.
    system_call: Picos,
    /// The time from a wake-up until the woken thread runs; None if the platform states no such time.
    wake: Option<Picos>,
}

impl LibrarySwitchTimes {
    /// Computes the components for switches from `from` to `to`.
    pub(super) fn new(recipe: &Recipe, [from, to]: [Cpu; 2]) -> Result<Self, MachineError> {
        let platform = &recipe.platform;
        let instruction = instruction(platform, from)?;
        let stated_call = stated(platform, from, |core| core.system_call.as_ref())?;
        let instructions = u64::from(PATHS[CALL].instructions);
        Ok(Self {
            instruction,
            exchange: exchange(recipe, [from, to])?,
            system_call: stated_call.unwrap_or(instructions * instruction),
            wake: wake(platform, to)?,
        })
    }

    /// The time of one switch by this mechanism; None if a component is unknown.
    pub(super) fn switch(&self, mechanism: SwitchMechanism) -> Option<Picos> {
        let polled = self.exchange + HAND_OFF * self.instruction;
        match mechanism {
            SwitchMechanism::V1 => Some(self.system_call + MIGRATE * self.instruction + self.wake?),
            SwitchMechanism::V2 | SwitchMechanism::V3 => {
                Some(self.wake? + HAND_OFF * self.instruction)
            }
            SwitchMechanism::V4 => Some(polled),
            SwitchMechanism::V5 => Some(polled + ACCOUNT * self.instruction),
            _ => None,
        }
    }

    /// The time of one switch to a core whose partner has stopped polling.
    pub(super) fn woken(&self) -> Option<Picos> {
        Some(self.wake? + HAND_OFF * self.instruction)
    }

    /// The time of a call with a switch there and back by a mechanism, or without a switch; None if a component is
    /// unknown.
    pub(super) fn call(&self, back: &Self, mechanism: SwitchMechanism) -> Option<Picos> {
        if mechanism == SwitchMechanism::None {
            return Some(self.system_call);
        }
        Some(self.system_call + self.switch(mechanism)? + back.switch(mechanism)?)
    }
}

/// Explains why the time of a mechanism that wakes a thread is unknown.
pub(super) fn unknown(platform: &Platform) -> String {
    format!(
        "{} states no wake-up: `corehop measure platform` on that host measures `core.futex_wake`, or add it or \
         `core.wake_up` to the platform file",
        platform.name
    )
}

/// A time stated for the core's kind, or else for all cores.
pub(super) fn stated<'a>(
    platform: &'a Platform,
    cpu: Cpu,
    of: impl Fn(&'a Stated) -> Option<&'a Fact<Latency>>,
) -> Result<Option<Picos>, MachineError> {
    let kind = platform.core_kinds.iter().find(|kind| kind.cpus.value.contains(cpu));
    let fact = kind.and_then(|kind| of(&kind.core)).or_else(|| of(&platform.core));
    fact.map(|fact| time(platform, cpu, fact.value)).transpose()
}

/// The time from the call that wakes a sleeping thread on `cpu` until the thread runs; None if the platform states
/// no such time.
pub(super) fn wake(platform: &Platform, cpu: Cpu) -> Result<Option<Picos>, MachineError> {
    if let Some(whole) = stated(platform, cpu, |core| core.futex_wake.as_ref())? {
        return Ok(Some(whole));
    }
    let hardware = stated(platform, cpu, |core| core.wake_up.as_ref())?;
    let kernel = WAKE * instruction(platform, cpu)?;
    Ok(hardware.map(|hardware| hardware + kernel))
}

/// The time of a line exchange, one way: as measured, or else from the simulated caches.
fn exchange(recipe: &Recipe, [from, to]: [Cpu; 2]) -> Result<Picos, MachineError> {
    let measured = recipe.platform.exchange.iter().flat_map(|fact| &fact.value);
    let of_pair = measured.clone().find(|it| (it.from, it.to) == (from, to));
    let of_pair = of_pair.or_else(|| measured.clone().find(|it| (it.from, it.to) == (to, from)));
    if let Some(exchange) = of_pair {
        return time(&recipe.platform, from, exchange.min);
    }
    let mut state = recipe.idle_state(0)?;
    let [from, to] = [from, to].map(|cpu| recipe.place(cpu));
    let (mut now, mut last) = (0, 0);
    for _ in 0..ROUNDS {
        let begun = now;
        let mut written = visit(SHARED, true, false);
        written.reads = false;
        now += state.act(from, written, ONE_BY_ONE, now);
        now += state.act(to, visit(SHARED, false, false), ONE_BY_ONE, now);
        last = now - begun;
    }
    Ok(last)
}
