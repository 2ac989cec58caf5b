// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings and stored samples for simulating studies.

use std::collections::BTreeMap;

use super::ValidationError;
use super::aim::Samples;
use super::tables::TableStudy;
use corehop_plan::machine::{MachineError, samples_of};
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_sim::SimMachine;

/// The settings with which studies are simulated, and the samples of tables that several studies need.
#[derive(Debug)]
pub struct Lab {
    pub(super) seed: u64,
    pub(super) samples: Option<u32>,
    exact: bool,
    pub(super) passes: Option<u32>,
    tables: BTreeMap<String, Vec<Sample>>,
}

impl Lab {
    /// Creates a lab with the random `seed`. Each value has `samples` samples, or the study's number of samples if
    /// `samples` is `None`; `exact` simulates every set of every cache for working sets of any size.
    pub fn new(seed: u64, samples: Option<u32>, exact: bool) -> Self {
        Self { seed, samples, exact, passes: None, tables: BTreeMap::new() }
    }

    /// Sets the number of additional passes before warm touches in tables, replacing the studies' numbers.
    #[must_use]
    pub fn passing(self, passes: Option<u32>) -> Self {
        Self { passes, ..self }
    }

    /// The number of simulated samples of a value, and the number that the study requires.
    pub(super) fn samples(&self, takes: u32) -> Samples {
        Samples { have: self.samples.unwrap_or(takes), takes }
    }

    pub(super) fn machine(&self, platform: &Platform) -> Result<SimMachine, MachineError> {
        let machine = SimMachine::new(platform.clone())?;
        Ok(if self.exact { machine } else { machine.sampled() })
    }

    /// Simulates a table, unless its samples are already stored.
    pub(super) fn simulate(
        &mut self,
        table: &TableStudy,
        platform: &Platform,
    ) -> Result<(), ValidationError> {
        if !self.tables.contains_key(&table.id) {
            let plan = table.plan(platform, self)?;
            let platform = table.on(platform)?;
            let mut machine = self.machine(&platform)?.pausing(table.pause(&platform));
            self.tables.insert(table.id.clone(), samples_of(&mut machine, &plan)?);
        }
        Ok(())
    }

    /// The samples of a table; empty before the table is simulated.
    pub(super) fn of_table(&self, id: &str) -> &[Sample] {
        self.tables.get(id).map_or(&[], Vec::as_slice)
    }
}
