// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts a delay from the caches alone: the number of lost lines times the latency of a line.
//!
//! The module computes costs by two analytic models. `worst_case`: every line that the caches held comes from
//! memory (Wächtler 2012, section 5.3.2: 10 MiB at 183 less 46 cycles are 8.44 ms). `survivors`: a preemptor
//! that walks a number of lines leaves in each set the lines that still fit, according to the distribution of
//! lines over sets.
//!
//! # Survivors
//! The preemptor's `q` lines in a set of `W` ways that has `v` lines of the job evict the least recently used
//! lines, which are lines of the job as soon as `q > W - v`. The job then walks in its old order, and each
//! missed line evicts the line that the job needs next, so that the set loses all of its `v` lines. The
//! counts `v` and `q` are binomial if page frames are random, and equal in all sets if page frames are
//! contiguous. The two placements give the two ends of the result.
//!
//! The models assume LRU, one chain of dependent accesses, only read misses, an otherwise idle memory, and
//! caches that hold every line of their inner caches. A migration loses the lines in caches that the two CPUs
//! do not share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::point::CostEstimate;
use super::series::SeriesKey;
use crate::balance::LevelLatencies;
use crate::binomial::at_most;
use crate::cell::walked_bytes;
use corehop_plan::platform::mechanism::{Distance, Supplier};
use corehop_plan::platform::{Affinity, Hertz, Latency, Platform};
use corehop_plan::workload::{Absence, Event, LINE};

/// The caches of a machine with the facts that the models need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnalyticHierarchy {
    /// The caches of the hierarchy, innermost first.
    pub caches: Vec<CacheLevel>,
    /// The time to load a line from memory, in nanoseconds.
    pub memory_ns: f64,
    /// The time to load a line from another core's caches, by the affinity of the cores, if known.
    pub peers: BTreeMap<Affinity, Peer>,
}

/// The time to load a line from the caches of another core, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The time to load a line from a cache that is private to the other core.
    pub private_ns: f64,
    /// The time to load a line from a cache that the other core shares with further cores, but not with this core.
    pub shared_ns: Option<f64>,
}

/// A cache of the analytic hierarchy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// The level of the cache; level 1 is next to the core.
    pub level: u32,
    /// The size of the cache, in bytes.
    pub bytes: u64,
    /// The number of sets of the cache.
    pub sets: u64,
    /// The number of lines in a set.
    pub ways: u32,
    /// The time of a hit, in nanoseconds.
    pub hit_ns: f64,
}

/// The costs of an event by the two models of this module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnalyticCost {
    /// The cost with survivors; contiguous and random frames give its ends.
    pub survivors: ComputedCost,
    /// The cost if no line of the job survives its absence.
    pub worst_case: ComputedCost,
}

/// A cost computed from the platform alone, in microseconds, as a range over the placements of frames that
/// the model knows. The range is not an interval, because no sample was taken: only the model's errors on
/// measured points show how far the value is off ([`HoldoutErrors::widened`](super::HoldoutErrors::widened)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComputedCost {
    /// The cost with the placement of frames that loses the fewest lines.
    pub least_us: f64,
    /// The cost with the placement of frames that loses the most lines.
    pub most_us: f64,
}

impl ComputedCost {
    const fn exact(us: f64) -> Self {
        Self { least_us: us, most_us: us }
    }

    /// Returns the middle of the range, without an interval.
    pub fn estimate(self) -> CostEstimate {
        let estimate_us = f64::midpoint(self.least_us, self.most_us);
        CostEstimate { estimate_us, low_us: None, high_us: None }
    }
}

impl AnalyticHierarchy {
    /// Returns the caches of the first usable CPU of `platform`, with the times of `levels`. Returns `None`
    /// if a size, an associativity or a time is unknown.
    pub fn of(platform: &Platform, levels: &LevelLatencies) -> Option<Self> {
        let cpu = platform.usable().first()?;
        let mut caches = Vec::new();
        for cache in platform.data_caches(cpu) {
            let label = cache.label();
            let (_, _, time) = levels.caches.iter().find(|(known, ..)| *known == label)?;
            let bytes = cache.capacity()?.get();
            let ways = cache.ways.as_ref()?.value;
            // A share of a cache has its ways, and fewer sets.
            let sets = bytes / (u64::from(ways) * platform.line_size().get());
            caches.push(CacheLevel { level: cache.level, bytes, sets, ways, hit_ns: (*time)? });
        }
        let peers = [Affinity::L2, Affinity::L3, Affinity::Memory];
        let peers =
            peers.into_iter().filter_map(|affinity| Some((affinity, peer(platform, affinity)?)));
        Some(Self { caches, memory_ns: levels.memory_ns?, peers: peers.collect() })
    }

    /// Returns the time of a warm line: a hit in the first cache that holds the whole working set.
    fn warm_ns(&self, wss_bytes: u64) -> f64 {
        let holds = self.caches.iter().find(|cache| wss_bytes <= cache.bytes);
        holds.map_or(self.memory_ns, |cache| cache.hit_ns)
    }

