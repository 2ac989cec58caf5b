// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of a run in progress, for a waiting user.

use std::time::Instant;

use corehop_plan::experiment::SamplingUnit;
use corehop_stats::campaign::sampling::Campaign;

/// Shows a run in progress.
pub trait RunView {
    /// Shows what a resumed run already has.
    fn begin(&mut self, campaign: &Campaign);
    /// Shows a line about what was measured.
    fn say(&self, line: &str);
    /// Shows the beginning of a block that adds `quota` samples.
    fn block(&mut self, campaign: &Campaign, quota: &[u32]);
    /// Shows new rows.
    fn show(&mut self, campaign: &Campaign);
    /// Shows the end of the run, with what was requested and is missing.
    fn end(&self, campaign: &Campaign, stopped_by: Option<&str>);
}

/// Creates the view of a run with these units that begins now and ends at the deadline.
pub type Opens = fn(&[SamplingUnit], Option<Instant>) -> Box<dyn RunView>;

/// Returns an empty view, for runs whose terminal belongs to the measured program, and for runs
/// without a terminal.
pub fn silent(_units: &[SamplingUnit], _deadline: Option<Instant>) -> Box<dyn RunView> {
    Box::new(Silent)
}

struct Silent;

impl RunView for Silent {
    fn begin(&mut self, _: &Campaign) {}
    fn say(&self, _: &str) {}
    fn block(&mut self, _: &Campaign, _: &[u32]) {}
    fn show(&mut self, _: &Campaign) {}
    fn end(&self, _: &Campaign, _: Option<&str>) {}
}
