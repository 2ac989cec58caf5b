// SPDX-License-Identifier: MIT OR Apache-2.0
//! The third method: a restartable sequence that the thread is never in. When the kernel gives the
//! CPU back it finds the thread outside of it and disarms it, which a load shows.

use std::io;
use std::marker::PhantomData;

use corehop_plan::units::Cpu;

use super::AbsenceNotice;
use crate::rseq::Rseq;
use corehop_system::clock::monotonic_ns;

/// The calling thread's sequence. It stays on its thread.
#[derive(Debug)]
pub struct Presence {
    rseq: Rseq,
    cpu: Cpu,
    looked_ns: u64,
    stays: PhantomData<*const ()>,
}

impl Presence {
    /// Of the calling thread, from now on. Walks arm sequences of their own: while one runs,
    /// nothing is noticed here, and afterwards it looks like an absence.
    ///
    /// # Errors
    /// The error of rseq(2).
    pub fn of_this_thread() -> io::Result<Self> {
        let rseq = Rseq::of_this_thread()?;
        rseq.arm_elsewhere();
        Ok(Self { cpu: rseq.cpu(), rseq, looked_ns: monotonic_ns(), stays: PhantomData })
    }

    /// The absences since the last look: a load and a look at the clock. A signal looks the same.
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
