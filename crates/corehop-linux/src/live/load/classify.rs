// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies a background load by its impact on a job beside it (Wächtler 5.1): the bandwidth and
//! the latency that remain for a probe, and the load's own traffic in the last-level cache if it
//! can be counted.

use std::time::Duration;

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, Cpu, Nanos};
use corehop_plan::workload::{LINE, Page, WorkingSet};
use serde_json::{Value, json};

use super::super::evict::buffer_size;
use crate::counters::traffic::LlcCounters;
use crate::set_memory::SetMemory;
use corehop_system::clock::{TickClock, now};
use corehop_system::thread::{apart, best_ordinary_policy, set_affinity};

/// The duration of each of the two probe measurements, in nanoseconds.
const PROBE_NS: f64 = 40e6;
/// The time for which the load's own traffic is counted.
const WINDOW: Duration = Duration::from_millis(100);
/// The number of bytes read between two time stamps, small enough that most pieces are not
/// interrupted.
const PIECE: usize = 64 << 10;
/// The number of list elements visited between two time stamps.
const STRIDE: usize = 256;

/// The result of a memory probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemoryProbeResult {
    /// The number of bytes per second that the probe reads in the order of their addresses.
    read_bytes_per_s: f64,
    /// The time of an access that depends on the previous access, in nanoseconds.
    access_ns: f64,
}

/// A probe that reads and walks a buffer larger than the private caches, on one CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    cpu: Cpu,
    size: Bytes,
    clock: TickClock,
}

impl Probe {
    /// Creates a probe on `cpu`, of the size that the caches of `platform` need.
    pub(crate) fn new(platform: &Platform, cpu: Cpu, clock: TickClock) -> Self {
        Self { cpu, size: buffer_size(platform), clock }
    }

    /// Measures the current bandwidth and latency of memory. The measurement takes a tenth of a second, and holds its
    /// memory for that long.
    ///
    /// # Errors
    /// Fails with a sentence that gives the reason: the CPU is gone, or there is too little memory.
    pub(crate) fn read(&self) -> Result<MemoryProbeResult, String> {
        apart(|| self.on_its_cpu())
            .unwrap_or_else(|error| Err(format!("the probe failed: {error}")))
    }

    fn on_its_cpu(&self) -> Result<MemoryProbeResult, String> {
        set_affinity([self.cpu]).map_err(|error| format!("{}: {error}", self.cpu))?;
        best_ordinary_policy();
        // Huge pages where there are any, or this would be a probe of translation.
        let set = WorkingSet { page: Page::Transparent, ..WorkingSet::list(self.size, 0.0) };
        let memory =
            SetMemory::new(&set, &mut DrawStream::new(0, 0)).map_err(|error| error.to_string())?;
        Ok(MemoryProbeResult {
            read_bytes_per_s: PIECE as f64 / self.bandwidth_piece_ns(&memory) * 1e9,
            access_ns: self.stride_ns(&memory) / STRIDE as f64,
        })
    }

    /// The median time to read a piece.
    fn bandwidth_piece_ns(&self, memory: &SetMemory) -> f64 {
        let (start, length) = memory.raw();
        let pieces = length / PIECE;
        let mut next = 0;
        self.median_ns(|| {
            let from = start + (next % pieces * PIECE) as u64;
            next += 1;
            let words = (from..from + PIECE as u64).step_by(LINE as usize);
            // SAFETY: the addresses lie in `memory`, which no thread writes.
            words.map(|word| unsafe { (word as *const u64).read_volatile() }).fold(0, u64::max)
        })
    }

    /// The median time of a stride along the list.
    fn stride_ns(&self, memory: &SetMemory) -> f64 {
        let mut at = memory.linked().start;
        self.median_ns(|| {
            for _ in 0..STRIDE {
                // SAFETY: an element holds the address of the next; no thread writes them.
                at = unsafe { (at as *const u64).read_volatile() };
            }
            at
        })
    }

