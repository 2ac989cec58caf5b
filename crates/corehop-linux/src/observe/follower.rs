// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows a program's threads, by the control pages or by records of context switches.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use corehop_plan::samples::{Absence, Bars, CpuHoldTime, ObservedThread, SwitchesTook};
use corehop_plan::units::Cpu;

use super::account::{has_ended, times};
use super::records::SwitchRecords;
use super::{ObserveError, text};
use crate::bpf::control::{self, AbsenceCounts, ControlPages, PagePurpose, ThreadTimes};
use crate::control_page::{AbsenceMethod, following};
use corehop_system::proc::ProcEntry;
use corehop_system::thread::{current_cpu, current_tid};

/// The time for ended threads to leave their CPUs, in milliseconds.
const LEAVING_MS: u32 = 20;

/// The method by which threads are followed.
#[derive(Debug)]
pub(super) enum AbsenceFollower {
    /// The method [`AbsenceMethod::Bpf`], with the ID of the thread that starts the command, whose own absences do
    /// not belong to the program.
    Pages(Arc<ControlPages>, Option<u32>),
    /// The method [`AbsenceMethod::Records`].
    Records(Box<SwitchRecords>),
}

impl AbsenceFollower {
    /// Follows with `method`, or with the best available method, and says why no better method is used.
    pub(super) fn at(
        method: Option<AbsenceMethod>,
    ) -> Result<(Self, Option<String>), ObserveError> {
        let records = || SwitchRecords::new().map(|it| Self::Records(Box::new(it)));
        match method {
            Some(AbsenceMethod::Bpf) => Ok((Self::pages()?, None)),
            Some(_) => Ok((records().map_err(ObserveError::Records)?, None)),
            None => match (Self::pages(), records) {
                (Ok(pages), _) => Ok((pages, None)),
                (Err(why), records) => match records() {
                    Ok(records) => Ok((records, Some(why.to_string()))),
                    Err(records) => Err(ObserveError::Neither { bpf: why, records }),
                },
            },
        }
    }

    fn pages() -> Result<Self, crate::bpf::BpfError> {
        Ok(Self::Pages(ControlPages::open(PagePurpose::Follow)?, None))
    }

    pub(super) const fn method(&self) -> AbsenceMethod {
        match self {
            Self::Pages(..) => AbsenceMethod::Bpf,
            Self::Records(_) => AbsenceMethod::Records,
        }
    }

    /// Calls `start` on the calling thread such that everything it starts is followed from the first instruction.
    pub(super) fn starting<T>(&mut self, start: impl FnOnce() -> T) -> Result<T, ObserveError> {
        match self {
            Self::Pages(pages, starter) => {
                *starter = Some(current_tid());
                let _registered = pages.register()?;
                Ok(start())
            }
            Self::Records(records) => {
                records.follow_own_children().map_err(ObserveError::Records)?;
                Ok(start())
            }
        }
    }

    /// Follows thread `tid` of process `pid`, and the threads that it starts.
    pub(super) fn watch(&mut self, tid: u32, pid: u32) -> io::Result<()> {
        match self {
            Self::Pages(pages, ..) => {
                let watched = pages.watch(tid, pid, times(pid, tid));
                watched.map(|_| ()).map_err(io::Error::other)
            }
            Self::Records(records) => records.watch(tid, pid),
        }
    }

    pub(super) fn watches(&self, tid: u32) -> bool {
        match self {
            Self::Pages(pages, ..) => pages.watches(tid),
            Self::Records(records) => records.watches(tid),
        }
    }

    /// Passes on the absences since the last call; with `all`, also the absences that are not yet sorted.
    pub(super) fn absences(&mut self, all: bool, mut take: impl FnMut(Absence)) {
        match self {
            Self::Pages(pages, starter) => pages.absences(|absence| {
                if Some(absence.tid) != *starter {
                    take(told(&absence));
                }
            }),
            Self::Records(records) => records.absences(all, take),
        }
    }

    /// The threads so far, in the order in which they were noticed.
    pub(super) fn threads(&self) -> Vec<ObservedThread> {
        match self {
            Self::Pages(pages, ..) => {
                // The thread that asks has run: without times of it the kernel keeps no account.
                let is_kept = times(std::process::id(), current_tid()).is_some();
                let all = followed(pages);
                all.iter().map(|it| thread(it, is_kept.then(|| account(it)))).collect()
            }
            Self::Records(records) => records.threads(),
        }
    }

    /// The processes of the followed threads.
    pub(super) fn pids(&self) -> BTreeSet<u32> {
        match self {
            Self::Pages(pages, ..) => pages.all().iter().map(|counts| counts.pid).collect(),
            Self::Records(records) => records.threads().iter().map(|thread| thread.pid).collect(),
        }
    }

