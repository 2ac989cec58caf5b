// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a wake-up, its parts, and whether one setting of the host is expected to make all wake-ups cheaper.
//!
//! A wake-up on the waker's CPU is a context switch. A wake-up on another CPU costs an interrupt in addition, and an
//! idle-state exit if that CPU was idle. A `SCHED_IDLE` thread that spins on the other CPU prevents the idle state
//! but not the interrupt. So the difference between both conditions is the cost of the idle state. An idle CPU that
//! polls needs neither, because the kernel only writes a cache line that the poll reads. So the expected cost with
//! such a setting lies between two values: the cost of a switch plus a cache line, and the cost of a wake-up on a CPU
//! that is kept awake.

use serde::{Deserialize, Serialize};

use corehop_plan::host::wakes::{IdleWait, WakeArm, WakeBatch, WakeBatches};
use corehop_plan::units::Cpu;
use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::median_interval;

/// The error probability of each interval.
const ALPHA: f64 = 0.05;
/// The factor by which wake-ups of an idle CPU must become cheaper for a setting to be mentioned.
const WORTH: f64 = 1.25;

/// A median with its 95 % interval, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WakeEstimate {
    /// The median of the batches.
    pub ns: f64,
    /// The lower end of the median's 95 % interval.
    pub low: f64,
    /// The upper end of the median's 95 % interval.
    pub high: f64,
    /// The number of batches.
    pub batches: usize,
}

/// The costs of wake-ups on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WakeCost {
    /// The two CPUs of the wake-ups; `None` if only one CPU is usable.
    pub cpus: Option<(Cpu, Cpu)>,
    /// The cost of a wake-up on the waker's CPU.
    pub same_cpu: Option<WakeEstimate>,
    /// The cost of a wake-up on another CPU that was idle.
    pub idle: Option<WakeEstimate>,
    /// Whether the host counts how often a CPU becomes idle. If the host does not count idle periods, `idle` includes
    /// all wake-ups on the other CPU.
    pub idle_is_counted: bool,
    /// The cost of a wake-up on another CPU that other threads used at least at times.
    pub busy: Option<WakeEstimate>,
    /// The cost of a wake-up on another CPU that a `SCHED_IDLE` thread kept awake.
    pub awake: Option<WakeEstimate>,
    /// The one-way time of a cache line between the two CPUs, in ns.
    pub line_ns: Option<f64>,
    /// The share of wake-ups that happened on another CPU when the kernel chose the CPU.
    pub crossed: Option<f64>,
    /// The way in which an idle CPU waits; `None` if the host does not report the way.
    pub wait: Option<IdleWait>,
    /// The expected effect of the setting in `wait`; `None` if no effect is expected.
    pub expected: Option<SettingEffect>,
    /// The reason why some of these values are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The expected effect of a setting, derived from measurements without the setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SettingEffect {
    /// The lowest expected cost of waking an idle CPU with the setting, in ns.
    pub least_ns: f64,
    /// The highest expected cost of waking an idle CPU with the setting, in ns.
    pub most_ns: f64,
    /// The smallest expected factor by which the wake-up of an idle CPU becomes cheaper.
    pub least_gain: f64,
    /// The largest expected factor by which the wake-up of an idle CPU becomes cheaper.
    pub most_gain: f64,
}

/// The parts of a wake-up of an idle CPU, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeUpBreakdown {
    /// The switch to the woken thread, which is also needed on one CPU.
    pub switch: f64,
    /// The interrupt to another CPU, which is needed even if that CPU is awake.
    pub interrupt: f64,
    /// The time to leave the idle state.
    pub idle: f64,
}

impl WakeCost {
    /// Computes the costs from the measured batches.
    pub fn of(batches: &WakeBatches, wait: Option<IdleWait>) -> Self {
        let estimate = |is_it: &dyn Fn(&WakeBatch) -> bool| {
            estimate(batches.batches.iter().filter(|it| is_it(it)).map(|it| it.ns))
        };
        let on_other = |it: &WakeBatch| it.arm == WakeArm::OtherCpu;
        let idle_is_counted = batches.batches.iter().any(|it| it.idle.is_some());
        let free: Vec<f64> = batches
            .batches
            .iter()
            .filter(|it| it.arm == WakeArm::Free)
            .map(|it| it.crossed)
            .collect();
        let mut cost = Self {
            cpus: batches.cpus,
            same_cpu: estimate(&|it| it.arm == WakeArm::SameCpu),
            idle: estimate(&|it| on_other(it) && it.idle != Some(false)),
            idle_is_counted,
            busy: estimate(&|it| on_other(it) && it.idle == Some(false)),
            // A CPU that became idle all the same was not kept awake.
            awake: estimate(&|it| it.arm == WakeArm::KeptAwake && it.idle != Some(true)),
            line_ns: batches.line_ns,
            crossed: (!free.is_empty()).then(|| free.iter().sum::<f64>() / free.len() as f64),
            wait,
            expected: None,
            trouble: batches.trouble.clone(),
        };
        cost.expected = cost.expect();
        cost
    }

