// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits of control groups on the CPU time of their threads: quotas of cgroup v1 and v2, and the v1 limits on
//! real-time threads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use corehop_plan::samples::GroupLimit;

use corehop_system::discover::SysRoot;
use corehop_system::proc::{self, CgroupEntry, ProcEntry, shown};

/// The folders of a process's group for `controller` and of the groups above it, innermost first, from the text of
/// its `cgroup` file: of version 1 if that controller has its own hierarchy, otherwise of version 2.
///
/// A container sees its own group as the root, so the group's own path in the text may not exist below the mount point,
/// but the folders of the groups above do exist.
pub(crate) fn folders(text: &[u8], controller: &str) -> Vec<PathBuf> {
    let root = Path::new("sys/fs/cgroup");
    let own = proc::groups(text).find(|it| !it.is_unified() && it.has(controller));
    let unified = || proc::groups(text).find(CgroupEntry::is_unified);
    let Some(group) = own.or_else(unified) else { return Vec::new() };
    let mut mounts = if group.is_unified() {
        vec![root.to_owned(), root.join("unified")]
    } else {
        vec![root.join(controller), root.join(OsStr::from_bytes(group.controllers))]
    };
    mounts.dedup();
    mounts.iter().flat_map(|mount| upwards(mount, group.path)).collect()
}

/// The paths `mount/a/b`, `mount/a`, `mount`.
fn upwards(mount: &Path, path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|it| matches!(it, Component::Normal(_)));
    mount
        .join(parts.collect::<PathBuf>())
        .ancestors()
        .map(Path::to_owned)
        .take_while(|it| it.starts_with(mount))
        .collect()
}

/// The limits of a process's groups, innermost first, from the text of its `cgroup` file. The counts in these limits
/// start when the groups were created.
pub(crate) fn of_groups(root: &SysRoot, text: &[u8]) -> Vec<GroupLimit> {
    let folders = folders(text, "cpu");
    let outermost = folders.last().cloned();
    let realtime = |folder: &PathBuf| {
        // The limit of the root is that of the whole host.
        (Some(folder) != outermost.as_ref()).then(|| of_realtime(root, folder)).flatten()
    };
    let of = |folder: &PathBuf| quota(root, folder).into_iter().chain(realtime(folder));
    folders.iter().flat_map(of).collect()
}

/// The quota of a group; `None` if the group has no quota.
fn quota(root: &SysRoot, folder: &Path) -> Option<GroupLimit> {
    let number = |name: &str| root.read(folder.join(name))?.trim().parse::<i64>().ok();
    let (file, runtime, period) = match root.read(folder.join("cpu.max")) {
        Some(text) => {
            let mut words = text.split_whitespace().map(str::parse);
            ("cpu.max", words.next()?.ok()?, words.next()?.ok()?)
        }
        None => ("cpu.cfs_quota_us", number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    let stat = root.read(folder.join("cpu.stat")).unwrap_or_default();
    let counted = |key: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == key)?.1.trim().parse::<u64>().ok()
    };
    let from_us = || counted("throttled_usec").map(|us| us.saturating_mul(1_000));
    Some(GroupLimit {
        file: shown(folder.join(file).as_os_str().as_bytes()),
        runtime_us: u64::try_from(runtime).ok().filter(|&us| us > 0)?,
        period_us: u64::try_from(period).ok()?,
        realtime: false,
        throttled: counted("nr_throttled"),
        throttled_ns: counted("throttled_time").or_else(from_us),
    })
}

/// The limit of a version 1 group on its real-time threads; `None` if the group allows no real-time threads or all of
/// the time.
fn of_realtime(root: &SysRoot, folder: &Path) -> Option<GroupLimit> {
    let number = |name: &str| root.read(folder.join(name))?.trim().parse::<u64>().ok();
    let (runtime_us, period_us) = (number("cpu.rt_runtime_us")?, number("cpu.rt_period_us")?);
    (0 < runtime_us && runtime_us < period_us).then(|| GroupLimit {
        file: shown(folder.join("cpu.rt_runtime_us").as_os_str().as_bytes()),
        runtime_us,
        period_us,
        realtime: true,
        throttled: None,
        throttled_ns: None,
    })
}

