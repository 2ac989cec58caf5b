// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tail beyond the samples: peaks over a threshold, with tests that decide whether the fit is credible.
//!
//! The excesses of independent samples over a high threshold tend to a generalized Pareto distribution
//! (Pickands, Annals of Statistics 3(1), 1975). [`fit_tail`] tries thresholds from low to high and keeps the
//! first threshold at which
//! 1. at least 50 samples exceed the threshold,
//! 2. the excesses are not discrete (fewer than half differ, or one value makes up one in twenty),
//! 3. the shape of the fit is in (-1/2, 1/2): below, the likelihood has no usual interval and the maximum
//!    itself is more informative; above, the variance would be infinite, which no delay of a machine is,
//! 4. the Anderson–Darling test with bootstrapped p-value does not reject the distribution (p >= 0.1),
//! 5. the shapes at all higher thresholds agree with this shape within their errors,
//! 6. the exceedances are spread evenly over the run, come singly, and successive excesses are unrelated.
//!
//! If no threshold passes, the result is a [`TailError`] and no number. A fit that passes is extrapolated only
//! to a tenth of the resolution of the data.

mod goodness;
mod gpd;
mod replicated;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

pub use self::gpd::{Gpd, by_likelihood, by_moments};
pub use self::replicated::Replicated;
use super::compare::t_quantile;
use super::ordered::{BadInput, Interval, Ordered, finite, probability};

/// The smallest number of exceedances that is fitted.
const FEWEST: usize = 50;

/// The shares of the samples above the tried thresholds, low thresholds first.
const SHARES: [f64; 6] = [0.20, 0.15, 0.10, 0.075, 0.05, 0.025];

/// The smallest Anderson–Darling p-value at which a fit is kept.
const LEAST_FIT: f64 = 0.10;

/// The p-value below which exceedances count as dependent, in each of three tests.
const LEAST_INDEPENDENCE: f64 = 0.01;

/// The largest difference to shapes at higher thresholds, in standard errors of the difference: five
/// comparisons at 1 % together.
const MOST_DIFFERENT: f64 = 3.1;

/// The factor below `1/n` to which probabilities are extrapolated.
const REACH: f64 = 10.0;

/// The smallest number of samples n with n/5 >= 50 exceedances.
const FEWEST_SAMPLES: usize = (FEWEST as f64 / SHARES[0]) as usize;

/// The reason why the data do not support a tail.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TailError {
    /// The list of samples is empty, or a value is not a number.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// Even the lowest threshold leaves fewer than 50 exceedances.
    #[error(
        "{n} samples leave too few samples above any threshold: a tail needs at least {needed}"
    )]
    TooFew {
        /// The number of samples that the cell has.
        n: usize,
        /// The number of samples that a tail requires.
        needed: usize,
    },
    /// The excesses have ties: the clock, or the delay itself, has steps that a continuous distribution does
    /// not have.
    #[error(
        "only {distinct} of {exceedances} excesses differ, one of them occurs {most_common} times: \
         too discrete for a tail"
    )]
    Discrete {
        /// The number of different excesses over the threshold.
        distinct: usize,
        /// The number of excesses over the threshold.
        exceedances: usize,
        /// The number of occurrences of the most frequent excess.
        most_common: usize,
    },
    /// The fitted distribution has infinite variance.
    #[error("the fitted shape is {shape:.2}: a tail this heavy has no useful bound")]
    HeavyTail {
        /// The shape of the fitted distribution.
        shape: f64,
    },
    /// The values accumulate at an upper end.
    #[error(
        "the fitted shape is {shape:.2}: the values end sharply, so the maximum is more useful than a tail"
    )]
    SharpEnd {
        /// The shape of the fitted distribution.
        shape: f64,
    },
    /// The Anderson–Darling test rejects the fitted distribution.
    #[error(
        "{exceedances} excesses over {threshold} do not follow the law fitted to them \
         (Anderson–Darling p = {p_value:.3})"
    )]
    PoorFit {
        /// The threshold above which the distribution was fitted.
        threshold: f64,
        /// The number of excesses over the threshold.
        exceedances: usize,
        /// The p-value of the test that rejects the fit.
        p_value: f64,
    },
    /// The fitted shape changes with the threshold.
    #[error("the shape is {shape:.2} over {threshold} but {higher:.2} over higher thresholds")]
    Unstable {
        /// The threshold at which the fit was tested.
        threshold: f64,
        /// The shape at the tested threshold.
        shape: f64,
        /// The shape at the higher threshold that disagrees most.
        higher: f64,
    },
    /// The exceedances are spread unevenly over the run.
    #[error("exceedances are unevenly distributed over the run (p = {p_value:.4}): not stationary")]
    Drifting {
        /// The p-value of the test for evenness.
        p_value: f64,
    },
    /// The exceedances come in clusters, or periodically.
    #[error("exceedances come in clusters or periodically (p = {p_value:.4}): not independent")]
    Clustered {
        /// The p-value of the runs test.
        p_value: f64,
    },
    /// The size of an excess depends on the previous excess.
    #[error("successive excesses are correlated (p = {p_value:.4}): not independent")]
    Related {
        /// The p-value of the rank correlation at lag 1.
        p_value: f64,
    },
}

