// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of CPUs, such as the packages of a machine or the instances of a cache.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Cpu, CpuList};

/// Groups of CPUs, ordered by their first CPU.
///
/// A platform file writes the groups as a list of CPU lists. Regular groups have the short form `"0-23 by 2"` for
/// neighbours (0-1, 2-3, …), or `"0-23 by 2 stride 12"` for CPUs with a constant distance (0 with 12, 1 with 13, …),
/// as Linux numbers SMT siblings.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CpuGroups {
    groups: Vec<CpuList>,
    /// The places list each CPU with the indices of its groups, ascending; the index makes searches fast on a machine
    /// with 65,536 CPUs and as many cores.
    places: Vec<(Cpu, usize)>,
}

impl CpuGroups {
    /// Makes groups without the empty and repeated lists in `groups`.
    pub fn new(groups: impl IntoIterator<Item = CpuList>) -> Self {
        let mut groups: Vec<_> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        groups.sort_unstable();
        groups.dedup();
        let of = |(number, group): (usize, &CpuList)| -> Vec<(Cpu, usize)> {
            group.iter().map(|cpu| (cpu, number)).collect()
        };
        let mut places: Vec<_> = groups.iter().enumerate().flat_map(of).collect();
        places.sort_unstable();
        Self { groups, places }
    }
    /// Divides `cpus` into groups of `size`: a group contains every `stride`-th CPU of a block.
    ///
    /// Returns `None` if the CPUs cannot be divided evenly.
    pub fn regular(cpus: &CpuList, size: usize, stride: usize) -> Option<Self> {
        let block = size.checked_mul(stride).filter(|&block| block > 0)?;
        if !cpus.len().is_multiple_of(block) {
            return None;
        }
        let mut groups = vec![Vec::new(); cpus.len() / size];
        for (place, cpu) in cpus.iter().enumerate() {
            groups[place / block * stride + place % stride].push(cpu);
        }
        Some(Self::new(groups.into_iter().map(CpuList::new)))
    }
    /// Returns the groups, in the order of their first CPU.
    pub fn iter(&self) -> std::slice::Iter<'_, CpuList> {
        self.groups.iter()
    }
    /// Returns the number of groups of CPUs.
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    /// Returns whether there are no groups of CPUs.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// Returns the indices of the groups that contain `cpu`, ascending; several if groups overlap.
    fn numbers(&self, cpu: Cpu) -> impl Iterator<Item = usize> + '_ {
        let first = self.places.partition_point(|&(other, _)| other < cpu);
        let of_cpu = self.places[first..].iter().take_while(move |(other, _)| *other == cpu);
        of_cpu.map(|&(_, number)| number)
    }
    /// Returns the groups that contain `cpu`, with their indices.
    pub(super) fn all_containing(&self, cpu: Cpu) -> impl Iterator<Item = (usize, &CpuList)> + '_ {
        self.numbers(cpu).map(|number| (number, &self.groups[number]))
    }
    /// Returns the group that contains `cpu` (the first if groups overlap).
    pub fn containing(&self, cpu: Cpu) -> Option<&CpuList> {
        self.all_containing(cpu).next().map(|(_, group)| group)
    }
    /// Returns whether a group contains both CPUs.
    pub fn share(&self, a: Cpu, b: Cpu) -> bool {
        self.all_containing(a).any(|(_, group)| group.contains(b))
    }
    /// Returns all CPUs that belong to a group.
    pub fn cpus(&self) -> CpuList {
        CpuList::new(self.places.iter().map(|&(cpu, _)| cpu))
    }
    /// Returns a CPU that belongs to two groups, if there is one.
    pub fn overlap(&self) -> Option<Cpu> {
        self.places.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0)
    }
    /// Returns the first group that reaches into two groups of `outer`, or is only partly inside a group of `outer`.
    pub fn straddling(&self, outer: &Self) -> Option<&CpuList> {
        self.iter().find(|group| {
            // The numbers of the CPUs that the group shares with each group of `outer`.
            let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
            for number in group.iter().flat_map(|cpu| outer.numbers(cpu)) {
                *shared.entry(number).or_default() += 1;
            }
            shared.values().any(|&shared| shared < group.len())
        })
    }
    /// Returns the short form of regular groups, or `None` if the groups are not regular.
    fn pattern(&self) -> Option<String> {
        let size = self.groups.first()?.len();
        let cpus = self.cpus();
        let regular = |stride| Self::regular(&cpus, size, stride).as_ref() == Some(self);
        if regular(1) {
            return Some(format!("{cpus} by {size}"));
        }
        let stride = (2..=self.len()).find(|&stride| regular(stride))?;
        Some(format!("{cpus} by {size} stride {stride}"))
    }
}

