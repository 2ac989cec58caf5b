// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers CPUs, packages and cores.

use std::collections::BTreeMap;

use corehop_plan::platform::{Check, CpuGroups, Fact};
use corehop_plan::units::{Cpu, CpuList};

use super::stated::GroupStatements;
use super::{DiscoverError, SysRoot};

/// The folder in which Linux lists its CPUs.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are present, and the CPUs that are online.
pub(super) fn cpus(root: &SysRoot) -> Result<(Fact<CpuList>, Fact<CpuList>), DiscoverError> {
    let mut present = None;
    for file in ["present", "possible"] {
        let list = root.parsed::<CpuList>(&format!("{CPUS}/{file}"))?;
        present = present.or(list.map(|cpus| Fact::cited(cpus, format!("/{CPUS}/{file}"))));
    }
    let mut present = present.unwrap_or_else(|| {
        let folders = root.numbered(CPUS, "cpu", "").into_iter().map(Cpu);
        Fact::cited(CpuList::new(folders), format!("/{CPUS}, its folders"))
    });
    if present.value.is_empty() {
        return Err(DiscoverError::NoCpus { root: root.path().to_owned() });
    }
    let Some(online) = root.parsed::<CpuList>(format!("{CPUS}/online"))? else {
        let online = Fact::assumed(present.value.clone(), "the kernel has no CPU hotplug");
        return Ok((present, online));
    };
    let absent = CpuList::new(online.iter().filter(|&cpu| !present.value.contains(cpu)));
    if !absent.is_empty() {
        // What runs is there.
        present.value = CpuList::new(present.value.iter().chain(absent.iter()));
        let why = format!("CPUs {absent} are online, but not among the present CPUs");
        present.check = Check::Contradicted { why };
    }
    Ok((present, Fact::cited(online, format!("/{CPUS}/online"))))
}

/// The packages; a single package if the kernel does not distinguish them.
pub(super) fn packages(root: &SysRoot, online: &CpuList) -> Result<Fact<CpuGroups>, DiscoverError> {
    let files = ["package_cpus_list", "core_siblings_list", "package_cpus", "core_siblings"];
    if let Some(groups) = listed(root, online, &files)? {
        return Ok(groups);
    }
    let mut by_id: BTreeMap<i64, Vec<Cpu>> = BTreeMap::new();
    for cpu in online.iter() {
        let id = root.parsed(format!("{CPUS}/cpu{}/topology/physical_package_id", cpu.0))?;
        by_id.entry(id.unwrap_or(-1)).or_default().push(cpu);
    }
    let known = by_id.keys().any(|&id| id >= 0);
    let groups = CpuGroups::new(by_id.into_values().map(CpuList::new));
    Ok(if known {
        Fact::cited(groups, format!("/{CPUS}/cpu*/topology/physical_package_id"))
    } else {
        Fact::assumed(groups, "the kernel reports no packages")
    })
}

/// The cores; one core per CPU if the kernel does not state them.
pub(super) fn cores(root: &SysRoot, online: &CpuList) -> Result<Fact<CpuGroups>, DiscoverError> {
    let files = ["core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"];
    Ok(listed(root, online, &files)?.unwrap_or_else(|| {
        let alone = online.iter().map(|cpu| CpuList::new([cpu]));
        Fact::assumed(CpuGroups::new(alone), "the kernel reports no cores")
    }))
}

/// The groups in every CPU's file, a list or a mask, from the first of `files` that exists for all CPUs.
fn listed(
    root: &SysRoot,
    online: &CpuList,
    files: &[&str],
) -> Result<Option<Fact<CpuGroups>>, DiscoverError> {
    'files: for file in files {
        let mut stated = GroupStatements::default();
        for cpu in online.iter() {
            let path = format!("{CPUS}/cpu{}/topology/{file}", cpu.0);
            if !stated.read(root, cpu, &[path], online)? {
                continue 'files;
            }
        }
        let settled = stated.settled();
        let mut groups = Fact::cited(settled.groups, format!("/{CPUS}/cpu*/topology/{file}"));
        groups.check = settled.check;
        return Ok(Some(groups));
    }
    Ok(None)
}

/// Marks `inner` as contradicted if one of its groups spans two groups of `outer`. Guests see contradictory topologies,
/// and the rest of the description is still useful.
pub(super) fn mark_straddling(inner: &mut Fact<CpuGroups>, outer: &CpuGroups) {
    if let Some(group) = inner.value.straddling(outer).filter(|_| !inner.is_contradicted()) {
        let why = format!("CPUs {group} belong to two groups of the level above");
        inner.check = Check::Contradicted { why };
    }
}
