// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the causes of the spread between replicates: shares of the variance, from a run of
//! `conditions`.
//!
//! A step of a `conditions` run renews one draw. The median of a step is the sum of a contribution of
//! the current draw of each kind, a contribution of time, and the error of a median of few samples. The
//! variance of the medians is therefore the sum of the variances of the following parts:
//!
//! - The variance of one kind of draw: half of the mean squared difference between a step that renewed
//!   the draw and the step before, minus the corresponding value for steps that renewed nothing. The
//!   contributions of time and error are in pairs of steps with and without a renewal, so they cancel.
//!   The estimator is the difference-based estimator of von Neumann (Annals of Mathematical Statistics
//!   12, 1941), applied to each kind of draw.
//! - The error of a median: a quarter of the mean squared difference between the medians of a step's
//!   two halves.
//! - The distance of the CPUs: if a run shows several classes of distance, the variance between their
//!   means. Neighbouring steps of different classes do not enter the differences.
//! - Time from one step to the next: the differences between steps that renewed nothing, minus the
//!   error.
//! - Time over the run: the remaining variance.
//!
//! A covariate (the exchange within a class, the share of the last level, the progress of a polluter)
//! explains parts of this variance. corehop reports it separately, as the adjusted share that a
//! straight line explains.
//!
//! **Scale.** Effects on a delay multiply, so all values are logarithms unless a median is not
//! positive.
//!
//! **Intervals.** The intervals are bootstrap percentiles over redrawn rounds: a round has each kind of
//! step once, and each pair of neighbours belongs to the round of its second step. The intervals are
//! too narrow if the dependence on time is longer than a round; the tests contain the simulated
//! coverage.

mod shares;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use super::cell::CellKey;
use super::estimator::Estimator;
use super::ordered::{Interval, Ordered};
use super::quantile;
use corehop_plan::experiment::Renewed;
use corehop_plan::samples::Sample;
use corehop_plan::workload::Event;

pub use shares::{FEWEST_ROUNDS, NoShares};

/// A part of the variance of the medians.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VarianceComponent {
    /// The class of the distance between the CPUs of a step.
    Distance,
    /// The random draw of one kind, such as the draw of the page frames.
    Renewed(Renewed),
    /// Changes from one step to the next that no renewal causes.
    Step,
    /// The component is the change over the run that no draw explains.
    Run,
    /// The error of the median of a step's samples.
    Error,
}

impl VarianceComponent {
    /// Returns the name of the part, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Distance => "distance of the CPUs",
            Self::Renewed(Renewed::Frames) => "the job's page frames",
            Self::Renewed(Renewed::Order) => "the order of its accesses",
            Self::Renewed(Renewed::Others) => "polluters and preemptors",
            Self::Renewed(Renewed::Threads) => "the measured threads",
            Self::Renewed(Renewed::Nothing | Renewed::Everything) => "all draws at once",
            Self::Step => "time, from step to step",
            Self::Run => "time, over the run",
            Self::Error => "error of a step's median",
        }
    }
}

/// A quantity measured beside the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Covariate {
    /// The exchange time of a line, within a class of distance.
    Exchange,
    /// The share of the last-level cache that a probe kept.
    LastLevel,
    /// The bytes per second that the load moved.
    Progress,
}

impl Covariate {
    /// All covariates of the analysis.
    pub const ALL: [Self; 3] = [Self::Exchange, Self::LastLevel, Self::Progress];

    /// Returns the name of the covariate, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange of a line, within its class",
            Self::LastLevel => "share of the last level kept by a probe",
            Self::Progress => "bytes per second of the load",
        }
    }
}

/// A share of the variance of the medians, with its interval. An estimated share can be negative.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VarianceShare {
    /// The share of the variance; 1 is the whole variance.
    pub share: f64,
    /// The interval of the share at 95 %.
    pub interval: Option<Interval>,
}

/// The causes of the spread of a cell in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spreading {
    /// The cell, as the experiment declares it.
    pub cell: CellKey,
    /// The number of steps with a valid sample.
    pub steps: usize,
    /// The number of rounds that have a step with a valid sample.
    pub rounds: usize,
    /// The number of valid samples behind the shares.
    pub samples: usize,
    /// The median of the steps' medians, in microseconds.
    pub median_us: f64,
    /// Whether the variance is of the logarithm of the medians.
    pub logarithmic: bool,
    /// The standard deviation of the medians: of their logarithm, or in microseconds.
    pub deviation: f64,
    /// The parts, in the order of [`VarianceComponent`]; their shares add up to 1.
    pub parts: Vec<(VarianceComponent, VarianceShare)>,
    /// The share of all draws together, for comparison with the sum of the single draws; it is not a
    /// part of its own.
    pub everything: Option<VarianceShare>,
    /// The share that each measured and varying covariate explains.
    pub covariates: Vec<(Covariate, VarianceShare)>,
    /// The number of steps in each class of distance, if measured.
    pub classes: BTreeMap<String, usize>,
    /// The reason why the cell has no shares of variance.
    pub why_none: Option<NoShares>,
}

/// The samples of one step of a run.
#[derive(Debug, Clone, Default)]
struct StepSamples {
    renewed: Option<Renewed>,
    delays: Vec<f64>,
    classes: BTreeMap<Event, usize>,
    exchange: Mean,
    last_level: Mean,
    progress: Mean,
}

