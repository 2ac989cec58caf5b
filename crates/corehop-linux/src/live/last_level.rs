// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the share of the last-level cache that a thread can currently use.
//!
//! A guest sees the size of a cache that it may share with invisible neighbours. The probe fills a
//! buffer of that size, then reads some of its lines individually. A line that arrives in the time
//! of the last level was still cached; a line that takes memory latency was not. The method is
//! Prime+Probe over the whole cache (Osvik, Shamir and Tromer, CT-RSA 2006). CacheX (Tofigh et al.,
//! arXiv 2511.09956) uses eviction sets instead. A probe takes some milliseconds, and never more
//! than [`MOST_NS`].

use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::{LINE, Page};

use crate::memory::{Mapping, MemoryError};
use corehop_system::clock::{TickClock, Ticks, now};
use corehop_system::thread::{apart, best_ordinary_policy, set_affinity};

/// The largest size of the probe's buffer.
const MOST: u64 = 32 << 20;
/// The longest duration of a probe, in nanoseconds.
const MOST_NS: f64 = 100e6;
/// The number of lines that are read individually.
const SAMPLED: u64 = 4096;
/// The number of lines for each reference measurement: of the last level, and of memory.
const REFERENCE: u64 = 512;
/// The ratio of memory latency to last-level latency below which the probe cannot distinguish them.
const APART: f64 = 1.3;

/// The probe's buffer.
#[derive(Debug)]
pub(super) struct LastLevelProbe {
    mapping: Mapping,
    /// The number of lines in the buffer, a power of two.
    lines: u64,
    /// A number of lines that exceeds the private caches and fits into the last level.
    near: u64,
    clock: TickClock,
}

/// The result of a probe of the last-level cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BufferRetention {
    /// The share of the buffer that was still cached.
    pub(super) share: f64,
    /// The median time of a line in the last level, in nanoseconds, including time stamps.
    pub(super) near_ns: f64,
    /// The median time of a line in memory, in nanoseconds, including time stamps.
    pub(super) far_ns: f64,
}

impl LastLevelProbe {
    /// Allocates a buffer of the size of the last level, at most [`MOST`], rounded down to a power of two. Returns
    /// `None` if the platform has no last level larger than twice its private caches.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory.
    pub(super) fn new(platform: &Platform, clock: TickClock) -> Result<Option<Self>, MemoryError> {
        let private = platform.largest_private_cache().map_or(0, Bytes::get);
        let near = (2 * private.max(1 << 20)).next_power_of_two();
        let size = platform.llc_size().map_or(0, Bytes::get).min(MOST);
        if size < 2 * near {
            return Ok(None);
        }
        let size = 1 << size.ilog2();
        let mapping = Mapping::new(Bytes::new(size), Page::Transparent, None)?;
        Ok(Some(Self { mapping, lines: size / LINE, near: near / LINE, clock }))
    }

    /// Runs a probe in a separate thread on `cpu`. Returns `None` if the thread could not run on `cpu`, was disturbed
    /// for too long, or cannot distinguish the last level from memory.
    pub(super) fn probe(&mut self, cpu: Cpu) -> Option<BufferRetention> {
        let probe = move || {
            set_affinity([cpu]).ok()?;
            best_ordinary_policy();
            self.here()
        };
        apart(probe).ok().flatten()
    }

    fn here(&self) -> Option<BufferRetention> {
        let begun = now();
        let near_ns = self.median_ns(self.near, |probe| {
            (0..2).for_each(|_| probe.touch(probe.near));
        })?;
        let far_ns = self.median_ns(self.near, |probe| probe.mapping.flush())?;
        if far_ns < near_ns * APART {
            return None;
        }
        self.touch(self.lines);
        let limit = self.clock.ticks((near_ns * far_ns).sqrt());
        let kept = self.times(self.lines, SAMPLED).filter(|&ticks| ticks < limit).count();
        let in_time = self.clock.between(begun, now()) < MOST_NS;
        let share = kept as f64 / SAMPLED.min(self.lines) as f64;
        in_time.then_some(BufferRetention { share, near_ns, far_ns })
    }

