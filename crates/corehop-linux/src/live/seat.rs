// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resources of a measured thread.

use std::io;

use corehop_plan::units::Cpu;

use crate::counters::hardware::HardwareCounters;
use crate::rseq::Rseq;
use corehop_system::supervisor::interrupt;
use corehop_system::thread::{
    SchedulingPolicy, best_ordinary_policy, best_policy, punctual, set_affinity, set_policy,
};

/// The resources of a measured thread.
#[derive(Debug)]
pub(crate) struct ThreadResources {
    /// The thread's restartable sequences, if the kernel supports them.
    pub(crate) rseq: Option<Rseq>,
    /// The processor's counters of the thread, if there are any.
    pub(crate) hardware: Option<HardwareCounters>,
    /// The thread's current policy.
    pub(crate) policy: SchedulingPolicy,
    /// The best policy that the thread may have.
    pub(crate) best: SchedulingPolicy,
    /// The best policy that is not real-time.
    pub(crate) ordinary: SchedulingPolicy,
    /// Whether the thread stays on its CPU, so that jobs move by hand-over.
    pub(crate) parked: bool,
}

impl ThreadResources {
    /// Makes the calling thread a measured thread on `cpu`; returns its resources, its policy, and the reason why a
    /// better policy was not possible.
    pub(super) fn take(
        cpu: Cpu,
        real_time: Result<(), String>,
        parked: bool,
    ) -> io::Result<(Self, (SchedulingPolicy, Option<String>))> {
        interrupt::keep_off_this_thread();
        set_affinity([cpu])?;
        punctual();
        let ordinary = best_ordinary_policy();
        let rseq = Rseq::of_this_thread().ok();
        let hardware = HardwareCounters::open().ok();
        // Last, because no budget is asked before.
        let policy = best_policy(real_time);
        let seat = Self { rseq, hardware, policy: policy.0, best: policy.0, ordinary, parked };
        Ok((seat, policy))
    }

    /// Puts the calling thread, which owns these resources, under `policy`.
    pub(super) fn change_to(&mut self, policy: SchedulingPolicy) -> io::Result<()> {
        if policy != self.policy {
            set_policy(policy)?;
            self.policy = policy;
        }
        Ok(())
    }
}
