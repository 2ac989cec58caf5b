// SPDX-License-Identifier: MIT OR Apache-2.0
//! Followers of a program's threads: the control pages, or records of switches.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use corehop_core::samples::{Absence, ObservedThread, Took};
use corehop_core::units::Cpu;

use super::records::SwitchRecords;
use super::{ObserveError, text};
use crate::bpf::control::{self, ControlPages, Counts, Mode};
use crate::bpf::{ProgramInfo, RunTimeStatistics};
use crate::control_page::Method;

/// One of the two ways.
#[derive(Debug)]
pub(super) enum Follower {
    /// [`Method::Bpf`]; with the kernel's account of what its programs take, where that is to be had.
    ///
    /// The number of the thread that starts the command: its own absences are not the program's.
    Pages(Arc<ControlPages>, Option<RunTimeStatistics>, Option<u32>),
    /// [`Method::Records`]
    Records(Box<SwitchRecords>),
}

impl Follower {
    /// The one at `method`, or the best there is; and why it is none above.
    pub(super) fn at(method: Option<Method>) -> Result<(Self, Option<String>), ObserveError> {
        let records = || SwitchRecords::new().map(|it| Self::Records(Box::new(it)));
        match method {
            Some(Method::Bpf) => Ok((Self::pages()?, None)),
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
        let pages = ControlPages::open(Mode::Follow)?;
        // Only with CAP_SYS_ADMIN; without it the time is not known, and the result says so.
        Ok(Self::Pages(pages, RunTimeStatistics::begin().ok(), None))
    }

    pub(super) const fn method(&self) -> Method {
        match self {
            Self::Pages(..) => Method::Bpf,
            Self::Records(_) => Method::Records,
        }
    }

    /// Does `start` on the calling thread so that what it starts is followed from its first instruction.
    pub(super) fn starting<T>(&mut self, start: impl FnOnce() -> T) -> Result<T, ObserveError> {
        match self {
            Self::Pages(pages, _, starter) => {
                *starter = Some(own_tid());
                let _registered = pages.register()?;
                Ok(start())
            }
            Self::Records(records) => {
                records.follow_own_children().map_err(ObserveError::Records)?;
                Ok(start())
            }
        }
    }

    /// Follows thread `tid` of process `pid`, and what it starts.
    pub(super) fn watch(&mut self, tid: u32, pid: u32) -> io::Result<()> {
        match self {
            Self::Pages(pages, ..) => pages.watch(tid, pid, None).map(|_| ()).map_err(io::Error::other),
            Self::Records(records) => records.watch(tid, pid),
        }
    }

    pub(super) fn watches(&self, tid: u32) -> bool {
        match self {
            Self::Pages(pages, ..) => pages.watches(tid),
            Self::Records(records) => records.watches(tid),
        }
    }

    /// Hands on the absences since the last time; `all` of them, once no more are to come.
    pub(super) fn absences(&mut self, all: bool, mut take: impl FnMut(Absence)) {
        match self {
            Self::Pages(pages, _, starter) => pages.absences(|absence| {
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
                // The slot of the thread that started the program is empty again.
                let there = pages.all().into_iter().filter(|counts| counts.tid > 0);
                there.map(|counts| thread(&counts)).collect()
            }
            Self::Records(records) => records.threads(),
        }
    }

    /// Their processes.
    pub(super) fn pids(&self) -> BTreeSet<u32> {
        match self {
            Self::Pages(pages, ..) => pages.all().iter().map(|counts| counts.pid).collect(),
            Self::Records(records) => records.threads().iter().map(|thread| thread.pid).collect(),
        }
    }

    /// Absences, or records of switches, that found no room; and threads.
    pub(super) fn lost(&self) -> (u64, u64) {
        match self {
            Self::Pages(pages, ..) => (pages.lost(), pages.unfollowed()),
            Self::Records(records) => (records.lost(), 0),
        }
    }

    /// The time that following took: in the kernel, if known, and `own_ns` outside.
    pub(super) fn took(&self, own_ns: u64) -> Took {
        let programs = match self {
            Self::Pages(pages, Some(_counted), _) => pages.programs().ok(),
            _ => None,
        };
        let sum = |of: fn(&ProgramInfo) -> u64| {
            programs.as_ref().map(|programs| programs.iter().map(|(_, info)| of(info)).sum())
        };
        Took { own_ns, programs_ns: sum(|info| info.run_time_ns), runs: sum(|info| info.runs) }
    }
}

fn own_tid() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

fn told(absence: &control::Absence) -> Absence {
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
        // The idle thread has the number 0 on every CPU.
        by: absence.preempted.then(|| (absence.by, text(&absence.by_name))),
    }
}

fn thread(counts: &Counts) -> ObservedThread {
    let name = || {
        let name = std::fs::read_to_string(format!("/proc/{0}/task/{0}/comm", counts.tid));
        name.map(|name| name.trim_end().to_owned()).unwrap_or_default()
    };
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
    }
}
