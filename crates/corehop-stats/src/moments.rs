// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and standard deviation, with an interval of the mean that accounts for autocorrelation.
//!
//! **Interval.** The method is the studentized circular block bootstrap (Götze and Künsch, Annals of
//! Statistics 24(5), 1996; circular blocks: Politis and Romano, 1992). Whole blocks of neighbouring samples
//! are redrawn, so that dependence inside a block survives. A resample is studentized by its own block
//! means, so that the interval follows a skewed distribution. The block length is the automatic choice of
//! Politis and White (Econometric Reviews 23, 2004, with the correction by Patton, Politis and White, 2009);
//! for independent samples it is 1.
//!
//! **Assumptions.** The samples are in the order of measurement, the series is stationary, and its variance
//! is finite. The mean of a distribution without finite variance has no interval of this kind: see
//! [`crate::tail`].

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::ordered::{BadInput, Interval, Ordered, finite, probability};

/// The number of resamples for an interval. The ends are the 2.5 % and 97.5 % quantiles of the resamples,
/// whose own error is then about 2 % of the width.
const RESAMPLES: usize = 999;

/// The smallest number of blocks, or of independent samples, that shows the variation of a single one.
const FEWEST_BLOCKS: usize = 12;

/// The number, mean and spread of consecutive samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// The number of samples behind the moments.
    pub n: usize,
    /// The arithmetic mean of the samples.
    pub mean: f64,
    /// The standard deviation with divisor `n - 1`, or `None` for a single sample.
    pub std: Option<f64>,
    /// The integrated autocorrelation time: 1 for independent samples, `t` if `t` samples carry as much
    /// information as one independent sample.
    pub autocorrelation_time: f64,
    /// The number of independent samples that the series is worth, which is `n` divided by the
    /// autocorrelation time.
    pub effective_n: f64,
    /// The block length of the bootstrap.
    pub block: usize,
    /// The confidence interval of the mean. The field is `None` if the series is worth fewer than twelve
    /// independent samples, if all samples are equal, or if so few samples differ that a resample could show
    /// no variation.
    pub interval: Option<Interval>,
}

/// Returns the mean, the standard deviation, and the interval of the mean at confidence `1 - alpha`;
/// `samples` are in the order of measurement. A given seed always gives the same interval.
///
/// # Errors
/// Returns [`BadInput`] if there is no sample, a sample is not finite, or `alpha` is not between 0 and 1.
pub fn moments(samples: &[f64], alpha: f64, seed: u64) -> Result<Moments, BadInput> {
    finite(samples)?;
    probability("alpha", alpha)?;
    let n = samples.len();
    let mean = mean(samples);
    let correlations = autocorrelations(samples, mean);
    let time = integrated_time(&correlations);
    let block = block_length(&correlations, n);
    Ok(Moments {
        n,
        mean,
        std: (n > 1).then(|| (sum_of_squares(samples, mean) / (n - 1) as f64).sqrt()),
        autocorrelation_time: time,
        effective_n: n as f64 / time,
        block,
        interval: (n as f64 / time >= FEWEST_BLOCKS as f64)
            .then(|| bootstrap(samples, mean, block, alpha, seed))
            .flatten(),
    })
}

/// Returns the arithmetic mean in two passes: the second pass adds the mean of the first pass's rounding
/// errors, so that 10^6 + small does not lose the small part.
fn mean(samples: &[f64]) -> f64 {
    let n = samples.len() as f64;
    let first = samples.iter().sum::<f64>() / n;
    first + samples.iter().map(|x| x - first).sum::<f64>() / n
}

/// Returns the variance of the values with divisor `n - 1`, corrected for the rounding of the mean, or 0 for
/// fewer than two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    sum_of_squares(values, mean(values)) / (values.len() - 1) as f64
}

fn sum_of_squares(samples: &[f64], mean: f64) -> f64 {
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    let rest: f64 = samples.iter().map(|x| x - mean).sum();
    (squares - rest * rest / samples.len() as f64).max(0.0)
}

