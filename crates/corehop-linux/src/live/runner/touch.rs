// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes one timed touch, and collects everything known about its disturbances.

use super::Runner;
use crate::live::counters::Sight;
use crate::live::seat::ThreadResources;
use crate::live::set::expected;
use crate::live::touched::{Touched, missing, net_ns};
use crate::walk::WalkResult;
use corehop_system::clock::{Ticks, clock_rate_spin, now};
use corehop_system::thread::{Usage, current_cpu, usage};

/// The index of the warm touch, the second of a job. The duration of the chunks in this touch predicts the duration of
/// later chunks.
const WARM: usize = 1;

/// The values read before a touch, for comparison afterwards.
struct Before {
    sight: Sight,
    usage: Option<Usage>,
    spin_ns: f64,
}

impl Runner {
    pub(super) fn touch(&mut self, seat: &ThreadResources) {
        let deadline = self.deadline(seat);
        let threshold = self.threshold();
        let before = self.look(seat);
        let begin = now();
        let walked = self.set().walk.walk(seat.rseq.as_ref(), threshold, deadline);
        let ended_on = current_cpu();
        let elapsed_ns = self.setup.clock.between(begin, now());
        let after = self.setup.counters.look(self.here, seat.hardware.as_ref());
        let spin_after = self.setup.clock.nanos(clock_rate_spin());
        let of_touch = before.usage.map(|before| usage().since(before));
        let seen = self.setup.counters.between(&before.sight, &after);
        self.learn(&walked, elapsed_ns);
        let (clock, lines, net_ns) = (self.setup.clock, self.set().lines, self.net_ns(&walked));
        let touched = Touched {
            clock: &clock,
            walked,
            cpu: self.here,
            ended_on,
            lines,
            threshold,
            net_ns,
            elapsed_ns,
            usage: of_touch,
            seen,
            // A core that has just woken up, or just got this code, is slow for the first spins. What
            // is slow before the touch and after it is slow throughout.
            spin_ns: before.spin_ns.min(spin_after),
        };
        let touch = touched.record();
        self.record.touches.push(touch);
    }

    /// The ticks above which a chunk of the next touch has a hole; much less if the touch is warm.
    fn threshold(&mut self) -> Ticks {
        let Some(calibration) = self.setup.calibration else { return Ticks::MAX };
        let warm = self.record.touches.len() == WARM;
        let usual = self.set().warm_chunk;
        if warm && usual.is_finite() {
            calibration.warm_threshold(&self.setup.clock, usual)
        } else {
            calibration.threshold
        }
    }

    /// Reads the counters just before a touch. Counters that need a system call are read only if restartable
    /// sequences do not watch the touch, because the call would evict lines.
    fn look(&mut self, seat: &ThreadResources) -> Before {
        let spin_ns = self.setup.clock.nanos(clock_rate_spin());
        let watched = seat.rseq.is_some() && !self.set().walk.is_own_job();
        let usage = (!watched).then(usage);
        Before {
            sight: self.setup.counters.look(self.here, seat.hardware.as_ref()),
            usage,
            spin_ns,
        }
    }

    /// Updates the expected duration of the next touches.
    fn learn(&mut self, walked: &WalkResult, elapsed_ns: f64) {
        let before = self.record.touches.len();
        let set = self.set();
        if before == 0 {
            let latest = if walked.complete { elapsed_ns } else { elapsed_ns.max(set.cold_ns) };
            set.cold_ns = expected(set.cold_ns, latest);
        } else if before == WARM && walked.holes == 0 {
            set.warm_chunk = walked.ticks as f64 / set.walk.chunks() as f64;
        }
        self.tally.touches_ns += elapsed_ns;
    }

    /// The duration of a walk without its time stamps.
    fn net_ns(&mut self, walked: &WalkResult) -> f64 {
        let (clock, calibration) = (self.setup.clock, self.setup.calibration);
        let set = self.set();
        net_ns(&clock, walked, calibration, set.stamps, &set.walk)
    }

    /// Attributes the disturbances that the kernel counted over the whole job to single touches. If the job lost its
    /// CPU, the touch during which the scheduler ran also counts as having lost the CPU. Time that the hypervisor stole
    /// from the job is attributed to the touch with the largest hole.
    pub(super) fn blame(&mut self) {
        let of_job = self.used.plus(usage().since(self.usage));
        for touch in self.record.touches.iter_mut().filter(|touch| touch.aborts > 0) {
            touch.switches = touch.switches.max(of_job.switches as u32);
        }
        if let Some(last) = self.record.touches.last_mut() {
            last.faults = last.faults.max(of_job.faults as u32);
        }
        let stolen = self.stolen_from_job(&of_job);
        let torn = self.record.touches.iter_mut().filter(|touch| touch.holes > 0);
        if let Some(torn) =
            torn.max_by(|one, other| one.uncertified_ns.total_cmp(&other.uncertified_ns))
        {
            torn.steal_ns = torn.steal_ns.max(stolen);
        }
    }

    /// The time that the hypervisor took from the job while the job was awake, in nanoseconds. The result is the time
    /// for which the job's thread did not run. If the kernel also counts interrupts as time not run, the result is the
    /// stolen time that the CPU's run queue has noticed so far.
    fn stolen_from_job(&self, of_job: &Usage) -> u64 {
        if self.setup.counters.not_run_is_stolen() {
            return missing(self.awake_ns, of_job.cpu_ns);
        }
        let (cpu, before) = self.at_begin;
        let after = self.setup.counters.look(self.here, None);
        let steal_ns = self.setup.counters.between(&before, &after).steal_ns;
        steal_ns.filter(|_| cpu == self.here).unwrap_or_default()
    }
}