    /// The number of lost absences or switch records, and the number of threads that are not followed.
    pub(super) fn lost(&self) -> (u64, u64) {
        match self {
            Self::Pages(pages, ..) => (pages.lost(), pages.unfollowed()),
            Self::Records(records) => (records.lost(), 0),
        }
    }

    /// Waits until ended threads have left their CPUs, when their last counts arrive.
    pub(super) fn settle(&self) {
        let Self::Pages(pages, ..) = self else { return };
        let is_leaving = |it: &AbsenceCounts| !it.has_ended && has_ended(it.pid, it.tid);
        for _ in 0..LEAVING_MS {
            if !followed(pages).iter().any(is_leaving) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The time that other threads had CPUs for which threads of the program waited, and the time that they waited
    /// for idle CPUs, in nanoseconds; `None` if unknown.
    pub(super) fn held(&self) -> Option<(Vec<CpuHoldTime>, u64)> {
        let Self::Pages(pages, ..) = self else { return None };
        let held = |(name, held_ns)| CpuHoldTime { name: text(&name), held_ns };
        Some((pages.others().into_iter().map(held).collect(), pages.idle_ns()))
    }

    /// Returns, by CPU, how long threads of the program ran on the CPU; CPUs on which no such thread ran are left out.
    pub(super) fn ran(&self) -> Vec<(Cpu, u64)> {
        match self {
            Self::Pages(pages, ..) => pages.ran(),
            Self::Records(records) => records.ran(),
        }
    }

    /// Stops following, and measures how much longer switches took; `None` if unknown. `all` is the number of context
    /// switches on this machine while the threads were followed, if known.
    pub(super) fn end(self, all: Option<u64>) -> Option<SwitchesTook> {
        let Self::Pages(pages, ..) = self else { return None };
        let count = followed(&pages).iter().map(|it| it.departures).sum();
        let cost = following(current_cpu(), pages).ok()?;
        Some(SwitchesTook {
            count,
            each_ns: cost.registered_ns,
            others: all.map(|all| all.saturating_sub(count)),
            other_ns: cost.unregistered_ns,
        })
    }
}

/// The counts of the program's threads. The slot of the thread that started the program is left out.
fn followed(pages: &ControlPages) -> Vec<AbsenceCounts> {
    pages.all().into_iter().filter(|counts| counts.tid > 0).collect()
}

fn told(absence: &control::AbsenceRecord) -> Absence {
    Absence {
        tid: absence.tid,
        out_ns: absence.out_ns,
        in_ns: absence.in_ns,
        seen: absence.seen,
        from: Cpu(absence.out_cpu),
        to: Cpu(absence.in_cpu),
        preempted: absence.preempted,
        pinned: absence.pinned,
        ran_ns: absence.ran_ns,
        cpu_ns: Some(absence.cpu_ns),
        // The idle thread has the number 0 on every CPU.
        by: absence.preempted.then(|| (absence.by, text(&absence.by_name))),
    }
}

/// A thread with its times, if known.
fn thread(counts: &AbsenceCounts, account: Option<ThreadTimes>) -> ObservedThread {
    let name = || ProcEntry::thread(counts.pid, counts.tid).name().unwrap_or_default();
    let ended = text(&counts.name);
    ObservedThread {
        tid: counts.tid,
        pid: counts.pid,
        name: if ended.is_empty() { name() } else { ended },
        preemptions: counts.preemptions,
        voluntary: counts.voluntary,
        migrations: counts.migrations,
        affinity_moves: counts.affinity_moves,
        cpu_changes: counts.cpu_changes,
        unseen: counts.unseen,
        preempted_ns: counts.preempted_ns,
        cpu_ns: account.map(|it| it.cpu_ns),
        waited_ns: account.map(|it| it.waited_ns),
        held_ns: Some(counts.held_ns),
        brief: Some(counts.brief),
        brief_ns: Some(counts.brief_ns),
        barred: Some(Bars::new(counts.barred_ns)),
    }
}

/// The CPU time and the waiting time of a thread since corehop began to follow the thread. The BPF programs see a
/// living thread only when it leaves its CPU, so the kernel's accounting may be ahead.
fn account(counts: &AbsenceCounts) -> ThreadTimes {
    let at_last_leave = ThreadTimes { cpu_ns: counts.cpu_ns, waited_ns: counts.waited_ns };
    if counts.has_ended {
        return at_last_leave;
    }
    let now = times(counts.pid, counts.tid);
    now.map_or(at_last_leave, |now| ThreadTimes {
        cpu_ns: now.cpu_ns.saturating_sub(counts.first.cpu_ns).max(counts.cpu_ns),
        waited_ns: now.waited_ns.saturating_sub(counts.first.waited_ns).max(counts.waited_ns),
    })
}