/// Returns the integrated autocorrelation time of `samples` (in order), at least 1; 1 if all samples are
/// equal.
///
/// # Errors
/// Returns [`BadInput`] if there is no sample, or if a sample is not finite.
pub fn autocorrelation_time(samples: &[f64]) -> Result<f64, BadInput> {
    finite(samples)?;
    Ok(integrated_time(&autocorrelations(samples, mean(samples))))
}

/// Returns the number of consecutive values of a series that count as one; 1 if no autocorrelation exceeds
/// the noise. The function is for widening an interval: the integrated time of an independent series is
/// slightly above 1 by chance, and widening by chance would waste samples.
pub(crate) fn dependence(series: &[f64]) -> f64 {
    let correlations = autocorrelations(series, mean(series));
    let significant = last_significant_lag(&correlations, series.len()) > 0;
    if significant { integrated_time(&correlations) } else { 1.0 }
}

/// Returns the block length with which a bootstrap of `series` (in order) keeps its dependence: the
/// automatic choice of this module, or 1 for independent, equal or no values.
pub(crate) fn block(series: &[f64]) -> usize {
    if series.is_empty() {
        return 1;
    }
    block_length(&autocorrelations(series, mean(series)), series.len())
}

/// Returns the autocorrelations at lags 0, 1, …, as far as the estimators in this module need them; `[1]`
/// for a constant series.
fn autocorrelations(samples: &[f64], mean: f64) -> Vec<f64> {
    let n = samples.len();
    let furthest = (2 * (n as f64).sqrt() as usize + 10).min(n - 1);
    let centred: Vec<f64> = samples.iter().map(|x| x - mean).collect();
    let at = |lag: usize| -> f64 {
        centred[lag..].iter().zip(&centred).map(|(later, earlier)| later * earlier).sum()
    };
    let variance = at(0);
    // Below this the differences are the rounding of the mean and no signal.
    if variance <= n as f64 * (mean.abs() * 1e-15).powi(2) {
        return vec![1.0];
    }
    (0..=furthest).map(|lag| at(lag) / variance).collect()
}

/// Returns the sum `1 + 2·Σρ(k)` up to the first window `W >= 5·time(W)` (Sokal, Monte Carlo Methods in
/// Statistical Mechanics, 1996, section 3); a longer sum only adds noise. The time is at least 1, because an
/// apparent alternation in a short series must not make the series worth more than its number of samples.
fn integrated_time(correlations: &[f64]) -> f64 {
    let mut time = 1.0;
    for (lag, rho) in correlations.iter().enumerate().skip(1) {
        time += 2.0 * rho;
        if lag as f64 >= 5.0 * time {
            break;
        }
    }
    time.max(1.0)
}

/// Returns the block length of Politis and White for the circular bootstrap, limited so that twelve blocks
/// remain: in a short series, a chance correlation at a long lag would otherwise leave two or three blocks.
fn block_length(correlations: &[f64], n: usize) -> usize {
    let last = last_significant_lag(correlations, n);
    if last == 0 {
        return 1;
    }
    let (mut spectrum, mut slope) = (correlations[0], 0.0);
    for (lag, rho) in correlations.iter().enumerate().skip(1).take(2 * last) {
        let weight = flat_top(lag as f64 / (2 * last) as f64);
        spectrum += 2.0 * weight * rho;
        slope += 2.0 * weight * lag as f64 * rho;
    }
    // b³ = 2·G²·n/D with D = (4/3)·g(0)² for circular blocks.
    let ratio = slope / spectrum;
    let length = (1.5 * ratio * ratio * n as f64).cbrt().ceil();
    let longest = (3.0 * (n as f64).sqrt()).min((n / FEWEST_BLOCKS) as f64).max(1.0);
    length.clamp(1.0, longest) as usize
}

/// Returns the largest lag before a run of at least five lags within the noise band.
fn last_significant_lag(correlations: &[f64], n: usize) -> usize {
    let log_n = (n as f64).log10();
    let band = 2.0 * (log_n / n as f64).sqrt();
    let run = log_n.sqrt().ceil().max(5.0) as usize;
    let quiet =
        |lag: usize| correlations.iter().skip(lag + 1).take(run).all(|rho| rho.abs() < band);
    (0..correlations.len()).find(|&lag| quiet(lag)).unwrap_or(correlations.len() - 1)
}

