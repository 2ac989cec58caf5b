// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of one job: raw intervals, and the evidence that they are undisturbed or disturbed.

use crate::units::Cpu;
use crate::words::words;

/// The record of the times and counts that corehop measured for one job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobRecord {
    /// The phase to which the job belongs, counted from 0.
    pub phase: usize,
    /// The position of the job in its phase, counted from 0.
    pub job: usize,
    /// The number of the draw of everything that a process draws when it starts (frames, order, threads),
    /// or `None` if the plan fixes the draws.
    pub draw: Option<u64>,
    /// The line exchanges before and after the job's batch, or `None` if no other CPU was available.
    pub exchange: Option<BatchExchange>,
    /// The share of the declared last-level cache that a probe around the job's phase kept, or `None`
    /// without a probe.
    pub llc_share: Option<f64>,
    /// The start of the job, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// The scheduling policy of the job, with its priority (`fifo:2`, `other:-20`).
    pub policy: String,
    /// The share of the job's working set on huge pages.
    pub huge_share: f64,
    /// The timed touches of the job, in order.
    pub touches: Vec<Touch>,
    /// The absences of the job, in order.
    pub leaves: Vec<Leave>,
}

/// The distance of two CPUs around a batch of jobs: the time of a cache line from one CPU to the other, in
/// nanoseconds for one way, or `None` if the other CPU was not available in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchExchange {
    /// The CPU of the job, from which the exchange was measured.
    pub from: Cpu,
    /// The other CPU of the exchange.
    pub with: Cpu,
    /// The time of the exchange before the batch.
    pub before_ns: Option<f64>,
    /// The time of the exchange after the batch.
    pub after_ns: Option<f64>,
}

words! {
    /// The evidence that a touch was not disturbed, from strong to weak.
    Certificate, "a certificate" {
        /// The walk's own time stamps and the kernel's restartable sequences show no disturbance.
        RseqAndGaps = "rseq+gaps",
        /// The walk's own time stamps and the thread's count of involuntary switches show no disturbance.
        GapsAndSwitches = "gaps+switches",
        /// Only the thread's count of involuntary switches shows no disturbance; gaps inside the touch remain
        /// undetected.
        Switches = "switches",
        /// Nothing can disturb a simulated machine.
        Simulated = "simulated",
    }
}

words! {
    /// The cause that makes a sample invalid, or that segmentation repaired.
    Cause, "a cause" {
        /// Another thread ran on the CPU during a touch.
        Preempted = "preempted",
        /// The hypervisor took the CPU during a touch, according to the kernel's steal time.
        Steal = "steal",
        /// The CPU served an interrupt during a touch.
        Interrupt = "interrupt",
        /// The time stamps of a touch have a hole that no other cause explains: a VM exit, an SMI or an NMI.
        Gap = "gap",
        /// The kernel served a page fault during a touch.
        Fault = "fault",
        /// A touch ran or ended on another CPU than planned.
        WrongCpu = "wrong_cpu",
        /// corehop gave up a touch at its real-time deadline.
        Deadline = "deadline",
        /// The core's speed changed between the warm and the resumed touch, because the clock rate changed or an SMT
        /// sibling became busy.
        Frequency = "frequency",
        /// The preemptor or the load made no progress during the job's absence.
        LoadAbsent = "load_absent",
        /// The job could no longer use a planned CPU, because the CPU went offline or left the job's cpuset.
        CpuTaken = "cpu_taken",
        /// The distance between the sample's two CPUs changed during its batch, because the hypervisor moved a
        /// virtual CPU.
        ClassChanged = "class_changed",
    }
}

