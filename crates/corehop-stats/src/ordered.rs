// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorted values with which statistics can be computed: at least one value, all finite, in
//! ascending order.
//!
//! Every function of [`crate`] that takes [`Ordered`] can rely on its order and its finite values,
//! so that an empty cell or a NaN is an error at the input and never a number later.

use serde::Serialize;

/// The reason why a statistic cannot be computed from values or parameters.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadInput {
    /// The list of values is empty.
    #[error("there are no values, because the cell is empty: take samples first")]
    Empty,
    /// The list has fewer values than the statistic needs.
    #[error("{got} values, but {what} needs at least {needed}: take more samples")]
    TooFew {
        /// The statistic that was requested.
        what: &'static str,
        /// The smallest number of values that the statistic needs.
        needed: usize,
        /// The number of values that were given.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {index} is {value}, not a finite number: check its computation")]
    NotFinite {
        /// The index of the value in the given slice.
        index: usize,
        /// The value that is not finite.
        value: f64,
    },
    /// A parameter is not strictly between 0 and 1.
    #[error("{name} = {value}: give a number above 0 and below 1")]
    NotAProbability {
        /// The name of the parameter that is no probability.
        name: &'static str,
        /// The value of the parameter that is no probability.
        value: f64,
    },
    /// A parameter is not a positive number.
    #[error("{name} = {value}: give a positive number")]
    NotPositive {
        /// The name of the parameter that is not positive.
        name: &'static str,
        /// The value of the parameter that is not positive.
        value: f64,
    },
    /// The lengths of two columns that belong together differ.
    #[error("{left} has {left_len} values and {right} {right_len}: give one of each per sample")]
    Unpaired {
        /// The name of the first column.
        left: &'static str,
        /// The length of the first column.
        left_len: usize,
        /// The name of the second column.
        right: &'static str,
        /// The length of the second column.
        right_len: usize,
    },
}

/// The list has at least one value; all values are finite and in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered(Vec<f64>);

impl Ordered {
    /// Sorts a copy of `values`.
    ///
    /// # Errors
    /// Returns [`BadInput::Empty`], or [`BadInput::NotFinite`] for the first NaN or infinity.
    pub fn new(values: &[f64]) -> Result<Self, BadInput> {
        finite(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Self(sorted))
    }

    /// Returns the number of values; never 0.
    #[allow(clippy::len_without_is_empty)] // never empty: that is what the type is for
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the values in ascending order.
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// Returns the order statistic `X_(rank)`, with rank 1 for the smallest value, or `None`
    /// outside `1..=len`.
    pub fn rank(&self, rank: usize) -> Option<f64> {
        rank.checked_sub(1).and_then(|index| self.0.get(index)).copied()
    }

    /// Returns the smallest value.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// Returns the largest value.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Returns the number of different values.
    pub fn distinct(&self) -> usize {
        1 + self.0.windows(2).filter(|pair| pair[0] < pair[1]).count()
    }

    /// Returns the number of values below `x`.
    pub fn below(&self, x: f64) -> usize {
        self.0.partition_point(|&value| value < x)
    }

    /// Returns the number of values that are at most `x`.
    pub fn at_most(&self, x: f64) -> usize {
        self.0.partition_point(|&value| value <= x)
    }
}

/// A two-sided confidence interval of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The nominal confidence, for instance 0.95.
    pub level: f64,
}

impl Interval {
    /// Returns the width of the interval, in the unit of the values.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// Returns whether the interval contains `x`; the ends belong to the interval.
    pub fn contains(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Returns whether the whole interval is within `±margin` of zero.
    pub fn within(&self, margin: f64) -> bool {
        -margin <= self.low && self.high <= margin
    }
}

/// Checks that `values` is not empty and contains only finite numbers.
pub(crate) fn finite(values: &[f64]) -> Result<(), BadInput> {
    if values.is_empty() {
        return Err(BadInput::Empty);
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(BadInput::NotFinite { index, value: values[index] }),
        None => Ok(()),
    }
}

/// Checks that `value` is strictly between 0 and 1.
pub(crate) fn probability(name: &'static str, value: f64) -> Result<(), BadInput> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(BadInput::NotAProbability { name, value })
}

/// Checks that `value` is a positive, finite number.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<(), BadInput> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(BadInput::NotPositive { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_slice_a_nan_and_an_infinity_are_errors_that_name_the_place() {
        assert_eq!(Ordered::new(&[]), Err(BadInput::Empty));
        let error = Ordered::new(&[1.0, f64::INFINITY]).unwrap_err();
        assert_eq!(error, BadInput::NotFinite { index: 1, value: f64::INFINITY });
        let error = Ordered::new(&[1.0, 2.0, f64::NAN]).unwrap_err().to_string();
        assert!(error.contains("value 2 is NaN"), "{error}");
    }

    #[test]
    fn ranks_count_from_one_and_end_at_the_number_of_values() {
        let values = Ordered::new(&[3.0, 1.0, 2.0, 2.0]).unwrap();
        assert_eq!(values.rank(0), None);
        assert_eq!(values.rank(1), Some(1.0));
        assert_eq!(values.rank(4), Some(3.0));
        assert_eq!(values.rank(5), None);
        assert_eq!((values.below(2.0), values.at_most(2.0), values.distinct()), (1, 3, 3));
        assert_eq!((values.min(), values.max(), values.len()), (1.0, 3.0, 4));
    }
}
