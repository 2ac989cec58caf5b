// SPDX-License-Identifier: MIT OR Apache-2.0
//! Platforms from the descriptions that other programs write: `lscpu -J` and the XML of hwloc.
//!
//! A description of `lscpu` or hwloc has CPUs, cores, packages, caches and nodes. A fact that the description does not
//! state stays absent, and every stated fact names its source.

use std::collections::BTreeMap;

use super::{
    Cache, CacheKind, Clock, Coherence, Core, CpuGroups, Fact, Memory, Node, PageSizes, Platform,
    PlatformError, SCHEMA,
};
use crate::units::{Bytes, Cpu, CpuList};

pub mod core_to_core;
mod hwloc;
mod lscpu;
#[cfg(test)]
mod tests;

/// The name of the JSON format of lscpu.
pub const LSCPU: &str = "a description of lscpu (JSON)";
/// The name of the XML format of hwloc.
pub const HWLOC: &str = "a topology of hwloc (XML)";

/// The reason why a description does not yield a platform.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// The text breaks the rules of its format.
    #[error("not valid {format}: {what}")]
    Syntax {
        /// The format in which the text should be.
        format: &'static str,
        /// The error, with its place in the text.
        what: String,
    },
    /// The description lacks something that a platform needs, or has a value that makes no sense.
    #[error("{0}")]
    Incomplete(String),
    /// The facts of the description contradict each other.
    #[error(transparent)]
    Facts(#[from] PlatformError),
}

/// A platform with sentences about the facts that its description does not state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedPlatform {
    /// The platform that the description states.
    pub platform: Platform,
    /// Sentences about the facts that the description does not state.
    pub notes: Vec<String>,
}

/// Returns the platform that a text of this `format` describes, or `None` if the format is neither [`LSCPU`] nor
/// [`HWLOC`].
///
/// # Errors
/// Returns [`DescriptionError`] if the text yields no platform; the error names the missing fact, and the command that
/// prints this fact.
pub fn read(format: &str, text: &str) -> Option<Result<ImportedPlatform, DescriptionError>> {
    let read = match format {
        LSCPU => lscpu::read(text),
        HWLOC => hwloc::read(text),
        _ => return None,
    };
    Some(read.and_then(MachineDescription::platform))
}

/// An instance of a cache, with its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CacheInstance {
    shape: DescribedCache,
    cpus: CpuList,
}

/// The properties that all instances of a platform's cache share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DescribedCache {
    level: u32,
    kind: CacheKind,
    size: Option<u64>,
    ways: Option<u32>,
    line: Option<u64>,
}

/// The facts of a description before they become a platform.
#[derive(Debug, Default)]
struct MachineDescription {
    source: &'static str,
    vendor: Option<String>,
    model: Option<String>,
    hypervisor: Option<String>,
    packages: Vec<CpuList>,
    cores: Vec<CpuList>,
    caches: Vec<CacheInstance>,
    /// The number, the CPUs and the memory in bytes of each node.
    nodes: Vec<(u32, CpuList, Option<u64>)>,
    notes: Vec<String>,
}

impl MachineDescription {
    fn fact<T>(&self, value: T) -> Fact<T> {
        Fact::cited(value, self.source)
    }

    fn platform(self) -> Result<ImportedPlatform, DescriptionError> {
        let cpus = CpuList::new(self.cores.iter().flat_map(CpuList::iter));
        let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        let model = plain(self.model.as_deref().unwrap_or("unnamed processor"));
        let name = format!("{model}, {} {noun}", cpus.len());
        let text = |text: &Option<String>| text.clone().map(|text| self.fact(text));
        let platform = Platform {
            schema: SCHEMA,
            id: id(&name),
            name,
            vendor: text(&self.vendor),
            model: text(&self.model),
            hypervisor: text(&self.hypervisor),
            online: None,
            allowed: None,
            packages: self.fact(CpuGroups::new(self.packages.clone())),
            cores: self.fact(CpuGroups::new(self.cores.clone())),
            clock: Clock::default(),
            pages: PageSizes::default(),
            memory: Memory::default(),
            core_kinds: Vec::new(),
            caches: self.caches(),
            tlbs: Vec::new(),
            prefetchers: Vec::new(),
            coherence: Coherence::default(),
            core: Core::default(),
            latencies: Vec::new(),
            servers: Vec::new(),
            exchange: None,
            distance: None,
            losses: Vec::new(),
            nodes: self.nodes(),
            cpus: self.fact(cpus),
        };
        platform.validate()?;
        Ok(ImportedPlatform { platform, notes: self.notes })
    }

    /// Returns the caches of the platform; instances with equal properties form one cache.
    fn caches(&self) -> Vec<Cache> {
        let mut shapes: BTreeMap<DescribedCache, Vec<CpuList>> = BTreeMap::new();
        for instance in &self.caches {
            shapes.entry(instance.shape).or_default().push(instance.cpus.clone());
        }
        let cache = |(shape, cpus): (DescribedCache, Vec<CpuList>)| Cache {
            level: shape.level,
            kind: shape.kind,
            size: shape.size.map(|size| self.fact(Bytes::new(size))),
            effective: None,
            ways: shape.ways.map(|ways| self.fact(ways)),
            line: shape.line.map(|line| self.fact(Bytes::new(line))),
            sets: None,
            instances: self.fact(CpuGroups::new(cpus)),
            latency: None,
            mechanism: super::CacheMechanism::default(),
        };
        shapes.into_iter().map(cache).collect()
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |(id, cpus, memory): &(u32, CpuList, Option<u64>)| Node {
            id: *id,
            cpus: self.fact(cpus.clone()),
            memory: memory.map(|bytes| self.fact(Bytes::new(bytes))),
            distances: None,
        };
        self.nodes.iter().map(node).collect()
    }
}

/// Turns a name into an id of lower-case letters, digits and single underscores.
fn id(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Returns the maker's name of a processor, without trademark signs and without the frequency.
fn plain(model: &str) -> String {
    let model = model.split('@').next().unwrap_or(model);
    let marks = ["(R)", "(TM)", "(r)", "(tm)", " CPU"];
    let plain = marks.into_iter().fold(model.to_owned(), |text, mark| text.replace(mark, ""));
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the CPUs of each group, by the group's key.
fn grouped<K: Ord>(members: impl IntoIterator<Item = (K, Cpu)>) -> BTreeMap<K, CpuList> {
    let mut groups: BTreeMap<K, Vec<Cpu>> = BTreeMap::new();
    for (key, cpu) in members {
        groups.entry(key).or_default().push(cpu);
    }
    groups.into_iter().map(|(key, cpus)| (key, CpuList::new(cpus))).collect()
}

/// Returns the level and the kind that a cache name such as `L1d` or `l2` states.
fn cache_name(name: &str) -> Option<(u32, CacheKind)> {
    let rest = name.trim().strip_prefix(['L', 'l'])?;
    let (level, kind) = match rest.strip_suffix(['d', 'D']) {
        Some(level) => (level, CacheKind::Data),
        None => match rest.strip_suffix(['i', 'I']) {
            Some(level) => (level, CacheKind::Instruction),
            None => (rest, CacheKind::Unified),
        },
    };
    Some((level.parse().ok()?, kind))
}
