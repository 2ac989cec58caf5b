// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the distance of CPUs during placement: lines are exchanged between a pair with a common cache and a pair
//! without.
//!
//! A hypervisor moves the virtual CPUs of its guests every few seconds, so the guest's topology may be wrong. An
//! exchange takes tens of microseconds if both CPUs are free, and some milliseconds otherwise.

use std::time::Duration;

use corehop_plan::host::LineTimes;
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::units::CpuList;

use crate::probe::partners::{CpuPair, Partners};
use corehop_system::clock::TickClock;

/// Threads of another process that are parked on two pairs of CPUs.
#[derive(Debug)]
pub(super) struct Distances {
    partners: Partners,
    near: Option<CpuPair>,
    far: Option<CpuPair>,
}

impl Distances {
    /// Parks the measuring threads on their CPUs. Returns `None` if only one CPU is usable, or the system starts no
    /// more threads; then distances stay unknown.
    pub(super) fn park(platform: &Platform) -> Option<Self> {
        let cpus = platform.usable();
        let pair = |affinities: &[Affinity]| {
            affinities.iter().find_map(|&affinity| platform.pair(&cpus, affinity))
        };
        // SMT siblings have all caches in common, and tell nothing of two cores.
        let near = pair(&[Affinity::L3, Affinity::L2]);
        let far = pair(&[Affinity::Memory]);
        let used = CpuList::new([near, far].into_iter().flatten().flat_map(|(a, b)| [a, b]));
        let clock = || TickClock::calibrate(Duration::from_millis(20));
        let partners = (!used.is_empty()).then(|| Partners::park(&used, clock(), true).ok())??;
        Some(Self { partners, near, far })
    }

    /// Measures the current line times. Returns `None` if no pair could exchange lines.
    pub(super) fn now(&self) -> Option<LineTimes> {
        let time = |pair: Option<CpuPair>| self.partners.exchange(pair?);
        let times = LineTimes { shared_cache_ns: time(self.near), separate_ns: time(self.far) };
        (times != LineTimes::default()).then_some(times)
    }
}

#[cfg(test)]
mod tests {
    use corehop_plan::platform::Fact;

    use super::*;
    use corehop_system::discover::{SysRoot, discover};

    #[test]
    fn of_one_cpu_there_is_no_distance() {
        let mut platform = discover(&SysRoot::live()).unwrap();
        let first = platform.usable().first();
        platform.allowed = Some(Fact::assumed(CpuList::new(first), "one"));
        assert!(Distances::park(&platform).is_none());
    }
}
