// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of a common cache for two threads with common data (Kamali 2010, chapter 4).
//!
//! Every program runs with its threads on two cores that share a cache and on two that share none. Its
//! twins do the same with read-only data, or with private data of each thread. Times, misses and
//! snoop responses show the cost of sharing, and how to detect it. The experiment does not cover more
//! than two threads, or the decisions of a scheduler.

use serde::{Deserialize, Serialize};

use super::gangs::{Gang, Gangs, GangsError};
use super::plan::Plan;
use super::{Experiment, ExperimentError, Turn, Unit};
use crate::platform::{Affinity, Platform};
use crate::units::{Cpu, CpuList};
use crate::workload::gang::{Placing, Program, Sharing};

/// The parameters of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedData {
    /// The programs.
    pub programs: Vec<Program>,
    /// The ways their threads share data.
    pub sharings: Vec<Sharing>,
    /// Their placements.
    pub placings: Vec<Placing>,
    /// See [`Gang::rounds`].
    pub rounds: u64,
    /// See [`Gang::warm_up`].
    pub warm_up: u64,
    /// The number of runs of each.
    pub samples: u32,
    /// The only CPUs to use; empty for all.
    #[serde(default)]
    pub cpus: CpuList,
}

impl SharedData {
    /// The gangs: every program in every way of sharing and placing.
    ///
    /// # Errors
    /// [`GangsError`] where a program or a placing is impossible on `platform`.
    pub fn gangs(&self, platform: &Platform) -> Result<Gangs, GangsError> {
        let mut gangs = Vec::new();
        for program in &self.programs {
            program.check()?;
            for &sharing in &self.sharings {
                for &placing in &self.placings {
                    gangs.push(Gang {
                        program: program.clone(),
                        sharing,
                        placing,
                        cpus: self.two(platform, placing)?,
                        rounds: self.rounds,
                        warm_up: self.warm_up,
                        samples: self.samples,
                        first_run: 0,
                    });
                }
            }
        }
        let gangs = Gangs { gangs };
        gangs.check(platform)?;
        Ok(gangs)
    }

    /// The first two CPUs that are placed so.
    fn two(&self, platform: &Platform, placing: Placing) -> Result<Vec<Cpu>, GangsError> {
        let usable = platform.usable();
        let wanted = |cpu: &Cpu| self.cpus.is_empty() || self.cpus.contains(*cpu);
        let cpus = CpuList::new(usable.iter().filter(wanted));
        let (classes, what): (&[Affinity], _) = match placing {
            Placing::Shared => (&[Affinity::L3, Affinity::L2], "a cache in common, not a core"),
            Placing::Separate => (&[Affinity::Memory], "no cache in common"),
        };
        let pair = classes.iter().find_map(|&class| platform.pair(&cpus, class));
        pair.map(|(first, second)| vec![first, second]).ok_or_else(|| GangsError::Placing {
            placing,
            platform: platform.name.clone(),
            what,
        })
    }
}

impl Experiment for SharedData {
    fn name(&self) -> &'static str {
        "shared-data"
    }

    fn parameters(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    /// One replicate: a simulated machine starts every run anew.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<Unit>, ExperimentError> {
        Ok(Unit::of_gangs(&self.gangs(platform)?))
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: Turn,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let mut body = self.gangs(platform)?;
        for (gang, &samples) in body.gangs.iter_mut().zip(quota) {
            (gang.samples, gang.first_run) = (samples, turn.block as u32);
        }
        Ok(Plan::new(self.name(), seed, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> SharedData {
        SharedData {
            programs: vec![Program::Swap { items: 100, fixed_low_bits: false }],
            sharings: Sharing::ALL.to_vec(),
            placings: Placing::ALL.to_vec(),
            rounds: 10,
            warm_up: 0,
            samples: 1,
            cpus: CpuList::default(),
        }
    }

    #[test]
    fn threads_are_placed_below_the_outermost_common_cache_or_below_none() {
        let cpus = |id: &str| {
            let platform = Platform::named(id).unwrap().unwrap();
            let plan = experiment().gangs(&platform).unwrap();
            plan.check(&platform).unwrap();
            assert_eq!(plan.gangs.len(), 6);
            [0, 1].map(|at| plan.gangs[at].cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())
        };
        assert_eq!(cpus("xeon_e5520"), [vec![0, 1], vec![0, 4]]);
        // On the L7455 two cores have a level 2 in common, six a level 3.
        let [shared, separate] = cpus("xeon_l7455");
        let l7455 = Platform::named("xeon_l7455").unwrap().unwrap();
        let class = |pair: &[u32]| l7455.affinity(Cpu(pair[0]), Cpu(pair[1]));
        assert_eq!([class(&shared), class(&separate)], [Affinity::L3, Affinity::Memory]);
    }

    #[test]
    fn a_machine_of_one_package_has_no_separate_cores() {
        let phenom = Platform::named("phenom_9550").unwrap().unwrap();
        let error = experiment().gangs(&phenom).unwrap_err().to_string();
        assert!(error.contains("separate") && error.contains("no cache in common"), "{error}");
        let shared = SharedData { placings: vec![Placing::Shared], ..experiment() };
        assert_eq!(shared.gangs(&phenom).unwrap().gangs.len(), 3);
    }

    #[test]
    fn a_plan_by_hand_that_names_one_cpu_or_none_of_the_machine_is_refused() {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let mut plan = experiment().gangs(&platform).unwrap();
        for cpus in [vec![Cpu(0)], vec![Cpu(0), Cpu(0)], vec![Cpu(0), Cpu(8)]] {
            plan.gangs[2].cpus = cpus;
            let error = plan.check(&platform).unwrap_err().to_string();
            assert!(error.contains("gang 2") && error.contains("0-7"), "{error}");
        }
    }
}
