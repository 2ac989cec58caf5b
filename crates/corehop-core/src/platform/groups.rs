// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that belong together: the packages of a machine, the instances of one of its caches.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Cpu, CpuList};

/// Groups of CPUs, ordered by their first CPU.
///
/// Written as a list of CPU lists, or, where the groups are regular, as `"0-23 by 2"` (pairs of
/// neighbours: 0-1, 2-3, …) or `"0-23 by 2 stride 12"` (0 with 12, 1 with 13, …: how Linux
/// numbers SMT siblings).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuGroups(Vec<CpuList>);

impl CpuGroups {
    /// These groups; empty ones and repetitions are left out.
    pub fn new(groups: impl IntoIterator<Item = CpuList>) -> Self {
        let mut groups: Vec<_> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        groups.sort_unstable();
        groups.dedup();
        Self(groups)
    }
    /// `cpus` in groups of `size`: the n-th CPU is with the ones `stride` places further on.
    ///
    /// Nothing where the CPUs do not come out even.
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
    /// The groups, by their first CPU.
    pub fn iter(&self) -> std::slice::Iter<'_, CpuList> {
        self.0.iter()
    }
    /// The number of groups.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The group that `cpu` is in (the first, should groups overlap).
    pub fn containing(&self, cpu: Cpu) -> Option<&CpuList> {
        self.iter().find(|group| group.contains(cpu))
    }
    /// Whether one group holds both.
    pub fn share(&self, a: Cpu, b: Cpu) -> bool {
        self.iter().any(|group| group.contains(a) && group.contains(b))
    }
    /// Every CPU that is in some group.
    pub fn cpus(&self) -> CpuList {
        CpuList::new(self.iter().flat_map(CpuList::iter))
    }
    /// A CPU that is in two groups, if any is.
    pub fn overlap(&self) -> Option<Cpu> {
        let mut all: Vec<_> = self.iter().flat_map(CpuList::iter).collect();
        all.sort_unstable();
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
    /// The first group that reaches into two groups of `outer`, or lies only partly in one.
    pub fn straddling(&self, outer: &Self) -> Option<&CpuList> {
        self.iter().find(|group| {
            let shared = outer.iter().map(|other| other.intersection(group).len());
            shared.into_iter().any(|shared| shared > 0 && shared < group.len())
        })
    }
    /// The short form, where the groups are regular.
    fn pattern(&self) -> Option<String> {
        let size = self.0.first()?.len();
        let cpus = self.cpus();
        let regular = |stride| Self::regular(&cpus, size, stride).as_ref() == Some(self);
        if regular(1) {
            return Some(format!("{cpus} by {size}"));
        }
        let stride = (2..=self.len()).find(|&stride| regular(stride))?;
        Some(format!("{cpus} by {size} stride {stride}"))
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

/// Why a text does not name groups of CPUs.
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
