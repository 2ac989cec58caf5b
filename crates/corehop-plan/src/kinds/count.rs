// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of samples taken of each unit of an experiment.

use super::origin::RowObservation;
use super::plan::Plan;
use super::table::Rows;

/// Counts what a plan's rows come to, in units of its experiment.
pub struct RowCounter(Box<dyn RowCounting>);

/// The way in which the rows of a kind are counted.
pub trait RowCounting {
    /// The observations that some rows come to.
    fn take(&mut self, rows: &Rows) -> Vec<RowObservation>;

    /// The observation that was under way, where the run has ended as planned.
    fn complete(&mut self) -> Option<RowObservation> {
        None
    }

    /// Forgets the observation that was under way.
    fn cut_off(&mut self) {}
}

/// Rows that are counted one by one.
impl<F: FnMut(&Rows) -> Vec<RowObservation>> RowCounting for F {
    fn take(&mut self, rows: &Rows) -> Vec<RowObservation> {
        self(rows)
    }
}

/// One for the whole plan, when it has ended.
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
    /// For the rows of plans of an experiment that counts so many units, of which `plan` is one.
    pub fn new(plan: &Plan, units: usize) -> Self {
        Self(plan.body.counting(units as u64))
    }

    /// The observations that some rows come to.
    pub fn take(&mut self, rows: &Rows) -> Vec<RowObservation> {
        self.0.take(rows)
    }

    /// The run that was under way has ended as planned.
    pub fn complete(&mut self) -> Option<RowObservation> {
        self.0.complete()
    }

    /// The run that was under way was cut off: it does not count.
    pub fn cut_off(&mut self) {
        self.0.cut_off();
    }
}

impl RowObservation {
    /// A run of a unit that has no value of its own.
    pub(super) const fn of_run(cell: u64) -> Self {
        Self { cell, valid: true, measured: true, value_ns: 0.0, scale_ns: 0.0, replicate: None }
    }
}
