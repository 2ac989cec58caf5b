// SPDX-License-Identifier: MIT OR Apache-2.0
//! Studies of what preemptions cost: on random sets with working sets, what does a finer charge accept, and what does
//! limited preemption save?
//!
//! Every set is asked twice, with what is compared and without, so the counts are of pairs: beside how many sets each of two
//! tests accepts stands how many only one of them does. Sets follow from the seed and their index alone.

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

/// A study: what is drawn, and what is compared.
#[derive(Debug, Clone)]
pub struct CostStudy {
    /// A name for tables and files.
    pub id: String,
    /// The question, with its source.
    pub title: String,
    /// The seed of every draw.
    pub seed: u64,
    /// The number of sets drawn for each cap.
    pub sets: u64,
    /// The ways to read it, at least one.
    pub readings: Vec<CostReading>,
}

/// One way to read a study.
#[derive(Debug, Clone)]
pub struct CostReading {
    /// Its name.
    pub name: String,
    /// The number of CPUs that serve a set.
    pub cpus: u32,
    /// The utilisations, together, of the sets.
    pub caps: Caps,
    /// The way to draw tasks.
    pub generator: Generator,
    /// The least and the largest working set in KiB; between them they are log-uniform.
    pub wss_kib: [u64; 2],
    /// The cost of a preemption for each KiB of the smaller of both working sets, in microseconds, where no
    /// other costs are given.
    pub us_per_kib: Option<f64>,
    /// The tests that are set side by side.
    pub compared: Vec<TestPair>,
    /// The ways to limit preemptions, on each CPU after packing by utilisation (worst fit decreasing).
    pub limits: Vec<Limit>,
}

/// Two tests for one scheduler.
#[derive(Debug, Clone)]
pub struct TestPair {
    /// As tables have it.
    pub name: String,
    /// The finer one.
    pub test: &'static Test,
    /// The other one.
    pub against: &'static Test,
}

/// Why a study has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum CostStudyError {
    /// Neither the study nor the user says what a preemption costs.
    #[error(
        "the cost of a preemption is missing: pass a table, a model or samples with --costs, or set costs.us_per_kib in the study"
    )]
    NoCosts,
    /// The cost of a working set is not known.
    #[error("reading {reading}: a working set of {wss_kib} KiB: {why}")]
    Size {
        /// In which reading.
        reading: String,
        /// The size.
        wss_kib: u64,
        /// Why.
        why: NoCost,
    },
    /// There are no such sets.
    #[error(transparent)]
    Sum(#[from] NoSuchSum),
    /// A set that is none.
    #[error(transparent)]
    Set(#[from] TaskError),
}

/// The result of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostStudyResult {
    /// By reading.
    pub readings: Vec<ReadingResult>,
}

/// The result of a reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadingResult {
    /// The reading.
    pub name: String,
    /// By cap, ascending.
    pub rows: Vec<CapCounts>,
    /// All caps together.
    pub all: CapCounts,
}

/// The counts at a cap.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CapCounts {
    /// The cap; none of all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// The sets that have a task.
    pub sets: u64,
    /// For each comparison.
    pub compared: Vec<AcceptanceCounts>,
    /// For each way to limit preemptions.
    pub limited: Vec<Saved>,
}

/// The numbers of sets that two tests accept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AcceptanceCounts {
    /// The comparison.
    pub name: String,
    /// The finer test accepts.
    pub with: u64,
    /// The other one accepts.
    pub without: u64,
    /// Only the finer one does.
    pub only_with: u64,
    /// Only the other one does.
    pub only_without: u64,
}

impl CostStudy {
    /// The same with another seed or number of sets.
    #[must_use]
    pub fn with(mut self, seed: Option<u64>, sets: Option<u64>) -> Self {
        self.seed = seed.unwrap_or(self.seed);
        self.sets = sets.unwrap_or(self.sets);
        self
    }

    /// Draws the sets and asks. `costs` go before those of the study.
    ///
    /// # Errors
    /// [`CostStudyError`] where costs are missing or do not reach, or sets cannot be drawn.
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

    /// The cost of preemptions to every size that can be drawn.
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

/// Sets the stream of working sets apart from that of tasks.
const SIZES: u64 = 0x5749_5353;

/// Sizes of preemptors for which a linear cost is tabulated: that many for each doubling.
const STEPS: u32 = 4;

fn linear(each: f64, kib: u64) -> Cost {
    let us = each * kib as f64;
    Cost { us, low_us: Some(us), high_us: Some(us) }
}

/// The cost of the smaller of both sets, for preemptors from the least size to what all tasks may touch together.
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

/// The cost of preemptions by size, looked up beforehand.
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
        found.map(|it| it.0).ok_or_else(|| NoCost(format!("{event}: it is not in the study")))
    }
    fn by_preemptor(&self, wss_kib: f64) -> Result<Vec<(f64, Cost)>, NoCost> {
        let found = self.of(wss_kib).map(|it| it.1.clone());
        found.ok_or_else(|| NoCost("it is not in the study".to_owned()))
    }
    fn happens(&self, event: Event) -> bool {
        event == Event::Preemption
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

impl CapCounts {
    /// Asks about a set.
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
