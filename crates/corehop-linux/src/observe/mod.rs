// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recording an unmodified program: the preemptions and migrations of its threads, with lengths and
//! preempters.
//!
//! The control pages follow its threads from the first one on ([`Mode::Follow`]). Without BPF, records of
//! switches follow them and do not name the preempter. This thread empties their rings and waits.
//!
//! [`Mode::Follow`]: crate::bpf::control::Mode::Follow

mod follower;
mod records;
mod target;
mod working_set;

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use corehop_core::samples::{Absence, Recording};

use crate::bpf::BpfError;
use crate::clock::monotonic_ns;
use crate::control_page::Method;
use crate::supervisor::interrupt;

use follower::Follower;
use target::Followed;
pub use target::Target;
pub use working_set::WINDOW;
use working_set::WorkingSets;

/// Why a program is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The kernel does not run the programs that it takes.
    #[error("recording a program by BPF: {0}")]
    Bpf(#[from] BpfError),
    /// The kernel gives no records of switches.
    #[error(
        "recording a program by perf_event_open(2): {0}; it needs `sysctl kernel.perf_event_paranoid=2` or lower, \
         and a descriptor for each of its threads and each CPU (`ulimit -n`)"
    )]
    Records(#[source] io::Error),
    /// Neither is available.
    #[error(
        "recording a program needs BPF: {bpf}; or perf_event_open(2): {records}, which \
         `sysctl kernel.perf_event_paranoid=2` allows"
    )]
    Neither {
        /// Why not the one.
        bpf: BpfError,
        /// Why not the other.
        records: io::Error,
    },
    /// There is nothing of that name to be recorded.
    #[error("{what}: {source}")]
    NoTarget {
        /// What was named.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is there, and the kernel does not let it be followed.
    #[error("following {what}: {source}")]
    NotFollowed {
        /// What was named.
        what: String,
        /// What the kernel said, with the remedy.
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

/// How a program is recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// For how long at most.
    pub most: Option<Duration>,
    /// Whether what its processes touch is sampled: they pay for it.
    pub estimate_wss: bool,
    /// By which way; by the best there is if none is named.
    pub method: Option<Method>,
}

/// Between two looks at the ring, which holds some 50,000 absences.
const PERIOD: Duration = Duration::from_millis(50);
/// Absences that are kept; more are counted.
const MOST_KEPT: usize = 2_000_000;

/// Records until the target ends, its time is over, or the run is interrupted.
///
/// # Errors
/// Where the target cannot be had, or there is no way to record it.
pub fn record(target: &Target, how: &How) -> Result<Recording, ObserveError> {
    let (mut follower, why_not_bpf) = Follower::at(how.method)?;
    let own_ns = process_cpu_ns();
    let (begin, began_ns) = (Instant::now(), monotonic_ns());
    let mut followed = Followed::begin(target, &mut follower)?;
    let mut kept = Kept::default();
    let mut working_sets = how.estimate_wss.then(WorkingSets::begin);
    let status = loop {
        follower.absences(false, |absence| kept.take(absence));
        if let Some(end) = followed.ended(&mut follower)? {
            break end.status;
        }
        if how.most.is_some_and(|most| begin.elapsed() >= most) || interrupt::requested() {
            break None;
        }
        if let Some(working_sets) = &mut working_sets {
            working_sets.look(&follower);
        }
        std::thread::sleep(PERIOD);
    };
    let span_ns = monotonic_ns().saturating_sub(began_ns);
    follower.absences(true, |absence| kept.take(absence));
    let threads = follower.threads();
    // The thread that started the program was away now and then, too.
    let its_own: HashSet<u32> = threads.iter().map(|thread| thread.tid).collect();
    kept.absences.retain(|absence| its_own.contains(&absence.tid));
    let (lost, unfollowed) = follower.lost();
    Ok(Recording {
        what: target.to_string(),
        status,
        method: follower.method().name().to_owned(),
        why_not_bpf,
        began_ns,
        span_ns,
        rss_bytes: followed.rss_bytes(),
        touched_bytes: working_sets.map(|it| it.samples).unwrap_or_default(),
        threads,
        absences: kept.absences,
        lost,
        unfollowed,
        not_kept: kept.more,
        took: follower.took(process_cpu_ns().saturating_sub(own_ns)),
    })
}

/// The absences so far.
#[derive(Debug, Default)]
struct Kept {
    absences: Vec<Absence>,
    /// Those beyond [`MOST_KEPT`].
    more: u64,
}

impl Kept {
    fn take(&mut self, absence: Absence) {
        if self.absences.len() < MOST_KEPT {
            self.absences.push(absence);
        } else {
            self.more += 1;
        }
    }
}

/// A name of the kernel's: up to the first zero.
fn text(name: &[u8; 16]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn process_cpu_ns() -> u64 {
    crate::clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).cast_unsigned()
}
