// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a window in which a CPU was watched, and its rows: one for each gap.

use crate::kinds::RowTime;
use crate::kinds::origin::RunContext;
use crate::kinds::{RowObservation, SupplyGap, Text, Watch};
use crate::units::Cpu;

/// A window in which a CPU was watched. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SupplyRecord {
    /// The number of the window in the plan, counted from 0.
    pub window: u64,
    /// The CPU.
    pub cpu: Cpu,
    /// The replicate it belongs to.
    pub replicate: u32,
    /// When it began, since the run did.
    pub start_ns: u64,
    /// The length that was planned.
    pub asked_ns: u64,
    /// The length that was watched without a break: from before the planned begin, to the end of a gap that crosses the planned
    /// end.
    pub watched_ns: u64,
    /// The time lost in gaps below the threshold.
    pub short_ns: u64,
    /// The gaps, each with its begin since that of the window and its length.
    pub gaps: Vec<(u64, u64)>,
    /// Whether the first gap began before the window did.
    pub cut: bool,
    /// The scheduling policy and priority of the thread.
    pub policy: String,
}

impl SupplyRecord {
    /// Its rows: one for each gap, and one without a gap if there was none. `first` windows came before the plan.
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
    /// The window, as far as it matters to the number of samples; None but for its first row.
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
    /// The length of the gap, for comparisons; None without a gap.
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
