// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a core switch by mechanism and pair of CPUs: gettidbench of Strong et al. (2009, section 5),
//! extended to calls with a size.
//!
//! A batch makes several calls with one mechanism. Batches of all mechanisms and pairs alternate in random
//! order, so that a change on the host affects all of them equally.

use serde::{Deserialize, Serialize};

use super::{DrawStream, Experiment, ExperimentError, RunPosition, SamplingUnit};
use crate::kinds::{Kind, Plan, SwitchCell, SwitchRound, Switches, SwitchesError};
use crate::platform::{Affinity, Platform};
use crate::units::{Cpu, CpuList};
use crate::workload::switching::{SwitchCall, SwitchMechanism};

/// The parameters of the experiment on core switches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreSwitch {
    /// The mechanisms to measure; corehop always measures `none` too, because it compares the other mechanisms with
    /// `none`.
    pub mechanisms: Vec<SwitchMechanism>,
    /// The system calls that the experiment measures.
    pub calls: Vec<SwitchCall>,
    /// The sizes of system calls that have a size, in bytes.
    pub bytes: Vec<u64>,
    /// The numbers of calls outstanding at a time, for mechanisms that can have several outstanding calls.
    pub outstanding: Vec<u32>,
    /// Pairs of CPUs, from application core to OS core; if empty, [`CoreSwitch::pairs`] chooses the pairs.
    #[serde(default)]
    pub pairs: Vec<(Cpu, Cpu)>,
    /// The CPUs that the experiment can use; empty for all CPUs.
    #[serde(default)]
    pub cpus: CpuList,
    /// The number of calls in a batch of the mechanism `none` or of a mechanism that polls.
    pub polling_batch: u32,
    /// The number of calls in a batch of a mechanism that sleeps or moves.
    pub sleeping_batch: u32,
    /// The number of batches of each cell.
    pub samples: u32,
}

impl CoreSwitch {
    /// The largest number of CPUs for which the experiment measures every ordered pair by default.
    const MOST_OF_ALL: usize = 4;

    /// Returns the pairs of CPUs that the experiment measures. The default pairs are all ordered pairs of
    /// up to four usable CPUs; if there are more CPUs, one pair of each class (a common core, a common
    /// cache, or nothing in common), in both directions.
    ///
    /// # Errors
    /// Returns [`SwitchesError::OneCpu`] if fewer than two CPUs are usable.
    pub fn pairs(&self, platform: &Platform) -> Result<Vec<(Cpu, Cpu)>, SwitchesError> {
        if !self.pairs.is_empty() {
            return Ok(self.pairs.clone());
        }
        let usable = platform.usable();
        let wanted = |cpu: &Cpu| self.cpus.is_empty() || self.cpus.contains(*cpu);
        let cpus = CpuList::new(usable.iter().filter(wanted));
        if cpus.len() < 2 {
            let (platform, usable) = (platform.name.clone(), cpus.to_string());
            return Err(SwitchesError::OneCpu { platform, usable });
        }
        let back = |(from, to): (Cpu, Cpu)| [(from, to), (to, from)];
        if cpus.len() <= Self::MOST_OF_ALL {
            let upper =
                |from: Cpu| cpus.iter().filter(move |&to| from < to).map(move |to| (from, to));
            return Ok(cpus.iter().flat_map(upper).flat_map(back).collect());
        }
        let classes = [Affinity::Smt, Affinity::L2, Affinity::L3, Affinity::Memory];
        let of_class = classes.into_iter().filter_map(|class| platform.pair(&cpus, class));
        Ok(of_class.flat_map(back).collect())
    }

    /// Returns the experiment's cells on a platform.
    ///
    /// # Errors
    /// Returns [`SwitchesError`] if the platform lacks a CPU of a cell, or if a cell is invalid.
    pub fn cells(&self, platform: &Platform) -> Result<Vec<SwitchCell>, SwitchesError> {
        let mut cells = Vec::new();
        for (from, to) in self.pairs(platform)? {
            for &call in &self.calls {
                let sizes = if call.is_sized() { &self.bytes[..] } else { &[0] };
                for &bytes in sizes {
                    cells.extend(self.of_call((from, to), call, bytes));
                }
            }
        }
        Switches { cells: cells.clone(), rounds: Vec::new() }.check(platform)?;
        Ok(cells)
    }

    /// Returns the cells of one call between two CPUs: one for every mechanism that can make the call.
    fn of_call(&self, (from, to): (Cpu, Cpu), call: SwitchCall, bytes: u64) -> Vec<SwitchCell> {
        let wanted = |mechanism: &&SwitchMechanism| {
            let is_wanted =
                self.mechanisms.contains(mechanism) || **mechanism == SwitchMechanism::None;
            is_wanted && !(**mechanism == SwitchMechanism::Sqpoll && call.is_sized())
        };
        let cell = |mechanism: SwitchMechanism, outstanding| {
            let polls = mechanism.polls() || !mechanism.switches();
            let calls = if polls { self.polling_batch } else { self.sleeping_batch };
            SwitchCell { mechanism, from, to, call, bytes, outstanding, calls }
        };
        let depths = |&mechanism: &SwitchMechanism| {
            let depths =
                self.outstanding.iter().filter(move |&&it| it == 1 || mechanism.has_partner());
            depths.map(move |&outstanding| cell(mechanism, outstanding))
        };
        SwitchMechanism::ALL.iter().filter(wanted).flat_map(depths).collect()
    }

