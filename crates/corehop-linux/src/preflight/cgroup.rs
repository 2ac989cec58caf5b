// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that this process is in.

use super::host::Host;

/// The directory of the process's group for `controller`, and those of the groups above it,
/// innermost first: of version 1 where that controller has a hierarchy of its own, else of 2.
///
/// A container sees its own group as the root, so that the path it is told may not exist; the
/// groups above are there all the same.
pub(super) fn groups(host: &Host, controller: &str) -> Vec<String> {
    let text = host.text("proc/self/cgroup").unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let (own, unified): (Vec<_>, Vec<_>) = lines
        .filter(|(names, _)| names.is_empty() || names.split(',').any(|name| name == controller))
        .partition(|(names, _)| !names.is_empty());
    let first = own.first().map(|&(names, path)| (first_version(names, controller), path));
    let second = || unified.first().map(|&(_, path)| (second_version(), path));
    let Some((mounts, path)) = first.or_else(second) else { return Vec::new() };
    mounts.iter().flat_map(|mount| upwards(mount, path)).collect()
}

fn first_version(names: &str, controller: &str) -> Vec<String> {
    [controller, names].map(|name| format!("sys/fs/cgroup/{name}")).to_vec()
}

fn second_version() -> Vec<String> {
    ["sys/fs/cgroup", "sys/fs/cgroup/unified"].map(ToOwned::to_owned).to_vec()
}

/// `mount/a/b`, `mount/a`, `mount`.
fn upwards(mount: &str, path: &str) -> Vec<String> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    let above = |depth: usize| {
        let folders = std::iter::once(mount).chain(parts[..depth].iter().copied());
        folders.collect::<Vec<_>>().join("/")
    };
    (0..=parts.len()).rev().map(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_followed_by_those_above_it() {
        assert_eq!(upwards("m", "/a/b"), ["m/a/b", "m/a", "m"]);
        assert_eq!(upwards("m", "/"), ["m"]);
        assert_eq!(upwards("m", "/../x"), ["m/x", "m"]);
    }
}
