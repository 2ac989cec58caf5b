// SPDX-License-Identifier: MIT OR Apache-2.0
//! A printed number, and the distance of a simulated number from it.

use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use corehop_plan::words::words;

/// A number in print. The printed digits show how precisely the number is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintedNumber {
    /// The value of the printed number.
    pub value: f64,
    /// The distance to the next number with this number of digits.
    pub step: f64,
}

impl FromStr for PrintedNumber {
    type Err = String;

    /// Parses numbers like `-12.50`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain = digits.bytes().all(|it| it.is_ascii_digit() || it == b'.');
        let value = text.parse().ok().filter(|_| plain);
        let value = value.ok_or_else(|| format!("`{text}` is not a number"))?;
        Ok(Self { value, step: 10f64.powi(-(decimals as i32)) })
    }
}

impl<'de> Deserialize<'de> for PrintedNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

words! {
    /// The way in which the error between a printed and a simulated number is computed. A simulated number that rounds to the
    /// printed number has no error.
    ErrorLaw, "a law of errors" {
        /// The error is the difference divided by the printed number, or divided by the step of the last printed digit
        /// if the printed number is smaller than this step.
        Relative = "relative",
        /// The error is the larger number divided by the smaller number, minus 1.
        Factor = "factor",
        /// The error is the plain difference.
        Difference = "difference",
        /// For a ratio of times, the error is the difference divided by the printed gain, which is 1 minus the ratio.
        Gain = "gain",
    }
}

impl ErrorLaw {
    /// Returns the error of a simulated number. The error is infinite if the simulated number is NaN or the law's
    /// ratio is undefined.
    pub fn error(self, printed: PrintedNumber, simulated: f64) -> f64 {
        let PrintedNumber { value, step } = printed;
        let off = ((simulated - value).abs() - step / 2.0).max(0.0);
        match self {
            _ if !simulated.is_finite() => f64::INFINITY,
            _ if off <= step * 1e-9 => 0.0,
            Self::Difference => off,
            Self::Relative => off / value.abs().max(step),
            Self::Gain => off / (1.0 - value).abs().max(step),
            Self::Factor if simulated <= 0.0 || value <= 0.0 => f64::INFINITY,
            Self::Factor => (simulated / value).max(value / simulated) - 1.0,
        }
    }

    /// Formats an error for readers: a share in percent, a factor, or a difference.
    pub fn show(self, error: f64) -> String {
        match self {
            _ if error.is_infinite() => "no value".to_owned(),
            Self::Difference => format!("{error:.2}"),
            Self::Factor if error >= 99.0 => format!("x{:.0}", error + 1.0),
            Self::Factor => format!("x{:.2}", error + 1.0),
            Self::Relative | Self::Gain => format!("{:.1} %", error * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> PrintedNumber {
        text.parse().unwrap()
    }

    #[test]
    fn a_printed_number_has_the_step_of_its_last_digit() {
        for (text, value, step) in [("12", 12.0, 1.0), ("-0.17", -0.17, 0.01), ("96.0", 96.0, 0.1)]
        {
            let it = printed(text);
            assert!((it.value - value).abs() < 1e-12 && (it.step - step).abs() < 1e-12, "{it:?}");
        }
        for text in ["", "1,5", "1e3", "inf", "nan", "--1"] {
            assert!(text.parse::<PrintedNumber>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_rounds_to_the_printed_number_is_not_off() {
        for law in ErrorLaw::ALL {
            for simulated in [0.415, 0.42, 0.425] {
                let error = law.error(printed("0.42"), simulated);
                assert!(error.abs() < 1e-12, "{law} {simulated}: {error}");
            }
            assert!(law.error(printed("0.42"), f64::NAN).is_infinite(), "{law}");
        }
    }

    #[test]
    fn an_error_reads_as_a_share_as_so_many_times_or_as_a_difference() {
        let show = |law: ErrorLaw| law.show(0.125);
        let laws = [ErrorLaw::Relative, ErrorLaw::Gain, ErrorLaw::Factor, ErrorLaw::Difference];
        assert_eq!(laws.map(show), ["12.5 %", "12.5 %", "x1.12", "0.12"]);
        assert_eq!(ErrorLaw::Factor.show(f64::INFINITY), "no value");
    }

    #[test]
    fn each_law_is_as_by_hand() {
        let cases = [
            (ErrorLaw::Relative, "10.0", 12.05, 0.2),
            (ErrorLaw::Relative, "-4.0", -5.05, 0.25),
            // Of nothing, the step is the measure.
            (ErrorLaw::Relative, "0.0", 0.35, 3.0),
            (ErrorLaw::Difference, "0.80", 0.905, 0.1),
            // 41 % are gained where 58 % are printed.
            (ErrorLaw::Gain, "0.42", 0.59, 0.165 / 0.58),
            (ErrorLaw::Gain, "1.00", 1.025, 2.0),
            (ErrorLaw::Factor, "100", 50.0, 1.0),
            (ErrorLaw::Factor, "100", 400.0, 3.0),
        ];
        for (law, text, simulated, expected) in cases {
            let error = law.error(printed(text), simulated);
            assert!((error - expected).abs() < 1e-9, "{law} {text} {simulated}: {error}");
        }
        assert!(ErrorLaw::Factor.error(printed("100"), -3.0).is_infinite());
        assert!(ErrorLaw::Factor.error(printed("0"), 3.0).is_infinite());
    }
}
