// SPDX-License-Identifier: MIT OR Apache-2.0
//! The second method: `perf_event_open(2)` writes a record whenever the thread leaves its CPU and
//! whenever it is back. Any user may watch its own threads.

use std::io;

use corehop_plan::units::Cpu;

use super::AbsenceNotice;
use crate::switches::{SwitchLogRecord, SwitchRing, ThreadSwitch};
use corehop_system::thread::current_cpu;

/// 64 KiB hold 1,600 records: as many as come between two looks.
const PAGES: usize = 16;

/// The calling thread's records, from when they were asked for.
#[derive(Debug)]
pub struct ThreadSwitchRecords {
    ring: SwitchRing,
    cpu: Cpu,
    left: Option<ThreadSwitch>,
    lost: u64,
}

impl ThreadSwitchRecords {
    /// Begins to record.
    ///
    /// # Errors
    /// Why the kernel refuses, with the remedy.
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

    /// The absences since the last look: a load if there were none.
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

    /// Records that found no room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}
