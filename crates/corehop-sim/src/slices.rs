// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slices of last-level caches: the slice to which a line belongs, and the distance of that slice from a core.
//!
//! The latencies of a platform are means over all slices, so that lines of near slices arrive earlier and lines of
//! far slices later than the stated latency.

use corehop_plan::platform::{Index, Platform, Slices as PlatformSlices};
use corehop_plan::units::Cpu;

use super::spec::SpecError;
use super::tags::LineNumber;
use super::times::picos;

/// The slices' distances from each CPU.
#[derive(Debug, Clone)]
pub(super) struct SliceDistances(Vec<OfCpu>);

#[derive(Debug, Clone, Default)]
struct OfCpu {
    index: Index,
    /// The extra latency of a line from each slice, relative to the mean over all slices; empty if the cache is not
    /// sliced.
    farther: Vec<i64>,
}

impl SliceDistances {
    /// The slices that `platform` states; None if the platform states no slices.
    ///
    /// # Errors
    /// Returns [`SpecError`] if a time in cycles has no clock.
    pub(super) fn from_platform(platform: &Platform) -> Result<Option<Self>, SpecError> {
        let cpus: Vec<Cpu> = platform.cpus.value.iter().collect();
        let of = |&cpu: &Cpu| {
            let slices = platform.slices(cpu);
            slices.map_or_else(|| Ok(OfCpu::default()), |slices| OfCpu::new(platform, cpu, slices))
        };
        let all = cpus.iter().map(of).collect::<Result<Vec<OfCpu>, SpecError>>()?;
        let any = all.iter().any(|one| !one.farther.is_empty());
        Ok(any.then_some(Self(all)))
    }

    /// The number of a line's slice in the cache of `cpu`, and the line's extra latency relative to the mean over
    /// all slices.
    #[inline]
    pub(super) fn of(&self, cpu: usize, line: LineNumber) -> (usize, i64) {
        let OfCpu { index, farther } = &self.0[cpu];
        if farther.is_empty() {
            return (0, 0);
        }
        let slice = index.set(line, farther.len() as u32) as usize;
        (slice, farther[slice])
    }
}

impl OfCpu {
    fn new(platform: &Platform, cpu: Cpu, slices: &PlatformSlices) -> Result<Self, SpecError> {
        let count = slices.count.value.max(1);
        let own = stop(platform, cpu, count);
        let columns = slices.columns.as_ref().map(|columns| columns.value.max(1));
        let hops: Vec<u32> = (0..count).map(|slice| hops(own, slice, count, columns)).collect();
        // There and back.
        let both_ways = 2 * picos(platform, cpu, slices.hop.value)? as i64;
        let all: i64 = hops.iter().map(|&hops| i64::from(hops) * both_ways).sum();
        let mean = all / i64::from(count);
        Ok(Self {
            index: slices.index.as_ref().map_or(Index::Modulo, |index| index.value.clone()),
            farther: hops.iter().map(|&hops| i64::from(hops) * both_ways - mean).collect(),
        })
    }
}

/// The stop of the core of `cpu` on the ring or mesh: the cores that share the outermost cache are spread over the
/// stops of its slices.
fn stop(platform: &Platform, cpu: Cpu, count: u32) -> u32 {
    let sharing = platform.last_level(cpu).and_then(|cache| cache.instances.value.containing(cpu));
    let cores = platform.cores.value.iter();
    let cores: Vec<_> = cores
        .filter(|core| sharing.is_some_and(|cpus| !core.intersection(cpus).is_empty()))
        .collect();
    let place = cores.iter().position(|core| core.contains(cpu)).unwrap_or(0);
    (place * count as usize / cores.len().max(1)) as u32
}

/// The distance between two stops: the shorter way round a ring, or along the rows and columns of a mesh.
fn hops(a: u32, b: u32, count: u32, columns: Option<u32>) -> u32 {
    match columns {
        None => a.abs_diff(b).min(count - a.abs_diff(b)),
        Some(columns) => (a / columns).abs_diff(b / columns) + (a % columns).abs_diff(b % columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::{Fact, Latency};

    fn sliced(count: u32, columns: Option<u32>) -> Platform {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let last = platform.caches.iter_mut().max_by_key(|cache| cache.level).unwrap();
        last.mechanism.slices = Some(PlatformSlices {
            count: Fact::assumed(count, ""),
            index: None,
            hop: Fact::assumed(Latency::Picos(1_000), ""),
            columns: columns.map(|columns| Fact::assumed(columns, "")),
        });
        platform
    }

    #[test]
    fn a_slice_is_as_far_as_its_stop_and_the_mean_stays() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        assert!(SliceDistances::from_platform(&platform).unwrap().is_none());
        let farther = |count, columns, cpu| {
            let slices = SliceDistances::from_platform(&sliced(count, columns)).unwrap().unwrap();
            (0..count).map(|line| slices.of(cpu, line).1).collect::<Vec<i64>>()
        };
        // A ring of six stops: 0, 1, 2, 3, 2, 1 hops of two nanoseconds there and back, three on average.
        assert_eq!(farther(6, None, 0), [-3_000, -1_000, 1_000, 3_000, 1_000, -1_000]);
        assert_eq!(farther(6, None, 5), [-1_000, 1_000, 3_000, 1_000, -1_000, -3_000]);
        // Two rows of three: 0, 1, 2 and 1, 2, 3 hops.
        assert_eq!(farther(6, Some(3), 0), [-3_000, -1_000, 1_000, -1_000, 1_000, 3_000]);
        // Three slices for six cores: two cores are at each stop, and CPU 6 is the first one of the second package.
        assert_eq!(farther(3, None, 1), farther(3, None, 6));
        assert_eq!(farther(3, None, 2), [667, -1_333, 667]);
    }

    #[test]
    fn lines_that_follow_each_other_lie_in_slices_that_do_and_an_index_can_change_that() {
        let mut platform = sliced(4, None);
        let slice = |platform: &Platform, line| {
            SliceDistances::from_platform(platform).unwrap().unwrap().of(0, line).0
        };
        assert_eq!([0, 1, 5, 7].map(|line| slice(&platform, line)), [0, 1, 1, 3]);
        let last = platform.caches.iter_mut().max_by_key(|cache| cache.level).unwrap();
        last.mechanism.slices.as_mut().unwrap().index = Some(Fact::assumed(Index::Fold(2), ""));
        assert_eq!([0, 1, 5, 7].map(|line| slice(&platform, line)), [0, 1, 0, 2]);
    }
}
