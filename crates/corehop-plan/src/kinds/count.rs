// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the samples of each unit of an experiment.

use super::origin::RowObservation;
use super::plan::Plan;
use super::table::Rows;

/// Counts a plan's rows in units of the plan's experiment.
pub struct RowCounter(Box<dyn RowCounting>);

/// The way of counting the rows of a kind.
pub trait RowCounting {
    /// Returns the observations that the rows in `rows` complete.
    fn take(&mut self, rows: &Rows) -> Vec<RowObservation>;

    /// Returns the observation that was in progress when the run ended as planned.
    fn complete(&mut self) -> Option<RowObservation> {
        None
    }

    /// Discards the observation that was in progress.
    fn cut_off(&mut self) {}
}

/// A function counts rows that need no state.
impl<F: FnMut(&Rows) -> Vec<RowObservation>> RowCounting for F {
    fn take(&mut self, rows: &Rows) -> Vec<RowObservation> {
        self(rows)
    }
}

/// Counts the whole plan as one observation when the plan has ended.
pub(super) struct AsOne;

impl RowCounting for AsOne {
    fn take(&mut self, _: &Rows) -> Vec<RowObservation> {
        Vec::new()
    }

    fn complete(&mut self) -> Option<RowObservation> {
        Some(RowObservation::of_run(0))
    }
}

impl std::fmt::Debug for RowCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

impl RowCounter {
    /// Makes a counter for the rows of the experiment of `plan`, which counts in `units` units.
    pub fn new(plan: &Plan, units: usize) -> Self {
        Self(plan.body.counting(units as u64))
    }

    /// Returns the observations that the rows in `rows` complete.
    pub fn take(&mut self, rows: &Rows) -> Vec<RowObservation> {
        self.0.take(rows)
    }

    /// Reports that the run in progress has ended as planned.
    pub fn complete(&mut self) -> Option<RowObservation> {
        self.0.complete()
    }

    /// Reports that the run in progress was cut off, so that the run does not count.
    pub fn cut_off(&mut self) {
        self.0.cut_off();
    }
}

impl RowObservation {
    /// Returns the observation of a run of a unit that has no value of its own.
    pub(super) const fn of_run(cell: u64) -> Self {
        Self { cell, valid: true, measured: true, value_ns: 0.0, scale_ns: 0.0, replicate: None }
    }
}
