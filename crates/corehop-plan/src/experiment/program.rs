// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment that records a program once; the program itself is the plan.

use super::{Experiment, ExperimentError, RunPosition};
use crate::kinds::program::NAME;
use crate::kinds::{Kind, Plan, Program, SamplingUnit};
use crate::platform::Platform;

impl Experiment for Program {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The plan has one replicate because the program runs once.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, _: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(Kind::units(self))
    }

    fn block(
        &self,
        _: &Platform,
        seed: u64,
        _: RunPosition,
        _: &[u32],
    ) -> Result<Plan, ExperimentError> {
        Ok(Plan::new(NAME, seed, self.clone()))
    }
}
