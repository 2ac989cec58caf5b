// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to measure the scheduling overheads of a kernel.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::plan::{Plan, PlanError};
use super::task_sets::TaskSets;
use super::tasks::Tasks;
use super::{Experiment, ExperimentError, Turn, Unit, one_usable};
use crate::platform::Platform;
use crate::units::{CpuList, Nanos};

/// The time that the measurement from threads takes, without the interrupts between CPUs.
const FROM_THREADS: Nanos = Nanos::from_secs(3);
/// The time that it takes for each ordered pair of CPUs.
const EACH_PAIR: Nanos = Nanos::from_millis(200);

/// The measurement of a kernel's scheduling overheads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// The CPUs to measure on.
    pub cpus: CpuList,
    /// Whether to measure between the kernel's tracepoints too, and not from threads alone.
    pub in_kernel: bool,
    /// The task sets that run while the kernel is measured; without them two threads do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
}

impl Overheads {
    /// Whether `platform` can run it.
    ///
    /// # Errors
    /// [`ExperimentError`] names the CPU that may not be used, or the task set that cannot run.
    pub fn check(&self, platform: &Platform) -> Result<(), ExperimentError> {
        for cpu in self.cpus.iter() {
            one_usable(platform, Some(cpu))?;
        }
        if let Some(tasks) = &self.tasks {
            tasks.check(platform)?;
        }
        Ok(())
    }

    /// Its unit: one measurement of everything.
    fn unit(&self) -> Unit {
        let runs = self.tasks.iter().flat_map(|tasks| &tasks.runs);
        let runs: u64 = runs.map(|run| run.duration.get()).sum();
        let pairs = (self.cpus.len() * self.cpus.len().saturating_sub(1)) as u64;
        let each = FROM_THREADS.get() + pairs * EACH_PAIR.get() + runs;
        Unit { name: "all overheads".to_owned(), asked: 1, each: Nanos::new(each) }
    }
}

impl Kind for Overheads {
    fn fits(&self, platform: &Platform) -> Result<(), PlanError> {
        Ok(self.check(platform).map_err(Box::new)?)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("CPUs", self.cpus.len() as u64))
    }

    /// One measurement of everything.
    fn units(&self) -> Vec<Unit> {
        vec![self.unit()]
    }

    fn leave_out(&mut self, _: u64, _: u64) {}

    /// There is nothing to go on with: it runs once.
    fn go_on(&mut self, _: Self) {}

    fn is_whole(&self) -> Option<&'static str> {
        Some("scheduling overheads")
    }

    fn outline(&self, _: &[Unit], _: Option<usize>) -> String {
        String::new()
    }
}

/// The experiment: it draws the task sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelOverheads {
    /// The CPUs to measure on.
    pub cpus: CpuList,
    /// The task sets; None to measure from threads alone.
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

    /// One replicate: each quantity is measured once in many repetitions.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<Unit>, ExperimentError> {
        Ok(vec![self.body(platform, seed)?.unit()])
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        _: Turn,
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
