// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemption lengths: their distributions, and the words for them in tables.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, UnitError};

/// The distribution from which corehop draws preemption lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Length {
    /// Every preemption of the distribution has this length.
    Fixed(Nanos),
    /// Lengths are drawn uniformly from the first to the second time, both included.
    Uniform(Nanos, Nanos),
    /// Lengths are drawn uniformly with a mean of 25 ms; the word is `uniform`, as in the tables of
    /// Wächtler (2012, appendix A).
    Mean25,
}

impl fmt::Display for Length {
    /// Writes the text for the column `preemption_length`, such as `fixed_4ms`, `uniform_0_50ms`,
    /// or `uniform`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tight = |time: Nanos| time.to_string().replace(' ', "");
        f.pad(&match *self {
            Self::Mean25 => "uniform".to_owned(),
            Self::Fixed(time) => format!("fixed_{}", tight(time)),
            Self::Uniform(low, high) => {
                let unit: String = tight(high).chars().filter(char::is_ascii_alphabetic).collect();
                let in_unit = tight(low).strip_suffix(&unit).map(str::to_owned);
                let low = if low.get() == 0 { Some("0".to_owned()) } else { in_unit };
                match low {
                    Some(low) => format!("uniform_{low}_{}", tight(high)),
                    None => format!("uniform_{}ns_{}ns", self.shortest().get(), high.get()),
                }
            }
        })
    }
}

impl FromStr for Length {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed = || UnitError::Malformed {
            text: text.to_owned(),
            what: "a preemption length",
            example: "fixed_4ms or uniform_0_50ms",
        };
        if text == "uniform" {
            return Ok(Self::Mean25);
        }
        if let Some(time) = text.strip_prefix("fixed_") {
            return time.parse().map(Self::Fixed).map_err(|_| malformed());
        }
        let range = text.strip_prefix("uniform_").ok_or_else(malformed)?;
        let (low, high) = range.split_once('_').ok_or_else(malformed)?;
        let unit = high.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let low = if low.ends_with(|c: char| c.is_ascii_digit()) {
            format!("{low}{unit}")
        } else {
            low.to_owned()
        };
        let low: Nanos = low.parse().map_err(|_| malformed())?;
        let high: Nanos = high.parse().map_err(|_| malformed())?;
        if low > high { Err(malformed()) } else { Ok(Self::Uniform(low, high)) }
    }
}

impl From<Length> for String {
    fn from(length: Length) -> Self {
        length.to_string()
    }
}

impl TryFrom<String> for Length {
    type Error = UnitError;
    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl Length {
    /// The length of an event without an absence, which is zero.
    pub const ZERO: Self = Self::Fixed(Nanos::new(0));

    /// Returns the shortest length that can be drawn.
    pub const fn shortest(self) -> Nanos {
        match self {
            Self::Fixed(time) | Self::Uniform(time, _) => time,
            Self::Mean25 => Nanos::new(0),
        }
    }

    /// Returns the mean of the drawn lengths.
    pub const fn mean(self) -> Nanos {
        match self {
            Self::Fixed(time) => time,
            Self::Uniform(low, high) => Nanos::new(u64::midpoint(low.get(), high.get())),
            Self::Mean25 => Nanos::from_millis(25),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preemption_length_is_written_as_the_printed_tables_write_it() {
        let ms = Nanos::from_millis;
        for (length, text) in [
            (Length::Fixed(ms(4)), "fixed_4ms"),
            (Length::Uniform(ms(0), ms(50)), "uniform_0_50ms"),
            (Length::Uniform(ms(1), ms(5)), "uniform_1_5ms"),
            (Length::Uniform(Nanos::new(500), ms(5)), "uniform_500ns_5000000ns"),
            (Length::Mean25, "uniform"),
        ] {
            assert_eq!(length.to_string(), text);
            assert_eq!(text.parse(), Ok(length));
        }
        assert!("uniform_5_1ms".parse::<Length>().is_err() && "4ms".parse::<Length>().is_err());
    }
}
