// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities with a unit: bytes, nanoseconds, and numbers of CPUs.
//!
//! Texts must state a unit too (`"64 KiB"`, `"4 ms"`). A bare number is an error, because tools of
//! this field have repeatedly lost factors of 1,024 and 1,000 to bare numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::bounds::MOST_WHOLE;

/// The reason why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text has a number but no unit.
    #[error("`{text}` has no unit: write for example `{example}`")]
    NoUnit {
        /// The text that the user gave for the quantity.
        text: String,
        /// A text that would be valid.
        example: &'static str,
    },
    /// The text is not a number with a known unit.
    #[error("`{text}` is not {what}: write for example `{example}`")]
    Malformed {
        /// The text that the user gave for the quantity.
        text: String,
        /// The expected kind of quantity, with its article.
        what: &'static str,
        /// A text that would be valid.
        example: &'static str,
    },
    /// The quantity is larger than any machine or run can have.
    #[error("`{text}` is too large: expected at most 10^18 of the smallest unit")]
    TooLarge {
        /// The text that the user gave for the quantity.
        text: String,
    },
}

/// A size of memory in bytes. Texts state a size with binary units, as `"64 KiB"`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(u64);

impl Bytes {
    /// Makes a size of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// Makes a size of `kib` KiB (1,024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }
    /// Makes a size of `mib` MiB (1,048,576 bytes).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }
    /// Returns the sizes 2^n and 1.5 × 2^n bytes for ascending n from `from`: for example 4, 6, 8,
    /// 12, 16 KiB.
    pub fn half_octaves(from: u32) -> impl Iterator<Item = Self> {
        (from..62).flat_map(|power| [1_u64 << power, 3 << (power - 1)]).map(Self)
    }
    /// Returns the size in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Returns the size in KiB, exact for sizes below 2^53 bytes.
    pub fn kib(self) -> f64 {
        self.0 as f64 / 1024.0
    }
}

/// Binary units, largest first, so that the first unit that divides a size is the printed unit.
const BYTE_UNITS: [(&str, u64); 4] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = BYTE_UNITS
            .into_iter()
            .find(|(_, by)| self.0 != 0 && self.0.is_multiple_of(*by))
            .unwrap_or(("B", 1));
        f.pad(&format!("{} {unit}", self.0 / factor))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(
            text,
            &[("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)],
            &BYTE_UNITS,
            "a size",
            "64 KiB",
        )
        .map(Self)
    }
}

/// A span of time in nanoseconds. Texts state a span with its unit, as `"4 ms"`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Nanos(u64);

impl Nanos {
    /// Makes a span of `nanos` nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Makes a span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }
    /// Makes a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
    /// Makes a span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }
    /// Returns the span in nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Returns the span in microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// Returns the span in seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Decimal units of time, largest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = TIME_UNITS
            .into_iter()
            .find(|(_, by)| self.0 != 0 && self.0.is_multiple_of(*by))
            .unwrap_or(("ns", 1));
        f.pad(&format!("{} {unit}", self.0 / factor))
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(
            text,
            &[("µs", 1_000), ("h", 3_600_000_000_000)],
            &TIME_UNITS,
            "a span of time",
            "4 ms",
        )
        .map(Self)
    }
}

/// Parses a number (decimal point allowed) with one of `units` or `aliases`.
///
/// A fraction is valid if it equals a whole number of base units (`"1.5 MiB"`); integer arithmetic
/// ensures that no rounding turns one size into another.
pub(crate) fn parse(
    text: &str,
    aliases: &[(&str, u64)],
    units: &[(&str, u64)],
    what: &'static str,
    example: &'static str,
) -> Result<u64, UnitError> {
    let malformed = || UnitError::Malformed { text: text.to_owned(), what, example };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    if number.is_empty() {
        return Err(malformed());
    }
    if unit.is_empty() {
        return Err(UnitError::NoUnit { text: text.to_owned(), example });
    }
    let known = units.iter().chain(aliases).find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let &(_, factor) = known.ok_or_else(malformed)?;
    let value = scaled(number, factor).ok_or_else(malformed)?;
    if value > MOST_WHOLE {
        return Err(UnitError::TooLarge { text: text.to_owned() });
    }
    Ok(value)
}

