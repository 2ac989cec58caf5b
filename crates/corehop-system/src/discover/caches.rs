// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discovers caches: level, kind, size, ways, line size, and the CPUs that share them.

use std::collections::BTreeMap;

use corehop_plan::platform::{
    Cache, CacheKind, CacheMechanism, Check, CpuGroups, Fact, MOST_CACHE, MOST_LEVELS,
};
use corehop_plan::units::{Bytes, Cpu, CpuList};

use super::stated::GroupStatements;
use super::topology::{CPUS, mark_straddling as mark};
use super::{DiscoverError, SysRoot};

/// The properties of one of a CPU's caches. CPUs with equal properties have instances of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CacheShape {
    level: u32,
    kind: CacheKind,
    size: Option<Bytes>,
    ways: Option<u32>,
    line: Option<Bytes>,
    sets: Option<u64>,
}

/// The folder of the first CPU with a cache of this shape, and the CPUs that share its instances.
struct CacheFolder {
    folder: String,
    stated: GroupStatements,
    /// The reason why the description is doubtful: a CPU also states another cache at this position.
    doubt: Option<String>,
}

/// The caches of the online CPUs, innermost first. The list is empty if the kernel states no caches, as in some guests.
pub(super) fn caches(root: &SysRoot, online: &CpuList) -> Result<Vec<Cache>, DiscoverError> {
    let mut shapes: BTreeMap<CacheShape, CacheFolder> = BTreeMap::new();
    for cpu in online.iter() {
        let all = format!("{CPUS}/cpu{}/cache", cpu.0);
        let mut own: Vec<CacheShape> = Vec::new();
        for index in root.numbered(&all, "index", "") {
            let folder = format!("{all}/index{index}");
            let Some(shape) = shape(root, &folder)? else { continue };
            if let Some(kept) = own.iter().find(|it| it.excludes(&shape)) {
                let why =
                    format!("the kernel lists two level-{} data caches of {cpu}", shape.level);
                shapes.entry(*kept).and_modify(|it| it.doubt = Some(why));
                continue;
            }
            own.push(shape);
            let files = ["shared_cpu_list", "shared_cpu_map"].map(|it| format!("{folder}/{it}"));
            let fresh = || CacheFolder { folder, stated: GroupStatements::default(), doubt: None };
            let seen = shapes.entry(shape).or_insert_with(fresh);
            share(root, cpu, &files, online, &mut seen.stated)?;
        }
    }
    Ok(shapes.into_iter().map(|(shape, seen)| cache(shape, seen)).collect())
}

/// Records which CPUs share a cache with `cpu`, as its files state.
fn share(
    root: &SysRoot,
    cpu: Cpu,
    files: &[String],
    online: &CpuList,
    stated: &mut GroupStatements,
) -> Result<(), DiscoverError> {
    if !stated.read(root, cpu, files, online)? {
        stated.alone(cpu);
    }
    Ok(())
}

impl CacheShape {
    /// Whether no CPU can have both caches: two of one level and kind, or two of one level that hold data.
    fn excludes(&self, other: &Self) -> bool {
        let data = |it: &Self| it.kind != CacheKind::Instruction;
        self.level == other.level && (self.kind == other.kind || (data(self) && data(other)))
    }
}

/// The properties in a cache's folder; `None` if the level or a known kind is missing.
fn shape(root: &SysRoot, folder: &str) -> Result<Option<CacheShape>, DiscoverError> {
    let kind = match root.read(format!("{folder}/type")).as_deref() {
        Some("Data") => CacheKind::Data,
        Some("Instruction") => CacheKind::Instruction,
        Some("Unified") => CacheKind::Unified,
        _ => return Ok(None),
    };
    let Some(level) = root.parsed::<u32>(&format!("{folder}/level"))? else {
        return Ok(None);
    };
    if !(1..=MOST_LEVELS).contains(&level) {
        return Ok(None);
    }
    let size = root.parsed::<Bytes>(&format!("{folder}/size"))?;
    let line = root.parsed::<u64>(&format!("{folder}/coherency_line_size"))?;
    Ok(Some(CacheShape {
        level,
        kind,
        size: size.filter(|size| size.get() > 0),
        // The kernel writes 0 for what it does not know.
        ways: root.parsed(format!("{folder}/ways_of_associativity"))?.filter(|&ways| ways > 0),
        line: line.filter(|line| line.is_power_of_two()).map(Bytes::new),
        sets: root.parsed(format!("{folder}/number_of_sets"))?.filter(|&sets| sets > 0),
    }))
}

