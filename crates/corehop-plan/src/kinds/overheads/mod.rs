// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to measure the scheduling overheads of a kernel.

mod record;
mod rows;
mod words;

pub use record::{ControlPageCost, KernelObservation, OverheadFacts, OverheadRecord};
pub use rows::OverheadTime;
pub use words::{Overhead, Vantage};

use serde::{Deserialize, Serialize};

use crate::kinds::count::AsOne;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit, Tasks,
    TasksError,
};
use crate::platform::{Platform, UnknownCpu};
use crate::units::{CpuList, Nanos};

/// The time that the measurement from threads takes, apart from the interrupts between CPUs.
const FROM_THREADS: Nanos = Nanos::from_secs(3);
/// The time that the measurement takes for each ordered pair of CPUs.
const EACH_PAIR: Nanos = Nanos::from_millis(200);

/// A plan to measure a kernel's scheduling overheads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// The CPUs on which corehop measures the overheads.
    pub cpus: CpuList,
    /// Whether to measure between the kernel's tracepoints as well as from threads.
    pub in_kernel: bool,
    /// The task sets that run while corehop measures the kernel; without task sets, two threads
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
}

/// The reason why a kernel's overheads cannot be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverheadsError {
    /// The plan names a CPU that corehop may not use.
    #[error(transparent)]
    Cpu(#[from] UnknownCpu),
    /// The platform cannot run the task sets of the plan.
    #[error(transparent)]
    Tasks(#[from] TasksError),
}

impl Overheads {
    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`OverheadsError`] with the CPU that corehop may not use, or the task set that
    /// cannot run.
    pub fn check(&self, platform: &Platform) -> Result<(), OverheadsError> {
        for cpu in self.cpus.iter() {
            platform.one_usable(Some(cpu))?;
        }
        if let Some(tasks) = &self.tasks {
            tasks.check(platform)?;
        }
        Ok(())
    }

    /// Returns the only unit of the plan: one measurement of all overheads.
    pub(crate) fn unit(&self) -> SamplingUnit {
        let runs = self.tasks.iter().flat_map(|tasks| &tasks.runs);
        let runs: u64 = runs.map(|run| run.duration.get()).sum();
        let pairs = (self.cpus.len() * self.cpus.len().saturating_sub(1)) as u64;
        let each = FROM_THREADS.get() + pairs * EACH_PAIR.get() + runs;
        SamplingUnit { name: "all overheads".to_owned(), asked: 1, each: Nanos::new(each) }
    }
}

impl Kind for Overheads {
    type Record = OverheadRecord;
    type Error = OverheadsError;
    const ONLY_LIVE: Option<&'static str> = Some("measuring a kernel's overheads");

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("CPUs", self.cpus.len() as u64))
    }

    /// Returns a single unit that measures all overheads.
    fn units(&self) -> Vec<SamplingUnit> {
        vec![self.unit()]
    }

    fn leave_out(&mut self, _: u64, _: u64) {}

    /// An overhead plan runs once, so a resumed experiment has nothing to continue.
    fn go_on(&mut self, _: Self) {}

    fn is_whole(&self) -> Option<&'static str> {
        Some("scheduling overheads")
    }

    fn outline(&self, _: &[SamplingUnit], _: Option<usize>) -> String {
        String::new()
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Overheads]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, OverheadRecord> {
        Box::new(move |records, rows| {
            for record in records {
                rows.overheads.extend(record.rows(at.platform, at.context.seed));
            }
        })
    }

    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        Box::new(AsOne)
    }

    fn times(rows: &Rows) -> Vec<RowTime> {
        rows.overheads.iter().map(OverheadTime::time).collect()
    }
}
