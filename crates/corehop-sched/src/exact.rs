// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact comparisons of sums of fractions.
//!
//! A sum is first computed in floating point together with a bound on its error. If that bound
//! leaves a doubt, the sum is computed again in whole numbers of any length.

use std::cmp::Ordering;

/// The relative error of a sum of floating-point terms, compared with the sum of their magnitudes.
/// Each term takes at most ten rounded operations, and `n` terms take `n` rounded additions.
pub(crate) fn relative_error(terms: usize) -> f64 {
    (terms + 12) as f64 * f64::EPSILON
}

/// A floating-point sum minus the value with which the sum is compared, together with the sum of the magnitudes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filter {
    value: f64,
    magnitude: f64,
    terms: usize,
}

impl Filter {
    /// Adds a term that at most ten rounded operations without cancellation produced.
    #[inline]
    pub(crate) fn add(&mut self, term: f64) {
        self.add_with(term, term.abs());
    }
    /// Adds a term whose error is relative to `magnitude` instead of the term.
    #[inline]
    pub(crate) fn add_with(&mut self, term: f64, magnitude: f64) {
        self.value += term;
        self.magnitude += magnitude;
        self.terms += 1;
    }
    /// Adds a sum that was computed elsewhere from `terms` terms.
    #[inline]
    pub(crate) fn add_many(&mut self, sum: f64, magnitude: f64, terms: usize) {
        self.value += sum;
        self.magnitude += magnitude;
        self.terms += terms;
    }
    /// The sign of the exact sum, or `None` if the rounding error could change the sign.
    #[inline]
    pub(crate) fn sign(self) -> Option<Ordering> {
        let error = self.magnitude * relative_error(self.terms);
        if self.value > error {
            Some(Ordering::Greater)
        } else if self.value < -error {
            Some(Ordering::Less)
        } else {
            None
        }
    }
}

/// A natural number of any length: 64-bit digits, the least significant first, without trailing
/// zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Natural(Vec<u64>);

impl Natural {
    fn trimmed(mut digits: Vec<u64>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self(digits)
    }

    fn plus(&self, other: &Self) -> Self {
        let length = self.0.len().max(other.0.len());
        let mut digits = Vec::with_capacity(length + 1);
        let mut carry = 0_u128;
        let digit = |number: &Self, at: usize| number.0.get(at).copied().unwrap_or(0);
        for at in 0..length {
            let sum = u128::from(digit(self, at)) + u128::from(digit(other, at)) + carry;
            digits.push(sum as u64);
            carry = sum >> 64;
        }
        digits.push(carry as u64);
        Self::trimmed(digits)
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut digits = vec![0_u64; self.0.len() + other.0.len() + 1];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0_u128;
            for (j, &b) in other.0.iter().enumerate() {
                let sum = u128::from(a) * u128::from(b) + u128::from(digits[i + j]) + carry;
                digits[i + j] = sum as u64;
                carry = sum >> 64;
            }
            digits[i + other.0.len()] = carry as u64;
        }
        Self::trimmed(digits)
    }

    fn remainder(&self, by: u64) -> u64 {
        let step = |rest: u128, &digit: &u64| ((rest << 64) | u128::from(digit)) % u128::from(by);
        self.0.iter().rev().fold(0_u128, step) as u64
    }

    /// Divides by a divisor that leaves no remainder.
    fn over(&self, by: u64) -> Self {
        let mut rest = 0_u128;
        let mut digits = vec![0; self.0.len()];
        for (at, &digit) in self.0.iter().enumerate().rev() {
            rest = (rest << 64) | u128::from(digit);
            digits[at] = (rest / u128::from(by)) as u64;
            rest %= u128::from(by);
        }
        Self::trimmed(digits)
    }
}

impl From<u128> for Natural {
    fn from(value: u128) -> Self {
        Self::trimmed(vec![value as u64, (value >> 64) as u64])
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_digits = || self.0.iter().rev().cmp(other.0.iter().rev());
        self.0.len().cmp(&other.0.len()).then_with(by_digits)
    }
}

