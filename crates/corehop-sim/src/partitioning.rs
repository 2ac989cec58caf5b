// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page placement and cache partitioning of a simulated machine: settings that an administrator of a real machine
//! makes by page colouring or cache allocation.

use serde::{Deserialize, Serialize};

use corehop_plan::platform::{Index, Platform};
use corehop_plan::words::words;

use super::spec::{MAX_LEVELS, MAX_WAYS};

/// The size of a base page, in bytes.
const PAGE: u64 = 4 << 10;

words! {
    /// The rule by which a working set gets page frames.
    Placement, "a placement" {
        /// The working set gets random free page frames, as on a machine that has been running for a while.
        Random = "random",
        /// The working set gets contiguous page frames.
        Contiguous = "contiguous",
    }
}

/// The ways of the caches of one level that one user may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    /// The cache level; level 1 is next to the core.
    pub level: u32,
    /// A bit for each way that the user may fill.
    pub mask: u32,
}

/// The share of a common cache that one user may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShare {
    /// The page colours that the user may use; empty if all colours are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub colours: Vec<u32>,
    /// The ways that the user may fill, by level; all ways of levels that are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Ways>,
}

/// The cache shares of the measured job and of all other users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partitioning {
    /// The placement of page frames: random or contiguous.
    #[serde(default = "Partitioning::at_random")]
    pub placement: Placement,
    /// The number of colours: two frames have the same colour if their numbers differ by a multiple of this number.
    /// None selects the number of colours of the last-level cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<u32>,
    /// The share of the measured job.
    #[serde(default)]
    pub job: CacheShare,
    /// The share of polluters, preemptors and the operating system.
    #[serde(default)]
    pub others: CacheShare,
}

impl Default for Partitioning {
    fn default() -> Self {
        Self {
            placement: Placement::Random,
            colours: None,
            job: CacheShare::default(),
            others: CacheShare::default(),
        }
    }
}

/// The reason for which memory or caches cannot be partitioned as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {remedy}")]
pub struct PartitioningError {
    what: String,
    remedy: String,
}

fn wrong(what: String, remedy: impl Into<String>) -> PartitioningError {
    PartitioningError { what, remedy: remedy.into() }
}

impl Partitioning {
    fn at_random() -> Placement {
        Placement::Random
    }

    /// Whether nothing is partitioned: random placement and no restrictions.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the job or the other users are restricted to some colours.
    pub fn has_colours(&self) -> bool {
        !self.job.colours.is_empty() || !self.others.colours.is_empty()
    }

    /// The number of colours on `platform`: the configured number, or the number of pages in one way of the
    /// last-level cache.
    ///
    /// # Errors
    /// Returns [`PartitioningError`] if the last-level cache spreads a page over its sets by a hash, so that pages
    /// have no colour.
    pub fn colour_count(&self, platform: &Platform) -> Result<u32, PartitioningError> {
        if let Some(count) = self.colours {
            return Ok(count);
        }
        let last = platform.caches.iter().max_by_key(|cache| cache.level);
        let hashed = last.and_then(|cache| cache.mechanism.index.as_ref());
        if let Some(index) = hashed.filter(|index| index.value != Index::Modulo) {
            let what = format!("the index function of the last cache level is `{}`", index.value);
            return Err(wrong(
                what,
                "pages have no colour with this function; divide the ways of the cache instead",
            ));
        }
        let bytes = last.and_then(corehop_plan::platform::Cache::set_count).unwrap_or(0)
            * platform.line_size().get();
        Ok((bytes / PAGE).max(1) as u32)
    }

    /// Checks that `platform` supports this partitioning.
    ///
    /// # Errors
    /// Returns [`PartitioningError`], which names the colour, level or way that the platform lacks.
    pub fn check(&self, platform: &Platform) -> Result<(), PartitioningError> {
        if self.has_colours() {
            let count = self.colour_count(platform)?;
            let mut colours = self.job.colours.iter().chain(&self.others.colours);
            if let Some(colour) = colours.find(|&&colour| colour >= count) {
                let what = format!("colour {colour} of {count}");
                return Err(wrong(what, format!("name colours from 0 to {}", count - 1)));
            }
            if self.placement == Placement::Contiguous {
                let what = "neighbouring frames have different colours".to_owned();
                return Err(wrong(what, "omit the placement or the colours"));
            }
        }
        self.job.ways.iter().chain(&self.others.ways).try_for_each(|ways| ways.check(platform))
    }
}

impl Ways {
    fn check(self, platform: &Platform) -> Result<(), PartitioningError> {
        let of_level = platform.caches.iter().filter(|cache| cache.level == self.level);
        let most = of_level.filter_map(|cache| Some(cache.ways.as_ref()?.value)).min();
        let Some(most) = most.filter(|_| self.level as usize <= MAX_LEVELS) else {
            let what = format!("there is no level-{} cache with known ways", self.level);
            return Err(wrong(what, "name a level that the platform file has"));
        };
        let highest = MAX_WAYS - self.mask.leading_zeros();
        if self.mask == 0 || highest > most {
            let what = if self.mask == 0 {
                format!("a cache share names no way of level {}", self.level)
            } else {
                format!(
                    "way {} does not exist in a level-{} cache of {most} ways",
                    highest - 1,
                    self.level
                )
            };
            return Err(wrong(what, format!("name ways from 0 to {}", most - 1)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(partitioning: &Partitioning) -> String {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        partitioning.check(&platform).unwrap_err().to_string()
    }

    fn job(colours: &[u32], ways: &[Ways]) -> Partitioning {
        let job = CacheShare { colours: colours.to_vec(), ways: ways.to_vec() };
        Partitioning { job, ..Partitioning::default() }
    }

    #[test]
    fn a_page_has_as_many_colours_as_pages_fit_into_a_way() {
        // 12,288 sets of 64 bytes are 192 pages.
        assert!(refused(&job(&[192], &[])).contains("colour 192 of 192"));
        let stated = Partitioning { colours: Some(16), ..job(&[16], &[]) };
        assert!(refused(&stated).contains("colour 16 of 16"));
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        assert_eq!(job(&[0, 191], &[Ways { level: 3, mask: 0x8001 }]).check(&platform), Ok(()));
    }

    #[test]
    fn what_the_caches_do_not_have_is_refused_by_name() {
        assert!(refused(&job(&[], &[Ways { level: 4, mask: 1 }])).contains("no level-4 cache"));
        assert!(refused(&job(&[], &[Ways { level: 2, mask: 0x1ff }])).contains("way 8"));
        assert!(refused(&job(&[], &[Ways { level: 2, mask: 0 }])).contains("no way of level 2"));
        let both = Partitioning { placement: Placement::Contiguous, ..job(&[1], &[]) };
        assert!(refused(&both).contains("neighbouring"));
        let mut hashed = Platform::named("xeon_x5650").unwrap().unwrap();
        hashed.caches[3].mechanism.index.as_mut().unwrap().value = Index::Fold(14);
        assert!(job(&[1], &[]).check(&hashed).unwrap_err().to_string().contains("fold 14"));
    }
}
