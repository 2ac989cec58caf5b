// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frequencies, powers and latencies of a platform, with their units.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{UnitError, parse};

/// A frequency of a clock in Hz. A platform file writes a frequency with its unit, as `"2.13 GHz"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hertz(u64);

impl Hertz {
    /// Makes a frequency of `hertz` Hz.
    pub const fn new(hertz: u64) -> Self {
        Self(hertz)
    }
    /// Returns the frequency in Hz.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Decimal units of frequency, largest first.
const FREQUENCY_UNITS: [(&str, u64); 4] =
    [("GHz", 1_000_000_000), ("MHz", 1_000_000), ("kHz", 1_000), ("Hz", 1)];

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = match self.0 {
            1_000_000_000.. => FREQUENCY_UNITS[0],
            1_000_000.. => FREQUENCY_UNITS[1],
            1_000.. => FREQUENCY_UNITS[2],
            _ => FREQUENCY_UNITS[3],
        };
        f.pad(&format!("{} {unit}", decimal(self.0, factor)))
    }
}

impl FromStr for Hertz {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &[], &FREQUENCY_UNITS, "a frequency", "2.66 GHz").map(Self)
    }
}

/// A power of a machine in milliwatts. A platform file writes a power with its unit, as `"1.5 W"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Power(u64);

impl Power {
    /// Makes a power of `milliwatts` mW.
    pub const fn milliwatts(milliwatts: u64) -> Self {
        Self(milliwatts)
    }
    /// Returns the power in watts.
    pub fn watts(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

/// The units of power, of which the largest comes first.
const POWER_UNITS: [(&str, u64); 2] = [("W", 1_000), ("mW", 1)];

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = POWER_UNITS[usize::from(self.0 < 1_000)];
        f.pad(&format!("{} {unit}", decimal(self.0, factor)))
    }
}

impl FromStr for Power {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &[], &POWER_UNITS, "a power", "1.5 W").map(Self)
    }
}

/// The time of one access, either in cycles of the core, as papers state it, or in nanoseconds, as corehop
/// measures it. A latency is exact to a thousandth of its unit in both forms. A platform file writes a
/// latency as `"42 cycles"` or `"15.8 ns"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Latency {
    /// The latency in thousandths of a cycle.
    MilliCycles(u64),
    /// The latency in picoseconds, as a whole number.
    Picos(u64),
}

impl Latency {
    /// Makes a latency of `cycles` whole cycles.
    pub const fn cycles(cycles: u64) -> Self {
        Self::MilliCycles(cycles * 1_000)
    }
    /// Makes a latency of `ns` nanoseconds, rounded to picoseconds.
    pub fn from_nanos(ns: f64) -> Self {
        Self::Picos((1e3 * ns).round() as u64)
    }
    /// Returns the latency in picoseconds on a core of this frequency, rounded down.
    pub fn picos(self, core: Hertz) -> u64 {
        match self {
            Self::Picos(picos) => picos,
            Self::MilliCycles(_) if core.get() == 0 => 0,
            Self::MilliCycles(milli) => {
                (u128::from(milli) * 1_000_000_000 / u128::from(core.get())) as u64
            }
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            Self::MilliCycles(milli) => format!("{} cycles", decimal(milli, 1_000)),
            Self::Picos(picos) => format!("{} ns", decimal(picos, 1_000)),
        })
    }
}

impl FromStr for Latency {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let cycles = [("cycles", 1_000), ("cycle", 1_000)];
        let time = [("ps", 1), ("ns", 1_000), ("us", 1_000_000)];
        parse(text, &[], &cycles, "a latency", "42 cycles")
            .map(Self::MilliCycles)
            .or_else(|_| parse(text, &[], &time, "a latency", "42 cycles").map(Self::Picos))
    }
}

/// Writes `value / factor` as a decimal number without trailing zeros; `factor` is a power of ten.
fn decimal(value: u64, factor: u64) -> String {
    let (whole, rest) = (value / factor, value % factor);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = factor.ilog10() as usize;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned()
}

/// Lets serde write a quantity as the text that its `FromStr` reads.
macro_rules! as_text {
    ($($quantity:ty),*) => {$(
        impl From<$quantity> for String {
            fn from(value: $quantity) -> Self { value.to_string() }
        }
        impl TryFrom<String> for $quantity {
            type Error = UnitError;
            fn try_from(text: String) -> Result<Self, UnitError> { text.parse() }
        }
    )*};
}
as_text!(Hertz, Latency, Power);