/// The result of a fit at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdFit {
    /// The threshold above which the distribution was fitted.
    pub threshold: f64,
    /// The number of samples above the threshold.
    pub exceedances: usize,
    /// The shape, fitted by maximum likelihood.
    pub shape: f64,
    /// The asymptotic standard error of the shape, `(1 + ξ)/sqrt(exceedances)`.
    pub error: f64,
}

/// A tail that the data support.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tail {
    /// The number of samples from which the tail was fitted.
    pub n: usize,
    /// The threshold at which the tail begins.
    pub threshold: f64,
    /// The number of samples above the threshold.
    pub exceedances: usize,
    /// The distribution of the excesses, fitted by maximum likelihood.
    pub law: Gpd,
    /// The distribution fitted by probability-weighted moments, as a second opinion.
    pub by_moments: Option<Gpd>,
    /// The Anderson–Darling statistic of the fit.
    pub anderson_darling: f64,
    /// The bootstrapped p-value of the Anderson–Darling statistic.
    pub p_value: f64,
    /// The fits at the threshold of the tail and at all higher thresholds.
    pub stability: Vec<ThresholdFit>,
    #[serde(skip)]
    excesses: Ordered,
}

/// The reason why a quantile is not extrapolated.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OutOfReach {
    /// A parameter is not a probability.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// The quantile is below the threshold, where the samples themselves are better evidence.
    #[error(
        "the tail begins at quantile {from}, above quantile {p}: use the order statistic for {p}"
    )]
    BelowThreshold {
        /// The quantile that was requested.
        p: f64,
        /// The quantile at which the tail begins.
        from: f64,
    },
    /// The quantile is too far beyond the data.
    #[error(
        "quantile {p} is beyond {limit}, the highest quantile to which corehop extrapolates {n} samples"
    )]
    BeyondLimit {
        /// The quantile that was requested.
        p: f64,
        /// The highest quantile that is extrapolated.
        limit: f64,
        /// The number of samples from which the tail was fitted.
        n: usize,
    },
    /// The likelihood does not drop on one side of its peak, so the quantile has no bound on that side.
    #[error("the likelihood does not bound quantile {p}, because there are too few samples")]
    Unbounded {
        /// The quantile that was requested.
        p: f64,
    },
}

/// Fits the tail of `samples`, which are in the order of measurement. `seed` seeds the bootstrap of the
/// p-value.
///
/// # Errors
/// Returns [`TailError`] with the reason why the data do not support a tail: the error of the lowest threshold,
/// where most data support the statement.
pub fn fit_tail(samples: &[f64], seed: u64) -> Result<Tail, TailError> {
    finite(samples)?;
    let sorted = Ordered::new(samples)?;
    let candidates = candidates(&sorted)?;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let lowest = accept(samples, &candidates, &mut random);
    (1..candidates.len()).fold(lowest, |kept, first| {
        kept.or_else(|refusal| {
            accept(samples, &candidates[first..], &mut random).map_err(|_| refusal)
        })
    })
}

/// A threshold with its excesses and their fitted distribution.
struct ThresholdCandidate {
    threshold: f64,
    excesses: Ordered,
    law: Gpd,
}

impl ThresholdCandidate {
    fn step(&self) -> ThresholdFit {
        let exceedances = self.excesses.len();
        let error = (1.0 + self.law.shape) / (exceedances as f64).sqrt();
        ThresholdFit { threshold: self.threshold, exceedances, shape: self.law.shape, error }
    }
}

/// Returns the thresholds that leave enough exceedances, low thresholds first.
fn candidates(sorted: &Ordered) -> Result<Vec<ThresholdCandidate>, TailError> {
    let n = sorted.len();
    let mut found: Vec<ThresholdCandidate> = Vec::new();
    for share in SHARES {
        let exceedances = (n as f64 * share + 1e-9) as usize;
        let Some(threshold) = sorted.rank(n - exceedances) else { break };
        let above = &sorted.as_slice()[sorted.at_most(threshold)..];
        if exceedances < FEWEST || above.len() < FEWEST {
            break;
        }
        let excesses: Vec<f64> = above.iter().map(|x| x - threshold).collect();
        let excesses = Ordered::new(&excesses)?;
        continuous(&excesses)?;
        let Some(law) = by_likelihood(&excesses) else { break };
        found.push(ThresholdCandidate { threshold, excesses, law });
    }
    if found.is_empty() {
        return Err(too_few_or_discrete(sorted));
    }
    Ok(found)
}