/// A sum and a count, from which a mean is computed.
#[derive(Debug, Clone, Copy, Default)]
struct Mean(f64, usize);

impl Mean {
    fn take(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            *self = Self(self.0 + value, self.1 + 1);
        }
    }

    fn value(self) -> Option<f64> {
        (self.1 > 0).then(|| self.0 / self.1 as f64)
    }
}

/// Collects samples of `conditions` from one run after the other, and ignores other samples.
#[derive(Debug, Clone)]
pub struct Spreads {
    estimator: Estimator,
    run: usize,
    /// The samples by run and cell, then by step.
    runs: Vec<(usize, CellKey, BTreeMap<u64, StepSamples>)>,
}

impl Spreads {
    /// Makes an empty collection whose delays are computed by `estimator`.
    pub const fn new(estimator: Estimator) -> Self {
        Self { estimator, run: 0, runs: Vec::new() }
    }

    /// Ends a run; later samples belong to the next run.
    pub const fn next_run(&mut self) {
        self.run += 1;
    }

    /// Adds samples of the current run.
    pub fn take(&mut self, samples: &[Sample]) {
        for sample in samples {
            let (Some(renewed), Some(step)) = (sample.renewed, sample.replicate) else { continue };
            let delay = self.estimator.delay_ns(sample).filter(|_| sample.valid);
            let gathered = self.steps_of(sample).entry(step).or_default();
            gathered.renewed = Some(renewed);
            let Some(delay) = delay.filter(|delay| delay.is_finite()) else { continue };
            gathered.delays.push(delay);
            if let Some(class) = sample.pair_class {
                *gathered.classes.entry(class).or_default() += 1;
            }
            gathered.exchange.take(sample.exchange_ns);
            gathered.exchange.take(sample.exchange_after_ns);
            gathered.last_level.take(sample.llc_share);
            gathered.progress.take(sample.load_bytes_per_s);
        }
    }

    fn steps_of(&mut self, sample: &Sample) -> &mut BTreeMap<u64, StepSamples> {
        let event = sample.declared_event.unwrap_or(sample.event);
        let cell = CellKey { event, pair_class: None, ..CellKey::of(sample) };
        let known = self.runs.iter().position(|(run, of, _)| *run == self.run && *of == cell);
        let at = known.unwrap_or_else(|| {
            self.runs.push((self.run, cell, BTreeMap::new()));
            self.runs.len() - 1
        });
        &mut self.runs[at].2
    }

    /// Returns the causes of the spread of each cell of each run.
    pub fn finish(&self) -> Vec<Spreading> {
        self.runs.iter().filter_map(|(_, cell, steps)| spreading(cell, steps)).collect()
    }
}

/// A step as a number, with the covariates measured in the step.
#[derive(Debug, Clone, Copy)]
struct StepObservation {
    number: u64,
    renewed: Renewed,
    /// The median of the step's delays, or its logarithm.
    value: f64,
    /// The difference between the medians of the step's two halves.
    halves: Option<f64>,
    class: Option<Event>,
    covariates: [Option<f64>; 3],
}

fn median(values: &[f64]) -> Option<f64> {
    Ordered::new(values).ok().map(|values| quantile::median(&values))
}

/// Returns the medians of two halves, to which the values are dealt in the order A B B A: jobs go back
/// and forth between two CPUs, and one direction can cost more.
fn half_medians(values: &[f64]) -> Option<[f64; 2]> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (at, &value) in values.iter().enumerate() {
        if matches!(at % 4, 0 | 3) { first.push(value) } else { second.push(value) }
    }
    Some([median(&first)?, median(&second)?])
}

fn step(number: u64, gathered: &StepSamples, scale: fn(f64) -> f64) -> Option<StepObservation> {
    let halves = half_medians(&gathered.delays).map(|[a, b]| scale(a) - scale(b));
    let class = gathered.classes.iter().max_by_key(|(_, count)| **count).map(|(&class, _)| class);
    Some(StepObservation {
        number,
        renewed: gathered.renewed?,
        value: scale(median(&gathered.delays)?),
        halves: halves.filter(|difference| difference.is_finite()),
        class,
        covariates: [
            gathered.exchange.value().map(f64::ln),
            gathered.last_level.value(),
            gathered.progress.value(),
        ],
    })
}

fn spreading(cell: &CellKey, gathered: &BTreeMap<u64, StepSamples>) -> Option<Spreading> {
    let medians: Vec<f64> = gathered.values().filter_map(|step| median(&step.delays)).collect();
    let logarithmic = medians.iter().all(|&median| median > 0.0);
    let scale = if logarithmic { f64::ln } else { |ns: f64| ns / 1e3 };
    let of = |(&number, gathered): (&u64, &StepSamples)| step(number, gathered, scale);
    let steps: Vec<StepObservation> = gathered.iter().filter_map(of).collect();
    let told = shares::shares(&steps);
    let mut classes = BTreeMap::new();
    for class in steps.iter().filter_map(|step| step.class) {
        *classes.entry(class.word().to_owned()).or_default() += 1;
    }
    Some(Spreading {
        cell: cell.clone(),
        steps: steps.len(),
        rounds: told.rounds,
        samples: gathered.values().map(|step| step.delays.len()).sum(),
        median_us: median(&medians)? / 1e3,
        logarithmic,
        deviation: told.deviation,
        parts: told.parts,
        everything: told.everything,
        covariates: told.covariates,
        classes,
        why_none: told.why_none,
    })
}