/// The greatest common divisor.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A term of a sum: a signed numerator over a denominator that is not zero.
pub(crate) type Term = (i128, u64);

/// The sign of the sum of `terms`, in whole numbers throughout.
pub(crate) fn sign_of_sum(terms: impl Iterator<Item = Term>) -> Ordering {
    // Over one common denominator, which grows to the least common multiple; the positive and the
    // negative numerators are kept apart.
    let (mut plus, mut minus) = (Natural::default(), Natural::default());
    let mut common = Natural::from(1);
    for (numerator, denominator) in terms.filter(|&(numerator, _)| numerator != 0) {
        let shared = gcd(denominator, common.remainder(denominator));
        let grow = Natural::from(u128::from(denominator / shared));
        let scaled = Natural::from(numerator.unsigned_abs()).times(&common.over(shared));
        plus = plus.times(&grow);
        minus = minus.times(&grow);
        common = common.times(&grow);
        let side = if numerator > 0 { &mut plus } else { &mut minus };
        *side = side.plus(&scaled);
    }
    plus.cmp(&minus)
}

/// The sign of a sum of fractions: computed in floating point if the error bound allows, and
/// exactly otherwise.
#[inline]
pub(crate) fn sign(terms: impl Iterator<Item = Term> + Clone) -> Ordering {
    let mut filter = Filter::default();
    for (numerator, denominator) in terms.clone() {
        filter.add(numerator as f64 / denominator as f64);
    }
    filter.sign().unwrap_or_else(|| sign_of_sum(terms))
}

/// Compares the sum of the fractions with a whole number.
#[inline]
pub(crate) fn compare_sum(
    fractions: impl Iterator<Item = (u64, u64)> + Clone,
    whole: u64,
) -> Ordering {
    let mut filter = Filter::default();
    filter.add(-(whole as f64));
    for (numerator, denominator) in fractions.clone() {
        filter.add(numerator as f64 / denominator as f64);
    }
    filter.sign().unwrap_or_else(|| {
        let terms = fractions.map(|(numerator, denominator)| (i128::from(numerator), denominator));
        sign_of_sum(terms.chain(std::iter::once((-i128::from(whole), 1))))
    })
}

