// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tail beyond the samples: peaks over a threshold, and when not to believe it.
//!
//! The excesses of independent samples over a high threshold tend to a generalized Pareto law
//! (Pickands, Annals of Statistics 3(1), 1975). [`fit_tail`] tries thresholds from low to high and
//! keeps the first at which
//! 1. at least 50 samples exceed it,
//! 2. the excesses are not discrete (fewer than half different, or one value in twenty of them),
//! 3. the shape of the fit lies in (-1/2, 1/2): below, the likelihood has no usual interval and the
//!    maximum itself says more; above, the variance is infinite, which no delay of a machine is,
//! 4. the Anderson–Darling test with bootstrapped p-value does not reject the law (p >= 0.1),
//! 5. the shapes at all higher thresholds agree with it within their errors,
//! 6. the exceedances lie evenly over the run, come singly, and successive excesses are unrelated.
//!
//! If none passes, the answer is a [`TailError`] and no number. A fit that passes is extrapolated to a tenth of
//! the resolution of the data and no further.

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

/// Fewest exceedances that are fitted.
const FEWEST: usize = 50;

/// Shares of the samples above the thresholds that are tried, low thresholds first.
const SHARES: [f64; 6] = [0.20, 0.15, 0.10, 0.075, 0.05, 0.025];

/// A fit is kept if its Anderson–Darling p-value is at least this.
const LEAST_FIT: f64 = 0.10;

/// Independence is given up below this p-value, in each of three tests.
const LEAST_INDEPENDENCE: f64 = 0.01;

/// Shapes at higher thresholds may differ by so many standard errors of the difference: five
/// comparisons at 1 % together.
const MOST_DIFFERENT: f64 = 3.1;

/// The factor below `1/n` down to which probabilities are extrapolated.
const REACH: f64 = 10.0;

/// The least fraction of n samples with n/5 >= 50 exceedances.
const FEWEST_SAMPLES: usize = (FEWEST as f64 / SHARES[0]) as usize;

/// Why the data carry no tail.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TailError {
    /// Empty, or a value that is no number.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// Not even the lowest threshold leaves 50 exceedances.
    #[error("{n} samples leave too few above any threshold: a tail needs at least {needed}")]
    TooFew {
        /// Samples given.
        n: usize,
        /// Samples needed.
        needed: usize,
    },
    /// Ties: the clock, or the delay itself, has steps that the continuous law does not know.
    #[error(
        "only {distinct} of {exceedances} excesses differ, one of them occurs {most_common} times: \
         too discrete for a tail"
    )]
    Discrete {
        /// Different excesses.
        distinct: usize,
        /// Excesses.
        exceedances: usize,
        /// The number of occurrences of the commonest one.
        most_common: usize,
    },
    /// The fitted law has infinite variance.
    #[error("the fitted shape is {shape:.2}: a tail this heavy has no useful bound")]
    HeavyTail {
        /// Fitted shape.
        shape: f64,
    },
    /// The values pile up at an upper end.
    #[error("the fitted shape is {shape:.2}: the values end sharply, and the maximum says more")]
    SharpEnd {
        /// Fitted shape.
        shape: f64,
    },
    /// The Anderson–Darling test rejects the law.
    #[error(
        "{exceedances} excesses over {threshold} do not follow the law fitted to them \
         (Anderson–Darling p = {p_value:.3})"
    )]
    PoorFit {
        /// The threshold.
        threshold: f64,
        /// Number of excesses.
        exceedances: usize,
        /// The p-value.
        p_value: f64,
    },
    /// The shape changes with the threshold.
    #[error("the shape is {shape:.2} over {threshold} but {higher:.2} over higher thresholds")]
    Unstable {
        /// The threshold.
        threshold: f64,
        /// Shape there.
        shape: f64,
        /// Shape at the higher threshold that disagrees most.
        higher: f64,
    },
    /// The exceedances lie unevenly over the run.
    #[error("exceedances lie unevenly over the run (p = {p_value:.4}): not stationary")]
    Drifting {
        /// p-value of evenness.
        p_value: f64,
    },
    /// The exceedances come in clusters, or on a beat.
    #[error("exceedances come in clusters or on a beat (p = {p_value:.4}): not independent")]
    Clustered {
        /// p-value of the runs test.
        p_value: f64,
    },
    /// The size of an excess goes with that of the one before.
    #[error("successive excesses are related (p = {p_value:.4}): not independent")]
    Related {
        /// p-value of the lag-1 rank correlation.
        p_value: f64,
    },
}

/// The result at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ThresholdFit {
    /// The threshold.
    pub threshold: f64,
    /// Samples above it.
    pub exceedances: usize,
    /// Shape fitted by maximum likelihood.
    pub shape: f64,
    /// Its asymptotic standard error, `(1 + ξ)/sqrt(exceedances)`.
    pub error: f64,
}

