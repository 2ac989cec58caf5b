// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts of a platform file that a simulation needs: replacement, inclusion, index functions and coherence of
//! caches, the latency of each way of an access, and the servers for which accesses queue.
//!
//! All these facts are optional, because no measured host reports them. If a fact is missing, the simulator asks for it
//! by name.

use serde::{Deserialize, Serialize};

use super::{CacheKind, CpuGroups, Fact, Latency, Power};
use crate::platform::hash::Index;
use crate::units::{Bytes, Nanos};
use crate::words::words;

words! {
    /// The policy by which a cache selects the line of a full set that it evicts.
    Replacement, "a replacement policy" {
        /// The cache evicts the least recently used line of a set.
        Lru = "lru",
        /// The cache evicts the line that entered the set first.
        Fifo = "fifo",
        /// A binary tree of bits points away from the last used line, and the cache evicts the line to which the tree
        /// points.
        TreePlru = "tree_plru",
        /// Each line has a bit that a use sets; the use that would set the last clear bit clears all other bits. The
        /// cache evicts the lowest way whose bit is clear.
        BitPlru = "bit_plru",
        /// Each line has a bit that a use sets; if the cache needs room and every bit is set, it clears all bits. The
        /// cache evicts the lowest way whose bit is clear.
        Nru = "nru",
        /// The cache evicts a random line, drawn from a generator with the seed of the run.
        Random = "random",
        /// Two bits per line predict the line's next use (static re-reference interval prediction, with promotion on
        /// a hit).
        Srrip = "srrip",
        /// Some sets follow `srrip`; in other sets the cache predicts that most new lines are used last. All further
        /// sets follow the policy with fewer misses (dynamic re-reference interval prediction, Jaleel et al., ISCA
        /// 2010).
        Drrip = "drrip",
        /// Each line has an age of 0 to 3: a new line has age 2, and a hit lowers the age by one. The cache evicts the first
        /// line of age 3; if no line has age 3, all lines grow older (Briongos et al., USENIX Security 2020, level 3 of Intel).
        QuadAge = "quad_age",
        /// Each line has an age of 0 to 3: a new line has age 1, and a hit sets age 1, or 0 if the age was below 2. After every
        /// use all lines grow older until a line has age 3 (level 3 of Coffee Lake, in nanoBench's notation).
        QlruH11M1R0U0 = "qlru_h11_m1_r0_u0",
        /// Each line has an age as in `qlru_h11_m1_r0_u0`, but a use raises the ages of lines by at most 1. If no line has age 3,
        /// the cache evicts the line of the first way (level 3 of Ivy Bridge, in nanoBench's notation).
        QlruH11M1R1U2 = "qlru_h11_m1_r1_u2",
        /// Each line has an age of 0 to 3: a new line has age 1, and a hit sets age 0. After every use the other lines grow older
        /// until one of them has age 3 (level 2 of Cannon Lake, in nanoBench's notation).
        QlruH00M1R0U1 = "qlru_h00_m1_r0_u1",
    }
}

words! {
    /// The lines of the inner caches that a cache also holds.
    Inclusion, "an inclusion policy" {
        /// The cache holds every line of the inner caches: a line that it evicts leaves the inner caches as well.
        Inclusive = "inclusive",
        /// The cache holds no line of the inner caches: it receives the lines that they evict, and a hit moves the
        /// line inwards.
        Exclusive = "exclusive",
        /// The cache holds no line that one core alone has. A line that several cores share enters the cache although other
        /// inner caches still have the line, and stays when a core reads the line; a write takes the line out.
        MostlyExclusive = "mostly_exclusive",
        /// The cache can hold lines of the inner caches: a line from memory also fills the cache, and an eviction
        /// leaves the inner caches as they are.
        NonInclusive = "non_inclusive",
    }
}

impl Inclusion {
    /// Returns whether the inner caches fill the cache with the lines that they evict.
    pub const fn takes_victims(self) -> bool {
        matches!(self, Self::Exclusive | Self::MostlyExclusive)
    }
}

