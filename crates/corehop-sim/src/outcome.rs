// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of one access, as far as its latency and the counters depend on it.

use corehop_plan::platform::{Distance, Found, Supplier};

/// The action of a CPU on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads from the line.
    Read,
    /// Stores to the line.
    Write,
    /// Fetches the line as instructions.
    Fetch,
}

/// The source of a line that an access needed, and the side effects of the access (8 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessOutcome {
    /// The supplier of the line.
    pub supplier: Supplier,
    /// The level of the cache that supplied the line; 0 for memory. If a peer had modified data, the field is the
    /// level of the innermost cache with that data.
    pub level: u8,
    /// The state of the line at its supplier: unmodified, or newer than memory.
    pub state: Found,
    /// The distance of the peer that supplied the line; `Distance::Core` if no peer did.
    pub distance: Distance,
    /// Copies in other caches that the access invalidated (at most 255 are counted).
    pub invalidated: u8,
    /// The distance of the farthest copy that the access invalidated.
    pub farthest: Distance,
    /// The number of caches asked for the line: caches beside the way to memory, each counted together with all
    /// caches inside.
    pub asked: u8,
    /// Lines written to memory because of this access, including evicted lines.
    pub written_back: u8,
}

impl AccessOutcome {
    /// A hit in the innermost cache that no other cache noticed.
    pub const HIT: Self = Self::own(1);

    /// A hit in the cache of level `level` on the CPU's own way to memory.
    pub(super) const fn own(level: u8) -> Self {
        Self {
            supplier: Supplier::Own,
            level,
            state: Found::Clean,
            distance: Distance::Core,
            invalidated: 0,
            farthest: Distance::Core,
            asked: 0,
            written_back: 0,
        }
    }

    /// Whether the innermost cache had the line.
    pub fn is_innermost_hit(&self) -> bool {
        matches!(self.supplier, Supplier::Own) && self.level == 1
    }
}

/// The counts of a CPU's accesses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Instruction fetches.
    pub fetches: u64,
    /// Lines found in the caches on the CPU's own way to memory, by level, innermost level first.
    pub hits: [u64; super::spec::MAX_LEVELS],
    /// Lines supplied by a peer below a shared cache, unmodified and modified.
    pub peer: [u64; 2],
    /// Lines supplied by a cache that shares no outer cache with this CPU, unmodified and modified.
    pub remote: [u64; 2],
    /// Lines supplied by memory.
    pub memory: u64,
    /// Misses of the outermost cache for which another outermost cache reported a copy, whichever cache then
    /// supplied the line. Divided by [`CpuCounters::last_level_misses`], this count is the SMR of Kamali 2010,
    /// 4.3.5.
    pub snoop_hits: u64,
    /// Snoop hits in which the other outermost cache reported a modified copy (HITM).
    pub snoop_hits_modified: u64,
    /// Stores that hit a shared line on the CPU's own way, so that other copies had to be invalidated.
    pub upgrades: u64,
    /// Copies that this CPU's stores invalidated elsewhere.
    pub invalidations: u64,
    /// Lines written to memory because of this CPU's accesses.
    pub write_backs: u64,
    /// The number of times that a cache was searched for a line on behalf of this CPU.
    pub asked: u64,
    /// Lines brought in by prefetchers. Apart from the lines that they evict, prefetches appear in no other
    /// counter.
    pub prefetches: u64,
}

impl CpuCounters {
    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes + self.fetches
    }
    /// Accesses served neither by a cache on the CPU's own way to memory nor by a peer below such a cache.
    pub fn last_level_misses(&self) -> u64 {
        self.remote[0] + self.remote[1] + self.memory
    }
    /// Adds the difference of the readings `before` and `after` once more, for a pass that repeats without being
    /// simulated.
    pub(super) fn count_again(&mut self, mut before: Self, mut after: Self) {
        for ((count, before), after) in self.all().zip(before.all()).zip(after.all()) {
            *count += *after - *before;
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self {
            reads,
            writes,
            fetches,
            hits,
            peer,
            remote,
            memory,
            snoop_hits,
            snoop_hits_modified,
            upgrades,
            invalidations,
            write_backs,
            asked,
            prefetches,
        } = self;
        let single = [
            reads,
            writes,
            fetches,
            memory,
            snoop_hits,
            snoop_hits_modified,
            upgrades,
            invalidations,
            write_backs,
            asked,
            prefetches,
        ];
        single.into_iter().chain(hits).chain(peer).chain(remote)
    }

    /// The lines supplied by all suppliers together; equals the number of accesses.
    pub fn supplied(&self) -> u64 {
        self.hits.iter().sum::<u64>() + self.peer[0] + self.peer[1] + self.last_level_misses()
    }
}
