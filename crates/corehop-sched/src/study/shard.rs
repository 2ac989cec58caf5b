// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a study: every n-th set.

use std::fmt;
use std::str::FromStr;

use crate::exact::gcd;

/// The sets whose index has this remainder modulo `of`, written `3/64`. `64/64` means `0/64`, so
/// numbering shards from 0 or from 1 covers each shard once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    of: u64,
    remainder: u64,
}

/// The reason why a text or number pair is not a shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a shard: expected K/N, K of 0 to N, N of 1 to 1000000, such as 3/64")]
pub struct ShardError(String);

impl Shard {
    /// The shard that contains every set.
    pub const WHOLE: Self = Self { of: 1, remainder: 0 };

    /// The indices below `sets` that belong to the shard.
    pub(super) fn indices(self, sets: u64) -> impl ExactSizeIterator<Item = u64> + Clone {
        let count = sets.saturating_sub(self.remainder).div_ceil(self.of) as usize;
        (0..count).map(move |at| self.remainder + at as u64 * self.of)
    }

    /// Returns how many of `sets` sets belong to the shard.
    pub fn sets(self, sets: u64) -> u64 {
        self.indices(sets).len() as u64
    }

    /// Whether two shards have an index in common.
    fn meets(self, other: Self) -> bool {
        let shared = gcd(self.of, other.of);
        self.remainder % shared == other.remainder % shared
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let wrong = || ShardError(text.to_owned());
        let (at, of) = text.split_once('/').ok_or_else(wrong)?;
        let (at, of): (u64, u64) =
            (at.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
        if of == 0 || of > 1_000_000 || at > of {
            return Err(wrong());
        }
        Ok(Self { of, remainder: at % of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.remainder, self.of)
    }
}

/// Shards that have no set in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shards(Vec<Shard>);

impl Shards {
    /// Returns a list with one shard.
    pub fn one(shard: Shard) -> Self {
        Self(vec![shard])
    }

    /// The two lists together; an error with two shards that have a set in common.
    pub(super) fn with(&self, other: &Self) -> Result<Self, (Shard, Shard)> {
        for &a in &self.0 {
            if let Some(&b) = other.0.iter().find(|&&b| a.meets(b)) {
                return Err((a, b));
            }
        }
        let mut all: Vec<Shard> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let joined = Self(all);
        // Whatever parts a whole was put together from, it is the whole.
        Ok(if joined.is_whole() { Self::one(Shard::WHOLE) } else { joined })
    }

    /// Whether the shards cover every set: shards are disjoint, so their shares add up.
    pub fn is_whole(&self) -> bool {
        let common = self.0.iter().fold(1_u128, |all, shard| {
            let of = u128::from(shard.of);
            let shared = gcd(shard.of, (all % of) as u64);
            (all * (of / u128::from(shared))).min(1 << 100)
        });
        self.0.iter().map(|shard| common / u128::from(shard.of)).sum::<u128>() == common
    }

    /// The number of sets in all shards together.
    pub(super) fn sets(&self, sets: u64) -> u64 {
        self.0.iter().map(|shard| shard.sets(sets)).sum()
    }
}

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(" "))
    }
}

impl FromStr for Shards {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(text: &str) -> Shards {
        text.parse().unwrap()
    }

    #[test]
    fn counting_from_zero_and_from_one_both_take_each_set_once() {
        for numbers in [[0, 1, 2], [1, 2, 3]] {
            let mut all: Vec<u64> = numbers
                .iter()
                .flat_map(|k| format!("{k}/3").parse::<Shard>().unwrap().indices(10))
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
        }
        assert_eq!("5/8".parse::<Shard>().unwrap().indices(5).len(), 0);
        for wrong in ["", "3", "4/3", "-1/3", "1/0", "a/3", "1/3/5"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_different_fineness_make_a_whole_and_overlaps_are_found() {
        let half = shards("0/2");
        let rest = shards("1/4").with(&shards("3/4")).unwrap();
        assert!(!rest.is_whole());
        assert_eq!(half.with(&rest), Ok(Shards::one(Shard::WHOLE)));
        assert!(half.with(&shards("2/4")).is_err());
        assert!(half.with(&shards("1/3")).is_err());
        assert_eq!(shards("1/4 3/4").sets(9), 4);
    }
}