/// The limits of some processes' groups over a time; their counts start at the first look.
#[derive(Debug, Default)]
pub(crate) struct LimitsOver {
    texts: HashSet<Vec<u8>>,
    /// The limits as first seen, and as last seen.
    seen: Vec<[GroupLimit; 2]>,
}

impl LimitsOver {
    /// Reads the groups of these processes, and the groups of earlier processes again.
    pub(crate) fn look(&mut self, pids: impl Iterator<Item = u32>) {
        self.texts.extend(pids.filter_map(|pid| ProcEntry::process(pid).bytes("cgroup").ok()));
        let root = SysRoot::live();
        for now in self.texts.iter().flat_map(|text| of_groups(&root, text)) {
            match self.seen.iter_mut().find(|[first, _]| first.file == now.file) {
                Some([_, last]) => *last = now,
                None => self.seen.push([now.clone(), now]),
            }
        }
    }

    /// The limits so far; `None` if no group was read.
    pub(crate) fn so_far(&self) -> Option<Vec<GroupLimit>> {
        let since = |first: Option<u64>, last: Option<u64>| {
            first.zip(last).map(|(first, last)| last.saturating_sub(first))
        };
        let of = |[first, last]: &[GroupLimit; 2]| GroupLimit {
            throttled: since(first.throttled, last.throttled),
            throttled_ns: since(first.throttled_ns, last.throttled_ns),
            ..last.clone()
        };
        (!self.texts.is_empty()).then(|| self.seen.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_group_is_followed_by_those_above_it() {
        let upwards = |path: &str| upwards(Path::new("m"), Path::new(path));
        assert_eq!(upwards("/a/b"), ["m/a/b", "m/a", "m"].map(PathBuf::from));
        assert_eq!(upwards("/"), ["m"].map(PathBuf::from));
        assert_eq!(upwards("/../x"), ["m/x", "m"].map(PathBuf::from));
    }

    /// The limits of the group `/a/b` on a host with these files.
    fn limits(cgroup: &str, files: &[(&str, &str)]) -> Vec<GroupLimit> {
        let host = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = host.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        of_groups(&SysRoot::at(host.path()), cgroup.as_bytes())
    }

    #[test]
    fn quotas_of_a_group_and_of_those_above_are_found_in_both_versions() {
        let second = limits(
            "0::/a/b\n",
            &[
                ("a/b/cpu.max", "max 100000\n"),
                ("a/cpu.max", "20000 100000\n"),
                ("a/cpu.stat", "usage_usec 9\nnr_periods 7\nnr_throttled 5\nthrottled_usec 400\n"),
            ],
        );
        let [it] = &second[..] else { panic!("{second:?}") };
        assert_eq!((it.file.as_str(), it.realtime), ("sys/fs/cgroup/a/cpu.max", false));
        assert_eq!((it.runtime_us, it.period_us), (20_000, 100_000));
        assert_eq!((it.throttled, it.throttled_ns), (Some(5), Some(400_000)));
        let first = limits(
            "4:cpu,cpuacct:/a/b\n0::/x\n",
            &[
                ("cpu,cpuacct/a/b/cpu.cfs_quota_us", "50000\n"),
                ("cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n"),
                ("cpu,cpuacct/a/b/cpu.stat", "nr_periods 7\nnr_throttled 1\nthrottled_time 12\n"),
                ("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
                ("cpu,cpuacct/a/cpu.rt_runtime_us", "10000\n"),
                ("cpu,cpuacct/a/cpu.rt_period_us", "1000000\n"),
                ("cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
                ("cpu,cpuacct/cpu.rt_period_us", "1000000\n"),
            ],
        );
        let [own, above] = &first[..] else { panic!("{first:?}") };
        assert_eq!((own.runtime_us, own.throttled, own.throttled_ns), (50_000, Some(1), Some(12)));
        assert_eq!((above.realtime, above.runtime_us, above.period_us), (true, 10_000, 1_000_000));
    }

    #[test]
    fn counts_over_a_time_are_those_since_its_begin() {
        let own = std::process::id();
        let mut over = LimitsOver::default();
        assert_eq!(over.so_far(), None, "nothing was looked at");
        over.look(std::iter::once(own));
        over.look(std::iter::once(own));
        let quotas = over.so_far().unwrap_or_default();
        assert!(quotas.iter().all(|it| it.period_us > 0), "{quotas:?}");
    }
}