    /// The expected effect of the host's setting; `None` if the effect is unknown or too small to mention.
    fn expect(&self) -> Option<SettingEffect> {
        let setting = self.wait.as_ref()?.setting.as_ref()?;
        let (idle, same) = (self.idle?, self.same_cpu?);
        let line = self.line_ns.unwrap_or(0.0);
        let least_ns = same.low + line + setting.left_ns;
        // At worst the interrupt is sent as before, and only the idle state is gone; what is unknown helps nothing.
        let most_ns = self.awake.map_or(idle.high, |it| it.high + setting.left_ns).min(idle.high);
        let surely = idle.low > WORTH * (same.high + line + setting.left_ns);
        surely.then(|| SettingEffect {
            least_ns,
            most_ns: most_ns.max(least_ns),
            least_gain: (idle.low / most_ns).max(1.0),
            most_gain: idle.high / least_ns,
        })
    }

    /// Returns whether an idle CPU is woken faster than an awake CPU, which means that no interrupt is sent.
    pub fn polls(&self) -> bool {
        self.idle.zip(self.awake).is_some_and(|(idle, awake)| idle.high < awake.low)
    }

    /// Returns the parts of waking an idle CPU; `None` if some part was not measured, or the CPU polls.
    pub fn parts(&self) -> Option<WakeUpBreakdown> {
        let (same, idle, awake) = (self.same_cpu?, self.idle?, self.awake?);
        if self.polls() {
            return None;
        }
        let part = |more: f64, less: f64| (more - less).max(0.0);
        Some(WakeUpBreakdown {
            switch: same.ns,
            interrupt: part(awake.ns, same.ns),
            idle: part(idle.ns, awake.ns.max(same.ns)),
        })
    }
}

/// The median of some values; `None` if there are too few for an interval.
fn estimate(values: impl Iterator<Item = f64>) -> Option<WakeEstimate> {
    let values: Vec<f64> = values.collect();
    let ordered = Ordered::new(&values).ok()?;
    let median = median_interval(&ordered, ALPHA).ok()?;
    let interval = median.interval()?;
    Some(WakeEstimate {
        ns: median.estimate,
        low: interval.low,
        high: interval.high,
        batches: values.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{batches, halts, seen};

    #[test]
    fn a_halt_and_an_interrupt_are_told_apart_by_the_thread_that_keeps_the_cpu_awake() {
        let cost = WakeCost::of(&seen([2_000.0, 17_000.0, 11_000.0]), Some(halts()));
        let parts = cost.parts().unwrap();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.02;
        assert!(near(parts.switch, 2_000.0) && near(parts.interrupt, 9_000.0), "{parts:?}");
        assert!(near(parts.idle, 6_000.0), "{parts:?}");
        let expected = cost.expected.unwrap();
        // At best a switch and a line, at worst what the interrupt costs a CPU that is awake.
        assert!(near(expected.least_ns, 2_200.0) && near(expected.most_ns, 11_000.0));
        assert!(near(expected.least_gain, 17.0 / 11.0) && near(expected.most_gain, 17.0 / 2.2));
        assert_eq!(cost.crossed, Some(1.0));
    }

    #[test]
    fn no_setting_is_proposed_where_an_idle_cpu_wakes_as_fast_as_a_switch_or_nothing_can_be_set() {
        let polls = WakeCost::of(&seen([2_000.0, 2_300.0, 9_000.0]), Some(halts()));
        assert!(polls.expected.is_none() && polls.polls() && polls.parts().is_none());
        let none = IdleWait { setting: None, ..halts() };
        let fixed = WakeCost::of(&seen([2_000.0, 17_000.0, 11_000.0]), Some(none));
        assert_eq!(fixed.expected, None);
        let silent = WakeCost::of(&seen([2_000.0, 17_000.0, 11_000.0]), None);
        assert_eq!(silent.expected, None);
    }

    #[test]
    fn batches_on_a_busy_cpu_are_no_wake_ups_of_an_idle_one() {
        let mut all = seen([2_000.0, 17_000.0, 11_000.0]);
        let other = |it: &&mut WakeBatch| it.arm == WakeArm::OtherCpu;
        all.batches.iter_mut().filter(other).for_each(|it| it.idle = Some(false));
        let cost = WakeCost::of(&all, Some(halts()));
        assert!(cost.idle.is_none() && cost.expected.is_none() && cost.parts().is_none());
        assert_eq!(cost.busy.unwrap().batches, 20);
        // A host that does not count: all of them stand for an idle CPU, and the answer says so.
        all.batches.iter_mut().for_each(|it| it.idle = None);
        let cost = WakeCost::of(&all, Some(halts()));
        assert!(!cost.idle_is_counted && cost.idle.is_some() && cost.expected.is_some());
    }

    #[test]
    fn without_the_thread_that_keeps_a_cpu_awake_the_least_gain_is_none() {
        let mut all = seen([2_000.0, 17_000.0, 11_000.0]);
        all.batches.retain(|it| it.arm != WakeArm::KeptAwake);
        let expected = WakeCost::of(&all, Some(halts())).expected.unwrap();
        assert!((1.0..1.0 + 1e-9).contains(&expected.least_gain), "{expected:?}");
        assert!(expected.most_gain > 7.0, "{expected:?}");
    }

    #[test]
    fn five_batches_have_no_interval_and_give_no_cost() {
        let mut all = seen([2_000.0, 17_000.0, 11_000.0]);
        all.batches = batches(WakeArm::SameCpu, 2_000.0, None, 5);
        assert_eq!(WakeCost::of(&all, None).same_cpu, None);
    }
}
