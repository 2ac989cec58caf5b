// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access times by working-set size (Wächtler 3.4.1, Fig. 5.2).
//!
//! A job touches a shuffled list whose lines are valid, are invalid, or must displace modified lines
//! of other data. Valid lines show the latencies of the cache levels as plateaus, invalid lines show
//! the latency of memory, and displaced modified lines show the worst latency of an idle machine. The
//! experiment cannot show the gain of concurrent misses, because every access waits for the previous
//! access (see `chains` for concurrent misses).

use serde::{Deserialize, Serialize};

use super::synthetic::phases;
use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Cell, Job, JobRows, Jobs, Length, Plan, Step};
use crate::platform::Platform;
use crate::units::Cpu;
use crate::workload::{Absence, Event, LineState, Load, Mover, WorkingSet};

/// The parameters of the experiment on access times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessTime {
    /// The working sets: sizes, write ratios, pages and nodes.
    pub sets: Vec<WorkingSet>,
    /// The states of the lines, each with its number of walks per working set.
    pub states: Vec<(LineState, u32)>,
    /// The CPU on which corehop measures, or `None` for the first usable CPU.
    #[serde(default)]
    pub cpu: Option<Cpu>,
}

impl AccessTime {
    /// Returns the working sets to which the experiment's cells refer by index.
    pub fn sets(&self) -> Vec<WorkingSet> {
        self.sets.clone()
    }

    /// Returns the experiment's cells on `platform`, each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU of
    /// the experiment.
    pub fn cells(&self, _: &Platform) -> Result<Vec<(Cell, u32)>, ExperimentError> {
        let mut cells = Vec::new();
        for (set, working_set) in self.sets.iter().enumerate() {
            working_set.check()?;
            for &(state, walks) in &self.states {
                let cell = Cell {
                    load: Load::Idle,
                    set,
                    event: Event::None,
                    length: Length::ZERO,
                    absence: Absence::Nothing,
                    preemptor: None,
                    state,
                };
                cells.push((cell, walks));
            }
        }
        Ok(cells)
    }
}

impl Experiment for AccessTime {
    fn name(&self) -> &'static str {
        "access-time"
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(SamplingUnit::of_cells(&self.cells(platform)?, &self.sets()))
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let cells: Vec<Cell> = self.cells(platform)?.into_iter().map(|(cell, _)| cell).collect();
        let start = platform.one_usable(self.cpu)?;
        let phases = phases(
            &cells,
            quota,
            turn,
            &mut DrawStream::new(seed, 1 + turn.block),
            |cell, _, _| {
                // The first touch after a state is the one that meets it; for `valid` that state is made
                // by an untimed pass in the same order.
                Job { cell, start, steps: vec![Step::Prepare(cells[cell].state), Step::Touch] }
            },
        );
        let (rows, mover, sets) = (JobRows::AccessTimes, Mover::Affinity, self.sets.clone());
        let jobs = Jobs { rows, mover, preemptor: None, sets, cells, phases };
        Ok(Plan::new(self.name(), seed, jobs))
    }
}
