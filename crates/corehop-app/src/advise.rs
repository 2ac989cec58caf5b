// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice from a simulated machine.

use corehop_decide::advice::{Advice, AdviceQuery, advise};
use corehop_decide::simulated::SimulationGrid;
use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;

use crate::failure::{Exit, Failure};

/// The longest preemption that is simulated: a longer one evicts little more, and its wait decides in any case.
const LONGEST: Nanos = Nanos::from_millis(100);

/// A simulation to advise from.
#[derive(Debug, Clone)]
pub struct SimulatedAdvice {
    /// The advice that is wanted; its sizes, and preemptions as long as its wait (100 ms at most), are simulated.
    pub wanted: AdviceQuery,
    /// Whether polluters run on the other CPUs.
    pub loaded: bool,
    /// The samples of each cell.
    pub samples: u32,
    /// The seed of all random draws.
    pub seed: u64,
}

impl SimulatedAdvice {
    /// Simulates the synthetic method on a platform, and advises from its samples and from what cache partitioning would save.
    ///
    /// # Errors
    /// Exit 2 for advice that the simulation cannot give, exit 3 where the platform cannot be simulated.
    pub fn on(&self, platform: &Platform) -> Result<Advice, Failure> {
        let mut grid = SimulationGrid {
            loaded: self.loaded,
            samples: self.samples,
            seed: self.seed,
            ..SimulationGrid::default()
        };
        if !self.wanted.wss.is_empty() {
            grid.wss.clone_from(&self.wanted.wss);
        }
        let wait = self.wanted.length.map(|wait| wait.min(LONGEST));
        grid.lengths.extend(wait.filter(|wait| !grid.lengths.contains(wait)));
        let advice = advise(&grid.model(platform)?, &self.wanted);
        let mut advice = advice.map_err(|error| Failure::new(Exit::Usage, error))?;
        let (savings, silent) = grid.partitioning(platform)?;
        // The grid is fixed: a command that measures more of this platform would not change it.
        advice.lacking.clear();
        advice.partitioning = savings;
        advice.silent.extend(silent);
        Ok(advice)
    }
}
