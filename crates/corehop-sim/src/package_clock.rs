// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of a package that was idle as a whole: after a wake-up the clock is slow for some time.
//!
//! Processors lower the clock of a package whose cores have all halted, and raise the clock again only some time
//! after the first core resumes. This affects a job that leaves an idle CPU behind, when it resumes, and a job that
//! moves to an idle package. A move within a package is not affected. The loss is at most the clock deficit over
//! the wake-up time.

use corehop_plan::platform::Platform;

use super::spec::SpecError;
use super::times::{Picos, picos};

/// The times at which packages fell idle, and the time until which the package of the job is slow.
#[derive(Debug, Clone)]
pub(super) struct PackageClock {
    /// The wake-up time of a package; 0 if the platform does not state a wake-up time.
    takes: Picos,
    /// The package of each CPU.
    package: Vec<usize>,
    /// The time at which the job or a preemptor last left each package; 0 for packages without such a visit.
    left: Vec<Picos>,
    up: Picos,
}

impl PackageClock {
    /// Creates the clocks of a machine that has been running for a while.
    ///
    /// # Errors
    /// Returns [`SpecError`] if the wake-up time is in cycles of a clock that the platform does not state.
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

    /// Records that the job or its preemptor leaves `cpu`.
    pub(super) fn leave(&mut self, cpu: usize, now: Picos) {
        self.left[self.package[cpu]] = now;
    }

    /// Records that the job resumes on `cpu`; `alone` states that no other actor ran in the whole package.
    pub(super) fn resume(&mut self, cpu: usize, now: Picos, alone: bool) {
        if alone && now > self.left[self.package[cpu]] {
            self.up = now + self.takes;
        }
    }

    /// Marks the job's package as up to speed.
    pub(super) fn is_up(&mut self) {
        self.up = 0;
    }

    /// The time for which the package has been up to speed at `now`; 0 if the package is still slow.
    pub(super) fn after(&self, now: Picos) -> Picos {
        now.saturating_sub(self.up)
    }

    /// Whether the job's package is still slow at `now`.
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
