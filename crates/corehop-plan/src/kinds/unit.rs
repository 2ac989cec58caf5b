// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units of an experiment: cells of jobs, runs of task sets, gangs.

use crate::kinds::{Cell, Plan, names};
use crate::units::Nanos;
use crate::workload::WorkingSet;

/// The unit of an experiment that takes a number of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingUnit {
    /// A short name that distinguishes the unit from the others.
    pub name: String,
    /// The number of samples that the plan requests for the unit.
    pub asked: u32,
    /// A rough estimate of the time that one sample takes; 0 if unknown.
    pub each: Nanos,
}

impl SamplingUnit {
    /// Returns the units of an experiment with jobs: the cells, each with its requested number of
    /// samples.
    pub fn of_cells(cells: &[(Cell, u32)], sets: &[WorkingSet]) -> Vec<Self> {
        let only: Vec<Cell> = cells.iter().map(|(cell, _)| cell.clone()).collect();
        let unit = |((cell, asked), name): (&(Cell, u32), String)| {
            let each = sets.get(cell.set).map(|set| cell.projected(set)).unwrap_or_default();
            Self { name, asked: *asked, each }
        };
        cells.iter().zip(names(&only, sets)).map(unit).collect()
    }

    /// Returns a rough estimate of the time that all requested samples take.
    pub fn projected(units: &[Self]) -> Nanos {
        let of = |unit: &Self| u64::from(unit.asked).saturating_mul(unit.each.get());
        Nanos::new(units.iter().map(of).fold(0, u64::saturating_add))
    }
}

impl Plan {
    /// Returns the units that the plan counts, each with its number of samples.
    pub fn units(&self) -> Vec<SamplingUnit> {
        self.body.units()
    }
}
