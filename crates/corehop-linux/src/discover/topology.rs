// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs, packages and cores.

use std::collections::{BTreeMap, HashSet};

use corehop_core::platform::{Check, CpuGroups, Fact};
use corehop_core::units::{Cpu, CpuList};

use super::root::Listed;
use super::{DiscoverError, SysRoot};

/// The folder in which Linux lists its CPUs.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The CPUs that are present, and those that are online.
pub(super) fn cpus(root: &SysRoot) -> Result<(Fact<CpuList>, Fact<CpuList>), DiscoverError> {
    let mut present = None;
    for file in ["present", "possible"] {
        let list = root.parsed::<CpuList>(&format!("{CPUS}/{file}"))?;
        present = present.or(list.map(|cpus| Fact::cited(cpus, format!("/{CPUS}/{file}"))));
    }
    let present = present.unwrap_or_else(|| {
        let folders = root.numbered(CPUS, "cpu", "").into_iter().map(Cpu);
        Fact::cited(CpuList::new(folders), format!("/{CPUS}, its folders"))
    });
    if present.value.is_empty() {
        return Err(DiscoverError::NoCpus { root: root.path().to_owned() });
    }
    let online = match root.parsed::<CpuList>(&format!("{CPUS}/online"))? {
        Some(online) => Fact::cited(online.intersection(&present.value), format!("/{CPUS}/online")),
        None => Fact::assumed(present.value.clone(), "the kernel has no CPU hotplug"),
    };
    Ok((present, online))
}

/// The packages; one, where the kernel does not tell them apart.
pub(super) fn packages(root: &SysRoot, online: &CpuList) -> Result<Fact<CpuGroups>, DiscoverError> {
    let files = ["package_cpus_list", "core_siblings_list"];
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
        Fact::assumed(groups, "the kernel tells of no packages")
    })
}

/// The cores; every CPU its own, where the kernel does not tell.
pub(super) fn cores(root: &SysRoot, online: &CpuList) -> Result<Fact<CpuGroups>, DiscoverError> {
    let files = ["core_cpus_list", "thread_siblings_list"];
    Ok(listed(root, online, &files)?.unwrap_or_else(|| {
        let alone = online.iter().map(|cpu| CpuList::new([cpu]));
        Fact::assumed(CpuGroups::new(alone), "the kernel tells of no cores")
    }))
}

/// The groups that every CPU's file states, from the first of `files` that all of them have.
fn listed(
    root: &SysRoot,
    online: &CpuList,
    files: &[&str],
) -> Result<Option<Fact<CpuGroups>>, DiscoverError> {
    'files: for file in files {
        let (mut groups, mut known) = (Vec::new(), HashSet::new());
        for cpu in online.iter() {
            let path = format!("{CPUS}/cpu{}/topology/{file}", cpu.0);
            match root.new_list(&path, &mut known)? {
                Listed::None => continue 'files,
                Listed::Known => {}
                Listed::New(group) => groups.push(group.intersection(online)),
            }
        }
        let place = format!("/{CPUS}/cpu*/topology/{file}");
        return Ok(Some(Fact::cited(CpuGroups::new(groups), place)));
    }
    Ok(None)
}

/// Marks `inner` as contradicted where one of its groups reaches into two of `outer`: guests are
/// told such things, and the rest of the description is still of use.
pub(super) fn mark_straddling(inner: &mut Fact<CpuGroups>, outer: &CpuGroups) {
    if let Some(group) = inner.value.straddling(outer) {
        let why = format!("CPUs {group} belong to two groups of the level above");
        inner.check = Check::Contradicted { why };
    }
}