/// A tail that the data carry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tail {
    /// Number of samples.
    pub n: usize,
    /// The threshold.
    pub threshold: f64,
    /// Samples above it.
    pub exceedances: usize,
    /// The law of the excesses, by maximum likelihood.
    pub law: Gpd,
    /// The same by probability-weighted moments, as a second opinion.
    pub by_moments: Option<Gpd>,
    /// Anderson–Darling statistic of the fit.
    pub anderson_darling: f64,
    /// Its bootstrapped p-value.
    pub p_value: f64,
    /// The threshold kept and all higher ones tried.
    pub stability: Vec<ThresholdFit>,
    #[serde(skip)]
    excesses: Ordered,
}

/// Why a quantile is not extrapolated.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum OutOfReach {
    /// A parameter is not a probability.
    #[error(transparent)]
    BadInput(#[from] BadInput),
    /// Below the threshold the samples themselves are the better witness.
    #[error("the tail begins at quantile {from}; take the order statistic for {p}")]
    BelowThreshold {
        /// Quantile asked for.
        p: f64,
        /// Quantile at which the tail begins.
        from: f64,
    },
    /// Too far beyond the data.
    #[error("quantile {p} lies beyond {limit}, the furthest that {n} samples are extrapolated to")]
    BeyondLimit {
        /// Quantile asked for.
        p: f64,
        /// Furthest quantile.
        limit: f64,
        /// Number of samples.
        n: usize,
    },
    /// The likelihood does not fall off on one side.
    #[error("the likelihood sets no limit to quantile {p}: the samples are too few for it")]
    Unbounded {
        /// Quantile asked for.
        p: f64,
    },
}

/// The tail of `samples`, given in the order in which they were taken. `seed` is that of the
/// bootstrapped p-value.
///
/// # Errors
/// A [`TailError`] that says why the data do not carry a tail: that of the lowest threshold, where
/// there are most data to say so.
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

/// A threshold with its excesses and their law.
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

/// The thresholds that leave enough exceedances, low ones first.
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

/// Ties at the lowest threshold can leave it without exceedances however many samples there are.
fn too_few_or_discrete(sorted: &Ordered) -> TailError {
    let n = sorted.len();
    if n < FEWEST_SAMPLES {
        return TailError::TooFew { n, needed: FEWEST_SAMPLES };
    }
    let most_common = most_common(sorted);
    TailError::Discrete { distinct: sorted.distinct(), exceedances: n, most_common }
}

/// Refuses excesses with too many ties.
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

/// The first of `candidates` as a tail, if it passes; the others are the higher thresholds.
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

/// Compares the shape at the first threshold with those at all higher ones. The excesses are
/// nested, so the variance of a difference is the difference of the variances.
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

/// Refuses exceedances that drift, cluster or follow from each other.
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
    /// The quantile at which the tail begins.
    pub fn begins_at(&self) -> f64 {
        1.0 - self.exceedances as f64 / self.n as f64
    }

    /// The furthest quantile that is extrapolated to: `1 - 1/(10·n)`.
    pub fn reaches_to(&self) -> f64 {
        1.0 - 1.0 / (REACH * self.n as f64)
    }

    /// The value at which the fitted law ends; None if it does not end.
    pub fn end(&self) -> Option<f64> {
        self.law.end().map(|end| self.threshold + end)
    }

    /// The fitted quantile `p`, between [`Tail::begins_at`] and [`Tail::reaches_to`], with its
    /// interval at confidence `1 - alpha` by the profile of the likelihood (Coles, An Introduction to
    /// Statistical Modeling of Extreme Values, 2001, sections 2.6.6 and 4.3.3); the threshold counts
    /// as known.
    ///
    /// # Errors
    /// [`OutOfReach`] for a quantile outside those limits, or one the samples leave open.
    pub fn quantile(&self, p: f64, alpha: f64) -> Result<(f64, Interval), OutOfReach> {
        probability("alpha", alpha)?;
        let z = std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(alpha);
        self.within(p, alpha, z)
    }

    /// The same where exceedances of one replicate are alike: twice the drop of the log-likelihood
    /// reaches the square of `t` with one degree of freedom less than replicates, times the design
    /// effect (see [`Replicated`]; Chandler and Bate, Biometrika 94, 2007).
    ///
    /// # Errors
    /// As [`Tail::quantile`].
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

    /// The quantile `p` with the ends at which the likelihood has dropped by `reach` standard errors.
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

    /// The excesses either side of `excess` at which twice the drop of the profiled log-likelihood
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

/// The greatest log-likelihood per excess of all laws whose excess at `survival` is `x`.
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

/// The end of `inside`, going from `start` by factors of `step`; None if it does not end within 10^6.
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
