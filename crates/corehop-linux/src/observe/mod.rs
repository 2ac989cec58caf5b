// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the preemptions and migrations of an unmodified program's threads, with lengths and preempting threads.
//!
//! The control pages follow the program's threads from the first one on ([`PagePurpose::Follow`]). Without BPF,
//! records of context switches follow the threads but do not name the preempting thread. The calling thread empties
//! the rings and waits.
//!
//! [`PagePurpose::Follow`]: crate::bpf::control::PagePurpose::Follow

mod account;
mod follower;
mod host;
mod moves;
mod records;
mod target;
pub(crate) mod working_set;

use std::io;
use std::time::{Duration, Instant};

use corehop_plan::experiment::{PlanError, Target};
use corehop_plan::host::{Host, HostError, Observation, ProgramExit};
use corehop_plan::machine::{MachineError, RunEnd, SinkError};
use corehop_plan::samples::{ProgramRecord, RecordingFacts, Took};

use crate::bpf::BpfError;
use crate::control_page::AbsenceMethod;
use corehop_system::clock::monotonic_ns;
use corehop_system::proc::{cut, shown};
use corehop_system::supervisor::interrupt;

pub use host::LiveHost;
pub(crate) use moves::{Moves, way_back};
pub use target::check_command;
pub(crate) use target::{cgroup, command_of, exit_code, members, pass_on, reap_child};
pub use working_set::WINDOW;

/// The reason why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The kernel does not run the required BPF programs.
    #[error("corehop cannot record the program with BPF: {0}")]
    Bpf(#[from] BpfError),
    /// The kernel provides no records of context switches.
    #[error(
        "corehop cannot record the program with perf_event_open(2): {0}; the call needs `sysctl kernel.perf_event_paranoid=2` or lower, \
         and a descriptor for each thread of the program and each CPU (`ulimit -n`)"
    )]
    Records(#[source] io::Error),
    /// Neither BPF nor switch records are available.
    #[error(
        "recording a program needs BPF: {bpf}; or perf_event_open(2): {records}, which \
         `sysctl kernel.perf_event_paranoid=2` allows"
    )]
    Neither {
        /// The reason why BPF is not available.
        bpf: BpfError,
        /// The reason why switch records are not available.
        records: io::Error,
    },
    /// The target does not exist.
    #[error("{what}: {source}")]
    NoTarget {
        /// The target, as the user named it.
        what: String,
        /// The error that the kernel reported.
        source: io::Error,
    },
    /// The target exists, but the kernel does not allow following it.
    #[error("corehop cannot follow {what}: {source}")]
    NotFollowed {
        /// The target, as the user named it.
        what: String,
        /// The error that the kernel reported, with the remedy.
        source: io::Error,
    },
    /// A step of the recording failed on this host.
    #[error("{what}: {source}")]
    Failed {
        /// The step that failed.
        what: &'static str,
        /// The error that the kernel reported.
        source: io::Error,
    },
    /// The receiver of the records failed.
    #[error("corehop could not store the records: {0}")]
    Sink(#[source] SinkError),
}

/// The options of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// Whether to sample the pages that the processes touch, which slows them down.
    pub estimate_wss: bool,
    /// Whether the output of a command goes to stderr, because stdout is reserved for the answer.
    pub to_stderr: bool,
    /// The method of detection; `None` selects the best available one.
    pub method: Option<AbsenceMethod>,
}

/// The time between two readings of the buffer, which has room for some 50,000 absences.
const PERIOD: Duration = Duration::from_millis(50);
/// The time that an interrupted program has to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Receives the records, and returns whether to continue.
pub type ProgramReceiver<'a> = dyn FnMut(&[ProgramRecord]) -> Result<bool, SinkError> + 'a;