fn cache(shape: CacheShape, seen: CacheFolder) -> Cache {
    let place = |file: &str| format!("/{}/{file}", seen.folder);
    let settled = seen.stated.settled();
    let mut instances = match settled.place {
        Some(place) => Fact::cited(settled.groups, format!("/{place}")),
        None => {
            Fact::assumed(settled.groups, "the kernel does not report which CPUs share the cache")
        }
    };
    instances.check = seen.doubt.map_or(settled.check, |why| Check::Contradicted { why });
    let mut cache = Cache {
        level: shape.level,
        kind: shape.kind,
        size: shape.size.map(|size| Fact::cited(size, place("size"))),
        ways: shape.ways.map(|ways| Fact::cited(ways, place("ways_of_associativity"))),
        line: shape.line.map(|line| Fact::cited(line, place("coherency_line_size"))),
        sets: shape.sets.map(|sets| Fact::cited(sets, place("number_of_sets"))),
        instances,
        latency: None,
        effective: None,
        mechanism: CacheMechanism::default(),
    };
    mark_geometry(&mut cache);
    cache
}

/// Marks ways and sets as contradicted if they do not multiply to the size. Experiments use the size, and a
/// measurement can check the size. An impossible size is left out.
fn mark_geometry(cache: &mut Cache) {
    let Some(size) = cache.size.as_ref().map(|size| size.value) else { return };
    let why = if size > MOST_CACHE {
        cache.size = None;
        Some(format!(
            "the kernel reports a size of {size}, but no cache has more than {MOST_CACHE}"
        ))
    } else {
        misfit(cache, size)
    };
    let Some(why) = why else { return };
    let contradicted = Check::Contradicted { why };
    if let Some(ways) = &mut cache.ways {
        ways.check = contradicted.clone();
    }
    if let Some(sets) = &mut cache.sets {
        sets.check = contradicted;
    }
}

/// The reason why ways, line size and sets do not multiply to the size; `None` if they do, or if too few of these
/// numbers are stated.
fn misfit(cache: &Cache, size: Bytes) -> Option<String> {
    let (ways, line) = (cache.ways.as_ref()?.value, cache.line.as_ref()?.value.get());
    let set = u128::from(ways) * u128::from(line);
    let Some(sets) = &cache.sets else {
        let whole = u128::from(size.get()).is_multiple_of(set);
        return (!whole).then(|| format!("{size} is not a whole number of sets of {set} bytes"));
    };
    let product = set * u128::from(sets.value);
    let fits = product == u128::from(size.get());
    (!fits).then(|| format!("ways, line and sets make {product} bytes, but the size is {size}"))
}

/// Marks cache instances that span two packages. Each package has its own caches, but hypervisors that create a
/// package for every few CPUs still pass on the host's list.
pub(super) fn mark_spanning(caches: &mut [Cache], packages: &CpuGroups) {
    for cache in caches {
        let spans = cache.instances.value.straddling(packages);
        let Some(group) = spans.filter(|_| !cache.instances.is_contradicted()) else { continue };
        let of = packages.iter().filter(|it| !it.intersection(group).is_empty()).count();
        let why = format!("CPUs {group} are in {of} packages, but packages never share a cache");
        cache.instances.check = Check::Contradicted { why };
    }
}

/// Marks cache instances whose CPUs belong to different instances of an outer cache.
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