words! {
    /// The time at which a cache passes a written line outwards.
    Writes, "a write policy" {
        /// The cache passes a written line outwards when it evicts the line.
        Back = "write_back",
        /// The cache passes a write outwards at once, so that it never holds the only current copy of a line.
        Through = "write_through",
    }
}

words! {
    /// The states that a line can have in caches without a common outer cache.
    Protocol, "a coherence protocol" {
        /// The states are modified, exclusive, shared and invalid. If another cache reads a modified line, the line
        /// is written to memory.
        Mesi = "mesi",
        /// The states of `mesi`, and forward: the sharer that read the line last answers a request instead of memory.
        Mesif = "mesif",
        /// The states of `mesi`, and owned: a modified line that another cache reads stays newer than memory, and its
        /// owner answers requests.
        Moesi = "moesi",
    }
}

words! {
    /// The way to find the caches that hold a line.
    Lookup, "a way to find sharers" {
        /// A cache that misses a line asks all other caches.
        Snooping = "snooping",
        /// A directory records which caches hold a line, and only these caches are asked.
        Directory = "directory",
    }
}

words! {
    /// A kind of prefetcher.
    PrefetchKind, "a prefetcher" {
        /// The prefetcher follows ascending or descending lines within a page, in as many pages as it has trackers.
        Stream = "stream",
        /// The prefetcher follows equal distances between the accesses to a page.
        Stride = "stride",
        /// The prefetcher follows equal distances between the accesses of one load instruction, hits included. The reads of
        /// a walk, in their order, are the accesses of one load instruction.
        LoadStride = "load_stride",
        /// The prefetcher follows the direction of the accesses to a page, whatever their distances, and fetches the
        /// next lines in that direction.
        Direction = "direction",
        /// The prefetcher fetches the other half of an aligned pair of lines.
        AdjacentLine = "adjacent_line",
    }
}

words! {
    /// The supplier of a line.
    Supplier, "a supplier of a line" {
        /// A cache between the requesting CPU and memory supplies the line.
        Own = "own",
        /// A cache that is not between the requesting CPU and memory supplies the line.
        Peer = "peer",
        /// Memory supplies the line.
        Memory = "memory",
    }
}

words! {
    /// The state in which the supplier had the line.
    Found, "a state of a supplied line" {
        /// The supplied line equals the copy in memory.
        Clean = "clean",
        /// The supplied line is newer than the copy in memory.
        Dirty = "dirty",
    }
}

words! {
    /// The distance from the accessing core to the supplying peer cache.
    Distance, "a distance" {
        /// The supplying cache belongs to the same core.
        Core = "same_core",
        /// The supplying core shares a level-2 cache with the requesting core.
        L2 = "shared_l2",
        /// The supplying core shares a level-3 cache with the requesting core.
        L3 = "shared_l3",
        /// The supplying core is in the same package, and shares no cache with the requesting core.
        Package = "same_package",
        /// The supplying core is in another package.
        Machine = "other_package",
    }
}

words! {
    /// The request of a core for a line that others hold.
    LineRequest, "a request for a line" {
        /// The core requests a copy of the line, and other caches keep their copies.
        Copy = "copy",
        /// The core requests the line in order to write, and the copies in other caches are invalidated.
        Ownership = "ownership",
    }
}

words! {
    /// The memory that a line belongs to.
    Home, "a home of a line" {
        /// The line belongs to the memory of the node of the requesting CPU.
        Local = "local",
        /// The line belongs to the memory of another node.
        Remote = "remote",
    }
}

words! {
    /// The side whose instance of a server a line passes through.
    Side, "a side of a transfer" {
        /// The line passes through the server on the side of the requesting CPU.
        Requester = "requester",
        /// The line passes through the server on the side of the node whose memory holds the line.
        Home = "home",
    }
}

words! {
    /// The traffic that passes through a server.
    Traffic, "a kind of traffic" {
        /// The server passes lines that are read from memory.
        MemoryRead = "memory_read",
        /// The server passes lines that are written to memory.
        WriteBack = "write_back",
        /// The server passes lines that one cache sends to another cache.
        Transfer = "transfer",
        /// The server passes requests for lines to other caches, and invalidations.
        Snoop = "snoop",
        /// The server passes lines that a last-level cache sends, receives or forwards.
        LastLevel = "last_level",
    }
}

