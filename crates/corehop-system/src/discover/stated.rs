// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that share a cache, a core or a package, as stated separately for every CPU.
//!
//! Hypervisors show some guests contradictory groups. Such a grouping is marked, and changed so that CPUs with equal
//! statements stay together. The host can then still be used.

use std::collections::HashMap;

use corehop_plan::platform::{Check, CpuGroups};
use corehop_plan::units::{Cpu, CpuList};

use super::{DiscoverError, SysRoot};

/// The statements of the CPUs about one kind of group.
#[derive(Debug, Default)]
pub(super) struct GroupStatements {
    /// The stated groups, each once.
    groups: Vec<CpuList>,
    numbers: HashMap<CpuList, usize>,
    /// The group that a text names, stored once because 65,536 lists of 65,536 CPUs do not fit into memory.
    texts: HashMap<String, usize>,
    /// Each CPU with the number of the group that it states.
    of: Vec<(Cpu, usize)>,
    /// The file in which the first CPU stated its group; `None` if no CPU has one.
    place: Option<String>,
}

/// The groups derived from the statements.
pub(super) struct CpuGrouping {
    pub(super) groups: CpuGroups,
    /// Whether the statements contradict each other.
    pub(super) check: Check,
    /// The file in which the first CPU stated its group.
    pub(super) place: Option<String>,
}

impl GroupStatements {
    /// Reads the statement of `cpu` from the first existing file of `files`: a list of CPUs, or a mask if the name
    /// does not end in `list`. Returns whether a file existed.
    pub(super) fn read(
        &mut self,
        root: &SysRoot,
        cpu: Cpu,
        files: &[String],
        online: &CpuList,
    ) -> Result<bool, DiscoverError> {
        for file in files {
            let Some(text) = root.read(file).filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            let number = if let Some(&number) = self.texts.get(&text) {
                number
            } else {
                let is_list = file.ends_with("list");
                let group = if is_list { text.trim().parse().ok() } else { mask(&text) };
                let group = group.ok_or_else(|| root.unreadable(file, &text))?;
                let number = self.number(group.intersection(online));
                self.texts.insert(text, number);
                number
            };
            self.of.push((cpu, number));
            self.place.get_or_insert_with(|| file.clone());
            return Ok(true);
        }
        Ok(false)
    }

    /// Records that `cpu` states nothing, so that it does not share with other CPUs.
    pub(super) fn alone(&mut self, cpu: Cpu) {
        let number = self.number(CpuList::new([cpu]));
        self.of.push((cpu, number));
    }

    fn number(&mut self, group: CpuList) -> usize {
        let next = self.groups.len();
        let number = *self.numbers.entry(group.clone()).or_insert(next);
        if number == next {
            self.groups.push(group);
        }
        number
    }

    /// The groups, with each CPU in one of them.
    pub(super) fn settled(self) -> CpuGrouping {
        let stating: HashMap<Cpu, usize> = self.of.iter().copied().collect();
        let contradiction = self.contradiction(&stating);
        let groups = match contradiction {
            None => CpuGroups::new(self.groups),
            Some(_) => self.bent(),
        };
        let check = contradiction.map_or(Check::Unchecked, |why| Check::Contradicted { why });
        CpuGrouping { groups, check, place: self.place }
    }

    /// A CPU whose group contains a CPU that states another group or no group.
    fn contradiction(&self, stating: &HashMap<Cpu, usize>) -> Option<String> {
        for (number, group) in self.groups.iter().enumerate() {
            let by = self.of.iter().find(|&&(_, it)| it == number)?.0;
            let other = group.iter().find(|cpu| stating.get(cpu) != Some(&number));
            if let Some(other) = other {
                let says = match stating.get(&other).map(|&of| &self.groups[of]) {
                    Some(of) if of.is_empty() => "none that is online".to_owned(),
                    Some(of) => format!("CPUs {of}"),
                    None => "none".to_owned(),
                };
                return Some(format!("{by} states the group {group}, but {other} states {says}"));
            }
            if !group.contains(by) {
                return Some(format!("{by} states the group {group}, which does not contain {by}"));
            }
        }
        None
    }

    /// Groups the CPUs with equal statements; a CPU that omits itself from its group is alone.
    fn bent(&self) -> CpuGroups {
        let mut groups: Vec<Vec<Cpu>> = vec![Vec::new(); self.groups.len()];
        let mut alone = Vec::new();
        for &(cpu, number) in &self.of {
            if self.groups[number].contains(cpu) {
                groups[number].push(cpu);
            } else {
                alone.push(vec![cpu]);
            }
        }
        CpuGroups::new(groups.into_iter().chain(alone).map(CpuList::new))
    }
}

/// A set of CPUs in the kernel's mask format: words of 32 bits in hexadecimal digits, the highest CPUs first.
pub(super) fn mask(text: &str) -> Option<CpuList> {
    let mut cpus = Vec::new();
    for (place, word) in text.trim().rsplit(',').enumerate() {
        let is_word =
            (1..=8).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_hexdigit());
        let bits = u32::from_str_radix(word, 16).ok().filter(|_| is_word && place < 2_048)?;
        let first = 32 * place as u32;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| Cpu(first + bit)));
    }
    Some(CpuList::new(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_names_the_highest_cpus_first() {
        for (text, cpus) in
            [("0000000f", "0-3"), ("3", "0-1"), ("80000001,00000000\n", "32,63"), ("0", "")]
        {
            assert_eq!(mask(text), Some(cpus.parse().unwrap()), "{text}");
        }
        for text in ["", "0-3", "000000001", "ff,,ff", "+f"] {
            assert_eq!(mask(text), None, "{text}");
        }
    }
}