    /// The median time of a line among the first `lines` after `prepare`.
    fn median_ns(&self, lines: u64, prepare: impl Fn(&Self)) -> Option<f64> {
        prepare(self);
        let mut times: Vec<Ticks> = self.times(lines, REFERENCE).collect();
        times.sort_unstable();
        times.get(times.len() / 2).map(|&ticks| self.clock.nanos(ticks))
    }

    /// Reads each of the first `lines` lines once, without waiting for the previous read.
    fn touch(&self, lines: u64) {
        let sum = order(lines).map(|line| self.read(line)).fold(0, u64::wrapping_add);
        std::hint::black_box(sum);
    }

    /// The times of `count` lines among the first `lines`, one after the other.
    fn times(&self, lines: u64, count: u64) -> impl Iterator<Item = Ticks> + '_ {
        let stride = (lines / count).max(1);
        order(lines / stride).map(move |at| {
            let begin = now();
            std::hint::black_box(self.read(at * stride));
            now() - begin
        })
    }

    fn read(&self, line: u64) -> u64 {
        let address = self.mapping.address() + line * LINE;
        // SAFETY: the line lies in the mapping, which is not written after it is made.
        unsafe { (address as *const u64).read_volatile() }
    }
}

/// Every number below `count` (a power of two) once, in an order that no prefetcher follows: a
/// congruential generator of full period (Hull and Dobell, SIAM Review 4, 1962).
fn order(count: u64) -> impl Iterator<Item = u64> {
    let mut at = 0_u64;
    (0..count).map(move |_| {
        at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) & (count - 1);
        at
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_line_comes_once_and_neighbours_do_not_follow_each_other() {
        for count in [1_u64, 2, 64, 4096] {
            let mut seen: Vec<u64> = order(count).collect();
            let apart = seen.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 8).count();
            assert!(count < 4096 || apart * 10 > seen.len() * 9, "{count}: {apart}");
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn a_platform_whose_last_level_is_no_larger_than_its_private_caches_has_no_probe() {
        let clock = TickClock::of_rate(1.0);
        let toml = |llc: &str| {
            format!(
                "schema = 1\nid = \"box\"\nname = \"box\"\n\
                 cpus = {{ value = \"0-1\", source = \"assumed\" }}\n\
                 packages = {{ value = \"0-1 by 2\", source = \"assumed\" }}\n\
                 cores = {{ value = \"0-1 by 1\", source = \"assumed\" }}\n\
                 [[cache]]\nlevel = 2\nkind = \"unified\"\n\
                 size = {{ value = \"1 MiB\", source = \"assumed\" }}\n\
                 instances = {{ value = \"0-1 by 1\", source = \"assumed\" }}\n\
                 [[cache]]\nlevel = 3\nkind = \"unified\"\n\
                 size = {{ value = \"{llc}\", source = \"assumed\" }}\n\
                 instances = {{ value = \"0-1 by 2\", source = \"assumed\" }}\n"
            )
        };
        let of = |llc: &str| {
            let platform = Platform::from_toml(&toml(llc)).unwrap();
            LastLevelProbe::new(&platform, clock).unwrap().map(|probe| probe.lines * LINE)
        };
        assert_eq!(of("2 MiB"), None);
        assert_eq!(of("12 MiB"), Some(8 << 20));
        assert_eq!(of("480 MiB"), Some(MOST));
    }

    #[test]
    fn a_probe_is_bounded_and_its_share_is_a_share() {
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let mapping = Mapping::new(Bytes::from_mib(8), Page::Transparent, None).unwrap();
        let mut probe =
            LastLevelProbe { mapping, lines: (8 << 20) / LINE, near: (2 << 20) / LINE, clock };
        // Where the two cannot be told apart, or others have the CPU, there is no share.
        let found: Vec<BufferRetention> = (0..10).filter_map(|_| probe.probe(cpu)).collect();
        for kept in found {
            assert!((0.0..=1.0).contains(&kept.share) && kept.far_ns > kept.near_ns, "{kept:?}");
        }
    }
}
