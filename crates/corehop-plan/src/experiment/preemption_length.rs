// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment that compares requested with actual preemption lengths (Wächtler 3.4.2, Fig.
//! 5.1).
//!
//! A statement about delay against preemption length is meaningful only if preemptions have the
//! requested length. The experiment measures the timer and the wake-up together and cannot separate
//! them.

use serde::{Deserialize, Serialize};

use super::synthetic::phases;
use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Absent, Cell, Job, JobRows, Jobs, Length, Plan, Step};
use crate::platform::Platform;
use crate::units::{Bytes, Cpu, Nanos};
use crate::workload::{Absence, Event, LineState, Load, Mover, WorkingSet};

/// The parameters of the experiment on preemption lengths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreemptionLength {
    /// The preemption lengths that the experiment requests.
    pub lengths: Vec<Nanos>,
    /// The loads under which to request the lengths.
    pub loads: Vec<Load>,
    /// The number of requests for each length and load.
    pub samples: u32,
    /// The CPU on which corehop measures, or `None` for the first usable CPU.
    #[serde(default)]
    pub cpu: Option<Cpu>,
}

impl PreemptionLength {
    /// Returns the working sets to which the experiment's cells refer by index.
    pub fn sets(&self) -> Vec<WorkingSet> {
        // Nothing is touched; a plan's cells refer to a working set all the same.
        vec![WorkingSet::list(Bytes::from_kib(4), 0.0)]
    }

    /// Returns the experiment's cells on `platform`, each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU
    /// of the experiment.
    pub fn cells(&self, _: &Platform) -> Result<Vec<(Cell, u32)>, ExperimentError> {
        let cell = |load: &Load, &length: &Nanos| Cell {
            load: load.clone(),
            set: 0,
            event: Event::Preemption,
            length: Length::Fixed(length),
            absence: if *load == Load::Idle { Absence::Nothing } else { Absence::Load },
            preemptor: None,
            state: LineState::Valid,
        };
        let of_load =
            |load| self.lengths.iter().map(move |length| (cell(load, length), self.samples));
        Ok(self.loads.iter().flat_map(of_load).collect())
    }
}

impl Experiment for PreemptionLength {
    fn name(&self) -> &'static str {
        "preemption-length"
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
            |cell, _, draw| {
                let Cell { length, absence, .. } = cells[cell];
                let away = Absent { to: start, length: length.draw(draw), to_whom: absence };
                Job { cell, start, steps: vec![Step::Leave(away)] }
            },
        );
        let (rows, mover, sets) = (JobRows::PreemptionLengths, Mover::Affinity, self.sets());
        let jobs = Jobs { rows, mover, preemptor: None, sets, cells, phases };
        Ok(Plan::new(self.name(), seed, jobs))
    }
}
