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

/// The series of line exchanges between two watched CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeSeries {
    /// The first CPU of the pair.
    pub from: Cpu,
    /// The second CPU of the pair.
    pub to: Cpu,
    /// The time since the start of watching and the one-way exchange time, both in nanoseconds, in the
    /// order of time. The series has no entry for a look at which the two threads did not meet.
    pub exchanges: Vec<(u64, f64)>,
}

/// A distance between CPUs that corehop observed as a level of their line-exchange times.
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

/// The result of the exchanges between CPU pairs of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeClass {
    /// The affinity of the pairs in this class; [`Affinity::SameCpu`] is the control.
    pub affinity: Affinity,
    /// The number of measured pairs, each direction counted.
    pub pairs: usize,
    /// The shortest exchange of any pair.
    pub least: Latency,
    /// The median of the pairs' median exchange times.
    pub median: Latency,
}

/// The access time of a shuffled list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListAccessTime {
    /// The size of the list.
    pub size: Bytes,
    /// The time per access in nanoseconds after an earlier walk, so that the caches hold as much of the
    /// list as fits.
    pub warm: f64,
    /// The time per access in nanoseconds if no cache holds a line; for large lists, finding the address
    /// of a line takes time too.
    pub cold: Option<f64>,
}

/// The access time of shuffled lists by their size, on one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyCurve {
    /// The CPU on which the curve was measured.
    pub cpu: Cpu,
    /// The lists, by ascending size.
    pub points: Vec<ListAccessTime>,
    /// The time per access in nanoseconds to uncached lines on the CPU's own node.
    pub memory: Option<f64>,
    /// The time per access in nanoseconds to uncached lines on another node.
    pub remote: Option<f64>,
}

/// The slowdown of arithmetic that touches no memory while another CPU runs the same arithmetic.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// The CPU that measures.
    pub from: Cpu,
    /// The other CPU of the pair.
    pub to: Cpu,
    /// The time of the arithmetic while both CPUs run, divided by the time while one CPU runs alone: near 2 for SMT
    /// siblings, near 1 for CPUs of two cores.
    pub slowdown: f64,
}

/// The rate of memory when CPUs request as many lines as they can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Controller {
    /// The time between two lines that one CPU receives, in nanoseconds.
    pub one_ns: f64,
    /// The time between two lines that all measured CPUs together receive, in nanoseconds.
    pub all_ns: f64,
    /// The number of measured CPUs.
    pub cpus: u32,
}

/// All measurements of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlatformObservations {
    /// The rate of the counter that supplies time stamps.
    pub counter: Option<Hertz>,
    /// The latency curves, one for each kind of core.
    pub curves: Vec<LatencyCurve>,
    /// The line exchanges in both directions of each pair, and the controls.
    pub exchanges: Vec<Exchange>,
    /// The slowdowns of pairs of CPUs.
    pub contentions: Vec<Contention>,
    /// The rate of a node's memory.
    pub controller: Option<Controller>,
    /// The time of the shortest system call.
    pub system_call: Option<Latency>,
    /// The time of a wake-up by futex from one CPU to another, with the two CPUs.
    pub futex_wake: Option<(Latency, Cpu, Cpu)>,
}

/// The largest number of usable CPUs for which every pair is measured.
const ALL_PAIRS: usize = 64;
/// The number of measured pairs of each class on larger machines.
const PAIRS_OF_CLASS: usize = 16;
/// The number of watched pairs of each class; one look at all watched pairs must take less than a
/// millisecond.
const WATCHED_OF_CLASS: usize = 4;
/// The largest size of a measured list; a walk of a list of this size takes a large part of a second.
const LARGEST_LIST: Bytes = Bytes::from_mib(128);
/// The factor of the stated size of the caches up to which the curve is measured.
const BEYOND: u64 = 8;

impl Platform {
    /// Returns the pairs whose exchange is to be measured, in both directions and with the controls: all
    /// pairs on up to 64 CPUs, otherwise some pairs of each class, spread over the machine.
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

    /// Returns the pairs of two CPUs to watch: some pairs of each class, spread over the machine. The
    /// list is empty if only one CPU is usable.
    pub fn watched_pairs(&self) -> Vec<(Cpu, Cpu)> {
        let pairs = self.pairs_of_classes(WATCHED_OF_CLASS);
        pairs.into_iter().filter(|(from, to)| from != to).collect()
    }

    /// Returns at most `most` pairs of each class, the smaller CPU first, spread over the usable CPUs.
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

    /// Returns the measured exchanges by the class of their pair, nearest class first.
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

    /// Returns the pairs whose contention is to be measured: some stated SMT siblings, and some CPUs of
    /// two different cores.
    pub fn contention_pairs(&self) -> Vec<(Cpu, Cpu)> {
        let usable = self.usable();
        let cores = self.cores.value.iter().map(|core| core.intersection(&usable));
        let cores: Vec<CpuList> = cores.filter(|core| !core.is_empty()).collect();
        let siblings = cores.iter().filter_map(|core| Some((core.first()?, core.iter().nth(1)?)));
        let firsts: Vec<Cpu> = cores.iter().filter_map(CpuList::first).collect();
        let neighbours = firsts.windows(2).map(|pair| (pair[0], pair[1]));
        siblings.take(PAIRS_OF_CLASS).chain(neighbours.take(PAIRS_OF_CLASS)).collect()
    }

    /// Returns the CPUs on which to measure a curve: the last usable CPU of each kind of core. (The first
    /// CPU handles most of the interrupts.)
    pub fn curve_cpus(&self) -> Vec<Cpu> {
        let usable = self.usable();
        let last = |cpus: &CpuList| cpus.intersection(&usable).iter().last();
        if self.core_kinds.is_empty() {
            return last(&usable).into_iter().collect();
        }
        self.core_kinds.iter().filter_map(|kind| last(&kind.cpus.value)).collect()
    }

    /// Returns the sizes of the lists of a curve on `cpu`, from 4 KiB to well beyond the stated caches in
    /// steps of half an octave, as far as `room` allows.
    pub fn curve_sizes(&self, cpu: Cpu, room: Bytes) -> Vec<Bytes> {
        let stated = self.data_caches(cpu).filter_map(Cache::stated).max();
        let beyond = stated.map_or(LARGEST_LIST.get(), |size| size.get().saturating_mul(BEYOND));
        let most = beyond.min(LARGEST_LIST.get()).min(room.get());
        Bytes::half_octaves(12).take_while(|size| size.get() <= most).collect()
    }
}

impl Cache {
    /// Returns the stated size of the cache, whatever a measurement found.
    fn stated(&self) -> Option<Bytes> {
        self.size.as_ref().map(|size| size.value)
    }
}

/// Returns the value for comparing latencies of one unit; exchanges are measured in time, and latencies
/// in cycles are only comparable with each other.
fn picos(latency: Latency) -> u64 {
    match latency {
        Latency::Picos(value) | Latency::MilliCycles(value) => value,
    }
}

/// Returns a rounded size for people, such as `48 KiB` or `1.5 MiB`.
pub(super) fn about(bytes: f64) -> String {
    let kib = bytes / 1024.0;
    let (number, unit) = if kib < 1024.0 { (kib, "KiB") } else { (kib / 1024.0, "MiB") };
    let rounded = (number * 10.0).round() / 10.0;
    format!("{rounded} {unit}")
}
