// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times of waking a thread on one CPU and on two CPUs, which the placer uses for predictions.

use corehop_plan::host::wakes::{WakeArm, WakeBatches};

/// Half the time from a wake-up until the other thread has answered with a wake-up, in nanoseconds; `None` if the
/// host has no such pair of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeTimes {
    /// The time between threads on one CPU.
    pub same_cpu_ns: f64,
    /// The time between two CPUs with a common cache.
    pub shared_cache_ns: Option<f64>,
    /// The time between two CPUs without a common cache.
    pub separate_ns: Option<f64>,
}

impl WakeTimes {
    /// The assumed times if nothing could be measured: typical values of a server, for a switch and an interrupt.
    pub const ASSUMED: Self =
        Self { same_cpu_ns: 2_000.0, shared_cache_ns: Some(8_000.0), separate_ns: None };

    /// Computes the times from batches; `None` if no batch ran on one CPU.
    pub fn of(all: &WakeBatches) -> Option<Self> {
        let separate_ns = quartile(all, WakeArm::Separate);
        Some(Self {
            same_cpu_ns: quartile(all, WakeArm::SameCpu)?,
            shared_cache_ns: quartile(all, WakeArm::OtherCpu),
            separate_ns,
        })
    }
}

/// Returns the lower quartile of a condition's batches; corehop does not use the median because other programs make
/// some batches longer.
fn quartile(all: &WakeBatches, arm: WakeArm) -> Option<f64> {
    let mut times: Vec<f64> =
        all.batches.iter().filter(|it| it.arm == arm).map(|it| it.ns).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 4).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::host::wakes::WakeBatch;

    #[test]
    fn a_quarter_of_the_batches_is_faster_and_a_host_without_batches_has_no_times() {
        let batch = |arm, ns| WakeBatch { arm, ns, idle: None, crossed: 0.0 };
        let same = [4.0, 1.0, 3.0, 2.0].map(|ns| batch(WakeArm::SameCpu, ns));
        let all = WakeBatches {
            batches: [&same[..], &[batch(WakeArm::Separate, 9.0)]].concat(),
            ..WakeBatches::default()
        };
        let times = WakeTimes::of(&all).unwrap();
        assert!((times.same_cpu_ns - 2.0).abs() < 1e-9, "{times:?}");
        assert_eq!((times.shared_cache_ns, times.separate_ns), (None, Some(9.0)));
        assert_eq!(WakeTimes::of(&WakeBatches::default()), None);
    }
}
