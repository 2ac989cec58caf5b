// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements of a machine itself, to compare with its stated facts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Affinity, Cache, Hertz, Latency, Platform};
use crate::units::{Bytes, Cpu, CpuList, Nanos};

/// The time of one cache line from a CPU to another: half a round trip of a line that both write in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The CPU that touched the cache line first, and measured the time.
    pub from: Cpu,
    /// The other CPU of the exchange; equal to `from` in the control measurement, in which one thread plays both sides.
    pub to: Cpu,
    /// The shortest transfer time of all batches of round trips.
    pub min: Latency,
    /// The median transfer time of all batches of round trips.
    pub median: Latency,
    /// The number of measured batches of round trips.
    pub batches: u32,
}

/// The line exchanges of a pair of CPUs while it was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeSeries {
    /// One CPU.
    pub from: Cpu,
    /// The other.
    pub to: Cpu,
    /// The time since the watch began and the exchange for one way, both in nanoseconds, in the order
    /// of time. A look at which the threads did not meet is left out.
    pub exchanges: Vec<(u64, f64)>,
}

/// A distance that CPUs had while they were watched: a level of their line exchanges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistanceLevel {
    /// The cache or core that the pairs of CPUs share according to the machine's description.
    pub class: Affinity,
    /// The median line-exchange time at this distance.
    pub exchange: Latency,
    /// The share of the observed time that the pairs of CPUs spent at this distance, in thousandths.
    pub share: u32,
    /// The number of times that a pair of CPUs changed to this distance.
    pub changes: u32,
    /// The median length of a stay at this distance; absent if corehop observed no stay from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_stay: Option<Nanos>,
    /// The longest observed stay at this distance; a lower bound if the stay began before the observation or ended
    /// after the observation.
    pub longest_stay: Nanos,
}

/// The result of the exchanges of a class of CPU pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeClass {
    /// The class; [`Affinity::SameCpu`] is the control.
    pub affinity: Affinity,
    /// The number of measured pairs, each direction counted.
    pub pairs: usize,
    /// The shortest exchange of any pair.
    pub least: Latency,
    /// The middle one of the pairs' medians.
    pub median: Latency,
}

/// The access time of a shuffled list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListAccessTime {
    /// Its size.
    pub size: Bytes,
    /// Nanoseconds per access when it was walked before, so that it is in the caches as far as it
    /// fits.
    pub warm: f64,
    /// The same when its lines are in no cache; for large lists, in which finding the address of a
    /// line takes time too.
    pub cold: Option<f64>,
}

/// The access time of shuffled lists by their size, on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCurve {
    /// The CPU it was measured on.
    pub cpu: Cpu,
    /// The lists, by ascending size.
    pub points: Vec<ListAccessTime>,
    /// Nanoseconds per access to lines that are in no cache, on the CPU's own node.
    pub memory: Option<f64>,
    /// The same on another node.
    pub remote: Option<f64>,
}

/// The slowdown of arithmetic that touches no memory while another CPU does the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// The CPU that measures.
    pub from: Cpu,
    /// The other one.
    pub to: Cpu,
    /// Time together over time alone: near 2 for SMT siblings, near 1 for CPUs of two cores.
    pub slowdown: f64,
}

/// The rate of memory that is asked for as much as CPUs can ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Controller {
    /// Nanoseconds between two lines to one CPU.
    pub one_ns: f64,
    /// The same to all CPUs that were measured, together.
    pub all_ns: f64,
    /// The number of these.
    pub cpus: u32,
}

/// All that was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlatformObservations {
    /// The rate of the counter that time stamps are read from.
    pub counter: Option<Hertz>,
    /// A curve per kind of core.
    pub curves: Vec<LatencyCurve>,
    /// The exchanges, both directions of each pair, and the controls.
    pub exchanges: Vec<Exchange>,
    /// The contentions.
    pub contentions: Vec<Contention>,
    /// The rate of the memory of a node.
    pub controller: Option<Controller>,
    /// The shortest system call.
    pub system_call: Option<Latency>,
    /// A wake-up by futex, from one CPU to another, and the two CPUs.
    pub futex_wake: Option<(Latency, Cpu, Cpu)>,
}

/// Up to this many usable CPUs every pair is measured.
const ALL_PAIRS: usize = 64;
/// Of larger machines so many pairs of each class.
const PAIRS_OF_CLASS: usize = 16;
/// So many pairs of each class are watched: one look at all of them is to stay below a millisecond.
const WATCHED_OF_CLASS: usize = 4;
/// No list is larger than this: a walk of it takes a good part of a second.
const LARGEST_LIST: Bytes = Bytes::from_mib(128);
/// The caches are looked for up to this many times their stated size.
const BEYOND: u64 = 8;

impl Platform {
    /// The pairs whose exchange is to be measured, both directions and the controls: all of them
    /// on up to 64 CPUs, otherwise some of each class, spread over the machine.
    pub fn exchange_pairs(&self) -> Vec<(Cpu, Cpu)> {
        let usable = self.usable();
        let pairs = usable.iter().flat_map(|from| usable.iter().map(move |to| (from, to)));
        if usable.len() <= ALL_PAIRS {
            return pairs.collect();
        }
        let both =
            |(from, to)| if from == to { vec![(from, to)] } else { vec![(from, to), (to, from)] };
        self.pairs_of_classes(PAIRS_OF_CLASS).into_iter().flat_map(both).collect()
    }

