// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiment on the supply of each CPU: how often, and for how long, a CPU does not run the thread that should
//! run.
//!
//! A thread under SCHED_FIFO reads the clock in windows. If two readings are far apart, the CPU did something else in
//! between: the hypervisor ran another guest, the kernel handled an interrupt, or the firmware took the CPU. Windows of
//! all CPUs alternate in random order. A window begins at an instant that was planned in advance, so that gaps do not
//! influence the begin; a gap that crosses an end of the window is watched to its own end. The experiment does not see
//! the limit on real-time threads (`sched_rt_runtime_us`), which windows of this length never reach, or long gaps that
//! begin and end between two windows.

use serde::{Deserialize, Serialize};

use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Kind, Plan, PlannedWindow, Watch};
use crate::platform::Platform;
use crate::units::{Cpu, CpuList, Nanos};

/// The parameters of the experiment on the supply of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSupply {
    /// The CPUs to watch; empty for all usable CPUs.
    #[serde(default)]
    pub cpus: CpuList,
    /// The time for which corehop watches a CPU in one window.
    pub window: Nanos,
    /// The shortest gap that is recorded.
    pub threshold: Nanos,
    /// The number of windows on each CPU.
    pub samples: u32,
}

/// The upper bound of the drawn time between two windows: more than two ticks of most kernels.
const MOST_APART: Nanos = Nanos::from_millis(10);

impl MeasuredSupply {
    /// Makes an experiment that watches each CPU for `watched` in windows of the length `window`; if `window` is
    /// `None`, the windows have the usual length.
    pub fn of(cpus: CpuList, watched: Nanos, window: Option<Nanos>) -> Self {
        let window = window.unwrap_or(Watch::LONGEST);
        let samples =
            watched.get().div_ceil(window.get().max(1)).clamp(1, u64::from(u32::MAX)) as u32;
        Self { cpus, window, threshold: Nanos::new(500), samples }
    }

    fn cpus(&self, platform: &Platform) -> CpuList {
        if self.cpus.is_empty() { platform.usable() } else { self.cpus.clone() }
    }

    /// Returns a watch with `quota[i]` windows on the CPU `i`; the windows of the CPUs alternate.
    fn watch(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Watch, ExperimentError> {
        let cpus = self.cpus(platform);
        let mut draw = DrawStream::new(seed, turn.block);
        let replicate = turn.replicate.unwrap_or_default();
        let most = quota.iter().copied().max().unwrap_or(0);
        let mut windows = Vec::new();
        for number in 0..most {
            let wants = |(_, count): &(Cpu, &u32)| **count > number;
            let mut round: Vec<Cpu> =
                cpus.iter().zip(quota).filter(wants).map(|(cpu, _)| cpu).collect();
            draw.shuffle(&mut round);
            let apart = |cpu| {
                let after = Nanos::new(draw.below(MOST_APART.get()));
                PlannedWindow { cpu, replicate, after }
            };
            windows.extend(round.into_iter().map(apart));
        }
        let watch = Watch { cpus, window: self.window, threshold: self.threshold, windows };
        watch.check(platform)?;
        Ok(watch)
    }
}

impl Experiment for MeasuredSupply {
    fn name(&self) -> &'static str {
        "supply"
    }

    fn units(&self, platform: &Platform, seed: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        let quota = vec![0; self.cpus(platform).len()];
        let watch = self.watch(platform, seed, RunPosition::default(), &quota)?;
        let asked = |unit: SamplingUnit| SamplingUnit { asked: self.samples, ..unit };
        Ok(watch.units().into_iter().map(asked).collect())
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        Ok(Plan::new(self.name(), seed, self.watch(platform, seed, turn, quota)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> MeasuredSupply {
        MeasuredSupply::of(CpuList::new([Cpu(0), Cpu(2)]), Nanos::from_millis(200), None)
    }

    #[test]
    fn windows_of_all_cpus_alternate_and_keep_no_step() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let plan = experiment().plan(&platform, 7).unwrap();
        let watch = plan.supply().unwrap();
        let cpus: Vec<u32> = watch.windows.iter().map(|it| it.cpu.0).collect();
        assert_eq!(cpus.len(), 10);
        assert!(cpus.chunks(2).all(|pair| pair[0] != pair[1]), "{cpus:?}");
        let apart: Vec<u64> = watch.windows.iter().map(|it| it.after.get()).collect();
        assert!(apart.iter().any(|&ns| ns > 5_000_000) && apart.iter().any(|&ns| ns < 5_000_000));
        assert_eq!(Plan::from_json(&plan.to_json()), Ok(plan.clone()));
        assert_eq!(plan.rest(7, 7).supply().unwrap().windows.len(), 3);
    }

    #[test]
    fn what_cannot_be_watched_is_named_with_what_can() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let says = |it: MeasuredSupply| it.plan(&platform, 1).unwrap_err().to_string();
        let cpus = CpuList::new([Cpu(4_000)]);
        let why = says(MeasuredSupply { cpus, ..experiment() });
        assert!(why.contains("CPU 4000") && why.contains("0-"), "{why}");
        let why = says(MeasuredSupply { window: Nanos::from_millis(60), ..experiment() });
        assert!(why.contains("60 ms") && why.contains("40 ms"), "{why}");
        let why = says(MeasuredSupply { threshold: Nanos::new(1), ..experiment() });
        assert!(why.contains("a threshold of 1 ns"), "{why}");
    }
}
