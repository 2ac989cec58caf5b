// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that partition the memory and the caches of a simulated machine.

use corehop_sim::{CacheShare, Partitioning, Placement, Sampling, Ways};

use corehop_app::failure::{Exit, Failure};

/// The heading of these options in the help.
const HEADING: &str = "Simulated machine (--on NAME or FILE)";
/// The largest number of cache ways.
const MOST: u32 = 32;

/// The page placement and cache partitioning of a simulated machine.
#[derive(Debug, clap::Args)]
pub(in crate::cmd) struct PartitioningOptions {
    /// Choose the page frames of a working set in this way: random or contiguous
    #[arg(long, help_heading = HEADING)]
    placement: Option<Placement>,
    /// Divide memory into this many page colours; default: as many as the last-level cache has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = HEADING)]
    colours: Option<u32>,
    /// Restrict the job's memory to these page colours, for example `0-31`
    #[arg(long, value_name = "LIST", value_parser = colours, help_heading = HEADING)]
    job_colours: Option<NumberList>,
    /// Restrict all other memory (polluters, preemptors, the operating system) to these page colours
    #[arg(long, value_name = "LIST", value_parser = colours, help_heading = HEADING)]
    other_colours: Option<NumberList>,
    /// Let the job fill only these cache ways, for example `3:0-3`; repeat the option for another level
    #[arg(long = "job-ways", value_name = "LEVEL:LIST", value_parser = ways, help_heading = HEADING)]
    job_ways: Vec<Ways>,
    /// Let everything else fill only these cache ways
    #[arg(long = "other-ways", value_name = "LEVEL:LIST", value_parser = ways, help_heading = HEADING)]
    other_ways: Vec<Ways>,
}

/// The options for the part of the caches that corehop simulates. Without these options, corehop simulates one of 16
/// sets for working sets of 8 MiB and more.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct SetSamplingOptions {
    /// Simulate only one of 2 to 64 cache sets for working sets of 1 MiB and more, and for polluters. The simulation
    /// becomes many times faster and averages stay the same, but maxima and the spread of small costs change
    #[arg(long, help_heading = HEADING, conflicts_with = "exact")]
    sampled: bool,
    /// Simulate every cache set for working sets of any size; default: one of 16 cache sets for working sets from 8
    /// MiB up
    #[arg(long, help_heading = HEADING)]
    exact: bool,
}

impl SetSamplingOptions {
    /// The chosen sampling; the default is [`Sampling::Large`].
    pub(super) const fn sampling(self) -> Sampling {
        match (self.sampled, self.exact) {
            (true, _) => Sampling::Most,
            (_, true) => Sampling::Exact,
            _ => Sampling::Large,
        }
    }
}

/// A typed list of numbers.
#[derive(Debug, Clone)]
struct NumberList(Vec<u32>);

impl PartitioningOptions {
    /// The name of a given partitioning or sampling option, if any.
    fn given(&self, sampling: Sampling) -> Option<&'static str> {
        let options = [
            ("--sampled", sampling == Sampling::Most),
            ("--exact", sampling == Sampling::Exact),
            ("--placement", self.placement.is_some()),
            ("--colours", self.colours.is_some()),
            ("--job-colours", self.job_colours.is_some()),
            ("--other-colours", self.other_colours.is_some()),
            ("--job-ways", !self.job_ways.is_empty()),
            ("--other-ways", !self.other_ways.is_empty()),
        ];
        options.into_iter().find(|&(_, given)| given).map(|(name, _)| name)
    }

    /// Rejects these options on this host, which corehop does not partition.
    pub(super) fn refuse(&self, sampling: Sampling) -> Result<(), Failure> {
        let Some(name) = self.given(sampling) else { return Ok(()) };
        let what = format!(
            "{name} is only for a simulated machine: add --on NAME or --on FILE.toml (on a real machine the kernel partitions the caches: see resctrl)"
        );
        Err(Failure::says(Exit::Usage, what))
    }

    /// The requested partitioning.
    pub(super) fn partitioning(&self) -> Partitioning {
        let share = |colours: &Option<NumberList>, ways: &[Ways]| CacheShare {
            colours: colours.as_ref().map_or_else(Vec::new, |list| list.0.clone()),
            ways: ways.to_vec(),
        };
        Partitioning {
            placement: self.placement.unwrap_or(Placement::Random),
            colours: self.colours,
            job: share(&self.job_colours, &self.job_ways),
            others: share(&self.other_colours, &self.other_ways),
        }
    }
}

/// Parses numbers such as `0-3,7`, all below `most`.
fn numbers(text: &str, most: u32) -> Result<Vec<u32>, String> {
    let wrong =
        || format!("`{text}` is not a list of numbers below {most}: write for example `0-3,7`");
    let number = |text: &str| {
        text.trim().parse::<u32>().ok().filter(|&number| number < most).ok_or_else(wrong)
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn colours(text: &str) -> Result<NumberList, String> {
    numbers(text, 1 << 20).map(NumberList)
}

/// Parses cache ways such as `3:0-7`: a level and a mask.
fn ways(text: &str) -> Result<Ways, String> {
    let wrong = || format!("`{text}` is not a level with ways: write for example `3:0-7`");
    let (level, list) = text.split_once(':').ok_or_else(wrong)?;
    let level = level.trim().parse().map_err(|_| wrong())?;
    let mask = numbers(list, MOST)?.into_iter().fold(0, |mask, way| mask | 1 << way);
    Ok(Ways { level, mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_a_level_and_a_list() {
        assert_eq!(ways("3:0-3,7"), Ok(Ways { level: 3, mask: 0x8f }));
        assert_eq!(ways("2:31"), Ok(Ways { level: 2, mask: 1 << 31 }));
        for text in ["", "3", "x:1", "3:", "3:4-2", "3:32", "3:1,,2"] {
            assert!(ways(text).unwrap_err().contains("for example"), "{text}");
        }
    }

    #[test]
    fn a_list_names_every_number_once() {
        assert_eq!(colours("5,0-2,1").unwrap().0, [0, 1, 2, 5]);
        assert!(colours("0-4294967295").is_err());
    }
}
