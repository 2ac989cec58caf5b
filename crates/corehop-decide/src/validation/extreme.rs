// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the maximum of many samples from few samples.

/// The expected maximum of `of` samples, estimated from `samples`.
///
/// If there are at least `of` samples, this is the mean maximum over all choices of `of` among them. If there are fewer
/// samples, the result is their maximum plus the growth of an exponential tail (Pickands 1975, with shape zero). The
/// growth is the mean excess of the largest eighth over the next sample, times the logarithm of the ratio of the
/// numbers of samples. The result is NaN if there are no samples.
pub(super) fn expected_maximum(samples: &[f64], of: u32) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let Some(&most) = sorted.first() else { return f64::NAN };
    let (have, of) = (sorted.len() as f64, f64::from(of.max(1)));
    if have >= of {
        mean_maximum(&sorted, of)
    } else {
        most + mean_excess(&sorted) * (of / have).ln()
    }
}

/// The mean of the maxima over all choices of `of` samples. `sorted` begins with the largest sample.
fn mean_maximum(sorted: &[f64], of: f64) -> f64 {
    let mut mean = 0.0;
    // The chance that none of the samples before this one is chosen.
    let mut none_before = 1.0;
    let mut left = sorted.len() as f64;
    for sample in sorted {
        let chosen = (of / left).min(1.0);
        mean += sample * none_before * chosen;
        none_before *= 1.0 - chosen;
        left -= 1.0;
    }
    mean
}

/// The mean excess of the largest eighth (at least two samples) over the next sample.
fn mean_excess(sorted: &[f64]) -> f64 {
    let tail = (sorted.len() / 8).max(2);
    let Some(&threshold) = sorted.get(tail) else { return 0.0 };
    sorted[..tail].iter().map(|sample| sample - threshold).sum::<f64>() / tail as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_of_all_samples_is_the_greatest_and_of_one_their_mean() {
        let samples = [3.0, 1.0, 8.0, 4.0];
        assert!((expected_maximum(&samples, 4) - 8.0).abs() < 1e-12);
        assert!((expected_maximum(&samples, 1) - 4.0).abs() < 1e-12);
        // Of two: 8 in three of six pairs, 4 in two, 3 in one.
        let pairs = (3.0 * 8.0 + 2.0 * 4.0 + 3.0) / 6.0;
        assert!((expected_maximum(&samples, 2) - pairs).abs() < 1e-12);
        assert!(expected_maximum(&[], 3).is_nan());
    }

    #[test]
    fn more_samples_than_there_are_extend_the_tail() {
        // The tail of 16 samples is the two greatest, which exceed the third by 7 and 3.
        let samples: Vec<f64> = (0..14).map(f64::from).chain([16.0, 20.0]).collect();
        let expected = 20.0 + 5.0 * 4f64.ln();
        assert!((expected_maximum(&samples, 64) - expected).abs() < 1e-12);
        assert!((expected_maximum(&[2.0, 5.0], 64) - 5.0).abs() < 1e-12, "no tail to tell from");
    }

    #[test]
    fn an_exponential_law_is_extended_to_the_maximum_that_it_has() {
        // Quantiles of 64 samples of an exponential law, for 5,000: the harmonic number of 5,000 is 9.09.
        let samples: Vec<f64> = (0..64).map(|at| -((f64::from(at) + 0.5) / 64.0).ln()).collect();
        let found = expected_maximum(&samples, 5_000);
        assert!((8.0..10.5).contains(&found), "{found}");
        assert!(expected_maximum(&samples, 10_000) > found);
    }
}
