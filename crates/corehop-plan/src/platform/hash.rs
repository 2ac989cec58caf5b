// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index function of a cache, which assigns a set to each line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A function from the number of a line (its address divided by the line size) to the number of its
/// set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Index {
    /// The set is the line number modulo the number of sets, which can be any number.
    #[default]
    Modulo,
    /// The line number is cut into slices of this many bits (1 to 31), which are combined by
    /// exclusive or; the set is the result modulo the number of sets.
    Fold(u32),
    /// Each mask of the hash selects bits of the line number. The parity of the selected bits is
    /// one bit of the slice number, and the first mask determines the lowest bit. The slices have
    /// equal numbers of sets, and inside a slice the remainder determines the set.
    Parity(Vec<u32>),
}

/// The error for a text that is not an index function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an index function: write `modulo`, `fold 14` (1 to 31 bits) or `parity 0x1b5f,0x2eb5` (at most 8 masks of a line number)"
)]
pub struct IndexError(String);

impl Index {
    /// Returns the set of `line` in a cache of `sets` sets, computed directly from the definition.
    pub fn set(&self, line: u32, sets: u32) -> u32 {
        match self {
            Self::Modulo => line % sets,
            Self::Fold(bits) => {
                let slices = (0..32).step_by(*bits as usize).map(|shift| line >> shift);
                let mask = (1_u32 << bits) - 1;
                slices.fold(0, |folded, slice| folded ^ (slice & mask)) % sets
            }
            Self::Parity(masks) => {
                let bit = |(place, mask): (usize, &u32)| ((line & mask).count_ones() & 1) << place;
                let slice: u32 = masks.iter().enumerate().map(bit).sum();
                let each = sets >> masks.len();
                slice * each + line % each
            }
        }
    }

    /// Returns whether the function can index `sets` sets.
    pub fn fits(&self, sets: u64) -> bool {
        match self {
            Self::Modulo => sets > 0,
            Self::Fold(bits) => sets > 0 && sets <= 1 << bits,
            Self::Parity(masks) => sets >> masks.len() > 0 && sets.is_multiple_of(1 << masks.len()),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modulo => f.pad("modulo"),
            Self::Fold(bits) => f.pad(&format!("fold {bits}")),
            Self::Parity(masks) => {
                let masks: Vec<_> = masks.iter().map(|mask| format!("{mask:#x}")).collect();
                f.pad(&format!("parity {}", masks.join(",")))
            }
        }
    }
}

impl FromStr for Index {
    type Err = IndexError;
    fn from_str(text: &str) -> Result<Self, IndexError> {
        let wrong = || IndexError(text.to_owned());
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mask = |mask: &str| u32::from_str_radix(mask.trim().strip_prefix("0x")?, 16).ok();
        match word {
            "modulo" if rest.is_empty() => Ok(Self::Modulo),
            "fold" => {
                let bits = rest.trim().parse().map_err(|_| wrong())?;
                if (1..32).contains(&bits) { Ok(Self::Fold(bits)) } else { Err(wrong()) }
            }
            "parity" => {
                let masks: Option<Vec<u32>> = rest.split(',').map(mask).collect();
                let masks = masks.filter(|masks| masks.len() <= 8).ok_or_else(wrong)?;
                Ok(Self::Parity(masks))
            }
            _ => Err(wrong()),
        }
    }
}

impl From<Index> for String {
    fn from(value: Index) -> Self {
        value.to_string()
    }
}
impl TryFrom<String> for Index {
    type Error = IndexError;
    fn try_from(text: String) -> Result<Self, IndexError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_survives_its_text_and_finds_the_set_that_its_definition_says() {
        for (text, line, sets, set) in [
            ("modulo", 12_288 * 5 + 17, 12_288, 17),
            ("fold 4", 0b1010_0110, 16, 0b1100),
            ("fold 14", (1 << 14) + 12_289, 12_288, 0),
            ("parity 0x3,0x4", 0b111, 16, 0b10 * 4 + 3),
        ] {
            let index: Index = text.parse().unwrap();
            assert_eq!(index.to_string(), text);
            assert_eq!(index.set(line, sets), set, "{text}");
        }
        for text in ["", "fold", "fold 0", "fold 32", "parity", "parity 3", "modulo 4", "hash"] {
            assert!(text.parse::<Index>().is_err(), "{text}");
        }
    }
}