    /// Makes an experiment with one timed `gettid` in a batch, from CPU 0 to CPU 1, by each of the given
    /// mechanisms.
    pub fn one_call(mechanisms: Vec<SwitchMechanism>, samples: u32) -> Self {
        Self {
            mechanisms,
            calls: vec![SwitchCall::Gettid],
            bytes: Vec::new(),
            outstanding: vec![1],
            pairs: vec![(Cpu(0), Cpu(1))],
            cpus: CpuList::default(),
            polling_batch: 1,
            sleeping_batch: 1,
            samples,
        }
    }
}

impl Experiment for CoreSwitch {
    fn name(&self) -> &'static str {
        "core-switch"
    }

    fn units(&self, platform: &Platform, _: u64) -> Result<Vec<SamplingUnit>, ExperimentError> {
        let body = Switches { cells: self.cells(platform)?, rounds: Vec::new() };
        let asked = |unit: SamplingUnit| SamplingUnit { asked: self.samples, ..unit };
        Ok(body.units().into_iter().map(asked).collect())
    }

    fn block(
        &self,
        platform: &Platform,
        seed: u64,
        turn: RunPosition,
        quota: &[u32],
    ) -> Result<Plan, ExperimentError> {
        let cells = self.cells(platform)?;
        let mut draw = DrawStream::new(seed, turn.block);
        let replicate = turn.replicate.unwrap_or_default();
        let most = quota.iter().copied().max().unwrap_or(0);
        let round = |number: u32| {
            let has_one = |cell: &usize| quota.get(*cell).is_some_and(|&count| count > number);
            let mut order: Vec<usize> = (0..cells.len()).filter(has_one).collect();
            draw.shuffle(&mut order);
            SwitchRound { replicate, order }
        };
        let rounds = (0..most).map(round).collect();
        Ok(Plan::new(self.name(), seed, Switches { cells, rounds }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> CoreSwitch {
        CoreSwitch {
            mechanisms: SwitchMechanism::ALL.iter().copied().filter(|it| !it.is_strong()).collect(),
            calls: vec![SwitchCall::Gettid, SwitchCall::Pwrite],
            bytes: vec![64, 4096],
            outstanding: vec![1, 16],
            pairs: Vec::new(),
            cpus: CpuList::default(),
            polling_batch: 100,
            sleeping_batch: 10,
            samples: 3,
        }
    }

    #[test]
    fn every_pair_of_few_cpus_is_measured_and_of_many_one_pair_of_each_class() {
        let pairs = |id: &str| {
            let platform = Platform::named(id).unwrap().unwrap();
            experiment().pairs(&platform).unwrap().len()
        };
        assert_eq!((pairs("m5_cs"), pairs("m5_cccc")), (2, 12));
        // Eight cores of the E5520: a common level 3, and none.
        assert_eq!(pairs("xeon_e5520"), 4);
    }

    #[test]
    fn each_round_has_a_batch_of_every_cell_that_has_samples_left() {
        let platform = Platform::named("m5_cs").unwrap().unwrap();
        let units = experiment().units(&platform, 1).unwrap();
        // 14 mechanisms and four deeper ones for gettid; sqpoll has no sizes.
        assert_eq!(units.len(), 2 * (18 + 2 * 17));
        let mut quota = vec![1; units.len()];
        quota[0] = 2;
        let turn = RunPosition { block: 0, replicate: Some(4) };
        let plan = experiment().block(&platform, 1, turn, &quota).unwrap();
        let body = plan.switches().unwrap();
        let lengths: Vec<usize> = body.rounds.iter().map(|round| round.order.len()).collect();
        assert_eq!(lengths, [units.len(), 1]);
        assert!(body.rounds.iter().all(|round| round.replicate == 4));
        plan.check(&platform).unwrap();
    }

    #[test]
    fn one_cpu_has_no_pairs() {
        let platform = Platform::named("m5_cs").unwrap().unwrap();
        let one = CoreSwitch { cpus: CpuList::new([Cpu(0)]), ..experiment() };
        let error = one.units(&platform, 1).unwrap_err().to_string();
        assert!(error.contains("one usable CPU") && error.contains("taskset"), "{error}");
    }

    #[test]
    fn a_quota_is_the_number_of_rounds_that_have_a_cell() {
        let platform = Platform::named("m5_cs").unwrap().unwrap();
        let cells = experiment().cells(&platform).unwrap().len();
        let mut quota = vec![0; cells];
        (quota[1], quota[4]) = (3, 1);
        let turn = RunPosition { block: 2, replicate: None };
        let plan = experiment().block(&platform, 9, turn, &quota[..5]).unwrap();
        let rounds = &plan.switches().unwrap().rounds;
        let mut first = rounds[0].order.clone();
        first.sort_unstable();
        assert_eq!(first, [1, 4], "cells beyond the quota have no batch");
        let rest: Vec<&[usize]> = rounds[1..].iter().map(|it| it.order.as_slice()).collect();
        assert_eq!(rest, [[1], [1]]);
        assert!(rounds.iter().all(|it| it.replicate == 0), "a block without a replicate");
        let none = experiment().block(&platform, 9, turn, &[]).unwrap();
        assert!(none.switches().unwrap().rounds.is_empty());
    }
}
