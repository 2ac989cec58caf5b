// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of processes: their CPU time and their CPUs, from `/proc`.

use std::collections::HashMap;
use std::fs;

use corehop_core::host::Active;

use crate::thread::affinity_of;

/// A thread as it was looked at last.
#[derive(Debug)]
struct Known {
    name: String,
    cpu_ns: u64,
    /// The number of the look.
    seen: u64,
}

/// Threads, looked at again and again.
#[derive(Debug, Default)]
pub(super) struct Threads {
    known: HashMap<u32, Known>,
    looks: u64,
    /// Threads that were left out at the last look.
    beyond: usize,
    told: bool,
}

/// The most threads that are looked at.
pub(super) const MOST: usize = 10_000;

impl Threads {
    /// The threads of these processes, with the CPU time since the last look. A thread that is seen for the first
    /// time has used none.
    pub(super) fn look(&mut self, processes: &[u32]) -> Vec<Active> {
        self.looks += 1;
        let mut all = Vec::new();
        self.beyond = 0;
        for &pid in processes {
            let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            let mut tids = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
            let room = MOST.saturating_sub(all.len());
            all.extend(tids.by_ref().filter_map(|tid| self.look_at(tid, pid)).take(room));
            self.beyond += tids.count();
        }
        self.known.retain(|_, it| it.seen == self.looks);
        all.sort_unstable_by_key(|it| it.tid);
        all
    }

    /// What the user should know, once.
    pub(super) fn note(&mut self) -> Option<String> {
        let new = self.beyond > 0 && !std::mem::replace(&mut self.told, self.beyond > 0);
        new.then(|| {
            format!(
                "{} threads are left where they are: {MOST} are looked at, name fewer processes",
                self.beyond
            )
        })
    }

    fn look_at(&mut self, tid: u32, pid: u32) -> Option<Active> {
        let folder = format!("/proc/{pid}/task/{tid}");
        let text = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
        let cpu_ns: u64 = text.split_whitespace().next()?.parse().ok()?;
        let allowed = affinity_of(tid.cast_signed()).ok()?;
        // The CPU time of a thread does not become less: a new one has its number.
        let known = self.known.get(&tid).filter(|it| it.cpu_ns <= cpu_ns);
        let (name, before) = if let Some(it) = known {
            (it.name.clone(), it.cpu_ns)
        } else {
            let name = fs::read_to_string(format!("{folder}/comm")).ok()?;
            (name.trim_end().to_owned(), cpu_ns)
        };
        let seen = self.looks;
        self.known.insert(tid, Known { name: name.clone(), cpu_ns, seen });
        Some(Active { tid, pid, name, busy_ns: cpu_ns - before, allowed, ..Active::default() })
    }
}
