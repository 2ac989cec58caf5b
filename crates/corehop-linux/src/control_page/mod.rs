// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows a thread whether it was away from its CPU. A thread learns of its preemptions and
//! migrations by the best method that the host offers.
//!
//! Bastoni's control page ([`crate::bpf::control`]) reports everything at the cost of a load, and
//! needs `CAP_BPF` with `CAP_PERFMON`. Three further methods need no privileges: records of context
//! switches (perf), restartable sequences, and counts that the kernel keeps anyway. Each method
//! reports less than the method above. [`Notice::best`] returns the best available method, and why
//! the better ones are not available.

mod records;
mod counts;
mod presence;
mod overhead;

use std::sync::Arc;

use corehop_plan::units::Cpu;

use crate::bpf::control::{ControlPage, ControlPages};
use corehop_system::clock::monotonic_ns;
use corehop_system::thread::current_cpu;

pub use counts::CountSnapshot;
pub use overhead::{Longer, following, overhead};
pub use presence::Presence;
pub use records::ThreadSwitchRecords;

/// A method to detect absences, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AbsenceMethod {
    /// The control page, written by BPF programs.
    Bpf,
    /// Records of context switches by `perf_event_open(2)`.
    Records,
    /// A restartable sequence, which the kernel disarms when it takes the CPU away.
    Rseq,
    /// Counts of context switches by `getrusage(2)`, and waiting times by schedstat.
    Counts,
}

impl AbsenceMethod {
    /// All methods, the best first.
    pub const ALL: [Self; 4] = [Self::Bpf, Self::Records, Self::Rseq, Self::Counts];

    /// Returns the name of the method in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Records => "perf_records",
            Self::Rseq => "rseq",
            Self::Counts => "schedstat",
        }
    }

    /// Returns what the method cannot report, as text for users.
    pub const fn lacks(self) -> &'static str {
        match self {
            Self::Bpf => "nothing",
            Self::Records => "the preempter of a thread",
            Self::Rseq => {
                "the preempter of a thread, whether it had blocked instead, and lengths but \
                 between two looks at the clock"
            }
            Self::Counts => "the preempter of a thread, and the time",
        }
    }
}

impl std::fmt::Display for AbsenceMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The absences since the thread last checked: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsenceNotice {
    /// The number of absences; 1 if unknown.
    pub times: u64,
    /// The CPU that the thread left (at the first of several absences).
    pub from: Cpu,
    /// The CPU that the thread is on.
    pub to: Cpu,
    /// The length of the last absence in ns.
    pub length_ns: u64,
    /// Whether `length_ns` is the time between leaving and returning; otherwise it is an upper
    /// bound.
    pub exact: bool,
    /// Whether the thread was preempted, rather than having blocked; `None` if unknown.
    pub preempted: Option<bool>,
    /// The preempting thread, if known.
    pub by: Option<u32>,
}

/// A detection method, prepared for the calling thread.
#[derive(Debug)]
pub enum Notice {
    /// The method [`AbsenceMethod::Bpf`].
    Bpf(ControlSlot),
    /// The method [`AbsenceMethod::Records`].
    Records(ThreadSwitchRecords),
    /// The method [`AbsenceMethod::Rseq`].
    Rseq(Presence),
    /// The method [`AbsenceMethod::Counts`].
    Counts(CountSnapshot),
}

/// The thread's slot of the control pages, and its counts at the last check.
#[derive(Debug)]
pub struct ControlSlot {
    page: ControlPage,
    departures: u64,
    cpu: Cpu,
}

impl Notice {
    /// Returns the best method for the calling thread, and the reasons why better methods are not available. `pages`
    /// holds the control pages, or the reason why there are none.
    ///
    /// # Errors
    /// Fails with the reasons of all methods if none is available, which never happens because every kernel has
    /// `getrusage(2)`.
    pub fn best(pages: Result<&Arc<ControlPages>, &str>) -> Result<(Self, Vec<String>), String> {
        let mut why_not = Vec::new();
        for method in AbsenceMethod::ALL {
            match Self::at(method, pages) {
                Ok(notice) => return Ok((notice, why_not)),
                Err(reason) => why_not.push(format!("{method}: {reason}")),
            }
        }
        Err(why_not.join("; "))
    }

    /// Prepares only the given method.
    ///
    /// # Errors
    /// Fails with the reason why the host does not offer the method.
    pub fn at(
        method: AbsenceMethod,
        pages: Result<&Arc<ControlPages>, &str>,
    ) -> Result<Self, String> {
        match method {
            AbsenceMethod::Bpf => {
                let page = pages?.register().map_err(|error| error.to_string())?;
                let departures = page.departures();
                Ok(Self::Bpf(ControlSlot { page, departures, cpu: current_cpu() }))
            }
            AbsenceMethod::Records => ThreadSwitchRecords::of_this_thread().map(Self::Records),
            AbsenceMethod::Rseq => Presence::of_this_thread()
                .map(Self::Rseq)
                .map_err(|error| format!("rseq(2): {error}; it needs Linux 4.18")),
            AbsenceMethod::Counts => Ok(Self::Counts(CountSnapshot::of_this_thread())),
        }
    }

    /// Returns the method in use.
    pub const fn method(&self) -> AbsenceMethod {
        match self {
            Self::Bpf(_) => AbsenceMethod::Bpf,
            Self::Records(_) => AbsenceMethod::Records,
            Self::Rseq(_) => AbsenceMethod::Rseq,
            Self::Counts(_) => AbsenceMethod::Counts,
        }
    }

    /// Returns the slot's page if the method is the control page.
    pub const fn page(&self) -> Option<&ControlPage> {
        match self {
            Self::Bpf(slot) => Some(&slot.page),
            _ => None,
        }
    }

    /// Returns the absences since the last call, if any. If there was no absence, the call costs one or two loads.
    #[inline]
    pub fn away(&mut self) -> Option<AbsenceNotice> {
        match self {
            Self::Bpf(slot) => slot.away(),
            Self::Records(records) => records.away(),
            Self::Rseq(presence) => presence.away(),
            Self::Counts(counted) => counted.away(),
        }
    }
}

impl ControlSlot {
    #[inline]
    fn away(&mut self) -> Option<AbsenceNotice> {
        if self.page.departures() == self.departures {
            return None;
        }
        let now = self.page.read();
        let (times, from) = (now.departures - self.departures, self.cpu);
        self.departures = now.departures;
        // This thread is here now: if it is said to be away, it came back unseen.
        let (to, length_ns) = if now.is_away {
            (current_cpu(), monotonic_ns().saturating_sub(now.out_ns))
        } else {
            (Cpu(now.in_cpu as u32), now.last_ns)
        };
        self.cpu = to;
        Some(AbsenceNotice {
            times,
            from,
            to,
            length_ns,
            exact: !now.is_away,
            preempted: Some(now.was_preempted),
            by: now.was_preempted.then_some(now.by),
        })
    }
}
