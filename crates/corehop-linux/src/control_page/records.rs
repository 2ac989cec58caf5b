// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second method: `perf_event_open(2)` writes a record whenever the thread leaves its CPU or
//! returns. Any user may observe its own threads.

use std::io;

use corehop_plan::units::Cpu;

use super::AbsenceNotice;
use crate::switches::{SwitchLogRecord, SwitchRing, ThreadSwitch};
use corehop_system::thread::current_cpu;

/// The number of pages: 64 KiB hold 1,600 records, which suffice between two checks.
const PAGES: usize = 16;

/// The kernel's records of the calling thread's context switches.
#[derive(Debug)]
pub struct ThreadSwitchRecords {
    ring: SwitchRing,
    cpu: Cpu,
    left: Option<ThreadSwitch>,
    lost: u64,
}

impl ThreadSwitchRecords {
    /// Starts recording the absences of the calling thread.
    ///
    /// # Errors
    /// Fails with the reason why the kernel refuses to record the thread, and with the remedy.
    pub fn of_this_thread() -> Result<Self, String> {
        let refused = |error: io::Error| {
            format!(
                "perf_event_open(2): {error}; it needs Linux 4.3, \
                 `sysctl kernel.perf_event_paranoid=2` or lower, and 68 KiB of `ulimit -l`"
            )
        };
        let ring = SwitchRing::of_this_thread(PAGES).map_err(refused)?;
        Ok(Self { ring, cpu: current_cpu(), left: None, lost: 0 })
    }

    /// Returns the absences since the last check; without records this costs a load.
    pub fn away(&mut self) -> Option<AbsenceNotice> {
        let (mut times, mut last, from) = (0, None, self.cpu);
        let Self { ring, cpu, left, lost } = self;
        ring.drain(|record| match record {
            SwitchLogRecord::Switch(switch) if switch.out => *left = Some(switch),
            SwitchLogRecord::Switch(back) => {
                if let Some(left) = left.take() {
                    (times, last) = (times + 1, Some((left, back)));
                    *cpu = Cpu(back.cpu);
                }
            }
            SwitchLogRecord::Lost(more) => *lost += more,
            SwitchLogRecord::Name(..) | SwitchLogRecord::Started(..) => {}
        });
        let (left, back) = last?;
        Some(AbsenceNotice {
            times,
            from,
            to: self.cpu,
            length_ns: back.ns.saturating_sub(left.ns),
            exact: true,
            preempted: Some(left.preempted),
            by: None,
        })
    }

    /// Returns the number of records that were lost because the buffer was full.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}
