// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of times: a sum of times and a multiple of a time are times; a quotient of two
//! times is a count.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

use super::Time;

impl Time {
    /// The time of zero ticks, which is the smallest.
    pub const ZERO: Self = Self(0);
    /// The time of one tick, which is the least difference between two times.
    pub const TICK: Self = Self(1);
    /// A time beyond every other time, for an event that never occurs.
    pub const MAX: Self = Self(u64::MAX);

    /// Makes a time of `ticks` ticks.
    pub const fn new(ticks: u64) -> Self {
        Self(ticks)
    }
    /// Returns the time in ticks.
    #[inline]
    pub const fn ticks(self) -> u64 {
        self.0
    }
    /// Returns the number of ticks, rounded if the number exceeds 2^53.
    #[inline]
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
    /// Returns whether the time is zero.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Returns the sum of two times, limited to [`Time::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
    /// Returns the difference of two times, or zero if the difference would be negative.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }
    /// Returns a multiple of the time, limited to [`Time::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
    /// Returns the sum of two times, or `None` if the sum exceeds [`Time::MAX`].
    #[inline]
    pub fn checked_add(self, more: Self) -> Option<Self> {
        self.0.checked_add(more.0).map(Self)
    }
    /// Returns the difference of two times, or `None` if the difference would be negative.
    #[inline]
    pub fn checked_sub(self, less: Self) -> Option<Self> {
        self.0.checked_sub(less.0).map(Self)
    }
    /// Returns a multiple of the time, or `None` if the product exceeds [`Time::MAX`].
    #[inline]
    pub fn checked_mul(self, count: u64) -> Option<Self> {
        self.0.checked_mul(count).map(Self)
    }
    /// Returns the number of spans `by` that cover the time.
    #[inline]
    pub const fn div_ceil(self, by: Self) -> u64 {
        self.0.div_ceil(by.0)
    }
    /// Returns the time divided by `parts`, rounded up.
    #[inline]
    #[must_use]
    pub const fn div_up(self, parts: u64) -> Self {
        Self(self.0.div_ceil(parts))
    }
    /// Returns whether the time is a whole number of spans `of`.
    #[inline]
    pub const fn is_multiple_of(self, of: Self) -> bool {
        self.0.is_multiple_of(of.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of ticks, for exact products.
impl From<Time> for u128 {
    #[inline]
    fn from(time: Time) -> Self {
        Self::from(time.0)
    }
}

/// The number of ticks, for exact differences.
impl From<Time> for i128 {
    #[inline]
    fn from(time: Time) -> Self {
        Self::from(time.0)
    }
}

impl Add for Time {
    type Output = Self;
    #[inline]
    fn add(self, more: Self) -> Self {
        Self(self.0 + more.0)
    }
}

impl Sub for Time {
    type Output = Self;
    #[inline]
    fn sub(self, less: Self) -> Self {
        Self(self.0 - less.0)
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.0 += more.0;
    }
}

impl SubAssign for Time {
    #[inline]
    fn sub_assign(&mut self, less: Self) {
        self.0 -= less.0;
    }
}

impl Mul<u64> for Time {
    type Output = Self;
    #[inline]
    fn mul(self, count: u64) -> Self {
        Self(self.0 * count)
    }
}

impl Mul<Time> for u64 {
    type Output = Time;
    #[inline]
    fn mul(self, time: Time) -> Time {
        Time(self * time.0)
    }
}

impl Div<u64> for Time {
    type Output = Self;
    #[inline]
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Div for Time {
    type Output = u64;
    #[inline]
    fn div(self, by: Self) -> u64 {
        self.0 / by.0
    }
}

impl Rem for Time {
    type Output = Self;
    #[inline]
    fn rem(self, by: Self) -> Self {
        Self(self.0 % by.0)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        Self(times.map(Self::ticks).sum())
    }
}

impl<'a> Sum<&'a Self> for Time {
    fn sum<I: Iterator<Item = &'a Self>>(times: I) -> Self {
        times.copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_of_times_is_a_count_and_a_multiple_is_a_time() {
        let [span, period] = [17, 5].map(Time::new);
        assert_eq!((span / period, span % period), (3, Time::new(2)));
        assert_eq!((span.div_ceil(period), span.div_up(5)), (4, Time::new(4)));
        assert_eq!(3 * period + span % period, span);
        assert_eq!([span, period].iter().sum::<Time>(), Time::new(22));
    }

    #[test]
    fn sums_beyond_all_times_are_cut_or_refused() {
        assert_eq!(Time::MAX.saturating_add(Time::TICK), Time::MAX);
        assert_eq!(Time::ZERO.saturating_sub(Time::TICK), Time::ZERO);
        assert_eq!(Time::MAX.checked_add(Time::TICK), None);
        assert_eq!(Time::ZERO.checked_sub(Time::TICK), None);
        assert_eq!(Time::MAX.checked_mul(2), None);
    }

    #[test]
    fn files_and_sentences_have_the_bare_number() {
        let text = serde_json::to_string(&Time::new(1_500)).unwrap();
        assert_eq!(
            (text.as_str(), format!("{0} {0:?}", Time::new(1_500))),
            ("1500", "1500 1500".to_owned())
        );
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), Time::new(1_500));
    }
}
