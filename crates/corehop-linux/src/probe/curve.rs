// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the access time by the size of a shuffled list, on one CPU; the plateaus are the cache
//! levels.

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::platform::observed::{LatencyCurve, ListAccessTime};
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::{Page, WorkingSet};

use super::{ProbeError, on_cpu};
use crate::memory::available_memory;
use crate::set_memory::SetMemory;
use crate::walk::Walk;
use corehop_system::clock::{TickClock, Ticks, now};

/// The smallest and the largest number of walks per list after the warming walk.
const WALKS: [u32; 2] = [2, 200];
const WALKS_NS: f64 = 20e6;
/// The largest size that is measured again in other page frames and at another time, because other
/// activity on a core temporarily takes small caches away, and some page frames map to the same
/// sets.
const SMALL: Bytes = Bytes::from_mib(8);
const PASSES: u32 = 3;
/// The time after which a walk is given up and the curve ends, in nanoseconds.
const PATIENCE_NS: f64 = 3e9;
/// The size from which a list is also measured uncached.
const LARGE: Bytes = Bytes::from_mib(1);
/// The size of the uncached list, large enough to outweigh the gain from open DRAM rows.
const COLD: Bytes = Bytes::from_mib(8);
const COLD_WALKS: u32 = 5;

/// The curve of `cpu`, in huge pages if available, so that the curve shows caches and not page
/// walks.
pub(super) fn on(
    platform: &Platform,
    cpu: Cpu,
    clock: &TickClock,
    progress: &mut dyn FnMut(&str),
) -> Result<LatencyCurve, ProbeError> {
    // A quarter of what is free: the host has other things to do.
    let sizes = platform.curve_sizes(cpu, Bytes::new(available_memory().get() / 4));
    let mut points: Vec<ListAccessTime> = Vec::new();
    for pass in 0..PASSES {
        for (place, &size) in sizes.iter().enumerate() {
            if pass > 0 && (size > SMALL || place >= points.len()) {
                break;
            }
            progress(&format!("{cpu}, list of {size}, pass {} of {PASSES}", pass + 1));
            match (on_cpu(cpu, || point(size, clock))?, points.get_mut(place)) {
                (Some(new), Some(old)) => *old = shorter(*old, new),
                (Some(new), None) => points.push(new),
                (None, _) => break,
            }
        }
    }
    progress(&format!("{cpu}, lines in no cache"));
    let memory = on_cpu(cpu, || cold(None, clock))?;
    let here = platform.node_of(cpu).map(|node| node.id);
    let mut others = platform.nodes.iter().filter(|node| Some(node.id) != here);
    let other = others.find(|node| node.memory.as_ref().is_some_and(|memory| memory.value > COLD));
    let remote = match other {
        Some(node) => on_cpu(cpu, || cold(Some(node.id), clock))?,
        None => None,
    };
    Ok(LatencyCurve { cpu, points, memory, remote })
}

/// The shorter times of two measurements of one size.
fn shorter(a: ListAccessTime, b: ListAccessTime) -> ListAccessTime {
    let cold = [a.cold, b.cold].into_iter().flatten().reduce(f64::min);
    ListAccessTime { size: a.size, warm: a.warm.min(b.warm), cold }
}

fn list(size: Bytes, node: Option<u32>) -> WorkingSet {
    WorkingSet { page: Page::Transparent, node, ..WorkingSet::list(size, 0.0) }
}

/// The shortest walk of a list that is cached as far as it fits, and, for large lists, the shortest
/// uncached walk.
fn point(size: Bytes, clock: &TickClock) -> Result<Option<ListAccessTime>, ProbeError> {
    let set = list(size, None);
    let memory = SetMemory::new(&set, &mut DrawStream::new(size.get(), 0))?;
    let mut walk = Walk::new(&set, memory.linked());
    let per_access = |ticks: Ticks| clock.nanos(ticks) / set.lines() as f64;
    let cold = (size >= LARGE).then(|| {
        memory.flush();
        one(&mut walk, clock)
    });
    if cold.unwrap_or_else(|| one(&mut walk, clock)).is_none() {
        return Ok(None);
    }
    let end = now() + clock.ticks(WALKS_NS);
    let mut shortest: Option<Ticks> = None;
    for count in 0..WALKS[1] {
        if count >= WALKS[0] && now() > end {
            break;
        }
        let Some(ticks) = one(&mut walk, clock) else { break };
        shortest = Some(shortest.map_or(ticks, |other| other.min(ticks)));
    }
    let cold = cold.flatten().map(per_access);
    Ok(shortest.map(|ticks| ListAccessTime { size, warm: per_access(ticks), cold }))
}

/// The time per access to uncached lines in nanoseconds: the shortest of several walks.
fn cold(node: Option<u32>, clock: &TickClock) -> Result<Option<f64>, ProbeError> {
    let set = list(COLD, node);
    let memory = SetMemory::new(&set, &mut DrawStream::new(COLD.get(), 1))?;
    let mut walk = Walk::new(&set, memory.linked());
    let walks = (0..COLD_WALKS).filter_map(|_| {
        memory.flush();
        one(&mut walk, clock)
    });
    Ok(walks.min().map(|ticks| clock.nanos(ticks) / set.lines() as f64))
}

/// The ticks of one walk, if it ended.
fn one(walk: &mut Walk, clock: &TickClock) -> Option<Ticks> {
    let walked = walk.walk(None, Ticks::MAX, now() + clock.ticks(PATIENCE_NS));
    walked.complete.then_some(walked.ticks)
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_looks_the_shorter_times_count_one_by_one() {
        let point = |warm, cold| ListAccessTime { size: Bytes::from_kib(64), warm, cold };
        assert_eq!(shorter(point(3.0, Some(90.0)), point(2.0, Some(95.0))), point(2.0, Some(90.0)));
        assert_eq!(shorter(point(3.0, None), point(4.0, Some(95.0))), point(3.0, Some(95.0)));
    }

    #[test]
    fn a_list_within_the_caches_is_faster_than_the_same_list_outside() {
        let clock = TickClock::calibrate(std::time::Duration::from_millis(20));
        let cpu = corehop_system::thread::affinity().unwrap().first().unwrap();
        let small = on_cpu(cpu, || point(Bytes::from_kib(16), &clock)).unwrap().unwrap();
        let outside = on_cpu(cpu, || cold(None, &clock)).unwrap().unwrap();
        assert!(small.cold.is_none() && small.warm < outside, "{small:?} {outside}");
    }
}