/// Records until the target ends or `take` returns false. `take` is called after each window, and once more at the
/// end with the counts of the threads.
///
/// # Errors
/// Fails with [`ObserveError`] if the target does not exist, no method is available, or `take` fails.
pub fn record(
    target: &Target,
    how: &How,
    take: &mut ProgramReceiver<'_>,
) -> Result<(RecordingFacts, RunEnd), ObserveError> {
    let own_ns = process_cpu_ns();
    let (begin, began_ns, switches) = (Instant::now(), monotonic_ns(), account::switches());
    // A program that was started gets the signal as well, and is waited for.
    let spared = matches!(target, Target::Command(_)).then(interrupt::spare);
    let mut host = LiveHost::begin(target, how)?;
    let (ended, end) = watch(&mut host, take)?;
    drop(spared);
    let span_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let switches = account::switches().zip(switches).map(|(end, begin)| end.saturating_sub(begin));
    host.follower.settle();
    let mut last = Vec::new();
    host.follower.absences(true, |absence| last.push(ProgramRecord::Absence(absence)));
    last.extend(host.threads().into_iter().map(ProgramRecord::Thread));
    take(&last).map_err(ObserveError::Sink)?;
    host.limits.look(host.follower.pids().into_iter());
    let (lost, unfollowed) = host.follower.lost();
    let (others, idle_ns) = host.follower.held().unzip();
    let own_ns = process_cpu_ns().saturating_sub(own_ns);
    let facts = RecordingFacts {
        what: target.to_string(),
        status: ended.status,
        method: host.follower.method().name().to_owned(),
        why_not_bpf: host.why_not_bpf,
        began_ns,
        span_ns,
        cpu_ns: ended.cpu_ns,
        rss_bytes: host.followed.rss_bytes(),
        touched_bytes: host.working_sets.map(|it| it.samples).unwrap_or_default(),
        lost,
        unfollowed,
        others,
        idle_ns,
        ran: host.follower.ran(),
        allowed: host.allowed,
        limits: host.limits.so_far(),
        trace: None,
        took: Took { own_ns, switches: host.follower.end(switches), ..Took::default() },
    };
    Ok((facts, end))
}

/// Passes absences on, window by window, until the threads end or `take` returns false.
fn watch(
    host: &mut LiveHost,
    take: &mut ProgramReceiver<'_>,
) -> Result<(ProgramExit, RunEnd), ObserveError> {
    let mut ending: Option<Instant> = None;
    loop {
        let Observation { absences, ended, .. } = host.observe(PERIOD)?;
        let records: Vec<_> = absences.into_iter().map(ProgramRecord::Absence).collect();
        // Without a record too: the receiver may want to end.
        let goes_on = take(&records).map_err(ObserveError::Sink)?;
        if let Some(ended) = ended {
            return Ok((ended, RunEnd::Complete));
        }
        if !goes_on && ending.is_none() {
            if !interrupt::signal().is_some_and(|signal| host.followed.pass_on(signal)) {
                return Ok((ProgramExit::default(), RunEnd::Stopped));
            }
            // The program was asked to end as well, and its end is part of the recording.
            ending = Some(Instant::now());
        }
        if ending.is_some_and(|since| since.elapsed() > PATIENCE) {
            return Ok((ProgramExit::default(), RunEnd::Stopped));
        }
    }
}

/// Returns a name from the kernel as text, up to the first zero byte.
fn text(name: &[u8; 16]) -> String {
    shown(cut(name))
}

fn process_cpu_ns() -> u64 {
    corehop_system::clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).cast_unsigned()
}

impl From<HostError> for ObserveError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Observe { what, source } => Self::Failed { what, source },
            HostError::Move { .. } => {
                Self::Failed { what: "moving a thread", source: io::Error::other(error) }
            }
        }
    }
}

impl From<ObserveError> for MachineError {
    fn from(error: ObserveError) -> Self {
        let why = error.to_string();
        match error {
            ObserveError::Bpf(_)
            | ObserveError::Records(_)
            | ObserveError::Neither { .. }
            | ObserveError::NotFollowed { .. } => Self::Refused(why),
            ObserveError::NoTarget { what, source } => {
                Self::Plan(PlanError::NoProgram { what, why: source.to_string() })
            }
            ObserveError::Failed { what, source } => {
                Self::Failed { what: what.to_owned(), why: source.to_string() }
            }
            ObserveError::Sink(error) => Self::Sink(error),
        }
    }
}