/// Returns the error for a lowest threshold without enough exceedances; ties can cause this with any number of
/// samples.
fn too_few_or_discrete(sorted: &Ordered) -> TailError {
    let n = sorted.len();
    if n < FEWEST_SAMPLES {
        return TailError::TooFew { n, needed: FEWEST_SAMPLES };
    }
    let most_common = most_common(sorted);
    TailError::Discrete { distinct: sorted.distinct(), exceedances: n, most_common }
}

/// Rejects excesses with too many ties.
fn continuous(excesses: &Ordered) -> Result<(), TailError> {
    let (distinct, exceedances) = (excesses.distinct(), excesses.len());
    let most_common = most_common(excesses);
    if 2 * distinct < exceedances || (most_common > 2 && 20 * most_common > exceedances) {
        return Err(TailError::Discrete { distinct, exceedances, most_common });
    }
    Ok(())
}

fn most_common(values: &Ordered) -> usize {
    values.as_slice().chunk_by(|a, b| a >= b).map(<[f64]>::len).max().unwrap_or(0)
}

/// Returns the first of `candidates` as a tail, if that candidate passes the tests; the remaining candidates
/// are the higher thresholds.
fn accept(
    samples: &[f64],
    candidates: &[ThresholdCandidate],
    random: &mut Pcg64Mcg,
) -> Result<Tail, TailError> {
    let first = &candidates[0];
    let stability: Vec<ThresholdFit> = candidates.iter().map(ThresholdCandidate::step).collect();
    shape_allowed(first.law.shape)?;
    stable(&stability)?;
    independent(samples, first.threshold)?;
    let exceedances = first.excesses.len();
    let anderson_darling = goodness::anderson_darling(&first.excesses, first.law);
    let p_value = goodness::p_value(anderson_darling, first.law, exceedances, random);
    if p_value < LEAST_FIT {
        return Err(TailError::PoorFit { threshold: first.threshold, exceedances, p_value });
    }
    Ok(Tail {
        n: samples.len(),
        threshold: first.threshold,
        exceedances,
        law: first.law,
        by_moments: by_moments(&first.excesses),
        anderson_darling,
        p_value,
        stability,
        excesses: first.excesses.clone(),
    })
}

fn shape_allowed(shape: f64) -> Result<(), TailError> {
    match shape {
        shape if shape >= 0.5 => Err(TailError::HeavyTail { shape }),
        shape if shape <= -0.5 => Err(TailError::SharpEnd { shape }),
        _ => Ok(()),
    }
}

/// Compares the shape at the first threshold with the shapes at all higher thresholds. The excesses are nested,
/// so the variance of a difference is the difference of the variances.
fn stable(steps: &[ThresholdFit]) -> Result<(), TailError> {
    let first = steps[0];
    for step in &steps[1..] {
        // Both errors at the first shape: that they are equal is what is tested.
        let error = 1.0 + first.shape;
        let variance =
            error * error * (1.0 / step.exceedances as f64 - 1.0 / first.exceedances as f64);
        if (step.shape - first.shape).abs() > MOST_DIFFERENT * variance.max(0.0).sqrt() {
            let (threshold, shape, higher) = (first.threshold, first.shape, step.shape);
            return Err(TailError::Unstable { threshold, shape, higher });
        }
    }
    Ok(())
}

/// Rejects exceedances that drift, cluster or depend on each other.
fn independent(samples: &[f64], threshold: f64) -> Result<(), TailError> {
    let n = samples.len();
    let places: Vec<usize> = (0..n).filter(|&index| samples[index] > threshold).collect();
    let p_value = goodness::evenness(&places, n);
    if p_value < LEAST_INDEPENDENCE {
        return Err(TailError::Drifting { p_value });
    }
    let p_value = goodness::singleness(&places, n);
    if p_value < LEAST_INDEPENDENCE {
        return Err(TailError::Clustered { p_value });
    }
    let excesses: Vec<f64> = places.iter().map(|&index| samples[index]).collect();
    let p_value = goodness::unrelatedness(&excesses);
    if p_value < LEAST_INDEPENDENCE {
        return Err(TailError::Related { p_value });
    }
    Ok(())
}

impl Tail {
    /// Returns the quantile at which the tail begins.
    pub fn begins_at(&self) -> f64 {
        1.0 - self.exceedances as f64 / self.n as f64
    }

    /// Returns the highest quantile to which the tail is extrapolated, which is `1 - 1/(10·n)`.
    pub fn reaches_to(&self) -> f64 {
        1.0 - 1.0 / (REACH * self.n as f64)
    }

    /// Returns the value at which the fitted distribution ends, or `None` if it is unbounded.
    pub fn end(&self) -> Option<f64> {
        self.law.end().map(|end| self.threshold + end)
    }

