// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies of preemption costs: on random sets with working sets, how many more sets does a finer charge accept, and
//! how much does limited preemption save?
//!
//! Every set is tested twice, with and without the compared feature. So the counts are paired: for each of two tests,
//! how many sets the test accepts, and how many only this test accepts. The random sets depend only on the seed and
//! their index.

mod text;
mod saved;
#[cfg(test)]
mod tests;

pub use saved::Saved;

use serde::Serialize;

use super::{Caps, Generator};
use crate::catalogue::Test;
use crate::charge::{ChargedSet, DelayCharge};
use crate::limited::remedy::Limit;
use corehop_plan::workload::Event;
use corehop_plan::workload::draw::DrawStream;
use corehop_plan::workload::generate::fixed_sum::NoSuchSum;
use corehop_plan::workload::generate::{Capped, FixedSum};
use corehop_plan::workload::task::{TaskError, TaskParameters, TaskSet};
use corehop_stats::costs::{Cost, EventCosts, NoCost};

/// A study of preemption costs: the sets that are drawn, and the tests that are compared.
#[derive(Debug, Clone)]
pub struct CostStudy {
    /// The name of the study in tables and files.
    pub id: String,
    /// The question of the study, with its source.
    pub title: String,
    /// The seed of every draw.
    pub seed: u64,
    /// The number of sets drawn for each cap.
    pub sets: u64,
    /// The readings of the study, at least one.
    pub readings: Vec<CostReading>,
}

/// One reading of a study of preemption costs.
#[derive(Debug, Clone)]
pub struct CostReading {
    /// The name of the reading.
    pub name: String,
    /// The number of CPUs on which a set runs.
    pub cpus: u32,
    /// The total utilisations of the sets.
    pub caps: Caps,
    /// The generator of tasks.
    pub generator: Generator,
    /// The smallest and the largest working set in KiB; sizes are log-uniform between them.
    pub wss_kib: [u64; 2],
    /// The cost of a preemption for each KiB of the smaller of both working sets, in microseconds, if no other costs
    /// are given.
    pub us_per_kib: Option<f64>,
    /// The pairs of tests that are compared.
    pub compared: Vec<TestPair>,
    /// The ways to limit preemptions, applied to each CPU after packing by utilisation (worst fit decreasing).
    pub limits: Vec<Limit>,
}

/// Two tests for one scheduler that are compared.
#[derive(Debug, Clone)]
pub struct TestPair {
    /// The name of the pair in tables.
    pub name: String,
    /// The test with the finer charge.
    pub test: &'static Test,
    /// The test that is compared with the finer test.
    pub against: &'static Test,
}

/// The reason why a study of preemption costs has no result.
#[derive(Debug, thiserror::Error)]
pub enum CostStudyError {
    /// Neither the study nor the user states the cost of a preemption.
    #[error(
        "the cost of a preemption is missing: pass a table, a model or samples with --costs, or set costs.us_per_kib in the study"
    )]
    NoCosts,
    /// The cost for a working set size is not known.
    #[error("reading {reading}: a working set of {wss_kib} KiB: {why}")]
    Size {
        /// The name of the reading.
        reading: String,
        /// The working set size in KiB.
        wss_kib: u64,
        /// The reason why the cost is not known.
        why: NoCost,
    },
    /// No sets with these parameters exist.
    #[error(transparent)]
    Sum(#[from] NoSuchSum),
    /// A drawn set is invalid.
    #[error(transparent)]
    Set(#[from] TaskError),
}

/// The result of a study of preemption costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostStudyResult {
    /// The results of the readings.
    pub readings: Vec<ReadingResult>,
}

/// The result of one reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadingResult {
    /// The name of the reading.
    pub name: String,
    /// The counts at each cap, ascending.
    pub rows: Vec<CapCounts>,
    /// The counts over all caps.
    pub all: CapCounts,
}

/// The counts at one utilisation cap, or over all caps.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CapCounts {
    /// The utilisation cap; `None` for all caps together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// The number of sets with at least one task.
    pub sets: u64,
    /// The acceptance counts of each comparison.
    pub compared: Vec<AcceptanceCounts>,
    /// The savings for each way to limit preemptions.
    pub limited: Vec<Saved>,
}