/// Returns a window function that is 1 up to one half, then falls to 0 at 1.
fn flat_top(x: f64) -> f64 {
    (2.0 * (1.0 - x)).clamp(0.0, 1.0)
}

/// Returns the interval of the mean by the studentized circular block bootstrap.
fn bootstrap(samples: &[f64], mean: f64, block: usize, alpha: f64, seed: u64) -> Option<Interval> {
    let blocks = samples.len() / block;
    if blocks < FEWEST_BLOCKS {
        return None;
    }
    let means = circular_block_means(samples, mean, block);
    let error = standard_error(means.iter().copied(), blocks);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut drawn = vec![0.0; blocks];
    let mut studentized = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| means[random.random_range(0..means.len())]);
        let spread = standard_error(drawn.iter().copied(), blocks);
        if spread > error * 1e-9 {
            studentized.push(drawn.iter().sum::<f64>() / blocks as f64 / spread);
        }
    }
    // A resample without variation has no t; where that is common the data are too discrete.
    if error <= 0.0 || studentized.len() < RESAMPLES * 99 / 100 {
        return None;
    }
    let t = Ordered::new(&studentized).ok()?;
    let [low, high] =
        [1.0 - alpha / 2.0, alpha / 2.0].map(|p| super::quantile::quantile(&t, p).ok());
    Some(Interval { low: mean - low? * error, high: mean - high? * error, level: 1.0 - alpha })
}

/// Returns the mean, minus `centre`, of every block of `block` neighbours in the series closed to a circle.
fn circular_block_means(samples: &[f64], centre: f64, block: usize) -> Vec<f64> {
    let n = samples.len();
    let mut sum: f64 = samples[..block].iter().map(|x| x - centre).sum();
    (0..n)
        .map(|start| {
            let block_mean = sum / block as f64;
            sum += samples[(start + block) % n] - samples[start];
            block_mean
        })
        .collect()
}

