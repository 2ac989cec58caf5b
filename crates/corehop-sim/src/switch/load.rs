// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-load in words: the threads and what they do, the arms, and the outcome of an arm.

use corehop_switch::policy::Flags;
use serde::Serialize;

use corehop_plan::units::{CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;

/// Threads and what they do.
#[derive(Debug, Clone, Serialize)]
pub struct OffLoadWorkload {
    /// The cores that make calls; the others run the threads.
    pub os_cores: CpuList,
    /// The mechanism: one of the library or of the kernel of 2009.
    pub mechanism: SwitchMechanism,
    /// The threads.
    pub threads: u32,
    /// The mean time from call to call, on the fastest core.
    pub compute: Nanos,
    /// The mean time of a call, on the fastest core, without the switches.
    pub call: Nanos,
    /// Whether code misses the first level of caches as the kernel's does. Otherwise a core is as fast as its instructions
    /// with all code and data there.
    #[serde(skip)]
    pub misses: bool,
    /// Whether every part of a loop has its mean length, as parts of many packets nearly have. Otherwise parts are
    /// exponential draws.
    #[serde(skip)]
    pub steady: bool,
    /// The interrupts and the wait of a call.
    #[serde(skip)]
    pub after: CallAftermath,
    /// The simulated time.
    pub time: Nanos,
    /// Seed of all draws.
    pub seed: u64,
}

/// The interrupts and the wait of a call, besides its own work; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallAftermath {
    /// The mean time of its interrupts, on the fastest core.
    pub interrupts: Nanos,
    /// Whether the thread waits for them. Otherwise they come meanwhile, and its next call waits for them.
    pub awaited: bool,
    /// The mean time for which the thread waits afterwards, for no core.
    pub wait: Nanos,
}

/// The cores that run threads, and whether their calls are off-loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffLoadArm {
    /// Nothing is off-loaded, and all cores run threads.
    Unmodified,
    /// Nothing is off-loaded, and all threads run on the OS cores.
    OsCores,
    /// Nothing is off-loaded, and no thread runs on an OS core.
    Bound,
    /// Calls are off-loaded, with these settings of the policy.
    Policy(Flags),
}

/// The outcome of one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffLoaded {
    /// Calls per second, of all threads.
    pub calls_per_second: f64,
    /// The mean time from the call until the thread computes again, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile of it.
    pub p99_us: f64,
    /// The share of calls that were made on an OS core.
    pub there: f64,
    /// The mean share of time for which an application core was powered down.
    pub quiet: f64,
    /// The energy of all cores for a call, in microjoules. None: the platform lacks a core's power.
    pub microjoules: Option<f64>,
}
