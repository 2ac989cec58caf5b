// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operating system's data: the lines that the system touches at a switch, without charging a task.

use std::collections::BTreeMap;

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Fact, Platform};
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Pattern, Polluter};

use super::machine_state::MachineState;
use super::recipe::Recipe;
use super::walker::Walker;

/// The sizes of the system's data on a CPU that a job leaves and on a CPU that a job gets; None if the platform
/// does not state the size.
pub(super) fn footprints(platform: &Platform) -> [Option<Bytes>; 2] {
    let core = &platform.core;
    let of = |fact: &Option<Fact<Bytes>>| fact.as_ref().map(|fact| fact.value);
    [of(&core.leave_footprint), of(&core.switch_footprint)]
}

/// The walks over the system's data, by CPU and size.
#[derive(Debug, Default)]
pub(super) struct SystemData(BTreeMap<(usize, Bytes), Walker>);

impl SystemData {
    /// Touches `size` bytes of the system's data of `cpu`.
    ///
    /// # Errors
    /// Returns [`MachineError`] if the simulated memory is full.
    pub(super) fn touch(
        &mut self,
        recipe: &Recipe,
        state: &mut MachineState,
        draw: &mut DrawStream,
        cpu: usize,
        footprint: Option<Bytes>,
    ) -> Result<(), MachineError> {
        let Some(wss) = footprint else { return Ok(()) };
        let data = Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.25 };
        let mut walker = match self.0.remove(&(cpu, wss)) {
            Some(walker) => walker,
            None => recipe.polluter_on(state, cpu, &data, draw)?,
        };
        state.touch_untimed(cpu, &mut walker);
        self.0.insert((cpu, wss), walker);
        Ok(())
    }
}
