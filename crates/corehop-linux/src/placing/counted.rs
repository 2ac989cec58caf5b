// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware counters of the busiest followed threads.

use std::cmp::Reverse;

use corehop_plan::host::{Activity, Evidence};

use super::sources::{EvidenceSource, Off};
use crate::counters::threads::{MOST, ThreadCounters};

/// The counters of threads that ran recently.
#[derive(Debug)]
pub(super) struct RecentCounters {
    by_thread: ThreadCounters,
    note: Option<String>,
    told: bool,
}

impl RecentCounters {
    pub(super) fn open() -> Result<Self, Off> {
        Ok(Self { by_thread: ThreadCounters::open()?, note: None, told: false })
    }
}

impl EvidenceSource for RecentCounters {
    fn evidence(&self) -> Evidence {
        Evidence::Counters
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        let mut busiest: Vec<(Reverse<u64>, u32)> =
            window.threads.iter().map(|it| (Reverse(it.busy_ns), it.tid)).collect();
        busiest.sort_unstable();
        if busiest.len() > MOST && !self.told {
            self.told = true;
            self.note = Some(format!("corehop reads counters only for the {MOST} busiest threads"));
        }
        let tids: Vec<u32> = busiest.into_iter().map(|(_, tid)| tid).take(MOST).collect();
        let counted = self.by_thread.take(&tids);
        for it in &mut window.threads {
            it.counted = counted.get(&it.tid).copied();
        }
        Ok(())
    }

    fn note(&mut self) -> Option<String> {
        self.note.take()
    }
}