impl fmt::Debug for CpuGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CpuGroups").field(&self.groups).finish()
    }
}

impl<'a> IntoIterator for &'a CpuGroups {
    type Item = &'a CpuList;
    type IntoIter = std::slice::Iter<'a, CpuList>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for CpuGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = || self.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        f.pad(&self.pattern().unwrap_or_else(list))
    }
}

/// The error for a text that does not name groups of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not name groups of CPUs: write `\"0-23 by 2\"`, `\"0-23 by 2 stride 12\"` (both \
     must come out even) or a list like `[\"0,12\", \"1,13\"]`"
)]
pub struct GroupsError(String);

impl FromStr for CpuGroups {
    type Err = GroupsError;
    fn from_str(text: &str) -> Result<Self, GroupsError> {
        regular(text).ok_or_else(|| GroupsError(text.to_owned()))
    }
}

/// Reads `CPUS by SIZE [stride STRIDE]`.
fn regular(text: &str) -> Option<CpuGroups> {
    let (cpus, shape) = text.split_once(" by ")?;
    let (size, stride) = shape.split_once(" stride ").unwrap_or((shape, "1"));
    let number = |text: &str| text.trim().parse::<usize>().ok();
    CpuGroups::regular(&cpus.parse().ok()?, number(size)?, number(stride)?)
}

impl Serialize for CpuGroups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.pattern() {
            Some(pattern) => serializer.serialize_str(&pattern),
            None => serializer.collect_seq(self.iter()),
        }
    }
}

impl<'de> Deserialize<'de> for CpuGroups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Groups;
        impl<'de> Visitor<'de> for Groups {
            type Value = CpuGroups;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("groups of CPUs, as \"0-23 by 2\" or [\"0,12\", \"1,13\"]")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<CpuGroups, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CpuGroups, A::Error> {
                let mut groups = Vec::new();
                while let Some(group) = seq.next_element()? {
                    groups.push(group);
                }
                Ok(CpuGroups::new(groups))
            }
        }
        deserializer.deserialize_any(Groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(lists: &[&str]) -> CpuGroups {
        CpuGroups::new(lists.iter().map(|list| list.parse().unwrap()))
    }

    #[test]
    fn of_groups_that_overlap_each_is_found() {
        let overlapping = groups(&["0-2", "2-3", "8"]);
        assert!(overlapping.share(Cpu(0), Cpu(2)) && overlapping.share(Cpu(3), Cpu(2)));
        assert!(!overlapping.share(Cpu(0), Cpu(3)) && !overlapping.share(Cpu(7), Cpu(7)));
        assert_eq!(overlapping.containing(Cpu(2)), Some(&"0-2".parse().unwrap()));
        assert_eq!((overlapping.overlap(), overlapping.len()), (Some(Cpu(2)), 3));
        assert_eq!(format!("{:?}", groups(&["1"])), "CpuGroups([CpuList([Cpu(1)])])");
    }

    #[test]
    fn a_group_straddles_where_it_lies_in_two_or_partly_in_one() {
        let outer = groups(&["0-3", "4-7"]);
        let straddling = |lists: &[&str]| groups(lists).straddling(&outer).cloned();
        assert_eq!(straddling(&["0-1", "2-3", "4", "9-10"]), None);
        assert_eq!(straddling(&["0-1", "3-4"]), Some("3-4".parse().unwrap()));
        assert_eq!(straddling(&["7-8"]), Some("7-8".parse().unwrap()));
        // Wholly in one, and partly in another that overlaps it.
        assert_eq!(
            groups(&["0-1"]).straddling(&groups(&["0-3", "1-2"])).map(CpuList::len),
            Some(2)
        );
    }
}
