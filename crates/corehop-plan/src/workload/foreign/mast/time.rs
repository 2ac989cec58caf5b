// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of a MAST model: exact decimals without a unit, which add up without rounding.

use std::fmt;

/// The number of decimals of a time.
const DECIMALS: usize = 18;

/// A time of at least 0 without a unit, in steps of 10^-18.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MastTime(u128);

impl MastTime {
    pub(super) const ZERO: Self = Self(0);

    /// Parses a number such as `12`, `1.50` or `2.5E-3`. Returns `None` for a text that is no number of at least 0, or
    /// that has more than 18 decimals or about 20 digits before the point.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text).to_ascii_lowercase();
        let (number, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || exponent.len() > 6 {
            return None;
        }
        let exponent: i64 = exponent.parse().ok()?;
        let digits = format!("{whole}{fraction}");
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Some(Self::ZERO);
        }
        let dropped = digits.len() - kept.len();
        let shift = DECIMALS as i64 + exponent + dropped as i64 - fraction.len() as i64;
        let factor = 10_u128.checked_pow(u32::try_from(shift).ok()?)?;
        let value = kept.parse::<u128>().ok()?;
        value.checked_mul(factor).map(Self)
    }

    /// Returns the sum, or `None` if the sum is too large.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` if the difference is not above 0.
    pub(super) fn minus(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).filter(|&rest| rest > 0).map(Self)
    }
}

impl fmt::Display for MastTime {
    /// Writes the shortest exact decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10_u128.pow(DECIMALS as u32);
        let fraction = format!("{:018}", self.0 % scale);
        write!(f, "{}", self.0 / scale)?;
        match fraction.trim_end_matches('0') {
            "" => Ok(()),
            fraction => write!(f, ".{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_decimals_and_other_texts_are_no_times() {
        let of = |text| MastTime::parse(text).map(|time| time.to_string());
        for (text, same) in [
            ("12", "12"),
            ("+0.10", "0.1"),
            ("2E1", "20"),
            ("2.5e-3", "0.0025"),
            ("000.000", "0"),
            ("0.00E-99999", "0"),
            ("1.", "1"),
            ("0.000000000000000001", "0.000000000000000001"),
            ("100E-20", "0.000000000000000001"),
            ("99999999999999999999", "99999999999999999999"),
        ] {
            assert_eq!(of(text).as_deref(), Some(same), "{text}");
        }
        for wrong in [
            "",
            "-1",
            ".5",
            "1..2",
            "1e",
            "e5",
            "1e999999",
            "1e9999999",
            "1.0E100",
            "x",
            "1 2",
            "0.0000000000000000001",
            "1e-19",
            "999999999999999999999999",
            "1.2.3",
            "2000-01-01",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sums_neither_round_nor_wrap() {
        let of = |text| MastTime::parse(text).unwrap();
        assert_eq!(of("0.1").plus(of("0.2")), Some(of("0.3")));
        assert_eq!(of("3e20").plus(of("3e20")), None);
        assert_eq!(of("1").minus(of("0.25")), Some(of("0.75")));
        assert_eq!((of("1").minus(of("1")), of("1").minus(of("2"))), (None, None));
    }
}
