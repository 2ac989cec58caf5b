// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of an off-load simulation: the threads and their work, the arms, and the outcome of an arm.

use corehop_switch::policy::Flags;
use serde::Serialize;

use corehop_plan::units::{CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;

/// The threads of an off-load simulation, their work, and the off-load mechanism.
#[derive(Debug, Clone, Serialize)]
pub struct OffLoadWorkload {
    /// The OS cores, which execute off-loaded calls; the other cores run the threads.
    pub os_cores: CpuList,
    /// The switch mechanism, of the library or of the kernel of 2009.
    pub mechanism: SwitchMechanism,
    /// The number of threads.
    pub threads: u32,
    /// The mean computing time between two calls of a thread, on the fastest core.
    pub compute: Nanos,
    /// The mean duration of a call on the fastest core, without the switches.
    pub call: Nanos,
    /// Whether code misses in the first-level caches as often as kernel code. If the field is false, a core runs
    /// at the speed that it has with all code and data in the first level.
    #[serde(skip)]
    pub misses: bool,
    /// Whether every part of a thread's loop has its mean length, which is nearly true of parts that handle many
    /// packets. If the field is false, the lengths are exponentially distributed.
    #[serde(skip)]
    pub steady: bool,
    /// The interrupts and the wait that follow each call.
    #[serde(skip)]
    pub after: CallAftermath,
    /// The simulated time.
    pub time: Nanos,
    /// The seed of all random draws.
    pub seed: u64,
}

/// The interrupts and the wait that follow a call, in addition to the call's own work; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallAftermath {
    /// The mean duration of a call's interrupts, on the fastest core.
    pub interrupts: Nanos,
    /// Whether the thread waits for the interrupts. If the field is false, the thread continues, and only its
    /// next call waits for the interrupts.
    pub awaited: bool,
    /// The mean time for which the thread waits after the call, without using a core.
    pub wait: Nanos,
}

/// The cores that run threads, and whether their calls are off-loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffLoadArm {
    /// Calls stay on the core of their thread, and all cores run threads.
    Unmodified,
    /// Calls stay on the core of their thread, and all threads run on the OS cores.
    OsCores,
    /// Calls stay on the core of their thread, and no thread runs on an OS core.
    Bound,
    /// Calls are off-loaded, with these settings of the policy.
    Policy(Flags),
}

/// The outcome of one arm of an off-load simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffLoaded {
    /// The number of calls per second, summed over all threads.
    pub calls_per_second: f64,
    /// The mean time from a call until the thread computes again, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of the time from a call until the thread computes again, in microseconds.
    pub p99_us: f64,
    /// The share of calls that ran on an OS core.
    pub there: f64,
    /// The mean share of time for which an application core was powered down.
    pub quiet: f64,
    /// The energy of all cores per call, in microjoules; None if the platform does not state the power of some
    /// core.
    pub microjoules: Option<f64>,
}
