// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that this process may run on: its affinity, and the cpuset that it is in. The cpuset of any thread.

use corehop_core::platform::Fact;
use corehop_core::units::CpuList;

use super::{DiscoverError, SysRoot};

/// The CPUs of `present` that both the affinity and the cpuset allow.
pub(super) fn allowed(root: &SysRoot, present: &CpuList) -> Result<Fact<CpuList>, DiscoverError> {
    let mut cpus = present.clone();
    let mut places = Vec::new();
    if let Some((mask, place)) = affinity(root)? {
        cpus = cpus.intersection(&mask);
        places.push(place);
    }
    if let Some((set, place)) = cpuset(root, "self")? {
        cpus = cpus.intersection(&set);
        places.push(place);
    }
    if places.is_empty() {
        return Ok(Fact::assumed(cpus, "neither an affinity nor a cpuset was found"));
    }
    Ok(Fact::cited(cpus, places.join(" and ")))
}

/// The affinity of this process, or of the one whose files were copied.
fn affinity(root: &SysRoot) -> Result<Option<(CpuList, String)>, DiscoverError> {
    if root.is_live()
        && let Ok(mask) = crate::thread::affinity()
    {
        return Ok(Some((mask, "sched_getaffinity".to_owned())));
    }
    let path = "proc/self/status";
    let Some(status) = root.read(path) else { return Ok(None) };
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let Some(text) = line else { return Ok(None) };
    let mask = text.trim().parse().map_err(|_| root.unreadable(path, text))?;
    Ok(Some((mask, format!("/{path}"))))
}

/// The CPUs that are online and in the cpuset of a thread of this host; None where the host does not tell.
pub(crate) fn cpuset_of(tid: i32) -> Option<CpuList> {
    let found = cpuset(&SysRoot::live(), &tid.to_string()).ok()?;
    found.map(|(cpus, _)| cpus)
}

/// The cpuset that the process (its number, or `self`) is in, by the files of cgroup v2 or v1.
fn cpuset(root: &SysRoot, process: &str) -> Result<Option<(CpuList, String)>, DiscoverError> {
    let Some(groups) = root.read(&format!("proc/{process}/cgroup")) else { return Ok(None) };
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mounts, file): (&[&str], _) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "cpuset.cpus.effective")
        } else if controllers.split(',').any(|name| name == "cpuset") {
            (&["sys/fs/cgroup/cpuset", "sys/fs/cgroup/cpu,cpuset"], "cpuset.effective_cpus")
        } else {
            continue;
        };
        for mount in mounts {
            if let Some(found) = nearest(root, mount, path, file)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The file of the group itself, or of the nearest one above that has it: the controller need not
/// be on in each, and a container sees its own group as the root.
fn nearest(
    root: &SysRoot,
    mount: &str,
    group: &str,
    file: &str,
) -> Result<Option<(CpuList, String)>, DiscoverError> {
    let mut group = group.trim_matches('/');
    loop {
        let path = if group.is_empty() {
            format!("{mount}/{file}")
        } else {
            format!("{mount}/{group}/{file}")
        };
        if !group.split('/').any(|part| part == "..")
            && let Some(cpus) = root.parsed(&path)?
        {
            return Ok(Some((cpus, format!("/{path}"))));
        }
        if group.is_empty() {
            return Ok(None);
        }
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
    }
}
