// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a machine: its CPUs, caches, sharing and memory; each value has a source.
//!
//! ```text
//! node ── package ── level-3 cache ── level-2 cache ── core ── CPU
//! ```
//!
//! A platform is read from a TOML file ([`Platform::from_toml`]) or discovered from the host. A platform is a value: no
//! function here looks at the machine on which corehop runs.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Cpu, CpuList};

pub mod fact;
pub mod foreign;
pub mod groups;
pub mod quantity;
pub mod affinity;
pub mod tree;
pub mod observed;
pub mod hash;
pub mod mechanism;
pub mod clusters;
mod apart;
mod check_against;
mod consistency;
mod difference;
mod gaps;
mod loss;
mod workings;
mod library;
mod text;
mod usable;

pub use affinity::{Affinity, MemoryArchitecture, MissingClass};
pub use consistency::{MOST_CACHE, MOST_LEVELS};
pub use fact::{Check, Fact, FactOrigin};
pub use gaps::MissingFact;
pub use groups::CpuGroups;
pub use hash::Index;
pub use loss::Loss;
pub use mechanism::{
    CacheMechanism, Coherence, Core, Distance, Drift, Found, Home, Inclusion, LatencyRow,
    LineRequest, Lookup, PrefetchKind, Prefetcher, Protocol, Replacement, Server, Side, Slices,
    SnoopFilter, Supplier, Tlb, Traffic, Writes,
};
pub use quantity::{Hertz, Latency, Power};
pub use text::PlatformError;
pub use usable::UnknownCpu;

/// The version of the platform file format that this code reads and writes. A new fact becomes a new optional key,
/// which does not raise the version.
pub const SCHEMA: u32 = 1;

/// The description of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The version of the platform file's format, [`SCHEMA`].
    pub schema: u32,
    /// The name of the platform in options, tables and file names, made of lower-case letters, digits and underscores.
    pub id: String,
    /// The name of the platform in texts for people.
    pub name: String,
    /// The maker of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Fact<String>>,
    /// The model name that the maker gave the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Fact<String>>,
    /// The hypervisor, if the machine is a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<Fact<String>>,
    /// All CPUs that are present in the machine.
    pub cpus: Fact<CpuList>,
    /// The CPUs that are online; absent if all CPUs are online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<Fact<CpuList>>,
    /// The CPUs on which the corehop process may run; absent if all CPUs are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Fact<CpuList>>,
    /// The packages of the machine, each as a group of CPUs.
    pub packages: Fact<CpuGroups>,
    /// The cores of the machine, each as a group of CPUs. Several CPUs of one core are SMT siblings.
    pub cores: Fact<CpuGroups>,
    /// The clocks of the machine.
    #[serde(default, skip_serializing_if = "Clock::is_empty")]
    pub clock: Clock,
    /// The page sizes of the machine.
    #[serde(default, skip_serializing_if = "PageSizes::is_empty")]
    pub pages: PageSizes,
    /// The cost of accesses to memory.
    #[serde(default, skip_serializing_if = "Memory::is_empty")]
    pub memory: Memory,
    /// The kinds of core, if the machine has several kinds.
    #[serde(default, rename = "core_kind", skip_serializing_if = "Vec::is_empty")]
    pub core_kinds: Vec<CoreKind>,
    /// The caches of the machine, innermost level first.
    #[serde(default, rename = "cache", skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// The translation lookaside buffers (TLBs) of each core.
    #[serde(default, rename = "tlb", skip_serializing_if = "Vec::is_empty")]
    pub tlbs: Vec<Tlb>,
    /// The prefetchers of each core.
    #[serde(default, rename = "prefetcher", skip_serializing_if = "Vec::is_empty")]
    pub prefetchers: Vec<Prefetcher>,
    /// The protocol by which caches without a common outer cache stay coherent.
    #[serde(default, skip_serializing_if = "Coherence::is_empty")]
    pub coherence: Coherence,
    /// The properties of a core that a simulation needs.
    #[serde(default, skip_serializing_if = "Core::is_empty")]
    pub core: Core,
    /// The times of accesses by supplier, state and distance of a line, if the latencies of caches and memory alone do
    /// not determine the times.
    #[serde(default, rename = "latency", skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencyRow>,
    /// The buses, channels and links at which accesses queue.
    #[serde(default, rename = "server", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// The transfer time of a cache line between each pair of CPUs, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Fact<Vec<observed::Exchange>>>,
    /// The observed distances of pairs of CPUs; empty if no pair could be observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Fact<Vec<observed::DistanceLevel>>>,
    /// The share of cached lines that a job loses during an absence in which no thread of the machine's owner runs.
    #[serde(default, rename = "loss", skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// The NUMA nodes of the machine.
    #[serde(default, rename = "node", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// The kind of content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// The cache holds only data.
    Data,
    /// The cache holds only instructions.
    Instruction,
    /// The cache holds data and instructions.
    Unified,
}

