// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment on the scheduling overheads of a kernel; corehop measures from threads, or while
//! task sets run.

use serde::{Deserialize, Serialize};

use super::task_sets::TaskSets;
use super::{Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Overheads, Plan, Tasks};
use crate::platform::Platform;
use crate::units::CpuList;

/// The experiment on a kernel's scheduling overheads, which draws the task sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelOverheads {
    /// The CPUs on which corehop measures the overheads.
    pub cpus: CpuList,
    /// The task sets that run during the measurement, or `None` to measure from threads alone.
    pub sets: Option<TaskSets>,
}

impl KernelOverheads {
    fn body(&self, platform: &Platform, seed: u64) -> Result<Overheads, ExperimentError> {
        let tasks = self.sets.as_ref().map(|sets| sets.tasks(platform, seed)).transpose()?;
        let unwatched = |mut tasks: Tasks| {
            // Observing jobs would add to the times.
            tasks.runs.iter_mut().for_each(|run| run.watched = false);
            tasks
        };
        let (cpus, in_kernel) = (self.cpus.clone(), tasks.is_some());
        let body = Overheads { cpus, in_kernel, tasks: tasks.map(unwatched) };
        body.check(platform)?;
        Ok(body)
    }
}

impl Experiment for KernelOverheads {
    fn name(&self) -> &'static str {
        "overheads"
    }

    /// The plan has one replicate because one measurement repeats each quantity many times.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        Ok(vec![self.body(platform, seed)?.unit()])
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        _: RunPosition,
        _: &[u32],
    ) -> Result<Plan, ExperimentError> {
        Ok(Plan::new(self.name(), seed, self.body(platform, seed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Cpu;

    #[test]
    fn a_cpu_that_may_not_be_used_is_named() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let of = |cpu| KernelOverheads { cpus: CpuList::new([Cpu(cpu)]), sets: None };
        assert!(of(0).plan(&platform, 1).is_ok());
        let error = of(4_000).plan(&platform, 1).unwrap_err().to_string();
        assert!(error.contains("4000"), "{error}");
    }
}
