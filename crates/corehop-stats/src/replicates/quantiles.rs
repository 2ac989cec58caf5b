// SPDX-License-Identifier: MIT OR Apache-2.0
//! The difference between two cells in a quantile other than the median.
//!
//! A quantile has its own interval (see [`Nested::quantile`]), and the distances from estimate to
//! end are added as squares (Zou and Donner, Statistics in Medicine 27, 2008).

use super::super::ordered::{BadInput, Interval};
use super::{Nested, median_difference};

/// Returns the quantile `p` of `y` minus the quantile `p` of `x`, with its interval at confidence
/// `1 - alpha`; the result has no interval if either side has none.
///
/// # Errors
/// Returns [`BadInput`] for a `p` or `alpha` that is not a probability, or a side without samples.
pub fn quantile_difference(
    x: &Nested,
    y: &Nested,
    p: f64,
    alpha: f64,
) -> Result<(f64, Option<Interval>), BadInput> {
    if (p - 0.5).abs() < 1e-9 {
        let difference = median_difference(x, y, alpha)?;
        return Ok((difference.estimate, difference.interval));
    }
    let (of_x, of_y) = (x.quantile(p, alpha)?, y.quantile(p, alpha)?);
    let estimate = of_y.estimate - of_x.estimate;
    let combined = |one: Interval, other: Interval| {
        let below = (of_y.estimate - other.low).hypot(one.high - of_x.estimate);
        let above = (other.high - of_y.estimate).hypot(of_x.estimate - one.low);
        Interval { low: estimate - below, high: estimate + above, level: 1.0 - alpha }
    };
    let ends = of_x.interval.zip(of_y.interval);
    Ok((estimate, ends.map(|(one, other)| combined(one, other))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes replicates of one sample each: 0, 1, … times `scale`, in an order without a trend.
    fn singles(n: usize, scale: f64) -> Nested {
        let place = |k: usize| (k * 37 % n) as f64 * scale;
        Nested::new((0..n).map(|k| vec![place(k)]).collect()).unwrap()
    }

    #[test]
    fn a_quantile_that_is_farther_out_differs_and_a_single_replicate_has_no_interval() {
        let (near, far) = (singles(400, 1.0), singles(400, 2.0));
        let (estimate, interval) = quantile_difference(&near, &far, 0.95, 0.05).unwrap();
        let interval = interval.unwrap();
        assert!((estimate - 380.0).abs() < 4.0 && interval.low > 300.0, "{estimate} {interval:?}");
        let one = Nested::new(vec![(0..400).map(f64::from).collect()]).unwrap();
        assert_eq!(quantile_difference(&one, &far, 0.95, 0.05).unwrap().1, None);
    }

    #[test]
    fn of_the_median_it_is_the_difference_of_medians() {
        let (near, far) = (singles(31, 1.0), singles(31, 3.0));
        let median = median_difference(&near, &far, 0.05).unwrap();
        let same = quantile_difference(&near, &far, 0.5, 0.05).unwrap();
        assert_eq!(same, (median.estimate, median.interval));
    }
}