/// One level and kind of cache, with all its instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The level of the cache; level 1 is next to the core.
    pub level: u32,
    /// The kind of lines that the cache holds.
    pub kind: CacheKind,
    /// The size of one instance of the cache; absent if the machine does not report the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Fact<Bytes>>,
    /// The cache size that corehop measured with lists, if it contradicts [`Cache::size`]. A hypervisor may declare the
    /// whole cache but give the guest only a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<Fact<Bytes>>,
    /// The number of lines per set of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Fact<u32>>,
    /// The size of a cache line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Fact<Bytes>>,
    /// The number of sets of the cache; if absent, [`Cache::set_count`] computes the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<Fact<u64>>,
    /// The instances of the cache, each as the group of CPUs that share the instance.
    pub instances: Fact<CpuGroups>,
    /// The time of a hit in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Fact<Latency>>,
    /// The policies of the cache, for a simulation.
    #[serde(default, skip_serializing_if = "CacheMechanism::is_empty")]
    pub mechanism: CacheMechanism,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The number of the node.
    pub id: u32,
    /// The CPUs of the node; a node without CPUs has only memory.
    pub cpus: Fact<CpuList>,
    /// The size of the node's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Fact<Bytes>>,
    /// The distance from this node to every node, in the order of the nodes; 10 is the distance to the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distances: Option<Fact<Vec<u32>>>,
}

/// A kind of core of a machine that has several kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreKind {
    /// The name of the core kind.
    pub name: String,
    /// The CPUs whose cores belong to the core kind.
    pub cpus: Fact<CpuList>,
    /// The capacity of the core kind's CPUs, as Linux states it; the fastest core kind has 1,024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Fact<u32>>,
    /// The highest frequency of the core kind, if it differs from [`Clock::core`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Fact<Hertz>>,
    /// The properties of the core kind, if they differ from [`Platform::core`].
    #[serde(default, skip_serializing_if = "Core::is_empty")]
    pub core: Core,
}

/// The clocks of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The frequency of a core; latencies in cycles refer to this frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Fact<Hertz>>,
    /// The frequency of the time-stamp counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Fact<Hertz>>,
    /// Whether the time-stamp counter runs at a constant rate in every state of the core, including sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<Fact<bool>>,
    /// The clock source that the kernel uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Fact<String>>,
    /// The initial frequency of a core after its whole package was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_idle: Option<Fact<Hertz>>,
    /// The time for which the core stays at the frequency `after_idle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking: Option<Fact<Latency>>,
}

impl Clock {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The page sizes of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageSizes {
    /// The size of an ordinary page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Fact<Bytes>>,
    /// The sizes of the available huge pages, ascending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge: Option<Fact<Vec<Bytes>>>,
    /// The size of the pages with which the host backs the memory of this guest. Memory that is contiguous in the guest
    /// is contiguous on the host only within one of the host's pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<Fact<Bytes>>,
    /// The kernel's use of transparent huge pages, which is `always`, `madvise` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transparent: Option<Fact<String>>,
}

impl PageSizes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The cost of an access to memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The latency of an access to the memory of the CPU's own node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Fact<Latency>>,
    /// The latency of an access to the memory of another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Fact<Latency>>,
    /// The interval at which all devices together read a line from memory or write a line to memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Fact<Latency>>,
    /// The rows that the memory banks keep open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<DramRows>,
}

/// The rows of the memory chips. A bank keeps its last read row open, so an access to a line of the open row is faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramRows {
    /// The size of a memory row, over all chips of a channel.
    pub size: Fact<Bytes>,
    /// The number of memory banks of a node. Neighbouring rows are in different banks.
    pub banks: Fact<u32>,
    /// The time by which a line of an open memory row arrives earlier than the latencies `local` and `remote` state.
    pub saved: Fact<Latency>,
}

