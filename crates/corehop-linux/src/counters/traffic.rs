// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last-level cache traffic of all threads on some CPUs, in the classification of background
//! loads by Wächtler's Tables 5.1 and 5.2: loads, stores and misses per second, hit rate, refill
//! time.
//!
//! These counters belong to CPUs, not threads. Counters of CPUs need CAP_PERFMON or
//! `kernel.perf_event_paranoid` 0, and a processor that counts the events. Some processors do not
//! count stores.

use std::os::fd::{AsRawFd, OwnedFd};

use corehop_plan::units::{Bytes, CpuList, Nanos};
use serde_json::{Value, json};

use super::CounterError;
use super::hardware::{open_event_of_cpu, refused, scaled};

/// Last-level cache events (`enum perf_hw_cache_id` 2): the operation in bits 8 to 15 (0 read, 1
/// write), the result in bits 16 to 23 (0 access, 1 miss).
const EVENTS: [(&str, u64); 4] = [
    ("llc_loads", 2),
    ("llc_load_misses", 2 | 1 << 16),
    ("llc_stores", 2 | 1 << 8),
    ("llc_store_misses", 2 | 1 << 8 | 1 << 16),
];
/// The number of events at the beginning of the list that are required.
const NEEDED: usize = 2;

/// The counters of last-level cache accesses on some CPUs.
#[derive(Debug)]
pub struct LlcCounters {
    /// The descriptors by event; empty for an event that is not counted on every CPU.
    by_event: [Vec<OwnedFd>; EVENTS.len()],
}

/// Counts since the counters were opened, or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LlcCounts {
    /// Loads that accessed the last-level cache.
    pub loads: u64,
    /// Loads that missed the last-level cache.
    pub load_misses: u64,
    /// Stores and their misses, if they are counted.
    pub stores: Option<(u64, u64)>,
}

impl LlcCounters {
    /// Starts counting loads, stores and misses on `cpus`.
    ///
    /// # Errors
    /// Fails if loads and their misses cannot be counted, because such counters or the privilege are missing.
    pub fn open(cpus: &CpuList) -> Result<Self, CounterError> {
        let mut by_event = [const { Vec::new() }; EVENTS.len()];
        for (index, (name, config)) in EVENTS.into_iter().enumerate() {
            match cpus.iter().map(|cpu| open_event_of_cpu(config, cpu)).collect() {
                Ok(open) => by_event[index] = open,
                Err(error) if index < NEEDED => return Err(refused(name, &error)),
                Err(_) => {}
            }
        }
        Ok(Self { by_event })
    }

    /// Returns the counts of all CPUs so far.
    pub fn read(&self) -> LlcCounts {
        let [loads, load_misses, stores, store_misses] =
            self.by_event.each_ref().map(|event| event.iter().map(read_one).sum());
        let stores_are_counted = self.by_event[NEEDED..].iter().all(|event| !event.is_empty());
        let stores = stores_are_counted.then_some((stores, store_misses));
        LlcCounts { loads, load_misses, stores }
    }
}

/// Reads the value, the time enabled and the time counting of an event (read_format 3).
fn read_one(event: &OwnedFd) -> u64 {
    let mut words = [0_u64; 3];
    // SAFETY: the kernel writes at most the size given.
    let length =
        unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    let whole = usize::try_from(length).is_ok_and(|length| length == size_of_val(&words));
    if whole { scaled(words[0], words[1], words[2]).unwrap_or(0) } else { 0 }
}

