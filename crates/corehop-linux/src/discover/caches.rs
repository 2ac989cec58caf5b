// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches: level, kind, size, ways, line, and who shares them.

use std::collections::{BTreeMap, HashSet};

use corehop_core::platform::{Cache, CacheKind, Check, CpuGroups, Fact, Mechanism};
use corehop_core::units::{Bytes, CpuList};

use super::root::Listed;
use super::topology::{CPUS, mark_straddling as mark};
use super::{DiscoverError, SysRoot};

/// The properties of one of a CPU's caches; equal ones are instances of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    level: u32,
    kind: CacheKind,
    size: Option<Bytes>,
    ways: Option<u32>,
    line: Option<Bytes>,
    sets: Option<u64>,
}

/// A file of the first CPU that has a cache of this shape, and its instances.
struct Seen {
    folder: String,
    instances: Vec<CpuList>,
    /// The texts of the instances.
    known: HashSet<String>,
}

/// The caches of the CPUs that are online, innermost first. Empty where the kernel tells of none,
/// as in some guests.
pub(super) fn caches(root: &SysRoot, online: &CpuList) -> Result<Vec<Cache>, DiscoverError> {
    let mut shapes: BTreeMap<Shape, Seen> = BTreeMap::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{}/cache", cpu.0);
        for index in root.numbered(&folder, "index", "") {
            let folder = format!("{folder}/index{index}");
            let Some(shape) = shape(root, &folder)? else { continue };
            let shared = format!("{folder}/shared_cpu_list");
            let fresh = || Seen { folder, instances: Vec::new(), known: HashSet::new() };
            let seen = shapes.entry(shape).or_insert_with(fresh);
            match root.new_list(&shared, &mut seen.known)? {
                Listed::None => seen.instances.push(CpuList::new([cpu])),
                Listed::Known => {}
                Listed::New(shared) => seen.instances.push(shared.intersection(online)),
            }
        }
    }
    Ok(shapes.into_iter().map(|(shape, seen)| cache(shape, seen)).collect())
}

/// The properties in a cache's folder; None if it lacks a level or a known kind.
fn shape(root: &SysRoot, folder: &str) -> Result<Option<Shape>, DiscoverError> {
    let kind = match root.read(format!("{folder}/type")).as_deref() {
        Some("Data") => CacheKind::Data,
        Some("Instruction") => CacheKind::Instruction,
        Some("Unified") => CacheKind::Unified,
        _ => return Ok(None),
    };
    let Some(level) = root.parsed::<u32>(&format!("{folder}/level"))?.filter(|&level| level > 0)
    else {
        return Ok(None);
    };
    let size = root.parsed::<Bytes>(&format!("{folder}/size"))?;
    let line = root.parsed::<u64>(&format!("{folder}/coherency_line_size"))?;
    Ok(Some(Shape {
        level,
        kind,
        size: size.filter(|size| size.get() > 0),
        // The kernel writes 0 for what it does not know.
        ways: root.parsed(format!("{folder}/ways_of_associativity"))?.filter(|&ways| ways > 0),
        line: line.filter(|line| line.is_power_of_two()).map(Bytes::new),
        sets: root.parsed(format!("{folder}/number_of_sets"))?.filter(|&sets| sets > 0),
    }))
}

fn cache(shape: Shape, seen: Seen) -> Cache {
    let place = |file: &str| format!("/{}/{file}", seen.folder);
    let mut cache = Cache {
        level: shape.level,
        kind: shape.kind,
        size: shape.size.map(|size| Fact::cited(size, place("size"))),
        ways: shape.ways.map(|ways| Fact::cited(ways, place("ways_of_associativity"))),
        line: shape.line.map(|line| Fact::cited(line, place("coherency_line_size"))),
        sets: shape.sets.map(|sets| Fact::cited(sets, place("number_of_sets"))),
        instances: Fact::cited(CpuGroups::new(seen.instances), place("shared_cpu_list")),
        latency: None,
        effective: None,
        mechanism: Mechanism::default(),
    };
    mark_geometry(&mut cache);
    cache
}

/// Marks ways and sets as contradicted where they do not make up the size: the size is what
/// experiments go by, and what a measurement can check.
fn mark_geometry(cache: &mut Cache) {
    let (Some(size), Some(ways), Some(line), Some(sets)) =
        (&cache.size, &mut cache.ways, &cache.line, &mut cache.sets)
    else {
        return;
    };
    let product = u128::from(ways.value) * u128::from(line.value.get()) * u128::from(sets.value);
    if product != u128::from(size.value.get()) {
        let why =
            format!("ways, line and sets make {product} bytes, and the size is {}", size.value);
        ways.check = Check::Contradicted { why: why.clone() };
        sets.check = Check::Contradicted { why };
    }
}

/// Marks the instances of a cache that the caches further out tear apart.
pub(super) fn mark_straddling(caches: &mut [Cache]) {
    for inner in 0..caches.len() {
        let level = caches[inner].level;
        let outer = caches.iter().filter(|cache| cache.level > level && cache.holds_data());
        let outer: Vec<CpuGroups> = outer.map(|cache| cache.instances.value.clone()).collect();
        for groups in outer {
            mark(&mut caches[inner].instances, &groups);
        }
    }
}
