// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a window in which it watched a CPU, and the conversion to rows: one row for each gap.

use crate::kinds::RowTime;
use crate::kinds::origin::RunContext;
use crate::kinds::{RowObservation, SupplyGap, Text, Watch};
use crate::units::Cpu;

/// The record of a window in which a machine watched a CPU. The times of the record are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SupplyRecord {
    /// The index of the window in the plan, counted from 0.
    pub window: u64,
    /// The CPU that corehop watched in the window.
    pub cpu: Cpu,
    /// The replicate to which the window belongs.
    pub replicate: u32,
    /// The start of the window, as time since the start of the run.
    pub start_ns: u64,
    /// The planned length of the window.
    pub asked_ns: u64,
    /// The length that the thread watched without a break: from before the planned start to the planned end, or to the
    /// end of a gap that crosses the planned end.
    pub watched_ns: u64,
    /// The time lost in gaps shorter than the threshold.
    pub short_ns: u64,
    /// The gaps of the window, each with its start, measured from the start of the window, and its length.
    pub gaps: Vec<(u64, u64)>,
    /// Whether the first gap began before the window.
    pub cut: bool,
    /// The scheduling policy and priority of the watching thread.
    pub policy: String,
}

impl SupplyRecord {
    /// Returns the rows of the window: one for each gap, or one row without a gap if the window has none. `first` is
    /// the number of windows that came before the plan.
    pub(super) fn rows<'a>(
        &'a self,
        context: &RunContext,
        watch: &Watch,
        first: u64,
    ) -> impl Iterator<Item = SupplyGap> + use<'a> {
        let (machine, seed, threshold_ns) =
            (context.machine.clone(), context.seed, watch.threshold.get());
        let policy: Text = self.policy.as_str().into();
        (0..self.gaps.len().max(1)).map(move |nth| SupplyGap {
            machine: machine.clone(),
            seed,
            window: first + self.window,
            cpu: u64::from(self.cpu.0),
            replicate: Some(u64::from(self.replicate)),
            start_ns: self.start_ns,
            asked_ns: self.asked_ns,
            watched_ns: self.watched_ns,
            short_ns: self.short_ns,
            gap: nth as u64,
            gap_at_ns: self.gaps.get(nth).map(|gap| gap.0),
            gap_ns: self.gaps.get(nth).map(|gap| gap.1),
            cut: self.cut && nth == 0,
            threshold_ns,
            policy: policy.clone(),
        })
    }
}

impl SupplyGap {
    /// Returns the observation of the window for the number of samples if this row is the first row of the window;
    /// otherwise `None`.
    pub(super) fn observation(&self, cpus: &[u64]) -> Option<RowObservation> {
        let cell = cpus.iter().position(|&cpu| cpu == self.cpu).filter(|_| self.gap == 0)? as u64;
        let value_ns = self.watched_ns as f64;
        let replicate = self.replicate;
        Some(RowObservation {
            cell,
            valid: true,
            measured: true,
            value_ns,
            scale_ns: value_ns,
            replicate,
        })
    }
}

impl SupplyGap {
    /// Returns the length of the gap, for comparisons, or `None` without a gap.
    pub(super) fn time(&self) -> Option<RowTime> {
        Some(RowTime {
            experiment: "supply",
            group: "length of a gap in the supply".to_owned(),
            place: self.cpu,
            name: format!("CPU {}", self.cpu),
            replicate: self.replicate.unwrap_or_default(),
            ns: Ok(self.gap_ns? as f64),
        })
    }
}