    /// The median time of `piece`, repeated for [`PROBE_NS`].
    ///
    /// A load copy on this CPU, or other activity, affects only a few pieces.
    fn median_ns(&self, mut piece: impl FnMut() -> u64) -> f64 {
        let begun = now();
        let mut times = Vec::with_capacity(1 << 13);
        while times.is_empty() || self.clock.between(begun, now()) < PROBE_NS {
            let from = now();
            std::hint::black_box(piece());
            times.push(self.clock.between(from, now()));
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// The effect of a load on other threads, and its own progress.
#[derive(Debug, Clone)]
pub(crate) struct Classification {
    probe: Probe,
    alone: Result<MemoryProbeResult, String>,
    loaded: Result<MemoryProbeResult, String>,
    bytes_per_s: Option<f64>,
    traffic: Value,
}

impl Classification {
    /// Classifies a load that already runs; `bytes` returns the bytes it has moved so far, if it
    /// counts them, and `alone` is the probe's result without the load.
    pub(crate) fn of(
        platform: &Platform,
        probe: Probe,
        alone: Result<MemoryProbeResult, String>,
        bytes: impl Fn() -> Option<u64>,
    ) -> Self {
        let counters = LlcCounters::open(&platform.usable());
        let counts = || counters.as_ref().map(LlcCounters::read);
        let (begun, before, counts_before) = (now(), bytes(), counts());
        std::thread::sleep(WINDOW);
        let (after, counts_after) = (bytes(), counts());
        let span_ns = probe.clock.between(begun, now());
        let span = Nanos::new(span_ns as u64);
        let traffic = match (counts_before, counts_after) {
            (Ok(before), Ok(after)) => {
                after.minus(&before).describe(span, platform.llc_size(), platform.line_size())
            }
            (Err(error), _) | (_, Err(error)) => json!({"not_counted": error.to_string()}),
        };
        let moved = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        let bytes_per_s = moved.map(|bytes| bytes as f64 / span_ns * 1e9);
        Self { probe, alone, loaded: probe.read(), bytes_per_s, traffic }
    }

    /// Describes the classification for the provenance.
    pub(crate) fn describe(&self) -> Value {
        let reading = |reading: &Result<MemoryProbeResult, String>| match reading {
            Ok(reading) => json!({
                "read_bytes_per_s": reading.read_bytes_per_s,
                "access_ns": reading.access_ns,
            }),
            Err(why) => json!({"failed": why}),
        };
        json!({
            "probe": {"cpu": self.probe.cpu.0, "bytes": self.probe.size.get(), "page": "thp"},
            "alone": reading(&self.alone),
            "loaded": reading(&self.loaded),
            "bandwidth_taken": self.bandwidth_taken(),
            "own_bytes_per_s": self.bytes_per_s,
            "llc": self.traffic,
        })
    }

    /// The share of the bandwidth that the load takes from the probe.
    fn bandwidth_taken(&self) -> Option<f64> {
        let (alone, loaded) = (self.alone.as_ref().ok()?, self.loaded.as_ref().ok()?);
        Some((1.0 - loaded.read_bytes_per_s / alone.read_bytes_per_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> Probe {
        let clock = TickClock::calibrate(Duration::from_millis(5));
        Probe { cpu: Cpu(0), size: Bytes::from_mib(1), clock }
    }

    #[test]
    fn what_is_taken_is_the_share_of_the_bandwidth_that_is_gone() {
        let reading = |read_bytes_per_s| Ok(MemoryProbeResult { read_bytes_per_s, access_ns: 1.0 });
        let of = |alone, loaded| Classification {
            probe: probe(),
            alone,
            loaded,
            bytes_per_s: None,
            traffic: Value::Null,
        };
        assert_eq!(of(reading(8e9), reading(6e9)).bandwidth_taken(), Some(0.25));
        assert_eq!(of(reading(8e9), reading(9e9)).bandwidth_taken(), Some(0.0));
        let failed = of(Err("no memory".to_owned()), reading(1.0));
        assert_eq!(failed.bandwidth_taken(), None);
        assert_eq!(failed.describe()["alone"]["failed"], "no memory");
    }

    #[test]
    fn a_probe_reads_faster_in_order_than_along_a_list() {
        let reading = probe().read().unwrap();
        let line_ns = LINE as f64 / reading.read_bytes_per_s * 1e9;
        assert!(line_ns > 0.0 && line_ns < reading.access_ns, "{reading:?}");
    }

    #[test]
    fn a_probe_on_a_cpu_that_is_not_there_says_so() {
        let error = Probe { cpu: Cpu(60_000), ..probe() }.read().unwrap_err();
        assert!(error.contains("60000"), "{error}");
    }
}
