// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that the control groups of this process leave for it. Beyond this limit the kernel kills the process,
//! whatever `/proc/meminfo` reports.

use std::path::{Path, PathBuf};

use corehop_plan::units::Bytes;

use corehop_system::proc;

/// The memory that the most restrictive group leaves; `None` if no group has a limit.
pub(crate) fn room() -> Option<Bytes> {
    folders(&proc::own_groups()).iter().filter_map(|folder| room_in(folder)).min().map(Bytes::new)
}

/// The folders of the groups with memory limits, and of the groups above them. A container may see its own group as
/// the root, so a missing folder counts as no limit.
fn folders(groups: &[u8]) -> Vec<PathBuf> {
    let limiting = proc::groups(groups).filter(|it| it.has("memory") || it.is_unified());
    limiting
        .flat_map(|group| {
            let first = group.has("memory");
            let root = if first { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
            group.below().ancestors().map(move |it| Path::new(root).join(it)).collect::<Vec<_>>()
        })
        .collect()
}

/// The limit of a group minus the memory that it cannot release. The group's page cache counts as releasable.
fn room_in(folder: &Path) -> Option<u64> {
    let number = |name: &str| proc::value::<u64>(folder.join(name));
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = proc::text(folder.join("memory.stat")).unwrap_or_default();
    let of = |names: [&str; 2]| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| names.contains(name)).and_then(|(_, value)| value.parse().ok())
    };
    let cache: u64 = of(["file", "total_cache"]).unwrap_or(0);
    let kept: u64 = of(["shmem", "total_shmem"]).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cache.saturating_sub(kept))))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_group_leaves_its_limit_less_what_it_cannot_give_back() {
        let stat = ("memory.stat", "anon 50\nfile 30\nshmem 10\n");
        let second = group(&[("memory.max", "100\n"), ("memory.current", "80\n"), stat]);
        assert_eq!(room_in(second.path()), Some(40));
        let stat = ("memory.stat", "cache 1\ntotal_cache 30\ntotal_shmem 10\n");
        let first =
            group(&[("memory.limit_in_bytes", "100"), ("memory.usage_in_bytes", "80"), stat]);
        assert_eq!(room_in(first.path()), Some(40));
        let none = group(&[("memory.max", "max\n"), ("memory.current", "80\n")]);
        assert_eq!(room_in(none.path()), None);
    }

    #[test]
    fn the_groups_above_count_too() {
        let groups = b"4:memory:/a/b\n3:cpuset:/c\n0::/d\n";
        let found = folders(groups);
        let paths = ["memory/a/b", "memory/a", "memory/", "d", ""];
        assert_eq!(found, paths.map(|path| Path::new("/sys/fs/cgroup").join(path)));
    }
}
