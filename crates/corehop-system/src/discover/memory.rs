// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers NUMA nodes and page sizes.

use corehop_plan::platform::{Check, Fact, Node, PageSizes};
use corehop_plan::units::{Bytes, CpuList};

use super::stated::mask;
use super::{DiscoverError, SysRoot};

const NODES: &str = "sys/devices/system/node";

/// The NUMA nodes; a single node with every CPU if the kernel knows none.
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
    let nodes = ids.into_iter().map(|id| node(root, id, present));
    let mut nodes = nodes.collect::<Result<Vec<Node>, _>>()?;
    mark_overlaps(&mut nodes);
    mark_distances(&mut nodes);
    Ok(nodes)
}

/// Leaves a CPU that two nodes list in the first node, and marks the second.
fn mark_overlaps(nodes: &mut [Node]) {
    for place in 1..nodes.len() {
        let (earlier, later) = nodes.split_at_mut(place);
        let node = &mut later[0];
        for other in earlier {
            let both = other.cpus.value.intersection(&node.cpus.value);
            if !both.is_empty() {
                let left = node.cpus.value.iter().filter(|&cpu| !both.contains(cpu));
                node.cpus.value = CpuList::new(left);
                let why = format!(
                    "CPUs {both} are also in node {}, and corehop keeps them only there",
                    other.id
                );
                node.cpus.check = Check::Contradicted { why };
            }
        }
    }
}

/// The distance from a node to itself, and the largest distance that firmware can state (ACPI 6.5, section 5.2.17: a
/// byte, where 255 means that a node is unreachable).
const OWN_DISTANCE: u32 = 10;
const MOST_DISTANCE: u32 = 255;

/// Marks impossible distances: a node that states a wrong number of distances, or a node that is nearer than the node
/// itself. The distance in the opposite direction may differ (ACPI 6.5, section 5.2.17).
fn mark_distances(nodes: &mut [Node]) {
    let count = nodes.len();
    for (place, node) in nodes.iter_mut().enumerate() {
        let Some(fact) = &mut node.distances else { continue };
        if let Some(why) = odd_distances(&fact.value, place, count) {
            fact.check = Check::Contradicted { why };
        }
    }
}

/// The reason why the distances from the node at this index to `count` nodes are impossible.
fn odd_distances(row: &[u32], from: usize, count: usize) -> Option<String> {
    if row.len() != count {
        return Some(format!("{} distances for {count} nodes", row.len()));
    }
    let others = row.iter().enumerate().filter(|&(to, _)| to != from);
    let mut odd = others.filter(|(_, there)| !(OWN_DISTANCE + 1..=MOST_DISTANCE).contains(there));
    if row[from] != OWN_DISTANCE {
        let own = row[from];
        return Some(format!("a node's distance to itself is {OWN_DISTANCE}, not {own}"));
    }
    odd.next().map(|(_, there)| format!("no other node is at the distance {there}"))
}

fn node(root: &SysRoot, id: u32, present: &CpuList) -> Result<Node, DiscoverError> {
    let path = |file: &str| format!("{NODES}/node{id}/{file}");
    let cpus = cpus(root, &path("cpulist"), &path("cpumap"), present)?;
    let distances = match root.read(path("distance")) {
        None => None,
        Some(text) => {
            let number =
                |text: &str| text.parse().map(|it: u64| u32::try_from(it).unwrap_or(u32::MAX));
            let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(number).collect();
            let numbers = numbers.map_err(|_| root.unreadable(path("distance"), &text))?;
            Some(Fact::cited(numbers, format!("/{}", path("distance"))))
        }
    };
    Ok(Node { id, cpus, memory: total(root, &path("meminfo"))?, distances })
}

/// The CPUs of a node, from its list or its mask.
fn cpus(
    root: &SysRoot,
    list: &str,
    map: &str,
    present: &CpuList,
) -> Result<Fact<CpuList>, DiscoverError> {
    let cited =
        |cpus: CpuList, file: &str| Fact::cited(cpus.intersection(present), format!("/{file}"));
    // The list of a node without CPUs is an empty file.
    if let Some(text) = root.read(list) {
        let cpus = text.trim().parse().map_err(|_| root.unreadable(list, &text))?;
        return Ok(cited(cpus, list));
    }
    match root.read(map) {
        Some(text) => Ok(cited(mask(&text).ok_or_else(|| root.unreadable(map, &text))?, map)),
        None => Ok(Fact::assumed(CpuList::default(), "the kernel reports no CPUs for the node")),
    }
}

/// The line `MemTotal: N kB` of a file like `/proc/meminfo`.
fn total(root: &SysRoot, path: &str) -> Result<Option<Fact<Bytes>>, DiscoverError> {
    let Some(text) = root.read(path) else { return Ok(None) };
    kib_after(&text, "MemTotal:")
        .map(|size| Some(Fact::cited(size, format!("/{path}"))))
        .ok_or_else(|| root.unreadable(path, &text))
}

/// The number of kB after `key`.
fn kib_after(text: &str, key: &str) -> Option<Bytes> {
    let (_, rest) = text.split_once(key)?;
    rest.split_whitespace().next()?.parse().ok().map(Bytes::from_kib)
}

/// The page sizes: base pages, huge pages on request, and when the kernel uses huge pages on its own.
pub(super) fn pages(root: &SysRoot) -> Result<PageSizes, DiscoverError> {
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
    Ok(PageSizes {
        backing: None,
        base: base.map(|size| Fact::cited(size, format!("/{smaps}"))),
        huge: (!huge.is_empty()).then(|| Fact::cited(huge, format!("/{folder}"))),
        transparent: transparent.map(|word| Fact::cited(word, format!("/{setting}"))),
    })
}
