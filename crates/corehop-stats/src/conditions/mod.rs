// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of the spread between replicates: shares of the variance, from a run of `conditions`.
//!
//! Each step of such a run renews one thing. The median of a step is the sum of what the current
//! draw of each thing adds, what the time adds, and the error of a median of few samples. The
//! variance of the medians is then the sum of the variances of these parts:
//!
//! - A thing's own: half of the mean squared difference between a step that renewed it and the step
//!   before, less the same for steps that renewed nothing. What both kinds of pairs have (time, error)
//!   cancels. This is the difference-based estimator of von Neumann (Annals of Mathematical Statistics
//!   12, 1941), one for each thing.
//! - The error of a median: a quarter of the mean squared difference between the medians of a step's
//!   halves.
//! - The distance of the CPUs: where a run shows several classes, the variance between their means.
//!   Neighbours of different classes do not enter the differences.
//! - Time from one step to the next: what steps that renewed nothing differ by, less the error.
//! - Time over the run: the rest.
//!
//! A covariate (the exchange within a class, the share of the last level, the progress of a polluter)
//! explains some of these parts, and is reported beside them: the adjusted share that a straight line
//! explains.
//!
//! **Scale.** Effects on a delay multiply, so everything is of the logarithm, unless a median is not
//! positive.
//!
//! **Intervals.** Rounds are redrawn (bootstrap, percentiles): a round has every kind of step once, and
//! each pair of neighbours belongs to the round of its second step. They are too narrow where the time
//! dependence is longer than a round: simulated coverage is in the tests.

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

/// A part of the variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VarianceComponent {
    /// The class of the distance between the CPUs.
    Distance,
    /// The draw of one thing.
    Renewed(Renewed),
    /// Changes from one step to the next although nothing is renewed.
    Step,
    /// Other changes over the run.
    Run,
    /// The error of a median of a step's samples.
    Error,
}

impl VarianceComponent {
    /// In words.
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
    /// The exchange of a line, within a class.
    Exchange,
    /// The share of the last-level cache that a probe kept.
    LastLevel,
    /// The bytes per second that the load moved.
    Progress,
}

impl Covariate {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exchange, Self::LastLevel, Self::Progress];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange of a line, within its class",
            Self::LastLevel => "share of the last level kept by a probe",
            Self::Progress => "bytes per second of the load",
        }
    }
}

/// A share of the variance of the medians, with its interval. An estimate may lie below zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VarianceShare {
    /// The share, 1 for all of it.
    pub share: f64,
    /// Its interval at 95 %.
    pub interval: Option<Interval>,
}

/// The causes of the spread of a cell in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spreading {
    /// The cell, as declared.
    pub cell: CellKey,
    /// Steps with a valid sample.
    pub steps: usize,
    /// Rounds with such a step.
    pub rounds: usize,
    /// Valid samples.
    pub samples: usize,
    /// The median over steps of a step's median, in microseconds.
    pub median_us: f64,
    /// Whether the variance is that of the logarithm of the medians.
    pub logarithmic: bool,
    /// Its standard deviation: of the logarithm, or in microseconds.
    pub deviation: f64,
    /// The parts, in the order of [`VarianceComponent`]; their shares add up to 1.
    pub parts: Vec<(VarianceComponent, VarianceShare)>,
    /// The share of all draws at once, for comparison with their sum; no part of its own.
    pub everything: Option<VarianceShare>,
    /// The share that goes with each covariate that was measured and varied.
    pub covariates: Vec<(Covariate, VarianceShare)>,
    /// Steps of each class of distance, where it was measured.
    pub classes: BTreeMap<String, usize>,
    /// Why there are no shares.
    pub why_none: Option<NoShares>,
}

/// One step of a run.
#[derive(Debug, Clone, Default)]
struct StepSamples {
    renewed: Option<Renewed>,
    delays: Vec<f64>,
    classes: BTreeMap<Event, usize>,
    exchange: Mean,
    last_level: Mean,
    progress: Mean,
}

/// A sum on its way to a mean.
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

/// Takes samples of `conditions`, one run after the other; others pass by.
#[derive(Debug, Clone)]
pub struct Spreads {
    estimator: Estimator,
    run: usize,
    /// By run and cell; then by step.
    runs: Vec<(usize, CellKey, BTreeMap<u64, StepSamples>)>,
}

impl Spreads {
    /// No samples yet; delays will be computed by `estimator`.
    pub const fn new(estimator: Estimator) -> Self {
        Self { estimator, run: 0, runs: Vec::new() }
    }

    /// Ends a run: later rows are of another one.
    pub const fn next_run(&mut self) {
        self.run += 1;
    }

    /// Takes some more samples.
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

    /// The causes of the spread of each cell of each run.
    pub fn finish(&self) -> Vec<Spreading> {
        self.runs.iter().filter_map(|(_, cell, steps)| spreading(cell, steps)).collect()
    }
}

/// One step as a number, with what was measured beside it.
#[derive(Debug, Clone, Copy)]
struct StepObservation {
    number: u64,
    renewed: Renewed,
    /// The median of its delays, or the logarithm of it.
    value: f64,
    /// The difference between the medians of its halves.
    halves: Option<f64>,
    class: Option<Event>,
    covariates: [Option<f64>; 3],
}

fn median(values: &[f64]) -> Option<f64> {
    Ordered::new(values).ok().map(|values| quantile::median(&values))
}

/// The medians of the values dealt out as A B B A: jobs go to and fro between two CPUs, and one way may
/// cost more than the other.
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