/// A touch is one timed pass of a job over its working set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Touch {
    /// The CPU on which the touch was to run.
    pub cpu: Cpu,
    /// The CPU on which the touch ended.
    pub ended_on: Cpu,
    /// Whether the touch's CPU was no longer available to the thread at the end: offline, or out of the
    /// thread's cpuset.
    pub cpu_taken: bool,
    /// The time of the touch in nanoseconds, without the cost of the time stamps.
    pub ns: f64,
    /// The number of lines that the touch was to visit.
    pub lines: u64,
    /// The number of lines in undisturbed segments.
    pub lines_certified: u64,
    /// The time spent in disturbed segments, in nanoseconds.
    pub uncertified_ns: f64,
    /// The number of segments with a hole: a segment whose time exceeds a threshold.
    pub holes: u32,
    /// The shortest disturbance that shows as a hole, in nanoseconds; 0 if no disturbance shows.
    pub hole_ns: f64,
    /// The number of times that the scheduler intervened (restartable-sequence aborts).
    pub aborts: u32,
    /// The number of the thread's involuntary context switches during the touch.
    pub switches: u32,
    /// The number of page faults during the touch.
    pub faults: u32,
    /// The time that the hypervisor stole according to the kernel, in nanoseconds.
    pub steal_ns: u64,
    /// The number of interrupts served on the CPU during the touch, or `None` if they cannot be counted.
    pub interrupts: Option<u32>,
    /// The number of the thread's last-level cache misses during the touch, or `None` if they cannot be
    /// counted.
    pub misses: Option<u64>,
    /// Whether an SMT sibling had a thread to run during the touch, or `None` if the core has no sibling,
    /// or if no source reports it.
    pub sibling_busy: Option<bool>,
    /// The time of a fixed spin just before the touch, in nanoseconds, which shows the core's clock rate.
    pub spin_ns: f64,
    /// Whether the touch visited all its lines.
    pub complete: bool,
    /// The evidence that the touch was not disturbed.
    pub certificate: Certificate,
}

/// The smallest share of certified lines from which the time of a whole touch is estimated.
///
/// Below this share, the lines evicted by the disturbance itself are too many compared with the measured
/// delay.
pub const REPAIRABLE: f64 = 0.9;

/// The largest share of a touch's time that interrupts can take if they are too short to show as holes.
const HIDDEN: f64 = 0.02;

impl Touch {
    /// Returns the time of an undisturbed touch in nanoseconds: the measured time, or, if a few segments
    /// were disturbed, the time of the certified segments scaled to all lines. Returns `None` if too few
    /// lines are certified.
    pub fn certified_ns(&self) -> Option<f64> {
        if self.lines_certified == self.lines {
            return Some(self.ns);
        }
        let share = self.lines_certified as f64 / self.lines as f64;
        // The stamps' own time is out of the whole, and still in the segments: of a touch that was nearly all disturbed less
        // than nothing would be left.
        let left = self.ns - self.uncertified_ns;
        (share >= REPAIRABLE && left > 0.0).then(|| left / share)
    }

    /// Returns the most specific cause of the touch's uncertified segments for which there is evidence.
    pub fn gap_cause(&self) -> Option<Cause> {
        if self.switches > 0 {
            Some(Cause::Preempted)
        } else if self.lines_certified == self.lines {
            None
        } else if self.steal_ns as f64 > self.uncertified_ns / 2.0 {
            Some(Cause::Steal)
        } else if self.interrupts.is_some_and(|count| count > 0) {
            Some(Cause::Interrupt)
        } else {
            Some(Cause::Gap)
        }
    }

    /// Returns whether interrupts without a hole took a relevant share of the touch: their place and
    /// length are unknown, so that they cannot be cut out.
    pub fn interrupted_unseen(&self) -> bool {
        let unseen = self.interrupts.unwrap_or(0).saturating_sub(self.holes);
        f64::from(unseen) * self.hole_ns > HIDDEN * self.ns
    }

    /// Returns the causes that make the touch unusable, in the order of [`Cause`].
    pub fn disturbances(&self) -> Vec<Cause> {
        let unusable_gap = match self.certified_ns() {
            // A thread that had the CPU in between has used the caches too: that is never repaired,
            // however short it was.
            Some(_) if self.switches == 0 => None,
            _ => self.gap_cause(),
        };
        let also = [
            (self.interrupted_unseen() && unusable_gap != Some(Cause::Interrupt), Cause::Interrupt),
            (self.faults > 0, Cause::Fault),
            (self.ended_on != self.cpu && !self.cpu_taken, Cause::WrongCpu),
            (!self.complete, Cause::Deadline),
            (self.cpu_taken, Cause::CpuTaken),
        ];
        let also = also.into_iter().filter_map(|(is, cause)| is.then_some(cause));
        unusable_gap.into_iter().chain(also).collect()
    }
}