    /// Returns the fitted quantile `p`, between [`Tail::begins_at`] and [`Tail::reaches_to`], with its interval
    /// at confidence `1 - alpha`. The interval comes from the profile of the likelihood (Coles, An Introduction
    /// to Statistical Modeling of Extreme Values, 2001, sections 2.6.6 and 4.3.3), and the threshold counts as
    /// known.
    ///
    /// # Errors
    /// Returns [`OutOfReach`] for a quantile that the samples leave open, or that is outside the limits of an
    /// extrapolation.
    pub fn quantile(&self, p: f64, alpha: f64) -> Result<(f64, Interval), OutOfReach> {
        probability("alpha", alpha)?;
        let z = std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(alpha);
        self.within(p, alpha, z)
    }

    /// Returns the fitted quantile if exceedances of one replicate are alike. Twice the drop of the
    /// log-likelihood must reach the square of `t` with one degree of freedom less than replicates, times the
    /// design effect (see [`Replicated`]; Chandler and Bate, Biometrika 94, 2007).
    ///
    /// # Errors
    /// Returns [`OutOfReach`], as [`Tail::quantile`] does.
    pub fn replicated_quantile(
        &self,
        p: f64,
        alpha: f64,
        of: &Replicated,
    ) -> Result<(f64, Interval), OutOfReach> {
        probability("alpha", alpha)?;
        let t = t_quantile(of.replicates as f64 - 1.0, alpha);
        self.within(p, alpha, t * of.design_effect.sqrt())
    }

    /// Returns the quantile `p` with the two values at which the likelihood has dropped by `reach` standard
    /// errors.
    fn within(&self, p: f64, alpha: f64, reach: f64) -> Result<(f64, Interval), OutOfReach> {
        probability("p", p)?;
        if p < self.begins_at() {
            return Err(OutOfReach::BelowThreshold { p, from: self.begins_at() });
        }
        // A hair of room, or 1 - 1/(10n) as the caller computes it could fail on its last bit.
        if p > self.reaches_to() + 1e-12 {
            return Err(OutOfReach::BeyondLimit { p, limit: self.reaches_to(), n: self.n });
        }
        let survival = ((1.0 - p) * self.n as f64 / self.exceedances as f64).min(1.0);
        let excess = self.law.excess(survival);
        let (low, high) =
            self.profile_ends(excess, survival, reach).ok_or(OutOfReach::Unbounded { p })?;
        let [low, high] = [low, high].map(|end| self.threshold + end);
        Ok((self.threshold + excess, Interval { low, high, level: 1.0 - alpha }))
    }

    /// Returns the excesses on either side of `excess` at which twice the drop of the profiled log-likelihood
    /// reaches the square of `reach`.
    fn profile_ends(&self, excess: f64, survival: f64, reach: f64) -> Option<(f64, f64)> {
        // At the threshold itself the quantile is the threshold, whatever the law.
        if survival > 1.0 - 1e-9 {
            return Some((excess, excess));
        }
        let ys = self.excesses.as_slice();
        let law = self.law;
        let best = gpd::log_likelihood(ys, law.shape, law.shape / law.scale, law.scale);
        let drop = reach * reach / 2.0 / ys.len() as f64;
        let inside = |x: f64| profiled(ys, x, survival) >= best - drop;
        Some((edge(inside, excess, 0.8)?, edge(inside, excess, 1.25)?))
    }
}

/// Returns the largest log-likelihood per excess among all distributions whose excess at `survival` is `x`.
fn profiled(ys: &[f64], x: f64, survival: f64) -> f64 {
    let hazard = -survival.ln();
    let at = |shape: f64| {
        // x = σ·(e^(ξh) - 1)/ξ fixes θ = ξ/σ.
        let theta = (shape * hazard).exp_m1() / x;
        let scale = if shape.abs() < 1e-9 { x / hazard } else { shape / theta };
        gpd::log_likelihood(ys, shape, theta, scale)
    };
    gpd::maximize(at, -0.95, 2.05, 12).map_or(f64::NEG_INFINITY, at)
}

/// Returns the edge of the region `inside`, searched from `start` by factors of `step`, or `None` if there is
/// no edge within a factor of 10^6.
fn edge(inside: impl Fn(f64) -> bool, start: f64, step: f64) -> Option<f64> {
    let (mut near, mut far) = (start, start * step);
    while inside(far) {
        near = far;
        far *= step;
        if !(1e-6..=1e6).contains(&(far / start)) {
            return None;
        }
    }
    while (far / near - 1.0).abs() > 1e-4 {
        let middle = (near * far).sqrt();
        if inside(middle) { near = middle } else { far = middle }
    }
    Some(far)
}

#[cfg(test)]
mod tests;
