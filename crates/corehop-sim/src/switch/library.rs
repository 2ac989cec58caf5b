// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's own mechanisms, V1 to V5 of `corehop-switch`, on a simulated machine.
//!
//! A polling partner (V4, and V5 while it polls) costs a line exchange and the instructions around it, each way. A partner that
//! sleeps (V2, V3, and V5 afterwards) costs a wake-up by futex: the call that wakes, the interrupt, the end of the idle
//! state, and the switch to the woken thread. V1 moves the thread: a system call, the migration thread, and the same wake-up.
//!
//! The exchange of a pair is the shortest that the platform states as measured, since a busy host lengthens the others, else
//! that of its simulated caches. The wake-up is
//! `core.futex_wake`, else `core.wake_up` with the kernel's instructions around it; where the platform states neither, the
//! time of a mechanism that wakes is not known.

use crate::recipe::Recipe;
use crate::times::Picos;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Core as Stated, Fact, Latency, Platform};
use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::SwitchMechanism;

use super::paths::{CALL, PATHS};
use super::{ONE_BY_ONE, SHARED, instruction, time, visit};

/// The instructions around a line exchange: the request is written down, found by the poll, and carried out. Assumed.
const HAND_OFF: u64 = 60;
/// The instructions that V5 takes for its account of what polling has brought. Assumed.
const ACCOUNT: u64 = 20;
/// The instructions of the kernel around the wake-up of a core: the futex, the interrupt, the scheduler. Assumed.
const WAKE: u64 = 6_000;
/// The instructions of the migration thread, which V1 needs on the core that the thread leaves. Assumed.
const MIGRATE: u64 = 3_000;
/// The exchanges before the one that counts.
const ROUNDS: u32 = 8;

/// The parts of the library's switches from one CPU to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct LibrarySwitchTimes {
    /// The time of an instruction.
    instruction: Picos,
    /// A line exchange, one way.
    pub(super) exchange: Picos,
    /// The call that does not switch.
    system_call: Picos,
    /// From a wake-up until the woken thread runs; None where the platform does not state it.
    wake: Option<Picos>,
}

impl LibrarySwitchTimes {
    /// Of switches from `from` to `to`.
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

    /// The time of one switch; None where a part of it is not known.
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

    /// The time of a call: by a mechanism there and back, or without a switch; None where a part of it is not known.
    pub(super) fn call(&self, back: &Self, mechanism: SwitchMechanism) -> Option<Picos> {
        if mechanism == SwitchMechanism::None {
            return Some(self.system_call);
        }
        Some(self.system_call + self.switch(mechanism)? + back.switch(mechanism)?)
    }
}

/// The reason for which the time of a mechanism that wakes is not known.
pub(super) fn unknown(platform: &Platform) -> String {
    format!(
        "{} states no wake-up: `corehop measure platform` on that host measures `core.futex_wake`, or add it or \
         `core.wake_up` to the platform file",
        platform.name
    )
}

/// A time of the core, of its kind or of all kinds.
pub(super) fn stated<'a>(
    platform: &'a Platform,
    cpu: Cpu,
    of: impl Fn(&'a Stated) -> Option<&'a Fact<Latency>>,
) -> Result<Option<Picos>, MachineError> {
    let kind = platform.core_kinds.iter().find(|kind| kind.cpus.value.contains(cpu));
    let fact = kind.and_then(|kind| of(&kind.core)).or_else(|| of(&platform.core));
    fact.map(|fact| time(platform, cpu, fact.value)).transpose()
}

/// From the call that wakes a thread on `cpu`, which sleeps, until the thread runs; None where the platform states nothing of it.
pub(super) fn wake(platform: &Platform, cpu: Cpu) -> Result<Option<Picos>, MachineError> {
    if let Some(whole) = stated(platform, cpu, |core| core.futex_wake.as_ref())? {
        return Ok(Some(whole));
    }
    let hardware = stated(platform, cpu, |core| core.wake_up.as_ref())?;
    let kernel = WAKE * instruction(platform, cpu)?;
    Ok(hardware.map(|hardware| hardware + kernel))
}

/// A line exchange, one way: as measured, or in the simulated caches.
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