/// The record of one absence from the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leave {
    /// The CPU that the job left.
    pub from: Cpu,
    /// The CPU on which the job resumed.
    pub to: Cpu,
    /// The requested length of the absence, in nanoseconds.
    pub requested_ns: u64,
    /// The actual length, in nanoseconds; between two CPUs the length is corrected for the offset of their
    /// clocks.
    pub length_ns: f64,
    /// The error bound of the length, in nanoseconds: the bound of the clock offset, or 0 if the job
    /// stayed on its CPU.
    pub bound_ns: f64,
    /// The direct cost of moving to the other CPU, in nanoseconds, apart from the cache cost.
    pub switch_ns: Option<f64>,
    /// The number of lines that the preemptor on this CPU walked during the absence.
    pub preemptor_lines: Option<u64>,
    /// The number of bytes that the background load moved on all CPUs during the absence.
    pub load_bytes: Option<u64>,
    /// The number of switches between threads during the absence, on the CPU on which the job resumed.
    pub switches: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch() -> Touch {
        Touch {
            cpu: Cpu(0),
            ended_on: Cpu(0),
            cpu_taken: false,
            ns: 1_000.0,
            lines: 100,
            lines_certified: 100,
            uncertified_ns: 0.0,
            holes: 0,
            hole_ns: 10.0,
            aborts: 0,
            switches: 0,
            faults: 0,
            steal_ns: 0,
            interrupts: None,
            misses: None,
            sibling_busy: None,
            spin_ns: 100.0,
            complete: true,
            certificate: Certificate::RseqAndGaps,
        }
    }

    #[test]
    fn a_clean_touch_is_itself() {
        assert_eq!(touch().certified_ns(), Some(1_000.0));
        assert_eq!(touch().disturbances(), []);
        assert_eq!(touch().gap_cause(), None);
    }

    #[test]
    fn a_hole_in_a_few_segments_is_cut_out_and_the_rest_scaled() {
        let hole = Touch { ns: 6_000.0, lines_certified: 95, uncertified_ns: 5_050.0, ..touch() };
        assert_eq!(hole.certified_ns(), Some(1_000.0));
        assert_eq!((hole.disturbances(), hole.gap_cause()), (vec![], Some(Cause::Gap)));
    }

    #[test]
    fn a_touch_of_which_the_disturbed_segments_took_all_the_time_is_useless_and_not_negative() {
        let lost = Touch { ns: 5_050.0, lines_certified: 95, uncertified_ns: 5_076.0, ..touch() };
        assert_eq!((lost.certified_ns(), lost.disturbances()), (None, vec![Cause::Gap]));
    }

    #[test]
    fn too_few_certified_lines_make_a_touch_useless() {
        let torn = Touch { lines_certified: 89, uncertified_ns: 500.0, ..touch() };
        assert_eq!((torn.certified_ns(), torn.disturbances()), (None, vec![Cause::Gap]));
    }

    #[test]
    fn a_touch_during_which_another_thread_ran_is_never_repaired() {
        let preempted = Touch { lines_certified: 99, switches: 1, ..touch() };
        assert_eq!(preempted.disturbances(), [Cause::Preempted]);
        let too_short_for_a_hole = Touch { switches: 1, ..touch() };
        assert_eq!(too_short_for_a_hole.disturbances(), [Cause::Preempted]);
    }

    #[test]
    fn interrupts_that_show_as_no_hole_count_once_they_may_have_taken_two_hundredths() {
        let counted = |interrupts, holes| Touch { interrupts: Some(interrupts), holes, ..touch() };
        for (touch, causes) in [
            (counted(2, 0), vec![]),
            (counted(3, 0), vec![Cause::Interrupt]),
            (counted(3, 1), vec![]),
            (Touch { interrupts: None, ..counted(3, 0) }, vec![]),
        ] {
            assert_eq!(touch.disturbances(), causes, "{touch:?}");
        }
        let torn = Touch { lines_certified: 50, uncertified_ns: 500.0, ..counted(9, 1) };
        assert_eq!(torn.disturbances(), [Cause::Interrupt]);
    }

    #[test]
    fn the_cause_of_a_hole_is_the_most_specific_that_has_evidence() {
        let hole = Touch { lines_certified: 50, uncertified_ns: 500.0, ..touch() };
        for (touch, cause) in [
            (Touch { switches: 1, steal_ns: 900, ..hole }, Cause::Preempted),
            (Touch { steal_ns: 400, interrupts: Some(1), ..hole }, Cause::Steal),
            (Touch { steal_ns: 100, interrupts: Some(1), ..hole }, Cause::Interrupt),
            (Touch { interrupts: Some(0), ..hole }, Cause::Gap),
        ] {
            assert_eq!(touch.gap_cause(), Some(cause));
        }
        let rest = Touch { faults: 1, ended_on: Cpu(1), complete: false, ..touch() };
        assert_eq!(rest.disturbances(), [Cause::Fault, Cause::WrongCpu, Cause::Deadline]);
        let offline = Touch { ended_on: Cpu(1), cpu_taken: true, ..touch() };
        assert_eq!(offline.disturbances(), [Cause::CpuTaken], "not its own fault");
    }
}