/// Returns the standard error of a mean of `blocks` blocks that vary as `means` do.
fn standard_error(means: impl Iterator<Item = f64> + Clone, blocks: usize) -> f64 {
    let count = means.clone().count() as f64;
    let centre = means.clone().sum::<f64>() / count;
    let squares: f64 = means.map(|x| (x - centre).powi(2)).sum();
    (squares / (count - 1.0) / blocks as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::draw::{ReferenceLaw, ResampleSource};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mean_and_standard_deviation_come_out_as_by_hand() {
        let m = moments(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 0.05, 1).unwrap();
        assert_eq!((m.n, m.mean), (8, 5.0));
        assert!((m.std.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(m.interval, None, "eight samples do not show how they vary");
    }

    #[test]
    fn an_offset_of_a_second_in_nanoseconds_costs_no_digit_of_the_spread() {
        let shifted = [1e15 + 4.0, 1e15 + 7.0, 1e15 + 13.0, 1e15 + 16.0];
        let m = moments(&shifted, 0.05, 1).unwrap();
        assert_eq!((m.mean, m.std), (1e15 + 10.0, Some(30.0_f64.sqrt())));
    }

    #[test]
    fn a_single_sample_has_a_mean_and_nothing_else() {
        let m = moments(&[7.0], 0.05, 1).unwrap();
        assert_eq!((m.n, m.mean, m.std, m.interval), (1, 7.0, None, None));
        assert_eq!((m.effective_n, m.block), (1.0, 1));
    }

    #[test]
    fn equal_samples_have_no_interval_of_width_zero() {
        let m = moments(&[0.1; 50], 0.05, 1).unwrap();
        assert_eq!((m.mean, m.interval, m.autocorrelation_time), (0.1, None, 1.0));
        assert!(m.std.unwrap() < 1e-15);
    }

    #[test]
    fn empty_and_broken_input_is_an_error() {
        assert_eq!(moments(&[], 0.05, 1), Err(BadInput::Empty));
        assert!(matches!(moments(&[1.0, f64::NAN], 0.05, 1), Err(BadInput::NotFinite { .. })));
        assert!(matches!(moments(&[1.0], 1.5, 1), Err(BadInput::NotAProbability { .. })));
        assert_eq!(autocorrelation_time(&[]), Err(BadInput::Empty));
    }

    #[test]
    fn a_series_worth_fewer_than_twelve_independent_samples_has_no_interval() {
        let m = moments(&ResampleSource::new(5).autoregression(0.97, 150), 0.05, 1).unwrap();
        assert!(m.effective_n < 12.0 && m.interval.is_none(), "{m:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let samples = ResampleSource::new(3).values(ReferenceLaw::LogNormal, 200);
        let with = |seed| moments(&samples, 0.05, seed).unwrap().interval.unwrap();
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    proptest! {
        #[test]
        fn block_means_are_those_of_a_slow_walk(
            samples in prop::collection::vec(-9.0_f64..9.0, 2..40), block in 1_usize..40,
        ) {
            let block = block.min(samples.len());
            let fast = circular_block_means(&samples, 1.5, block);
            for (start, &mean) in fast.iter().enumerate() {
                let sum: f64 =
                    (start..start + block).map(|i| samples[i % samples.len()] - 1.5).sum();
                prop_assert!((mean - sum / block as f64).abs() < 1e-12);
            }
        }

        #[test]
        fn the_mean_moves_with_the_samples(
            samples in prop::collection::vec(-9.0_f64..9.0, 13..40), by in -1e6_f64..1e6,
        ) {
            let shifted: Vec<f64> = samples.iter().map(|x| x + by).collect();
            let (a, b) = (moments(&samples, 0.1, 5).unwrap(), moments(&shifted, 0.1, 5).unwrap());
            prop_assert!((a.mean + by - b.mean).abs() < 1e-8);
            prop_assert!((a.std.unwrap() - b.std.unwrap()).abs() < 1e-6);
        }
    }

    #[test]
    fn the_autocorrelation_time_of_an_autoregression_is_the_one_of_theory() {
        // (1 + rho)/(1 - rho) = 9 at rho = 0.8, and 1 for independent samples.
        let time = |rho| {
            let mut draw = ResampleSource::new(17);
            let runs = 40;
            (0..runs)
                .map(|_| autocorrelation_time(&draw.autoregression(rho, 4_000)).unwrap())
                .sum::<f64>()
                / f64::from(runs)
        };
        assert!((time(0.8) - 9.0).abs() < 0.7, "{}", time(0.8));
        assert!((time(0.0) - 1.0).abs() < 0.1, "{}", time(0.0));
    }

    fn coverage(repetitions: usize, mut one: impl FnMut(u64) -> bool) -> f64 {
        (0..repetitions as u64).filter(|&seed| one(seed)).count() as f64 / repetitions as f64
    }

    #[test]
    fn ninety_five_percent_intervals_of_the_mean_cover_for_independent_samples() {
        let mut draw = ResampleSource::new(23);
        for (law, n, least) in [
            (ReferenceLaw::Uniform, 50, 0.93),
            (ReferenceLaw::Exponential, 50, 0.93),
            (ReferenceLaw::LogNormal, 100, 0.91), // the skewest of the four; tends to 0.95 with n
            (ReferenceLaw::Die, 50, 0.93),
        ] {
            let covered = coverage(1_000, |seed| {
                let m = moments(&draw.values(law, n), 0.05, seed).unwrap();
                m.interval.is_some_and(|interval| interval.contains(law.mean()))
            });
            assert!((least..=0.985).contains(&covered), "{law:?}: {covered}");
        }
    }

    #[test]
    fn the_interval_of_an_autocorrelated_mean_covers_where_a_naive_one_does_not() {
        let mut draw = ResampleSource::new(29);
        let (mut with, mut without) = (0, 0);
        let runs = 300;
        for seed in 0..runs {
            let samples = draw.autoregression(0.7, 500);
            let m = moments(&samples, 0.05, seed).unwrap();
            with += u32::from(m.interval.unwrap().contains(0.0));
            without += u32::from(bootstrap(&samples, m.mean, 1, 0.05, seed).unwrap().contains(0.0));
        }
        let [with, without] = [with, without].map(|hits| f64::from(hits) / runs as f64);
        assert!(with > 0.89, "{with}");
        assert!(without < 0.70, "{without}");
    }
}