    /// Returns the expected delay of a working set after the event of `key` and an absence of `length_us`.
    /// Returns `None` for several chains or another pattern, because the overlap of their misses is unknown.
    pub fn expected(
        &self,
        key: &SeriesKey,
        wss_bytes: u64,
        length_us: f64,
    ) -> Option<AnalyticCost> {
        let shuffled = key.pattern == corehop_plan::workload::Pattern::Shuffled;
        if key.chains != 1 || !shuffled || key.workload.is_some() {
            return None;
        }
        let lines = wss_bytes as f64 / LINE as f64;
        let cost = |line_ns: f64| lines * (line_ns - self.warm_ns(wss_bytes)).max(0.0) / 1e3;
        let exact = ComputedCost::exact;
        let survivors = match key.event {
            Event::None | Event::IdleLeave | Event::SmtMigration => exact(0.0),
            Event::Flush => exact(cost(self.memory_ns)),
            Event::L2Migration => exact(cost(self.moved_ns(key, wss_bytes, Affinity::L2, 2))),
            Event::L3Migration => exact(cost(self.moved_ns(key, wss_bytes, Affinity::L3, 3))),
            Event::MemoryMigration => {
                exact(cost(self.moved_ns(key, wss_bytes, Affinity::Memory, u32::MAX)))
            }
            Event::Preemption if key.preempted_by == Absence::Nothing => exact(0.0),
            Event::Preemption => {
                let walked = self.walked(walked_bytes(key.polluter.as_deref()?)?, length_us);
                let [even, random] =
                    [false, true].map(|random| cost(self.line_ns(wss_bytes, walked, random)));
                ComputedCost { least_us: even.min(random), most_us: even.max(random) }
            }
        };
        let held = self.caches.last().map_or(0, |last| last.bytes).min(wss_bytes);
        let all =
            held as f64 / LINE as f64 * (self.memory_ns - self.warm_ns(wss_bytes)).max(0.0) / 1e3;
        Some(AnalyticCost { survivors, worst_case: exact(all) })
    }

    /// Returns the average time of a line after a migration between CPUs that share the caches from `level`
    /// outward. Written lines are in the private caches of the old core, as far as they fit.
    fn moved_ns(&self, key: &SeriesKey, wss_bytes: u64, affinity: Affinity, level: u32) -> f64 {
        let shared = self.at_level(level);
        let Some(peer) = self.peers.get(&affinity).filter(|_| key.write_ratio > 0.0) else {
            return shared;
        };
        let private = self.caches.iter().rfind(|cache| cache.level < level.min(3));
        let held = private.map_or(0.0, |cache| (cache.bytes as f64 / wss_bytes as f64).min(1.0));
        let rest = if level == u32::MAX { peer.shared_ns.unwrap_or(shared) } else { shared };
        held * peer.private_ns + (1.0 - held) * rest
    }

    fn at_level(&self, level: u32) -> f64 {
        self.caches
            .iter()
            .find(|cache| cache.level >= level)
            .map_or(self.memory_ns, |cache| cache.hit_ns)
    }

    /// Returns the number of lines that a preemptor can touch: all lines of its working set, or as many as
    /// memory delivers during the absence.
    fn walked(&self, polluter_bytes: u64, length_us: f64) -> u64 {
        let in_time = length_us * 1e3 / self.memory_ns;
        (polluter_bytes / LINE).min(in_time as u64)
    }

    /// Returns the average time of a line of the job after a preemptor walked `walked` lines.
    fn line_ns(&self, wss_bytes: u64, walked: u64, random: bool) -> f64 {
        let lines = wss_bytes / LINE;
        let (mut lost, mut sum) = (1.0, 0.0);
        for cache in &self.caches {
            let kept = cache.survivors(lines, walked, random);
            // What an inner cache has kept this one has too.
            let gone = (1.0 - kept).min(lost);
            sum += (lost - gone) * cache.hit_ns;
            lost = gone;
        }
        sum + lost * self.memory_ns
    }
}

/// Returns the time to load a line from a core at this affinity: the stated time, or else the measured
/// exchange.
fn peer(platform: &Platform, affinity: Affinity) -> Option<Peer> {
    let distance = match affinity {
        Affinity::L2 => Distance::L2,
        Affinity::L3 => Distance::Package,
        _ => Distance::Machine,
    };
    let clock = platform.clock.core.as_ref().map_or(Hertz::new(0), |core| core.value);
    let nanos = |latency: Latency| Some(latency.picos(clock) as f64 / 1e3).filter(|&ns| ns > 0.0);
    let rows = || {
        platform
            .latencies
            .iter()
            .filter(move |row| row.supplier == Supplier::Peer && row.distance == Some(distance))
    };
    let at = |shared: bool| rows().find(|row| row.level.is_none_or(|level| (level >= 3) == shared));
    let stated = at(false).and_then(|row| nanos(row.time.value));
    let exchanged = || {
        let classes = platform.exchange_classes();
        nanos(classes.into_iter().find(|class| class.affinity == affinity)?.median)
    };
    let shared_ns = at(true).and_then(|row| nanos(row.time.value));
    Some(Peer { private_ns: stated.or_else(exchanged)?, shared_ns })
}

impl CacheLevel {
    /// Returns the share of `lines` that still hit after `walked` other lines passed through the cache.
    pub fn survivors(&self, lines: u64, walked: u64, random: bool) -> f64 {
        if lines == 0 {
            return 1.0;
        }
        let ways = self.ways as usize;
        if !random {
            let per_set = |count: u64| count as f64 / self.sets as f64;
            return f64::from(
                per_set(lines).ceil() + per_set(walked).ceil() <= f64::from(self.ways),
            );
        }
        let share = 1.0 / self.sets as f64;
        let of_job = |v: usize| at_most(lines as usize, share, v);
        let mut kept = 0.0;
        for v in 1..=ways {
            let mass = of_job(v) - of_job(v - 1);
            kept += mass * v as f64 * at_most(walked as usize, share, ways - v);
        }
        (kept * self.sets as f64 / lines as f64).min(1.0)
    }
}