/// The number of sets that each of two tests accepts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AcceptanceCounts {
    /// The name of the comparison.
    pub name: String,
    /// The number of sets that the finer test accepts.
    pub with: u64,
    /// The number of sets that the other test accepts.
    pub without: u64,
    /// The number of sets that only the finer test accepts.
    pub only_with: u64,
    /// The number of sets that only the other test accepts.
    pub only_without: u64,
}

impl CostStudy {
    /// Returns the study with another seed or number of sets, if given.
    #[must_use]
    pub fn with(mut self, seed: Option<u64>, sets: Option<u64>) -> Self {
        self.seed = seed.unwrap_or(self.seed);
        self.sets = sets.unwrap_or(self.sets);
        self
    }

    /// Draws the sets and runs the tests. `costs` take precedence over the costs of the study.
    ///
    /// # Errors
    /// Returns [`CostStudyError`] if costs are missing or do not cover a size, or sets cannot be drawn.
    pub fn run(&self, costs: Option<&dyn EventCosts>) -> Result<CostStudyResult, CostStudyError> {
        let of = |reading: &CostReading| self.read(reading, costs);
        Ok(CostStudyResult { readings: self.readings.iter().map(of).collect::<Result<_, _>>()? })
    }

    fn read(
        &self,
        reading: &CostReading,
        costs: Option<&dyn EventCosts>,
    ) -> Result<ReadingResult, CostStudyError> {
        let known = reading.tabulated(costs)?;
        let caps = (0..reading.caps.len()).map(|place| reading.caps.at(place));
        let row = |cap: f64| {
            let mut row = reading.row(Some(cap));
            for index in 0..self.sets {
                let given = reading.drawn(cap, self.seed, index)?;
                if !given.is_empty() {
                    row.take(reading, &TaskSet::new(reading.cpus, &given)?, &known)?;
                }
            }
            Ok(row)
        };
        let rows: Vec<CapCounts> = caps.map(row).collect::<Result<_, CostStudyError>>()?;
        let mut all = reading.row(None);
        for row in &rows {
            all.add(row);
        }
        Ok(ReadingResult { name: reading.name.clone(), rows, all })
    }
}

impl CostReading {
    fn row(&self, cap: Option<f64>) -> CapCounts {
        let counts = |it: &TestPair| AcceptanceCounts {
            name: it.name.clone(),
            ..AcceptanceCounts::default()
        };
        CapCounts {
            cap,
            sets: 0,
            compared: self.compared.iter().map(counts).collect(),
            limited: self.limits.iter().map(|&limit| Saved::none(limit)).collect(),
        }
    }

    /// The tasks of a set with their working sets.
    fn drawn(&self, cap: f64, seed: u64, index: u64) -> Result<Vec<TaskParameters>, NoSuchSum> {
        let mut tasks = match &self.generator {
            Generator::Capped(capped) => Capped { cap, ..capped.clone() }.set(seed, index),
            Generator::FixedSum(fixed) => {
                FixedSum { sum: cap, ..fixed.clone() }.set(seed, index)?
            }
        };
        // A stream of their own: the tasks are those of a study without working sets.
        let mut stream = DrawStream::of_set(seed ^ SIZES, index);
        let [low, high] = self.wss_kib.map(|kib| kib as f64);
        for task in &mut tasks {
            let kib = stream.between(low.ln(), (high + 1.0).ln()).exp() as u64;
            task.wss_kib = Some(kib.clamp(self.wss_kib[0], self.wss_kib[1]));
        }
        Ok(tasks)
    }

