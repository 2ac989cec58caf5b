// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the facts about a machine agree with each other.
//!
//! A fact that is already marked as contradicted does not count against other facts, so that a platform
//! file can record a host's own mistakes but no slips of its author.

use super::{Cache, Fact, Platform, SCHEMA};
use crate::platform::CpuGroups;
use crate::units::{Bytes, CpuList};

/// The largest size of a cache for which the simulation allocates memory.
pub const MOST_CACHE: Bytes = Bytes::new(4 << 30);
/// The largest number of levels of caches or TLBs; current machines have at most four.
pub const MOST_LEVELS: u32 = 8;

/// A fact that disagrees with another fact: its key in the file, and the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disagreement {
    /// The key of the fact, such as `cache[2].size`.
    pub(super) fact: String,
    pub(super) problem: String,
}

pub(super) type ConsistencyResult = Result<(), Disagreement>;

pub(super) fn require(
    holds: bool,
    fact: impl Into<String>,
    problem: impl FnOnce() -> String,
) -> ConsistencyResult {
    if holds { Ok(()) } else { Err(Disagreement { fact: fact.into(), problem: problem() }) }
}

/// Returns the first disagreement; the outermost facts are checked first.
pub(super) fn check(platform: &Platform) -> ConsistencyResult {
    header(platform)?;
    cpu_sets(platform)?;
    groups(platform, "packages", &platform.packages)?;
    groups(platform, "cores", &platform.cores)?;
    inside("cores.value", &platform.cores, "a core", &platform.packages.value, "two packages")?;
    nodes(platform)?;
    for (place, kind) in platform.core_kinds.iter().enumerate() {
        known(platform, format!("core_kind[{place}].cpus.value"), &kind.cpus.value)?;
    }
    for exchange in platform.exchange.iter().flat_map(|fact| &fact.value) {
        let pair = CpuList::new([exchange.from, exchange.to]);
        known(platform, "exchange.value".to_owned(), &pair)?;
    }
    for place in 0..platform.caches.len() {
        cache(platform, place)?;
    }
    Ok(())
}

fn header(platform: &Platform) -> ConsistencyResult {
    require(platform.schema == SCHEMA, "schema", || {
        format!(
            "this corehop reads schema {SCHEMA}, not {}: a newer corehop wrote the file",
            platform.schema
        )
    })?;
    let id = &platform.id;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    require(!id.is_empty() && id.chars().all(plain), "id", || {
        format!("`{id}` is not a platform id: use lower-case letters, digits and underscores")
    })?;
    require(!platform.cpus.value.is_empty(), "cpus.value", || {
        "a machine needs at least one CPU".to_owned()
    })
}

fn cpu_sets(platform: &Platform) -> ConsistencyResult {
    for (fact, cpus) in [("online", platform.online()), ("allowed", platform.allowed())] {
        known(platform, format!("{fact}.value"), cpus)?;
    }
    some(platform.online(), "online.value")
}

/// Checks whether a described machine has a usable CPU. A discovered host skips this check: if it allows
/// a process none of its CPUs, the description is still right, and `corehop doctor` names the remedy.
pub(super) fn usable(platform: &Platform) -> ConsistencyResult {
    some(platform.allowed(), "allowed.value")
}

fn some(cpus: &CpuList, fact: &str) -> ConsistencyResult {
    require(!cpus.is_empty(), fact.to_owned(), || "no CPU is left".to_owned())
}

/// Checks that every CPU of `cpus` belongs to the machine.
pub(super) fn known(platform: &Platform, fact: String, cpus: &CpuList) -> ConsistencyResult {
    let stranger = cpus.iter().find(|&cpu| !platform.cpus.value.contains(cpu));
    stranger.map_or(Ok(()), |cpu| {
        let problem =
            format!("{cpu} is not among the CPUs of the machine, {}", platform.cpus.value);
        Err(Disagreement { fact, problem })
    })
}

/// Checks that `groups` are disjoint and contain every online CPU.
fn groups(platform: &Platform, name: &str, groups: &Fact<CpuGroups>) -> ConsistencyResult {
    let fact = format!("{name}.value");
    disjoint(platform, &fact, &groups.value)?;
    let alone = platform.online().iter().find(|&cpu| groups.value.containing(cpu).is_none());
    alone.map_or(Ok(()), |cpu| {
        Err(Disagreement { fact, problem: format!("{cpu} is not in any of the {name}") })
    })
}

fn disjoint(platform: &Platform, fact: &str, groups: &CpuGroups) -> ConsistencyResult {
    known(platform, fact.to_owned(), &groups.cpus())?;
    groups.overlap().map_or(Ok(()), |cpu| {
        Err(Disagreement { fact: fact.to_owned(), problem: format!("{cpu} is in two groups") })
    })
}

