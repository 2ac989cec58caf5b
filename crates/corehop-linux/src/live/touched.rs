// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes a touch from a walk and its counters.

use corehop_plan::samples::{Certificate, Touch};
use corehop_plan::units::Cpu;
use corehop_plan::workload::CHUNK_LINES;

use super::calibrate::TickCalibration;
use super::counters::EventCounts;
use crate::walk::{StampCost, Walk, WalkResult};
use corehop_system::clock::{TickClock, Ticks};
use corehop_system::thread::{Usage, affinity};

/// The longest duration of an ordinary interrupt in a touch without internal time stamps, in nanoseconds.
const UNSTAMPED_HOLE_NS: f64 = 5_000.0;

/// A finished walk, and what is known about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touched<'a> {
    pub(super) clock: &'a TickClock,
    pub(super) walked: WalkResult,
    /// The CPU on which the walk should run, and the CPU on which it ended.
    pub(super) cpu: Cpu,
    pub(super) ended_on: Cpu,
    pub(super) lines: u64,
    /// The ticks above which a chunk had a hole.
    pub(super) threshold: Ticks,
    /// The duration of the walk without its time stamps, in nanoseconds.
    pub(super) net_ns: f64,
    /// The duration of the walk including its time stamps, in nanoseconds.
    pub(super) elapsed_ns: f64,
    /// The kernel's counts for the thread, if requested.
    pub(super) usage: Option<Usage>,
    pub(super) seen: EventCounts,
    /// The faster of the spin measurements before and after the walk.
    pub(super) spin_ns: f64,
}

impl Touched<'_> {
    /// Builds the touch; call this on the walking thread immediately after the walk.
    pub(super) fn record(&self) -> Touch {
        let walked = &self.walked;
        let switches = self.usage.map_or(0, |usage| usage.switches);
        let steal_ns = self.usage.map_or(0, |usage| missing(self.elapsed_ns, usage.cpu_ns));
        Touch {
            cpu: self.cpu,
            ended_on: self.ended_on,
            cpu_taken: self.ended_on != self.cpu && !may_use(self.cpu),
            ns: self.net_ns,
            lines: self.lines,
            lines_certified: self.lines - uncertified_lines(walked, self.lines, switches),
            uncertified_ns: self.clock.nanos(walked.lost),
            holes: u32::try_from(walked.holes).unwrap_or(u32::MAX),
            hole_ns: self.shortest_hole_ns(),
            aborts: walked.aborts,
            switches: u32::try_from(switches).unwrap_or(u32::MAX),
            faults: self.usage.map_or(0, |usage| usage.faults) as u32,
            steal_ns,
            interrupts: self.seen.interrupts.filter(|_| self.ended_on == self.cpu),
            misses: self.seen.misses,
            sibling_busy: self.seen.sibling_busy,
            spin_ns: self.spin_ns,
            complete: walked.complete,
            certificate: certificate(walked),
        }
    }

    fn shortest_hole_ns(&self) -> f64 {
        if self.walked.stamped { self.clock.nanos(self.threshold) } else { UNSTAMPED_HOLE_NS }
    }
}

/// The duration of a walk without its time stamps, in nanoseconds.
pub(super) fn net_ns(
    clock: &TickClock,
    walked: &WalkResult,
    calibration: Option<TickCalibration>,
    stamps: Option<StampCost>,
    walk: &Walk,
) -> f64 {
    let around = calibration.map_or(0, |calibration| calibration.overhead);
    let inside = stamps.unwrap_or_default().of(walk.chunks());
    clock.nanos(walked.ticks.saturating_sub(around + inside))
}

/// The part of the elapsed time in which this thread did not run by the kernel's accounting; zero if this part is below
/// the accuracy of the comparison.
pub(super) fn missing(elapsed_ns: f64, cpu_ns: u64) -> u64 {
    const ACCURACY_NS: f64 = 2_000.0;
    let missing = elapsed_ns - cpu_ns as f64;
    if missing > ACCURACY_NS { missing as u64 } else { 0 }
}

/// The number of lines in chunks with a hole. For a touch without internal stamps, only one thing is known: whether
/// the thread kept its CPU.
fn uncertified_lines(walked: &WalkResult, lines: u64, switches: u64) -> u64 {
    match (walked.stamped, switches) {
        (true, _) => (walked.holes * CHUNK_LINES).min(lines),
        (false, 0) => 0,
        (false, _) => lines,
    }
}

/// Whether `cpu` is online and allowed for this thread.
fn may_use(cpu: Cpu) -> bool {
    affinity().is_ok_and(|cpus| cpus.contains(cpu))
}

const fn certificate(walked: &WalkResult) -> Certificate {
    match (walked.stamped, walked.watched) {
        (true, true) => Certificate::RseqAndGaps,
        (true, false) => Certificate::GapsAndSwitches,
        (false, _) => Certificate::Switches,
    }
}
