// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibrates the measured thread before its first job: the cost of a time stamp, and the duration above which a
//! chunk of a walk contains an interruption (a hole).

use corehop_plan::experiment::DrawStream;
use corehop_plan::units::Bytes;
use corehop_plan::workload::WorkingSet;
use serde_json::{Value, json};

use crate::memory::MemoryError;
use crate::set_memory::SetMemory;
use crate::walk::{Walk, stamp_overhead};
use corehop_system::clock::{TickClock, Ticks};

/// A chunk of uncached lines has a hole if it takes this many times its usual duration.
///
/// With a smaller factor, a slow memory row or a page walk would look like an interruption; with a larger factor,
/// interruptions would count as slow memory.
const MARGIN: f64 = 2.0;

/// The share of uncached chunks that counts as the slowest.
const SLOWEST: f64 = 0.01;

/// A chunk of cached lines has a hole if it takes this many times its usual duration.
const WARM_MARGIN: f64 = 20.0;

/// The shortest hole detected among cached lines, in nanoseconds. Shorter delays can come from the core itself (a
/// page walk, a refill of its front end).
const SHORTEST_HOLE_NS: f64 = 800.0;

/// The expected duration of a flush and a walk of uncached lines, in nanoseconds.
const WALK_NS: f64 = 2.5e6;

/// The results of calibrating the time stamps of walks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TickCalibration {
    /// The ticks that the time stamps around a walk take.
    pub(crate) overhead: Ticks,
    /// The ticks above which a chunk of any lines has a hole.
    pub(crate) threshold: Ticks,
}

impl TickCalibration {
    /// Calibrates time stamps and holes on the calling thread's CPU, under the running load. Before each walk, `pause`
    /// receives the time for which the walk may keep the CPU busy, in nanoseconds.
    pub(crate) fn measure(
        clock: &TickClock,
        mut pause: impl FnMut(f64),
    ) -> Result<Self, MemoryError> {
        let set = WorkingSet::list(Bytes::from_kib(256), 0.0);
        let memory = SetMemory::new(&set, &mut DrawStream::new(0, 0))?;
        let mut walk = Walk::new(&set, memory.linked());
        let mut slow_share = |threshold: Ticks| {
            let walks = (0..4).map(|_| {
                pause(WALK_NS);
                memory.flush();
                walk.walk(None, threshold, Ticks::MAX).holes
            });
            walks.sum::<u64>() as f64 / (4 * walk.chunks()) as f64
        };
        // From 30 ns per line on, by a quarter at a time; 20 steps end beyond any memory.
        let candidates =
            std::iter::successors(Some(clock.ticks(500.0)), |ticks| Some(ticks + ticks / 4));
        let slowest = candidates.take(20).find(|&ticks| slow_share(ticks) <= SLOWEST);
        let slowest = slowest.unwrap_or(clock.ticks(30_000.0));
        Ok(Self { overhead: stamp_overhead(), threshold: (slowest as f64 * MARGIN) as Ticks })
    }

    /// The ticks above which a chunk of a warm touch has a hole, if such chunks usually take `usual` ticks.
    pub(crate) fn warm_threshold(&self, clock: &TickClock, usual: f64) -> Ticks {
        let ticks = (usual * WARM_MARGIN).max(SHORTEST_HOLE_NS * clock.hertz() / 1e9);
        (ticks as Ticks).min(self.threshold)
    }

    pub(crate) fn describe(&self, clock: &TickClock) -> Value {
        json!({
            "stamp_overhead_ns": clock.nanos(self.overhead),
            "hole_threshold_ns_per_chunk": clock.nanos(self.threshold),
        })
    }
}
