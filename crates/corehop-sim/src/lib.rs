// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches of a machine in software: exact states, one line at a time.
//!
//! # What it is
//!
//! A [`Hierarchy`] is built from a [`Spec`], which is a platform with nothing missing. For every access the
//! hierarchy returns an [`AccessOutcome`]: the supplier of the line, the state and the distance of the supplied
//! copy, and the invalidations and write-backs that followed. An outcome holds no time: other modules compute
//! latencies and queueing delays from outcomes. Cache states change atomically, so that every invariant holds
//! between two accesses.
//!
//! ```text
//! spec ── what is simulated, from a platform        prefetch, tlb ── beside the caches, optional
//! hierarchy ── an access: search, settle, fill      observer ── what tests hear of the caches
//! coherence ── what caches ask each other           frames ── from pages to lines
//! movement, snoop_filter ── lines in, lines out     reference ── the slow twin, for tests
//! cache ── one cache: tags, states, replacement     walk, fast_path ── one CPU's accesses
//! timing ── how long a visit takes                  pass, steady ── the job walks once, and again
//! ```
//!
//! # What a line's state means
//!
//! Each copy of a line has three bits. *Alone*: no other copy exists, except inside this cache and further out on
//! this cache's own way to memory. *Dirty*: this copy is newer than the copies further out. *Forward*: the package
//! of this copy answers requests of other packages. The states of the protocols are combinations of these bits: M
//! is alone and dirty, E alone, O dirty, F forward, S none. For every tree of caches, of any depth and inclusion,
//! the three bits imply these rules:
//!
//! - A cache that hits has to ask other caches only in two cases: a write to a line that is not alone, and a read
//!   that found the line further out. The second case arises only if the line is alone and a cache inside may have
//!   newer data.
//! - A cache passes newer data to the outermost cache around it as soon as other caches may read the line. Below a
//!   cache that holds a line, newer data therefore exists only while that line is held alone. The exception is a
//!   mostly exclusive cache, which may keep a clean copy beside the owner inside (MOESI).
//! - An inclusive cache knows which caches inside may have a line, by a bit for each. An inclusive cache sets such
//!   a bit when a line moves inwards; the bit stays when an inner cache silently drops a clean line. If exactly one
//!   inner cache may have the line, and alone, the inclusive cache asks that inner cache and clears a stale bit (as
//!   the core valid bits of Intel's inclusive level-3 caches). Non-inclusive and exclusive caches ask all caches
//!   inside; using a directory or snooping changes the counters, but no cache state. With a snoop filter, a line
//!   without an entry leaves the caches inside.
//! - An exclusive cache takes every line that leaves the caches inside as the last copy there; a hit removes the
//!   line from the exclusive cache. A mostly exclusive cache treats lines that are held alone in this way; a shared
//!   line enters the mostly exclusive cache when the first inner cache drops that line, and stays when the line is
//!   read, until a CPU writes the line. No source says whether a processor recognises sharers by the state of a
//!   line alone. AMD says that family 15h evicts unshared lines first, which is not simulated. A non-inclusive cache
//!   is filled on the way in, and takes dirty lines that leave the caches inside.
//! - A cache stores a new line before the displaced line arrives further out.
//!
//! Across roots (packages, or parts of them without a common cache): under MESI a modified line goes to memory when
//! another root reads the line, and clean lines come from memory. Under MESIF the last reader forwards; under MOESI
//! the owner keeps the newer data.
//!
//! # What it costs
//!
//! A hit in the innermost cache costs one vector compare of a set and a few bit operations, and updates no counter
//! of its own. An uninterrupted job runs in one loop, which prefetches the needed sets into the host's caches some
//! visits ahead; see `sim/run-*` of the benchmark `sim`. Caches that were never used occupy no memory, in a clone
//! as well.
//!
//! # What it does not know
//!
//! The caches here have no notion of time, speculation, store buffers, non-temporal stores or banks. Caches that
//! predict which core holds a line are not simulated, nor are directories that know only some of the sharers of a
//! line.
#![forbid(unsafe_code)]
#![expect(clippy::inline_always, reason = "the path of a hit is one loop; measured")]

#[macro_use]
mod planted;
mod generator;
mod ageing;
mod replacement;
mod tags;
pub mod spec;
mod cache;
pub mod outcome;
pub mod observer;
mod coherence;
pub mod hierarchy;
mod movement;
mod snoop_filter;
mod fast_path;
mod ways;
mod walk;
pub mod tlb;
pub mod prefetch;
pub mod times;
pub mod translation;
mod drift;
pub mod servers;
mod rows;
mod slices;
mod turns;
mod package_clock;
mod remote_polluters;
pub mod partitioning;
pub mod frames;
pub mod walker;
mod background;
mod actors;
mod timing;
mod pass;
mod steady;
pub mod machine_state;
mod recipe;
mod loads;
mod stays;
mod system_data;
mod chunk;
mod jobs;
pub mod gang;
pub mod switch;
mod tasks;
mod machine;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use cache::CacheCounters;
pub use hierarchy::Hierarchy;
pub use machine::SimMachine;
pub use outcome::{Access, AccessOutcome, CpuCounters};

pub use partitioning::{CacheShare, Partitioning, PartitioningError, Placement, Ways};
pub use prefetch::PrefetchEngine;
pub use recipe::Sampling;
pub use spec::{CacheSpec, MAX_LEVELS, MAX_WAYS, Spec, SpecError};
pub use tags::{LineNumber, NO_LINE};
pub use tlb::TlbHierarchy;