    /// The cost of preemptions for every working set size that can be drawn.
    fn tabulated(
        &self,
        costs: Option<&dyn EventCosts>,
    ) -> Result<PreemptionCostTable, CostStudyError> {
        let [low, high] = self.wss_kib;
        let by_pair = self.compared.iter().any(|it| it.test.by_pair || it.against.by_pair);
        let of = |kib: u64| {
            let wrong =
                |why| CostStudyError::Size { reading: self.name.clone(), wss_kib: kib, why };
            let (cost, by) = match (costs, self.us_per_kib) {
                (Some(costs), _) => {
                    let cost = costs.largest(&[Event::Preemption], kib as f64).map_err(wrong)?;
                    let by = by_pair.then(|| costs.by_preemptor(kib as f64)).transpose();
                    (cost, by.map_err(wrong)?)
                }
                (None, Some(each)) => (linear(each, kib), Some(by_smaller(each, kib, low, high))),
                (None, None) => return Err(CostStudyError::NoCosts),
            };
            Ok((cost, by.unwrap_or_default()))
        };
        Ok(PreemptionCostTable {
            least: low,
            costs: (low..=high).map(of).collect::<Result<_, _>>()?,
        })
    }
}

/// Separates the random stream of working sets from the random stream of tasks.
const SIZES: u64 = 0x5749_5353;

/// For a linear cost, the number of tabulated preempting sizes per doubling.
const STEPS: u32 = 4;

fn linear(each: f64, kib: u64) -> Cost {
    let us = each * kib as f64;
    Cost { us, low_us: Some(us), high_us: Some(us) }
}

/// The cost of the smaller of both working sets, for preempting sizes from the smallest size to the sum that all
/// tasks may touch together.
fn by_smaller(each: f64, kib: u64, low: u64, high: u64) -> Vec<(f64, Cost)> {
    let factor = 2_f64.powf(1.0 / f64::from(STEPS));
    let mut sizes = vec![low];
    let mut size = low as f64;
    while size < high as f64 {
        size *= factor;
        sizes.push((size.ceil() as u64).min(high));
    }
    sizes.dedup();
    // Beyond the largest set the victim's own size is the bound.
    sizes.push(u64::MAX >> 1);
    sizes.into_iter().map(|size| (size as f64, linear(each, kib.min(size)))).collect()
}

/// Preemption costs by working set size, computed in advance.
#[derive(Debug)]
struct PreemptionCostTable {
    least: u64,
    costs: Vec<(Cost, Vec<(f64, Cost)>)>,
}

impl PreemptionCostTable {
    fn of(&self, wss_kib: f64) -> Option<&(Cost, Vec<(f64, Cost)>)> {
        self.costs.get((wss_kib as u64).checked_sub(self.least)? as usize)
    }
}

impl EventCosts for &PreemptionCostTable {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let found = self.of(wss_kib).filter(|_| event == Event::Preemption);
        found
            .map(|it| it.0)
            .ok_or_else(|| NoCost(format!("the cost of {event} is not in the study")))
    }
    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let found = self.of(wss_kib).map(|it| it.1.clone());
        found.ok_or_else(|| NoCost("the study has no cost for this size".to_owned()))
    }
    fn happens(&self, event: Event) -> bool {
        event == Event::Preemption
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

impl CapCounts {
    /// Tests one set and adds it to the counts.
    fn take(
        &mut self,
        reading: &CostReading,
        set: &TaskSet,
        known: &PreemptionCostTable,
    ) -> Result<(), TaskError> {
        self.sets += 1;
        let mut charged = ChargedSet::new(set, None, DelayCharge::Costs(Box::new(known)), None);
        for (counts, compared) in self.compared.iter_mut().zip(&reading.compared) {
            let mut asks = |test| Ok(charged.ask(test)?.answer.verdict.is_schedulable());
            let (with, without) = (asks(compared.test)?, asks(compared.against)?);
            counts.with += u64::from(with);
            counts.without += u64::from(without);
            counts.only_with += u64::from(with && !without);
            counts.only_without += u64::from(without && !with);
        }
        for saved in &mut self.limited {
            saved.take(set, known);
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.sets += other.sets;
        for (own, more) in self.compared.iter_mut().zip(&other.compared) {
            own.with += more.with;
            own.without += more.without;
            own.only_with += more.only_with;
            own.only_without += more.only_without;
        }
        for (own, more) in self.limited.iter_mut().zip(&other.limited) {
            own.add(more);
        }
    }
}
