// SPDX-License-Identifier: MIT OR Apache-2.0
//! Was I away? How a thread learns that it was preempted or migrated, by the best way there is.
//!
//! Bastoni's control page ([`crate::bpf::control`]) says all of it at the cost of a load, and needs
//! `CAP_BPF` with `CAP_PERFMON`. Below it are three methods for everybody: records of context
//! switches (perf), restartable sequences, and what the kernel counts anyway. Each knows less than
//! the one above; [`Notice::best`] says which it is and why none above.

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

/// A way to learn of absences, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AbsenceMethod {
    /// The control page, written by BPF programs.
    Bpf,
    /// Records of context switches by `perf_event_open(2)`.
    Records,
    /// The kernel disarms a restartable sequence when it takes the CPU away.
    Rseq,
    /// Counts of context switches by `getrusage(2)`, waiting times by schedstat.
    Counts,
}

impl AbsenceMethod {
    /// All of them, from the top.
    pub const ALL: [Self; 4] = [Self::Bpf, Self::Records, Self::Rseq, Self::Counts];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Records => "perf_records",
            Self::Rseq => "rseq",
            Self::Counts => "schedstat",
        }
    }

    /// The facts that it cannot tell, for people.
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

/// The absences since the thread last looked: one, or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsenceNotice {
    /// The number of absences; 1 if unknown.
    pub times: u64,
    /// The CPU that it left (first, where it was away more than once).
    pub from: Cpu,
    /// The CPU that it is on.
    pub to: Cpu,
    /// The length of the last absence in ns.
    pub length_ns: u64,
    /// Whether that is the time between leaving and being back; otherwise it is a bound from above.
    pub exact: bool,
    /// Whether it was taken off its CPU, rather than having blocked; none where that is not known.
    pub preempted: Option<bool>,
    /// The preempting thread, if known.
    pub by: Option<u32>,
}

/// One of the ways, set up for the calling thread.
#[derive(Debug)]
pub enum Notice {
    /// [`AbsenceMethod::Bpf`]
    Bpf(ControlSlot),
    /// [`AbsenceMethod::Records`]
    Records(ThreadSwitchRecords),
    /// [`AbsenceMethod::Rseq`]
    Rseq(Presence),
    /// [`AbsenceMethod::Counts`]
    Counts(CountSnapshot),
}

/// The thread's slot of the control pages, and what it said last.
#[derive(Debug)]
pub struct ControlSlot {
    page: ControlPage,
    departures: u64,
    cpu: Cpu,
}

impl Notice {
    /// The best way for the calling thread, and why none above it. `pages` are the control pages,
    /// or why there are none.
    ///
    /// # Errors
    /// Never where the kernel has `getrusage(2)`, which all have; the reasons of all methods then.
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

    /// This way and no other.
    ///
    /// # Errors
    /// Why the host does not give it.
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

    /// The method.
    pub const fn method(&self) -> AbsenceMethod {
        match self {
            Self::Bpf(_) => AbsenceMethod::Bpf,
            Self::Records(_) => AbsenceMethod::Records,
            Self::Rseq(_) => AbsenceMethod::Rseq,
            Self::Counts(_) => AbsenceMethod::Counts,
        }
    }

    /// The slot's page, where it is the control page.
    pub const fn page(&self) -> Option<&ControlPage> {
        match self {
            Self::Bpf(slot) => Some(&slot.page),
            _ => None,
        }
    }

    /// The absences since the last call, if any: a load or two if there were none.
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
