// SPDX-License-Identifier: MIT OR Apache-2.0
//! The third method: an armed restartable sequence that the thread never enters. When the kernel
//! returns the CPU, it finds the thread outside the sequence and disarms it, which a load detects.

use std::io;
use std::marker::PhantomData;

use corehop_plan::units::Cpu;

use super::AbsenceNotice;
use crate::rseq::Rseq;
use corehop_system::clock::monotonic_ns;

/// The restartable sequence of the calling thread. The value must stay on its thread.
#[derive(Debug)]
pub struct Presence {
    rseq: Rseq,
    cpu: Cpu,
    looked_ns: u64,
    stays: PhantomData<*const ()>,
}

impl Presence {
    /// Starts the detection for the calling thread. Walks over working sets arm their own restartable sequences. During
    /// a walk this method detects nothing, and after a walk it reports an absence.
    ///
    /// # Errors
    /// Fails with the error of rseq(2).
    pub fn of_this_thread() -> io::Result<Self> {
        let rseq = Rseq::of_this_thread()?;
        rseq.arm_elsewhere();
        Ok(Self { cpu: rseq.cpu(), rseq, looked_ns: monotonic_ns(), stays: PhantomData })
    }

    /// Returns the absences since the last check, by a load and a clock reading. A signal to the thread looks like an
    /// absence.
    pub fn away(&mut self) -> Option<AbsenceNotice> {
        let armed = self.rseq.is_armed();
        let (looked, now) = (self.looked_ns, monotonic_ns());
        self.looked_ns = now;
        if armed {
            return None;
        }
        self.rseq.arm_elsewhere();
        let (from, to) = (self.cpu, self.rseq.cpu());
        self.cpu = to;
        Some(AbsenceNotice {
            times: 1,
            from,
            to,
            length_ns: now - looked,
            exact: false,
            preempted: None,
            by: None,
        })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.rseq.disarm();
    }
}