    /// The pairs of two CPUs to watch: some of each class, spread over the machine. None where only
    /// one CPU is usable.
    pub fn watched_pairs(&self) -> Vec<(Cpu, Cpu)> {
        let pairs = self.pairs_of_classes(WATCHED_OF_CLASS);
        pairs.into_iter().filter(|(from, to)| from != to).collect()
    }

    /// At most so many pairs of each class, the smaller CPU first, spread over the usable CPUs.
    fn pairs_of_classes(&self, most: usize) -> Vec<(Cpu, Cpu)> {
        let usable = self.usable();
        let mut of_class: BTreeMap<Affinity, Vec<(Cpu, Cpu)>> = BTreeMap::new();
        for from in usable.iter() {
            for to in usable.iter().filter(|&to| from <= to) {
                of_class.entry(self.affinity(from, to)).or_default().push((from, to));
            }
        }
        let spread = |class: Vec<(Cpu, Cpu)>| {
            let step = class.len().div_ceil(most).max(1);
            class.into_iter().step_by(step)
        };
        of_class.into_values().flat_map(spread).collect()
    }

    /// The exchanges that were measured, by the class of their pair, nearest first.
    pub fn exchange_classes(&self) -> Vec<ExchangeClass> {
        let measured = self.exchange.iter().flat_map(|fact| &fact.value);
        let class = |affinity| {
            let of_class = |e: &&Exchange| self.affinity(e.from, e.to) == affinity;
            let pairs: Vec<&Exchange> = measured.clone().filter(of_class).collect();
            let mut medians: Vec<Latency> = pairs.iter().map(|exchange| exchange.median).collect();
            medians.sort_by_key(|&median| picos(median));
            let least = pairs.iter().map(|exchange| exchange.min).min_by_key(|&min| picos(min))?;
            let median = *medians.get(medians.len() / 2)?;
            Some(ExchangeClass { affinity, pairs: pairs.len(), least, median })
        };
        Affinity::ALL.into_iter().filter_map(class).collect()
    }

    /// The pairs whose contention is to be measured: some stated siblings, and some CPUs that are
    /// stated to be of two cores.
    pub fn contention_pairs(&self) -> Vec<(Cpu, Cpu)> {
        let usable = self.usable();
        let cores = self.cores.value.iter().map(|core| core.intersection(&usable));
        let cores: Vec<CpuList> = cores.filter(|core| !core.is_empty()).collect();
        let siblings = cores.iter().filter_map(|core| Some((core.first()?, core.iter().nth(1)?)));
        let firsts: Vec<Cpu> = cores.iter().filter_map(CpuList::first).collect();
        let neighbours = firsts.windows(2).map(|pair| (pair[0], pair[1]));
        siblings.take(PAIRS_OF_CLASS).chain(neighbours.take(PAIRS_OF_CLASS)).collect()
    }

    /// The CPUs to measure a curve on: the last usable one of each kind of core. (The first one
    /// has most of the interrupts.)
    pub fn curve_cpus(&self) -> Vec<Cpu> {
        let usable = self.usable();
        let last = |cpus: &CpuList| cpus.intersection(&usable).iter().last();
        if self.core_kinds.is_empty() {
            return last(&usable).into_iter().collect();
        }
        self.core_kinds.iter().filter_map(|kind| last(&kind.cpus.value)).collect()
    }

    /// The sizes of the lists of a curve on `cpu`, ascending by half octaves from 4 KiB to well
    /// beyond the stated caches, as far as `room` allows.
    pub fn curve_sizes(&self, cpu: Cpu, room: Bytes) -> Vec<Bytes> {
        let stated = self.data_caches(cpu).filter_map(Cache::stated).max();
        let beyond = stated.map_or(LARGEST_LIST.get(), |size| size.get().saturating_mul(BEYOND));
        let most = beyond.min(LARGEST_LIST.get()).min(room.get());
        Bytes::half_octaves(12).take_while(|size| size.get() <= most).collect()
    }
}

impl Cache {
    /// The size as stated, whatever was found.
    fn stated(&self) -> Option<Bytes> {
        self.size.as_ref().map(|size| size.value)
    }
}

/// Exchanges are measured in time; cycles could only be compared among themselves.
fn picos(latency: Latency) -> u64 {
    match latency {
        Latency::Picos(value) | Latency::MilliCycles(value) => value,
    }
}

/// A size for reading: `48 KiB`, `1.5 MiB`.
pub(super) fn about(bytes: f64) -> String {
    let kib = bytes / 1024.0;
    let (number, unit) = if kib < 1024.0 { (kib, "KiB") } else { (kib / 1024.0, "MiB") };
    let rounded = (number * 10.0).round() / 10.0;
    format!("{rounded} {unit}")
}