impl LlcCounts {
    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let added = |later: u64, earlier: u64| later.saturating_sub(earlier);
        let pairs = self.stores.zip(earlier.stores);
        Self {
            loads: added(self.loads, earlier.loads),
            load_misses: added(self.load_misses, earlier.load_misses),
            stores: pairs.map(|(a, b)| (added(a.0, b.0), added(a.1, b.1))),
        }
    }

    /// Returns the number of all misses, each of which fetches a line from memory.
    pub fn misses(&self) -> u64 {
        self.load_misses + self.stores.map_or(0, |(_, misses)| misses)
    }

    /// Returns the share of loads that hit the cache.
    pub fn load_hit_rate(&self) -> Option<f64> {
        (self.loads > 0).then(|| 1.0 - self.load_misses as f64 / self.loads as f64)
    }

    /// For a difference over `span`, returns the time in which memory delivers as many lines as a cache of `size` has.
    pub fn refill_time(&self, span: Nanos, size: Bytes, line: Bytes) -> Option<Nanos> {
        let lines = size.get() as f64 / line.get() as f64;
        let misses = self.misses() as f64;
        (misses > 0.0).then(|| Nanos::new((lines / misses * span.get() as f64) as u64))
    }

    /// For a difference over `span`, returns the rows of Wächtler's tables.
    pub fn describe(&self, span: Nanos, llc: Option<Bytes>, line: Bytes) -> Value {
        let per_second = |count: u64| count as f64 / (span.get() as f64 / 1e9);
        let refill = llc.and_then(|size| self.refill_time(span, size, line));
        json!({
            "loads_per_s": per_second(self.loads),
            "load_misses_per_s": per_second(self.load_misses),
            "load_hit_rate": self.load_hit_rate(),
            "stores_per_s": self.stores.map(|(stores, _)| per_second(stores)),
            "store_misses_per_s": self.stores.map(|(_, misses)| per_second(misses)),
            "memory_bytes_per_s": per_second(self.misses() * line.get()),
            "llc_refill_ns": refill.map(Nanos::get),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::units::Cpu;

    /// The test uses Wächtler, Table 5.1, one CPU: an L3 cache of 12 MiB.
    #[test]
    fn the_rows_follow_from_the_counts_as_in_the_printed_table() {
        let second = Nanos::from_millis(1000);
        let counts = LlcCounts {
            loads: 6_105_000,
            load_misses: 471_000,
            stores: Some((5_997_000, 829_000)),
        };
        let (llc, line) = (Bytes::from_mib(12), Bytes::new(64));
        let hit_rate = counts.load_hit_rate().unwrap();
        assert!((hit_rate * 100.0 - 92.29).abs() < 0.01, "{hit_rate}");
        assert_eq!(counts.misses(), 1_300_000);
        let refill = counts.refill_time(second, llc, line).unwrap().get() as f64 / 1e6;
        assert!((refill - 151.2).abs() < 0.1, "{refill}");
        let rows = counts.describe(second, Some(llc), line);
        let throughput = rows["memory_bytes_per_s"].as_f64().unwrap() / f64::from(1 << 20);
        assert!((throughput - 79.3).abs() < 0.1, "{throughput}");
    }

    #[test]
    fn what_is_not_counted_is_not_told_and_nothing_is_divided_by_nothing() {
        let none = LlcCounts::default();
        let rows = none.describe(Nanos::from_millis(1), Some(Bytes::from_mib(1)), Bytes::new(64));
        for absent in ["load_hit_rate", "stores_per_s", "llc_refill_ns"] {
            assert!(rows[absent].is_null(), "{absent}");
        }
        let later = LlcCounts { loads: 9, load_misses: 4, stores: Some((5, 1)) };
        let earlier = LlcCounts { loads: 2, load_misses: 1, stores: Some((1, 1)) };
        let added = LlcCounts { loads: 7, load_misses: 3, stores: Some((4, 0)) };
        assert_eq!(later.minus(&earlier), added);
        assert_eq!(later.minus(&none).stores, None);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn counters_of_a_cpu_count_or_say_why_they_do_not() {
        match LlcCounters::open(&CpuList::new([Cpu(0)])) {
            Ok(counters) => assert!(counters.read().loads >= counters.read().load_misses),
            Err(error) => {
                assert!(error.to_string().contains("llc_loads"), "{error}");
                eprintln!("skipped: {error}");
            }
        }
    }
}
