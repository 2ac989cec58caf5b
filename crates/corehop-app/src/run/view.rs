// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of a run that is under way, for a person who waits.

use std::time::Instant;

use corehop_plan::experiment::SamplingUnit;
use corehop_stats::campaign::sampling::Campaign;

/// Shows a run under way.
pub trait RunView {
    /// Takes note of what a resumed run already has.
    fn begin(&mut self, campaign: &Campaign);
    /// Says a line about what was measured.
    fn say(&self, line: &str);
    /// A block begins, which is to add `quota`.
    fn block(&mut self, campaign: &Campaign, quota: &[u32]);
    /// Rows have come.
    fn show(&mut self, campaign: &Campaign);
    /// The run has ended, with what was asked for and is missing.
    fn end(&self, campaign: &Campaign, stopped_by: Option<&str>);
}

/// Makes the view of a run of these units that begins now and ends at the deadline.
pub type Opens = fn(&[SamplingUnit], Option<Instant>) -> Box<dyn RunView>;

/// No view: the terminal belongs to the program under measurement, or there is none.
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
