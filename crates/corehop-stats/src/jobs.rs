// SPDX-License-Identifier: MIT OR Apache-2.0
//! The summary of scripted jobs: the cells of samples, access times and preemption lengths.

use super::access::{AccessCurve, Curves};
use super::conditions::{Spreading, Spreads};
use super::cpmd::DelayFitter;
use super::estimator::Estimator;
use super::lengths::{AbsenceLengths, LengthSummary};
use super::ordered::BadInput;
use super::scatter::{Cloud, Scatter};
use super::summarise::{FromFile, Summarise};
use super::summary::{CellSummary, Summaries};
use super::verdict::{ClaimVerdict, MachineView};
use corehop_plan::samples::Rows;

pub use self::CellsSoFar as Summary;

/// The results of the rows of scripted jobs.
#[derive(Debug, Clone)]
pub struct CellResults {
    /// The summaries of the cells of all files.
    pub summaries: Vec<CellSummary>,
    /// The causes of the spread of each examined cell.
    pub spreads: Vec<Spreading>,
    /// The clouds of delays against preemption lengths.
    pub clouds: Vec<Cloud>,
    /// The curves of access times of all files.
    pub curves: Vec<AccessCurve>,
    /// The actual preemption lengths for each requested length.
    pub lengths: Vec<LengthSummary>,
}

/// Collects samples, access times and preemption lengths.
#[derive(Debug)]
pub struct CellsSoFar {
    summaries: Summaries,
    spreads: Spreads,
    scatter: Scatter,
    curves: Curves,
    lengths: AbsenceLengths,
    /// The fitter that collects all samples for a model of the delays. The latencies of the machine's cache levels
    /// are added at the end.
    pub fit: DelayFitter,
}

impl CellsSoFar {
    /// Returns the verdicts on the observations of the studies, for the cells of `machine`.
    ///
    /// # Errors
    /// Returns [`BadInput`], as [`Summaries::verdicts`] does.
    pub fn verdicts(
        &self,
        machine: &str,
        view: &MachineView,
    ) -> Result<Vec<ClaimVerdict>, BadInput> {
        self.summaries.verdicts(machine, view)
    }
}

impl Summarise for CellsSoFar {
    type Said = CellResults;

    fn new(estimator: Estimator) -> Self {
        Self {
            summaries: Summaries::new(estimator),
            spreads: Spreads::new(estimator),
            scatter: Scatter::new(estimator),
            curves: Curves::default(),
            lengths: AbsenceLengths::default(),
            fit: DelayFitter::new(estimator),
        }
    }

    fn begin(&mut self, _: &FromFile<'_>) {
        self.spreads.next_run();
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        self.summaries.take(&rows.samples);
        self.spreads.take(&rows.samples);
        self.scatter.take(&rows.samples);
        self.fit.take(&rows.samples);
        self.curves.take(&rows.access_times);
        self.lengths.take(&rows.preemption_lengths);
    }

    fn finish(&mut self) -> CellResults {
        CellResults {
            summaries: self.summaries.finish(),
            spreads: self.spreads.finish(),
            clouds: self.scatter.finish(),
            curves: self.curves.finish(),
            lengths: self.lengths.finish(),
        }
    }
}