impl Memory {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Cache {
    /// Returns whether the cache can hold data.
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }
    /// Returns the groups of CPUs that share an instance of the cache. The result is `None` if the cache holds no data,
    /// or if a check contradicts the statement, because pairs and clusters of CPUs must not rest on a contradicted
    /// statement.
    pub fn sharers(&self) -> Option<&CpuGroups> {
        (self.holds_data() && !self.instances.is_contradicted()).then_some(&self.instances.value)
    }
    /// Returns whether the cache can hold data of `cpu`.
    pub fn holds_data_of(&self, cpu: Cpu) -> bool {
        self.holds_data() && self.instances.value.containing(cpu).is_some()
    }
    /// Returns the size to plan with: the measured size if it contradicts the stated size, otherwise the stated size.
    pub fn capacity(&self) -> Option<Bytes> {
        let measured = self
            .effective
            .as_ref()
            .filter(|_| self.size.as_ref().is_some_and(Fact::is_contradicted));
        measured.or(self.size.as_ref()).map(|size| size.value)
    }
    /// Returns the number of sets: the stated number, or size / (ways × line).
    pub fn set_count(&self) -> Option<u64> {
        if let Some(sets) = &self.sets {
            return Some(sets.value);
        }
        let (size, ways, line) = (self.size.as_ref()?, self.ways.as_ref()?, self.line.as_ref()?);
        size.value.get().checked_div(u64::from(ways.value) * line.value.get())
    }
    /// Returns the name of the cache, such as `L1d`, `L1i` or `L2`: the level, with a suffix if the cache holds only
    /// data or only instructions.
    pub fn label(&self) -> String {
        let suffix = match self.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("L{}{suffix}", self.level)
    }
}

impl Platform {
    /// Returns the CPUs that are online.
    pub fn online(&self) -> &CpuList {
        self.online.as_ref().map_or(&self.cpus.value, |online| &online.value)
    }
    /// Returns the CPUs on which this process may run if they are online.
    pub fn allowed(&self) -> &CpuList {
        self.allowed.as_ref().map_or(&self.cpus.value, |allowed| &allowed.value)
    }
    /// Returns the CPUs on which corehop can place work: online and allowed.
    pub fn usable(&self) -> CpuList {
        self.online().intersection(self.allowed())
    }
    /// Returns the way in which memory is attached to the packages.
    pub fn memory_architecture(&self) -> MemoryArchitecture {
        // A node without CPUs is more memory, not another place to migrate to.
        let nodes = self.nodes.iter().filter(|node| !node.cpus.value.is_empty()).count();
        match (self.packages.value.len(), nodes) {
            (_, 2..) => MemoryArchitecture::Numa,
            (2.., _) => MemoryArchitecture::Uma,
            _ => MemoryArchitecture::SingleSocket,
        }
    }
    /// Returns the node to which `cpu` belongs.
    pub fn node_of(&self, cpu: Cpu) -> Option<&Node> {
        self.nodes.iter().find(|node| node.cpus.value.contains(cpu))
    }
    /// Returns the caches that hold data and serve `cpu`, innermost first.
    pub fn data_caches(&self, cpu: Cpu) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.holds_data_of(cpu))
    }
    /// Returns the outermost cache for data that serves `cpu`.
    pub fn last_level(&self, cpu: Cpu) -> Option<&Cache> {
        self.data_caches(cpu).max_by_key(|cache| cache.level)
    }
    /// Returns the slices of the last-level cache of `cpu`.
    pub fn slices(&self, cpu: Cpu) -> Option<&Slices> {
        self.last_level(cpu)?.mechanism.slices.as_ref()
    }
    /// Returns the levels and sizes of all caches that hold data, ascending; a machine with two kinds of core can have
    /// two sizes at one level. The list leaves out caches without a stated size.
    pub fn cache_sizes(&self) -> Vec<(u32, Bytes)> {
        let size = |cache: &Cache| Some((cache.level, cache.capacity()?));
        let mut sizes: Vec<_> =
            self.caches.iter().filter(|cache| cache.holds_data()).filter_map(size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
    /// Returns the size of the largest data cache that belongs to only one core.
    pub fn largest_private_cache(&self) -> Option<Bytes> {
        self.private_caches().filter_map(Cache::capacity).max()
    }
    /// Returns the stated size of the largest data cache that belongs to only one core, even if a measurement
    /// contradicts that size.
    pub fn largest_stated_private_cache(&self) -> Option<Bytes> {
        self.private_caches().filter_map(|cache| Some(cache.size.as_ref()?.value)).max()
    }
    fn private_caches(&self) -> impl Iterator<Item = &Cache> {
        let private = |cache: &&Cache| {
            let mut instances = cache.instances.value.iter();
            instances.all(|cpus| self.cores.value.iter().any(|core| cpus.is_within(core)))
        };
        self.caches.iter().filter(|cache| cache.holds_data()).filter(private)
    }
    /// Returns the size of one instance of the last-level cache (the largest if sizes differ).
    pub fn llc_size(&self) -> Option<Bytes> {
        let sizes = self.cache_sizes();
        let last = sizes.iter().map(|&(level, _)| level).max()?;
        sizes.into_iter().filter(|&(level, _)| level == last).map(|(_, size)| size).max()
    }
    /// Returns the line size of the innermost cache for data; 64 bytes if no cache states a line size.
    pub fn line_size(&self) -> Bytes {
        let mut lines = self.caches.iter().filter(|cache| cache.holds_data());
        lines.find_map(|cache| Some(cache.line.as_ref()?.value)).unwrap_or(Bytes::new(64))
    }
}
