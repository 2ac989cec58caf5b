// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the variances of the parts as shares of the whole variance, with intervals.

use std::collections::BTreeMap;
use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::{Covariate, StepObservation, VarianceComponent, VarianceShare};
use crate::moments::variance;
use crate::ordered::{Interval, Ordered};
use crate::quantile::quantile;
use corehop_plan::experiment::Renewed;
use corehop_plan::workload::Event;

/// The smallest number of rounds that shows how much the differences of neighbours vary.
pub const FEWEST_ROUNDS: usize = 8;

/// The number of times that the rounds are redrawn.
const RESAMPLES: usize = 999;
const SEED: u64 = 0x5eed_5eed;
const LEVEL: f64 = 0.95;

/// The reason why the cell has no shares of variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoShares {
    /// The run has fewer than [`FEWEST_ROUNDS`] rounds.
    TooFewRounds {
        /// The number of rounds that the run has.
        have: usize,
    },
    /// All medians are equal, or there is only one median.
    NoSpread,
}

impl fmt::Display for NoShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewRounds { have } => write!(
                f,
                "{have} rounds; shares of the spread need {FEWEST_ROUNDS}: increase --replicates"
            ),
            Self::NoSpread => write!(f, "all steps show the same median, so there is no spread"),
        }
    }
}

/// The evidence from the steps of a run.
#[derive(Debug, Default)]
pub(super) struct ShareEvidence {
    pub(super) rounds: usize,
    pub(super) deviation: f64,
    pub(super) parts: Vec<(VarianceComponent, VarianceShare)>,
    pub(super) everything: Option<VarianceShare>,
    pub(super) covariates: Vec<(Covariate, VarianceShare)>,
    pub(super) why_none: Option<NoShares>,
}

/// A step, with the squared difference to the step before if the two steps are comparable.
#[derive(Debug, Clone, Copy)]
struct StepDifference {
    step: StepObservation,
    squared: Option<f64>,
}

/// The steps of each round of a run.
type Rounds = Vec<Vec<StepDifference>>;

pub(super) fn shares(steps: &[StepObservation]) -> ShareEvidence {
    let rounds = by_round(steps);
    let values: Vec<f64> = steps.iter().map(|step| step.value).collect();
    let deviation = if values.len() > 1 { variance(&values).sqrt() } else { 0.0 };
    let told = ShareEvidence { rounds: rounds.len(), deviation, ..ShareEvidence::default() };
    let why_none = if deviation <= 0.0 {
        Some(NoShares::NoSpread)
    } else if rounds.len() < FEWEST_ROUNDS {
        Some(NoShares::TooFewRounds { have: rounds.len() })
    } else {
        None
    };
    if why_none.is_some() {
        return ShareEvidence { why_none, ..told };
    }
    let all: Vec<&Vec<StepDifference>> = rounds.iter().collect();
    let point = VarianceShares::of(&all);
    let resampled = resamples(&rounds);
    let with_interval = |of: &dyn Fn(&VarianceShares) -> Option<f64>| {
        Some(VarianceShare { share: of(&point)?, interval: interval(&resampled, of) })
    };
    let part = |&(part, _): &(VarianceComponent, f64)| {
        Some((part, with_interval(&move |shares| shares.part(part))?))
    };
    let covariate = |(at, covariate): (usize, Covariate)| {
        Some((covariate, with_interval(&move |shares| shares.covariates[at])?))
    };
    ShareEvidence {
        parts: point.parts.iter().filter_map(part).collect(),
        everything: with_interval(&|shares| shares.everything),
        covariates: Covariate::ALL.into_iter().enumerate().filter_map(covariate).collect(),
        ..told
    }
}

/// Groups steps into rounds; the number of kinds of steps is the length of a round.
fn by_round(steps: &[StepObservation]) -> Rounds {
    let kinds: std::collections::BTreeSet<Renewed> =
        steps.iter().map(|step| step.renewed).collect();
    let mut rounds: BTreeMap<u64, Vec<StepDifference>> = BTreeMap::new();
    let mut before: Option<&StepObservation> = None;
    for step in steps {
        let neighbour = before.filter(|it| it.number + 1 == step.number && it.class == step.class);
        let squared = neighbour.map(|it| (step.value - it.value).powi(2));
        let round = step.number / kinds.len() as u64;
        rounds.entry(round).or_default().push(StepDifference { step: *step, squared });
        before = Some(step);
    }
    rounds.into_values().collect()
}

fn resamples(rounds: &Rounds) -> Vec<VarianceShares> {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut redrawn = || -> Vec<&Vec<StepDifference>> {
        (0..rounds.len()).map(|_| &rounds[random.random_range(0..rounds.len())]).collect()
    };
    (0..RESAMPLES).map(|_| VarianceShares::of(&redrawn())).collect()
}

fn interval(
    resampled: &[VarianceShares],
    of: &dyn Fn(&VarianceShares) -> Option<f64>,
) -> Option<Interval> {
    let values: Vec<f64> = resampled.iter().filter_map(of).filter(|it| it.is_finite()).collect();
    // A share that some resamples cannot tell is not known well enough.
    if values.len() * 10 < resampled.len() * 9 {
        return None;
    }
    let values = Ordered::new(&values).ok()?;
    let end = |p| quantile(&values, p).ok();
    Some(Interval {
        low: end((1.0 - LEVEL) / 2.0)?,
        high: end(1.0 - (1.0 - LEVEL) / 2.0)?,
        level: LEVEL,
    })
}