/// The least number for which `enough` holds, searched from a nearby guess; `enough` must hold for
/// all larger numbers too.
pub(crate) fn settle(guess: u128, enough: impl Fn(u128) -> bool) -> u128 {
    // Steps double: a guess may be far off. Below `low` all are too few, and `high` is enough.
    let (mut low, mut high, mut step) = (0, guess, 1);
    if enough(guess) {
        while high > 0 {
            let lower = high.saturating_sub(step);
            if !enough(lower) {
                low = lower + 1;
                break;
            }
            (high, step) = (lower, step * 2);
        }
    } else {
        (low, high) = (guess + 1, guess + 1);
        while !enough(high) {
            (low, high, step) = (high + 1, high + step, step * 2);
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

/// The sum of the fractions, rounded up to a whole number.
pub(crate) fn ceil_of_sum(fractions: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let quotients = fractions.clone().map(|(numerator, by)| numerator as f64 / by as f64);
    let (sum, terms) = quotients.fold((0.0, 0), |(sum, terms), term| (sum + term, terms + 1));
    ceil_near(sum, terms, fractions)
}

/// The sum of the fractions rounded up, starting from a floating-point sum.
pub(crate) fn ceil_near(
    sum: f64,
    terms: usize,
    fractions: impl Iterator<Item = (u64, u64)> + Clone,
) -> u64 {
    let error = sum * relative_error(terms);
    let (low, high) = ((sum - error).ceil(), (sum + error).ceil());
    if low >= high {
        return high as u64;
    }
    // A whole number lies between them, and the sum may be on either side of it.
    let whole = low as u64;
    if compare_sum(fractions, whole).is_gt() { whole + 1 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_thirds_are_one_and_nothing_less() {
        let third = (1_u64, 3_u64);
        assert_eq!(compare_sum([third; 3].into_iter(), 1), Ordering::Equal);
        let hair = (1, 1 << 40);
        assert_eq!(compare_sum([third, third, third, hair].into_iter(), 1), Ordering::Greater);
        assert_eq!(
            compare_sum([third, third, (333_333, 1_000_000)].into_iter(), 1),
            Ordering::Less
        );
    }

    #[test]
    fn sums_over_many_primes_are_exact() {
        // The sum of 1/p + (p-1)/p is 1 for each prime: 40 of them make 40, and no float says so.
        let primes: Vec<u64> = (3..200).filter(|n| (2..*n).all(|d| n % d != 0)).take(40).collect();
        let parts = primes.iter().flat_map(|&p| [(1, p), (p - 1, p)]);
        assert_eq!(compare_sum(parts.clone(), 40), Ordering::Equal);
        let less = parts.chain([(1, 1 << 39)]);
        assert_eq!(compare_sum(less, 40), Ordering::Greater);
    }

    #[test]
    fn what_floating_point_can_tell_is_what_whole_numbers_tell() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        for _ in 0..2_000 {
            let n = draw(6) + 1;
            let fractions: Vec<_> = (0..n).map(|_| (draw(12), draw(12) + 1)).collect();
            let whole = draw(8);
            let terms = fractions.iter().map(|&(a, b)| (i128::from(a), b));
            let exact = sign_of_sum(terms.chain([(-i128::from(whole), 1)]));
            assert_eq!(compare_sum(fractions.iter().copied(), whole), exact, "{fractions:?}");
        }
    }

    #[test]
    fn the_least_that_is_enough_is_found_from_any_guess() {
        for least in [0, 1, 2, 7, 100, 1 << 70] {
            for off in [0, 1, 2, 3, 50, 1 << 20] {
                for guess in [least + off, least - least.min(off)] {
                    assert_eq!(settle(guess, |y| y >= least), least, "{guess}");
                }
            }
        }
    }

    #[test]
    fn a_sum_is_rounded_up_and_a_whole_one_is_not() {
        let third = [(1, 3); 3];
        assert_eq!(ceil_of_sum(third.into_iter()), 1);
        assert_eq!(ceil_of_sum(third.into_iter().chain([(1, 1 << 40)])), 2);
        assert_eq!(ceil_of_sum([(1, 3), (1, 3), (333_333, 1_000_000)].into_iter()), 1);
    }

    #[test]
    fn long_numbers_multiply_and_divide() {
        let big = Natural::from(u128::MAX).times(&Natural::from(u128::MAX));
        assert_eq!(big.0, [1, 0, u64::MAX - 1, u64::MAX]);
        let tripled = big.times(&Natural::from(3));
        assert_eq!(tripled.remainder(3), 0);
        assert_eq!(tripled.over(3), big);
        assert!(tripled > big && big.plus(&big) < tripled);
    }

    #[test]
    fn what_was_summed_elsewhere_brings_its_value_its_magnitude_and_its_terms() {
        let mut filter = Filter::default();
        filter.add_many(3.0, 5.0, 2);
        filter.add_many(-1.0, 4.0, 3);
        assert_eq!((filter.value, filter.magnitude, filter.terms), (2.0, 9.0, 5));
        // 3 + 12 epsilons of error: 14 are a doubt, and without the terms would be none.
        let mut doubt = Filter::default();
        doubt.add_many(14.0 * f64::EPSILON, 1.0, 3);
        assert_eq!(doubt.sign(), None);
        let mut sure = Filter::default();
        sure.add_many(-16.0 * f64::EPSILON, 1.0, 3);
        assert_eq!(sure.sign(), Some(Ordering::Less));
    }

    #[test]
    fn a_term_can_have_the_error_of_more_than_itself() {
        let mut filter = Filter::default();
        filter.add(-2.0);
        filter.add_with(1.0, 8.0);
        assert_eq!((filter.value, filter.magnitude, filter.terms), (-1.0, 10.0, 2));
        assert_eq!(filter.sign(), Some(Ordering::Less));
        // A sum that is just its error is not told.
        let edge = Filter { value: relative_error(1), magnitude: 1.0, terms: 1 };
        assert_eq!(edge.sign(), None);
    }
}
