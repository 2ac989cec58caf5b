// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of one access, as far as its latency and the counters depend on it.

use corehop_plan::platform::{Distance, Found, Supplier};

/// The action of a CPU on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads from it.
    Read,
    /// Stores to it.
    Write,
    /// Executes it.
    Fetch,
}

/// The source of a line, and what followed: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessOutcome {
    /// The supplier of the line.
    pub supplier: Supplier,
    /// The level of the cache that supplied it; 0 for memory. Of a peer with modified data the
    /// innermost cache that had it.
    pub level: u8,
    /// Whether it was newer than memory there.
    pub state: Found,
    /// The distance of a peer that supplied it; `Distance::Core` otherwise.
    pub distance: Distance,
    /// Copies in other caches that the access invalidated (at most 255 are counted).
    pub invalidated: u8,
    /// The farthest of these.
    pub farthest: Distance,
    /// Caches that were asked for the line: those beside the way to memory, each with all inside.
    pub asked: u8,
    /// Lines that were written to memory because of this access, evicted ones among them.
    pub written_back: u8,
}

impl AccessOutcome {
    /// A hit in the innermost cache that no other cache noticed.
    pub const HIT: Self = Self::own(1);

    /// A hit on the CPU's own way.
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
    /// Lines found on the CPU's own way, by level; the innermost is first.
    pub hits: [u64; super::spec::MAX_LEVELS],
    /// Lines supplied by a peer below a shared cache, unmodified and modified.
    pub peer: [u64; 2],
    /// Lines supplied by a cache that shares no outer one, unmodified and modified.
    pub remote: [u64; 2],
    /// Lines supplied by memory.
    pub memory: u64,
    /// Misses of the outermost cache to which another such cache answered that it has the line,
    /// from any supplier: with [`CpuCounters::last_level_misses`] the SMR of Kamali 2010, 4.3.5.
    pub snoop_hits: u64,
    /// Of these, answers that it was modified (HITM).
    pub snoop_hits_modified: u64,
    /// Stores to lines that were here but shared.
    pub upgrades: u64,
    /// Copies that this CPU's stores invalidated elsewhere.
    pub invalidations: u64,
    /// Lines written to memory because of its accesses.
    pub write_backs: u64,
    /// Caches asked for a line.
    pub asked: u64,
    /// Lines brought in by prefetchers, not counted in any of the above but what they evict.
    pub prefetches: u64,
}

impl CpuCounters {
    /// All accesses.
    pub fn accesses(&self) -> u64 {
        self.reads + self.writes + self.fetches
    }
    /// Accesses that no cache on the CPU's own way nor a peer below one could serve.
    pub fn last_level_misses(&self) -> u64 {
        self.remote[0] + self.remote[1] + self.memory
    }
    /// Counts what was counted between two readings again.
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

    /// All supplied lines, from every supplier: as many as accesses.
    pub fn supplied(&self) -> u64 {
        self.hits.iter().sum::<u64>() + self.peer[0] + self.peer[1] + self.last_level_misses()
    }
}
