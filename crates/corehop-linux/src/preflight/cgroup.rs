// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that this process is in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::host::Host;
use crate::proc::{self, Group};

/// The directory of the process's group for `controller`, and those of the groups above it,
/// innermost first: of version 1 where that controller has a hierarchy of its own, else of 2.
///
/// A container sees its own group as the root, so that the path it is told may not exist; the
/// groups above are there all the same.
pub(super) fn groups(host: &Host, controller: &str) -> Vec<PathBuf> {
    let text = host.bytes("proc/self/cgroup").unwrap_or_default();
    let root = Path::new("sys/fs/cgroup");
    let own = proc::groups(&text).find(|it| !it.is_unified() && it.has(controller));
    let unified = || proc::groups(&text).find(Group::is_unified);
    let Some(group) = own.or_else(unified) else { return Vec::new() };
    let mounts = if group.is_unified() {
        [root.to_owned(), root.join("unified")]
    } else {
        [root.join(controller), root.join(OsStr::from_bytes(group.controllers))]
    };
    mounts.iter().flat_map(|mount| upwards(mount, group.path)).collect()
}

/// `mount/a/b`, `mount/a`, `mount`.
fn upwards(mount: &Path, path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|it| matches!(it, Component::Normal(_)));
    mount
        .join(parts.collect::<PathBuf>())
        .ancestors()
        .map(Path::to_owned)
        .take_while(|it| it.starts_with(mount))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_followed_by_those_above_it() {
        let upwards = |path: &str| upwards(Path::new("m"), Path::new(path));
        assert_eq!(upwards("/a/b"), ["m/a/b", "m/a", "m"].map(PathBuf::from));
        assert_eq!(upwards("/"), ["m"].map(PathBuf::from));
        assert_eq!(upwards("/../x"), ["m/x", "m"].map(PathBuf::from));
    }
}