/// One level of a translation lookaside buffer (TLB), which is the same for every core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// The level of the TLB; level 1 is searched first.
    pub level: u32,
    /// The kind of accesses whose translations the TLB holds.
    pub kind: CacheKind,
    /// The number of translations that the TLB holds.
    pub entries: Fact<u32>,
    /// The number of translations per set of the TLB; default: all translations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Fact<u32>>,
    /// The page sizes whose translations the TLB holds.
    pub pages: Fact<Vec<Bytes>>,
    /// The additional time of a miss in the TLB: the time of the next TLB level or, after the last level, of the
    /// page-table walk.
    pub penalty: Fact<Latency>,
}

/// A prefetcher, one in each core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetcher {
    /// The kind of the prefetcher, by the accesses that it follows.
    pub kind: PrefetchKind,
    /// The cache level whose misses the prefetcher observes, and into which the prefetcher fetches lines; a prefetcher of
    /// the kind `load_stride` also observes the hits of every level.
    pub level: u32,
    /// Whether the prefetcher is enabled.
    pub on: Fact<bool>,
    /// The number of pages that the prefetcher can follow at the same time; unused by `adjacent_line` and `load_stride`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trackers: Option<Fact<u32>>,
    /// The number of lines that the prefetcher fetches ahead of the last access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Fact<u32>>,
    /// The number of consecutive accesses that start the prefetcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Fact<u32>>,
}

/// The protocol by which caches without a common outer cache stay coherent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coherence {
    /// The coherence protocol, which determines the states of a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Fact<Protocol>>,
    /// The method by which a cache finds the other caches that hold a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<Fact<Lookup>>,
}

impl Coherence {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The time of one kind of access to a line, from load to use. A row applies to an access that matches every key of the
/// row; if several rows apply, the row with the most keys counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyRow {
    /// The supplier of the accessed line: a cache of the CPU, another cache, or memory.
    pub supplier: Supplier,
    /// The level of the cache that supplies the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// The state of the line in the supplying cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Found>,
    /// The distance from the accessing core to the supplying peer cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
    /// The memory (of the CPU's own node or of another node) to which the line belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Home>,
    /// The core's request: a copy of a modified line and a change of ownership take different times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<LineRequest>,
    /// The time of an access that matches all stated keys of this row.
    pub time: Fact<Latency>,
}

impl LatencyRow {
    /// Makes a row with the time of every line of a supplier.
    pub const fn of(supplier: Supplier, time: Fact<Latency>) -> Self {
        Self { supplier, level: None, state: None, distance: None, home: None, request: None, time }
    }
}

/// A bus, channel or link that serves one line at a time, first come, first served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The name of the server, which is a bus, channel or link.
    pub name: String,
    /// The instances of the server, each as the group of CPUs that share the instance.
    pub instances: Fact<CpuGroups>,
    /// The kinds of traffic that pass through the server.
    pub carries: Fact<Vec<Traffic>>,
    /// The peers whose lines pass through the server, if it carries transfers; default: peers of another package. A
    /// bus that all cores snoop, a directory at the last level and a home node that queries all peers differ in this
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distances: Option<Fact<Vec<Distance>>>,
    /// The time for which the server is busy with one line.
    pub service: Fact<Latency>,
    /// The side whose server instance serves the line; default: the side of the requesting CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Fact<Side>>,
    /// The slow random change of the service time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
}

/// A random service time that changes slowly, so that a server is slow during one touch and quick during the next
/// touch. The drift of the service time represents causes that the simulation leaves out: refresh, closed rows, and turns of the bus
/// between reads and writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// The number of exponentially distributed stages whose sum is the service time (Erlang distribution). The standard
    /// deviation of the service time is its mean divided by the square root of `stages`.
    pub stages: Fact<u32>,
    /// The mean time for which the service time stays constant.
    pub hold: Fact<Nanos>,
}

