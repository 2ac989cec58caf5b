// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caches of a machine in software: exact states, one line at a time.
//!
//! # What it is
//!
//! A [`Hierarchy`] is built from a [`Spec`], which is a platform with nothing missing. It answers
//! every access with an [`AccessOutcome`]: who supplied the line, in which state, how far away, and what
//! followed. An outcome holds no time: latency is a function of it, computed elsewhere, and so are
//! queues. States change atomically; between two accesses every invariant holds.
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
//! Each copy has three bits. *Alone*: no copy exists but in this cache, inside it, and further out
//! on its own way to memory. *Dirty*: newer than what is further out. *Forward*: its package answers
//! others. The states of the protocols are combinations: M is alone and dirty, E alone, O dirty, F
//! forward, S none. From this follows for every tree of caches, of any depth and inclusion:
//!
//! - A hit needs to ask others only in two cases: a write to a line that is not alone, and a read
//!   that found the line further out, alone, where a cache inside may have newer data.
//! - Newer data is given to the outermost cache around it, as soon as others may read it. Below a
//!   cache that holds the line there is therefore newer data only while it is held alone; but a
//!   mostly exclusive cache may have a clean copy beside the owner inside (MOESI).
//! - An inclusive cache knows which caches inside may have a line, by a bit for each. Bits are set
//!   when a line goes inwards and stay when a clean line is dropped in silence; where exactly one
//!   cache may have the line, and alone, it is asked, and a bit found stale is cleared (as the core
//!   valid bits of Intel's inclusive level-3 caches). Non-inclusive and exclusive caches ask all
//!   caches inside; whether by a directory or by snooping changes what is counted, and no state. With
//!   a snoop filter every line inside has an entry, or it leaves.
//! - An exclusive cache takes every line that leaves the caches inside as the last copy there; a
//!   hit takes the line out again. A mostly exclusive one does so with lines that are held alone;
//!   others enter it from the first cache that drops them, and stay when they are read, until one
//!   is written. Whether a processor tells sharers by the state of a line alone, no source says.
//!   A non-inclusive one is filled on the way in, and takes dirty lines that leave.
//! - A new line is in before the one it displaces arrives further out.
//!
//! Across roots (packages, or parts of them without a common cache): under MESI a modified line
//! that is read goes to memory too, and clean lines come from memory; under MESIF the last reader
//! forwards; under MOESI the owner keeps the newer data.
//!
//! # What it costs
//!
//! An innermost hit is one vector compare of a set, a few bit operations, and no counter of its own.
//! An uninterrupted job runs in one loop, which prefetches on the host the sets that it
//! will need some visits ahead; see `sim/run-*` of the benchmark `sim`. Caches that were never used
//! occupy nothing, in a clone as well.
//!
//! # What it does not know
//!
//! Time, speculation, store buffers, non-temporal stores, banks; caches that predict which core
//! holds a line; directories that know only some of the sharers of a line.
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
