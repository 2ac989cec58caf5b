// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of a package that was idle as a whole: for some time after it wakes it is slow.
//!
//! Processors lower the clock of a package whose cores have all halted, and are up again only some
//! time after the first of them resumes. This affects a job that leaves an idle CPU behind, when it
//! resumes, and a job that moves to an idle package. A move within a package is not affected. The loss
//! is bounded by the part of that time in which the clock is behind.

use corehop_plan::platform::Platform;

use super::spec::SpecError;
use super::times::{Picos, picos};

/// When packages slept, and until when the one with the job is not up to speed.
#[derive(Debug, Clone)]
pub(super) struct PackageClock {
    /// The wake-up time of a package; none where the platform does not say.
    takes: Picos,
    /// The package of each CPU.
    package: Vec<usize>,
    /// When the job or a preemptor last left each package; the beginning for those that it never was on.
    left: Vec<Picos>,
    up: Picos,
}

impl PackageClock {
    /// The clocks of a machine that has been up for a while.
    ///
    /// # Errors
    /// If the time to wake is in cycles of a clock that is not stated.
    pub(super) fn new(platform: &Platform, package: &[usize]) -> Result<Self, SpecError> {
        let waking = platform.clock.waking.as_ref().filter(|_| platform.clock.after_idle.is_some());
        let first = platform.cpus.value.first().unwrap_or_default();
        let takes = waking.map(|fact| picos(platform, first, fact.value)).transpose()?;
        let packages = package.iter().max().map_or(0, |last| last + 1);
        Ok(Self {
            takes: takes.unwrap_or(0),
            package: package.to_vec(),
            left: vec![0; packages],
            up: 0,
        })
    }

    /// The package of a CPU.
    pub(super) fn package(&self, cpu: usize) -> usize {
        self.package[cpu]
    }

    /// The job, or who had preempted the job, leaves `cpu`.
    pub(super) fn leave(&mut self, cpu: usize, now: Picos) {
        self.left[self.package[cpu]] = now;
    }

    /// The job goes on on `cpu`, where no other actor ran in the whole package if it was `alone`.
    pub(super) fn resume(&mut self, cpu: usize, now: Picos, alone: bool) {
        if alone && now > self.left[self.package[cpu]] {
            self.up = now + self.takes;
        }
    }

    /// The package of the job is up to speed.
    pub(super) fn is_up(&mut self) {
        self.up = 0;
    }

    /// The time between then and `now`, if that was before.
    pub(super) fn after(&self, now: Picos) -> Picos {
        now.saturating_sub(self.up)
    }

    /// Whether it is not, yet.
    #[inline(always)]
    pub(super) fn still(&self, now: Picos) -> bool {
        now < self.up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::platform::{Fact, Hertz, Latency};

    fn clock() -> PackageClock {
        let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
        platform.clock.after_idle = Some(Fact::assumed(Hertz::new(1_330_000_000), ""));
        platform.clock.waking = Some(Fact::assumed(Latency::Picos(40_000_000), ""));
        PackageClock::new(&platform, &[0, 0, 1, 1]).unwrap()
    }

    #[test]
    fn a_package_that_slept_is_slow_for_a_while() {
        let mut clock = clock();
        clock.leave(0, 1_000);
        clock.resume(0, 5_000, true);
        assert!(clock.still(40_004_999) && !clock.still(40_005_000));
        clock.is_up();
        assert!(!clock.still(5_000));
    }

    #[test]
    fn one_where_somebody_ran_is_not() {
        let mut clock = clock();
        clock.leave(0, 1_000);
        // At once, to another core of the package.
        clock.resume(1, 1_000, true);
        assert!(!clock.still(1_000));
        // Later, where others ran meanwhile.
        clock.resume(1, 2_000, false);
        assert!(!clock.still(2_000));
        // To an empty package.
        clock.resume(2, 2_000, true);
        assert!(clock.still(2_000));
    }

    #[test]
    fn without_facts_no_clock_is_ever_slow() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let mut clock = PackageClock::new(&platform, &[0, 0]).unwrap();
        clock.resume(0, 5_000, true);
        assert!(!clock.still(5_000));
    }
}