/// Returns `number` (digits, at most one point) times `factor`, or `None` if the product is not a
/// whole number or does not fit.
pub(crate) fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(factor))?;
    (product % scale == 0).then(|| u64::try_from(product / scale).ok())?
}

/// A logical CPU, with the number that Linux gives it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cpu(pub u32);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// A sorted set of CPUs, written as Linux writes lists, such as `"0-5,12"`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(Vec<Cpu>);

impl CpuList {
    /// Returns the set of the given CPUs; order and repetition do not matter.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
    /// Returns the CPUs of the list in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.0.iter().copied()
    }
    /// Returns the number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Returns whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns whether the list contains `cpu`.
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }
    /// Returns the lowest-numbered CPU of the set.
    pub fn first(&self) -> Option<Cpu> {
        self.0.first().copied()
    }
    /// Returns whether `others` contains all CPUs of this set.
    pub fn is_within(&self, others: &Self) -> bool {
        self.iter().all(|cpu| others.contains(cpu))
    }
    /// Returns the CPUs that both sets contain.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for Cpu(cpu) in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let text = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
        f.pad(&ranges.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for CpuList {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed =
            || UnitError::Malformed { text: text.to_owned(), what: "a CPU list", example: "0-3,8" };
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low: u32 = low.trim().parse().map_err(|_| malformed())?;
            let high: u32 = high.trim().parse().map_err(|_| malformed())?;
            // Linux knows at most 8,192 CPUs; a larger range is a slip, and would fill the memory.
            if high < low || high > 65_535 {
                return Err(malformed());
            }
            cpus.extend((low..=high).map(Cpu));
            if cpus.len() > 65_536 {
                return Err(malformed());
            }
        }
        Ok(Self::new(cpus))
    }
}

/// Returns a number with three significant digits and at most three decimals; `0` if all these
/// digits are zero.
pub fn three_digits(value: f64) -> String {
    let text = match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let none = text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
    if none { "0".to_owned() } else { text }
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
as_text!(Bytes, Nanos, CpuList);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_octaves_double_at_every_second_size() {
        let sizes: Vec<u64> = Bytes::half_octaves(12).take(5).map(Bytes::get).collect();
        assert_eq!(sizes, [4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10]);
    }

    #[test]
    fn a_size_is_read_with_its_unit_and_printed_with_the_largest_that_divides_it() {
        for (text, bytes, printed) in [
            ("64 KiB", 65_536, "64 KiB"),
            ("64K", 65_536, "64 KiB"),
            ("1.5 MiB", 1_572_864, "1536 KiB"),
            ("100 B", 100, "100 B"),
            ("12MiB", 12 << 20, "12 MiB"),
        ] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!((size.get(), size.to_string().as_str()), (bytes, printed));
        }
    }

    #[test]
    fn a_bare_number_a_wrong_unit_and_a_broken_fraction_are_errors_that_show_the_remedy() {
        for text in ["64", "64 ms", "KiB", "", "-1 KiB", "0.3 B", "1..2 KiB", "99999999999 GiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("64 KiB") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_time_is_read_with_its_unit() {
        assert_eq!("4 ms".parse(), Ok(Nanos::from_millis(4)));
        assert_eq!("1.5us".parse(), Ok(Nanos::new(1_500)));
        assert_eq!("3min".parse(), Ok(Nanos::from_secs(180)));
        assert!("4".parse::<Nanos>().is_err());
    }

    #[test]
    fn a_cpu_list_survives_printing_and_reading_whatever_its_order() {
        let list: CpuList = "8, 0-3,2,12-12".parse().unwrap();
        assert_eq!(list.to_string(), "0-3,8,12");
        assert_eq!(list.to_string().parse(), Ok(list));
        assert!("3-1".parse::<CpuList>().is_err() && "0-99999999".parse::<CpuList>().is_err());
        assert_eq!("".parse(), Ok(CpuList::default()));
    }
}
