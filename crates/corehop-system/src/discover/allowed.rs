// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPUs that this process may use, according to its affinity and its cpuset. The cpuset of any thread can be read
//! too.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use corehop_plan::platform::Fact;
use corehop_plan::units::CpuList;

use super::{DiscoverError, SysRoot};
use crate::proc::{self, Status};

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

/// The affinity of this process, or of the process whose files were copied.
fn affinity(root: &SysRoot) -> Result<Option<(CpuList, String)>, DiscoverError> {
    if root.is_live()
        && let Ok(mask) = crate::thread::affinity()
    {
        return Ok(Some((mask, "sched_getaffinity".to_owned())));
    }
    let path = "proc/self/status";
    let Some(status) = root.bytes(path).map(Status::new) else { return Ok(None) };
    let Some(text) = status.field("Cpus_allowed_list") else { return Ok(None) };
    let mask = proc::number(text).ok_or_else(|| root.unreadable(path, &proc::shown(text)))?;
    Ok(Some((mask, format!("/{path}"))))
}

/// Returns the CPUs that are online and in the cpuset of a thread on this host; `None` if the host does not show
/// them.
pub fn cpuset_of(tid: i32) -> Option<CpuList> {
    let found = cpuset(&SysRoot::live(), &tid.to_string()).ok()?;
    found.map(|(cpus, _)| cpus)
}

/// The cpuset of the process (given by its ID, or `self`), from the files of cgroup v2 or v1.
fn cpuset(root: &SysRoot, process: &str) -> Result<Option<(CpuList, String)>, DiscoverError> {
    let Some(groups) = root.bytes(format!("proc/{process}/cgroup")) else { return Ok(None) };
    for group in proc::groups(&groups) {
        let (mounts, file): (&[&str], _) = if group.is_unified() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "cpuset.cpus.effective")
        } else if group.has("cpuset") {
            (&["sys/fs/cgroup/cpuset", "sys/fs/cgroup/cpu,cpuset"], "cpuset.effective_cpus")
        } else {
            continue;
        };
        for mount in mounts {
            if let Some(found) = nearest(root, mount, group.below(), file)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The file of the group itself, or of the nearest ancestor that has the file. The controller may be off in some
/// groups, and a container sees its own group as the root.
fn nearest(
    root: &SysRoot,
    mount: &str,
    group: &Path,
    file: &str,
) -> Result<Option<(CpuList, String)>, DiscoverError> {
    let leads_out = |group: &Path| group.components().any(|part| part == Component::ParentDir);
    for group in group.ancestors().filter(|group| !leads_out(group)) {
        let path = Path::new(mount).join(group).join(file);
        if let Some(cpus) = root.parsed(&path)? {
            let place = proc::shown(path.as_os_str().as_bytes());
            return Ok(Some((cpus, format!("/{place}"))));
        }
    }
    Ok(None)
}