/// The shares of the variance, without intervals.
#[derive(Debug)]
struct VarianceShares {
    parts: Vec<(VarianceComponent, f64)>,
    everything: Option<f64>,
    covariates: [Option<f64>; 3],
}

impl VarianceShares {
    fn part(&self, part: VarianceComponent) -> Option<f64> {
        self.parts.iter().find(|(of, _)| *of == part).map(|&(_, share)| share)
    }

    fn of(rounds: &[&Vec<StepDifference>]) -> Self {
        let entries: Vec<&StepDifference> = rounds.iter().copied().flatten().collect();
        let values: Vec<f64> = entries.iter().map(|entry| entry.step.value).collect();
        let total = variance(&values);
        let within = Within::of(&entries);
        let error = error(&entries);
        let kept = half_mean_square(&entries, Renewed::Nothing);
        let own = |one| Some(half_mean_square(&entries, one)? - kept?);
        let mut parts: Vec<(VarianceComponent, f64)> = Vec::new();
        if within.classes > 1 {
            parts.push((VarianceComponent::Distance, total - within.variance));
        }
        let single = Renewed::SINGLE.into_iter();
        parts.extend(single.filter_map(|one| Some((VarianceComponent::Renewed(one), own(one)?))));
        parts.extend(kept.map(|kept| (VarianceComponent::Step, kept - error)));
        let known: f64 = parts.iter().map(|(_, variance)| variance).sum();
        parts.extend([
            (VarianceComponent::Run, total - known - error),
            (VarianceComponent::Error, error),
        ]);
        for (_, part) in &mut parts {
            *part /= total;
        }
        Self {
            parts,
            everything: own(Renewed::Everything).map(|all| all / total),
            covariates: [0, 1, 2].map(|at| Some(within.explained_by(&entries, at)? / total)),
        }
    }
}

/// Returns half of the mean squared difference of the steps that renewed the draw `renewed`, or
/// `None` if there are no such steps.
fn half_mean_square(entries: &[&StepDifference], renewed: Renewed) -> Option<f64> {
    let of = entries.iter().filter(|entry| entry.step.renewed == renewed);
    let squares: Vec<f64> = of.filter_map(|entry| entry.squared).collect();
    (!squares.is_empty()).then(|| squares.iter().sum::<f64>() / squares.len() as f64 / 2.0)
}

/// Returns the variance of a step's median around its true value, which is a quarter of the mean
/// squared difference of the step's halves.
fn error(entries: &[&StepDifference]) -> f64 {
    let halves: Vec<f64> = entries.iter().filter_map(|entry| entry.step.halves).collect();
    halves.iter().map(|it| it * it).sum::<f64>() / 4.0 / halves.len().max(1) as f64
}

/// The variance within the classes of distance.
struct Within {
    classes: usize,
    means: BTreeMap<Option<Event>, f64>,
    variance: f64,
}

impl Within {
    fn of(entries: &[&StepDifference]) -> Self {
        let mut groups: BTreeMap<Option<Event>, Vec<f64>> = BTreeMap::new();
        for entry in entries {
            groups.entry(entry.step.class).or_default().push(entry.step.value);
        }
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let means: BTreeMap<Option<Event>, f64> =
            groups.iter().map(|(&class, values)| (class, mean(values))).collect();
        let about = |entry: &&StepDifference| (entry.step.value - means[&entry.step.class]).powi(2);
        let squares: f64 = entries.iter().map(about).sum();
        let free = entries.len().saturating_sub(groups.len()).max(1) as f64;
        Self { classes: groups.len(), means, variance: squares / free }
    }

    /// Returns the variance within classes that a straight line in a covariate explains, corrected
    /// for the variance that the line explains by chance. Returns `None` if the covariate is unknown
    /// in most steps, or never varies.
    fn explained_by(&self, entries: &[&StepDifference], covariate: usize) -> Option<f64> {
        let known: Vec<(Option<Event>, f64, f64)> = entries
            .iter()
            .filter_map(|entry| {
                let class = entry.step.class;
                let value = entry.step.value - self.means[&class];
                Some((class, entry.step.covariates[covariate]?, value))
            })
            .collect();
        let free = known.len().checked_sub(self.classes + 1).filter(|&free| free > 0)? as f64;
        if known.len() * 2 < entries.len() {
            return None;
        }
        let centre = |class| {
            let of: Vec<f64> = known.iter().filter(|it| it.0 == class).map(|it| it.1).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        let centres: BTreeMap<Option<Event>, f64> =
            self.means.keys().map(|&class| (class, centre(class))).collect();
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            known.iter().map(|&(class, x, y)| of(x - centres[&class], y)).sum()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if xx <= f64::EPSILON * known.len() as f64 || yy <= 0.0 {
            return None;
        }
        let left = yy - xy * xy / xx;
        Some(yy / (free + 1.0) - left / free)
    }
}
