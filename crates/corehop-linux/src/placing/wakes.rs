// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wake-ups, the evidence that is always there where BPF is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corehop_core::host::{Activity, Contact, Evidence};

use super::sources::{Off, Source};
use crate::bpf::sharing::WakeGraph;

/// The kernel's counts of wake-ups, and what they were at the last look.
#[derive(Debug)]
pub(super) struct Wakes {
    graph: Arc<WakeGraph>,
    counts: HashMap<(u32, u32), u64>,
}

impl Wakes {
    pub(super) fn new(graph: Arc<WakeGraph>) -> Self {
        Self { graph, counts: HashMap::new() }
    }
}

impl Source for Wakes {
    fn evidence(&self) -> Evidence {
        Evidence::Wakes
    }

    fn take(&mut self, window: &mut Activity) -> Result<(), Off> {
        let alive: HashSet<u32> = window.threads.iter().map(|it| it.tid).collect();
        let mut ended = HashSet::new();
        for it in self.graph.wakes()? {
            let pair = (it.waker, it.woken);
            ended.extend([it.waker, it.woken].into_iter().filter(|tid| !alive.contains(tid)));
            let before = self.counts.insert(pair, it.count).unwrap_or(0);
            // A pair that was forgotten meanwhile begins anew.
            let count = it.count.checked_sub(before).unwrap_or(it.count);
            if count > 0 {
                window.contacts.push(Contact { count, ..it });
            }
        }
        if !ended.is_empty() {
            self.graph.forget(&ended);
            self.counts.retain(|(a, b), _| !ended.contains(a) && !ended.contains(b));
        }
        Ok(())
    }
}
