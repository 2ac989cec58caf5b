// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a wake-up on a host: hand-overs between two threads under several conditions, and the way in which an
//! idle CPU waits.

use serde::{Deserialize, Serialize};

use crate::units::Cpu;

/// A condition under which one thread wakes another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WakeArm {
    /// The two threads of a hand-over are pinned to one CPU.
    SameCpu,
    /// The two threads of a hand-over are pinned to a CPU each.
    OtherCpu,
    /// The two threads are pinned to a CPU each, and a thread of the class SCHED_IDLE spins on both CPUs, so that
    /// neither CPU halts.
    KeptAwake,
    /// The two threads can use both CPUs, so the kernel chooses.
    Free,
    /// The two threads are pinned to a CPU each, and the two CPUs have no common cache.
    Separate,
}

impl WakeArm {
    /// All conditions under which corehop measures wake-ups.
    pub const ALL: [Self; 5] =
        [Self::SameCpu, Self::OtherCpu, Self::KeptAwake, Self::Free, Self::Separate];
}

/// A batch of consecutive hand-overs between two threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakeBatch {
    /// The condition under which the batch ran.
    pub arm: WakeArm,
    /// The time of one hand-over in ns, averaged over the batch.
    pub ns: f64,
    /// Whether the CPUs became idle before the wake-ups, or `None` if the host does not count idle states. Both CPUs
    /// must have become idle; with [`WakeArm::KeptAwake`], one idle CPU is enough.
    pub idle: Option<bool>,
    /// The share of the hand-overs at which the threads ran on two CPUs.
    pub crossed: f64,
}

/// The measured hand-overs of a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WakeBatches {
    /// The two CPUs of the threads, or `None` if only one CPU is usable.
    pub cpus: Option<(Cpu, Cpu)>,
    /// The batches, in the order of time.
    pub batches: Vec<WakeBatch>,
    /// The one-way transfer time of a cache line between the two CPUs, in ns.
    pub line_ns: Option<f64>,
    /// The reason why the measurement ended early or returned nothing.
    pub trouble: Option<String>,
}

/// The way in which an idle CPU of a host waits for work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdleWait {
    /// The kind of waiting, as a clause such as "an idle CPU halts at once (…)".
    pub how: String,
    /// The single setting that would shorten the wait of a wake-up, or `None` if the host has no such setting.
    pub setting: Option<Setting>,
}

/// A setting of the whole host. corehop names settings and changes none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The setting with its new value, as a noun such as "guest_halt_poll_ns = 200000".
    pub name: String,
    /// The command that makes the setting, or `None` if a boot is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The time in ns that an idle CPU still needs to wake up with the setting.
    pub left_ns: f64,
    /// The limits and the price of the setting, in a sentence.
    pub price: String,
}
