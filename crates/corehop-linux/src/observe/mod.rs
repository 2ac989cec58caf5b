// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording a program that nobody has prepared: when its threads were preempted or migrated, for how
//! long, and by whom.
//!
//! The control pages follow its threads from the first one on ([`Mode::Follow`]); this thread empties
//! their ring and waits.

mod target;
mod working_set;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corehop_core::samples::{Absence, ObservedThread, Recording, Took};
use corehop_core::units::Cpu;

use crate::bpf::control::{self, ControlPages, Counts, Mode};
use crate::bpf::{BpfError, RunTimeStatistics};
use crate::clock::monotonic_ns;
use crate::page::Rung;
use crate::supervisor::interrupt;

use target::Followed;
pub use target::Target;
pub use working_set::WINDOW;
use working_set::WorkingSets;

/// Why a program is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The kernel does not run the programs that it takes.
    #[error("recording a program takes BPF: {0}")]
    Bpf(#[from] BpfError),
    /// There is nothing of that name to be recorded.
    #[error("{what}: {source}")]
    NoTarget {
        /// What was named.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The host failed.
    #[error("{what}: {source}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Between two looks at the ring, which holds some 50,000 absences.
const PERIOD: Duration = Duration::from_millis(50);
/// Absences that are kept; more are counted.
const MOST_KEPT: usize = 2_000_000;

/// Records until the target ends, `most` is over, or the run is interrupted; and samples what its processes
/// touch, where that is wanted: they pay for it.
///
/// # Errors
/// Where the target cannot be had, or the kernel does not run the programs.
pub fn record(
    target: &Target,
    most: Option<Duration>,
    estimate_wss: bool,
) -> Result<Recording, ObserveError> {
    let pages = ControlPages::open(Mode::Follow)?;
    // Only with CAP_SYS_ADMIN; without it the time is not known, and the result says so.
    let statistics = RunTimeStatistics::begin().ok();
    let own_ns = process_cpu_ns();
    let begin = Instant::now();
    let began_ns = monotonic_ns();
    let mut followed = Followed::begin(target, &pages)?;
    let mut kept = Kept::default();
    let mut working_sets = estimate_wss.then(WorkingSets::begin);
    let over = |begin: Instant| most.is_some_and(|most| begin.elapsed() >= most);
    let status = loop {
        kept.take(&pages);
        if let Some(end) = followed.ended(&pages)? {
            break end.status;
        }
        if over(begin) || interrupt::requested() {
            break None;
        }
        if let Some(working_sets) = &mut working_sets {
            working_sets.look(&pages);
        }
        std::thread::sleep(PERIOD);
    };
    let span_ns = monotonic_ns().saturating_sub(began_ns);
    kept.take(&pages);
    let threads = threads(&pages);
    // The thread that started the program was away now and then, too.
    let its_own: HashSet<u32> = threads.iter().map(|thread| thread.tid).collect();
    kept.absences.retain(|absence| its_own.contains(&absence.tid));
    let took = took(&pages, statistics.is_some(), own_ns);
    Ok(Recording {
        what: target.to_string(),
        status,
        rung: Rung::Bpf.name().to_owned(),
        began_ns,
        span_ns,
        rss_bytes: followed.rss_bytes(),
        touched_bytes: working_sets.map(|it| it.samples).unwrap_or_default(),
        threads,
        absences: kept.absences,
        lost: pages.lost(),
        unfollowed: pages.unfollowed(),
        not_kept: kept.more,
        took,
    })
}

/// The absences so far.
#[derive(Debug, Default)]
struct Kept {
    absences: Vec<Absence>,
    /// Those beyond [`MOST_KEPT`].
    more: u64,
    names: HashMap<[u8; 16], String>,
}

impl Kept {
    fn take(&mut self, pages: &ControlPages) {
        pages.absences(|absence| {
            if self.absences.len() < MOST_KEPT {
                let absence = self.named(&absence);
                self.absences.push(absence);
            } else {
                self.more += 1;
            }
        });
    }

    fn named(&mut self, absence: &control::Absence) -> Absence {
        let name = self.names.entry(absence.by_name).or_insert_with(|| text(&absence.by_name));
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
            by: absence.preempted.then(|| (absence.by, name.clone())),
        }
    }
}

/// A name of the kernel's: up to the first zero.
fn text(name: &[u8; 16]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn threads(pages: &ControlPages) -> Vec<ObservedThread> {
    // The slot of the thread that started the program is empty again.
    let there = pages.all().into_iter().filter(|counts| counts.tid > 0);
    there.map(|counts| thread(&counts)).collect()
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

fn took(pages: &Arc<ControlPages>, counted: bool, own_before_ns: u64) -> Took {
    let programs = pages.programs().ok().filter(|_| counted);
    let sum = |of: fn(&crate::bpf::ProgramInfo) -> u64| {
        programs.as_ref().map(|programs| programs.iter().map(|(_, info)| of(info)).sum())
    };
    Took {
        own_ns: process_cpu_ns().saturating_sub(own_before_ns),
        programs_ns: sum(|info| info.run_time_ns),
        runs: sum(|info| info.runs),
    }
}

fn process_cpu_ns() -> u64 {
    crate::clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).cast_unsigned()
}