/// The properties of a core that a simulation needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// The largest number of misses of the innermost cache that a core can have outstanding at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<Fact<u32>>,
    /// The average number of outstanding misses while a core makes independent accesses, in thousandths: 3,500 means
    /// three and a half. A chain of dependent accesses has one outstanding miss. A cache may state its own number of
    /// outstanding misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Fact<u32>>,
    /// The memory that the operating system touches on a CPU before a job resumes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_footprint: Option<Fact<Bytes>>,
    /// The memory that the operating system touches on a CPU after a job has left for another CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_footprint: Option<Fact<Bytes>>,
    /// Whether a switch to another thread empties the TLBs, because the TLBs hold only one address space, or because
    /// the kernel does not tag address spaces (Linux before 4.14). Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_flushes_tlb: Option<Fact<bool>>,
    /// The time for which a locked access across two cache lines blocks the accesses of every CPU beyond its innermost
    /// cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_lock: Option<Fact<Latency>>,
    /// The time that the core itself needs per access, without the latency of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Fact<Latency>>,
    /// The time of a kernel instruction whose code and data are in the level-1 caches. Default: one cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<Fact<Latency>>,
    /// The time from the wake-up of a sleeping core to its first instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<Fact<Latency>>,
    /// The time from a futex call that wakes a sleeping thread on another core until that thread runs: the call, the
    /// interrupt, the end of the idle state, and the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub futex_wake: Option<Fact<Latency>>,
    /// The time of the shortest system call (`gettid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_call: Option<Fact<Latency>>,
    /// The power of the core while it executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_power: Option<Fact<Power>>,
    /// The power of the core while it polls for work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling_power: Option<Fact<Power>>,
    /// The power of the core while it is powered down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiesced_power: Option<Fact<Power>>,
}

impl Core {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The properties of a cache that a simulator needs beyond its geometry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheMechanism {
    /// The policy by which the cache selects the line to evict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Fact<Replacement>>,
    /// Whether the cache also holds the lines of the inner caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<Fact<Inclusion>>,
    /// The function that maps a line to a set, in the form `modulo`, `fold BITS` or `parity MASK,…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Fact<Index>>,
    /// The policy by which the cache passes written lines outward; the default is `write_back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Fact<Writes>>,
    /// The average number of outstanding misses of this cache while a core makes independent accesses, in thousandths;
    /// default: the number of the core. A chain of dependent accesses has one outstanding miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Fact<u32>>,
    /// Whether the cache fetches a line when a write misses; default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_allocate: Option<Fact<bool>>,
    /// The snoop filter: a directory of the inner caches' lines, for a cache that does not include these lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoop_filter: Option<SnoopFilter>,
    /// The slices of the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
}

/// A snoop filter: a cache of tags that knows which lines the caches inside hold. When a line needs an entry and its set is full,
/// the line of another entry has to leave the caches inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnoopFilter {
    /// The number of lines that the snoop filter can track.
    pub entries: Fact<u32>,
    /// The number of entries per set of the snoop filter.
    pub ways: Fact<u32>,
    /// The policy by which the snoop filter selects the entry to evict, if no entry is unused; the default is `lru`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Fact<Replacement>>,
    /// The function that maps a line to a set of the snoop filter, in the format of a cache's `index`; the default is
    /// `modulo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Fact<Index>>,
}

/// The slices of a last-level cache. The slices and the cores are stops of a ring or a mesh, so that a line is near to
/// one core and far from another core. Latencies of the platform are means over all slices. A server that carries only
/// `last_level` has one instance for each slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// The number of slices. corehop spreads the cores that share the cache evenly over the stops of the slices.
    pub count: Fact<u32>,
    /// The function that maps a line to a slice, in the format of a cache's `index`; the default is `modulo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Fact<Index>>,
    /// The time from one stop of the mesh or ring to the next stop, in one direction.
    pub hop: Fact<Latency>,
    /// The number of columns of a mesh, whose stops are numbered row by row; if absent, the slices form a ring in both
    /// directions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Fact<u32>>,
}

impl CacheMechanism {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