/// Checks that no group of `inner` reaches into two groups of `outer`.
fn inside(
    fact: &str,
    inner: &Fact<CpuGroups>,
    what: &str,
    outer: &CpuGroups,
    two: &str,
) -> ConsistencyResult {
    if inner.is_contradicted() {
        return Ok(());
    }
    inner.value.straddling(outer).map_or(Ok(()), |group| {
        let problem = format!("CPUs {group} are {what} but belong to {two}");
        Err(Disagreement { fact: fact.to_owned(), problem })
    })
}

fn nodes(platform: &Platform) -> ConsistencyResult {
    for (place, node) in platform.nodes.iter().enumerate() {
        let fact = |name: &str| format!("node[{place}].{name}");
        known(platform, fact("cpus.value"), &node.cpus.value)?;
        for earlier in &platform.nodes[..place] {
            require(earlier.id != node.id, fact("id"), || {
                format!("two nodes are called {}", node.id)
            })?;
            let both = earlier.cpus.value.intersection(&node.cpus.value);
            require(both.is_empty(), fact("cpus.value"), || {
                format!("CPUs {both} are in node {} and in node {}", earlier.id, node.id)
            })?;
        }
        if let Some(distances) = node.distances.as_ref().filter(|it| !it.is_contradicted()) {
            let (has, wants) = (distances.value.len(), platform.nodes.len());
            require(has == wants, fact("distances.value"), || {
                format!("{has} distances for {wants} nodes")
            })?;
        }
    }
    Ok(())
}

/// Checks the level of a cache or a TLB.
pub(super) fn level(level: u32, fact: String) -> ConsistencyResult {
    require((1..=MOST_LEVELS).contains(&level), fact, || {
        format!(
            "{level} is not a level: the innermost level is 1, and the outermost possible level is {MOST_LEVELS}"
        )
    })
}

fn cache(platform: &Platform, place: usize) -> ConsistencyResult {
    let cache = &platform.caches[place];
    let fact = |name: &str| format!("cache[{place}].{name}");
    level(cache.level, fact("level"))?;
    disjoint(platform, &fact("instances.value"), &cache.instances.value)?;
    for earlier in &platform.caches[..place] {
        twice(cache, earlier, fact("instances.value"))?;
    }
    for outer in platform.caches.iter().filter(|outer| outer.level > cache.level) {
        if outer.holds_data() && !outer.instances.is_contradicted() {
            let two = format!("two level-{} caches", outer.level);
            let what = format!("one {} cache", cache.label());
            let instances = fact("instances.value");
            inside(&instances, &cache.instances, &what, &outer.instances.value, &two)?;
        }
    }
    geometry(cache, &fact)
}

/// Checks that no CPU has two caches of one level with the same content.
fn twice(cache: &Cache, earlier: &Cache, fact: String) -> ConsistencyResult {
    let clash = cache.level == earlier.level
        && (cache.kind == earlier.kind || (cache.holds_data() && earlier.holds_data()));
    let both = cache.instances.value.cpus().intersection(&earlier.instances.value.cpus());
    require(!clash || both.is_empty(), fact, || {
        format!("CPUs {both} have two {} caches", cache.label())
    })
}

/// Checks that size, ways, line and sets of a cache fit together.
fn geometry(cache: &Cache, fact: &dyn Fn(&str) -> String) -> ConsistencyResult {
    if let Some(line) = trusted(cache.line.as_ref()) {
        let power = line.get().is_power_of_two();
        require(power, fact("line.value"), || format!("a line of {line} is not a power of two"))?;
    }
    if let Some(size) = cache.size.as_ref().map(|fact| fact.value) {
        require(size <= MOST_CACHE, fact("size.value"), || {
            format!("no cache has more than {MOST_CACHE}")
        })?;
    }
    if let Some(ways) = trusted(cache.ways.as_ref()) {
        require(ways > 0, fact("ways.value"), || "a cache has at least one way".to_owned())?;
    }
    let (Some(size), Some(ways), Some(line)) =
        (trusted(cache.size.as_ref()), trusted(cache.ways.as_ref()), trusted(cache.line.as_ref()))
    else {
        return Ok(());
    };
    let set = u64::from(ways).saturating_mul(line.get());
    require(size.get() > 0 && size.get() % set == 0, fact("size.value"), || {
        format!("{size} is not a whole number of sets of {ways} ways of {line}")
    })?;
    trusted(cache.sets.as_ref()).map_or(Ok(()), |sets| {
        let product = Bytes::new(set.saturating_mul(sets));
        require(product == size, fact("sets.value"), || {
            format!("{sets} sets of {ways} ways of {line} make {product}, not {size}")
        })
    })
}

/// Returns the value of the fact, if it is stated and not contradicted.
fn trusted<T: Copy>(fact: Option<&Fact<T>>) -> Option<T> {
    fact.filter(|fact| !fact.is_contradicted()).map(|fact| fact.value)
}
