// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to watch the supply of CPUs, in windows in which a thread does nothing but read the clock.

mod record;
mod rows;

pub use record::SupplyRecord;
pub use rows::SupplyGap;

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit,
};
use crate::platform::Platform;
use crate::units::{Cpu, CpuList, Nanos};

/// Windows on CPUs, one after the other; corehop never watches two CPUs at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The CPUs that corehop watches.
    pub cpus: CpuList,
    /// The time for which corehop watches a CPU in one window.
    pub window: Nanos,
    /// The shortest time without the CPU that counts as a gap; corehop records only the sum of shorter times.
    pub threshold: Nanos,
    /// The windows of the plan, in order.
    pub windows: Vec<PlannedWindow>,
}

/// A planned window on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWindow {
    /// The CPU that the window watches.
    pub cpu: Cpu,
    /// The replicate to which the window belongs.
    pub replicate: u32,
    /// The time from the end of the previous window to the earliest start of this window; the time varies so that
    /// windows do not stay in phase with periodic events.
    pub after: Nanos,
}

/// The reason why corehop cannot watch CPUs as planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The plan names a CPU that corehop may not use.
    #[error("{cpu} cannot be watched: name some of the usable CPUs ({usable})")]
    Cpu {
        /// The CPU that the plan names.
        cpu: Cpu,
        /// The usable CPUs of the platform.
        usable: CpuList,
    },
    /// The length of a window is out of bounds.
    #[error(
        "a window of {window}: expected {} to {}, because a thread may keep a CPU for at most half of any 100 ms",
        Watch::SHORTEST,
        Watch::LONGEST
    )]
    Window {
        /// The length of the window that the plan requested.
        window: Nanos,
    },
    /// The threshold is out of bounds.
    #[error("a threshold of {threshold}: expected {} to {}", Watch::LEAST_GAP, Watch::MOST_GAP)]
    Threshold {
        /// The threshold that the plan states.
        threshold: Nanos,
    },
}

impl Watch {
    /// The shortest window that a plan may request.
    pub const SHORTEST: Nanos = Nanos::from_millis(1);
    /// The longest window. The window and the time before the window together stay within the half of any 100 ms for
    /// which a thread may keep a CPU.
    pub const LONGEST: Nanos = Nanos::from_millis(40);
    /// The lowest threshold, which is the time of a few readings of the clock.
    pub const LEAST_GAP: Nanos = Nanos::new(200);
    /// The highest threshold for gaps that a plan may request.
    pub const MOST_GAP: Nanos = Nanos::from_millis(1);

    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`WatchError`] for the part of the plan that does not fit.
    pub fn check(&self, platform: &Platform) -> Result<(), WatchError> {
        let usable = platform.usable();
        let cpus = self.cpus.iter().chain(self.windows.iter().map(|it| it.cpu));
        if let Some(cpu) = cpus.into_iter().find(|&cpu| !usable.contains(cpu)) {
            return Err(WatchError::Cpu { cpu, usable });
        }
        if !(Self::SHORTEST..=Self::LONGEST).contains(&self.window) {
            return Err(WatchError::Window { window: self.window });
        }
        if !(Self::LEAST_GAP..=Self::MOST_GAP).contains(&self.threshold) {
            return Err(WatchError::Threshold { threshold: self.threshold });
        }
        Ok(())
    }
}

impl Kind for Watch {
    type Record = SupplyRecord;
    type Error = WatchError;
    const ONLY_LIVE: Option<&'static str> = Some("watching the supply of CPUs");

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("windows", self.windows.len() as u64))
    }

    /// Returns one unit for each CPU, with its number of windows.
    fn units(&self) -> Vec<SamplingUnit> {
        let unit = |cpu: Cpu| {
            let asked = self.windows.iter().filter(|it| it.cpu == cpu).count() as u32;
            // A CPU is watched for at most 45 of 100 ms, and other CPUs meanwhile.
            let apart = if self.cpus.len() > 1 { 125 } else { 225 };
            let each = Nanos::new(self.window.get() * apart / 100);
            SamplingUnit { name: format!("windows of {} on {cpu}", self.window), asked, each }
        };
        self.cpus.iter().map(unit).collect()
    }

    fn leave_out(&mut self, done: u64, _: u64) {
        self.windows.drain(..self.windows.len().min(done as usize));
    }

    fn go_on(&mut self, more: Self) {
        self.windows.extend(more.windows);
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        format!(": {} CPUs, {} windows", units.len(), samples(units))
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Supply]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, SupplyRecord> {
        Box::new(move |records, rows| {
            for record in records {
                rows.supply.extend(record.rows(&at.context, self, at.first));
            }
        })
    }

    /// Counts one observation for each window, in the unit of the window's CPU.
    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        let cpus: Vec<u64> = self.cpus.iter().map(|cpu| u64::from(cpu.0)).collect();
        Box::new(move |rows: &Rows| {
            rows.supply.iter().filter_map(|row| row.observation(&cpus)).collect()
        })
    }

    fn times(rows: &Rows) -> Vec<RowTime> {
        rows.supply.iter().filter_map(SupplyGap::time).collect()
    }
}
