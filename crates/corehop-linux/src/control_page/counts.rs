// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lowest method: the kernel's counts of a thread's switches, and the thread's waiting time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use corehop_plan::units::Cpu;

use super::AbsenceNotice;
use crate::counters::software::ThreadCounts;
use corehop_system::clock::monotonic_ns;
use corehop_system::proc::Schedstat;
use corehop_system::thread::current_cpu;

/// The counts at the thread's last check.
#[derive(Debug)]
pub struct CountSnapshot {
    counts: ThreadCounts,
    cpu: Cpu,
    /// `/proc/thread-self/schedstat` of the thread that opened it, if the kernel has this file.
    schedstat: Option<File>,
    waited_ns: u64,
    looked_ns: u64,
}

impl CountSnapshot {
    /// Starts the detection for the calling thread.
    pub fn of_this_thread() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let waited_ns = schedstat.as_ref().and_then(waited).unwrap_or(0);
        let counts = ThreadCounts::read();
        Self { counts, cpu: current_cpu(), schedstat, waited_ns, looked_ns: monotonic_ns() }
    }

    /// Returns the absences since the last check, by a system call.
    pub fn away(&mut self) -> Option<AbsenceNotice> {
        let counts = ThreadCounts::read();
        let added = counts.minus(&self.counts);
        let (looked, now) = (self.looked_ns, monotonic_ns());
        self.looked_ns = now;
        if added.switches() == 0 {
            return None;
        }
        self.counts = counts;
        let (from, to) = (self.cpu, current_cpu());
        self.cpu = to;
        // The time it waited for a CPU is that of its preemptions; of a thread that blocked, only
        // the time between two looks is known.
        let waited_ns = self.schedstat.as_ref().and_then(waited);
        let waited = waited_ns.map(|waited| waited.saturating_sub(self.waited_ns));
        self.waited_ns = waited_ns.unwrap_or(self.waited_ns);
        let preempted = added.voluntary_switches == 0;
        let waited = waited.filter(|&it| preempted && it > 0);
        Some(AbsenceNotice {
            times: added.switches(),
            from,
            to,
            length_ns: waited.unwrap_or(now - looked),
            exact: waited.is_some() && added.switches() == 1,
            preempted: Some(preempted),
            by: None,
        })
    }
}

/// The second number of schedstat: the time spent waiting for a CPU, in ns.
fn waited(schedstat: &File) -> Option<u64> {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    Some(Schedstat::parse(&text[..length])?.waited_ns)
}
