// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment on delay against preemption length (Wächtler 3.4.3, Figs. 5.4 to 5.7).
//!
//! A polluter of twice the last-level cache, or the user's own load, takes the job's CPU for a length that
//! grows from sample to sample. The delay grows until every useful line is evicted; the cold minus the warm
//! time bounds the delay. The experiment shows only evictions by the code that ran, not by other code that
//! might run.

use serde::{Deserialize, Serialize};

use super::synthetic::{SamplingGroup, Synthetic};
use super::{Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::experiment::Cell;
use crate::kinds::{Length, Plan};
use crate::platform::Platform;
use crate::units::{CpuList, Nanos};
use crate::workload::{Event, Load, Mover, Polluter, WorkingSet};

/// The parameters of the polluter sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolluterSweep {
    /// The working sets that the sweep measures.
    pub sets: Vec<WorkingSet>,
    /// The preemption lengths that the sweep measures.
    pub lengths: Vec<Nanos>,
    /// The background loads that the sweep measures. The single polluter has the job's own CPU if the load
    /// is `idle` or a load whose threads evict hardly anything ([`Load::absence`]).
    pub loads: Vec<Load>,
    /// The walk of the single polluter.
    pub polluter: Polluter,
    /// The number of samples per point.
    pub samples: u32,
    /// The CPUs that the experiment can use; empty for all usable CPUs.
    #[serde(default)]
    pub cpus: CpuList,
}

impl PolluterSweep {
    /// Returns the sweep as a synthetic experiment, with one group for each load and length.
    fn as_synthetic(&self) -> Synthetic {
        let group = |load: &Load, &length: &Nanos| SamplingGroup {
            load: load.clone(),
            sets: self.sets.clone(),
            events: vec![Event::Preemption],
            length: Length::Fixed(length),
            absence: load.absence(),
            samples: self.samples,
        };
        let of_load = |load| self.lengths.iter().map(move |length| group(load, length));
        Synthetic {
            mover: Mover::Affinity,
            preemptor: self.polluter.clone(),
            preemptor_sizes: Vec::new(),
            passes: 0,
            groups: self.loads.iter().flat_map(of_load).collect(),
            cpus: self.cpus.clone(),
        }
    }
}

impl PolluterSweep {
    /// Returns the working sets to which the experiment's cells refer by index.
    pub fn sets(&self) -> Vec<WorkingSet> {
        self.as_synthetic().sets()
    }

    /// Returns the experiment's cells on `platform`, each with its requested number of samples.
    ///
    /// # Errors
    /// Returns [`ExperimentError`] if the platform cannot provide a working set, an event or a CPU of the
    /// experiment.
    pub fn cells(&self, platform: &Platform) -> Result<Vec<(Cell, u32)>, ExperimentError> {
        self.as_synthetic().cells(platform)
    }
}

impl Experiment for PolluterSweep {
    fn name(&self) -> &'static str {
        "polluter-sweep"
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
        let jobs = self.as_synthetic().jobs(platform, seed, turn, quota)?;
        Ok(Plan::new(self.name(), seed, jobs))
    }
}
