// SPDX-License-Identifier: MIT OR Apache-2.0
//! NUMA nodes and page sizes.

use corehop_core::platform::{Fact, Node, Pages};
use corehop_core::units::{Bytes, CpuList};

use super::{DiscoverError, SysRoot};

const NODES: &str = "sys/devices/system/node";

/// The nodes; a single one with every CPU where the kernel knows none.
pub(super) fn nodes(root: &SysRoot, present: &CpuList) -> Result<Vec<Node>, DiscoverError> {
    let ids = root.numbered(NODES, "node", "");
    if ids.is_empty() {
        return Ok(vec![Node {
            id: 0,
            cpus: Fact::assumed(present.clone(), "the kernel has no NUMA"),
            memory: total(root, "proc/meminfo")?,
            distances: None,
        }]);
    }
    ids.into_iter().map(|id| node(root, id, present)).collect()
}

fn node(root: &SysRoot, id: u32, present: &CpuList) -> Result<Node, DiscoverError> {
    let path = |file: &str| format!("{NODES}/node{id}/{file}");
    let cpus = root.parsed::<CpuList>(&path("cpulist"))?.unwrap_or_default();
    let distances = match root.read(path("distance")) {
        None => None,
        Some(text) => {
            let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
            let numbers = numbers.map_err(|_| root.unreadable(path("distance"), &text))?;
            Some(Fact::cited(numbers, format!("/{}", path("distance"))))
        }
    };
    Ok(Node {
        id,
        cpus: Fact::cited(cpus.intersection(present), format!("/{}", path("cpulist"))),
        memory: total(root, &path("meminfo"))?,
        distances,
    })
}

/// The line `MemTotal: N kB` of a file like `/proc/meminfo`.
fn total(root: &SysRoot, path: &str) -> Result<Option<Fact<Bytes>>, DiscoverError> {
    let Some(text) = root.read(path) else { return Ok(None) };
    kib_after(&text, "MemTotal:")
        .map(|size| Some(Fact::cited(size, format!("/{path}"))))
        .ok_or_else(|| root.unreadable(path, &text))
}

/// The number of kB that stands after `key`.
fn kib_after(text: &str, key: &str) -> Option<Bytes> {
    let (_, rest) = text.split_once(key)?;
    rest.split_whitespace().next()?.parse().ok().map(Bytes::from_kib)
}

/// The page sizes: ordinary, huge on request, and when huge unasked.
pub(super) fn pages(root: &SysRoot) -> Result<Pages, DiscoverError> {
    // The first mapping of the process is enough, and the file is made as it is read.
    let smaps = "proc/self/smaps";
    let base = root.head(smaps, 4096).and_then(|text| kib_after(&text, "KernelPageSize:"));
    let folder = "sys/kernel/mm/hugepages";
    let huge = root.numbered(folder, "hugepages-", "kB").into_iter();
    let huge: Vec<_> = huge.map(|kib| Bytes::from_kib(u64::from(kib))).collect();
    let setting = "sys/kernel/mm/transparent_hugepage/enabled";
    let transparent = match root.read(setting) {
        None => None,
        Some(text) => {
            let chosen = text.split(['[', ']']).nth(1).map(ToOwned::to_owned);
            Some(chosen.ok_or_else(|| root.unreadable(setting, &text))?)
        }
    };
    Ok(Pages {
        backing: None,
        base: base.map(|size| Fact::cited(size, format!("/{smaps}"))),
        huge: (!huge.is_empty()).then(|| Fact::cited(huge, format!("/{folder}"))),
        transparent: transparent.map(|word| Fact::cited(word, format!("/{setting}"))),
    })
}
